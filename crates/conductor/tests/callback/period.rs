//! The callback of an audio server decides events of every kind without an allocation, and with at
//! most one system call per period: the one that wakes the owner.

use crate::allocations;
use crate::system_calls::{Window, counted};
use conductor_core::config::{Config, Severity};
use conductor_core::engine::{Effect, Engine};
use conductor_core::event::{Axis, Body, Button, DeviceSlot, Event, Micros, Side, Taint};
use conductor_core::mapping::table::Slots;
use conductor_daemon::owner::desk::Desk;
use conductor_hosts::midi::Intake;
use conductor_hosts::midi::period::{Buffer, Decide, Inlet, Message, Outlet, Outputs, Periods, Written};
use conductor_hosts::midi::queue::{QueueReceiver, queue};
use conductor_hosts::midi::ring::{Bell, event_ring};
use conductor_hosts::midi::try_lock::{Held, TryLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const CONFIG: &str = include_str!("every_kind.toml");
const PERIOD_US: u64 = 1333;

fn config() -> Config {
    let loaded = conductor_core::config::load(CONFIG);
    let errors: Vec<_> = loaded.diagnostics.iter().filter(|it| it.severity >= Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    loaded.config.unwrap()
}

/// A buffer that counts its messages.
struct Counted<'a>(&'a mut u64);

impl Buffer for Counted<'_> {
    fn room(&self) -> usize {
        4096
    }

    fn write(&mut self, _: Message<'_>) -> bool {
        *self.0 += 1;
        true
    }
}

/// A server with two inputs, one output and an owner whose thread waits in the kernel.
struct Rig {
    desk: Held<Desk>,
    lock: Arc<TryLock<dyn Decide>>,
    slots: Slots,
    intakes: BTreeMap<&'static str, Intake>,
    queue: QueueReceiver,
    periods: Periods,
    now: Arc<AtomicU64>,
    written: u64,
    periods_run: u64,
    effects: BTreeSet<&'static str>,
    owner: Option<(std::thread::JoinHandle<()>, Arc<AtomicBool>)>,
}

impl Rig {
    fn new() -> Self {
        let mut slots = Slots::default();
        let engine = Engine::new(&config(), &mut slots, Micros(0));
        let mut desk = TryLock::held(Desk::new(engine));
        let ends = Arc::new(AtomicBool::new(false));
        let (bells, bell_out) = std::sync::mpsc::channel::<Bell>();
        let end = Arc::clone(&ends);
        let owner = std::thread::spawn(move || {
            let bell = bell_out.recv().unwrap();
            while !end.load(Ordering::Acquire) {
                bell.answer();
                std::thread::park();
            }
        });
        let thread = owner.thread().clone();
        let bell = Bell::new(move || thread.unpark());
        bells.send(bell.clone()).unwrap();
        let mut intakes = BTreeMap::new();
        for alias in ["in", "routed"] {
            let device = slots.slot(alias);
            let (sender, lane) = event_ring(device, u32::MAX, bell.clone());
            desk.inputs.add(lane, Taint::Clean);
            desk.engine.device_back(device, Micros(0), &mut Vec::new());
            intakes.insert(alias, Intake::new(sender));
        }
        desk.inputs.watch(|_| false);
        desk.make_room();
        let lock: Arc<TryLock<dyn Decide>> = desk.lock();
        Rig {
            desk,
            lock,
            slots,
            intakes,
            queue: queue(1 << 16).1,
            periods: Periods::default(),
            now: Arc::new(AtomicU64::new(1000)),
            written: 0,
            periods_run: 0,
            effects: BTreeSet::new(),
            owner: Some((owner, ends)),
        }
    }

    /// One period with these messages, one frame apart. Returns the number of its allocations.
    fn period(&mut self, window: &Window<'_>, device: &str, messages: &[&[u8]]) -> u64 {
        let now = Arc::clone(&self.now);
        let stamp = move || Micros(now.load(Ordering::Relaxed));
        let out = self.slots.slot("out");
        let (lock, periods, queue, written) = (&self.lock, &mut self.periods, &mut self.queue, &mut self.written);
        let intake = self.intakes.get_mut(device).unwrap();
        let mut spent = 0;
        self.desk.released(|| {
            window.count(|| {
                spent = allocations(|| {
                    let messages = messages.iter().enumerate().map(|(at, bytes)| Message { frame: at as u32, bytes });
                    let mut inlets = [Some(Inlet::new(messages, intake)), None];
                    let mut outlets = [Some(Outlet::new(Counted(written), queue, Some(out))), None];
                    periods.run(lock, &stamp, 48_000, &mut inlets, &mut outlets);
                });
            });
        });
        self.periods_run += 1;
        self.owner_turn();
        spent
    }

