//! MIDI through a JACK server (or PipeWire, which speaks its protocol).
//!
//! One client. Ports are handed to the process callback through a ring and come back through
//! another, so the callback neither locks nor frees. Output goes through [`queue`](super::queue): a
//! burst that does not fit into one period goes on in the next, in order.
//!
//! libjack is loaded when a server is first seen. Without it, or without a server, `connect` says
//! so; nothing else happens. After the server ended, every handle is dead and `connect` starts
//! anew.

use super::port_generation::Births;
use super::queue::{QUEUE_BYTES, QueueReceiver, QueueSender, queue};
use super::ring::EventSender;
use super::{
    Announce, Announcement, Backend, Cause, Input, Intake, Output, PortError, PortInfo, SendError, Stamp, Unavailable,
    Way,
};
use conductor_core::event::{Taint, Trail};
use jack::{
    AsyncClient, Client, ClientOptions, ClientStatus, Control, LoggerType, MidiIn, MidiOut, NotificationHandler, Port,
    PortFlags, PortId, PortSpec, ProcessHandler, ProcessScope, RawMidi,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const NAME: &str = "jack";
const MIDI: &str = "8 bit raw midi";
/// Ports of ours at most; the callback's lists never grow.
const PORTS_MAX: usize = 128;
/// Registrations that may come between two looks.
const REGISTERED_MAX: usize = 4096;

pub struct Jack {
    client_name: String,
    stamp: Stamp,
    announce: Announce,
    live: Option<Live>,
}

/// A connection to a server that was alive when it was made.
struct Live {
    client: AsyncClient<Notices, Process>,
    arrivals: rtrb::Producer<Arrival>,
    departures: rtrb::Consumer<Arrival>,
    alive: Arc<AtomicBool>,
    made: u32,
    /// Ports that were registered since the last look.
    registered: Receiver<PortId>,
    births: Births,
}

impl Jack {
    /// Touches nothing yet. The server may give the client another name when this one is taken.
    pub fn new(client_name: &str, stamp: Stamp, announce: Announce) -> Self {
        let client_name = client_name.replace(['\0', ':'], ".");
        Jack { client_name, stamp, announce, live: None }
    }

    fn live(&mut self) -> Result<&mut Live, Unavailable> {
        if self.live.as_ref().is_some_and(|live| !live.alive.load(Ordering::Acquire)) {
            self.live = None;
        }
        if self.live.is_none() {
            self.live = Some(Live::start(&self.client_name, &self.stamp, &self.announce)?);
        }
        let absent = || Unavailable { backend: NAME, cause: Cause::NoServer, detail: "the server ended".into() };
        let live = self.live.as_mut().ok_or_else(absent)?;
        live.bury();
        Ok(live)
    }
}

impl Live {
    fn start(name: &str, stamp: &Stamp, announce: &Announce) -> Result<Live, Unavailable> {
        if !server_may_run() {
            let detail = "no sign of JACK or PipeWire".to_owned();
            return Err(Unavailable { backend: NAME, cause: Cause::NoServer, detail });
        }
        let (client, _) = Client::new(name, ClientOptions::NO_START_SERVER).map_err(unavailable)?;
        // The library is there now. What it has to say it says through its return values; its lines
        // would land in the terminal.
        jack::set_logger(LoggerType::None);
        let (arrivals, arrivals_out) = rtrb::RingBuffer::new(PORTS_MAX);
        let (departures_in, departures) = rtrb::RingBuffer::new(2 * PORTS_MAX);
        let alive = Arc::new(AtomicBool::new(true));
        let (registrations, registered) = sync_channel(REGISTERED_MAX);
        let notices = Notices { alive: Arc::clone(&alive), announce: Arc::clone(announce), registrations };
        let process = Process {
            inputs: Vec::with_capacity(PORTS_MAX),
            outputs: Vec::with_capacity(PORTS_MAX),
            arrivals: arrivals_out,
            departures: departures_in,
            stamp: Arc::clone(stamp),
        };
        let client = client.activate_async(notices, process).map_err(unavailable)?;
        Ok(Live { client, arrivals, departures, alive, made: 0, registered, births: Births::default() })
    }

    /// Hears of the registrations since the last look. Numbers of ports are used again, so a number
    /// stands for whoever has it now.
    fn hear_births(&mut self) {
        while let Ok(port) = self.registered.try_recv() {
            let name = self.client.as_client().port_by_id(port).and_then(|it| it.name().ok());
            name.into_iter().for_each(|name| self.births.hear(name));
        }
    }

    /// Unregisters the ports the callback has given back.
    fn bury(&mut self) {
        while let Ok(port) = self.departures.pop() {
            let client = self.client.as_client();
            // It fails only when the server is gone, and then the port is gone with it.
            let _ = match port {
                Arrival::Input(input) => client.unregister_port(input.port),
                Arrival::Output(output) => client.unregister_port(output.port),
            };
        }
    }

    fn register<S: PortSpec>(&mut self, name: Option<&str>, spec: S) -> Result<Port<S>, PortError> {
        let name = match name {
            Some(name) => name.replace(['\0', ':'], "."),
            None => {
                self.made = self.made.wrapping_add(1);
                let kind = if spec.jack_flags().contains(PortFlags::IS_INPUT) { "in" } else { "out" };
                format!("{kind}_{}", self.made)
            }
        };
        self.client.as_client().register_port(&name, spec).map_err(|error| refused(&name, error))
    }

    fn port(&self, id: &str) -> Result<(), PortError> {
        let named = (!id.contains('\0')).then(|| self.client.as_client().port_by_name(id)).flatten();
        named.map(|_| ()).ok_or_else(|| PortError::Gone { id: id.into() })
    }

    fn connect(&self, from: &str, to: &str, theirs: &str) -> Result<(), PortError> {
        self.client.as_client().connect_ports_by_name(from, to).map_err(|error| refused(theirs, error))
    }

    fn admit(&mut self, port: Arrival, id: &str) -> Result<(), PortError> {
        let full = |_| PortError::Refused { id: id.into(), detail: format!("{PORTS_MAX} ports are open already") };
        self.arrivals.push(port).map_err(full)
    }

    fn input(&mut self, port: Port<MidiIn>, lane: EventSender, id: &str) -> Result<Box<dyn Input>, PortError> {
        let closing = Arc::new(AtomicBool::new(false));
        let input = InPort { port, intake: Intake::new(lane), closing: Arc::clone(&closing) };
        self.admit(Arrival::Input(Box::new(input)), id)?;
        Ok(Box::new(OpenInput { alive: Arc::clone(&self.alive), closing }))
    }

    fn output(&mut self, port: Port<MidiOut>, id: &str) -> Result<Box<dyn Output>, PortError> {
        let closing = Arc::new(AtomicBool::new(false));
        let largest = Arc::new(AtomicUsize::new(usize::MAX));
        let (sender, receiver) = queue(QUEUE_BYTES);
        let output = OutPort {
            port,
            queue: receiver,
            closing: Arc::clone(&closing),
            largest: Arc::clone(&largest),
            silent: false,
        };
        self.admit(Arrival::Output(Box::new(output)), id)?;
        Ok(Box::new(OpenOutput { queue: sender, alive: Arc::clone(&self.alive), closing, largest }))
    }
}

fn refused(id: &str, error: jack::Error) -> PortError {
    PortError::Refused { id: id.into(), detail: error.to_string() }
}

/// Loading libjack brings four megabytes of libraries along, so without a server it stays on the
/// disk. A server's socket lies in `/dev/shm` (`jack_<name>_<uid>_<number>`, or `jack-<uid>/` for
/// the older one); PipeWire's in the runtime folder. What cannot be read counts as a sign.
fn server_may_run() -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    if !cfg!(target_os = "linux") {
        return true;
    }
    let Ok(shared) = std::fs::read_dir("/dev/shm") else { return true };
    let older = format!("jack-{}", rustix::process::geteuid().as_raw());
    let jack = shared.flatten().any(|entry| {
        let name = entry.file_name();
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        name == *older || (is_socket && name.as_encoded_bytes().starts_with(b"jack"))
    });
    jack || crate::system::runtime_folders().iter().any(|folder| {
        let Ok(entries) = std::fs::read_dir(folder) else { return false };
        entries.flatten().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"pipewire-"))
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum; only two of its members say more than their text")]
fn unavailable(error: jack::Error) -> Unavailable {
    let (cause, detail) = match error {
        jack::Error::LibraryError(why) => (Cause::LibraryMissing, why),
        jack::Error::ClientError(status) => {
            let no_server = status.intersects(ClientStatus::SERVER_FAILED | ClientStatus::SERVER_ERROR)
                || status == ClientStatus::FAILURE;
            let cause = if no_server { Cause::NoServer } else { Cause::Refused };
            let words: Vec<&str> = status.iter_names().map(|(name, _)| name).collect();
            (cause, words.join(" "))
        }
        other => (Cause::Refused, other.to_string()),
    };
    Unavailable { backend: NAME, cause, detail }
}

impl Backend for Jack {
    fn name(&self) -> &'static str {
        NAME
    }

    fn connect(&mut self) -> Result<(), Unavailable> {
        self.live().map(|_| ())
    }

    fn ports(&mut self) -> Result<Vec<PortInfo>, PortError> {
        let live = self.live()?;
        live.hear_births();
        let client = live.client.as_client();
        let ours = format!("{}:", client.name());
        let mut out = Vec::new();
        // What others put out is what we hear.
        for (way, flag) in [(Way::Input, PortFlags::IS_OUTPUT), (Way::Output, PortFlags::IS_INPUT)] {
            for id in client.ports(None, Some(MIDI), flag) {
                if id.starts_with(&ours) {
                    continue;
                }
                let port = client.port_by_name(&id);
                let is_hardware = port.as_ref().is_some_and(|it| it.flags().contains(PortFlags::IS_PHYSICAL));
                let aliases = port.and_then(|it| it.aliases().ok()).unwrap_or_default();
                // `system:midi_capture_1` says nothing; its alias carries the device's name.
                let speaking = aliases.first().filter(|_| id.starts_with("system:")).cloned();
                let name = speaking.unwrap_or_else(|| id.clone());
                let other_names = aliases.into_iter().chain([id.clone()]).filter(|it| *it != name).collect();
                out.push(PortInfo { other_names, is_hardware, ..PortInfo::new(NAME, way, id, name) });
            }
        }
        live.births.look(&mut out);
        Ok(out)
    }

    fn open_input(&mut self, id: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
        let live = self.live()?;
        live.port(id)?;
        let port = live.register(None, MidiIn::default())?;
        let ours = port.name().map_err(|error| refused(id, error))?;
        let input = live.input(port, lane, id)?;
        live.connect(id, &ours, id)?;
        Ok(input)
    }

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError> {
        let live = self.live()?;
        live.port(id)?;
        let port = live.register(None, MidiOut::default())?;
        let ours = port.name().map_err(|error| refused(id, error))?;
        let output = live.output(port, id)?;
        live.connect(&ours, id, id)?;
        Ok(output)
    }

    fn create_input(&mut self, name: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
        let live = self.live()?;
        let port = live.register(Some(name), MidiIn::default())?;
        live.input(port, lane, name)
    }

    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError> {
        let live = self.live()?;
        let port = live.register(Some(name), MidiOut::default())?;
        live.output(port, name)
    }
}

