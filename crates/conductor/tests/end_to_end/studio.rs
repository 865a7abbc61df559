//! A daemon in a separate home, started for one test and stopped with it.

use conductor_daemon::doors::control::client::{Client, ClientError};
use conductor_testkit::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_conductor");

/// Two loopback devices; every test adds its own mappings.
pub const DEVICES: &str = r#"
schema = 1
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
"#;

pub struct Studio {
    home: TempDir,
    child: Option<Child>,
    environment: Vec<(String, String)>,
}

impl Studio {
    /// A home with this configuration, and a daemon that has reported that it is ready.
    pub fn start(config: &str) -> Self {
        let mut studio = Studio::empty();
        std::fs::write(studio.config_file(), config).unwrap();
        studio.up(&[]);
        studio
    }

    pub fn empty() -> Self {
        Studio { home: tempfile::tempdir().unwrap(), child: None, environment: Vec::new() }
    }

    /// Sets an environment variable for daemons that are started after this call.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Starts the daemon and waits until it reports that it is ready.
    pub fn up(&mut self, flags: &[&str]) -> Value {
        self.up_with(flags, |words| {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        })
    }

    /// Like [`Studio::up`], but `command` builds the command that runs these words.
    pub fn up_with(&mut self, flags: &[&str], command: impl FnOnce(&[String]) -> Command) -> Value {
        // The default port is fixed, but many studios run at once, so choose a free port.
        let http = if flags.contains(&"--http") { &[][..] } else { &["--http", "127.0.0.1:0"][..] };
        let words = [&[BINARY, "--json", "up"], flags, http].concat();
        let mut child = command(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())
            .env("CONDUCTOR_HOME", self.home())
            .env_remove("DISPLAY")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut stderr = String::new();
            child.stderr.as_mut().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("the daemon did not start: {stderr}");
        }
        self.child = Some(child);
        serde_json::from_str(&line).unwrap()
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn config_file(&self) -> PathBuf {
        self.home().join("config.toml")
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn control(&self) -> Client {
        let client = Client::connect(&self.home().join("control.sock")).unwrap();
        // With a timeout, a test that waits for a missing event fails instead of hanging.
        client.set_patience(std::time::Duration::from_secs(20)).unwrap();
        client
    }

    pub fn ask(&self, method: &str, params: Value) -> Value {
        self.control().ask(method, params).unwrap()
    }

    pub fn refusal(&self, method: &str, params: Value) -> Value {
        match self.control().ask(method, params) {
            Err(ClientError::Refused(refused)) => refused.data,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    /// Calls a tool as `conductor call` does.
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        self.control().call(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"))
    }

    pub fn refused_call(&self, tool: &str, arguments: Value) -> Value {
        self.refusal("call", json!({ "tool": tool, "arguments": arguments }))
    }

    pub fn status(&self) -> Value {
        self.call("conductor_get_status", json!({}))
    }

    /// Receives all later messages of a port.
    pub fn listen(&self, port: &str) -> Ear {
        let mut client = self.control();
        client.ask("monitor", json!({ "port": port })).unwrap();
        Ear { client }
    }

    /// A connection that plays the pads. Held notes are released when it is dropped.
    pub fn hand(&self) -> Hand {
        Hand { client: self.control() }
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(BINARY);
        command.env("CONDUCTOR_HOME", self.home()).stdin(Stdio::null());
        command
    }

    /// Another program with the same environment.
    pub fn command_of(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("CONDUCTOR_HOME", self.home()).stdin(Stdio::null());
        command
    }

    /// Stops the daemon and waits for its end.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        self.ended();
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }

    /// Replaces the configuration the way editors do.
    pub fn save(&self, config: &str) {
        let draft = self.home().join("config.toml.draft");
        std::fs::write(&draft, config).unwrap();
        std::fs::rename(draft, self.config_file()).unwrap();
    }

    /// Accepts the file as a person at a terminal; returns the output.
    pub fn accept(&self) -> String {
        let mut command = self.command();
        command.args(["config", "accept"]);
        let mut terminal = Terminal::start(command);
        let mut shown = terminal.until_any(&["[y/N]", "nothing to accept"]);
        while !shown.contains("accepted:") && !shown.contains("nothing to accept") {
            terminal.type_in("y\n");
            shown.push_str(&terminal.until_any(&["accepted:", "before you could read this; y or n: "]));
        }
        terminal.end();
        shown
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid() as i32).unwrap(), signal).unwrap();
    }

    /// Whether the daemon's process has ended.
    pub fn has_ended(&self) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        state.rsplit_once(") ").is_none_or(|it| it.1.starts_with('Z'))
    }

    /// Whether no thread of the daemon is running in ten samples. A thread that waits for a
    /// processor counts as running, so the result does not depend on the machine's load.
    pub fn rests(&self) -> bool {
        let works = |_: &usize| {
            std::thread::park_timeout(std::time::Duration::from_millis(20));
            let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
            let mut states = threads.filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok());
            states.any(|it| it.rsplit_once(") ").unwrap().1.starts_with('R'))
        };
        (0..10).filter(works).count() == 0
    }

    /// Waits until the daemon ends by itself.
    pub fn ended(&mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Studio {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub struct Ear {
    client: Client,
}

impl Ear {
    /// The next message; `None` when the daemon has ended.
    pub fn hear(&mut self) -> Option<Vec<u8>> {
        let item = self.client.next_item().unwrap()?;
        Some(item["bytes"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap() as u8).collect())
    }
}

pub struct Hand {
    client: Client,
}

impl Hand {
    pub fn play(&mut self, message: &[u8]) {
        self.client.ask("play", json!({ "port": "pads hand", "messages": [message] })).unwrap();
    }
}

/// Polls until `look` returns a value. Only for changes without a message, such as those of the
/// file watcher.
pub fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(found) = look() {
            return found;
        }
        #[expect(clippy::disallowed_methods, reason = "polls another process; no assertion depends on the time")]
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the wait timed out; expected: {what}");
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
