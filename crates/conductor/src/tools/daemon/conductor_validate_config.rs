//! `conductor_validate_config`: every fault of the file, with its place.

use super::{TOOLSET, boolean, integer, list, nullable, object, text};
use crate::daemon::handle::Handle;
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::config::notes::coverage;
use conductor_core::config::{Config, Severity, load};
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::policy::Tier;
use serde_json::{Value, json};

pub fn definition(_owner: &Handle) -> Definition {
    Definition::new("conductor_validate_config", Tier::ReadOnly, TOOLSET, move |studio, _leave, _arguments| async move {
        let path = studio.home.join("config.toml");
        let bytes = std::fs::read(&path).map_err(|fault| {
            ToolError::new(Code::NotFound, format!("config.toml cannot be read: {fault}"))
                .subject(Subject::Config("config.toml".into()))
        })?;
        Ok(Output::new(report(&String::from_utf8_lossy(&bytes))))
    })
    .text(
        "Validate configuration",
        "Checks config.toml as it is on disk now, whether or not it is in force: errors disable single rows, fatal ones keep the whole file \
         out. Also counts the notes, controllers, buttons and addresses in use.",
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

fn report(text: &str) -> Value {
    let loaded = load(text);
    let counted = coverage(loaded.config.as_ref().unwrap_or(&Config::default()));
    let lines = |warnings: bool| -> Vec<String> {
        let wanted = |severity: Severity| (severity == Severity::Warning) == warnings;
        loaded.diagnostics.iter().filter(|it| wanted(it.severity)).map(|it| it.summary()).collect()
    };
    let diagnostics: Vec<Value> = loaded
        .diagnostics
        .iter()
        .map(|it| {
            let severity = match it.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
                Severity::Fatal => "fatal",
            };
            json!({
                "severity": severity, "message": it.message, "help": it.help, "path": it.path, "line": it.line, "column": it.column,
            })
        })
        .collect();
    json!({
        "valid": loaded.valid(), "errors": lines(false), "warnings": lines(true),
        "coverage": {
            "midi": { "notes_used": counted.notes_used, "cc_used": counted.cc_used },
            "hid": { "buttons_used": counted.buttons_used },
            "osc": { "addresses_used": counted.addresses_used },
        },
        "diagnostics": diagnostics,
    })
}
