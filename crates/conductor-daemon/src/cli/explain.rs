//! `conductor explain`: shows which mapping an event fires, and why the others do not fire. A
//! running daemon also considers which devices are absent or muted; without a daemon only the file
//! is used.

use super::args::Explain;
use super::{Failure, Verdict, out::Out, tool_or_offline};
use crate::doors::control::client::ClientError;
use crate::home::Home;
use conductor_core::config::Config;
use conductor_core::engine::explain::{Asked, Explanation, explain};
use conductor_core::error::ToolError;
use conductor_core::event::Taint;
use conductor_gateway::owner_handle::{no_mode, one_event};
use serde_json::{Value, json};

pub fn run(args: &Explain, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let mut arguments = json!({ "event": args.event });
    for (key, value) in [("mode", &args.mode), ("device", &args.device)] {
        if let Some(value) = value {
            arguments[key] = json!(value);
        }
    }
    let answer = tool_or_offline(home, out, ("conductor_explain", arguments), |config| offline(config, args))?;
    let explanation: Explanation =
        serde_json::from_value(answer.clone()).map_err(|error| ClientError::Unreadable(error.to_string()))?;
    out.show(&answer, |out, _| out.line(explanation.text().trim_end()))
}

/// Explains an event with a configuration only, as if every device were connected.
fn offline(config: &Config, args: &Explain) -> Result<Value, ToolError> {
    let body = one_event(&args.event)?;
    let mode = args.mode.as_deref().unwrap_or(&config.default_mode);
    if mode != "*" && config.modes.iter().all(|it| it.name != mode) {
        return Err(no_mode(mode, config.modes.iter().map(|it| it.name.as_str())));
    }
    let asked = Asked { mode, device: args.device.as_deref(), muted: false, absent: false, taint: Taint::Clean };
    Ok(json!(explain(config, &body, &asked)))
}