struct OpenInput {
    alive: Arc<AtomicBool>,
    closing: Arc<AtomicBool>,
}

impl Input for OpenInput {
    fn is_open(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }
}

impl Drop for OpenInput {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
    }
}

struct OpenOutput {
    queue: QueueSender,
    alive: Arc<AtomicBool>,
    closing: Arc<AtomicBool>,
    /// The largest message the server's buffer holds, as the callback last saw it.
    largest: Arc<AtomicUsize>,
}

impl Output for OpenOutput {
    fn send(&mut self, message: &[u8], _: Trail) -> Result<(), SendError> {
        if !self.is_open() {
            return Err(SendError::Offline);
        }
        let max = self.largest.load(Ordering::Relaxed);
        if message.len() > max {
            // A message that is wrong in itself keeps that reason.
            super::check_message(message)?;
            return Err(SendError::TooLong { max });
        }
        self.queue.send(message)
    }

    fn is_open(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }
}

impl Drop for OpenOutput {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
    }
}

/// A port on its way to the callback, or back.
enum Arrival {
    Input(Box<InPort>),
    Output(Box<OutPort>),
}

struct InPort {
    port: Port<MidiIn>,
    intake: Intake,
    closing: Arc<AtomicBool>,
}

struct OutPort {
    port: Port<MidiOut>,
    queue: QueueReceiver,
    closing: Arc<AtomicBool>,
    largest: Arc<AtomicUsize>,
    /// Nothing was written in this period.
    silent: bool,
}

