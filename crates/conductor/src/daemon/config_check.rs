//! A look at a configuration file as it is on disk now: every fault with its place, and what a sound file means for the hand.
//!
//! Not here: what is in force (`config_file`).

use super::config_file::{self, Refusal, Serving};
use conductor_core::config::{Diagnostic, Severity, notes};
use conductor_core::timestamp::Timestamp;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub struct Checked {
    path: PathBuf,
    text: String,
    /// `None` when there is no file.
    found: Option<Result<Serving, Refusal>>,
}

impl Checked {
    pub fn of(path: &Path) -> Self {
        Checked {
            path: path.to_owned(),
            // Only for showing lines; reading it for its meaning reports what is wrong with it.
            text: std::fs::read_to_string(path).unwrap_or_default(),
            found: config_file::read(path, &[], Timestamp::default()).transpose(),
        }
    }

    pub fn exists(&self) -> bool {
        self.found.is_some()
    }

    pub fn is_valid(&self) -> bool {
        self.errors().is_empty()
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        match &self.found {
            None => &[],
            Some(Ok(serving)) => &serving.diagnostics,
            Some(Err(refusal)) => &refusal.diagnostics,
        }
    }

    /// One line each.
    pub fn errors(&self) -> Vec<String> {
        let faults = self.diagnostics().iter().filter(|it| it.severity >= Severity::Error);
        let mut errors: Vec<String> = faults.map(config_file::one_line).collect();
        if let Some(Err(refusal)) = &self.found
            && errors.is_empty()
        {
            // A file that nobody may read has a fault outside its text.
            errors.push(refusal.reason.clone());
        }
        errors
    }

    pub fn warnings(&self) -> Vec<String> {
        let remarks = self.diagnostics().iter().filter(|it| it.severity == Severity::Warning);
        remarks.map(config_file::one_line).collect()
    }

    /// How long presses wait because another gesture begins the same way.
    pub fn waits(&self) -> Vec<String> {
        match &self.found {
            Some(Ok(serving)) => notes::waits(&serving.config).iter().map(ToString::to_string).collect(),
            Some(Err(_)) | None => Vec::new(),
        }
    }

    /// Every fault as a person reads it: the line, a caret under the character, and what to write instead.
    pub fn rendered(&self) -> Vec<String> {
        let name = self.path.file_name().map(|it| it.to_string_lossy()).unwrap_or_default();
        let shown: Vec<String> = self.diagnostics().iter().map(|it| it.render(&self.text, &name)).collect();
        if shown.is_empty() { self.errors() } else { shown }
    }

    pub fn to_json(&self) -> Value {
        let mut value = json!({
            "path": self.path, "exists": self.exists(), "valid": self.is_valid(), "errors": self.errors(),
            "warnings": self.warnings(), "waits": self.waits(),
            "diagnostics": self.diagnostics().iter().map(diagnostic).collect::<Vec<_>>(),
        });
        if let Some(Ok(serving)) = &self.found {
            let used = notes::coverage(&serving.config);
            value["coverage"] = json!({
                "midi": { "notes_used": used.notes_used, "cc_used": used.cc_used },
                "hid": { "buttons_used": used.buttons_used },
                "osc": { "addresses_used": used.addresses_used },
            });
        }
        value
    }
}

fn diagnostic(it: &Diagnostic) -> Value {
    let severity = match it.severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
        Severity::Fatal => "fatal",
    };
    json!({
        "severity": severity, "message": it.message, "help": it.help, "path": it.path,
        "line": it.line, "column": it.column, "start": it.span.start, "end": it.span.end,
    })
}
