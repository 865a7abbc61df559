//! Questions to AbletonOSC over UDP, in batches that a fence closes.
//!
//! The peer links no error to its cause and says nothing about a write. So one batch is under way at a time, it ends with `/live/test`,
//! and what came before the fence's answer belongs to it: a reply that is missing then is a failure. Silence is never success.

use crate::hosts::live::Refusal;
use rosc::{OscMessage, OscPacket, OscType};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::UdpSocket;

pub const NAME: &str = "abletonosc";
const FENCE: &str = "/live/test";
const ERROR: &str = "/live/error";
/// The largest packet UDP carries.
const PACKET_MAX: usize = 65_507;

/// `[live.osc]`.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub peer: SocketAddr,
    /// Where AbletonOSC sends its answers: one per machine, so one client per machine.
    pub reply_port: u16,
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            peer: (Ipv4Addr::LOCALHOST, 11_000).into(),
            reply_port: 11_001,
            timeout: Duration::from_millis(1500),
        }
    }
}

/// One message. A question is answered at its own address, its leading indices first.
#[derive(Debug, Clone)]
pub struct Ask {
    address: &'static str,
    arguments: Vec<OscType>,
    /// Arguments that come back before the values; none for a message that is not answered.
    echo: Option<usize>,
}

/// A question about the object at these indices.
pub fn get(address: &'static str, indices: &[i32]) -> Ask {
    Ask { address, arguments: indices.iter().map(|it| OscType::Int(*it)).collect(), echo: Some(indices.len()) }
}

/// A question with more arguments than come back.
pub fn get_with(address: &'static str, arguments: Vec<OscType>, echo: usize) -> Ask {
    Ask { address, arguments, echo: Some(echo) }
}

/// A message that is not answered.
pub fn tell(address: &'static str, arguments: Vec<OscType>) -> Ask {
    Ask { address, arguments, echo: None }
}

/// What came back before the fence.
#[derive(Debug, Default)]
pub struct Batch {
    /// Per question, the values after its echo; for what is not answered, nothing.
    pub replies: Vec<Option<Vec<OscType>>>,
    pub error: Option<String>,
}

pub struct Wire {
    socket: UdpSocket,
    settings: Settings,
    /// Held for a whole batch. Counts fences of batches that were given up: their answers may still come.
    late: tokio::sync::Mutex<u32>,
    /// Datagrams from elsewhere.
    pub foreign: AtomicU64,
}

impl Wire {
    pub async fn open(settings: Settings) -> Result<Wire, Refusal> {
        let socket =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, settings.reply_port)).await.map_err(|fault| Refusal::Offline {
                host: NAME,
                reason: format!(
                    "UDP port {} cannot be bound ({fault}); one AbletonOSC client per machine",
                    settings.reply_port
                ),
            })?;
        Ok(Wire { socket, settings, late: tokio::sync::Mutex::default(), foreign: AtomicU64::new(0) })
    }

    /// Questions only: asked once more when no answer came at all.
    pub async fn read(&self, asks: &[Ask]) -> Result<Batch, Refusal> {
        match self.batch(asks).await {
            Err(Refusal::NoAnswer { .. }) => self.batch(asks).await,
            done => done,
        }
    }

    /// Sends once. At most one of the messages may be a write, so that an error has one possible cause.
    pub async fn batch(&self, asks: &[Ask]) -> Result<Batch, Refusal> {
        let mut late = self.late.lock().await;
        let mut waste = [0; 1];
        while self.socket.try_recv_from(&mut waste).is_ok() {}
        for ask in asks {
            self.send(ask.address, &ask.arguments).await?;
        }
        self.send(FENCE, &[]).await?;
        let mut batch = Batch { replies: asks.iter().map(|_| None).collect(), error: None };
        let closed = tokio::time::timeout(self.settings.timeout, self.collect(asks, &mut batch, &mut late)).await;
        match closed {
            Ok(done) => done.map(|()| batch),
            Err(_) => {
                *late = late.saturating_add(1);
                Err(Refusal::NoAnswer { host: NAME })
            }
        }
    }

    async fn send(&self, address: &str, arguments: &[OscType]) -> Result<(), Refusal> {
        let message = OscMessage { addr: address.to_owned(), args: arguments.to_vec() };
        let bytes = rosc::encoder::encode(&OscPacket::Message(message))
            .map_err(|fault| Refusal::Broken { reason: format!("OSC: {fault}") })?;
        let offline = |fault: std::io::Error| Refusal::Offline { host: NAME, reason: fault.to_string() };
        self.socket.send_to(&bytes, self.settings.peer).await.map(drop).map_err(offline)
    }

    async fn collect(&self, asks: &[Ask], batch: &mut Batch, late: &mut u32) -> Result<(), Refusal> {
        let mut buffer = vec![0; PACKET_MAX];
        loop {
            let offline = |fault: std::io::Error| Refusal::Offline { host: NAME, reason: fault.to_string() };
            let (length, from) = match self.socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                // The system tells of a closed port at the other end this way: nobody listens there.
                Err(fault) if fault.kind() == std::io::ErrorKind::ConnectionRefused => return Err(offline(fault)),
                Err(fault) => return Err(offline(fault)),
            };
            if from.ip() != self.settings.peer.ip() {
                self.foreign.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let Some(message) = buffer.get(..length).and_then(single) else { continue };
            match message.addr.as_str() {
                FENCE => {
                    let complete =
                        asks.iter().zip(&batch.replies).all(|(ask, reply)| ask.echo.is_none() || reply.is_some());
                    // The answer to a fence that was given up may come now; the right one follows.
                    if *late > 0 && !complete && batch.error.is_none() {
                        *late -= 1;
                        continue;
                    }
                    return Ok(());
                }
                ERROR => {
                    batch.error =
                        message.args.into_iter().find_map(OscType::string).or(Some("an error without a text".into()))
                }
                address => {
                    let open = asks
                        .iter()
                        .zip(&mut batch.replies)
                        .find(|(ask, reply)| reply.is_none() && answers(ask, address, &message.args));
                    if let Some((ask, reply)) = open {
                        *reply = Some(message.args.into_iter().skip(ask.echo.unwrap_or(0)).collect());
                    }
                }
            }
        }
    }
}

/// One message, never a bundle: AbletonOSC sends none, and nested ones recurse in the decoder.
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

/// A number of any width.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other OSC types are no numbers")]
pub fn number(value: &OscType) -> Option<f64> {
    match value {
        OscType::Int(it) => Some(f64::from(*it)),
        OscType::Long(it) => Some(*it as f64),
        OscType::Float(it) => Some(f64::from(*it)),
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
