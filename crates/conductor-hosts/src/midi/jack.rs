//! MIDI through a JACK server (or PipeWire, which implements the same protocol).
//!
//! The backend is one JACK client. One ring buffer passes new ports to the process callback, and
//! another returns closed ports. The callback therefore neither locks nor frees memory. Output
//! messages go through a [`queue`](super::queue): if a burst does not fit into one period, the rest
//! is sent in the next period, in order.
//!
//! libjack is loaded when a server is first found. Without libjack or a server, `connect` returns
//! the reason. After the server has ended, all handles are dead and `connect` creates a new client.

use super::period::{Buffer, Inlet, Message, Outlet, Periods};
use super::port_generation::PortGenerations;
use super::queue::{QUEUE_BYTES, QueueReceiver, QueueSender, queue};
use super::ring::EventSender;
use super::{
    Announce, Announcement, Backend, Cause, Desk, Input, Intake, Output, PortError, PortInfo, SendError, Stamp,
    Unavailable, Way,
};
use conductor_core::event::{DeviceSlot, Trail};
use jack::{
    AsyncClient, Client, ClientOptions, ClientStatus, Control, LoggerType, MidiIn, MidiOut, MidiWriter,
    NotificationHandler, Port, PortFlags, PortId, PortSpec, ProcessHandler, ProcessScope, RawMidi,
};
use std::array::from_fn;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const NAME: &str = "jack";
const MIDI: &str = "8 bit raw midi";
/// Maximum number of ports that we open. The callback's lists have this capacity, so they are never
/// reallocated.
const PORTS_MAX: usize = 128;
/// Maximum number of port registrations that are queued between two scans.
const REGISTERED_MAX: usize = 4096;
/// Number of periods in which an output writes nothing after it was connected. The server uses a
/// new connection from the next period on. If a client was late in that period, an asynchronous
/// server uses the connection one period later.
const HELD_PERIODS: u32 = 2;
/// The `slot` of an output that the owner has not assigned yet.
const NO_SLOT: u32 = u32::MAX;

pub struct Jack {
    client_name: String,
    stamp: Stamp,
    announce: Announce,
    desk: Desk,
    live: Option<Live>,
}

/// A connection to a JACK server.
struct Live {
    client: AsyncClient<Notices, Process>,
    arrivals: rtrb::Producer<Arrival>,
    departures: rtrb::Consumer<Arrival>,
    alive: Arc<AtomicBool>,
    /// Counter for the names of ports that are registered without a given name.
    last_number: u32,
    /// Ports that were registered (`Some`) or removed since the last scan.
    registered: Receiver<Option<PortId>>,
    generations: PortGenerations,
}

impl Jack {
    /// Does not connect yet. The server changes the client's name if another client has it.
    pub fn new(client_name: &str, stamp: Stamp, announce: Announce, desk: Desk) -> Self {
        let client_name = client_name.replace(['\0', ':'], ".");
        Jack { client_name, stamp, announce, desk, live: None }
    }

    fn live(&mut self) -> Result<&mut Live, Unavailable> {
        if self.live.as_ref().is_some_and(|live| !live.alive.load(Ordering::Acquire)) {
            self.live = None;
        }
        if self.live.is_none() {
            self.live = Some(Live::start(&self.client_name, &self.stamp, &self.announce, &self.desk)?);
        }
        let ended = || Unavailable::new(NAME, Cause::NoServer, "the server ended");
        let live = self.live.as_mut().ok_or_else(ended)?;
        live.unregister_closed();
        Ok(live)
    }
}

