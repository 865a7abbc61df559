use super::*;
use crate::midi::queue::{QueueSender, queue};
use crate::midi::ring::{Bell, EventReceiver, event_ring};
use crate::midi::try_lock::Held;
use conductor_core::event::{Body, midi};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const RATE: u32 = 1_000_000;

/// Forwards every event to port 9, except controller 127, which it does not accept.
#[derive(Default)]
struct Through {
    is_closed: bool,
    left: Vec<Body>,
    decided: Vec<(u64, u16)>,
    missed: u64,
    deferred: u64,
}

impl Decide for Through {
    fn begin(&mut self, missed: u64) -> bool {
        self.missed += missed;
        !self.is_closed
    }

    fn decide(&mut self, event: &Event, outputs: &mut dyn Outputs) -> bool {
        if matches!(event.body, Body::Cc { controller: 127, .. }) {
            return false;
        }
        self.decided.push((event.at.0, event.device.0));
        if outputs.write(DeviceSlot(9), &midi::short(&event.body).unwrap()) != Written::Sent {
            self.left.push(event.body.clone());
        }
        true
    }

    fn end(&mut self, _: Micros, deferred: u64) -> bool {
        self.deferred += deferred;
        false
    }
}

#[derive(Default)]
struct Space {
    written: Vec<(u32, Vec<u8>)>,
    max: usize,
}

impl Buffer for &mut Space {
    fn room(&self) -> usize {
        8192
    }

    fn write(&mut self, message: Message<'_>) -> bool {
        assert!(self.written.last().is_none_or(|it| it.0 <= message.frame), "JACK refuses this earlier frame");
        let fits = self.written.len() < self.max;
        if fits {
            self.written.push((message.frame, message.bytes.to_vec()));
        }
        fits
    }
}

struct Rig {
    held: Held<Through>,
    inputs: Vec<(Intake, EventReceiver)>,
    sender: QueueSender,
    queue: QueueReceiver,
    periods: Periods,
    wakes: Arc<AtomicU64>,
    bell: Bell,
    clock: Arc<AtomicU64>,
    output_is_held: bool,
}

impl Rig {
    fn new(inputs: u16) -> Self {
        let wakes = Arc::new(AtomicU64::new(0));
        let woken = Arc::clone(&wakes);
        let bell = Bell::new(move || {
            woken.fetch_add(1, Ordering::Relaxed);
        });
        let input = |slot| {
            let (sender, receiver) = event_ring(DeviceSlot(slot), u32::MAX, bell.clone());
            (Intake::new(sender), receiver)
        };
        let (sender, queue) = queue(1 << 16);
        Rig {
            held: TryLock::held(Through::default()),
            inputs: (0..inputs).map(input).collect(),
            sender,
            queue,
            periods: Periods::default(),
            wakes,
            bell,
            clock: Arc::new(AtomicU64::new(1000)),
            output_is_held: false,
        }
    }

    /// Runs one period of 100 frames. `owner_holds`: the owner has locked the engine.
    fn run(&mut self, owner_holds: bool, max: usize, played: &[&[(u32, [u8; 3])]]) -> Vec<(u32, Vec<u8>)> {
        let mut space = Space { written: Vec::new(), max };
        let lock = self.held.lock();
        let (clock, periods, inputs, queue) = (&self.clock, &mut self.periods, &mut self.inputs, &mut self.queue);
        let output_is_held = self.output_is_held;
        let mut period = || {
            let messages = |at: usize| played.get(at).copied().unwrap_or_default().iter();
            let mut inlets: Vec<_> = inputs
                .iter_mut()
                .enumerate()
                .map(|(at, it)| {
                    let messages = messages(at).map(|(frame, bytes)| Message { frame: *frame, bytes });
                    Some(Inlet::new(messages, &mut it.0))
                })
                .collect();
            let outlet = if output_is_held {
                Outlet::held(&mut space, queue)
            } else {
                Outlet::new(&mut space, queue, Some(DeviceSlot(9)))
            };
            let mut outlets = [Some(outlet), None];
            let stamp = || Micros(clock.load(Ordering::Relaxed));
            periods.run(&*lock, &stamp, RATE, &mut inlets, &mut outlets);
        };
        if owner_holds {
            period()
        } else {
            self.held.released(period)
        }
        clock.fetch_add(100, Ordering::Relaxed);
        space.written
    }
}

fn cc(controller: u8) -> [u8; 3] {
    [0xB0, controller, 1]
}

