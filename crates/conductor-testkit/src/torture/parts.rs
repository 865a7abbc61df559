//! The programs around the daemon: a JACK server with a listener, a simulated Live behind a lossy
//! network path, and a web server. Pd and the plugin process are started by the daemon.

use super::daemon::PLUGIN;
use super::pause;
use crate::real::fakelive::{self, Lossy};
use crate::real::{self, Killed, Missing, jack, pd, wait_for};
use parking_lot::Mutex;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The client name of the listener on the JACK server.
const EAR: &str = "torture-ear";

/// The programs that are installed.
pub struct Parts {
    pub jack: Option<Jack>,
    pub has_pd: bool,
    pub live: Option<Live>,
    pub web: Web,
}

impl Parts {
    /// Starts all programs. `report` receives one line for each missing program. If programs are
    /// required, a missing program is an error.
    pub fn start(folder: &Path, report: &mut dyn FnMut(&str)) -> Result<Parts, String> {
        let mut note = |missing: Missing, faults: &str| {
            report(&format!("SKIP {missing}; left out: {faults}"));
            if real::required() { Err(format!("a program is missing: {missing}")) } else { Ok(()) }
        };
        let jack = match Jack::start(folder) {
            Ok(jack) => Some(jack),
            Err(missing) => note(missing, "JackKilled").map(|()| None)?,
        };
        let has_pd = match pd::probe() {
            Ok(_) => true,
            Err(missing) => note(missing, "PdKilled").map(|()| false)?,
        };
        let live = match Live::start() {
            Ok(live) => Some(live),
            Err(missing) => note(missing, "LiveKilled and lost, delayed and duplicated datagrams").map(|()| None)?,
        };
        let web = Web::start().map_err(|it| it.to_string())?;
        Ok(Parts { jack, has_pd, live, web })
    }

    /// The sections of the configuration about these programs. `pin` is the digest of the plugin.
    pub fn config(&self, pin: &str) -> String {
        let web = self.web.address();
        let mut text = format!(
            "[circuit]\nopen_ms = 200\n[circuit.tools.\"web.fetch\"]\nopen_ms = 200\n[plugins.{PLUGIN}]\nenabled = true\npin = \"{pin}\"\n\
             [tools.web]\nallow_hosts = [\"{web}\"]\nhttp_hosts = [\"{web}\"]\ntimeout_ms = 300\n"
        );
        if self.jack.is_some() {
            text += &format!(
                "[[devices]]\nalias = \"box\"\ndirection = \"Output\"\n\
                 matchers = [{{ type = \"NameContains\", pattern = \"{EAR}\" }}]\n"
            );
        }
        if self.has_pd {
            text += "[patch.pd]\nmode = \"spawn\"\n";
        }
        if let Some(live) = &self.live {
            text += &format!(
                "[live]\nhost = \"abletonosc\"\n[live.osc]\nport = {}\nreply_port = {}\ntimeout_ms = 300\n",
                live.way.address.port(),
                live.reply_port
            );
        }
        text
    }
}

/// A JACK server, and a program that prints the MIDI messages that it receives from the daemon.
pub struct Jack {
    folder: PathBuf,
    pub name: String,
    server: Option<jack::Running>,
    ear: Option<Ear>,
}

struct Ear {
    _child: Killed,
    heard: Receiver<[u8; 3]>,
}

impl Jack {
    fn start(folder: &Path) -> Result<Self, Missing> {
        let name = format!("torture-{}", std::process::id());
        let mut jack = Jack { folder: folder.to_owned(), name, server: None, ear: None };
        jack.start_again()?;
        Ok(jack)
    }

    /// Kills the server at once.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        self.ear = None;
    }

    pub fn start_again(&mut self) -> Result<(), Missing> {
        // 1024 frames per period cost little processor time. The latency does not matter here.
        self.server = Some(jack::start(&self.folder, &self.name, 1024)?);
        let missing = |why: String| Missing { part: "jack", package: jack::PACKAGE, why };
        self.ear = Some(Ear::start(&self.name).map_err(|error| missing(error.to_string()))?);
        Ok(())
    }

    /// The ports of the server and their connections, for error messages.
    fn cables(&self) -> String {
        let output = Command::new("jack_lsp").arg("-c").env("JACK_DEFAULT_SERVER", &self.name).output();
        let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join(", ")
    }

    /// Waits for a message that starts with this status and note.
    pub fn hear(&self, status: u8, note: u8, limit: Duration) -> Result<(), String> {
        let ear = self.ear.as_ref().ok_or("the JACK server does not run")?;
        let mut heard = Vec::new();
        loop {
            match ear.heard.recv_timeout(limit) {
                Ok(message) if message[..2] == [status, note] => return Ok(()),
                Ok(message) => heard.push(message),
                Err(_) => {
                    let cables = self.cables();
                    let missing = format!("{status:02x} {note:02x} did not arrive");
                    return Err(format!("{missing}; received: {heard:02x?}; ports: {cables}"));
                }
            }
        }
    }
}

