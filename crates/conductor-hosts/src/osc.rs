//! OSC over UDP: listeners that push events like MIDI inputs, and a sender that never waits.
//!
//! UDP senders are not authenticated, so every received message is marked with the taint `Network`,
//! even if it is from this machine. A listener on an address other than loopback needs
//! `allow_network = true`. Time tags of bundles are ignored: messages are delivered when they
//! arrive, in the order of the bundle.
//!
//! Not here: reading and writing packets (`packet`), address patterns
//! (`conductor_core::event::osc`), and the handling of messages.

mod packet;

pub use packet::{Received, encode};

use super::midi::Stamp;
use super::midi::ring::EventSender;
use conductor_core::event::{Body, OscMessage, Taint};
use packet::{PACKET_MAX, TooLong, receive};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The interval at which a listener checks whether it should end.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum OscError {
    #[error("'{listen}' is not an address such as 127.0.0.1:9000")]
    BadAddress { listen: String },
    #[error("{listen} can be reached from the network; set allow_network = true to allow that")]
    NotLoopback { listen: SocketAddr },
    #[error("cannot listen on {listen}: {error}")]
    CannotListen { listen: SocketAddr, error: io::Error },
    #[error("the message has {len} bytes; the limit is {PACKET_MAX}")]
    TooLong { len: usize },
    #[error("cannot send to {to}: {error}")]
    CannotSend { to: SocketAddr, error: io::Error },
    /// The system's send buffer is full.
    #[error("the system's send buffer is full; the packet to {to} was not sent")]
    Busy { to: SocketAddr },
}

impl From<TooLong> for OscError {
    fn from(TooLong(len): TooLong) -> Self {
        OscError::TooLong { len }
    }
}

/// A UDP port that we listen on. Dropping the listener ends its thread.
pub struct Listener {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    open: Arc<AtomicBool>,
    counters: Arc<Received<AtomicU64>>,
}

