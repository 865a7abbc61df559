//! The built daemon in a home on a separate small file system, and its clients.

use super::control::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Maximum wait for an answer: longer than every time limit of the product. With negative controls
/// it is shorter, because `Broken::Answer` stops the daemon for only 15 seconds.
pub const PATIENCE: Duration = Duration::from_secs(if cfg!(feature = "broken") { 10 } else { 60 });

/// The state of the disk. The numbers are the same as in `faults/shim.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Disk {
    Works = 0,
    FsyncFails = 1,
    ShortWrites = 2,
    WritesFail = 3,
    /// Only for negative controls: a write reports success and writes nothing.
    #[cfg(feature = "broken")]
    WritesLost = 4,
    /// Only for negative controls: descriptors are never closed.
    #[cfg(feature = "broken")]
    ClosesLost = 5,
}

pub struct Daemon {
    binary: PathBuf,
    shim: PathBuf,
    pub home: PathBuf,
    child: Option<Child>,
    pub http: String,
}

/// Resources that the daemon process uses.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    pub descriptors: usize,
    pub threads: usize,
    pub resident_kb: u64,
}

/// The configuration of the daemon. Both pads send the same value, so that a configuration that is
/// applied only in part is visible.
pub fn config(value: u8, osc_port: u16) -> String {
    let pad = |id: &str, note: u8, controller: u8| {
        format!(
            "[[modes.mappings]]\nid = \"{id}\"\ntrigger = {{ type = \"Note\", note = {note}, device = \"pads\" }}\n\
             action = {{ type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"CC\", \
             controller = {controller}, value = {value} }}\n"
        )
    };
    format!(
        "schema = 1\n[[devices]]\nalias = \"pads\"\ndirection = \"Input\"\nloopback = true\n\
         [[devices]]\nalias = \"synth\"\ndirection = \"Output\"\nloopback = true\n\
         [[devices]]\nalias = \"osc\"\nprotocol = \"Osc\"\nlisten = \"127.0.0.1:{osc_port}\"\n\
         [limits]\neffect.per_minute = 60000\neffect.burst = 10000\nread.per_minute = 60000\nread.burst = 10000\n\
         [[modes]]\nname = \"Default\"\n{}{}\
         [[modes.mappings]]\nid = \"hold\"\ntrigger = {{ type = \"Note\", note = 38, device = \"pads\" }}\n\
         action = {{ type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"NoteOn\", note = 60 }}\n",
        pad("left", 36, 20),
        pad("right", 37, 21)
    )
}

impl Daemon {
    pub fn new(binary: PathBuf, shim: PathBuf, home: PathBuf) -> Self {
        let daemon = Daemon { binary, shim, home, child: None, http: String::new() };
        fs::write(daemon.control_file(), [0; 16]).expect("the control file cannot be written");
        daemon
    }

    fn control_file(&self) -> PathBuf {
        self.home.with_extension("faults")
    }

    /// Starts the daemon and waits until it is ready. If it does not start, returns the reason.
    pub fn start(&mut self) -> Result<(), String> {
        let log = fs::File::options().create(true).append(true).open(self.home.with_extension("log"));
        let mut child = Command::new(&self.binary)
            .args(["--json", "up", "--http", "127.0.0.1:0"])
            .env("CONDUCTOR_HOME", &self.home)
            .env("CONDUCTOR_FAULTS", self.control_file())
            .env("CONDUCTOR_FAULTS_BELOW", &self.home)
            .env("LD_PRELOAD", &self.shim)
            .env_remove("DISPLAY")
            .env_remove("JACK_DEFAULT_SERVER")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.expect("the log cannot be written"))
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        let read = BufReader::new(out).read_line(&mut line);
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        self.child = Some(child);
        match (read, ready["http"].as_str()) {
            (Ok(_), Some(http)) => {
                self.http = http.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
                Ok(())
            }
            _ => {
                let status = self.child.take().map(|mut it| it.wait());
                Err(format!("the daemon did not start: {line:?} {status:?}"))
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid() as i32).filter(|_| self.child.is_some()) {
            let _ = kill_process(pid, signal);
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|it| matches!(it.try_wait(), Ok(None)))
    }

