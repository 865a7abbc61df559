//! Which ports are open. A thread of its own, because a backend may block for a moment while it opens a device; the owner is told what
//! came and went, and given the two ends it works with: the lane of an input, the handle of an output.
//!
//! Not here: backends themselves (`hosts::midi`), and what events mean (`run`).

use super::handle::{Reply, Wake};
use super::report::{BackendNow, BackendState, Scanned};
use crate::hosts::midi::loopback::Loopback;
use crate::hosts::midi::ring::{Bell, LaneReceiver, lane};
use crate::hosts::midi::{Backend, Input, Output, PortFault, PortInfo, Way};
use conductor_core::config::{Config, Device, InputMode, ListenMode, Protocol};
use conductor_core::event::DeviceSlot;
use conductor_core::mapping::table::Slots;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::Thread;
use std::time::Duration;

/// Numbers for device aliases and port names. A lock, because two threads give them out: the owner when it compiles a configuration,
/// this thread when it opens a port nobody named. Held for one lookup or one compilation, never while waiting.
pub type SharedSlots = Arc<Mutex<Slots>>;

pub fn with_slots<T>(slots: &SharedSlots, act: impl FnOnce(&mut Slots) -> T) -> T {
    act(&mut slots.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What the thread is told.
pub(super) enum Order {
    /// Another configuration is in force.
    Config(Arc<Config>),
    Scan(Reply<Scanned>),
    /// A message is waiting for this output.
    OpenOutput(String),
    /// The owner found this output dead.
    OutputDied(DeviceSlot),
    End,
}

/// What the owner is told.
pub(super) enum News {
    Input { device: DeviceSlot, lane: LaneReceiver },
    InputLost { device: DeviceSlot },
    Output { port: DeviceSlot, output: Box<dyn Output> },
    OutputLost { port: DeviceSlot },
    /// Nothing of that name can be opened now.
    NotOpened { name: String, why: String },
    Table(Arc<Table>),
}

/// What there is, after the last scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    /// Devices of the configuration in its order, then ports without an alias.
    pub devices: Vec<Bound>,
    pub backends: Vec<BackendNow>,
}

/// One device and the ports it has now.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub device_id: String,
    pub slot: DeviceSlot,
    pub input: Option<String>,
    pub output: Option<String>,
    pub is_configured: bool,
    pub wants_input: bool,
}

impl Bound {
    pub fn is_connected(&self) -> bool {
        self.input.is_some() || self.output.is_some()
    }

    pub fn port_name(&self) -> Option<&String> {
        self.input.as_ref().or(self.output.as_ref())
    }
}

/// Wakes the thread. Announcements of backends come through here, from places that may neither lock nor allocate.
#[derive(Default)]
pub(super) struct Knock {
    changed: AtomicBool,
    keeper: OnceLock<Thread>,
}

impl Knock {
    pub fn knock(&self) {
        self.changed.store(true, Ordering::Release);
        self.wake();
    }

    pub fn wake(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.unpark();
        }
    }
}

struct OpenInput {
    port: String,
    handle: Box<dyn Input>,
}

/// Where a device's port is: which backend, and its id there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    backend: usize,
    id: String,
    name: String,
    /// A port we make rather than find.
    is_made: bool,
}

pub(super) struct Keeper {
    pub loopback: Loopback,
    /// Without the loopback, which is always there.
    pub backends: Vec<Box<dyn Backend>>,
    pub config: Arc<Config>,
    pub slots: SharedSlots,
    pub bell: Bell,
    pub knock: Arc<Knock>,
    inputs: BTreeMap<DeviceSlot, OpenInput>,
    outputs: BTreeMap<DeviceSlot, Place>,
    asked: BTreeSet<String>,
    plugged: BTreeSet<String>,
    table: Arc<Table>,
}

/// The loopback comes first in every list.
const LOOPBACK: usize = 0;

impl Keeper {
    pub fn new(
        loopback: Loopback,
        backends: Vec<Box<dyn Backend>>,
        config: Arc<Config>,
        slots: SharedSlots,
        bell: Bell,
        knock: Arc<Knock>,
    ) -> Self {
        Keeper {
            loopback,
            backends,
            config,
            slots,
            bell,
            knock,
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            asked: BTreeSet::new(),
            plugged: BTreeSet::new(),
            table: Arc::default(),
        }
    }

