//! MIDI ports: one small trait for what a platform offers, and the rules every backend keeps.
//!
//! | file | holds |
//! |---|---|
//! | `ring` | the lane from a device callback to the engine |
//! | `queue` | the way back: bounded, whole messages, room kept for releases |
//! | `births` | which port came back, and which only stayed |
//! | `outlet` | an output with a thread of its own |
//! | `identity` | which port is which configured device, and when to try again |
//! | `loopback` | devices inside this process, on every machine |
//! | `jack`, `alsa`, `coremidi` | the real ones |
//!
//! Rules: input is decoded and stamped in the callback; output takes one whole message or none, and
//! says why not; SysEx is at most [`SYSEX_OUT_MAX`] bytes on every backend; a backend that is
//! missing is a reason, never a failure to start.
//!
//! Not here: which devices are opened and what events mean (`daemon`).

#[cfg(feature = "alsa")]
pub mod alsa;
#[cfg(target_os = "macos")]
pub mod coremidi;
pub mod identity;
#[cfg(feature = "jack")]
pub mod jack;
pub mod loopback;
#[cfg(any(feature = "alsa", feature = "jack"))]
mod port_generation;
pub mod queue;
pub mod ring;
#[cfg(any(feature = "alsa", target_os = "macos"))]
mod threaded_output;

use conductor_core::event::{Micros, Trail};
use ring::EventSender;
pub(crate) use ring::Intake;
use std::fmt;
use std::sync::Arc;

/// Bytes between F0 and F7 that any backend sends.
pub const SYSEX_OUT_MAX: usize = 8192;

/// Reads the daemon's clock. Runs in device callbacks: it must neither lock nor allocate.
pub type Stamp = Arc<dyn Fn() -> Micros + Send + Sync>;

/// Says that something changed and the ports should be read again. Runs in notification threads,
/// one of them like a signal handler: it must neither lock nor allocate.
pub type Announce = Arc<dyn Fn(Announcement) + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    PortsChanged {
        backend: &'static str,
    },
    /// The backend's server ended. Everything opened through it is dead; `connect` may bring it
    /// back.
    Lost {
        backend: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// We hear it.
    Input,
    /// We send to it.
    Output,
}

/// A port that a device or another program offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    pub backend: &'static str,
    /// What the backend opens it by; unique among the ports of one way. A replugged device may come
    /// back under another id.
    pub id: String,
    /// What people see.
    pub name: String,
    /// Other names the platform has for it; matchers look at them too.
    pub other_names: Vec<String>,
    pub way: Way,
    pub usb: Option<UsbId>,
    /// Where it is plugged in, such as `1-2.3`.
    pub topology: Option<String>,
    /// CoreMIDI's unique id.
    pub unique_id: Option<i64>,
    /// A game controller's model id.
    pub guid: Option<String>,
    /// A cable leads to it, as far as the platform tells: no program, this one included, made it.
    pub is_hardware: bool,
    /// Differs when a port vanished and came back under the same id, though nobody looked in
    /// between. Who had opened it holds a dead end.
    pub born: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UsbId {
    pub vendor: u16,
    pub product: u16,
}

impl PortInfo {
    pub fn new(backend: &'static str, way: Way, id: impl Into<String>, name: impl Into<String>) -> Self {
        PortInfo {
            backend,
            id: id.into(),
            name: name.into(),
            other_names: Vec::new(),
            way,
            usb: None,
            topology: None,
            unique_id: None,
            guid: None,
            is_hardware: false,
            born: 0,
        }
    }
}

/// A way to reach MIDI ports. Calls come from one thread that may block for a moment, never from
/// the engine lane.
pub trait Backend: Send {
    /// `loopback`, `jack`, `alsa` or `coremidi`.
    fn name(&self) -> &'static str;

    /// Reaches the server or the device if that is not done yet. Costs nothing when it is.
    fn connect(&mut self) -> Result<(), Unavailable>;

    fn ports(&mut self) -> Result<Vec<PortInfo>, PortError>;

    /// Listens to a port. The lane is fed until the handle is dropped or the port is gone.
    fn open_input(&mut self, id: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError>;

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError>;

    /// Makes a port of ours that other programs can send to.
    fn create_input(&mut self, name: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError>;

    /// Makes a port of ours that other programs can listen to.
    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError>;
}

/// An open input. Dropping it closes the port.
pub trait Input: Send {
    /// False once it is known to be dead. A port that vanished is missing from [`Backend::ports`]
    /// too.
    fn is_open(&self) -> bool;
}

/// An open output. Dropping it closes the port.
pub trait Output: Send {
    /// Takes one whole message, or none of it. Never waits. `trail` says whether a tool made these
    /// bytes and how often they were sent on; it travels with them where they can come back within
    /// this process.
    fn send(&mut self, message: &[u8], trail: Trail) -> Result<(), SendError>;

    /// False once it is known to be dead.
    fn is_open(&self) -> bool;
}

/// Why a backend cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    pub backend: &'static str,
    pub cause: Cause,
    /// What the platform said, or the path that is missing.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    LibraryMissing,
    NoServer,
    NoDevice,
    NoPermission,
    Refused,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            Cause::LibraryMissing => "its library is not installed",
            Cause::NoServer => "no server is running",
            Cause::NoDevice => "there is no device for it on this machine",
            Cause::NoPermission => "this user may not open its device",
            Cause::Refused => "it refused us",
        };
        write!(f, "{}: {cause} ({})", self.backend, self.detail)
    }
}

