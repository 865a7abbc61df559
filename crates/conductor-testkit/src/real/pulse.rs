//! A PulseAudio server with one silent output, in a folder of its own.

use super::{Missing, PATIENCE, wait_for};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub const PACKAGE: &str = "pulseaudio pulseaudio-utils";
/// The name of its output.
pub const SINK: &str = "t";

fn missing(why: String) -> Missing {
    Missing { part: "pulseaudio", package: PACKAGE, why }
}

pub fn probe() -> Result<String, Missing> {
    let output = Command::new("pulseaudio").arg("--version").output().map_err(|error| missing(error.to_string()))?;
    Command::new("pactl").arg("--version").output().map_err(|error| missing(error.to_string()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A running server. Dropping it ends its process group and waits for it.
pub struct Running {
    child: Child,
    /// What `PULSE_SERVER` must be for its clients.
    pub server: String,
}

pub fn start(dir: &Path) -> Result<Running, Missing> {
    probe()?;
    let socket = dir.join("native");
    let listen = format!("module-native-protocol-unix socket={} auth-anonymous=1", socket.display());
    let child = Command::new("pulseaudio")
        .args(["-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"])
        .args(["-L", &format!("module-null-sink sink_name={SINK}"), "-L", &listen])
        .env("HOME", dir)
        .env("XDG_RUNTIME_DIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| missing(error.to_string()))?;
    let running = Running { child, server: format!("unix:{}", socket.display()) };
    let ready = wait_for(PATIENCE, || running.pactl(&["info"]).map(drop));
    ready.ok_or_else(|| missing("it did not become ready".into()))?;
    Ok(running)
}

impl Running {
    /// What `pactl` prints; nothing when it fails.
    pub fn pactl(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new("pactl");
        command.args(arguments).env("PULSE_SERVER", &self.server).env("LC_ALL", "C").stderr(Stdio::null());
        let output = command.output().ok().filter(|it| it.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        super::end_group(&mut self.child, rustix::process::Signal::TERM);
    }
}
