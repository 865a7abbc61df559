//! A connection to the script in Live. Matches replies to requests by number, and passes events to
//! the host.

use super::NAME;
use super::rendezvous::Rendezvous;
use crate::bridges;
use crate::live::LiveHostError;
use conductor_core::error::Code;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;

/// The protocol version that Conductor uses.
pub const PROTOCOL: u32 = 2;
/// Maximum length of a line from the script, in bytes.
const LINE_MAX: u64 = 8 << 20;
/// Maximum length of the first line, in bytes.
const FIRST_MAX: u64 = 4096;
/// Maximum length of a line that the script accepts, in bytes.
const REQUEST_MAX: usize = 1 << 20;
/// The script's reply to one request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    id: Option<u64>,
    #[serde(default)]
    ok: bool,
    #[serde(default)]
    pub result: Value,
    #[serde(default)]
    pub undo_steps: u32,
    #[serde(default)]
    pub epoch: u64,
    error: Option<Fault>,
}

#[derive(Debug, Deserialize)]
struct Fault {
    code: String,
    message: String,
    subject: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Event {
    pub what: String,
    pub subject: String,
    pub epoch: u64,
}

/// Handles events in order: events that arrive before a reply are handled before the reply is
/// returned.
pub type Hear = Arc<dyn Fn(&Event) + Send + Sync>;

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Reply>>>>;

pub struct Line {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    waiting: Waiting,
    ended: Arc<AtomicBool>,
    next: AtomicU64,
    timeout: Duration,
    reader: tokio::task::JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The script's properties, sent in its first reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    pub live: String,
    pub caps: Vec<String>,
    pub epoch: u64,
}

fn offline(reason: impl ToString) -> LiveHostError {
    LiveHostError::Offline { host: NAME, reason: reason.to_string() }
}

impl Line {
    /// Connects and waits for the script's token. Then each side proves that it has the secret.
    pub async fn open(met: &Rendezvous, timeout: Duration, hear: Hear) -> Result<(Line, Greeting), LiveHostError> {
        if met.protocol != PROTOCOL {
            return Err(offline(format!(
                "the script in Live uses protocol {} and this Conductor uses {PROTOCOL}; install the script again with \
                 `conductor bridge install live`",
                met.protocol
            )));
        }
        let connected = tokio::time::timeout(timeout, TcpStream::connect((Ipv4Addr::LOCALHOST, met.port))).await;
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(fault)) => {
                return Err(offline(format!(
                    "nothing listens on port {} ({fault}): Live (pid {}) has ended, but the file that announces its port still exists",
                    met.port, met.pid
                )));
            }
            Err(_) => return Err(LiveHostError::NoAnswer { host: NAME }),
        };
        stream.set_nodelay(true).map_err(offline)?;
        let (reader, writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let theirs = tokio::time::timeout(timeout, meet(&mut reader, met)).await;
        let theirs = theirs.map_err(|_| LiveHostError::NoAnswer { host: NAME })??;
        let (waiting, ended): (Waiting, _) = (Waiting::default(), Arc::new(AtomicBool::new(false)));
        let reader = tokio::spawn(receive(reader, Arc::clone(&waiting), Arc::clone(&ended), hear));
        let writer = tokio::sync::Mutex::new(writer);
        let line = Line { writer, waiting, ended, next: AtomicU64::new(1), timeout, reader };
        let ours = bridges::secret();
        let proven = bridges::proof(&met.secret, "daemon", &theirs, &ours);
        let hello = line.ask("hello", json!({ "nonce": ours, "proof": proven, "protocol": PROTOCOL })).await;
        // After a wrong proof the script closes the connection without a reply.
        if matches!(hello, Err(LiveHostError::Offline { .. })) {
            return Err(left_over());
        }
        let reply = hello?;
        let proven = reply.result["proof"].as_str().unwrap_or_default();
        if !bridges::same(proven, &bridges::proof(&met.secret, "script", &ours, &theirs)) {
            return Err(left_over());
        }
        let list = reply.result["caps"].as_array().cloned().unwrap_or_default();
        let greeting = Greeting {
            live: reply.result["live"].as_str().unwrap_or("unknown").to_owned(),
            caps: list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            epoch: reply.epoch,
        };
        Ok((line, greeting))
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Sends one request and waits for its reply.
    pub async fn ask(&self, op: &str, body: Value) -> Result<Reply, LiveHostError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut request = if let Value::Object(members) = body { members } else { Map::new() };
        request.insert("id".into(), Value::from(id));
        request.insert("op".into(), Value::from(op));
        let mut bytes = Value::Object(request).to_string().into_bytes();
        bytes.push(b'\n');
        if bytes.len() > REQUEST_MAX {
            return Err(LiveHostError::Said {
                host: NAME,
                code: Code::BadInput,
                message: format!("the request has {} bytes; the script accepts at most {REQUEST_MAX}", bytes.len()),
                subject: None,
            });
        }
        let (answer, answered) = oneshot::channel();
        self.lock().insert(id, answer);
        if self.has_ended() {
            self.lock().remove(&id);
            return Err(offline("Live closed the connection"));
        }
        let sent = self.writer.lock().await.write_all(&bytes).await;
        if let Err(fault) = sent {
            self.lock().remove(&id);
            return Err(offline(fault));
        }
        let reply = match tokio::time::timeout(self.timeout, answered).await {
            Ok(Ok(reply)) => reply,
            // The connection ended, and the reader dropped all waiting requests.
            Ok(Err(_)) => return Err(offline("Live closed the connection before it answered")),
            Err(_) => {
                self.lock().remove(&id);
                return Err(LiveHostError::NoAnswer { host: NAME });
            }
        };
        match reply.error {
            None if reply.ok => Ok(reply),
            Some(fault) => Err(said(fault)),
            None => Err(offline("the script's reply has no result and no error")),
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<u64, oneshot::Sender<Reply>>> {
        self.waiting.lock()
    }
}

fn said(fault: Fault) -> LiveHostError {
    let code = match fault.code.as_str() {
        "STALE_REFERENCE" => Code::StaleReference,
        "WRONG_TYPE" => Code::WrongType,
        "BAD_INPUT" => Code::BadInput,
        "UNSUPPORTED" => Code::Unsupported,
        "BUSY" => Code::Busy,
        // Live refused the operation, or the script failed.
        _ => Code::SdkRejected,
    };
    LiveHostError::Said { host: NAME, code, message: fault.message, subject: fault.subject }
}

fn left_over() -> LiveHostError {
    offline(
        "the program on the port in state/live-script.json did not prove with token and secret that it is the script; the file is probably from a Live that has ended",
    )
}

/// Reads the first line of the script: its token and its nonce. Nothing has been sent to the script
/// yet.
async fn meet(reader: &mut BufReader<OwnedReadHalf>, met: &Rendezvous) -> Result<String, LiveHostError> {
    #[derive(Deserialize)]
    struct First {
        token: String,
        nonce: String,
    }
    let mut line = Vec::new();
    reader.take(FIRST_MAX).read_until(b'\n', &mut line).await.map_err(offline)?;
    if let Ok(First { token, nonce }) = serde_json::from_slice(&line) {
        return if bridges::same(&token, &met.token) { Ok(nonce) } else { Err(left_over()) };
    }
    // The script sends an error if another client is connected.
    let refusal = serde_json::from_slice::<Reply>(&line).ok().and_then(|it| it.error);
    Err(refusal.map_or_else(left_over, said))
}

/// Reads lines until the connection ends. All waiting requests then fail.
async fn receive(mut reader: BufReader<OwnedReadHalf>, waiting: Waiting, ended: Arc<AtomicBool>, hear: Hear) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(LINE_MAX + 1).read_until(b'\n', &mut line).await {
            Ok(length) if length > 0 && line.last() == Some(&b'\n') => {}
            Ok(_) | Err(_) => break,
        }
        if let Ok(event) = serde_json::from_slice::<Event>(&line) {
            hear(&event);
            continue;
        }
        let Ok(reply) = serde_json::from_slice::<Reply>(&line) else { break };
        let mut waiting = waiting.lock();
        match reply.id {
            Some(id) => {
                if let Some(answer) = waiting.remove(&id) {
                    let _ = answer.send(reply);
                }
            }
            // An error without a request number, such as BUSY: pass it to one waiting request.
            None => {
                if let Some(id) = waiting.keys().next().copied()
                    && let Some(answer) = waiting.remove(&id)
                {
                    let _ = answer.send(reply);
                }
            }
        }
    }
    ended.store(true, Ordering::Release);
    waiting.lock().clear();
}
