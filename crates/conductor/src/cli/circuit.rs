//! `conductor circuit`: lists and resets the tools and targets that are disabled after failures.

use super::args::CircuitCommand;
use super::{Failure, Verdict, ask_and_show, list, out::Out, text};
use crate::home::Home;
use serde_json::json;

pub fn run(command: &CircuitCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        CircuitCommand::List => ask_and_show(home, out, ("circuit.list", json!({})), |out, answer| {
            let circuits = list(answer, "circuits");
            if circuits.is_empty() {
                return out.line("no tool has failed");
            }
            for it in circuits {
                let (state, failures) = (text(it, "state"), &it["failures"]);
                out.line(format_args!("{:<32} {state:<8} {failures} failures", text(it, "tool")))?;
                for it in list(it, "targets") {
                    let (state, failures) = (text(it, "state"), &it["failures"]);
                    out.line(format_args!("  {:<30} {state:<8} {failures} failures", text(it, "target")))?;
                }
            }
            Ok(())
        }),
        CircuitCommand::Reset { tool, all } => {
            super::approvals::at_a_terminal()?;
            if tool.is_none() && !all {
                return Err(Failure::Text("name a tool, or use --all".into()));
            }
            ask_and_show(home, out, ("circuit.reset", json!({ "tool": tool })), |out, answer| {
                out.line(format_args!("reset {}", text(answer, "reset")))
            })
        }
    }
}
