//! `conductor circuit`: which tools are off after failures, and for which targets.

use super::args::{Circuit, CircuitCommand};
use super::{Failure, Verdict, ask, list, out::Out, text};
use crate::home::Home;
use serde_json::json;

pub fn run(args: &Circuit, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match &args.command {
        CircuitCommand::List => {
            let answer = ask(home, "circuit.list", json!({}))?;
            out.show(&answer, |out, answer| {
                if list(answer, "circuits").is_empty() {
                    return out.line("no tool has failed");
                }
                for circuit in list(answer, "circuits") {
                    out.line(format_args!(
                        "{:<32} {:<8} {} failures",
                        text(circuit, "tool"),
                        text(circuit, "state"),
                        circuit["failures"]
                    ))?;
                    for target in list(circuit, "targets") {
                        out.line(format_args!(
                            "  {:<30} {:<8} {} failures",
                            text(target, "target"),
                            text(target, "state"),
                            target["failures"]
                        ))?;
                    }
                }
                Ok(())
            })?;
        }
        CircuitCommand::Reset { tool, all } => {
            super::approvals::at_a_terminal()?;
            if tool.is_none() && !all {
                return Err(Failure::Text("name a tool, or say --all".into()));
            }
            let answer = ask(home, "circuit.reset", json!({ "tool": tool }))?;
            out.show(&answer, |out, answer| out.line(format_args!("reset {}", text(answer, "reset"))))?;
        }
    }
    Ok(Verdict::Good)
}