impl Listener {
    /// Starts a listener. `listen` is the configured address. With port 0, the system chooses a
    /// free port.
    pub fn start(
        listen: &str,
        allow_network: bool,
        mut events: EventSender,
        stamp: Stamp,
    ) -> Result<Listener, OscError> {
        let wanted: SocketAddr = listen.parse().map_err(|_| OscError::BadAddress { listen: listen.into() })?;
        if !wanted.ip().is_loopback() && !allow_network {
            return Err(OscError::NotLoopback { listen: wanted });
        }
        let cannot = |error| OscError::CannotListen { listen: wanted, error };
        let socket = UdpSocket::bind(wanted).map_err(cannot)?;
        socket.set_read_timeout(Some(READ_TIMEOUT)).map_err(cannot)?;
        let address = socket.local_addr().map_err(cannot)?;
        let (closing, open) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let counters = Arc::new(Received::<AtomicU64>::default());
        let listener = Listener {
            address,
            closing: Arc::clone(&closing),
            open: Arc::clone(&open),
            counters: Arc::clone(&counters),
        };
        let run = move || {
            let mut buffer = vec![0; PACKET_MAX];
            while !closing.load(Ordering::Acquire) {
                match socket.recv_from(&mut buffer) {
                    Ok((len, _)) => {
                        let at = stamp();
                        let packet = buffer.get(..len).unwrap_or_default();
                        receive(packet, &counters, |message| {
                            events.push(at, Taint::Network, Body::Osc(message.into()));
                        });
                    }
                    // No packet arrived before the timeout, or the error is temporary.
                    Err(error) if is_transient(&error) => {}
                    Err(_) => break,
                }
            }
            open.store(false, Ordering::Release);
        };
        thread::Builder::new().name("osc-in".into()).spawn(run).map_err(cannot)?;
        Ok(listener)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub fn received(&self) -> Received {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Received {
            messages: read(&self.counters.messages),
            malformed: read(&self.counters.malformed),
            unsupported: read(&self.counters.unsupported),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // An empty packet wakes the listener's thread at once. If the packet is lost, the thread
        // ends after its timeout.
        let any = match self.address.ip() {
            IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        };
        if let Ok(socket) = UdpSocket::bind(any) {
            let _ = socket.send_to(&[], SocketAddr::new(any.ip(), self.address.port()));
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}

/// Sends OSC for the whole daemon. Host names are resolved elsewhere, because resolving may block.
#[derive(Default)]
pub struct Sender {
    four: Option<UdpSocket>,
    six: Option<UdpSocket>,
}

impl Sender {
    pub fn new() -> Self {
        Sender::default()
    }

    /// Passes one message to the system. Never waits.
    pub fn send(&mut self, to: SocketAddr, message: &OscMessage) -> Result<(), OscError> {
        let bytes = encode(message)?;
        let cannot = |error| OscError::CannotSend { to, error };
        let (socket, any) = match to {
            SocketAddr::V4(_) => (&mut self.four, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
            SocketAddr::V6(_) => (&mut self.six, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))),
        };
        let socket = match socket {
            Some(socket) => socket,
            None => {
                let new = UdpSocket::bind(any).map_err(cannot)?;
                new.set_nonblocking(true).map_err(cannot)?;
                socket.insert(new)
            }
        };
        match socket.send_to(&bytes, to) {
            Ok(_) => Ok(()),
            // The system reports the refusal of an earlier packet when the next packet is sent.
            // The new packet was not sent, so send it again.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                socket.send_to(&bytes, to).map(|_| ()).map_err(cannot)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(OscError::Busy { to }),
            Err(error) => Err(cannot(error)),
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::midi::ring::{Bell, EventReceiver, event_ring};
    use super::*;
    use conductor_core::event::{DeviceSlot, Micros, OscArg};
    use conductor_testkit::real::{Missing, PATIENCE, skip, wait_for};
    use proptest::prelude::*;
    use rosc::{OscPacket, OscType};
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    fn listen(address: &str, allow: bool) -> Result<(Listener, EventReceiver), OscError> {
        let (sender, receiver) = event_ring(DeviceSlot(2), 10_000, Bell::silent());
        let stamp: Stamp = Arc::new(|| Micros(9));
        Ok((Listener::start(address, allow, sender, stamp)?, receiver))
    }

    fn wait(lane: &mut EventReceiver) -> OscMessage {
        let event = wait_for(PATIENCE, || lane.pop()).expect("no message arrived in time");
        assert_eq!((event.taint, event.device), (Taint::Network, DeviceSlot(2)));
        let Body::Osc(message) = event.body else { panic!("{event:?}") };
        (*message).clone()
    }

    fn message(address: &str, args: &[OscArg]) -> OscMessage {
        OscMessage { address: address.into(), args: args.to_vec() }
    }

    fn counted(packet: &[u8]) -> (Vec<OscMessage>, Received) {
        let counters = Received::<AtomicU64>::default();
        let mut out = Vec::new();
        receive(packet, &counters, |message| out.push(message));
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let received = Received {
            messages: read(&counters.messages),
            malformed: read(&counters.malformed),
            unsupported: read(&counters.unsupported),
        };
        (out, received)
    }

    #[test]
    fn what_is_sent_arrives_with_its_types_and_tainted() {
        let (listener, mut lane) = listen("127.0.0.1:0", false).unwrap();
        let sent = message(
            "/strip/1/gain",
            &[
                OscArg::Int(-3),
                OscArg::Float(0.5),
                OscArg::Text("größe".into()),
                OscArg::Bool(true),
                OscArg::Bool(false),
            ],
        );
        Sender::new().send(listener.address(), &sent).unwrap();
        assert_eq!(wait(&mut lane), sent);
        assert_eq!(listener.received(), Received { messages: 1, ..Received::default() });
    }

    #[test]
    fn only_loopback_without_leave_and_a_taken_port_is_named() {
        let refused = listen("0.0.0.0:0", false).err().unwrap().to_string();
        assert!(refused.contains("allow_network = true"), "{refused}");
        assert!(listen("0.0.0.0:0", true).is_ok());
        let (first, _lane) = listen("127.0.0.1:0", false).unwrap();
        let taken = first.address().to_string();
        let error = listen(&taken, false).err().unwrap().to_string();
        assert!(error.contains(&taken) && error.contains("in use"), "{error}");
        assert!(matches!(listen("localhost:9000", false), Err(OscError::BadAddress { .. })));
    }

    #[test]
    fn dropping_a_listener_frees_its_port_and_ends_its_lane() {
        let (listener, lane) = listen("127.0.0.1:0", false).unwrap();
        let address = listener.address();
        drop(listener);
        assert!(wait_for(PATIENCE, || lane.is_abandoned().then_some(())).is_some());
        assert!(UdpSocket::bind(address).is_ok());
    }

    #[test]
    fn a_port_nobody_listens_on_does_not_disturb_the_next_message() {
        let dead = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (listener, mut lane) = listen("127.0.0.1:0", false).unwrap();
        let mut sender = Sender::new();
        for _ in 0..5 {
            sender.send(dead, &message("/gone", &[])).unwrap();
        }
        sender.send(listener.address(), &message("/here", &[])).unwrap();
        assert_eq!(wait(&mut lane).address, "/here");
    }

    fn bundle(elements: &[Vec<u8>]) -> Vec<u8> {
        let mut out = b"#bundle\0\0\0\0\0\0\0\0\x01".to_vec();
        for element in elements {
            out.extend((element.len() as u32).to_be_bytes());
            out.extend(element);
        }
        out
    }

    #[test]
    fn bundles_open_in_order_and_hostile_ones_are_refused() {
        let one = |name: &str| encode(&message(name, &[OscArg::Int(1)])).unwrap();
        let nested = bundle(&[one("/a"), bundle(&[one("/b"), one("/c")]), one("/d")]);
        let (got, received) = counted(&nested);
        assert_eq!(got.iter().map(|it| it.address.as_str()).collect::<Vec<_>>(), ["/a", "/b", "/c", "/d"]);
        assert_eq!(received.messages, 4);
        let mut deep = one("/x");
        while deep.len() < 60_000 {
            deep = bundle(&[deep]);
        }
        assert_eq!(counted(&deep), (vec![], Received { malformed: 1, ..Received::default() }));
        let mut arrays = b"/x\0\0,".to_vec();
        arrays.extend(std::iter::repeat_n(b'[', 30_000));
        arrays.extend(std::iter::repeat_n(b']', 30_000));
        arrays.extend([0; 3]);
        assert_eq!(counted(&arrays).1, Received { unsupported: 1, ..Received::default() });
        assert_eq!(counted(b"#bundle\0short").1.malformed, 1);
        assert_eq!(counted(b"hello").1.malformed, 1);
        assert_eq!(counted(b"/old\0\0\0\0").0, vec![message("/old", &[])]);
    }

    #[test]
    fn wide_numbers_fit_or_become_floats_and_blobs_are_refused() {
        let packet = |arg: OscType| {
            let message = rosc::OscMessage { addr: "/x".into(), args: vec![arg] };
            rosc::encoder::encode(&OscPacket::Message(message)).unwrap()
        };
        let arg = |arg: OscType| counted(&packet(arg)).0.pop().and_then(|mut it| it.args.pop());
        assert_eq!(arg(OscType::Long(7)), Some(OscArg::Int(7)));
        assert_eq!(arg(OscType::Long(1 << 40)), Some(OscArg::Float(1_099_511_627_776.0)));
        assert_eq!(arg(OscType::Double(0.5)), Some(OscArg::Float(0.5)));
        assert_eq!(arg(OscType::Char('x')), Some(OscArg::Text("x".into())));
        assert_eq!(counted(&packet(OscType::Blob(vec![1]))).1, Received { unsupported: 1, ..Received::default() });
    }

    #[test]
    fn liblo_reads_us_and_we_read_liblo() {
        let (listener, mut lane) = listen("127.0.0.1:0", false).unwrap();
        let port = listener.address().port().to_string();
        let sent = Command::new("oscsend").args(["127.0.0.1", &port, "/a/b", "ifsTF", "7", "0.25", "hey"]).status();
        if let Err(error) = sent {
            skip(&Missing { part: "liblo", package: "liblo-tools", why: format!("oscsend: {error}") });
            return;
        }
        let wanted =
            [OscArg::Int(7), OscArg::Float(0.25), OscArg::Text("hey".into()), OscArg::Bool(true), OscArg::Bool(false)];
        assert_eq!(wait(&mut lane), message("/a/b", &wanted));

        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut dump =
            Command::new("oscdump").args(["-L", &free.port().to_string()]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(dump.stdout.take().unwrap()).lines();
        let (line_out, received) = std::sync::mpsc::channel();
        let reader = thread::spawn(move || {
            if let Some(Ok(line)) = lines.next() {
                let _ = line_out.send(line);
            }
        });
        let mut sender = Sender::new();
        // The program does not report when it is ready, so send until it prints a message.
        let line = wait_for(PATIENCE, || {
            sender.send(free, &message("/c", &[OscArg::Int(1), OscArg::Text("x".into())])).unwrap();
            received.try_recv().ok()
        });
        dump.kill().unwrap();
        dump.wait().unwrap();
        reader.join().unwrap();
        let line = line.expect("oscdump did not print the message");
        assert!(line.contains("/c is 1 \"x\""), "{line}");
    }

    proptest! {
        #[test]
        fn any_packet_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), tail in "[/#a-z\\x00,if\\[\\]]{0,60}") {
            counted(&bytes);
            counted(tail.as_bytes());
            counted(&bundle(&[bytes, tail.into_bytes()]));
        }

        #[test]
        fn what_is_encoded_reads_as_itself(
            address in "/[a-z0-9/]{0,30}",
            ints in prop::collection::vec(any::<i32>(), 0..5),
            texts in prop::collection::vec("[^\\x00]{0,12}", 0..3),
        ) {
            let args = ints.into_iter().map(OscArg::Int).chain(texts.into_iter().map(OscArg::Text)).collect();
            let sent = OscMessage { address, args };
            let (got, _) = counted(&encode(&sent).unwrap());
            prop_assert_eq!(got, vec![sent]);
        }
    }
}
