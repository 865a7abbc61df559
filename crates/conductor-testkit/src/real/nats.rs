//! A NATS server for one test, on loopback, and a proxy that can cut the connections to it.

use super::{Group, Missing, PATIENCE, wait_for};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

pub const PACKAGE: &str = "nats-server";

fn missing(why: impl Into<String>) -> Missing {
    Missing { part: "nats", package: PACKAGE, why: why.into() }
}

/// The version of the installed server.
pub fn probe() -> Result<String, Missing> {
    let output = Command::new(PACKAGE).arg("--version").output().map_err(|it| missing(it.to_string()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port()
}

/// A server with a configuration file. Dropping it ends the process; its streams stay in their
/// folder.
pub struct Server {
    config: PathBuf,
    port: u16,
    group: Option<Group>,
}

impl Server {
    /// Starts a server that listens on this port.
    pub fn start(config: &Path, port: u16) -> Result<Self, Missing> {
        let mut server = Server { config: config.to_owned(), port, group: None };
        server.resume().map_err(missing)?;
        Ok(server)
    }

    /// Starts the server again after [`Server::stop`].
    pub fn resume(&mut self) -> Result<(), String> {
        let log = self.config.with_extension("log");
        let mut command = Command::new(PACKAGE);
        command.arg("-c").arg(&self.config).arg("-l").arg(&log).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        self.group = Some(Group::spawn(&mut command, Signal::TERM).map_err(|it| it.to_string())?);
        let port = self.port;
        let is_up = wait_for(PATIENCE, || {
            let ready = std::fs::read_to_string(&log).unwrap_or_default();
            (TcpStream::connect(("127.0.0.1", port)).is_ok() && ready.contains("Server is ready")).then_some(())
        });
        is_up.ok_or_else(|| format!("the server did not start: {}", std::fs::read_to_string(&log).unwrap_or_default()))
    }

    /// Ends the server like a crash.
    pub fn stop(&mut self) {
        if let Some(group) = self.group.take() {
            group.kill();
        }
        let _ = std::fs::remove_file(self.config.with_extension("log"));
    }

    pub fn pid(&self) -> u32 {
        self.group.as_ref().map_or(0, |it| it.child.id())
    }

    /// Stops or continues the process. The stopped server accepts connections but answers nothing.
    pub fn freeze(&self, frozen: bool) {
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        if let Some(pid) = self.group.as_ref().and_then(|it| Pid::from_raw(it.child.id() as i32)) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.freeze(false);
    }
}

/// Forwards connections to a port until [`Proxy::cut`].
pub struct Proxy {
    pub port: u16,
    state: Arc<Mutex<ProxyState>>,
}

#[derive(Default)]
struct ProxyState {
    is_cut: bool,
    open: Vec<TcpStream>,
}

impl Proxy {
    pub fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state: Arc<Mutex<ProxyState>> = Arc::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut state = shared.lock();
                if state.is_cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    std::thread::spawn(move || copy(from, to));
                }
                state.open.extend([client, server]);
            }
        });
        Proxy { port, state }
    }

    /// `true` ends all connections and closes new ones at once; `false` forwards new connections
    /// again.
    pub fn cut(&self, is_cut: bool) {
        let mut state = self.state.lock();
        state.is_cut = is_cut;
        for stream in state.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