impl Ear {
    fn start(server: &str) -> std::io::Result<Self> {
        let mut child = Command::new("jack_midi_dump")
            .args(["-a", EAR])
            .env("JACK_DEFAULT_SERVER", server)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let (sender, heard) = channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some(message) = message(&line)
                    && sender.send(message).is_err()
                {
                    return;
                }
            }
        });
        Ok(Ear { _child: Killed(child), heard })
    }
}

/// The message in a line of `jack_midi_dump`, such as `4711: 90 40 64 note on ...`.
fn message(line: &str) -> Option<[u8; 3]> {
    let mut bytes = line.split_once(':')?.1.split_whitespace().map(|it| u8::from_str_radix(it, 16));
    Some([bytes.next()?.ok()?, bytes.next()?.ok()?, bytes.next()?.ok()?])
}

/// A simulated Live that answers as AbletonOSC does, behind a path that can lose datagrams.
pub struct Live {
    program: Arc<Mutex<Option<fakelive::Running>>>,
    pub way: Lossy,
    port: u16,
    reply_port: u16,
    /// The runtime on which the tasks of `way` run.
    _runtime: tokio::runtime::Runtime,
}

/// Reads the tempo of the simulated Live.
#[derive(Clone)]
pub struct Tempo(Arc<Mutex<Option<fakelive::Running>>>);

impl Tempo {
    /// `None` while Live does not run.
    pub fn get(&self) -> Option<f64> {
        self.0.lock().as_mut()?.look("song.tempo").as_f64()
    }
}

impl Live {
    fn start() -> Result<Self, Missing> {
        let program = fakelive::osc()?;
        let missing = |error: std::io::Error| Missing { part: "fakelive", package: "python3", why: error.to_string() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(missing)?;
        let way = runtime.block_on(Lossy::before(program.address())).map_err(missing)?;
        let port = program.port;
        let reply_port = free_udp_port();
        Ok(Live { program: Arc::new(Mutex::new(Some(program))), way, port, reply_port, _runtime: runtime })
    }

    pub fn tempo(&self) -> Tempo {
        Tempo(Arc::clone(&self.program))
    }

    /// Ends Live as a crash does.
    pub fn kill(&self) {
        if let Some(program) = self.program.lock().take() {
            program.crash();
        }
    }

    pub fn start_again(&self) -> Result<(), Missing> {
        let port = self.port.to_string();
        *self.program.lock() = Some(fakelive::start(&["osc", "--port", &port])?);
        Ok(())
    }

    #[cfg(feature = "broken")]
    pub fn run(&self, statement: &str) {
        if let Some(program) = self.program.lock().as_mut() {
            program.run(statement);
        }
    }
}

/// A web server on the loopback address.
pub struct Web {
    port: u16,
    is_silent: Arc<AtomicBool>,
    server: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Web {
    fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut web = Web { port: listener.local_addr()?.port(), is_silent: Arc::default(), server: None };
        web.serve(listener);
        Ok(web)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The server accepts connections, but does not answer. When it answers again, it closes these
    /// connections.
    pub fn set_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Release);
    }

    /// Ends the server, so that connections are refused.
    pub fn stop(&mut self) {
        if let Some((stop, server)) = self.server.take() {
            stop.store(true, Ordering::Release);
            // The thread of the server waits for a connection. This connection ends the wait.
            let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
            let _ = server.join();
        }
    }

    pub fn start_again(&mut self) -> Result<(), String> {
        // Another program may use the port for a moment.
        let bound = wait_for(real::PATIENCE, || TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).ok());
        self.serve(bound.ok_or("the port of the web server is in use")?);
        Ok(())
    }

    fn serve(&mut self, listener: TcpListener) {
        let stop = Arc::<AtomicBool>::default();
        let (ended, is_silent) = (Arc::clone(&stop), Arc::clone(&self.is_silent));
        let server = thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let is_silent = Arc::clone(&is_silent);
                thread::spawn(move || {
                    if is_silent.load(Ordering::Acquire) {
                        while is_silent.load(Ordering::Acquire) {
                            pause(20);
                        }
                        return;
                    }
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
                    let _ = stream.read(&mut [0; 4096]);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
                });
            }
        });
        self.server = Some((stop, server));
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.set_silent(false);
        self.stop();
    }
}

pub fn free_udp_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_or(0, |it| it.port())
}
