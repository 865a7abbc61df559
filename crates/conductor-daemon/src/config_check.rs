//! Checks the configuration file that is on disk now. Reports every error with its place, and for a
//! valid file also how long presses wait for other gestures.
//!
//! Not here: the configuration in force (`config_file`).

use crate::config_file::{self, Examine, Refusal};
use conductor_core::config::{self, Diagnostic, Severity, timing_report};
use conductor_core::timestamp::Timestamp;
use conductor_gateway::config_in_force::ConfigInForce;
use conductor_gateway::owner_handle::OwnerHandle;
use conductor_gateway::studio::Studio;
use conductor_gateway::surroundings::OwnedSurroundings;
use conductor_hosts::atomic_file;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Creates a function that finds problems that depend on this machine. It runs on the thread of
/// `config_file` and may wait for the owner.
pub(super) fn examiner(studio: &Arc<Studio>, owner: &OwnerHandle, runtime: tokio::runtime::Handle) -> Examine {
    let (studio, owner) = (Arc::clone(studio), owner.clone());
    Box::new(move |text| {
        let known: BTreeSet<(String, String)> =
            config::load(text).diagnostics.into_iter().map(|it| (it.path, it.message)).collect();
        let surroundings = runtime.block_on(OwnedSurroundings::read(&studio, &owner));
        let mut found = surroundings.load(&studio, text).diagnostics;
        found.retain(|it| !known.contains(&(it.path.clone(), it.message.clone())));
        found
    })
}

pub struct Checked {
    path: PathBuf,
    text: String,
    /// `None` if there is no file.
    found: Option<Result<ConfigInForce, Refusal>>,
}

impl Checked {
    pub fn of(path: &Path) -> Self {
        let found = config_file::read(path, &[], Timestamp::default()).transpose();
        // The text is only used to show lines; `config_file::read` has already reported read
        // errors.
        let text = match &found {
            Some(Ok(serving)) => serving.text.as_deref().unwrap_or_default().to_owned(),
            Some(Err(_)) | None => {
                let bytes = atomic_file::read(path).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        Checked { path: path.to_owned(), text, found }
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

    /// The errors, one line each.
    pub fn errors(&self) -> Vec<String> {
        let faults = self.diagnostics().iter().filter(|it| it.severity >= Severity::Error);
        let mut errors: Vec<String> = faults.map(config_file::one_line).collect();
        if let Some(Err(refusal)) = &self.found
            && errors.is_empty()
        {
            // There are no errors in the text if the file cannot be read. Report the reason.
            errors.push(refusal.reason.clone());
        }
        if matches!(self.found, Some(Ok(_))) && self.text.trim().is_empty() {
            errors.push("config.toml: the file is empty".to_owned());
        }
        errors
    }

    pub fn warnings(&self) -> Vec<String> {
        let remarks = self.diagnostics().iter().filter(|it| it.severity == Severity::Warning);
        remarks.map(config_file::one_line).collect()
    }

    /// The presses that are delayed because another gesture starts with the same press, and their
    /// delays.
    pub fn waits(&self) -> Vec<String> {
        match &self.found {
            Some(Ok(serving)) => timing_report::waits(&serving.config).iter().map(ToString::to_string).collect(),
            Some(Err(_)) | None => Vec::new(),
        }
    }

    /// Every error and warning as text: the line, a caret below the character, and a suggested
    /// correction.
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
            let used = timing_report::coverage(&serving.config);
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
    json!({
        "severity": it.severity.as_str(), "message": it.message, "help": it.help, "path": it.path,
        "line": it.line, "column": it.column, "start": it.span.start, "end": it.span.end,
    })
}
