//! `conductor secrets`: values that tools need and nobody should see. A value is typed without echo
//! or comes from stdin, never from the command line, which other programs can read.

use super::args::{Secrets, SecretsCommand};
use super::{Failure, Verdict, approvals::at_a_terminal, ask, list, out::Out, text};
use crate::home::Home;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use zeroize::Zeroizing;

const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const CTRL_U: u8 = 0x15;
const BACKSPACE: u8 = 0x08;
const DELETE: u8 = 0x7f;

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

/// The terminal is silent before the question stands there: what is typed the moment it can be read
/// must neither show nor be lost. Keys are read one by one, so that Ctrl-C ends the question with
/// the terminal as it was.
fn hidden_line(question: &str, line: &mut String) -> io::Result<()> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    hidden.special_codes[SpecialCodeIndex::VMIN] = 1;
    hidden.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let typed = io::stderr().write_all(question.as_bytes()).and_then(|()| typed_line(&stdin));
    tcsetattr(&stdin, OptionalActions::Now, &before)?;
    io::stderr().write_all(b"\n")?;
    let typed = typed?;
    line.push_str(std::str::from_utf8(&typed).map_err(|_| io::Error::other("what was typed is not UTF-8"))?);
    Ok(())
}

/// The keys up to Enter. Not through the buffer of `Stdin`, which would keep a copy of the secret.
fn typed_line(from: impl AsFd) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(1 << 10));
    let mut key = [0];
    while rustix::io::retry_on_intr(|| rustix::io::read(&from, &mut key))? > 0 {
        match key[0] {
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
    use std::io::Seek;

    #[test]
    fn a_hidden_line_is_mended_with_the_keys_that_mend_any_line() {
        let typed = |keys: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(keys).unwrap();
            file.rewind().unwrap();
            typed_line(&file).map(|it| String::from_utf8(it.to_vec()).unwrap())
        };
        assert_eq!(typed(b"open\nmore").unwrap(), "open");
        assert_eq!(typed("wrong\x15caf\u{e9}\x7fe".as_bytes()).unwrap(), "cafe");
        assert_eq!(typed(b"\x08\x7f\x04").unwrap(), "");
        assert_eq!(typed(b"half\x03").unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
