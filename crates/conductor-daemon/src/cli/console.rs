//! `conductor console`: prints a one-time link to the console, opens it in a browser, and lists or
//! ends sessions.
//!
//! The page behind the link can approve requests. So the daemon gives the link only to a person,
//! and this command prints it only on a terminal.

use super::args::{ConsoleArgs, ConsoleCommand};
use super::{Failure, Verdict, approvals, ask, ask_and_show, list, out::Out, text};
use crate::home::Home;
use serde_json::json;
use std::io::{self, IsTerminal};
use std::process::{Command, Stdio};

pub fn run(args: ConsoleArgs, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    approvals::at_a_terminal()?;
    match args.command {
        Some(ConsoleCommand::Sessions) => ask_and_show(home, out, ("console.sessions", json!({})), |out, answer| {
            let sessions = list(answer, "sessions");
            if sessions.is_empty() {
                return out.line("no console is open");
            }
            sessions.iter().try_for_each(|it| {
                let state = if it["is_open"] == true { "open" } else { "closed" };
                let (name, since, until) = (text(it, "session"), text(it, "opened_at"), text(it, "expires_at"));
                out.line(format_args!("{name}  {state:<6}  since {since}, until {until}"))
            })
        }),
        Some(ConsoleCommand::Revoke { session, all: _ }) => {
            ask_and_show(home, out, ("console.revoke", json!({ "session": session })), |out, answer| {
                out.line(format_args!("{} sessions ended", answer["ended"]))
            })
        }
        None if args.open => open(home, out),
        None => {
            if !io::stdout().is_terminal() {
                return Err(Failure::Text(
                    "the link is printed only on a terminal: run this command in one, without a pipe".to_owned(),
                ));
            }
            ask_and_show(home, out, ("console.link", json!({})), |out, answer| {
                out.line(text(answer, "link"))?;
                out.line(format_args!("Open this link within {} seconds. It works once.", answer["seconds"]))
            })
        }
    }
}

/// Opens the browser with a redirect file: the arguments of a program are visible to every process,
/// and the file is not.
fn open(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let answer = ask(home, "console.link", json!({ "open": true }))?;
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let opened = Command::new(program)
        .arg(text(&answer, "file"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match opened {
        Ok(_) => {
            out.line("The browser opens the console. If nothing appears, run `conductor console` and open its link.")?;
            Ok(Verdict::Good)
        }
        Err(error) => Err(Failure::Text(format!(
            "{program} cannot be started: {error}; run `conductor console` and open its link"
        ))),
    }
}
