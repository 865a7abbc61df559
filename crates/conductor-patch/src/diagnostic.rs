//! Oddities of a file that do not prevent opening it.

/// How much a diagnostic matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Something in the file is broken; it is kept as it is.
    Warning,
}

/// A fault that was tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// A description of the oddity.
    pub message: String,
    /// 1-based line in the file.
    pub line: Option<usize>,
    /// The box or cord concerned.
    pub subject: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(severity: Severity, message: String) -> Diagnostic {
        Diagnostic { severity, message, line: None, subject: None }
    }
}