#[test]
fn the_messages_of_all_inputs_leave_in_the_order_and_at_the_frames_of_their_causes() {
    let mut rig = Rig::new(3);
    let sent = rig.run(false, 100, &[&[(0, cc(1)), (50, cc(2))], &[(7, cc(3)), (50, cc(4))], &[(49, cc(5))]]);
    let frames: Vec<(u32, u8)> = sent.iter().map(|it| (it.0, it.1[1])).collect();
    assert_eq!(frames, [(0, 1), (7, 3), (49, 5), (50, 2), (50, 4)]);
    assert_eq!(rig.held.decided, [(1000, 0), (1007, 1), (1049, 2), (1050, 0), (1050, 1)]);
    assert_eq!(rig.wakes.load(Ordering::Relaxed), 0, "the owner was woken without need");
}

#[test]
fn what_the_owner_sent_before_leaves_first() {
    let mut rig = Rig::new(1);
    rig.sender.send(&cc(100)).unwrap();
    let sent = rig.run(false, 100, &[&[(3, cc(1))]]);
    assert_eq!(sent, [(0, cc(100).to_vec()), (3, cc(1).to_vec())]);
}

#[test]
fn an_output_that_is_held_keeps_its_messages_for_a_later_period() {
    let mut rig = Rig::new(1);
    rig.output_is_held = true;
    rig.sender.send(&cc(100)).unwrap();
    assert_eq!(rig.run(false, 100, &[&[(3, cc(1))]]), []);
    assert_eq!(rig.held.left.len(), 1, "the message of the held output was not left to the owner");
    rig.output_is_held = false;
    assert_eq!(rig.run(false, 100, &[]), [(0, cc(100).to_vec())]);
}

#[test]
fn a_queue_that_does_not_drain_holds_later_messages_back() {
    let mut rig = Rig::new(1);
    for controller in [100, 101, 102] {
        rig.sender.send(&cc(controller)).unwrap();
    }
    assert_eq!(rig.run(false, 2, &[&[(3, cc(1))]]).len(), 2);
    assert_eq!(rig.held.left.len(), 1, "the message that does not fit was not left to the owner");
    assert_eq!(rig.run(false, 2, &[]), [(0, cc(102).to_vec())]);
}

#[test]
fn events_go_to_the_ring_while_the_owner_holds_the_engine_and_wake_it_once() {
    let mut rig = Rig::new(2);
    assert_eq!(rig.run(true, 100, &[&[(1, cc(1)), (9, cc(2))], &[(5, cc(3))]]), []);
    assert_eq!(rig.wakes.load(Ordering::Relaxed), 1);
    assert!(rig.held.decided.is_empty());
    let times: Vec<u64> = std::iter::from_fn(|| rig.inputs[0].1.pop()).map(|it| it.at.0).collect();
    assert_eq!(times, [1001, 1009]);
    rig.bell.answer();
    rig.run(false, 100, &[&[(0, cc(4))]]);
    assert_eq!((rig.held.missed, rig.held.decided.len()), (3, 1), "the next period did not report the missed events");
}

#[test]
fn after_one_event_went_to_a_ring_all_later_events_of_the_period_follow() {
    let mut rig = Rig::new(2);
    let sent = rig.run(false, 100, &[&[(0, cc(1)), (10, cc(127))], &[(20, cc(2))]]);
    assert_eq!(sent, [(0, cc(1).to_vec())]);
    assert_eq!((rig.held.deferred, rig.wakes.load(Ordering::Relaxed)), (2, 1));
    assert_eq!(rig.inputs[1].1.pop().map(|it| it.at.0), Some(1020));
}

#[test]
fn a_sysex_always_goes_to_the_ring() {
    let mut rig = Rig::new(1);
    rig.run(false, 100, &[&[(0, [0xF0, 1, 0xF7]), (1, cc(1))]]);
    assert!(matches!(rig.inputs[0].1.pop().unwrap().body, Body::SysEx(_)));
    assert!(matches!(rig.inputs[0].1.pop().unwrap().body, Body::Cc { .. }), "the CC is not after the SysEx");
    assert!(rig.held.decided.is_empty());
}

#[test]
fn time_stamps_never_decrease_when_the_server_calls_early() {
    let mut rig = Rig::new(1);
    rig.run(false, 100, &[&[(99, cc(1))]]);
    rig.clock.store(1010, Ordering::Relaxed);
    rig.run(false, 100, &[&[(0, cc(2))]]);
    assert_eq!(rig.held.decided, [(1099, 0), (1099, 0)]);
}

#[test]
fn an_event_above_the_rate_of_its_device_is_not_decided() {
    let mut rig = Rig::new(1);
    rig.inputs[0].1.set_max_events_per_sec(1);
    let note = |note: u8| [0x90, note, 1];
    let sent = rig.run(false, 100, &[&[(0, note(1)), (1, note(2)), (2, note(3))]]);
    assert_eq!(sent.len(), 1);
    assert_eq!(rig.inputs[0].1.counts().rate_limited, 2);
}
