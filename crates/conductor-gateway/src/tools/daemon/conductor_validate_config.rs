//! `conductor_validate_config`: every fault of the file, with its place.

use super::prelude::*;
use super::surroundings::OwnedSurroundings;
use conductor_core::config::timing_report::coverage;
use conductor_core::config::{Config, Loaded, Severity};

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_validate_config", Tier::ReadOnly, owner, |owner, studio, _clearance, _arguments| async move {
        let text = super::conductor_get_config::file(&studio)?;
        let around = OwnedSurroundings::read(&studio, &owner).await;
        Ok(Output::new(report(&text, around.load(&studio, &text))))
    })
    .text(
        "Validate configuration",
        "Checks config.toml on disk, whether or not it is in force, against the existing tools, plugins and ports. Errors disable single \
         rows; fatal errors reject the whole file. Also counts the notes, controllers, buttons and addresses in use.",
    )
    .output(object(json!({
        "valid": boolean(), "errors": list(text()), "warnings": list(text()),
        "coverage": object(json!({
            "midi": object(json!({ "notes_used": integer(), "cc_used": integer() })),
            "hid": object(json!({ "buttons_used": integer() })),
            "osc": object(json!({ "addresses_used": integer() })),
        })),
        "diagnostics": list(object(json!({
            "severity": text(), "message": text(), "help": nullable(text()), "path": text(), "line": integer(), "column": integer(),
        }))),
    })))
}

fn report(text: &str, loaded: Loaded) -> Value {
    let counted = coverage(loaded.config.as_ref().unwrap_or(&Config::default()));
    let lines = |warnings: bool| -> Vec<String> {
        let wanted = |severity: Severity| (severity == Severity::Warning) == warnings;
        loaded.diagnostics.iter().filter(|it| wanted(it.severity)).map(|it| it.summary()).collect()
    };
    let mut errors = lines(false);
    if text.trim().is_empty() {
        errors.push("the file is empty".to_owned());
    }
    let diagnostics = loaded.diagnostics.iter().map(|it| {
        json!({
            "severity": it.severity.as_str(), "message": it.message, "help": it.help, "path": it.path, "line": it.line, "column": it.column,
        })
    });
    json!({
        "valid": errors.is_empty(), "warnings": lines(true),
        "coverage": {
            "midi": { "notes_used": counted.notes_used, "cc_used": counted.cc_used },
            "hid": { "buttons_used": counted.buttons_used },
            "osc": { "addresses_used": counted.addresses_used },
        },
        "diagnostics": diagnostics.collect::<Vec<_>>(), "errors": errors,
    })
}