    /// Ends the daemon and waits for its end.
    pub fn end(&mut self, signal: Signal) {
        self.signal(signal);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    pub fn set_disk(&self, fault: Disk) {
        self.set_control(0, &[fault as u8]);
    }

    /// Moves the wall clock that the daemon sees.
    pub fn set_clock(&self, offset_ms: i64) {
        self.set_control(8, &offset_ms.to_le_bytes());
    }

    fn set_control(&self, at: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt as _;
        let file =
            fs::File::options().write(true).open(self.control_file()).expect("the control file cannot be opened");
        file.write_all_at(bytes, at).expect("the control file cannot be written");
    }

    pub(super) fn client(&self) -> Result<Client, String> {
        Client::connect(&self.home.join("control.sock"), PATIENCE).map_err(|it| it.to_string())
    }

    pub fn command(&self, words: &[&str]) -> (i32, String) {
        let out = Command::new(&self.binary)
            .args(words)
            .env("CONDUCTOR_HOME", &self.home)
            .stdin(Stdio::null())
            .output()
            .expect("the program did not start");
        let text = [out.stdout, out.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
        (out.status.code().unwrap_or(-1), text)
    }

    pub fn resources(&self) -> Resources {
        let proc = |name: &str| PathBuf::from(format!("/proc/{}/{name}", self.pid()));
        let count = |path: PathBuf| fs::read_dir(path).map_or(0, |it| it.count());
        let status = fs::read_to_string(proc("status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident_kb = resident.and_then(|it| it.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        Resources { descriptors: count(proc("fd")), threads: count(proc("task")), resident_kb }
    }

    /// The soft and the hard limit of open files.
    pub fn descriptor_limits(&self) -> Option<(u64, u64)> {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.pid())).ok()?;
        let mut words = limits.lines().find_map(|it| it.strip_prefix("Max open files"))?.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    }

    /// Number of calls of this tool with the result `ok` in all segments of the audit log.
    pub fn logged_calls(&self, tool: &str) -> usize {
        let tool = format!("\"tool\":\"{tool}\"");
        let segments = fs::read_dir(self.home.join("audit")).into_iter().flatten().flatten();
        let texts = segments.map(|it| String::from_utf8_lossy(&fs::read(it.path()).unwrap_or_default()).into_owned());
        let is_done = |line: &&str| {
            line.contains("\"phase\":\"outcome\"") && line.contains("\"result\":\"ok\"") && line.contains(&tool)
        };
        texts.map(|text| text.lines().filter(is_done).count()).sum()
    }

    /// The newest segment of the audit log.
    pub fn segment(&self) -> Option<PathBuf> {
        fs::read_dir(self.home.join("audit"))
            .ok()?
            .flatten()
            .map(|it| it.path())
            .filter(|it| it.extension() == Some("jsonl".as_ref()))
            .max()
    }

    pub(super) fn play(&self, client: &mut Client, message: [u8; 3]) -> Result<(), String> {
        let sent = client.ask("play", json!({ "port": "pads hand", "messages": [message] }));
        sent.map(|_| ()).map_err(|it| it.to_string())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        self.end(Signal::KILL);
    }
}

/// Mounts a separate file system for the home. Needs a mount namespace.
pub fn mount(home: &Path) -> bool {
    let options = ["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs"];
    Command::new("mount").args(options).arg(home).status().is_ok_and(|it| it.success())
}

pub fn remount(home: &Path, mode: &str) -> bool {
    Command::new("mount").args(["-o", &format!("remount,{mode}")]).arg(home).status().is_ok_and(|it| it.success())
}