    /// Scans once, then whenever something changes, somebody asks, or the interval has passed.
    pub fn run(mut self, orders: &mpsc::Receiver<Order>, post: impl Fn(Wake)) {
        // Hung before the first scan, so that nothing announced during it is missed.
        let _ = self.knock.keeper.set(std::thread::current());
        let mut waiting: Vec<Reply<Scanned>> = Vec::new();
        loop {
            let before = self.table.clone();
            self.scan(&post);
            let seen = changes(&before, &self.table);
            // Everyone who asked during one scan gets the same answer.
            for reply in waiting.drain(..) {
                let _ = reply.send(seen.clone());
            }
            loop {
                let mut scan = self.knock.changed.swap(false, Ordering::AcqRel);
                loop {
                    match orders.try_recv() {
                        Ok(Order::Config(config)) => {
                            self.config = config;
                            scan = true;
                        }
                        Ok(Order::Scan(reply)) => {
                            waiting.push(reply);
                            scan = true;
                        }
                        Ok(Order::OpenOutput(name)) => {
                            self.asked.insert(name);
                            scan = true;
                        }
                        Ok(Order::OutputDied(port)) => {
                            self.outputs.remove(&port);
                            scan = true;
                        }
                        Ok(Order::End) | Err(mpsc::TryRecvError::Disconnected) => return,
                        Err(mpsc::TryRecvError::Empty) => break,
                    }
                }
                if scan {
                    break;
                }
                let interval = Duration::from_millis(self.config.advanced.scan_interval_ms.into());
                if self.backends.is_empty() {
                    // The loopback announces every change; there is nothing to look for.
                    std::thread::park();
                } else {
                    std::thread::park_timeout(interval);
                    break;
                }
            }
        }
    }

    fn scan(&mut self, post: &impl Fn(Wake)) {
        self.plug_loopback_devices();
        let mut backends = vec![BackendNow { name: "loopback".into(), state: BackendState::Ready, reason: None }];
        let mut ports: Vec<(usize, PortInfo)> = Vec::new();
        let listed = std::iter::once(&mut self.loopback as &mut dyn Backend)
            .chain(self.backends.iter_mut().map(|it| &mut **it as &mut dyn Backend));
        for (at, backend) in listed.enumerate() {
            let found = backend.connect().map_err(PortFault::from).and_then(|()| backend.ports());
            let fault = match found {
                Ok(found) => {
                    ports.extend(found.into_iter().map(|port| (at, port)));
                    None
                }
                Err(fault) => Some(fault.to_string()),
            };
            if at != LOOPBACK {
                let state = if fault.is_some() { BackendState::Missing } else { BackendState::Ready };
                backends.push(BackendNow { name: backend.name().to_owned(), state, reason: fault });
            }
        }
        let mut devices = self.bind(&ports);
        self.close_what_is_gone(&devices, post);
        for device in &mut devices {
            self.open(device, post);
        }
        self.open_asked(&ports, post);
        let names = |way: Way| ports.iter().filter(|(_, it)| it.way == way).map(|(_, it)| it.name.clone()).collect();
        let table = Arc::new(Table {
            inputs: names(Way::Input),
            outputs: names(Way::Output),
            devices: devices.into_iter().map(|it| it.bound).collect(),
            backends,
        });
        self.table = table.clone();
        post(Wake::Ports(News::Table(table)));
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
        // The scan that is about to run sees these changes already.
        self.knock.changed.store(false, Ordering::Release);
    }

    fn close_what_is_gone(&mut self, devices: &[Wanted], post: &impl Fn(Wake)) {
        let input_of = |slot: DeviceSlot| devices.iter().find(|it| it.bound.slot == slot).and_then(|it| it.input.as_ref());
        let lost: Vec<DeviceSlot> = self
            .inputs
            .iter()
            .filter(|(slot, open)| !open.handle.is_open() || input_of(**slot).is_none_or(|it| it.id != open.port))
            .map(|(slot, _)| *slot)
            .collect();
        for device in lost {
            self.inputs.remove(&device);
            post(Wake::Ports(News::InputLost { device }));
        }
    }

    fn open(&mut self, device: &mut Wanted, post: &impl Fn(Wake)) {
        let slot = device.bound.slot;
        if let Some(place) = &device.input {
            if !self.inputs.contains_key(&slot) {
                let (sender, receiver) = lane(slot, self.config.advanced.max_events_per_sec, self.bell.clone());
                let backend = backend(&mut self.loopback, &mut self.backends, place.backend);
                let opened = match place.is_made {
                    true => backend.create_input(&place.name, sender),
                    false => backend.open_input(&place.id, sender),
                };
                if let Ok(handle) = opened {
                    self.inputs.insert(slot, OpenInput { port: place.id.clone(), handle });
                    post(Wake::Ports(News::Input { device: slot, lane: receiver }));
                }
            }
            if self.inputs.contains_key(&slot) {
                device.bound.input = Some(place.name.clone());
            }
        }
        if let Some(place) = device.output.clone()
            && self.open_output(slot, &place, post).is_ok()
        {
            device.bound.output = Some(place.name);
        }
    }

    fn open_output(&mut self, slot: DeviceSlot, place: &Place, post: &impl Fn(Wake)) -> Result<(), PortFault> {
        if self.outputs.get(&slot) == Some(place) {
            return Ok(());
        }
        let backend = backend(&mut self.loopback, &mut self.backends, place.backend);
        let output = match place.is_made {
            true => backend.create_output(&place.name)?,
            false => backend.open_output(&place.id)?,
        };
        self.outputs.insert(slot, place.clone());
        post(Wake::Ports(News::Output { port: slot, output }));
        Ok(())
    }

