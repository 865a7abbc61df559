//! MIDI through the ALSA sequencer.
//!
//! Every open port is a separate sequencer client with one thread. The thread of an input waits in
//! the kernel for events. The thread of an output waits for messages in its
//! [`queue`](super::queue). A slow device therefore does not delay others. The threads of ports
//! share only the list of our own client numbers. The system client of ALSA announces ports that
//! appear and disappear.
//!
//! The kernel's input pool may overrun when this process gets no processor time. The lost events
//! are unknown, so an all-notes-off is added on every channel: a lost press is silent, but a lost
//! release would leave a note hanging.
//!
//! alsa-lib prints errors to the terminal, so the device node is checked before alsa-lib opens it.

use super::port_generation::PortGenerations;
use super::ring::EventSender;
use super::threaded_output::Outlet;
use super::{
    Announce, Announcement, Backend, Cause, Input, Intake, Output, PortError, PortInfo, Stamp, Unavailable, UsbId, Way,
};
use alsa::seq::{self, Addr, ClientIter, Event, EventType, MidiEvent, PortCap, PortIter, PortSubscribe, PortType, Seq};
use conductor_core::event::Taint;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const NAME: &str = "alsa";
const DEVICE: &str = "/dev/snd/seq";
/// Number of events that the kernel buffers for one of our inputs. 2000 is the kernel's maximum.
const POOL: u32 = 2000;
/// Size of the pieces in which a long SysEx is sent, in bytes. A piece of this size fits into the
/// pool of every receiver.
const PIECE: usize = 256;
/// Time per piece to a sound card, at the speed of a five-pin MIDI cable. If pieces are sent
/// faster, the kernel silently drops bytes that do not fit into its buffer of 4096 bytes.
const PIECE_TIME: Duration = Duration::from_millis(85);

pub struct Alsa {
    client_name: CString,
    stamp: Stamp,
    announce: Announce,
    live: Option<Live>,
}

struct Live {
    control: Control,
    /// The thread that receives announcements of ports. It ends when the backend is dropped.
    _announcer: Reader,
}

/// The handle that lists ports and wakes readers.
#[derive(Clone)]
struct Control {
    seq: Arc<Mutex<Seq>>,
    ours: Arc<Mutex<BTreeSet<i32>>>,
    generations: Arc<Mutex<PortGenerations>>,
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', ".")).unwrap_or_default()
}

impl Alsa {
    /// Creates the backend, but does not open the sequencer yet.
    pub fn new(client_name: &str, stamp: Stamp, announce: Announce) -> Self {
        Alsa { client_name: c_string(client_name), stamp, announce, live: None }
    }

    fn live(&mut self) -> Result<&mut Live, Unavailable> {
        if self.live.is_none() {
            self.live = Some(self.start()?);
        }
        self.live.as_mut().ok_or_else(|| Unavailable::new(NAME, Cause::NoDevice, DEVICE))
    }

