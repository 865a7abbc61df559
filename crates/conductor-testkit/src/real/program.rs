//! A simulated program that reads orders on stdin and writes answers to stdout.
//!
//! A Windows test under Wine cannot start a Linux program with pipes. Under Wine, a server
//! (`wine/programs.py`) starts the program, and a TCP connection replaces the two pipes. The server
//! kills the program when the connection closes.

use super::Killed;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

enum Life {
    Child(Killed),
    Connection(TcpStream),
}

pub struct Program {
    life: Life,
    orders: Box<dyn Write + Send>,
    answers: BufReader<Box<dyn Read + Send>>,
}

#[expect(clippy::disallowed_methods, reason = "`make test-windows` passes values in environment variables")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The address of the server, if the test runs under Wine.
fn server() -> Option<String> {
    variable("CONDUCTOR_TEST_PROGRAMS")
}

/// The path in the form that the simulated program needs: under Wine, the Linux path.
pub fn native(path: &Path) -> String {
    let text = path.to_string_lossy();
    let Some(prefix) = variable("WINEPREFIX").filter(|_| server().is_some()) else { return text.into_owned() };
    let text = text.replace('\\', "/");
    match (text.strip_prefix("Z:"), text.strip_prefix("C:")) {
        (Some(rest), _) => rest.to_owned(),
        (None, Some(rest)) => format!("{prefix}/drive_c{rest}"),
        (None, None) => text,
    }
}

impl Program {
    pub fn start(program: &str, arguments: &[&str]) -> io::Result<Program> {
        if let Some(address) = server() {
            let mut connection = TcpStream::connect(address)?;
            let argv: Vec<&str> = [&[program], arguments].concat();
            writeln!(connection, "{}", serde_json::json!(argv))?;
            let (orders, answers) = (connection.try_clone()?, connection.try_clone()?);
            return Ok(Program {
                life: Life::Connection(connection),
                orders: Box::new(orders),
                answers: BufReader::new(Box::new(answers)),
            });
        }
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn()?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let (orders, answers) = orders.zip(answers).ok_or_else(|| io::Error::other("no pipes"))?;
        Ok(Program {
            life: Life::Child(Killed(child)),
            orders: Box::new(orders),
            answers: BufReader::new(Box::new(answers)),
        })
    }

    pub fn send(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.orders, "{line}").and_then(|()| self.orders.flush())
    }

    /// The next line; `None` after the end of the program.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok().filter(|it| *it > 0)?;
        Some(line)
    }

    /// Waits until the program has ended by itself.
    pub fn wait(mut self) {
        match &mut self.life {
            Life::Child(child) => drop(child.0.wait()),
            Life::Connection(_) => while self.line().is_some() {},
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        match &mut self.life {
            Life::Child(child) => child.end(),
            Life::Connection(connection) => {
                // The server closes its side when the program has ended.
                let _ = connection.shutdown(Shutdown::Write);
                let _ = io::copy(&mut self.answers, &mut io::sink());
            }
        }
    }
}
