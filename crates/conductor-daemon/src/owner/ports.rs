//! Opens and closes ports. Runs on a separate thread, because a backend may block while it opens a
//! device. The owner is notified of changes and gets the receiver of each input and the handle of
//! each output.
//!
//! Not here: backends (`conductor_hosts::midi`), and the meaning of events
//! (`conductor_core::engine`).

use crate::owner::wake::Wake;
use conductor_core::config::{Config, Device, InputMode, ListenMode, Protocol};
use conductor_core::event::{DeviceSlot, Taint};
use conductor_core::mapping::table::Slots;
use conductor_gateway::owner_handle::Reply;
use conductor_gateway::report::{BackendNow, BackendState, Scanned};
use conductor_hosts::midi::identity::{Backoff, Identity, Roster};
use conductor_hosts::midi::loopback::Loopback;
use conductor_hosts::midi::ring::{Bell, EventReceiver, event_ring};
use conductor_hosts::midi::{Backend, Input, Output, PortError, PortInfo, Stamp, Way};
use conductor_hosts::osc::Listener;
use conductor_hosts::system::Clock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::Thread;
use std::time::Duration;

/// Slots for device aliases and port names. A lock is needed because two threads assign slots: the
/// owner when it compiles a configuration, and this thread when it opens a port without an alias.
/// The lock is held for one lookup or one compilation.
pub type SharedSlots = Arc<Mutex<Slots>>;

pub fn with_slots<T>(slots: &SharedSlots, act: impl FnOnce(&mut Slots) -> T) -> T {
    act(&mut slots.lock())
}

/// Messages to the port thread.
pub enum Order {
    /// A new configuration is in force.
    Config(Arc<Config>),
    Scan(Reply<Scanned>),
    /// Enables a device that the file disables. The device stays enabled until the daemon stops.
    /// The callback runs after the next scan.
    Enable(String, Box<dyn FnOnce() + Send>),
    /// Opens this output, because a message is to be sent to it.
    OpenOutput(String),
    /// The owner failed to send to this output, so the port is closed.
    OutputDied(DeviceSlot),
    End,
}

/// Notifications to the owner.
pub enum News {
    Input {
        device: DeviceSlot,
        lane: EventReceiver,
        /// The minimum taint of the port's events. A single event may have a more severe taint.
        taint: Taint,
    },
    InputLost {
        device: DeviceSlot,
    },
    Output {
        port: DeviceSlot,
        output: Box<dyn Output>,
    },
    OutputLost {
        port: DeviceSlot,
    },
    /// A port could not be opened, although a message is to be sent to it.
    NotOpened {
        port: DeviceSlot,
        why: String,
    },
    Table(Arc<Table>),
}

/// The result of the last scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub gamepads: Vec<String>,
    /// The addresses of our OSC listeners.
    pub osc_listeners: Vec<String>,
    /// The configured MIDI devices and gamepads in file order, then ports without an alias, then
    /// the OSC devices.
    pub devices: Vec<Bound>,
    pub backends: Vec<BackendNow>,
}

/// A device and its connected ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub device_id: String,
    pub slot: DeviceSlot,
    pub input: Option<String>,
    pub output: Option<String>,
    pub is_configured: bool,
    pub wants_input: bool,
    /// Whether the input is hardware, and not a port that a program created.
    pub is_hardware: bool,
}

impl Bound {
    pub fn is_connected(&self) -> bool {
        self.input.is_some() || self.output.is_some()
    }

    pub fn port_name(&self) -> Option<&String> {
        self.input.as_ref().or(self.output.as_ref())
    }
}

/// Wakes the port thread. Backends use it when ports change, in callbacks that must not lock or
/// allocate.
#[derive(Default)]
pub(crate) struct ScanSignal {
    changed: AtomicBool,
    thread: OnceLock<Thread>,
}

impl ScanSignal {
    pub fn ports_changed(&self) {
        self.changed.store(true, Ordering::Release);
        self.wake();
    }

    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The index of the loopback in `sources`.
const LOOPBACK: usize = 0;

/// A port: its backend, and the data to open it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    source: usize,
    /// The backend's id of an existing port, or the name of a port that the daemon creates.
    id: String,
    name: String,
    is_made: bool,
    is_hardware: bool,
    /// The taint of the port's events. Any program can write to a port that is neither hardware nor
    /// trusted.
    taint: Taint,
    /// The generation in [`PortInfo`]. A port that was reconnected has a new generation and is
    /// opened again.
    generation: u64,
}

