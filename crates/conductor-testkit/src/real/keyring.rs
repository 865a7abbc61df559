//! A separate session bus with a GNOME keyring, in a new home. In an existing home the keyring may
//! have another password, and unlocking would wait for a person.

use super::{Group, Missing, PATIENCE, wait_for};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub const PACKAGE: &str = "gnome-keyring libsecret-tools dbus";

fn missing(why: impl Into<String>) -> Missing {
    Missing { part: "secret service", package: PACKAGE, why: why.into() }
}

/// The state of the keyring for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// The keyring is unlocked, as after a login.
    Unlocked,
    /// No keyring is on the bus, and none is started automatically.
    Nobody,
}

pub struct Running {
    keeper: Option<Group>,
    _bus: Group,
    home: TempDir,
    address: String,
}

pub fn start(ring: Ring) -> Result<Running, Missing> {
    for tool in ["dbus-daemon", "gnome-keyring-daemon", "secret-tool"] {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdin(Stdio::null()).output();
        if !found.is_ok_and(|it| it.status.success()) {
            return Err(missing(format!("{tool} is not installed")));
        }
    }
    let io = |fault: std::io::Error| missing(fault.to_string());
    let home = tempfile::tempdir().map_err(io)?;
    // Without service files the bus starts no programs, so only the keyring of this test runs.
    let config = home.path().join("bus.conf");
    let text = format!(
        "<busconfig><type>session</type><listen>unix:dir={}</listen><policy context=\"default\"><allow send_destination=\"*\" \
         eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>",
        home.path().display()
    );
    std::fs::write(&config, text).map_err(io)?;
    let mut command = Command::new("dbus-daemon");
    command.arg("--config-file").arg(&config).args(["--nofork", "--print-address=1"]).env("HOME", home.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut bus = Group::spawn(&mut command, Signal::KILL).map_err(io)?;
    let mut address = String::new();
    let said = bus.child.stdout.take().map(|it| BufReader::new(it).read_line(&mut address));
    let mut running = Running { keeper: None, _bus: bus, home, address: address.trim().to_owned() };
    if !matches!(said, Some(Ok(1..))) {
        return Err(missing("dbus-daemon did not become ready"));
    }
    if ring == Ring::Unlocked {
        running.unlock()?;
    }
    Ok(running)
}

impl Running {
    fn unlock(&mut self) -> Result<(), Missing> {
        let mut command = self.command("gnome-keyring-daemon");
        command.args(["--foreground", "--unlock", "--components=secrets"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut keeper = Group::spawn(&mut command, Signal::KILL).map_err(|fault| missing(fault.to_string()))?;
        // The program reads the password until its stdin is closed.
        if let Some(mut stdin) = keeper.child.stdin.take() {
            let _ = stdin.write_all(b"pw");
        }
        self.keeper = Some(keeper);
        let ready = || {
            let mut stored = self
                .command("secret-tool")
                .args(["store", "--label=probe", "service", "probe", "username", "probe"])
                .stdin(Stdio::piped())
                .spawn()
                .ok()?;
            if let Some(mut stdin) = stored.stdin.take() {
                let _ = stdin.write_all(b"x");
            }
            stored.wait().ok()?.success().then_some(())
        };
        wait_for(PATIENCE, ready).ok_or_else(|| missing("gnome-keyring-daemon did not become ready"))
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// A command that uses this bus.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("HOME", self.home.path())
            .env("XDG_RUNTIME_DIR", self.home.path())
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .env_remove("DISPLAY")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Reads the secret with these two attributes from the keyring, with a third-party program.
    pub fn lookup(&self, service: &str, username: &str) -> Option<String> {
        let output =
            self.command("secret-tool").args(["lookup", "service", service, "username", username]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