impl Live {
    fn start(name: &str, stamp: &Stamp, announce: &Announce, desk: &Desk) -> Result<Live, Unavailable> {
        if !server_may_run() {
            return Err(Unavailable::new(NAME, Cause::NoServer, "no socket of JACK or PipeWire was found"));
        }
        let (client, _) = Client::new(name, ClientOptions::NO_START_SERVER).map_err(unavailable)?;
        // The library returns its errors as values. Its log is disabled, because it would be
        // printed to the terminal.
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
            desk: Arc::clone(desk),
            periods: Periods::default(),
        };
        let client = client.activate_async(notices, process).map_err(unavailable)?;
        let generations = PortGenerations::default();
        Ok(Live { client, arrivals, departures, alive, last_number: 0, registered, generations })
    }

    /// Reads the registrations since the last scan. JACK reuses port numbers, so each number is
    /// converted to the current name of its port.
    fn read_registrations(&mut self) {
        while let Ok(registered) = self.registered.try_recv() {
            let Some(port) = registered else {
                self.generations.announce_removal();
                continue;
            };
            let name = self.client.as_client().port_by_id(port).and_then(|it| it.name().ok());
            name.into_iter().for_each(|name| self.generations.announce(name));
        }
    }

    /// Unregisters the ports that the callback has returned.
    fn unregister_closed(&mut self) {
        while let Ok(port) = self.departures.pop() {
            let client = self.client.as_client();
            // This fails only when the server has ended, which also closes the port.
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
                self.last_number = self.last_number.wrapping_add(1);
                let kind = if spec.jack_flags().contains(PortFlags::IS_INPUT) { "in" } else { "out" };
                format!("{kind}_{}", self.last_number)
            }
        };
        self.client.as_client().register_port(&name, spec).map_err(|error| PortError::refused(&name, error))
    }

    fn check_exists(&self, id: &str) -> Result<(), PortError> {
        let named = (!id.contains('\0')).then(|| self.client.as_client().port_by_name(id)).flatten();
        named.map(|_| ()).ok_or_else(|| PortError::gone(id))
    }

    fn connect(&self, from: &str, to: &str, theirs: &str) -> Result<(), PortError> {
        self.client.as_client().connect_ports_by_name(from, to).map_err(|error| PortError::refused(theirs, error))
    }

    fn admit(&mut self, port: Arrival, id: &str) -> Result<(), PortError> {
        let full = |_| PortError::refused(id, format!("{PORTS_MAX} ports are open already"));
        self.arrivals.push(port).map_err(full)
    }

    /// Registers a port and returns it with its full name.
    fn input(&mut self, name: Option<&str>, id: &str, events: EventSender) -> Result<(OpenPort, String), PortError> {
        let port = self.register(name, MidiIn::default())?;
        let ours = port.name().map_err(|error| PortError::refused(id, error))?;
        let open = OpenPort { alive: Arc::clone(&self.alive), closing: Arc::default() };
        let input = InPort { port, intake: Intake::new(events), closing: Arc::clone(&open.closing) };
        self.admit(Arrival::Input(Box::new(input)), id)?;
        Ok((open, ours))
    }

    /// Registers a port and returns it with its full name.
    fn output(&mut self, name: Option<&str>, id: &str) -> Result<(OpenOutput, String), PortError> {
        let port = self.register(name, MidiOut::default())?;
        let ours = port.name().map_err(|error| PortError::refused(id, error))?;
        let open = OpenPort { alive: Arc::clone(&self.alive), closing: Arc::default() };
        let largest = Arc::new(AtomicUsize::new(usize::MAX));
        let slot = Arc::new(AtomicU32::new(NO_SLOT));
        let (sender, queue) = queue(QUEUE_BYTES);
        let connected = Arc::<AtomicBool>::default();
        let output = OutPort {
            port,
            queue,
            closing: Arc::clone(&open.closing),
            connected: Arc::clone(&connected),
            held_periods: HELD_PERIODS,
            largest: Arc::clone(&largest),
            slot: Arc::clone(&slot),
            is_idle: false,
        };
        self.admit(Arrival::Output(Box::new(output)), id)?;
        Ok((OpenOutput { queue: sender, port: open, connected, largest, slot }, ours))
    }
}