/// A device and the ports that should be open.
struct Wanted {
    bound: Bound,
    input: Option<Place>,
    output: Option<Place>,
}

struct OpenInput {
    place: Place,
    handle: Box<dyn Input>,
}

/// A backend, and the time of the next attempt while it is missing.
pub(crate) struct Source {
    backend: Box<dyn Backend>,
    protocol: Protocol,
    retry: Backoff,
    ports: Result<Vec<PortInfo>, String>,
}

impl Source {
    pub fn midi(backend: impl Backend + 'static) -> Self {
        Source::new(Box::new(backend), Protocol::Midi)
    }

    #[cfg_attr(not(feature = "gamepad"), allow(dead_code))]
    pub fn gamepads(backend: impl Backend + 'static) -> Self {
        Source::new(Box::new(backend), Protocol::Gamepad)
    }

    pub fn of(backend: Box<dyn Backend>) -> Self {
        Source::new(backend, Protocol::Midi)
    }

    /// Lists the ports once. A missing backend has none.
    pub fn list(mut self) -> Vec<(Protocol, PortInfo)> {
        let ports = self.backend.connect().is_ok().then(|| self.backend.ports().unwrap_or_default());
        ports.unwrap_or_default().into_iter().map(|it| (self.protocol, it)).collect()
    }

    fn new(backend: Box<dyn Backend>, protocol: Protocol) -> Self {
        Source { backend, protocol, retry: Backoff::default(), ports: Ok(Vec::new()) }
    }
}

/// The OSC listener of a device.
struct OscInput {
    listen: String,
    allow_network: bool,
    heard_by: Result<Listener, String>,
}

/// The parts that a [`PortScanner`] needs.
pub(crate) struct Parts {
    pub loopback: Loopback,
    /// All sources except the loopback, which always exists.
    pub sources: Vec<Source>,
    pub stamp: Stamp,
    pub config: Arc<Config>,
    pub slots: SharedSlots,
    pub bell: Bell,
    pub signal: Arc<ScanSignal>,
    pub clock: Arc<dyn Clock>,
}

pub(crate) struct PortScanner {
    loopback: Loopback,
    /// All sources; the first is the loopback.
    sources: Vec<Source>,
    midi: Roster,
    gamepads: Roster,
    stamp: Stamp,
    config: Arc<Config>,
    slots: SharedSlots,
    bell: Bell,
    signal: Arc<ScanSignal>,
    clock: Arc<dyn Clock>,
    /// Aliases of the loopback devices that exist now.
    plugged: BTreeSet<String>,
    /// Aliases of devices that the file disables, but that were enabled since the daemon started.
    enabled: BTreeSet<String>,
    inputs: BTreeMap<DeviceSlot, OpenInput>,
    outputs: BTreeMap<DeviceSlot, Place>,
    osc_inputs: BTreeMap<DeviceSlot, OscInput>,
    table: Arc<Table>,
}

impl PortScanner {
    pub fn new(parts: Parts) -> Self {
        let Parts { loopback, sources, stamp, config, slots, bell, signal, clock } = parts;
        PortScanner {
            sources: std::iter::once(Source::midi(loopback.clone())).chain(sources).collect(),
            loopback,
            midi: Roster::new(&config.devices, Protocol::Midi),
            gamepads: Roster::new(&config.devices, Protocol::Gamepad),
            stamp,
            config,
            slots,
            bell,
            signal,
            clock,
            plugged: BTreeSet::new(),
            enabled: BTreeSet::new(),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            osc_inputs: BTreeMap::new(),
            table: Arc::default(),
        }
    }

