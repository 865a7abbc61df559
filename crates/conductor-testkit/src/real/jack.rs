//! A JACK server without hardware, with its own server name.

use super::{Group, Missing, PATIENCE, wait_for};
use rustix::process::Signal;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub const PACKAGE: &str = "jackd2";

pub fn probe() -> Result<String, Missing> {
    let missing = |why: String| Missing { part: "jack", package: PACKAGE, why };
    for tool in ["jackd", "jack_wait", "jack_lsp", "jack_connect"] {
        if let Err(error) = Command::new(tool).arg("--help").stdin(Stdio::null()).output() {
            return Err(missing(format!("{tool} does not start: {error}")));
        }
    }
    let output = Command::new("jackd").arg("--version").output().map_err(|error| missing(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().find(|line| line.contains("version")).unwrap_or("unknown").to_owned();
    Ok(version)
}

/// A running server. Dropping it ends the process.
pub struct Running {
    group: Group,
    log: PathBuf,
}

/// The table of servers in JACK's registry file: its offset, the size of a row, and the number of
/// rows. A row contains a process id and a name.
const SERVERS: (u64, usize, usize) = (24, 264, 8);

/// Removes dead servers from JACK's registry. The registry has eight rows, and a server that was
/// killed leaves its row behind. JACK refuses a ninth server name.
fn forget_the_dead() -> std::io::Result<()> {
    let (start, row, count) = SERVERS;
    let mut register = File::options().read(true).write(true).open("/dev/shm/jack-shm-registry")?;
    // Lock the file against other tests. Otherwise another test could free a row after it was read
    // here, and the write here would erase a new server in that row.
    register.lock()?;
    for at in (0..count).map(|index| start + (index * row) as u64) {
        let mut id = [0; 4];
        register.seek(SeekFrom::Start(at))?;
        register.read_exact(&mut id)?;
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", i32::from_ne_bytes(id)));
        if comm.is_ok_and(|it| it.trim_end() == "jackd") {
            continue;
        }
        register.seek(SeekFrom::Start(at))?;
        register.write_all(&vec![0; row])?;
    }
    Ok(())
}

/// Removes the semaphores that a killed server with this name left behind. JACK 1.9.21 would use
/// them again with their old counts for clients of the same name, and then the new server often
/// processes nothing. This happens with JACK's own programs as clients, too.
fn remove_old_semaphores(name: &str) {
    for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let file = entry.file_name();
        if file.to_str().is_some_and(|it| it.starts_with("jack_sem.") && it.contains(&format!("_{name}_"))) {
            // Another process may have removed the file already.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Starts a server with the dummy driver in synchronous mode (`-S`): otherwise notes are lost on a
/// busy machine. Uses real-time scheduling if it is allowed.
pub fn start(dir: &Path, name: &str, period: u32) -> Result<Running, Missing> {
    start_with(dir, name, period, &[&["-R", "-P", "70"], &["-r"]])
}

/// Starts a server without real-time scheduling.
pub fn start_without_priority(dir: &Path, name: &str, period: u32) -> Result<Running, Missing> {
    start_with(dir, name, period, &[&["-r"]])
}

fn start_with(dir: &Path, name: &str, period: u32, schedulings: &[&[&str]]) -> Result<Running, Missing> {
    probe()?;
    // Ignore an error: the registry does not exist before the first server was started.
    let _ = forget_the_dead();
    remove_old_semaphores(name);
    let mut why = String::new();
    for scheduling in schedulings {
        let log = dir.join(format!("{name}.log"));
        let started = File::create(&log).and_then(|file| {
            let mut command = Command::new("jackd");
            command.args(["-n", name]).args(*scheduling).args(["-S", "-d", "dummy", "-r", "48000", "-p"]);
            command.arg(period.to_string()).env("JACK_NO_AUDIO_RESERVATION", "1");
            command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
            Group::spawn(&mut command, Signal::TERM)
        });
        let group = started.map_err(|error| Missing { part: "jack", package: PACKAGE, why: error.to_string() })?;
        let mut running = Running { group, log };
        // `jack_wait -w` looks only once a second, so ask for the state instead.
        let ready = wait_for(PATIENCE, || (!running.group.is_alive() || is_ready(name)).then_some(()));
        if ready.is_some() && running.group.is_alive() {
            return Ok(running);
        }
        why = running.log_tail();
    }
    Err(Missing { part: "jack", package: PACKAGE, why: format!("jackd did not become ready: {why}") })
}

fn is_ready(name: &str) -> bool {
    let output = Command::new("jack_wait").args(["-s", name, "-c"]).output();
    output.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).lines().any(|line| line == "running"))
}

impl Running {
    pub fn log_tail(&self) -> String {
        let mut text = String::new();
        if let Ok(mut file) = File::open(&self.log) {
            // An unreadable log counts as empty: the caller reports an error anyway.
            let _ = file.read_to_string(&mut text);
        }
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")
    }

    /// Ends the server at once, like a crash.
    pub fn kill(self) {
        self.group.kill();
    }
}

/// All port names of the server in `JACK_DEFAULT_SERVER`.
pub fn ports() -> Vec<String> {
    let output = Command::new("jack_lsp").output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Waits for a port whose name contains `part`.
pub fn wait_for_port(part: &str) -> Option<String> {
    wait_for(PATIENCE, || ports().into_iter().find(|name| name.contains(part)))
}

pub fn connect(from: &str, to: &str) -> bool {
    Command::new("jack_connect").args([from, to]).output().is_ok_and(|output| output.status.success())
}
