//! `conductor_validate_config`: lists every fault in the file, with its place.

use super::prelude::*;
use conductor_core::config::timing_report::coverage;
use conductor_core::config::{Config, Diagnostic, Loaded, Severity};
use conductor_gateway::surroundings::OwnedSurroundings;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Whether there are no errors
    valid: bool,
    /// Faults that disable a row or reject the file, one line each
    errors: Vec<String>,
    /// Warnings, one line each
    warnings: Vec<String>,
    /// Controls that the configuration uses
    coverage: Coverage,
    /// Errors and warnings with their places
    diagnostics: Vec<Fault>,
}

#[derive(Serialize, JsonSchema)]
struct Coverage {
    /// MIDI controllers
    midi: MidiCoverage,
    /// Gamepads
    hid: HidCoverage,
    /// OSC
    osc: OscCoverage,
}

#[derive(Serialize, JsonSchema)]
struct MidiCoverage {
    /// Number of mapped notes
    notes_used: usize,
    /// Number of mapped controllers
    cc_used: usize,
}

#[derive(Serialize, JsonSchema)]
struct HidCoverage {
    /// Number of mapped buttons
    buttons_used: usize,
}

#[derive(Serialize, JsonSchema)]
struct OscCoverage {
    /// Number of mapped addresses
    addresses_used: usize,
}

#[derive(Serialize, JsonSchema)]
struct Fault {
    /// fatal, error or warning
    severity: &'static str,
    /// What is wrong
    message: String,
    /// How to fix the fault
    help: Option<String>,
    /// Path of the key in the file
    path: String,
    /// From 1
    line: u32,
    /// From 1
    column: u32,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_validate_config", Tier::ReadOnly, TOOLSET, owner, run).text(
        "Validate configuration",
        "Checks config.toml on disk, whether or not it is in force, against the existing tools, plugins and ports. Errors disable single \
         rows; fatal errors reject the whole file. Also counts the notes, controllers, buttons and addresses in use.",
    )
}

async fn run(owner: OwnerHandle, cx: Context, _args: NoArgs) -> Result<Answer, ToolError> {
    let text = super::conductor_get_config::file(&cx.studio)?;
    let around = OwnedSurroundings::read(&cx.studio, &owner).await;
    Ok(report(&text, around.load(&cx.studio, &text)))
}

fn report(text: &str, loaded: Loaded) -> Answer {
    let counted = coverage(loaded.config.as_ref().unwrap_or(&Config::default()));
    let lines = |warnings: bool| -> Vec<String> {
        let wanted = |severity: Severity| (severity == Severity::Warning) == warnings;
        loaded.diagnostics.iter().filter(|it| wanted(it.severity)).map(|it| it.summary()).collect()
    };
    let mut errors = lines(false);
    if text.trim().is_empty() {
        errors.push("the file is empty".to_owned());
    }
    Answer {
        valid: errors.is_empty(),
        errors,
        warnings: lines(true),
        coverage: Coverage {
            midi: MidiCoverage { notes_used: counted.notes_used, cc_used: counted.cc_used },
            hid: HidCoverage { buttons_used: counted.buttons_used },
            osc: OscCoverage { addresses_used: counted.addresses_used },
        },
        diagnostics: loaded.diagnostics.into_iter().map(Fault::of).collect(),
    }
}

impl Fault {
    fn of(it: Diagnostic) -> Self {
        let Diagnostic { severity, message, help, path, line, column, .. } = it;
        Fault { severity: severity.as_str(), message, help, path, line, column }
    }
}