    fn start(&self) -> Result<Live, Unavailable> {
        reachable(Path::new(DEVICE))?;
        let seq = Seq::open(None, None, true).map_err(unavailable)?;
        seq.set_client_name(&self.client_name).map_err(unavailable)?;
        let own = seq.client_id().map_err(unavailable)?;
        let control = Control {
            seq: Arc::new(Mutex::new(seq)),
            ours: Arc::new(Mutex::new(BTreeSet::from([own]))),
            generations: Arc::default(),
        };
        let (seq, port) =
            self.client(&control, "announcements", PortCap::WRITE | PortCap::NO_EXPORT).map_err(unavailable)?;
        subscribe(&seq, Addr::system_announce(), Addr { client: seq.client_id().map_err(unavailable)?, port })
            .map_err(unavailable)?;
        let announce = Arc::clone(&self.announce);
        let (ours, generations) = (Arc::clone(&control.ours), Arc::clone(&control.generations));
        let announcer = Reader::start(&control, seq, port, move || {
            Ok(move |event: Option<&mut Event<'_>>| {
                let about = match event {
                    Some(event) => {
                        let about = event.get_data::<Addr>();
                        match (event.get_type(), about) {
                            (EventType::PortStart, Some(port)) => generations.lock().announce(id_of(port)),
                            (EventType::PortExit, _) => generations.lock().announce_removal(),
                            _ => {}
                        }
                        about
                    }
                    // Announcements were lost, so the ports must be listed again. A removal may be
                    // among the lost announcements.
                    None => {
                        generations.lock().announce_removal();
                        Some(Addr::system_announce())
                    }
                };
                if about.is_some_and(|addr| !ours.lock().contains(&addr.client)) {
                    announce(Announcement::PortsChanged { backend: NAME });
                }
            })
        });
        Ok(Live { control, _announcer: announcer.map_err(unavailable)? })
    }

    /// Creates a sequencer client with one port.
    fn client(&self, control: &Control, port: &str, caps: PortCap) -> alsa::Result<(Seq, i32)> {
        let direction =
            if caps.contains(PortCap::WRITE) { alsa::Direction::Capture } else { alsa::Direction::Playback };
        let seq = Seq::open(None, Some(direction), false)?;
        seq.set_client_name(&self.client_name)?;
        control.ours.lock().insert(seq.client_id()?);
        let port = seq.create_simple_port(&c_string(port), caps, PortType::MIDI_GENERIC | PortType::APPLICATION)?;
        Ok((seq, port))
    }

    fn input(
        &mut self,
        id: &str,
        name: &str,
        from: Option<Addr>,
        events: EventSender,
    ) -> Result<Box<dyn Input>, PortError> {
        let control = self.live()?.control.clone();
        let caps = match from {
            Some(_) => PortCap::WRITE | PortCap::NO_EXPORT,
            None => PortCap::WRITE | PortCap::SUBS_WRITE,
        };
        let refused = |error: alsa::Error| PortError::refused(id, error);
        let (seq, port) = self.client(&control, name, caps).map_err(refused)?;
        // The kernel may refuse this size; its default pool works too.
        let _ = seq.set_client_pool_input(POOL);
        if let Some(from) = from {
            subscribe(&seq, from, Addr { client: seq.client_id().map_err(refused)?, port }).map_err(refused)?;
        }
        let (intake, stamp) = (Intake::new(events), Arc::clone(&self.stamp));
        let reader = Reader::start(&control, seq, port, move || {
            let decoder = MidiEvent::new(1)?;
            decoder.enable_running_status(false);
            let mut receiver = EventDecoder { decoder, bytes: vec![0; 4096], intake, stamp, from };
            Ok(move |event: Option<&mut Event<'_>>| receiver.receive(event))
        });
        Ok(Box::new(reader.map_err(refused)?))
    }

    fn output(&mut self, id: &str, name: &str, to: Option<Addr>) -> Result<Box<dyn Output>, PortError> {
        let control = self.live()?.control.clone();
        let caps = match to {
            Some(_) => PortCap::READ | PortCap::NO_EXPORT,
            None => PortCap::READ | PortCap::SUBS_READ,
        };
        let refused = |error: alsa::Error| PortError::refused(id, error);
        let (seq, port) = self.client(&control, name, caps).map_err(refused)?;
        let mut paced = false;
        if let Some(to) = to {
            let has_card =
                seq.get_any_client_info(to.client).and_then(|info| info.get_card()).is_ok_and(|card| card >= 0);
            let is_hardware = seq.get_any_port_info(to).is_ok_and(|info| info.get_type().contains(PortType::HARDWARE));
            paced = has_card || is_hardware;
            subscribe(&seq, Addr { client: seq.client_id().map_err(refused)?, port }, to).map_err(refused)?;
        }
        let (ours, client, stamp) = (Arc::clone(&control.ours), seq.client_id(), Arc::clone(&self.stamp));
        let begin = move || {
            let mut writer = Writer { seq, port, encoder: MidiEvent::new(16).ok()?, paced, stamp };
            Some(move |message: &[u8]| {
                writer.write(message);
                ControlFlow::Continue(())
            })
        };
        Outlet::start("alsa-out", id, begin, move || forget(&ours, client))
    }
}

