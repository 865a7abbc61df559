//! Sends requests to AbletonOSC over UDP, in batches that end with a fence message.
//!
//! AbletonOSC does not link errors to their cause and does not confirm writes. Therefore only one
//! batch is in flight at a time, and it ends with the fence `/live/test`. All messages received
//! before the reply to the fence belong to the batch. A missing reply is never treated as success.
//!
//! Datagrams may be lost, duplicated or late, and all replies to a fence look the same. Therefore a
//! fence ends a batch immediately only if every request has a reply. Otherwise the batch ends when
//! no message has arrived for `QUIET`, and the requests without a reply are sent again.
//!
//! One task receives all messages. A message that is not a reply is a push from a listener and is
//! forwarded to the host.

use crate::live::LiveHostError;
use parking_lot::{Mutex, MutexGuard};
use rosc::{OscMessage, OscPacket, OscType};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc};

pub const NAME: &str = "abletonosc";
const FENCE: &str = "/live/test";
const ERROR: &str = "/live/error";
/// AbletonOSC sends this message after Live has loaded AbletonOSC; another Set may be open now.
const STARTUP: &str = "/live/startup";
/// The largest UDP payload, in bytes.
const PACKET_MAX: usize = 65_507;
/// Maximum number of requests per batch: their replies must fit into the receive buffer of the
/// socket.
const QUESTIONS: usize = 96;
/// Number of retries of requests without a reply.
const ROUNDS: u32 = 5;
/// A batch ends after this time without messages. The time is longer than one tick of AbletonOSC,
/// which handles the received messages every 100 ms.
const QUIET: Duration = Duration::from_millis(150);
/// Capacity of the queue of pushes. When it is full, further pushes are dropped. This is harmless,
/// because the structure of the Set is read again before every call.
const PUSHES: usize = 256;
/// Number of retries, and the pause between them, while a port is in use.
const BINDS: u32 = 25;
const BIND_AGAIN: Duration = Duration::from_millis(10);

/// The `[live.osc]` section of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub peer: SocketAddr,
    /// The port to which AbletonOSC sends its replies. AbletonOSC uses one port for all clients, so
    /// only one client can run on a machine.
    pub reply_port: u16,
    pub timeout: Duration,
}

impl Settings {
    pub fn of_config(osc: &conductor_core::config::LiveOsc) -> Settings {
        Settings {
            // The address was checked when the configuration was read.
            peer: (osc.host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), osc.port).into(),
            reply_port: osc.reply_port,
            timeout: Duration::from_millis(osc.timeout_ms.into()),
        }
    }
}

/// One message. The reply to a request has the same address and starts with the request's indices.
#[derive(Debug, Clone)]
pub struct Ask {
    address: &'static str,
    arguments: Vec<OscType>,
    /// Number of arguments that the reply repeats before its values; none for a message without a
    /// reply.
    echo: Option<usize>,
}

/// A request about the object at these indices.
pub fn get(address: &'static str, indices: &[i32]) -> Ask {
    Ask { address, arguments: indices.iter().map(|it| OscType::Int(*it)).collect(), echo: Some(indices.len()) }
}

/// A request whose reply repeats only the first `echo` arguments.
pub fn get_with(address: &'static str, arguments: Vec<OscType>, echo: usize) -> Ask {
    Ask { address, arguments, echo: Some(echo) }
}

/// A message without a reply.
pub fn command(address: &'static str, arguments: Vec<OscType>) -> Ask {
    Ask { address, arguments, echo: None }
}

/// The replies to the messages of one batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// For each message, the values after the repeated arguments; `None` if no reply arrived.
    pub replies: Vec<Option<Vec<OscType>>>,
    pub error: Option<String>,
    errors: usize,
    /// Requests with two different replies: one of them is late, or is a push from a listener.
    doubtful: BTreeSet<usize>,
}

