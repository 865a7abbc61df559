//! MIDI ports: the trait that every backend implements, and the rules that all of them follow.
//!
//! | file | contents |
//! |---|---|
//! | `ring` | events from a device callback to the engine |
//! | `period` | one period of an audio server: events are decided in the callback if possible |
//! | `try_lock` | the lock of the engine, which no callback waits for |
//! | `queue` | a bounded queue of whole messages to a device, with space reserved for releases |
//! | `port_generation` | whether a port was replaced between two scans |
//! | `threaded_output` | an output with its own thread |
//! | `identity` | assigns ports to configured devices, and decides when to retry |
//! | `loopback` | devices inside this process, on every machine |
//! | `jack`, `alsa`, `midir_ports` | the backends of real devices |
//!
//! Rules: the callback decodes input and adds the time. An output accepts a whole message or
//! returns an error. SysEx has at most [`SYSEX_OUT_MAX`] bytes on every backend. A missing backend
//! is reported with its cause and never prevents the daemon from starting.
//!
//! Not here: the choice of the devices to open, and the handling of events (`owner`).

#[cfg(feature = "alsa")]
pub mod alsa;
pub mod identity;
#[cfg(feature = "jack")]
pub mod jack;
pub mod loopback;
#[cfg(any(target_os = "macos", windows))]
pub mod midir_ports;
pub mod period;
#[cfg(any(feature = "alsa", feature = "jack"))]
mod port_generation;
pub mod queue;
pub mod ring;
#[cfg(any(feature = "alsa", target_os = "macos", windows))]
mod threaded_output;
pub mod try_lock;

use conductor_core::event::{DeviceSlot, Micros, Trail};
use period::Decide;
use ring::EventSender;
pub use ring::Intake;
use std::sync::Arc;
use try_lock::TryLock;

/// Largest SysEx that a backend sends: the number of bytes between F0 and F7.
pub const SYSEX_OUT_MAX: usize = 8192;

/// Reads the daemon's clock. Runs in device callbacks: it must neither lock nor allocate.
pub type Stamp = Arc<dyn Fn() -> Micros + Send + Sync>;

/// Reports a change, so that the ports are listed again. Runs in the notification threads of the
/// backends. One of these threads has the restrictions of a signal handler, so this function must
/// neither lock nor allocate.
pub type Announce = Arc<dyn Fn(Announcement) + Send + Sync>;

/// The lock of the engine, for callbacks that decide events themselves.
pub type Desk = Arc<TryLock<dyn Decide>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    PortsChanged {
        backend: &'static str,
    },
    /// The backend's server ended, and all handles opened through it are dead. `connect` may reach
    /// a new server.
    Lost {
        backend: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// We receive from the port.
    Input,
    /// We send to the port.
    Output,
}

/// A port that a device or another program offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    pub backend: &'static str,
    /// The backend's id of the port, unique among all inputs or all outputs. It may change when the
    /// device is plugged in again.
    pub id: String,
    /// The name that is shown to people.
    pub name: String,
    /// Other names that the platform reports for the port. Matchers test these names too.
    pub other_names: Vec<String>,
    pub way: Way,
    pub usb: Option<UsbId>,
    /// The path of the USB socket, such as `1-2.3`.
    pub topology: Option<String>,
    /// CoreMIDI's unique id.
    pub unique_id: Option<i64>,
    /// A game controller's model id.
    pub guid: Option<String>,
    /// Whether the platform reports the port as a real device. Ports of programs are not hardware.
    pub is_hardware: bool,
    /// Incremented when the port was replaced by another port with the same id between two scans.
    /// Handles opened before the replacement are dead.
    pub generation: u64,
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
            generation: 0,
        }
    }
}

/// Access to the MIDI ports of one platform. Called from one thread that may block for a short
/// time, never from the engine.
pub trait Backend: Send {
    /// `loopback`, `jack`, `alsa`, `coremidi` or `winmm`.
    fn name(&self) -> &'static str;

    /// Connects to the server or device. Returns immediately if the connection is already open.
    fn connect(&mut self) -> Result<(), Unavailable>;

    fn ports(&mut self) -> Result<Vec<PortInfo>, PortError>;

    /// Listens to a port. Pushes events until the handle is dropped or the port disappears.
    fn open_input(&mut self, id: &str, events: EventSender) -> Result<Box<dyn Input>, PortError>;

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError>;

    /// Creates a port that other programs can send to.
    fn create_input(&mut self, name: &str, events: EventSender) -> Result<Box<dyn Input>, PortError>;

    /// Creates a port that other programs can listen to.
    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError>;
}

/// An open input. Dropping it closes the port.
pub trait Input: Send {
    /// False once the backend has reported the port as dead. A port that disappeared is also
    /// missing from [`Backend::ports`].
    fn is_open(&self) -> bool;
}

/// An open output. Dropping it closes the port.
pub trait Output: Send {
    /// Accepts a whole message or nothing, and never waits. `trail` records whether a tool created
    /// these bytes and how often they were forwarded. Only the loopback backend keeps the trail.
    fn send(&mut self, message: &[u8], trail: Trail) -> Result<(), SendError>;

    /// False once the backend has reported the port as dead.
    fn is_open(&self) -> bool;

    /// Sets the port under which the owner sends to this output. A backend with periods needs the
    /// port, so that a message can leave in the period of the event that caused it.
    fn assign(&mut self, _port: DeviceSlot) {}
}

/// Why a backend cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{backend}: {cause} ({detail})")]
pub struct Unavailable {
    pub backend: &'static str,
    pub cause: Cause,
    /// The platform's message, or the path that is missing.
    pub detail: String,
}