fn forget(ours: &Mutex<BTreeSet<i32>>, client: alsa::Result<i32>) {
    if let Ok(client) = client {
        ours.lock().remove(&client);
    }
}

/// Checks the device node before alsa-lib opens it. A missing device is then reported by our own
/// error, and alsa-lib prints nothing to the terminal.
fn reachable(device: &Path) -> Result<(), Unavailable> {
    let open = std::fs::OpenOptions::new().read(true).write(true).open(device);
    let Err(error) = open else { return Ok(()) };
    // A node without a driver is also reported as missing.
    let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
    let cause = if denied { Cause::NoPermission } else { Cause::NoDevice };
    Err(Unavailable::new(NAME, cause, format!("{}: {error}", device.display())))
}

fn unavailable(error: alsa::Error) -> Unavailable {
    Unavailable::new(NAME, Cause::Refused, error)
}

fn subscribe(seq: &Seq, from: Addr, to: Addr) -> alsa::Result<()> {
    let subscription = PortSubscribe::empty()?;
    subscription.set_sender(from);
    subscription.set_dest(to);
    seq.subscribe_port(&subscription)
}

impl Backend for Alsa {
    fn name(&self) -> &'static str {
        NAME
    }

    fn connect(&mut self) -> Result<(), Unavailable> {
        self.live().map(|_| ())
    }

    fn ports(&mut self) -> Result<Vec<PortInfo>, PortError> {
        let live = self.live()?;
        let seq = live.control.seq.lock();
        let ours = live.control.ours.lock().clone();
        let mut out = Vec::new();
        for client in ClientIter::new(&seq) {
            let number = client.get_client();
            if number == Addr::system_announce().client || ours.contains(&number) {
                continue;
            }
            let client_name = client.get_name().unwrap_or_default().to_owned();
            let card = client.get_card().ok().filter(|card| *card >= 0);
            for port in PortIter::new(&seq, number) {
                let caps = port.get_capability();
                let port_name = port.get_name().unwrap_or_default().to_owned();
                let reads = PortCap::READ | PortCap::SUBS_READ;
                let writes = PortCap::WRITE | PortCap::SUBS_WRITE;
                for (way, wanted) in [(Way::Input, reads), (Way::Output, writes)] {
                    if caps.contains(wanted) && !caps.contains(PortCap::NO_EXPORT) {
                        out.push(describe(way, port.addr(), &client_name, &port_name, card));
                    }
                }
            }
        }
        live.control.generations.lock().update(&mut out);
        Ok(out)
    }

    fn open_input(&mut self, id: &str, events: EventSender) -> Result<Box<dyn Input>, PortError> {
        let from = self.find(id, Way::Input)?;
        self.input(id, &format!("from {id}"), Some(from), events)
    }

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError> {
        let to = self.find(id, Way::Output)?;
        self.output(id, &format!("to {id}"), Some(to))
    }

    fn create_input(&mut self, name: &str, events: EventSender) -> Result<Box<dyn Input>, PortError> {
        self.input(name, name, None, events)
    }

    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError> {
        self.output(name, name, None)
    }
}

impl Alsa {
    fn find(&mut self, id: &str, way: Way) -> Result<Addr, PortError> {
        let known = self.ports()?.into_iter().any(|port| port.way == way && port.id == id);
        let parts = id.split_once(':').and_then(|(client, port)| Some((client.parse().ok()?, port.parse().ok()?)));
        match parts {
            Some((client, port)) if known => Ok(Addr { client, port }),
            _ => Err(PortError::gone(id)),
        }
    }
}

fn id_of(addr: Addr) -> String {
    format!("{}:{}", addr.client, addr.port)
}