impl Batch {
    fn unanswered(asks: &[Ask]) -> Batch {
        Batch { replies: asks.iter().map(|_| None).collect(), ..Batch::default() }
    }

    fn is_complete(&self, asks: &[Ask]) -> bool {
        asks.iter().zip(&self.replies).all(|(ask, reply)| ask.echo.is_none() || reply.is_some())
    }

    /// The requests without a reply, or with an uncertain reply.
    fn missing(&self, asks: &[Ask]) -> Vec<usize> {
        let open = asks.iter().zip(&self.replies).enumerate();
        let open =
            open.filter(|(at, (ask, reply))| ask.echo.is_some() && (reply.is_none() || self.doubtful.contains(at)));
        open.map(|(at, _)| at).collect()
    }
}

/// The batch in flight.
struct Open {
    asks: Vec<Ask>,
    batch: Batch,
    /// Whether a reply to a fence arrived. The reply may belong to an earlier batch.
    fenced: bool,
    /// Whether a reply or an error arrived.
    heard: bool,
}

/// Progress of the batch in flight.
enum Progress {
    Nothing,
    Part,
    Whole,
}

struct Inner {
    socket: UdpSocket,
    peer: SocketAddr,
    open: Mutex<Option<Open>>,
    /// Notified for every datagram of the batch in flight.
    came: Notify,
    pushes: mpsc::Sender<OscMessage>,
    /// Number of batches without any reply, plus number of starts of AbletonOSC. After each of
    /// these, another Live or another Set may be running.
    gaps: AtomicU64,
    /// Number of datagrams from other senders.
    foreign: AtomicU64,
}

pub struct Wire {
    inner: Arc<Inner>,
    timeout: Duration,
    /// Locked while a batch is in flight.
    turn: tokio::sync::Mutex<()>,
    receiver: tokio::task::JoinHandle<()>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.receiver.abort();
    }
}

fn offline(reason: impl ToString) -> LiveHostError {
    LiveHostError::Offline { host: NAME, reason: reason.to_string() }
}

/// Binds the port. Retries a few times, because a dropped wire releases its port only when its
/// receiver task runs next.
async fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    for _ in 0..BINDS {
        match UdpSocket::bind(address).await {
            Err(fault) if fault.kind() == io::ErrorKind::AddrInUse => tokio::time::sleep(BIND_AGAIN).await,
            bound => return bound,
        }
    }
    UdpSocket::bind(address).await
}

