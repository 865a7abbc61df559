//! A daemon in a home of its own, started for one test and ended with it.

use conductor::doors::control::client::{Client, ClientError};
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
    /// A home with this configuration and a daemon that has said it is ready.
    pub fn start(config: &str) -> Self {
        let mut studio = Studio::empty();
        std::fs::write(studio.config_file(), config).unwrap();
        studio.up(&[]);
        studio
    }

    pub fn empty() -> Self {
        Studio { home: tempfile::tempdir().unwrap(), child: None, environment: Vec::new() }
    }

    /// For daemons started after this.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Starts the daemon and waits for its word that it is ready.
    pub fn up(&mut self, flags: &[&str]) -> Value {
        self.up_with(flags, |words| {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        })
    }

    /// As [`Studio::up`], by a command of the test's own around these words.
    pub fn up_with(&mut self, flags: &[&str], command: impl FnOnce(&[String]) -> Command) -> Value {
        // The port of the default is one, and many studios run at once.
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
        // A test that waits for what never comes fails instead of hanging.
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

    pub fn status(&self) -> Value {
        self.ask("status", json!({}))
    }

    /// Everything that leaves at a port from now on.
    pub fn listen(&self, port: &str) -> Ear {
        let mut client = self.control();
        client.ask("listen", json!({ "port": port })).unwrap();
        Ear { client }
    }

    /// A connection that plays on the hand's end of the pads. What it holds is released when it is
    /// dropped.
    pub fn hand(&self) -> Hand {
        Hand { client: self.control() }
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(BINARY);
        command.env("CONDUCTOR_HOME", self.home()).stdin(Stdio::null());
        command
    }

    /// Another program in the same surroundings.
    pub fn command_of(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("CONDUCTOR_HOME", self.home()).stdin(Stdio::null());
        command
    }

    /// Ends the daemon and waits for it.
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

    /// Accepts the file as a person at a terminal does; gives what stood there.
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

    /// Whether the daemon's process is over.
    pub fn has_ended(&self) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        state.rsplit_once(") ").is_none_or(|it| it.1.starts_with('Z'))
    }

    /// Whether no thread of the daemon works in ten looks. One that works and waits for a processor
    /// counts as working, so a loaded machine changes nothing.
    pub fn rests(&self) -> bool {
        let works = |_: &usize| {
            std::thread::park_timeout(std::time::Duration::from_millis(20));
            let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
            let mut states = threads.filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok());
            states.any(|it| it.rsplit_once(") ").unwrap().1.starts_with('R'))
        };
        (0..10).filter(works).count() == 0
    }

    /// Waits for the daemon to end by itself.
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
    /// The next message; `None` when the daemon ended.
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
        self.client.ask("send", json!({ "port": "pads hand", "messages": [message] })).unwrap();
    }
}

/// Looks again until something holds. Only for what no message tells about: the file watcher.
pub fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(found) = look() {
            return found;
        }
        #[expect(clippy::disallowed_methods, reason = "polling another process, never a proof of timing")]
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("never came true: {what}");
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
