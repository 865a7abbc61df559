//! Runs a script of events against a configuration, in virtual time and without output.
//!
//! The tool `conductor_simulate`, the console and `conductor simulate` use it.

use crate::owner_handle::no_mode;
use conductor_core::config::Config;
use conductor_core::engine::{SimError, TraceRecord, simulate};
use conductor_core::error::{Code, Subject, ToolError, Violation};
use schemars::JsonSchema;
use serde::Serialize;

/// Maximum number of records in a result. A longer list is truncated, and the result reports that.
const MAX_RECORDS: usize = 2000;

#[derive(Serialize, JsonSchema)]
pub struct Simulated {
    /// The records, oldest first
    trace: Vec<TraceRecord>,
    /// The records, one line each
    text: String,
    /// Present and true if the list of records is incomplete
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// Runs a script on a configuration. Needs no running daemon.
pub fn simulate_script(config: &Config, events: &str, mode: Option<&str>) -> Result<Simulated, ToolError> {
    let simulation = simulate(config, events, mode).map_err(|fault| match fault {
        SimError::Mode(unknown) => no_mode(&unknown.asked, unknown.known.iter().map(String::as_str)),
        SimError::Script(faults) => {
            let violations: Vec<Violation> =
                faults.iter().take(8).map(|it| Violation { path: "/events".into(), message: it.to_string() }).collect();
            let first = violations.first().map(|it| it.message.clone()).unwrap_or_default();
            ToolError::new(Code::BadInput, format!("the script has faults: {first}"))
                .subject(Subject::Argument("/events".into()))
                .violations(violations)
        }
    })?;
    let cut = simulation.truncated || simulation.records.len() > MAX_RECORDS;
    let kept = &simulation.records[..simulation.records.len().min(MAX_RECORDS)];
    let text: String = kept.iter().map(|it| it.line() + "\n").collect();
    Ok(Simulated { text, trace: kept.to_vec(), truncated: cut })
}
