//! A session bus of its own with a GNOME keyring on it, in a fresh home: a reused one may hold a
//! ring with another password, and unlocking then waits for a person.

use super::{Missing, PATIENCE, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
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
    bus: Child,
    keeper: Option<Child>,
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
    let mut bus = Command::new("dbus-daemon")
        .arg("--config-file")
        .arg(&config)
        .args(["--nofork", "--print-address=1"])
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(io)?;
    let mut address = String::new();
    let said = bus.stdout.take().map(|it| BufReader::new(it).read_line(&mut address));
    let mut running = Running { bus, keeper: None, home, address: address.trim().to_owned() };
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
        let mut keeper = self
            .command("gnome-keyring-daemon")
            .args(["--foreground", "--unlock", "--components=secrets"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|fault| missing(fault.to_string()))?;
        // The password is what stands before the end of its input.
        if let Some(mut stdin) = keeper.stdin.take() {
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

impl Drop for Running {
    fn drop(&mut self) {
        for child in self.keeper.iter_mut().chain([&mut self.bus]) {
            let group = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = child.wait();
        }
    }
}
