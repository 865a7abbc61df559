//! A daemon in this process and in a temporary home. It is stopped when it is dropped.
//!
//! Not here: the built binary as a child process; see the end-to-end tests of `conductor`.

use crate::line_client::LineClient;
use conductor_daemon::app::{Daemon, Machine, Options};
use conductor_daemon::home::Home;
use conductor_daemon::log::Log;
use conductor_gateway::owner_handle::SentBy;
use conductor_gateway::report::Status;
use conductor_hosts::system::{Clock, RandomIds, RealClock, files, listener};
use parking_lot::Mutex;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// The start options of a test daemon, except its configuration.
pub struct Setup {
    pub home: TempDir,
    pub clock: Arc<dyn Clock>,
    pub machine: Machine,
}

impl Default for Setup {
    fn default() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        Setup { home, clock: Arc::new(RealClock::new()), machine: Machine::default() }
    }
}

pub struct TestDaemon {
    pub home: TempDir,
    daemon: Option<Daemon>,
    log: Log,
    logged: Logged,
}

#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl TestDaemon {
    pub fn start(config: &str) -> Self {
        Self::start_with(Setup::default(), config)
    }

    /// Starts a daemon with this configuration. In a home that was used before, a changed file
    /// takes effect only after a person accepts it, so this function accepts the file first.
    pub fn start_with(setup: Setup, config: &str) -> Self {
        let Setup { home, clock, machine } = setup;
        std::fs::write(home.path().join("config.toml"), config).expect("config.toml cannot be written");
        let logged = Logged::default();
        let log = Log::new(clock.clone(), Box::new(logged.clone()));
        let options = || Options {
            home: Home::at(home.path()),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            log: log.clone(),
            tools: conductor_tools::BUILTIN,
            first_config: "".into(),
            extra_devices: Vec::new(),
        };
        if home.path().join("audit.log").exists() {
            let daemon = Daemon::start(options()).expect("the daemon did not start");
            daemon.block_on(daemon.handle().accept_config(None)).expect("the file was not accepted");
            daemon.stop();
        }
        let daemon = Daemon::start_on(machine, options()).expect("the daemon did not start");
        daemon.block_on(daemon.handle().ready()).expect("the daemon did not become ready");
        TestDaemon { home, daemon: Some(daemon), log, logged }
    }

    /// Stops the daemon and returns its home, so that another daemon can use it.
    pub fn stop(mut self) -> TempDir {
        self.end();
        std::mem::replace(&mut self.home, tempfile::tempdir().expect("a temporary folder"))
    }

    fn end(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
    }

    /// Saves the file and accepts it as a person does. Returns the faults in the file. The request
    /// for the status waits until the file is in force.
    pub fn reload(&self, config: &str) -> Vec<String> {
        std::fs::write(self.home.path().join("config.toml"), config).expect("config.toml cannot be written");
        let reloaded = self.block_on(self.handle().accept_config(None)).expect("the file was not accepted");
        self.status();
        reloaded.faults
    }

    /// A client connected to `mcp.sock`.
    pub fn client(&self) -> LineClient {
        let path = self.home.path().join("mcp.sock");
        self.block_on(async { LineClient::over(listener::connect(&path).await.expect("the daemon does not listen")) })
    }

    /// Sends a message to a port as a person does.
    pub fn send(&self, port: &str, message: &[u8]) {
        let sent = self.handle().send(port.to_owned(), vec![message.to_vec()], SentBy::Person);
        assert_eq!(self.block_on(sent), Ok(1), "{port}");
    }

    pub fn status(&self) -> Status {
        self.block_on(self.handle().status()).expect("the daemon is not running")
    }

    /// The active segment of the audit log. The file `audit.log` is a link to it; on Windows, this
    /// file contains its name.
    pub fn audit_segment(&self) -> PathBuf {
        let home = self.home.path();
        home.join(files::read_link(&home.join("audit.log")).expect("a daemon writes the log"))
    }

    /// The records of the active segment of the audit log, one per line.
    pub fn audit_text(&self) -> String {
        std::fs::read_to_string(self.audit_segment()).expect("a segment")
    }

    /// The text of the log.
    pub fn log(&self) -> String {
        self.log.flush();
        String::from_utf8_lossy(&self.logged.0.lock()).into_owned()
    }
}

impl Deref for TestDaemon {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        self.daemon.as_ref().expect("the daemon was already stopped")
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        self.end();
    }
}
