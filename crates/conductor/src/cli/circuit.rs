//! `conductor circuit`: lists and resets the tools and targets that are disabled after failures.

use super::args::CircuitCommand;
use super::{Failure, Verdict, ask, ask_and_show, list, out::Out, text};
use crate::home::Home;
use serde_json::json;

pub fn run(command: &CircuitCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        CircuitCommand::List => {
            let answer = ask(home, "tools.list", json!({}))?;
            let mut circuits = Vec::new();
            for tool in list(&answer, "tools").iter().filter(|it| it["circuit"].is_object()) {
                let mut circuit = tool["circuit"].clone();
                circuit["tool"] = tool["name"].clone();
                circuits.push(circuit);
            }
            out.show(&json!({ "circuits": circuits }), |out, _| {
                if circuits.is_empty() {
                    return out.line("no tool has failed");
                }
                for it in &circuits {
                    let (state, failures) = (text(it, "state"), &it["failures"]);
                    out.line(format_args!("{:<32} {state:<8} {failures} failures", text(it, "tool")))?;
                    for it in list(it, "targets") {
                        let (state, failures) = (text(it, "state"), &it["failures"]);
                        out.line(format_args!("  {:<30} {state:<8} {failures} failures", text(it, "target")))?;
                    }
                }
                Ok(())
            })
        }
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