/// The real-time callback's own state. Boxes move through it and are freed elsewhere.
#[expect(clippy::vec_box, reason = "a box moves on to the control thread as it is; its content must not be freed here")]
struct Process {
    inputs: Vec<Box<InPort>>,
    outputs: Vec<Box<OutPort>>,
    arrivals: rtrb::Consumer<Arrival>,
    departures: rtrb::Producer<Arrival>,
    stamp: Stamp,
}

impl ProcessHandler for Process {
    fn process(&mut self, _: &Client, scope: &ProcessScope) -> Control {
        self.admit();
        let now = (self.stamp)();
        for input in &mut self.inputs {
            for event in input.port.iter(scope) {
                input.intake.hear(now, Taint::Clean, event.bytes);
            }
        }
        for output in &mut self.outputs {
            output.write(scope);
        }
        self.dismiss();
        Control::Continue
    }
}

impl Process {
    fn admit(&mut self) {
        while self.inputs.len() < PORTS_MAX && self.outputs.len() < PORTS_MAX {
            match self.arrivals.pop() {
                Ok(Arrival::Input(input)) => self.inputs.push(input),
                Ok(Arrival::Output(output)) => self.outputs.push(output),
                Err(rtrb::PopError::Empty) => return,
            }
        }
    }

    /// Gives closed ports back. An output leaves in a period in which it wrote nothing: its last
    /// note-offs have gone out, and its buffer, which the server goes on delivering as long as the
    /// port exists, is empty.
    fn dismiss(&mut self) {
        let closed = self.inputs.iter().position(|it| it.closing.load(Ordering::Acquire));
        if let Some(index) = closed
            && !self.departures.is_full()
        {
            let input = self.inputs.swap_remove(index);
            let _ = self.departures.push(Arrival::Input(input));
        }
        let closed = self.outputs.iter().position(|it| it.closing.load(Ordering::Acquire) && it.silent);
        if let Some(index) = closed
            && !self.departures.is_full()
        {
            let output = self.outputs.swap_remove(index);
            let _ = self.departures.push(Arrival::Output(output));
        }
    }
}

impl OutPort {
    fn write(&mut self, scope: &ProcessScope) {
        let mut writer = self.port.writer(scope);
        let room = writer.max_event_size();
        self.largest.store(room, Ordering::Relaxed);
        self.silent = true;
        while let Some(message) = self.queue.front() {
            self.silent = false;
            // What does not fit into this period waits for the next. What could never fit was
            // refused when it was sent.
            let waits = message.len() <= room && writer.write(&RawMidi { time: 0, bytes: message }).is_err();
            if waits {
                return;
            }
            self.queue.done();
        }
    }
}

struct Notices {
    alive: Arc<AtomicBool>,
    announce: Announce,
    registrations: SyncSender<PortId>,
}

impl NotificationHandler for Notices {
    unsafe fn shutdown(&mut self, _: ClientStatus, _: &str) {
        self.alive.store(false, Ordering::Release);
        (self.announce)(Announcement::Lost { backend: NAME });
    }

    fn port_registration(&mut self, _: &Client, port: PortId, is_registered: bool) {
        if is_registered {
            // Full only when thousands came between two looks, and then most of them are new.
            let _ = self.registrations.try_send(port);
        }
        (self.announce)(Announcement::PortsChanged { backend: NAME });
    }
}
