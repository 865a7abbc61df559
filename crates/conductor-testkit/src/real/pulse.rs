//! A PulseAudio server with one silent output, in its own folder.

use super::{Group, Missing, PATIENCE, wait_for};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Stdio};

pub const PACKAGE: &str = "pulseaudio pulseaudio-utils";
/// The name of the silent output.
pub const SINK: &str = "t";

fn missing(why: String) -> Missing {
    Missing { part: "pulseaudio", package: PACKAGE, why }
}

pub fn probe() -> Result<String, Missing> {
    let output = Command::new("pulseaudio").arg("--version").output().map_err(|error| missing(error.to_string()))?;
    Command::new("pactl").arg("--version").output().map_err(|error| missing(error.to_string()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A running server. Dropping it ends the process.
pub struct Running {
    _group: Group,
    /// The value of `PULSE_SERVER` for clients.
    pub server: String,
}

pub fn start(dir: &Path) -> Result<Running, Missing> {
    probe()?;
    let socket = dir.join("native");
    let listen = format!("module-native-protocol-unix socket={} auth-anonymous=1", socket.display());
    let mut command = Command::new("pulseaudio");
    command
        .args(["-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"])
        .args(["-L", &format!("module-null-sink sink_name={SINK}"), "-L", &listen])
        .env("HOME", dir)
        .env("XDG_RUNTIME_DIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let group = Group::spawn(&mut command, Signal::TERM).map_err(|error| missing(error.to_string()))?;
    let running = Running { _group: group, server: format!("unix:{}", socket.display()) };
    let ready = wait_for(PATIENCE, || running.pactl(&["info"]).map(drop));
    ready.ok_or_else(|| missing("it did not become ready".into()))?;
    Ok(running)
}

impl Running {
    /// The output of `pactl`, or `None` if it fails.
    pub fn pactl(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new("pactl");
        command.args(arguments).env("PULSE_SERVER", &self.server).env("LC_ALL", "C").stderr(Stdio::null());
        let output = command.output().ok().filter(|it| it.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