fn describe(way: Way, addr: Addr, client: &str, port: &str, card: Option<i32>) -> PortInfo {
    // Most drivers repeat the client's name in the port's name.
    let name = if port.starts_with(client) { port.to_owned() } else { format!("{client} {port}") };
    let other_names = [client, port].into_iter().filter(|it| **it != *name).map(str::to_owned).collect();
    let usb = card.and_then(|card| usb_id(&std::fs::read_to_string(format!("/proc/asound/card{card}/usbid")).ok()?));
    let topology = card.and_then(|card| {
        let device = std::fs::read_link(format!("/sys/class/sound/card{card}/device")).ok()?;
        Some(topology(device.file_name()?.to_str()?))
    });
    let id = id_of(addr);
    // The kernel's virtual cards connect programs, not devices.
    let is_virtual = topology.as_deref().is_some_and(|it| it.starts_with("snd_virmidi") || it.starts_with("snd_dummy"));
    let is_hardware = card.is_some() && !is_virtual;
    PortInfo { other_names, usb, topology, is_hardware, ..PortInfo::new(NAME, way, id, name) }
}

/// Parses `17cc:1700`.
fn usb_id(text: &str) -> Option<UsbId> {
    let (vendor, product) = text.trim().split_once(':')?;
    Some(UsbId { vendor: u16::from_str_radix(vendor, 16).ok()?, product: u16::from_str_radix(product, 16).ok()? })
}

/// The USB socket of an interface: `1-2.3:1.0` is an interface of the device at `1-2.3`.
fn topology(device: &str) -> String {
    device.split(':').next().unwrap_or(device).to_owned()
}

/// A thread that waits for events on one port. Dropping the reader ends the thread.
struct Reader {
    control: Control,
    address: Addr,
    open: Arc<AtomicBool>,
    closing: Arc<AtomicBool>,
}

impl Reader {
    /// Starts the thread. `begin` runs in the new thread and creates the handler. The handler is
    /// called with each event, and with `None` when the kernel has dropped events.
    fn start<H: FnMut(Option<&mut Event<'_>>)>(
        control: &Control,
        seq: Seq,
        port: i32,
        begin: impl FnOnce() -> alsa::Result<H> + Send + 'static,
    ) -> alsa::Result<Reader> {
        let address = Addr { client: seq.client_id()?, port };
        let (open, closing) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let reader =
            Reader { control: control.clone(), address, open: Arc::clone(&open), closing: Arc::clone(&closing) };
        let ours = Arc::clone(&control.ours);
        let started = thread::Builder::new().name("alsa-in".into()).spawn(move || {
            if let Ok(mut handle) = begin() {
                let mut input = seq.input();
                while !closing.load(Ordering::Acquire) {
                    match input.event_input() {
                        Ok(mut event) => handle(Some(&mut event)),
                        Err(error) if error.errno() == OVERRUN => handle(None),
                        Err(error) if error.errno() == INTERRUPTED => {}
                        Err(_) => break,
                    }
                }
            }
            open.store(false, Ordering::Release);
            forget(&ours, seq.client_id());
        });
        match started {
            Ok(_) => Ok(reader),
            Err(error) => Err(alsa::Error::new("thread", error.raw_os_error().unwrap_or(0))),
        }
    }
}

/// `ENOSPC`: the kernel's pool for this client was full.
const OVERRUN: i32 = 28;
/// `EINTR`: a signal interrupted the call.
const INTERRUPTED: i32 = 4;

impl Drop for Reader {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // The thread waits in the kernel; this event wakes it. If sending fails, the thread ends at
        // its next event.
        let mut wake = Event::new(EventType::Usr0, &[0u8; 12]);
        wake.set_dest(self.address);
        wake.set_direct();
        let _ = self.control.seq.lock().event_output_direct(&mut wake);
    }
}

/// Converts the sequencer events of an input to bytes for the decoder.
struct EventDecoder {
    decoder: MidiEvent,
    bytes: Vec<u8>,
    intake: Intake,
    stamp: Stamp,
    /// The port that we listen to. Absent for a port that we created and that other programs
    /// connect to.
    from: Option<Addr>,
}