    fn owner_turn(&mut self) {
        self.now.fetch_add(PERIOD_US, Ordering::Relaxed);
        let now = Micros(self.now.load(Ordering::Relaxed));
        let mut effects = std::mem::take(&mut self.desk.left);
        while let Some(event) = self.desk.inputs.next_event() {
            self.desk.engine.feed(&event, &mut effects);
        }
        while !effects.is_empty() {
            for effect in std::mem::take(&mut effects) {
                self.effects.insert(name(&effect));
                if let Effect::Call(call) = effect {
                    self.desk.engine.call_done(call.ticket, true, now, &mut effects);
                }
            }
        }
        self.desk.mode_changes = self.desk.engine.counters().mode_changes;
        self.desk.make_room();
    }

    /// Decides an event that no MIDI port can send, as a callback would. Returns the number of
    /// allocations.
    fn decide(&mut self, window: &Window<'_>, body: Body) -> u64 {
        struct None;
        impl Outputs for None {
            fn write(&mut self, _: DeviceSlot, _: &[u8]) -> Written {
                Written::Sent
            }
        }
        let at = Micros(self.now.load(Ordering::Relaxed));
        let event = Event { at, device: self.slots.slot("in"), taint: Taint::Clean, hops: 0, body };
        let desk = &mut *self.desk;
        let mut decided = false;
        let spent = window.count(|| {
            allocations(|| {
                decided = desk.begin(0) && desk.decide(&event, &mut None);
                desk.end(at, 0);
            })
        });
        assert!(decided, "{:?}", event.body);
        self.owner_turn();
        spent
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some((owner, ends)) = self.owner.take() {
            ends.store(true, Ordering::Release);
            owner.thread().unpark();
            let _ = owner.join();
        }
    }
}

fn name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Midi { .. } => "Midi",
        Effect::Osc { .. } => "Osc",
        Effect::OscValue { .. } => "OscValue",
        Effect::Key { .. } => "Key",
        Effect::Text(_) => "Text",
        Effect::Click { .. } => "Click",
        Effect::Volume(_) => "Volume",
        Effect::Parameter { .. } => "Parameter",
        Effect::Call(_) => "Call",
    }
}

fn gamepad() -> Vec<Body> {
    vec![
        Body::ButtonDown(Button::South),
        Body::ButtonUp(Button::South),
        Body::ButtonDown(Button::East),
        Body::ButtonDown(Button::West),
        Body::ButtonUp(Button::East),
        Body::ButtonUp(Button::West),
        Body::Axis { axis: Axis::LeftX, value: 1.0 },
        Body::Axis { axis: Axis::LeftX, value: 0.0 },
        Body::Axis { axis: Axis::RightY, value: 0.7 },
        Body::Trigger { side: Side::Left, value: 1.0 },
        Body::Trigger { side: Side::Right, value: 0.5 },
    ]
}

/// Presses and releases of the notes 0 to 59, the controllers that the configuration uses, and all
/// other channel messages.
fn messages(round: u8) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for note in 0..60u8 {
        let velocity = 1 + (round * 37 + note) % 127;
        all.push(vec![0x90, note, velocity]);
        match note {
            // Hold note 3 for five periods, which is a long press.
            3 => all.extend([0, 1, 2, 3].map(|value| vec![0xB0, 9, value])),
            4 => all.extend([vec![0x80, note, 0], vec![0x90, note, velocity]]),
            // Notes 5, 6 and 7 are a chord, so do not release 5 and 6 yet.
            5 | 6 => continue,
            7 => all.extend([vec![0x80, 5, 0], vec![0x80, 6, 0]]),
            _ => {}
        }
        all.push(vec![0x80, note, 0]);
    }
    // The smaller chord of notes 5 and 6.
    all.extend([[0x90, 5, 1], [0x90, 6, 1], [0x80, 5, 0], [0x80, 6, 0]].map(|it| it.to_vec()));
    for controller in [1u8, 2, 20, 21, 53, 22, 64, 0, 32] {
        all.extend([0, 64, 127, 1].map(|value| vec![0xB0, controller, value]));
    }
    for (coarse, fine, parameter) in [(99, 98, 300u16), (101, 100, 5)] {
        let select = [[coarse, (parameter >> 7) as u8], [fine, (parameter & 127) as u8]];
        let data = [[6, round], [38, 5], [96, 0], [97, 0]];
        all.extend(select.into_iter().chain(data).map(|[controller, value]| vec![0xB0, controller, value]));
    }
    for value in [0u8, 70, 127] {
        all.extend([
            vec![0xD0, value],
            vec![0xA0, 8, value],
            vec![0xA0, 9, value],
            vec![0xE0, value, value],
            vec![0xE1, value, value],
            vec![0xC0, value % 8],
            vec![0xC0, 5],
            vec![0xF8],
            vec![0xF2, value, 1],
        ]);
    }
    all
}

