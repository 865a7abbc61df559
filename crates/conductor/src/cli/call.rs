//! `conductor call`: any tool, through the pipeline, with its result as JSON.

use super::args::Call;
use super::{Failure, Verdict, ask, out::Out};
use crate::daemon::home::Home;
use serde_json::{Value, json};

pub fn run(args: &Call, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let arguments: Value = match &args.arguments {
        None => json!({}),
        Some(text) => {
            serde_json::from_str(text).map_err(|error| Failure::Text(format!("the arguments are not JSON: {error}")))?
        }
    };
    let result = ask(home, "call", json!({ "tool": args.tool, "arguments": arguments }))?;
    // A result is for programs either way; at a terminal it is only easier on the eye.
    if out.is_json() { out.value(&result) } else { out.line(format_args!("{result:#}")) }?;
    Ok(Verdict::Good)
}