    /// Outputs that are named rather than bound: by a mapping, or by a message that waits.
    fn open_asked(&mut self, ports: &[(usize, PortInfo)], post: &impl Fn(Wake)) {
        let aliases: BTreeSet<&str> = self.config.devices.iter().map(|it| it.alias.as_str()).collect();
        let named = with_slots(&self.slots, |slots| {
            (0..slots.len()).map(|at| slots.name(DeviceSlot(at as u16)).to_owned()).collect::<Vec<_>>()
        });
        let asked = std::mem::take(&mut self.asked);
        let config = self.config.clone();
        for name in named.iter().chain(asked.iter().filter(|it| !named.contains(it))) {
            if aliases.contains(name.as_str()) {
                // Bound above; what is still missing has no port.
                if asked.contains(name) {
                    let slot = with_slots(&self.slots, |slots| slots.slot(name));
                    if !self.outputs.contains_key(&slot) {
                        post(Wake::Ports(News::NotOpened { name: name.clone(), why: absent(&config, name) }));
                    }
                }
                continue;
            }
            let found = ports.iter().find(|(_, it)| it.way == Way::Output && it.name == *name);
            let slot = with_slots(&self.slots, |slots| slots.slot(name));
            match found {
                Some((at, port)) => {
                    let place =
                        Place { backend: *at, id: port.id.clone(), name: port.name.clone(), is_made: false };
                    if let Err(fault) = self.open_output(slot, &place, post)
                        && asked.contains(name)
                    {
                        post(Wake::Ports(News::NotOpened { name: name.clone(), why: fault.to_string() }));
                    }
                }
                None => {
                    if self.outputs.remove(&slot).is_some() {
                        post(Wake::Ports(News::OutputLost { port: slot }));
                    }
                    if asked.contains(name) {
                        let why = format!("there is no port '{name}' now");
                        post(Wake::Ports(News::NotOpened { name: name.clone(), why }));
                    }
                }
            }
        }
    }

    /// Which device has which port. Loopback devices have their own; everything else is matched.
    fn bind(&mut self, ports: &[(usize, PortInfo)]) -> Vec<Wanted> {
        let config = self.config.clone();
        let hears = match config.advanced.input_mode {
            InputMode::MidiOnly | InputMode::Both => true,
            InputMode::GamepadOnly => false,
        };
        let mut devices: Vec<Wanted> = Vec::new();
        for device in config.devices.iter().filter(|it| it.protocol == Protocol::Midi) {
            let slot = with_slots(&self.slots, |slots| slots.slot(&device.alias));
            let (input, output) = self.places(device, ports);
            let wants_input = device.direction.has_input();
            devices.push(Wanted {
                bound: Bound {
                    device_id: device.alias.clone(),
                    slot,
                    input: None,
                    output: None,
                    is_configured: true,
                    wants_input,
                },
                input: input.filter(|_| wants_input && hears),
                output: output.filter(|_| device.direction.has_output()),
            });
        }
        let raw = match config.advanced.listen_mode {
            ListenMode::All => usize::from(config.advanced.max_midi_ports),
            ListenMode::Configured => 0,
        };
        let taken: BTreeSet<(usize, &str)> =
            devices.iter().filter_map(|it| it.input.as_ref()).map(|it| (it.backend, it.id.as_str())).collect();
        let free: Vec<&(usize, PortInfo)> = ports
            .iter()
            .filter(|(at, it)| it.way == Way::Input && *at != LOOPBACK && !taken.contains(&(*at, it.id.as_str())))
            .collect();
        let raw: Vec<Wanted> = free
            .into_iter()
            .take(if hears { raw } else { 0 })
            .map(|(at, port)| {
                let device_id = format!("raw:{}", port.name);
                let slot = with_slots(&self.slots, |slots| slots.slot(&device_id));
                let input = Place { backend: *at, id: port.id.clone(), name: port.name.clone(), is_made: false };
                let bound =
                    Bound { device_id, slot, input: None, output: None, is_configured: false, wants_input: true };
                Wanted { bound, input: Some(input), output: None }
            })
            .collect();
        devices.extend(raw);
        devices
    }

    fn places(&self, device: &Device, ports: &[(usize, PortInfo)]) -> (Option<Place>, Option<Place>) {
        if device.loopback {
            let find = |way: Way| {
                ports.iter().find(|(at, it)| *at == LOOPBACK && it.way == way && it.name == device.alias).map(
                    |(at, it)| Place { backend: *at, id: it.id.clone(), name: it.name.clone(), is_made: false },
                )
            };
            return (find(Way::Input), find(Way::Output));
        }
        (None, None)
    }
}

fn absent(config: &Config, alias: &str) -> String {
    let sends = config.devices.iter().find(|it| it.alias == alias).is_some_and(|it| it.direction.has_output());
    if sends { format!("device '{alias}' is not connected") } else { format!("device '{alias}' has no output") }
}

struct Wanted {
    bound: Bound,
    input: Option<Place>,
    output: Option<Place>,
}

fn backend<'a>(loopback: &'a mut Loopback, others: &'a mut [Box<dyn Backend>], at: usize) -> &'a mut dyn Backend {
    match at.checked_sub(1).and_then(|at| others.get_mut(at)) {
        Some(other) => &mut **other,
        None => loopback,
    }
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