impl Unavailable {
    pub(crate) fn new(backend: &'static str, cause: Cause, detail: impl ToString) -> Self {
        Unavailable { backend, cause, detail: detail.to_string() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    #[error("its library is not installed")]
    LibraryMissing,
    #[error("no server is running")]
    NoServer,
    #[error("its device does not exist on this machine")]
    NoDevice,
    #[error("this user may not open its device")]
    NoPermission,
    #[error("access was refused")]
    Refused,
}

/// Why a port could not be listed, opened or created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    #[error("{0}")]
    Unavailable(#[from] Unavailable),
    /// The port does not exist, or no longer exists.
    #[error("port '{id}' does not exist")]
    Gone { id: String },
    #[error("port '{id}' could not be opened: {detail}")]
    Refused { id: String, detail: String },
}

impl PortError {
    pub(crate) fn gone(id: &str) -> Self {
        PortError::Gone { id: id.into() }
    }

    pub(crate) fn refused(id: &str, detail: impl ToString) -> Self {
        PortError::Refused { id: id.into(), detail: detail.to_string() }
    }
}

/// Why a message was not sent. No part of it was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The queue has no space for the message. Messages that are queued already will be sent.
    #[error("the output queue is full; send less at once")]
    Busy,
    /// The buffers of the MIDI server (JACK) are smaller than this message.
    #[error("the MIDI server accepts messages of at most {max} bytes")]
    TooLong { max: usize },
    #[error("the port is no longer connected")]
    Offline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the message is empty")]
    Empty,
    #[error("the message begins without a status byte")]
    NoStatus,
    #[error("the message needs {wanted} bytes and has {got}")]
    Length { wanted: usize, got: usize },
    /// A byte above 7F in a data position.
    #[error("byte {index} is above 7F")]
    NotData { index: usize },
    #[error("the SysEx does not end with F7")]
    SysExOpen,
    #[error("the SysEx has {len} bytes; the limit is {SYSEX_OUT_MAX}")]
    SysExTooLong { len: usize },
    #[error("{status:02X} is not a MIDI message")]
    Undefined { status: u8 },
}

/// Checks that the bytes are exactly one message, and that every backend can send it whole.
pub fn check_message(message: &[u8]) -> Result<(), Malformed> {
    let (status, data) = message.split_first().ok_or(Malformed::Empty)?;
    let (wanted, data) = match status {
        0x00..=0x7F => return Err(Malformed::NoStatus),
        0xF0 => match data.split_last() {
            Some((0xF7, body)) if body.len() > SYSEX_OUT_MAX => {
                return Err(Malformed::SysExTooLong { len: body.len() });
            }
            Some((0xF7, body)) => (message.len(), body),
            // If a SysEx is too long and also lacks F7, report the length, which is easier for the
            // sender to check.
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

/// Whether the message ends a sound. Every queue has space reserved for such messages.
pub fn is_release(message: &[u8]) -> bool {
    match *message {
        [0x80..=0x8F, ..] => true,
        [0x90..=0x9F, _, velocity] => velocity == 0,
        [0xB0..=0xBF, 64, value] => value < 64,
        [0xB0..=0xBF, 120 | 123, _] => true,
        _ => false,
    }
}

/// All backends of this build, loopback first. None of them is connected yet.
pub fn backends(
    client_name: &str,
    loopback: &loopback::Loopback,
    stamp: &Stamp,
    announce: &Announce,
    desk: &Desk,
) -> Vec<Box<dyn Backend>> {
    // These values are unused in a build without real backends.
    let _ = (client_name, stamp, announce, desk);
    vec![
        Box::new(loopback.clone()),
        #[cfg(feature = "jack")]
        Box::new(jack::Jack::new(client_name, Arc::clone(stamp), Arc::clone(announce), Arc::clone(desk))),
        #[cfg(feature = "alsa")]
        Box::new(alsa::Alsa::new(client_name, Arc::clone(stamp), Arc::clone(announce))),
        #[cfg(any(target_os = "macos", windows))]
        Box::new(midir_ports::MidirPorts::new(client_name, Arc::clone(stamp))),
    ]
}

/// Backends that are not part of this build, for `status`.
pub const LEFT_OUT: &[&str] = &[
    #[cfg(all(target_os = "linux", not(feature = "jack")))]
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
        let built: Vec<&str> = backends("conductor", &loopback, &stamp, &announce, &period::no_desk())
            .iter()
            .map(|backend| backend.name())
            .collect();
        let mut all: Vec<&str> = built.iter().chain(LEFT_OUT).copied().collect();
        all.sort_unstable();
        let wanted: &[&str] = match std::env::consts::OS {
            "windows" => &["loopback", "winmm"],
            "macos" => &["coremidi", "loopback"],
            _ => &["alsa", "jack", "loopback"],
        };
        // The gamepad backend is not a MIDI backend.
        all.retain(|it| *it != "gamepad");
        assert_eq!(all, wanted);
        assert_eq!(built.first(), Some(&"loopback"));
    }

    /// The daemon starts without any backend: a backend that is missing reports the reason, and a
    /// backend that is available lists its ports.
    #[test]
    fn a_missing_backend_is_a_reason_and_never_a_failure() {
        let stamp: Stamp = Arc::new(|| Micros(0));
        let announce: Announce = Arc::new(|_| {});
        let loopback = loopback::Loopback::new(Arc::clone(&stamp), Arc::clone(&announce));
        for mut backend in backends("conductor", &loopback, &stamp, &announce, &period::no_desk()) {
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
        assert_eq!(alsa.to_string(), "alsa: its device does not exist on this machine (/dev/snd/seq)");
    }
}
