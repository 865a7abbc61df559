//! `conductor secrets`: stores the secrets that tools need. A value is typed without echo or read
//! from stdin. It is never a command line argument, because other programs can read those.

use super::args::SecretsCommand;
use super::out::{Out, Tone, cell};
use super::{Failure, Verdict, approvals::at_a_terminal, ask, ask_and_show, list, text, texts};
use crate::home::Home;
use conductor_hosts::system::terminal::Hidden;
use serde_json::json;
use std::io::{self, IsTerminal, Read, Write};
use zeroize::Zeroizing;

const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const CTRL_U: u8 = 0x15;
const BACKSPACE: u8 = 0x08;
const DELETE: u8 = 0x7f;

pub fn run(command: SecretsCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        SecretsCommand::Set { name, hosts, allow_key_file } => {
            let value = value(&format!("Value of {name} (not shown): "))?;
            let params = json!({ "name": name, "value": *value, "hosts": hosts, "allow_key_file": allow_key_file });
            ask_and_show(home, out, ("secrets.set", params), |out, stored| {
                out.line(format_args!("stored {} (version {})", text(stored, "name"), stored["version"]))
            })
        }
        SecretsCommand::List => ask_and_show(home, out, ("secrets.list", json!({})), |out, answer| {
            let secrets = list(answer, "secrets");
            if secrets.is_empty() {
                return out.line("no secrets; `conductor secrets set NAME` stores one");
            }
            let rows = secrets.iter().map(|it| {
                let hosts = texts(it, "hosts").join(", ");
                let hosts = if hosts.is_empty() { "no host" } else { &hosts };
                let version = cell(format_args!("version {}", it["version"]));
                let fault = Tone::Bad.cell(it["fault"].as_str().unwrap_or(""));
                vec![Tone::Strong.cell(text(it, "name")), version, cell(hosts), fault]
            });
            out.table(&rows.collect::<Vec<_>>())
        }),
        SecretsCommand::Remove { name } => {
            at_a_terminal()?;
            ask_and_show(home, out, ("secrets.remove", json!({ "name": name })), |out, _| {
                out.line(format_args!("removed {name}"))
            })
        }
        SecretsCommand::Status => {
            let status = ask(home, "secrets.list", json!({}))?;
            out.show(&status, |out, status| {
                out.line(format_args!("key      {} ({})", text(status, "key"), text(status, "sentence")))?;
                out.line(format_args!("secrets  {}", status["count"]))
            })?;
            Ok(Verdict::good_if(status["open"] != false))
        }
        SecretsCommand::Rotate => {
            at_a_terminal()?;
            ask_and_show(home, out, ("secrets.rotate", json!({})), |out, done| {
                out.line(format_args!("created a new key; {} secrets were encrypted again", done["sealed"]))
            })
        }
    }
}

/// Maximum length of a value on stdin, in bytes.
const LONGEST: usize = 1 << 17;

/// Reads a value from the terminal without echo. If stdin is not a terminal, reads it to its end.
/// Line breaks at the end are removed.
pub fn value(question: &str) -> Result<Zeroizing<String>, Failure> {
    let mut value = Zeroizing::new(String::new());
    if io::stdin().is_terminal() {
        hidden_line(question, &mut value)?;
    } else {
        piped(io::stdin().lock(), &mut value)?;
    }
    while value.ends_with(['\n', '\r']) {
        value.pop();
    }
    if value.is_empty() {
        return Err(Failure::Text("no value was given".into()));
    }
    Ok(value)
}

fn piped(input: impl Read, value: &mut String) -> io::Result<()> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST + 1));
    input.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > LONGEST {
        return Err(io::Error::other(format!("the value is too long: at most {LONGEST} bytes are read from stdin")));
    }
    value.push_str(std::str::from_utf8(&bytes).map_err(|_| io::Error::other("the input is not UTF-8"))?);
    Ok(())
}

/// Turns the echo off before the question is shown, so that keys typed at once are neither shown
/// nor lost. Keys are read one by one, so that Ctrl-C can be handled and the terminal restored.
fn hidden_line(question: &str, line: &mut String) -> io::Result<()> {
    let mut hidden = Hidden::begin()?;
    let typed = io::stderr().write_all(question.as_bytes()).and_then(|()| typed_line(|| hidden.read_byte()));
    drop(hidden);
    io::stderr().write_all(b"\n")?;
    let typed = typed?;
    line.push_str(std::str::from_utf8(&typed).map_err(|_| io::Error::other("the input is not UTF-8"))?);
    Ok(())
}

fn typed_line(mut next: impl FnMut() -> io::Result<Option<u8>>) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(1 << 10));
    while let Some(key) = next()? {
        match key {
            b'\n' | b'\r' | CTRL_D => break,
            CTRL_C => return Err(io::Error::new(io::ErrorKind::Interrupted, "ended by Ctrl-C; nothing was changed")),
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => while line.pop().is_some_and(|it| it & 0xc0 == 0x80) {},
            other => line.push(other),
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_too_long_is_refused_and_never_shortened() {
        let piped = |text: &str| {
            let mut value = String::new();
            super::piped(text.as_bytes(), &mut value).map(|()| value)
        };
        let longest = "\u{e9}".repeat(LONGEST / 2);
        assert_eq!(piped(&longest).unwrap(), longest);
        assert!(piped(&(longest + "x")).unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn a_hidden_line_is_edited_with_the_usual_keys() {
        let typed = |keys: &[u8]| {
            let mut keys = keys.iter();
            typed_line(|| Ok(keys.next().copied())).map(|it| String::from_utf8(it.to_vec()).unwrap())
        };
        assert_eq!(typed(b"open\nmore").unwrap(), "open");
        assert_eq!(typed("wrong\x15caf\u{e9}\x7fe".as_bytes()).unwrap(), "cafe");
        assert_eq!(typed(b"\x08\x7f\x04").unwrap(), "");
        assert_eq!(typed(b"half\x03").unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