impl Wire {
    /// Binds the port and starts the receiver; does not send yet.
    pub async fn open(settings: Settings) -> Result<(Wire, mpsc::Receiver<OscMessage>), LiveHostError> {
        // A socket that is bound to loopback cannot reach another machine.
        let here = if settings.peer.ip().is_loopback() { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let socket = bind(SocketAddr::from((here, settings.reply_port))).await.map_err(|fault| {
            offline(format!(
                "UDP port {} cannot be bound ({fault}); only one client of AbletonOSC can run on a machine",
                settings.reply_port
            ))
        })?;
        let (pushes, pushed) = mpsc::channel(PUSHES);
        let inner = Arc::new(Inner {
            socket,
            peer: settings.peer,
            open: Mutex::default(),
            came: Notify::new(),
            pushes,
            gaps: AtomicU64::new(0),
            foreign: AtomicU64::new(0),
        });
        let receiver = tokio::spawn(Arc::clone(&inner).receive());
        Ok((Wire { inner, timeout: settings.timeout, turn: tokio::sync::Mutex::default(), receiver }, pushed))
    }

    /// Increases with every batch without any reply, and with every start of AbletonOSC.
    pub fn gaps(&self) -> u64 {
        self.inner.gaps.load(Ordering::Relaxed)
    }

    /// Number of dropped datagrams from other senders.
    pub fn foreign(&self) -> u64 {
        self.inner.foreign.load(Ordering::Relaxed)
    }

    /// Sends requests; requests without a reply are sent again.
    pub async fn read(&self, asks: &[Ask]) -> Result<Batch, LiveHostError> {
        self.read_within(asks, ROUNDS).await
    }

    /// Like [`Wire::read`] with fewer retries, for a request whose reply may be too large for a
    /// datagram.
    pub async fn read_within(&self, asks: &[Ask], rounds: u32) -> Result<Batch, LiveHostError> {
        let mut whole = Batch::default();
        for part in asks.chunks(QUESTIONS) {
            let batch = self.write_within(part, rounds).await?;
            whole.replies.extend(batch.replies);
            whole.error = whole.error.or(batch.error);
        }
        Ok(whole)
    }

    /// Sends a write with its requests. Requests without a reply are sent again; the write is sent
    /// once.
    pub async fn write(&self, asks: &[Ask]) -> Result<Batch, LiveHostError> {
        self.write_within(asks, ROUNDS).await
    }

    async fn write_within(&self, asks: &[Ask], rounds: u32) -> Result<Batch, LiveHostError> {
        let (mut batch, mut silent) = match self.batch(asks).await {
            Ok(batch) => (batch, false),
            Err(LiveHostError::NoAnswer { .. }) => (Batch::unanswered(asks), true),
            Err(refusal) => return Err(refusal),
        };
        for _ in 0..rounds {
            let missing = batch.missing(asks);
            if missing.is_empty() || (batch.errors >= missing.len() && batch.doubtful.is_empty()) {
                break;
            }
            // After an error, send each missing request separately to find the failing ones.
            let alone = batch.error.is_some();
            let at_once = if alone { 1 } else { missing.len() };
            for part in missing.chunks(at_once) {
                let again: Vec<Ask> = part.iter().filter_map(|at| asks.get(*at).cloned()).collect();
                match self.batch(&again).await {
                    Ok(more) => {
                        silent = false;
                        for (n, (at, reply)) in part.iter().zip(more.replies).enumerate() {
                            if let Some(place) = batch.replies.get_mut(*at).filter(|_| reply.is_some()) {
                                *place = reply;
                                if !more.doubtful.contains(&n) {
                                    batch.doubtful.remove(at);
                                }
                            }
                        }
                        batch.errors += more.errors;
                        batch.error = batch.error.or(more.error);
                    }
                    Err(LiveHostError::NoAnswer { .. }) if !silent => silent = true,
                    Err(refusal) => return Err(refusal),
                }
            }
            if alone {
                break;
            }
        }
        Ok(batch)
    }

    /// Sends the messages once. At most one of them may be a write, so that an error has only one
    /// possible cause. At least one must be a request: its reply proves that AbletonOSC handled the
    /// messages before it. Fails if no reply arrives.
    pub async fn batch(&self, asks: &[Ask]) -> Result<Batch, LiveHostError> {
        let _turn = self.turn.lock().await;
        let open = Open { asks: asks.to_vec(), batch: Batch::unanswered(asks), fenced: false, heard: false };
        *self.inner.lock() = Some(open);
        let sent = async {
            for ask in asks {
                self.inner.send(ask.address, &ask.arguments).await?;
            }
            self.inner.send(FENCE, &[]).await
        };
        let settled = async {
            sent.await?;
            self.inner.settled().await;
            Ok::<(), LiveHostError>(())
        };
        // The limit also applies to sending, which waits until the socket is writable.
        if let Ok(settled) = tokio::time::timeout(self.timeout, settled).await {
            settled?;
        }
        match self.inner.lock().take() {
            Some(open) if open.heard || open.fenced => Ok(open.batch),
            Some(_) | None => {
                self.inner.gaps.fetch_add(1, Ordering::Relaxed);
                Err(LiveHostError::NoAnswer { host: NAME })
            }
        }
    }

    /// Sends a message between batches, without a read-back. Used for values that the next value
    /// soon replaces.
    pub async fn send(&self, ask: &Ask) -> Result<(), LiveHostError> {
        let _turn = self.turn.lock().await;
        self.inner.send(ask.address, &ask.arguments).await
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock()
    }

    fn progress(&self) -> Progress {
        match &*self.lock() {
            Some(it) if it.fenced && (it.batch.error.is_some() || it.batch.is_complete(&it.asks)) => Progress::Whole,
            Some(it) if it.fenced || it.heard => Progress::Part,
            Some(_) | None => Progress::Nothing,
        }
    }

    /// Waits until the batch in flight is complete, or until no message has arrived for [`QUIET`].
    async fn settled(&self) {
        loop {
            match self.progress() {
                Progress::Whole => return,
                Progress::Part if tokio::time::timeout(QUIET, self.came.notified()).await.is_err() => return,
                Progress::Part => {}
                Progress::Nothing => self.came.notified().await,
            }
        }
    }

    async fn send(&self, address: &str, arguments: &[OscType]) -> Result<(), LiveHostError> {
        let message = OscMessage { addr: address.to_owned(), args: arguments.to_vec() };
        let bytes = rosc::encoder::encode(&OscPacket::Message(message))
            .map_err(|fault| LiveHostError::Broken { reason: format!("OSC: {fault}") })?;
        if bytes.len() > PACKET_MAX {
            return Err(LiveHostError::Broken {
                reason: format!("{address}: {} bytes do not fit into a datagram", bytes.len()),
            });
        }
        self.socket.send_to(&bytes, self.peer).await.map(drop).map_err(offline)
    }

    async fn receive(self: Arc<Self>) {
        let mut buffer = vec![0; PACKET_MAX];
        loop {
            let (length, from) = match self.socket.recv_from(&mut buffer).await {
                Ok(came) => came,
                // The system reports that an earlier packet was not delivered; the batch of that
                // packet ends by its timeout.
                Err(fault) if is_undelivered(&fault) => continue,
                Err(_) => return,
            };
            if from.ip() != self.peer.ip() {
                self.foreign.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if let Some(message) = buffer.get(..length).and_then(single) {
                self.took(message);
            }
        }
    }

    fn took(&self, message: OscMessage) {
        if let Some(open) = &mut *self.lock() {
            let mut ours = true;
            if message.addr == FENCE {
                open.fenced = true;
            } else if message.addr == ERROR {
                let text = message.args.iter().find_map(|it| it.clone().string());
                open.batch.error = text.or_else(|| Some("an error without a text".into()));
                open.batch.errors += 1;
                open.heard = true;
            } else {
                ours = false;
                // A batch may contain the same request twice. The last reply is used until the
                // request is sent again.
                for (at, (ask, reply)) in open.asks.iter().zip(&mut open.batch.replies).enumerate() {
                    if answers(ask, &message.addr, &message.args) {
                        let values = message.args.iter().skip(ask.echo.unwrap_or(0)).cloned().collect();
                        if reply.replace(values).is_some_and(|old| reply.as_ref() != Some(&old)) {
                            open.batch.doubtful.insert(at);
                        }
                        (ours, open.heard) = (true, true);
                    }
                }
            }
            if ours {
                self.came.notify_one();
                return;
            }
        }
        if message.addr == STARTUP {
            self.gaps.fetch_add(1, Ordering::Relaxed);
        }
        // If the queue is full, the push is dropped (see `PUSHES`).
        let _ = self.pushes.try_send(message);
    }
}

/// Whether the system reports that no program listens at the peer's port. For a closed port on the
/// same machine, the system reports this immediately.
pub async fn nobody_listens(peer: SocketAddr) -> bool {
    const TELLS_WITHIN: Duration = Duration::from_millis(50);
    if !peer.ip().is_loopback() {
        return false;
    }
    // A blocking socket in its own thread: Wine marks an asynchronous socket as closed after such a
    // report, and tokio then repeats the read without end, and without a look at any time limit.
    let asked = tokio::task::spawn_blocking(move || {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(peer)?;
        socket.set_read_timeout(Some(TELLS_WITHIN))?;
        let fence = OscPacket::Message(OscMessage { addr: FENCE.into(), args: Vec::new() });
        socket.send(&rosc::encoder::encode(&fence).unwrap_or_default())?;
        socket.recv(&mut [0; 64]).map(drop)
    });
    // If no report arrives in time, a program may be listening.
    matches!(asked.await, Ok(Err(fault)) if is_undelivered(&fault))
}

/// Whether the system reports that no program has received an earlier packet. Windows calls this a
/// reset connection.
fn is_undelivered(fault: &std::io::Error) -> bool {
    matches!(fault.kind(), std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::ConnectionReset)
}

/// Decodes one message and refuses bundles: AbletonOSC does not send bundles, and nested bundles
/// recurse in the decoder.
fn single(packet: &[u8]) -> Option<OscMessage> {
    if packet.first() != Some(&b'/') {
        return None;
    }
    match rosc::decoder::decode_udp(packet).ok()?.1 {
        OscPacket::Message(message) => Some(message),
        OscPacket::Bundle(_) => None,
    }
}

fn answers(ask: &Ask, address: &str, values: &[OscType]) -> bool {
    let Some(echo) = ask.echo else { return false };
    ask.address == address
        && values.len() >= echo
        && ask.arguments.iter().zip(values).take(echo).all(|(sent, came)| number(sent) == number(came))
}

/// A number of any width. AbletonOSC sends 32-bit floats (0.85 arrives as 0.8500000238). The
/// shortest text with the same 32-bit value is the intended value.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other OSC types are not numbers")]
pub fn number(value: &OscType) -> Option<f64> {
    match value {
        OscType::Int(it) => Some(f64::from(*it)),
        OscType::Long(it) => Some(*it as f64),
        OscType::Float(it) => Some(it.to_string().parse().unwrap_or_else(|_| f64::from(*it))),
        OscType::Double(it) => Some(*it),
        OscType::Bool(it) => Some(f64::from(u8::from(*it))),
        _ => None,
    }
}

pub fn truth(value: &OscType) -> Option<bool> {
    number(value).map(|it| it != 0.0)
}

pub fn text(value: &OscType) -> Option<String> {
    value.clone().string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_two_bits_are_read_as_they_were_meant() {
        assert_eq!(number(&OscType::Float(0.85)), Some(0.85));
        assert_eq!(number(&OscType::Float(124.0)), Some(124.0));
        assert_eq!(number(&OscType::Float(1.0 / 3.0)), Some(0.333_333_34));
        assert_eq!(number(&OscType::Nil), None);
    }

    #[tokio::test]
    async fn a_wire_can_be_opened_again_as_soon_as_it_is_dropped() {
        let free = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let settings = Settings { reply_port: free, ..Settings::of_config(&Default::default()) };
        for _ in 0..3 {
            let (wire, _pushed) = Wire::open(settings).await.expect("the port is still in use");
            tokio::task::yield_now().await;
            drop(wire);
        }
        let other = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = Settings { reply_port: other.local_addr().unwrap().port(), ..settings };
        assert!(matches!(Wire::open(taken).await, Err(LiveHostError::Offline { .. })));
    }

    #[test]
    fn a_reply_answers_the_question_with_its_indices() {
        let ask = get("/live/track/get/name", &[1]);
        let came = |n| vec![OscType::Int(n), OscType::String("x".into())];
        assert!(answers(&ask, "/live/track/get/name", &came(1)));
        assert!(!answers(&ask, "/live/track/get/name", &came(2)));
        assert!(!answers(&ask, "/live/track/get/mute", &came(1)));
        assert!(!answers(&command("/live/track/get/name", came(1)), "/live/track/get/name", &came(1)));
    }
}