fn run(rig: &mut Rig, window: &Window<'_>, rounds: u8) -> (u64, Vec<String>) {
    let (mut sent, mut allocating) = (0, Vec::new());
    for round in 0..rounds {
        for device in ["in", "routed"] {
            for message in messages(round) {
                let spent = rig.period(window, device, &[&message]);
                if spent > 0 {
                    allocating.push(format!("{device} {message:02x?}: {spent}"));
                }
                sent += 1;
            }
        }
        for body in gamepad() {
            let label = format!("{body:?}");
            let spent = rig.decide(window, body);
            if spent > 0 {
                allocating.push(format!("{label}: {spent}"));
            }
            sent += 1;
        }
    }
    (sent, allocating)
}

#[test]
fn every_kind_is_decided_in_the_callback_and_allocates_nothing() {
    let mut rig = Rig::new();
    let open = AtomicU64::new(0);
    let (sent, allocating) = run(&mut rig, &Window::unwatched(&open), 3);
    assert_eq!(allocating, Vec::<String>::new());
    // The first fine value (controller 38) of a parameter on each of the two devices needs memory,
    // so the owner decides these two events.
    let counts = rig.desk.counts;
    assert_eq!((counts.decided, counts.deferred, counts.busy), (sent - 2, 2, 0));
    assert!(rig.written > sent / 2, "{} messages written", rig.written);
    let all = ["Call", "Click", "Key", "Midi", "Osc", "OscValue", "Parameter", "Text", "Volume"];
    assert_eq!(rig.effects.iter().copied().collect::<Vec<_>>(), all);
    assert_eq!(unused(&rig), Vec::<String>::new(), "some rows never fired");
}

/// The mappings that never fired, according to the trace.
fn unused(rig: &Rig) -> Vec<String> {
    let fired: BTreeSet<String> = rig.desk.engine.traced(0, &rig.slots).filter_map(|it| it.mapping_id).collect();
    let rows = rig.desk.engine.tables().rows.iter();
    rows.filter(|it| !fired.contains(&*it.id)).map(|it| format!("{:?}", it.trigger.kind)).collect()
}

#[test]
fn a_reload_leaves_nothing_that_a_callback_would_free() {
    let mut rig = Rig::new();
    let open = AtomicU64::new(0);
    let window = Window::unwatched(&open);
    for _ in 0..3 {
        // Hold a key during the reload, and fill the trace with records of the old tables.
        assert_eq!(rig.period(&window, "in", &[&[0x90, 40, 100]]), 0);
        run(&mut rig, &window, 1);
        let mut out = Vec::new();
        let now = Micros(rig.now.load(Ordering::Relaxed));
        rig.desk.engine.reload(&config(), &mut rig.slots, now, &mut out);
        drop(out);
        rig.owner_turn();
        let (_, allocating) = run(&mut rig, &window, 2);
        assert_eq!(allocating, Vec::<String>::new());
    }
}

#[test]
fn a_period_makes_at_most_one_system_call_and_only_to_wake_the_owner() {
    let mut seen = (0, 0);
    let calls = counted(|window| {
        let mut rig = Rig::new();
        run(&mut rig, window, 1);
        seen = (rig.periods_run, rig.desk.counts.decided);
    });
    let calls = calls.expect("the system calls could not be counted");
    let (periods, decided) = seen;
    assert!(decided > 300, "{decided}");
    assert!(calls.by_number.keys().all(|it| *it == libc::SYS_futex), "{calls:?}");
    assert!(calls.most_in_a_window <= 1, "{calls:?} in {periods} periods");
}

#[test]
fn the_counter_of_system_calls_counts() {
    let calls = counted(|window| {
        std::thread::yield_now();
        window.count(std::thread::yield_now);
        std::thread::yield_now();
        let word = 0u32;
        // SAFETY: the call wakes the threads that wait for this word, of which there are none.
        let wake = || unsafe { libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAKE, 1) };
        window.count(|| (wake(), wake()));
    });
    let calls = calls.unwrap();
    assert_eq!(calls.by_number, BTreeMap::from([(libc::SYS_sched_yield, 1), (libc::SYS_futex, 2)]));
    assert_eq!(calls.most_in_a_window, 2);
}
