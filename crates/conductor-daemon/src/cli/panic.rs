//! `conductor panic`: releases every note and key, and silences every output.

use super::call::tool_and_show;
use super::{Failure, Verdict, list, out::Out};
use crate::home::Home;
use serde_json::json;

pub fn run(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    tool_and_show(home, out, ("conductor_panic", json!({})), |out, report| {
        let count = |key: &str| report[key].as_u64().unwrap_or(0);
        out.line(format_args!(
            "silenced {} ports; released {} notes and {} keys; cancelled {} actions",
            list(report, "ports").len(),
            count("notes_released"),
            count("keys_released"),
            count("actions_cancelled")
        ))?;
        report["audit"].as_str().map_or(Ok(()), |state| out.line(format_args!("audit record: {state}")))
    })
}