/// Looks for a server before libjack is loaded, because libjack needs four megabytes of memory. A
/// JACK server has a socket in `/dev/shm` (`jack_<name>_<uid>_<number>`; old versions have the
/// folder `jack-<uid>/`). PipeWire has a socket in the runtime folder. Returns true if `/dev/shm`
/// cannot be read.
fn server_may_run() -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    if std::env::consts::OS != "linux" {
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

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum; only two of its variants need more than their text"
)]
fn unavailable(error: jack::Error) -> Unavailable {
    let (cause, detail) = match error {
        jack::Error::LibraryError(why) => (Cause::LibraryMissing, why),
        jack::Error::ClientError(status) => {
            let no_server = status.intersects(ClientStatus::SERVER_FAILED | ClientStatus::SERVER_ERROR)
                || status == ClientStatus::FAILURE;
            let cause = if no_server { Cause::NoServer } else { Cause::Refused };
            let names: Vec<&str> = status.iter_names().map(|(name, _)| name).collect();
            (cause, names.join(" "))
        }
        other => (Cause::Refused, other.to_string()),
    };
    Unavailable::new(NAME, cause, detail)
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
        live.read_registrations();
        let client = live.client.as_client();
        let ours = format!("{}:", client.name());
        let mut out = Vec::new();
        // We read from the outputs of other clients, so we list them as inputs.
        for (way, flag) in [(Way::Input, PortFlags::IS_OUTPUT), (Way::Output, PortFlags::IS_INPUT)] {
            for id in client.ports(None, Some(MIDI), flag) {
                if id.starts_with(&ours) {
                    continue;
                }
                let port = client.port_by_name(&id);
                let is_hardware = port.as_ref().is_some_and(|it| it.flags().contains(PortFlags::IS_PHYSICAL));
                let aliases = port.and_then(|it| it.aliases().ok()).unwrap_or_default();
                // The alias of a port such as `system:midi_capture_1` is the name of its device.
                let device = aliases.first().filter(|_| id.starts_with("system:")).cloned();
                let name = device.unwrap_or_else(|| id.clone());
                let other_names = aliases.into_iter().chain([id.clone()]).filter(|it| *it != name).collect();
                out.push(PortInfo { other_names, is_hardware, ..PortInfo::new(NAME, way, id, name) });
            }
        }
        live.generations.update(&mut out);
        Ok(out)
    }

    fn open_input(&mut self, id: &str, events: EventSender) -> Result<Box<dyn Input>, PortError> {
        let live = self.live()?;
        live.check_exists(id)?;
        let (input, ours) = live.input(None, id, events)?;
        live.connect(id, &ours, id)?;
        Ok(Box::new(input))
    }

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError> {
        let live = self.live()?;
        live.check_exists(id)?;
        let (output, ours) = live.output(None, id)?;
        live.connect(&ours, id, id)?;
        output.connected.store(true, Ordering::Release);
        Ok(Box::new(output))
    }

    fn create_input(&mut self, name: &str, events: EventSender) -> Result<Box<dyn Input>, PortError> {
        Ok(Box::new(self.live()?.input(Some(name), name, events)?.0))
    }

    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError> {
        let (output, _) = self.live()?.output(Some(name), name)?;
        // Other programs connect this port.
        output.connected.store(true, Ordering::Release);
        Ok(Box::new(output))
    }
}

/// A handle to a port. Dropping it makes the callback return the port.
struct OpenPort {
    alive: Arc<AtomicBool>,
    closing: Arc<AtomicBool>,
}

impl Input for OpenPort {
    fn is_open(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
    }
}

struct OpenOutput {
    queue: QueueSender,
    port: OpenPort,
    connected: Arc<AtomicBool>,
    /// The largest message, in bytes, that fits into the server's buffer, as last measured by the
    /// callback.
    largest: Arc<AtomicUsize>,
    slot: Arc<AtomicU32>,
}

impl Output for OpenOutput {
    fn send(&mut self, message: &[u8], _: Trail) -> Result<(), SendError> {
        if !self.is_open() {
            return Err(SendError::Offline);
        }
        let max = self.largest.load(Ordering::Relaxed);
        if message.len() > max {
            // If the message is also malformed, that error is reported first.
            super::check_message(message)?;
            return Err(SendError::TooLong { max });
        }
        self.queue.send(message)
    }

    fn is_open(&self) -> bool {
        self.port.is_open()
    }

    fn assign(&mut self, port: DeviceSlot) {
        self.slot.store(port.0.into(), Ordering::Release);
    }
}

/// A port that is passed to the callback or returned from it.
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
    connected: Arc<AtomicBool>,
    /// Number of periods, counted from the connection, in which messages still wait in the queue.
    held_periods: u32,
    largest: Arc<AtomicUsize>,
    /// The port under which the owner sends here, or `NO_SLOT`.
    slot: Arc<AtomicU32>,
    /// Whether no message was written in this period.
    is_idle: bool,
}

/// The state of the real-time callback. Another thread frees the boxed ports, because freeing
/// memory may block.
#[expect(clippy::vec_box, reason = "the box itself moves to the control thread; it must not be freed here")]
struct Process {
    inputs: Vec<Box<InPort>>,
    outputs: Vec<Box<OutPort>>,
    arrivals: rtrb::Consumer<Arrival>,
    departures: rtrb::Producer<Arrival>,
    stamp: Stamp,
    desk: Desk,
    periods: Periods,
}

impl ProcessHandler for Process {
    fn process(&mut self, client: &Client, scope: &ProcessScope) -> Control {
        self.admit();
        self.run(client.sample_rate(), scope);
        self.dismiss();
        Control::Continue
    }
}