impl EventDecoder {
    fn receive(&mut self, event: Option<&mut Event<'_>>) {
        let at = (self.stamp)();
        let Some(event) = event else {
            for channel in 0..16 {
                self.intake.hear(at, Taint::Clean, &[0xB0 | channel, 123, 0]);
            }
            return;
        };
        // The kernel also delivers events from clients that are not connected to this port.
        let is_strange = self.from.is_some_and(|from| event.get_source() != from);
        let taint = if is_strange { Taint::Virtual } else { Taint::Clean };
        if let Some(sysex) = event.get_ext() {
            // The event contains a whole SysEx message or a piece of one.
            if event.get_type() == EventType::Sysex {
                self.intake.hear(at, taint, sysex);
            }
            return;
        }
        // Events that are not MIDI (subscriptions, our own wake-up) have no bytes.
        if let Ok(len) = self.decoder.decode(&mut self.bytes, event)
            && let Some(bytes) = self.bytes.get(..len)
        {
            self.intake.hear(at, taint, bytes);
        }
    }
}

impl Input for Reader {
    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
}

struct Writer {
    seq: Seq,
    port: i32,
    encoder: MidiEvent,
    /// True for the port of a driver, whose buffer is small; false for the port of a program.
    paced: bool,
    stamp: Stamp,
}

impl Writer {
    fn write(&mut self, message: &[u8]) {
        let mut rest = message;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PIECE));
            let sent = if message.first() == Some(&0xF0) {
                Self::output(&self.seq, self.port, Event::new_ext(EventType::Sysex, now))
            } else {
                self.encoder.reset_encode();
                match self.encoder.encode(now) {
                    Ok((_, Some(event))) => Self::output(&self.seq, self.port, event),
                    Ok((_, None)) => Ok(()),
                    Err(error) => Err(error),
                }
            };
            if sent.is_err() {
                // Usually nothing is connected to the port any more. Drop the rest of the message.
                break;
            }
            rest = later;
            if !rest.is_empty() && self.paced {
                pause(&self.stamp, PIECE_TIME);
            }
        }
    }

    fn output(seq: &Seq, port: i32, mut event: seq::Event<'_>) -> alsa::Result<()> {
        event.set_source(port);
        event.set_subs();
        event.set_direct();
        seq.event_output_direct(&mut event).map(|_| ())
    }
}

/// Waits for the full time, even though every newly queued message wakes this thread.
fn pause(stamp: &Stamp, time: Duration) {
    let start = stamp();
    loop {
        let passed = Duration::from_micros(stamp().since(start));
        match time.checked_sub(passed) {
            Some(left) if !left.is_zero() => thread::park_timeout(left),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_and_a_closed_one_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let why = reachable(&dir.path().join("seq")).unwrap_err();
        assert_eq!(why.cause, Cause::NoDevice);
        assert!(why.to_string().starts_with("alsa: its device does not exist on this machine"), "{why}");
        std::fs::write(dir.path().join("here"), "").unwrap();
        assert_eq!(reachable(&dir.path().join("here")), Ok(()));
    }

    #[test]
    fn ports_are_described_by_what_the_kernel_writes() {
        assert_eq!(usb_id("17cc:1700\n"), Some(UsbId { vendor: 0x17CC, product: 0x1700 }));
        assert_eq!(usb_id("nonsense"), None);
        assert_eq!(topology("1-2.3:1.0"), "1-2.3");
        let addr = Addr { client: 20, port: 0 };
        let port = describe(Way::Input, addr, "KeyStep 37", "KeyStep 37 MIDI 1", None);
        assert_eq!((port.id.as_str(), port.name.as_str()), ("20:0", "KeyStep 37 MIDI 1"));
        assert_eq!(port.other_names, ["KeyStep 37"]);
        assert_eq!(
            describe(Way::Input, addr, "Virtual Raw MIDI 1-0", "VirMIDI 1-0", None).name,
            "Virtual Raw MIDI 1-0 VirMIDI 1-0"
        );
    }
}
