//! A session bus of its own with a GNOME keyring on it, in a fresh home: a reused one may hold a
//! ring with another password, and unlocking then waits for a person.

use super::{Group, Missing, PATIENCE, wait_for};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub const PACKAGE: &str = "gnome-keyring libsecret-tools dbus";

fn missing(why: impl Into<String>) -> Missing {
    Missing { part: "secret service", package: PACKAGE, why: why.into() }
}

/// Which bus a test wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Open, as after a login.
    Unlocked,
    /// Nobody on the bus keeps secrets, and nothing may be started to.
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
            return Err(missing(format!("{tool} is not there")));
        }
    }
    let io = |fault: std::io::Error| missing(fault.to_string());
    let home = tempfile::tempdir().map_err(io)?;
    // Without service files nothing is started by itself: a test has exactly the keeper it asked
    // for.
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
        // It reads the password up to the end of its input.
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

    /// A program on this bus.
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

    /// What the keyring holds under these two attributes, asked by a program we did not write.
    pub fn lookup(&self, service: &str, username: &str) -> Option<String> {
        let output =
            self.command("secret-tool").args(["lookup", "service", service, "username", username]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