impl Process {
    fn run(&mut self, rate: u32, scope: &ProcessScope) {
        let mut inputs = self.inputs.iter_mut();
        let mut inlets: [_; PORTS_MAX] = from_fn(|_| inputs.next().map(|it| it.open(scope)));
        let mut outputs = self.outputs.iter_mut();
        let mut outlets: [_; PORTS_MAX] = from_fn(|_| outputs.next().map(|it| it.open(scope)));
        self.periods.run(&self.desk, &*self.stamp, rate, &mut inlets, &mut outlets);
        let idle = outlets.map(|it| it.is_some_and(|it| it.is_idle()));
        self.outputs.iter_mut().zip(idle).for_each(|(output, is_idle)| output.is_idle = is_idle);
    }

    fn admit(&mut self) {
        while self.inputs.len() < PORTS_MAX && self.outputs.len() < PORTS_MAX {
            match self.arrivals.pop() {
                Ok(Arrival::Input(input)) => self.inputs.push(input),
                Ok(Arrival::Output(output)) => self.outputs.push(output),
                Err(rtrb::PopError::Empty) => return,
            }
        }
    }

    /// Returns closed ports. An output is returned only after a period in which it wrote nothing,
    /// so that its last note-offs have been sent. Its buffer is then empty, so the server cannot
    /// deliver an old message again.
    fn dismiss(&mut self) {
        let closed = self.inputs.iter().position(|it| it.closing.load(Ordering::Acquire));
        if let Some(index) = closed
            && !self.departures.is_full()
        {
            let input = self.inputs.swap_remove(index);
            let _ = self.departures.push(Arrival::Input(input));
        }
        let closed = self.outputs.iter().position(|it| it.closing.load(Ordering::Acquire) && it.is_idle);
        if let Some(index) = closed
            && !self.departures.is_full()
        {
            let output = self.outputs.swap_remove(index);
            let _ = self.departures.push(Arrival::Output(output));
        }
    }
}

impl InPort {
    fn open<'a>(&'a mut self, scope: &'a ProcessScope) -> Inlet<'a, impl Iterator<Item = Message<'a>>> {
        let messages = self.port.iter(scope).map(|it| Message { frame: it.time, bytes: it.bytes });
        Inlet::new(messages, &mut self.intake)
    }
}

impl OutPort {
    /// Opens the buffer of this period. Opening clears the buffer.
    fn open<'a>(&'a mut self, scope: &'a ProcessScope) -> Outlet<'a, MidiWriter<'a>> {
        let writer = self.port.writer(scope);
        self.largest.store(writer.max_event_size(), Ordering::Relaxed);
        if self.held_periods > 0 {
            self.held_periods -= u32::from(self.connected.load(Ordering::Acquire));
            return Outlet::held(writer, &mut self.queue);
        }
        let is_closing = self.closing.load(Ordering::Acquire);
        let slot = u16::try_from(self.slot.load(Ordering::Acquire)).ok().filter(|_| !is_closing);
        Outlet::new(writer, &mut self.queue, slot.map(DeviceSlot))
    }
}

impl Buffer for MidiWriter<'_> {
    fn room(&self) -> usize {
        self.max_event_size()
    }

    fn write(&mut self, message: Message<'_>) -> bool {
        MidiWriter::write(self, &RawMidi { time: message.frame, bytes: message.bytes }).is_ok()
    }
}

struct Notices {
    alive: Arc<AtomicBool>,
    announce: Announce,
    registrations: SyncSender<Option<PortId>>,
}

unsafe extern "C" {
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// Closing a client makes libjack cancel its threads, by default at any instruction. A thread must
/// not be cancelled in our code: the cancellation unwinds the stack, and unwinding through a Rust
/// function aborts the daemon. After a call of this function, the notification thread can be
/// cancelled only while it reads from its socket. The thread of the process callback must not call
/// this function: it waits in a system call that is not a cancellation point, so closing the client
/// would never end.
fn defer_cancellation() {
    const PTHREAD_CANCEL_DEFERRED: c_int = 0;
    let mut old = 0;
    // SAFETY: the call affects only the calling thread, and writes only to `old`.
    unsafe { pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &raw mut old) };
}

impl NotificationHandler for Notices {
    /// The owner closes the client as soon as it receives the announcement, so `defer_cancellation`
    /// is called first.
    unsafe fn shutdown(&mut self, _: ClientStatus, _: &str) {
        defer_cancellation();
        self.alive.store(false, Ordering::Release);
        (self.announce)(Announcement::Lost { backend: NAME });
    }

    fn port_registration(&mut self, _: &Client, port: PortId, is_registered: bool) {
        defer_cancellation();
        // If the channel is full, the registration is dropped. This happens only after thousands of
        // registrations between two scans.
        let _ = self.registrations.try_send(is_registered.then_some(port));
        (self.announce)(Announcement::PortsChanged { backend: NAME });
    }
}
