//! The daemon as a service: a supervisor that obeys the unit restarts it after a crash.

use crate::studio::{BINARY, text};
use conductor_testkit::real::Killed;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// The values of one key of the unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|it| it.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// The parts of a service manager that the unit uses: `ExecStart`, `Type=notify`,
/// `Restart=on-failure` and `RestartSec`.
struct Supervisor<'a> {
    unit: &'a str,
    home: &'a Path,
    notify: UnixDatagram,
}

impl Supervisor<'_> {
    /// Starts the daemon and waits until it reports that it is ready.
    fn start(&self) -> Killed {
        assert_eq!(values(self.unit, "Type"), ["notify"]);
        let [command] = values(self.unit, "ExecStart")[..] else {
            panic!("the unit must have exactly one ExecStart: {}", self.unit)
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {command} --http 127.0.0.1:0")]).env("HOME", self.home);
        shell.env("NOTIFY_SOCKET", self.home.join("notify")).env_remove("CONDUCTOR_HOME").env_remove("DISPLAY");
        let daemon = Killed(shell.spawn().unwrap());
        self.notify.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut buffer = [0; 256];
        loop {
            let length = self.notify.recv(&mut buffer).expect("the daemon did not report READY");
            if text(&buffer[..length]).contains("READY=1") {
                return daemon;
            }
        }
    }

    /// Waits for the end of the daemon. Starts it again if it failed, as `Restart=on-failure` does.
    fn restart(&self, mut daemon: Killed) -> Option<Killed> {
        let status = daemon.0.wait().unwrap();
        assert_eq!(values(self.unit, "Restart"), ["on-failure"]);
        if status.success() {
            return None;
        }
        let [pause] = values(self.unit, "RestartSec")[..] else {
            panic!("the unit must have exactly one RestartSec: {}", self.unit)
        };
        let pause: u64 = pause.strip_suffix("ms").unwrap().parse().unwrap();
        std::thread::park_timeout(Duration::from_millis(pause));
        Some(self.start())
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the measured time is printed")]
fn a_killed_daemon_is_back_and_its_log_is_intact() {
    let folder = tempfile::tempdir().unwrap();
    let conductor = |words: &[&str]| -> Output {
        let mut command = Command::new(BINARY);
        command.args(words).env("HOME", folder.path()).env_remove("CONDUCTOR_HOME").env_remove("XDG_CONFIG_HOME");
        // No service manager runs here, so the unit is written but not started.
        command.env("PATH", "/nowhere").output().unwrap()
    };
    let written = conductor(&["service", "install"]);
    assert!(text(&written.stderr).contains("was written, but the service does not run yet"), "{written:?}");
    let unit = std::fs::read_to_string(folder.path().join(".config/systemd/user/conductor.service")).unwrap();
    let notify = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let supervisor = Supervisor { unit: &unit, home: folder.path(), notify };

    let mut daemon = supervisor.start();
    for round in 1..=3 {
        for _ in 0..5 {
            assert!(conductor(&["call", "conductor_list_modes"]).status.success());
        }
        let pid = daemon.0.id();
        let killed = std::time::Instant::now();
        daemon.0.kill().unwrap();
        daemon = supervisor.restart(daemon).expect("the unit does not restart the daemon after a crash");
        eprintln!("round {round}: ready {} ms after the kill", killed.elapsed().as_millis());
        assert_ne!(daemon.0.id(), pid);
        assert!(conductor(&["status"]).status.success());
        let verified = conductor(&["audit", "verify"]);
        assert!(text(&verified.stdout).starts_with("INTACT"), "round {round}: {verified:?}");
    }
    // A service that is stopped stays stopped.
    let pid = rustix::process::Pid::from_child(&daemon.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(supervisor.restart(daemon).is_none());
}