impl std::error::Error for Unavailable {}

/// Why a port could not be listed, opened or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortError {
    Unavailable(Unavailable),
    /// The port is not there, or not any more.
    Gone {
        id: String,
    },
    Refused {
        id: String,
        detail: String,
    },
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortError::Unavailable(why) => why.fmt(f),
            PortError::Gone { id } => write!(f, "port '{id}' is not there"),
            PortError::Refused { id, detail } => write!(f, "port '{id}' could not be opened: {detail}"),
        }
    }
}

impl std::error::Error for PortError {}

impl From<Unavailable> for PortError {
    fn from(why: Unavailable) -> Self {
        PortError::Unavailable(why)
    }
}

/// Why a message was not taken. In every case no byte of it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    Malformed(Malformed),
    /// The queue has no room for it. What is queued already will be sent.
    Busy,
    /// The server's own buffers are smaller than this message.
    TooLong {
        max: usize,
    },
    Offline,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Malformed(why) => why.fmt(f),
            SendError::Busy => f.write_str("the output queue is full; send less at once"),
            SendError::TooLong { max } => write!(f, "the server takes messages of at most {max} bytes"),
            SendError::Offline => f.write_str("the port is gone"),
        }
    }
}

impl std::error::Error for SendError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    Empty,
    NoStatus,
    /// The number of bytes that this status wants.
    Length {
        wanted: usize,
        got: usize,
    },
    /// Index of a byte above 7F where data belongs.
    NotData {
        index: usize,
    },
    SysExOpen,
    SysExTooLong {
        len: usize,
    },
    Undefined {
        status: u8,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Empty => f.write_str("the message is empty"),
            Malformed::NoStatus => f.write_str("the message begins without a status byte"),
            Malformed::Length { wanted, got } => write!(f, "the message needs {wanted} bytes and has {got}"),
            Malformed::NotData { index } => write!(f, "byte {index} is above 7F"),
            Malformed::SysExOpen => f.write_str("the SysEx does not end with F7"),
            Malformed::SysExTooLong { len } => write!(f, "the SysEx has {len} bytes; {SYSEX_OUT_MAX} are possible"),
            Malformed::Undefined { status } => write!(f, "{status:02X} is not a MIDI message"),
        }
    }
}

impl From<Malformed> for SendError {
    fn from(why: Malformed) -> Self {
        SendError::Malformed(why)
    }
}

/// Checks that the bytes are exactly one message that every backend can send whole.
pub fn check_message(message: &[u8]) -> Result<(), Malformed> {
    let (status, data) = message.split_first().ok_or(Malformed::Empty)?;
    let (wanted, data) = match status {
        0x00..=0x7F => return Err(Malformed::NoStatus),
        0xF0 => match data.split_last() {
            Some((0xF7, body)) if body.len() > SYSEX_OUT_MAX => {
                return Err(Malformed::SysExTooLong { len: body.len() });
            }
            Some((0xF7, body)) => (message.len(), body),
            // A long SysEx without its end is refused for its length, which is the fault the sender
            // can see.
            _ if data.len() > SYSEX_OUT_MAX => return Err(Malformed::SysExTooLong { len: data.len() }),
            _ => return Err(Malformed::SysExOpen),
        },
        0x80..=0xBF | 0xE0..=0xEF | 0xF2 => (3, data),
        0xC0..=0xDF | 0xF1 | 0xF3 => (2, data),
        0xF6 | 0xF8 | 0xFA..=0xFC | 0xFE | 0xFF => (1, data),
        0xF4 | 0xF5 | 0xF7 | 0xF9 | 0xFD => return Err(Malformed::Undefined { status: *status }),
    };
    if message.len() != wanted {
        return Err(Malformed::Length { wanted, got: message.len() });
    }
    match data.iter().position(|byte| *byte > 0x7F) {
        Some(index) => Err(Malformed::NotData { index: index + 1 }),
        None => Ok(()),
    }
}

/// Whether the message ends something that sounds; such messages have room of their own in every
/// queue.
pub fn is_release(message: &[u8]) -> bool {
    match *message {
        [0x80..=0x8F, ..] => true,
        [0x90..=0x9F, _, velocity] => velocity == 0,
        [0xB0..=0xBF, 64, value] => value < 64,
        [0xB0..=0xBF, 120 | 123, _] => true,
        _ => false,
    }
}