    /// Scans once, and again whenever a backend reports a change, a scan is requested, or the
    /// interval has passed.
    pub fn run(mut self, orders: &mpsc::Receiver<Order>, post: impl Fn(Wake)) {
        // Set the thread before the first scan, so that no change during that scan is missed.
        let _ = self.signal.thread.set(std::thread::current());
        let mut due = Due { scan: true, ..Due::default() };
        loop {
            if std::mem::take(&mut due.scan) {
                let before = self.table.clone();
                self.scan(&due, &post);
                due.outputs.clear();
                let seen = changes(&before, &self.table);
                due.enabled.drain(..).for_each(|answer| answer());
                // Every scan request that arrived before this scan gets the result of this scan.
                // Disconnected clients are ignored.
                for reply in due.replies.drain(..) {
                    let _ = reply.send(seen.clone());
                }
            }
            loop {
                match orders.try_recv() {
                    Ok(order) => {
                        if self.take(order, &mut due).is_break() {
                            return;
                        }
                    }
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
            due.scan |= self.signal.changed.swap(false, Ordering::AcqRel);
            if !due.scan {
                due.scan = self.wait();
            }
        }
    }

    fn take(&mut self, order: Order, due: &mut Due) -> ControlFlow<()> {
        match order {
            Order::Config(config) => {
                self.midi.reload(&config.devices, Protocol::Midi);
                self.gamepads.reload(&config.devices, Protocol::Gamepad);
                self.config = config;
            }
            Order::Scan(reply) => due.replies.push(reply),
            Order::Enable(alias, answer) => {
                self.enabled.insert(alias);
                due.enabled.push(answer);
            }
            Order::OpenOutput(name) => due.outputs.push(name),
            Order::OutputDied(port) => {
                self.outputs.remove(&port);
            }
            Order::End => return ControlFlow::Break(()),
        }
        due.scan = true;
        ControlFlow::Continue(())
    }

    /// Waits. Returns `true` if the interval has passed, and `false` if the thread was woken.
    fn wait(&self) -> bool {
        if self.sources.len() == 1 {
            // The loopback is the only backend. It reports every change, so no periodic scan is
            // needed.
            std::thread::park();
            return false;
        }
        let now = self.clock.now();
        let interval = Duration::from_millis(self.config.advanced.scan_interval_ms.into());
        let retry = self.sources.iter().filter_map(|it| it.retry.next()).min();
        let wait = retry.map_or(interval, |at| interval.min(Duration::from_micros(at.since(now))));
        std::thread::park_timeout(wait);
        self.clock.now().since(now) >= wait.as_micros() as u64
    }

    fn scan(&mut self, due: &Due, post: &impl Fn(Wake)) {
        self.plug_loopback_devices();
        let now = self.clock.now();
        for source in &mut self.sources {
            // A requested scan also retries missing backends whose next attempt is not due yet.
            let is_due = source.retry.is_due(now);
            if due.replies.is_empty() && !is_due {
                continue;
            }
            let found = source.backend.connect().map_err(PortError::from).and_then(|()| source.backend.ports());
            match &found {
                Ok(_) => source.retry.succeeded(),
                Err(_) if is_due => source.retry.failed(now),
                Err(_) => {}
            }
            source.ports = found.map_err(|fault| fault.to_string());
        }
        let (places, ports): (Vec<usize>, Vec<PortInfo>) = self
            .sources
            .iter()
            .enumerate()
            .flat_map(|(at, source)| source.ports.iter().flatten().map(move |port| (at, port.clone())))
            .unzip();
        let mut devices = self.wanted(&places, &ports);
        self.close_what_is_gone(&devices, post);
        for device in &mut devices {
            self.open_input(device, post);
            if let Some(place) = device.output.clone()
                && self.open_output(device.bound.slot, &place, post).is_ok()
            {
                device.bound.output = Some(place.name);
            }
        }
        self.open_named_outputs(&places, &ports, &due.outputs, post);
        devices.extend(self.listen(post));
        let names = |protocol: Protocol, way: Way| {
            let all = places.iter().zip(&ports).filter(|(at, it)| self.protocol(**at) == protocol && it.way == way);
            all.map(|(_, it)| it.name.clone()).collect()
        };
        let heard = self.osc_inputs.values().filter_map(|it| it.heard_by.as_ref().ok());
        let backends =
            self.sources.iter().map(Source::report).chain(self.osc_inputs.values().filter_map(OscInput::report));
        self.table = Arc::new(Table {
            inputs: names(Protocol::Midi, Way::Input),
            outputs: names(Protocol::Midi, Way::Output),
            gamepads: names(Protocol::Gamepad, Way::Input),
            osc_listeners: heard.map(|it| it.address().to_string()).collect(),
            devices: devices.into_iter().map(|it| it.bound).collect(),
            backends: backends.collect(),
        });
        post(Wake::Ports(News::Table(self.table.clone())));
    }

    fn plug_loopback_devices(&mut self) {
        let wanted: BTreeSet<String> =
            self.config.devices.iter().filter(|it| it.loopback).map(|it| it.alias.clone()).collect();
        for alias in self.plugged.difference(&wanted) {
            self.loopback.unplug(alias);
        }
        for alias in wanted.difference(&self.plugged) {
            self.loopback.plug(alias);
        }
        self.plugged = wanted;
        // Clear the signal, because the scan that follows includes these changes.
        self.signal.changed.store(false, Ordering::Release);
    }

    fn protocol(&self, source: usize) -> Protocol {
        self.sources.get(source).map_or(Protocol::Midi, |it| it.protocol)
    }

    /// The configured MIDI devices and gamepads in file order, then ports without an alias. Each
    /// entry has the ports that should be open.
    fn wanted(&mut self, places: &[usize], ports: &[PortInfo]) -> Vec<Wanted> {
        let config = self.config.clone();
        let configured = config.devices.iter().filter(|it| it.protocol != Protocol::Osc);
        let mut devices: Vec<Wanted> = configured
            .map(|device| {
                let wants_input = device.direction.has_input() && self.is_wanted(device);
                self.device(device.alias.clone(), true, wants_input)
            })
            .collect();
        let mut raw_left = match config.advanced.listen_mode {
            ListenMode::All => config.advanced.max_midi_ports,
            ListenMode::Configured => 0,
        };
        let hears = |protocol: Protocol| match (config.advanced.input_mode, protocol) {
            (InputMode::GamepadOnly, Protocol::Midi) | (InputMode::MidiOnly, Protocol::Gamepad) => false,
            (InputMode::GamepadOnly | InputMode::MidiOnly | InputMode::Both, _) => true,
        };
        for ((source, port), identity) in places.iter().zip(ports).zip(self.identities(places, ports)) {
            let by_programs = *source != LOOPBACK && self.protocol(*source) == Protocol::Midi && !port.is_hardware;
            let place = Place {
                source: *source,
                id: port.id.clone(),
                name: port.name.clone(),
                is_made: false,
                is_hardware: port.is_hardware,
                taint: taint(by_programs && port.way == Way::Input && !is_trusted(&config, &identity)),
                generation: port.generation,
            };
            let hears = hears(self.protocol(*source));
            let known = devices.iter_mut().find(|it| it.bound.device_id == identity.device_id());
            match (identity, port.way, known) {
                (Identity::Alias(_), Way::Input, Some(device)) if hears && device.bound.wants_input => {
                    device.input = Some(place);
                }
                (Identity::Alias(_), Way::Output, Some(device)) => device.output = Some(place),
                // A loopback port without an alias is used only as an output.
                (Identity::Raw(name), Way::Input, None) if hears && raw_left > 0 && *source != LOOPBACK => {
                    raw_left -= 1;
                    devices.push(Wanted { input: Some(place), ..self.device(name, false, true) });
                }
                (Identity::Alias(_) | Identity::Raw(_), Way::Input | Way::Output, _) => {}
            }
        }
        // Ports that the daemon creates. They are created on the first backend whose ports other
        // programs can use.
        let is_public = |it: &Source| it.protocol == Protocol::Midi && it.ports.is_ok();
        let public = self.sources.iter().skip(1).position(is_public).map(|it| it + 1);
        for device in config.devices.iter().filter(|it| it.protocol == Protocol::Midi) {
            let (Some(name), Some(source)) = (&device.virtual_port, public) else { continue };
            let Some(wanted) = devices.iter_mut().find(|it| it.bound.device_id == device.alias) else { continue };
            let place = |taint: Taint| {
                let (id, name) = (name.clone(), name.clone());
                Place { source, id, name, is_made: true, is_hardware: false, taint, generation: 0 }
            };
            let hears = wanted.bound.wants_input && hears(Protocol::Midi);
            wanted.input = hears.then(|| place(taint(!device.trusted)));
            wanted.output = device.direction.has_output().then(|| place(Taint::Clean));
        }
        devices
    }

    /// Finds the device or the raw name of each port, using the roster of the port's protocol.
    fn identities(&mut self, places: &[usize], ports: &[PortInfo]) -> Vec<Identity> {
        let of = |protocol: Protocol, sources: &[Source]| -> Vec<PortInfo> {
            let of = |at: &usize| sources.get(*at).is_some_and(|it| it.protocol == protocol);
            places.iter().zip(ports).filter(|(at, _)| of(at)).map(|(_, port)| port.clone()).collect()
        };
        let mut midi = self.midi.assign(&of(Protocol::Midi, &self.sources)).into_iter();
        let mut gamepads = self.gamepads.assign(&of(Protocol::Gamepad, &self.sources)).into_iter();
        let identities = places.iter().filter_map(|at| match self.protocol(*at) {
            Protocol::Midi => midi.next(),
            Protocol::Gamepad => gamepads.next(),
            Protocol::Osc => None,
        });
        identities.collect()
    }

    /// Opens and closes OSC listeners according to the configuration.
    fn listen(&mut self, post: &impl Fn(Wake)) -> Vec<Wanted> {
        let config = self.config.clone();
        let mut devices = Vec::new();
        let mut kept = BTreeMap::new();
        for device in config.devices.iter().filter(|it| it.protocol == Protocol::Osc) {
            let is_wanted = self.is_wanted(device);
            let mut wanted = self.device(device.alias.clone(), true, is_wanted);
            let slot = wanted.bound.slot;
            let Some(listen) = device.listen.as_ref().filter(|_| is_wanted) else {
                devices.push(wanted);
                continue;
            };
            let same = |it: &OscInput| it.listen == *listen && it.allow_network == device.allow_network;
            let is_open = |it: &OscInput| it.heard_by.as_ref().is_ok_and(Listener::is_open);
            let input = match self.osc_inputs.remove(&slot) {
                Some(input) if same(&input) && is_open(&input) => input,
                before => {
                    if before.is_some_and(|it| it.heard_by.is_ok()) {
                        post(Wake::Ports(News::InputLost { device: slot }));
                    }
                    let (sender, receiver) = event_ring(slot, config.advanced.max_events_per_sec, self.bell.clone());
                    let started = Listener::start(listen, device.allow_network, sender, self.stamp.clone());
                    let heard_by = started.map_err(|fault| fault.to_string());
                    if heard_by.is_ok() {
                        // The events of an OSC listener already have the taint `Network`.
                        post(Wake::Ports(News::Input { device: slot, lane: receiver, taint: Taint::Network }));
                    }
                    OscInput { listen: listen.clone(), allow_network: device.allow_network, heard_by }
                }
            };
            wanted.bound.input = input.heard_by.as_ref().ok().map(|it| it.address().to_string());
            kept.insert(slot, input);
            devices.push(wanted);
        }
        for (device, input) in std::mem::replace(&mut self.osc_inputs, kept) {
            if input.heard_by.is_ok() {
                post(Wake::Ports(News::InputLost { device }));
            }
        }
        devices
    }

    /// Whether the input is enabled, either by the file or by a request since the daemon started.
    fn is_wanted(&self, device: &Device) -> bool {
        device.enabled || self.enabled.contains(&device.alias)
    }

    fn device(&self, device_id: String, is_configured: bool, wants_input: bool) -> Wanted {
        let slot = with_slots(&self.slots, |slots| slots.slot(&device_id));
        let bound =
            Bound { device_id, slot, input: None, output: None, is_configured, wants_input, is_hardware: false };
        Wanted { bound, input: None, output: None }
    }

    fn close_what_is_gone(&mut self, devices: &[Wanted], post: &impl Fn(Wake)) {
        let wanted = |slot: DeviceSlot| devices.iter().find(|it| it.bound.slot == slot);
        let inputs: Vec<DeviceSlot> = (self.inputs.iter())
            .filter(|(slot, open)| {
                !open.handle.is_open() || wanted(**slot).and_then(|it| it.input.as_ref()) != Some(&open.place)
            })
            .map(|(slot, _)| *slot)
            .collect();
        for device in inputs {
            self.inputs.remove(&device);
            post(Wake::Ports(News::InputLost { device }));
        }
        let outputs: Vec<DeviceSlot> = (self.outputs.iter())
            .filter(|(slot, place)| wanted(**slot).is_some_and(|it| it.output.as_ref() != Some(place)))
            .map(|(slot, _)| *slot)
            .collect();
        for port in outputs {
            self.outputs.remove(&port);
            post(Wake::Ports(News::OutputLost { port }));
        }
    }

    fn open_input(&mut self, device: &mut Wanted, post: &impl Fn(Wake)) {
        let (slot, Some(place)) = (device.bound.slot, &device.input) else { return };
        if !self.inputs.contains_key(&slot)
            && let Some(source) = self.sources.get_mut(place.source)
        {
            let (sender, receiver) = event_ring(slot, self.config.advanced.max_events_per_sec, self.bell.clone());
            let opened = match place.is_made {
                true => source.backend.create_input(&place.id, sender),
                false => source.backend.open_input(&place.id, sender),
            };
            // If a port cannot be opened, the next scan tries again. Until then the device is not
            // connected.
            if let Ok(handle) = opened {
                self.inputs.insert(slot, OpenInput { place: place.clone(), handle });
                post(Wake::Ports(News::Input { device: slot, lane: receiver, taint: place.taint }));
            }
        }
        if self.inputs.contains_key(&slot) {
            device.bound.input = Some(place.name.clone());
            device.bound.is_hardware = place.is_hardware;
        }
    }

    fn open_output(&mut self, slot: DeviceSlot, place: &Place, post: &impl Fn(Wake)) -> Result<(), String> {
        if self.outputs.get(&slot) == Some(place) {
            return Ok(());
        }
        let source = self.sources.get_mut(place.source).ok_or("the backend of the port no longer exists")?;
        let opened = match place.is_made {
            true => source.backend.create_output(&place.id),
            false => source.backend.open_output(&place.id),
        };
        let output = opened.map_err(|fault| fault.to_string())?;
        self.outputs.insert(slot, place.clone());
        post(Wake::Ports(News::Output { port: slot, output }));
        Ok(())
    }

    /// Opens outputs that are addressed by their port name: those in mappings, and those of pending
    /// messages.
    fn open_named_outputs(&mut self, places: &[usize], ports: &[PortInfo], asked: &[String], post: &impl Fn(Wake)) {
        let is_device = |name: &str| self.config.devices.iter().any(|it| it.alias == name);
        let mut names = with_slots(&self.slots, |slots| {
            (0..slots.len()).map(|at| slots.name(DeviceSlot(at as u16)).to_owned()).collect::<BTreeSet<_>>()
        });
        names.extend(asked.iter().cloned());
        let named: Vec<String> = names.into_iter().filter(|it| !is_device(it)).collect();
        for name in named {
            let slot = with_slots(&self.slots, |slots| slots.slot(&name));
            let mut found = places.iter().zip(ports).filter(|(_, it)| it.way == Way::Output && it.name == name);
            match found.next() {
                Some((source, port)) => {
                    let (id, is_hardware, generation) = (port.id.clone(), port.is_hardware, port.generation);
                    let (taint, is_made) = (Taint::Clean, false);
                    let place =
                        Place { source: *source, id, name: name.clone(), is_made, is_hardware, taint, generation };
                    if let Err(why) = self.open_output(slot, &place, post) {
                        post(Wake::Ports(News::NotOpened { port: slot, why }));
                    }
                }
                None => {
                    if self.outputs.remove(&slot).is_some() {
                        post(Wake::Ports(News::OutputLost { port: slot }));
                    }
                }
            }
        }
        for name in asked {
            let slot = with_slots(&self.slots, |slots| slots.slot(name));
            if !self.outputs.contains_key(&slot) {
                let why = format!("'{name}' is not connected, or has no output");
                post(Wake::Ports(News::NotOpened { port: slot, why }));
            }
        }
    }
}

/// The reasons for the next scan.
#[derive(Default)]
struct Due {
    scan: bool,
    replies: Vec<Reply<Scanned>>,
    enabled: Vec<Box<dyn FnOnce() + Send>>,
    /// The outputs of pending messages.
    outputs: Vec<String>,
}

impl OscInput {
    /// The state of a listener with an error. A working listener is listed by its address instead.
    fn report(&self) -> Option<BackendNow> {
        let reason = self.heard_by.as_ref().err()?;
        let (name, state) = (format!("osc {}", self.listen), BackendState::Missing);
        Some(BackendNow { name, state, reason: Some(reason.clone()) })
    }
}

impl Source {
    fn report(&self) -> BackendNow {
        let state = if self.ports.is_ok() { BackendState::Ready } else { BackendState::Missing };
        let name = self.backend.name();
        // `status` shows the name next to the reason, so remove the name from the error text.
        let reason = self.ports.as_ref().err().map(|it| it.strip_prefix(&format!("{name}: ")).unwrap_or(it).to_owned());
        BackendNow { name: name.to_owned(), state, reason }
    }
}

/// The taint of an input port.
fn taint(is_open_to_programs: bool) -> Taint {
    if is_open_to_programs { Taint::Virtual } else { Taint::Clean }
}

/// Whether the port's device is marked as trusted. A port without an alias has no row in the file,
/// so it is not trusted.
fn is_trusted(config: &Config, identity: &Identity) -> bool {
    config.devices.iter().any(|it| it.trusted && it.alias == identity.device_id())
}

fn changes(before: &Table, now: &Table) -> Scanned {
    let names = |table: &Table| -> BTreeSet<String> { table.inputs.iter().chain(&table.outputs).cloned().collect() };
    let (before, now) = (names(before), names(now));
    Scanned {
        message: "Port rescan triggered",
        added: now.difference(&before).cloned().collect(),
        removed: before.difference(&now).cloned().collect(),
    }
}
