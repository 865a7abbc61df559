//! An X server without a screen.

use super::{Group, Missing, PATIENCE, wait_for};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

pub const PACKAGE: &str = "xvfb xterm xdotool";

fn missing(why: String) -> Missing {
    Missing { part: "x11", package: PACKAGE, why }
}

pub fn probe() -> Result<(), Missing> {
    for (tool, flag) in [("Xvfb", "-help"), ("xterm", "-version"), ("xdotool", "version")] {
        if let Err(error) = Command::new(tool).arg(flag).stdin(Stdio::null()).output() {
            return Err(missing(format!("{tool} does not start: {error}")));
        }
    }
    Ok(())
}

/// A running server. Dropping it ends the process.
pub struct Running {
    _group: Group,
    /// The display, such as `:99`.
    pub display: String,
}

/// Starts a server, which selects a free display number. Tests that run in parallel thus use
/// different displays.
pub fn start() -> Result<Running, Missing> {
    probe()?;
    // Without `-noreset` the server restarts when its last client disconnects, and can then drop a
    // client that is connecting.
    let mut command = Command::new("Xvfb");
    command
        .args(["-displayfd", "1", "-screen", "0", "800x600x24", "-nolisten", "tcp", "-noreset"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut group = Group::spawn(&mut command, Signal::TERM).map_err(|error| missing(error.to_string()))?;
    let mut number = String::new();
    let said = group.child.stdout.take().map(|it| BufReader::new(it).read_line(&mut number));
    let running = Running { _group: group, display: format!(":{}", number.trim()) };
    match said {
        Some(Ok(1..)) => Ok(running),
        Some(_) | None => Err(missing("Xvfb did not become ready".into())),
    }
}

impl Running {
    /// A command that uses this server.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DISPLAY", &self.display).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Gives a window the keyboard focus and returns its id when the server reports the focus.
    /// Retries, because a window that is not yet visible cannot get the focus.
    pub fn focus(&self, class: &str) -> Option<u64> {
        let xdotool = |args: &[&str]| {
            let output = self.command("xdotool").args(args).output().ok().filter(|it| it.status.success())?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        wait_for(PATIENCE, || {
            let found = xdotool(&["search", "--onlyvisible", "--class", class])?;
            let id = found.lines().last()?;
            xdotool(&["windowfocus", id])?;
            xdotool(&["getwindowfocus"]).filter(|it| it == id)?.parse().ok()
        })
    }
}