/// Every way to MIDI that this build has, loopback first. None of them is touched yet.
pub fn backends(
    client_name: &str,
    loopback: &loopback::Loopback,
    stamp: &Stamp,
    announce: &Announce,
) -> Vec<Box<dyn Backend>> {
    // Without real backends the rest of the arguments has no taker.
    let _ = (client_name, stamp, announce);
    vec![
        Box::new(loopback.clone()),
        #[cfg(feature = "jack")]
        Box::new(jack::Jack::new(client_name, Arc::clone(stamp), Arc::clone(announce))),
        #[cfg(feature = "alsa")]
        Box::new(alsa::Alsa::new(client_name, Arc::clone(stamp), Arc::clone(announce))),
        #[cfg(target_os = "macos")]
        Box::new(coremidi::CoreMidi::new(client_name, Arc::clone(stamp))),
    ]
}

/// Names of the ways to devices and to the desktop that this build leaves out, for a status that
/// says so instead of saying nothing.
pub const LEFT_OUT: &[&str] = &[
    #[cfg(not(feature = "jack"))]
    "jack",
    #[cfg(all(target_os = "linux", not(feature = "alsa")))]
    "alsa",
    #[cfg(not(feature = "gamepad"))]
    "gamepad",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_checked_before_a_byte_is_sent() {
        for good in [&[0x90, 36, 100][..], &[0xC0, 1], &[0xF8], &[0xF2, 1, 2], &[0xF0, 0xF7], &[0xF0, 1, 0xF7]] {
            assert_eq!(check_message(good), Ok(()), "{good:02x?}");
        }
        for (bad, why) in [
            (&[][..], Malformed::Empty),
            (&[36, 100], Malformed::NoStatus),
            (&[0x90, 36], Malformed::Length { wanted: 3, got: 2 }),
            (&[0x90, 36, 100, 37, 100], Malformed::Length { wanted: 3, got: 5 }),
            (&[0x90, 36, 0x80], Malformed::NotData { index: 2 }),
            (&[0xF0, 1, 2], Malformed::SysExOpen),
            (&[0xF0, 1, 0x90, 0xF7], Malformed::NotData { index: 2 }),
            (&[0xF4], Malformed::Undefined { status: 0xF4 }),
        ] {
            assert_eq!(check_message(bad), Err(why), "{bad:02x?}");
        }
    }

    #[test]
    fn sysex_ends_at_the_same_length_everywhere() {
        let sysex = |len: usize| [&[0xF0][..], &vec![1; len], &[0xF7]].concat();
        assert_eq!(check_message(&sysex(SYSEX_OUT_MAX)), Ok(()));
        assert_eq!(check_message(&sysex(8193)), Err(Malformed::SysExTooLong { len: 8193 }));
        assert_eq!(check_message(&sysex(65536)), Err(Malformed::SysExTooLong { len: 65536 }));
    }

    #[test]
    fn every_backend_is_built_or_named_as_left_out() {
        let stamp: Stamp = Arc::new(|| Micros(0));
        let announce: Announce = Arc::new(|_| {});
        let loopback = loopback::Loopback::new(Arc::clone(&stamp), Arc::clone(&announce));
        let built: Vec<&str> =
            backends("conductor", &loopback, &stamp, &announce).iter().map(|backend| backend.name()).collect();
        let mut all: Vec<&str> = built.iter().chain(LEFT_OUT).copied().collect();
        all.sort_unstable();
        assert_eq!(all, ["alsa", "jack", "loopback"]);
        assert_eq!(built.first(), Some(&"loopback"));
    }

    /// Start must not depend on any of them: asking each for its ports on a machine without it
    /// gives a reason, on one with it a list.
    #[test]
    fn a_missing_backend_is_a_reason_and_never_a_failure() {
        let stamp: Stamp = Arc::new(|| Micros(0));
        let announce: Announce = Arc::new(|_| {});
        let loopback = loopback::Loopback::new(Arc::clone(&stamp), Arc::clone(&announce));
        for mut backend in backends("conductor", &loopback, &stamp, &announce) {
            let name = backend.name();
            match backend.connect() {
                Ok(()) => assert!(backend.ports().is_ok(), "{name}"),
                Err(why) => {
                    assert_eq!(why.backend, name);
                    assert!(!why.detail.is_empty(), "{why}");
                    assert_eq!(backend.ports(), Err(PortError::Unavailable(why)));
                }
            }
        }
    }

    #[test]
    fn a_reason_names_backend_and_cause() {
        let jack = Unavailable { backend: "jack", cause: Cause::NoServer, detail: "SERVER_FAILED".into() };
        assert_eq!(jack.to_string(), "jack: no server is running (SERVER_FAILED)");
        let alsa = Unavailable { backend: "alsa", cause: Cause::NoDevice, detail: "/dev/snd/seq".into() };
        assert_eq!(alsa.to_string(), "alsa: there is no device for it on this machine (/dev/snd/seq)");
    }
}
