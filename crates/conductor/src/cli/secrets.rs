//! `conductor secrets`: values that tools need and nobody should see. A value is typed without echo or comes from stdin, never from
//! the command line, which other programs can read.

use super::args::{Secrets, SecretsCommand};
use super::{Failure, Verdict, approvals::at_a_terminal, ask, list, out::Out, text};
use crate::daemon::home::Home;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use zeroize::Zeroizing;

pub fn run(args: Secrets, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match args.command {
        SecretsCommand::Set { name, hosts, allow_key_file } => {
            let value = value(&format!("Value of {name} (not shown): "))?;
            let params = json!({ "name": name, "value": *value, "hosts": hosts, "allow_key_file": allow_key_file });
            let stored = ask(home, "secrets.set", params)?;
            out.show(&stored, |out, stored| {
                out.line(format_args!("stored {} (version {})", text(stored, "name"), stored["version"]))
            })?;
        }
        SecretsCommand::List => {
            let answer = ask(home, "secrets.list", json!({}))?;
            out.show(&answer, |out, answer| {
                if list(answer, "secrets").is_empty() {
                    return out.line("no secrets; `conductor secrets set NAME` stores one");
                }
                for it in list(answer, "secrets") {
                    let hosts: Vec<&str> = list(it, "hosts").iter().filter_map(Value::as_str).collect();
                    let fault = it["fault"].as_str().map(|it| format!("  {it}")).unwrap_or_default();
                    let hosts = if hosts.is_empty() { "no host".to_owned() } else { hosts.join(", ") };
                    out.line(format_args!("{:<24} version {:<4} {hosts}{fault}", text(it, "name"), it["version"]))?;
                }
                Ok(())
            })?;
        }
        SecretsCommand::Remove { name } => {
            at_a_terminal()?;
            let removed = ask(home, "secrets.remove", json!({ "name": name }))?;
            out.show(&removed, |out, _| out.line(format_args!("removed {name}")))?;
        }
        SecretsCommand::Status => {
            let status = ask(home, "secrets.status", json!({}))?;
            out.show(&status, |out, status| {
                out.line(format_args!("key      {} ({})", text(status, "key"), text(status, "sentence")))?;
                out.line(format_args!("secrets  {}", status["count"]))
            })?;
            if status["open"] == false {
                return Ok(Verdict::Bad);
            }
        }
        SecretsCommand::Rotate => {
            at_a_terminal()?;
            let done = ask(home, "secrets.rotate", json!({}))?;
            out.show(&done, |out, done| out.line(format_args!("a new key; {} secrets sealed again", done["sealed"])))?;
        }
    }
    Ok(Verdict::Good)
}

/// From the terminal without echo, else all of stdin but its last line end.
pub fn value(question: &str) -> Result<Zeroizing<String>, Failure> {
    let mut value = Zeroizing::new(String::new());
    if io::stdin().is_terminal() {
        hidden_line(question, &mut value)?;
    } else {
        io::stdin().lock().take(1 << 17).read_to_string(&mut value)?;
    }
    while value.ends_with(['\n', '\r']) {
        value.pop();
    }
    if value.is_empty() {
        return Err(Failure::Text("nothing was given".into()));
    }
    Ok(value)
}

fn hidden_line(question: &str, line: &mut String) -> io::Result<()> {
    let stdin = io::stdin();
    io::stderr().write_all(question.as_bytes())?;
    let before = tcgetattr(&stdin)?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    hidden.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let read = stdin.lock().read_line(line);
    tcsetattr(&stdin, OptionalActions::Now, &before)?;
    read.map(|_| ())
}
