//! `conductor panic`: releases every note and key, and silences every output.

use super::{Failure, Verdict, ask_and_show, out::Out};
use crate::home::Home;
use serde_json::json;

pub fn run(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    ask_and_show(home, out, ("panic", json!({})), |out, report| {
        let count = |key: &str| report[key].as_u64().unwrap_or(0);
        out.line(format_args!(
            "silenced {} ports; released {} notes and {} keys; cancelled {} actions",
            report["ports"].as_array().map_or_else(|| count("ports"), |it| it.len() as u64),
            count("notes_released"),
            count("keys_released"),
            count("actions_cancelled")
        ))
    })
}
