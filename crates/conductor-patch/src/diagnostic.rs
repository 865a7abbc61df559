//! Faults in a file that do not prevent opening it.

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// No part of the file is broken.
    Info,
    /// A part of the file is broken; it is kept unchanged.
    Warning,
}

/// A fault that did not prevent opening the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity of the fault.
    pub severity: Severity,
    /// Description of the fault.
    pub message: String,
    /// 1-based line in the file.
    pub line: Option<usize>,
    /// The affected box or cord.
    pub subject: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(severity: Severity, message: String) -> Diagnostic {
        Diagnostic { severity, message, line: None, subject: None }
    }
}
