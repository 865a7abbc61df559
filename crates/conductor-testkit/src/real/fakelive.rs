//! A simulation of Live in Python. It runs our script, or answers as AbletonOSC does. It tests the
//! connections and the protocol, but cannot prove how Live behaves.
//!
//! A [`Lossy`] path between the simulation and a client can lose, delay or duplicate datagrams.

use super::Missing;
use super::program::{Program, native};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;

fn missing(why: impl ToString) -> Missing {
    Missing { part: "fakelive", package: "python3", why: why.to_string() }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every address that AbletonOSC registers.
pub const ADDRESSES: &str = include_str!("../../fakelive/abletonosc-addresses.txt");

/// A running simulation of Live. Dropping it ends the process.
pub struct Running {
    program: Program,
    /// The UDP port on which the simulation answers as AbletonOSC; 0 if it runs our script.
    pub port: u16,
}

/// Runs our script in a simulated Live of this version. The script writes its address to this home.
pub fn script(home: &Path, version: &str) -> Result<Running, Missing> {
    let bridges = root().join("bridges/live");
    // The script reads the path of the home from a file in its own folder, so run a copy with such
    // a file.
    let folder = home.join("Remote Scripts");
    let copied = copy(&bridges.join("Conductor"), &folder.join("Conductor"))
        .and_then(|()| std::fs::write(folder.join("Conductor/home.txt"), native(home)));
    copied.map_err(missing)?;
    start(&["script", &native(&folder), "--live", version])
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)?.flatten() {
        if file.path().is_file() {
            std::fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    Ok(())
}

/// Answers as AbletonOSC does, with the Set of the test that runs on every host.
pub fn osc() -> Result<Running, Missing> {
    start(&["osc"])
}

/// Answers as AbletonOSC does, with the Set of the recorded exchanges.
pub fn recorded_osc() -> Result<Running, Missing> {
    start(&["osc", "--song", "recorded"])
}

/// Starts the simulation with these arguments and waits until it is ready.
pub fn start(arguments: &[&str]) -> Result<Running, Missing> {
    let serve = native(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fakelive/serve.py"));
    let program = Program::start("python3", &[&["-B", &serve], arguments].concat())
        .map_err(|error| missing(format!("python3 does not start: {error}")))?;
    let mut running = Running { program, port: 0 };
    let ready = running.answer().ok_or_else(|| missing("it did not become ready"))?;
    running.port = ready["port"].as_u64().and_then(|it| it.try_into().ok()).unwrap_or(0);
    Ok(running)
}

impl Running {
    fn answer(&mut self) -> Option<Value> {
        serde_json::from_str(&self.program.line()?).ok()
    }

    fn order(&mut self, order: Value) -> Value {
        let told = self.program.send(&order.to_string());
        let answer = told.ok().and_then(|()| self.answer()).unwrap_or(Value::Null);
        assert!(answer["error"].is_null(), "{order}: {answer}");
        answer["ok"].clone()
    }

    /// Executes a Python statement that can use `song`, as if a person used Live.
    pub fn run(&mut self, statement: &str) {
        self.order(json!({ "run": statement }));
    }

    /// Returns the value of a Python expression that can use `song`.
    pub fn look(&mut self, expression: &str) -> Value {
        self.order(json!({ "look": expression }))
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Simulates a dialog in Live: Live reads no command and answers nothing from now on.
    pub fn freeze(&mut self) {
        let _ = self.program.send(&json!({ "run": "import time; time.sleep(600)" }).to_string());
    }

    /// Quits Live as a person would, so that it cleans up.
    pub fn quit(mut self) {
        let _ = self.program.send(&json!({ "quit": true }).to_string());
        self.program.wait();
    }

    /// Simulates a crash of Live.
    pub fn crash(self) {
        drop(self);
    }
}

/// Faults of a [`Lossy`] path. The addresses are OSC addresses.
#[derive(Default)]
pub struct Faults {
    /// Address and number of the replies that are lost.
    pub lose: Option<(&'static str, u32)>,
    /// Requests with this address never arrive.
    pub ignore: Option<&'static str>,
    /// The next reply with this address arrives after the answer to the fence request, which has
    /// the address `/live/test`.
    pub late: Option<&'static str>,
    /// An error that belongs to no request arrives before every reply, except before the answer to
    /// the fence request.
    pub stray_error: bool,
    /// All datagrams are lost.
    pub silent: bool,
    /// Every nth datagram is lost, in both directions.
    pub lose_every: Option<u32>,
    /// Every reply arrives twice.
    pub doubled: bool,
    /// Every second reply is delayed by this time, so replies arrive in another order.
    pub delayed: Option<Duration>,
    /// Live quits after it has executed a request with this address. It sends no answer to this or
    /// any later request.
    pub quit_at: Option<&'static str>,
}

impl Faults {
    fn loses(&self, count: u32) -> bool {
        self.lose_every.is_some_and(|every| count.is_multiple_of(every))
    }
}

/// A proxy for datagrams that adds faults.
pub struct Lossy {
    pub address: SocketAddr,
    faults: Arc<Mutex<Faults>>,
    tasks: [tokio::task::JoinHandle<()>; 2],
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

fn address_of(packet: &[u8]) -> String {
    String::from_utf8_lossy(packet.split(|it| *it == 0).next().unwrap_or_default()).into_owned()
}

/// `/live/error` with a text, as AbletonOSC sends it.
const GRIEVANCE: &[u8] = b"/live/error\0,s\0\0an old grievance\0\0\0\0";

impl Lossy {
    pub async fn before(peer: SocketAddr) -> std::io::Result<Lossy> {
        let here = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        let there = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        there.connect(peer).await?;
        let faults: Arc<Mutex<Faults>> = Arc::default();
        let client: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let address = here.local_addr()?;
        let tasks = [
            tokio::spawn(onward(Arc::clone(&here), Arc::clone(&there), Arc::clone(&faults), Arc::clone(&client))),
            tokio::spawn(back(there, here, Arc::clone(&faults), client)),
        ];
        Ok(Lossy { address, faults, tasks })
    }

    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock()
    }
}

async fn onward(
    here: Arc<UdpSocket>,
    there: Arc<UdpSocket>,
    faults: Arc<Mutex<Faults>>,
    client: Arc<Mutex<Option<SocketAddr>>>,
) {
    let mut buffer = vec![0; 65_536];
    let mut count = 0_u32;
    while let Ok((length, from)) = here.recv_from(&mut buffer).await {
        count = count.wrapping_add(1);
        *client.lock() = Some(from);
        let Some(packet) = buffer.get(..length) else { continue };
        let address = address_of(packet);
        let passes = {
            let mut faults = faults.lock();
            let passes = !faults.silent && faults.ignore != Some(address.as_str()) && !faults.loses(count);
            faults.silent |= faults.quit_at == Some(address.as_str());
            passes
        };
        if passes {
            let _ = there.send(packet).await;
        }
    }
}

async fn back(
    there: Arc<UdpSocket>,
    here: Arc<UdpSocket>,
    faults: Arc<Mutex<Faults>>,
    client: Arc<Mutex<Option<SocketAddr>>>,
) {
    let mut buffer = vec![0; 65_536];
    let mut held: Option<Vec<u8>> = None;
    let mut count = 0_u32;
    loop {
        // `recv` fails while the port of the peer is closed. Retry, because the peer may be started
        // again.
        let Ok(length) = there.recv(&mut buffer).await else { continue };
        let Some(packet) = buffer.get(..length) else { continue };
        let address = address_of(packet);
        let mut out: Vec<Vec<u8>> = Vec::new();
        count = count.wrapping_add(1);
        let (doubled, delay) = {
            let mut faults = faults.lock();
            if faults.silent || faults.loses(count) {
                continue;
            }
            if let Some((lost, times)) = &mut faults.lose
                && *lost == address
                && *times > 0
            {
                *times -= 1;
                continue;
            }
            if faults.late == Some(address.as_str()) {
                faults.late = None;
                held = Some(packet.to_vec());
                continue;
            }
            if faults.stray_error && address != "/live/test" {
                out.push(GRIEVANCE.to_vec());
            }
            (faults.doubled, faults.delayed.filter(|_| count.is_multiple_of(2)))
        };
        out.push(packet.to_vec());
        if doubled {
            out.push(packet.to_vec());
        }
        if address == "/live/test" {
            out.extend(held.take());
        }
        let to = *client.lock();
        let Some(to) = to else { continue };
        let here = Arc::clone(&here);
        let send = async move {
            for packet in out {
                let _ = here.send_to(&packet, to).await;
            }
        };
        match delay {
            None => send.await,
            Some(delay) => drop(tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                send.await;
            })),
        }
    }
}
