//! `conductor circuit`: lists and resets circuit breakers, which disable a tool or one of its
//! targets after failures.

use super::args::CircuitCommand;
use super::out::{Out, Tone, cell};
use super::{Failure, Verdict, ask, ask_and_show, list, text};
use crate::home::Home;
use serde_json::{Value, json};

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
                    return out.line("no tool has run since the daemon started");
                }
                let row = |name: String, it: &Value| {
                    let state = text(it, "state");
                    vec![cell(name), tone(state).cell(state), cell(format_args!("{} failures", it["failures"]))]
                };
                let mut rows = Vec::new();
                for it in &circuits {
                    rows.push(row(text(it, "tool").to_owned(), it));
                    rows.extend(list(it, "targets").iter().map(|it| row(format!("  {}", text(it, "target")), it)));
                }
                out.table(&rows)
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

fn tone(state: &str) -> Tone {
    match state {
        "Passing" => Tone::Good,
        "Probing" => Tone::Note,
        _ => Tone::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_core::breaker::State;

    #[test]
    fn every_state_of_a_breaker_has_its_colour() {
        for (state, colour) in [(State::Passing, Tone::Good), (State::Probing, Tone::Note), (State::Tripped, Tone::Bad)]
        {
            assert_eq!(tone(&format!("{state:?}")), colour, "{state:?}");
        }
    }
}
