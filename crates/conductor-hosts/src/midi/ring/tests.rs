use super::*;
use conductor_core::event::assemble::{Assembler, Change};
use proptest::prelude::*;
use std::collections::HashMap;

const UNLIMITED: u32 = u32::MAX;

fn small(events: usize) -> (EventSender, EventReceiver) {
    event_ring_with_room(DeviceSlot(3), UNLIMITED, Bell::silent(), events, 1024)
}

fn drain(receiver: &mut EventReceiver) -> Vec<Event> {
    std::iter::from_fn(|| receiver.pop()).collect()
}

fn on(note: u8) -> Body {
    Body::NoteOn { channel: 0, note, velocity: 100 }
}

fn off(note: u8) -> Body {
    Body::NoteOff { channel: 0, note, velocity: 0 }
}

fn cc(controller: u8, value: u8) -> Body {
    Body::Cc { channel: 0, controller, value }
}

fn bodies(events: Vec<Event>) -> Vec<Body> {
    events.into_iter().map(|event| event.body).collect()
}

/// Pushes events whose times are one microsecond apart.
struct Source {
    sender: EventSender,
    now: u64,
}

impl Source {
    fn push(&mut self, body: Body) {
        self.now += 1;
        self.sender.push(Micros(self.now), Taint::Clean, body);
    }
}

fn source(events: usize) -> (Source, EventReceiver) {
    let (sender, receiver) = small(events);
    (Source { sender, now: 0 }, receiver)
}

#[test]
fn with_room_everything_passes_in_order_with_its_stamp_and_trail() {
    let (mut sender, mut receiver) = small(16);
    sender.push(Micros(5), Taint::Network, on(36));
    sender.push_sysex(Micros(6), Trail { taint: Taint::Tool, hops: 3 }, &[1, 2, 3]);
    sender.push(Micros(7), Taint::Clean, cc(7, 1));
    let event = |at, taint, hops, body| Event { at: Micros(at), device: DeviceSlot(3), taint, hops, body };
    assert_eq!(
        drain(&mut receiver),
        vec![
            event(5, Taint::Network, 0, on(36)),
            event(6, Taint::Tool, 3, Body::SysEx(Arc::from([1, 2, 3]))),
            event(7, Taint::Clean, 0, cc(7, 1)),
        ]
    );
    assert_eq!(receiver.counts(), Counts { taken: 3, ..Counts::default() });
}

#[test]
fn the_last_quarter_takes_only_releases() {
    let (mut source, mut receiver) = source(16);
    (0..12).for_each(|note| source.push(on(note)));
    source.push(on(99));
    source.push(cc(7, 1));
    source.push(cc(7, 2));
    source.push(off(0));
    source.push(Body::Program { channel: 0, program: 1 });
    let mut expected: Vec<Body> = (0..12).map(on).collect();
    // The fader's slot was filled before the release was pushed.
    expected.extend([cc(7, 2), off(0)]);
    assert_eq!(bodies(drain(&mut receiver)), expected);
    assert_eq!(receiver.counts(), Counts { taken: 13, merged: 2, dropped: 2, ..Counts::default() });
}

#[test]
fn with_no_room_a_release_waits_in_its_slot_and_keeps_presses_of_its_key_out() {
    let (mut source, mut receiver) = source(8);
    (0..6).for_each(|note| source.push(on(note)));
    (0..2).for_each(|note| source.push(off(note)));
    source.push(off(2));
    source.push(cc(123, 0));
    assert_eq!(receiver.pop().map(|it| it.body), Some(on(0)));
    assert_eq!(receiver.counts().held_releases, 2);
    let rest = bodies(drain(&mut receiver));
    assert_eq!(rest, vec![on(1), on(2), on(3), on(4), on(5), off(0), off(1), off(2), cc(123, 0)]);
    source.push(on(2));
    assert_eq!(bodies(drain(&mut receiver)), vec![on(2)], "the press was not delivered");
}

#[test]
fn a_press_made_while_its_release_waits_is_dropped_even_with_room() {
    let (mut source, mut receiver) = source(8);
    (0..6).for_each(|note| source.push(on(note)));
    (0..2).for_each(|note| source.push(off(note)));
    source.push(off(2));
    // Make space in the ring without emptying the slot of key 2. (`pop` would empty the slots
    // first.)
    let slot = &source.sender.shared.slots[place::of(place::NOTE, 0, 2)];
    assert!(word::is_full(slot.word.load(Ordering::Relaxed)));
    for _ in 0..6 {
        receiver.events.pop().unwrap();
        receiver.popped += 1;
    }
    source.push(on(2));
    source.push(on(3));
    assert_eq!(bodies(drain(&mut receiver)), vec![off(0), off(1), off(2), on(3)]);
    assert_eq!(receiver.counts().dropped, 1);
}

#[test]
fn a_value_pushed_after_the_slot_was_taken_comes_after_it() {
    let (mut source, mut receiver) = source(8);
    (0..6).for_each(|note| source.push(on(note)));
    source.push(cc(7, 10));
    // This call moves the slot to the staged list, with its position after six presses.
    assert_eq!(receiver.pop().map(|it| it.body), Some(on(0)));
    source.push(cc(7, 20));
    source.push(cc(7, 30));
    let controllers: Vec<Body> =
        bodies(drain(&mut receiver)).into_iter().filter(|it| matches!(it, Body::Cc { .. })).collect();
    assert_eq!(controllers, vec![cc(7, 10), cc(7, 20), cc(7, 30)], "a value is missing or in the wrong order");
    assert_eq!(receiver.counts().merged, 2);
}

/// The receiver scans the slots one word at a time. It can therefore miss a slot that is filled
/// after its word was scanned, and find a slot that is filled later. Until it has found the missed
/// slot, no event of that control may enter the ring, or the missed value would be delivered last.
#[test]
fn a_slot_missed_by_the_receiver_is_not_overtaken() {
    let (mut sender, mut receiver) = event_ring_with_room(DeviceSlot(0), 1, Bell::silent(), 16, 16);
    sender.push(Micros(0), Taint::Clean, cc(7, 1));
    sender.push(Micros(1), Taint::Clean, cc(7, 2));
    let missed = place::of(place::CONTROLLER, 0, 7);
    sender.shared.full[missed / 64].store(0, Ordering::Relaxed);
    sender.push(Micros(1_000_001), Taint::Clean, cc(7, 3));
    sender.push(Micros(1_000_002), Taint::Clean, cc(91, 1));
    let mut got = vec![receiver.pop().unwrap()];
    sender.shared.full[missed / 64].fetch_or(1 << (missed % 64), Ordering::Relaxed);
    sender.shared.any_full.store(true, Ordering::Relaxed);
    got.extend(drain(&mut receiver));
    let faders: Vec<Body> = bodies(got).into_iter().filter(|it| matches!(it, Body::Cc { controller: 7, .. })).collect();
    assert_eq!(faders, vec![cc(7, 1), cc(7, 3)]);
}

#[test]
fn ticks_are_dropped_and_not_merged() {
    let (mut source, mut receiver) = source(8);
    let mut mask: RelativeControllers = [0; 16];
    mask[0] = 1 << 16 | 1 << 100;
    receiver.set_relative(&mask);
    (0..6).for_each(|note| source.push(on(note)));
    source.push(cc(16, 1));
    source.push(cc(17, 1));
    assert_eq!(receiver.counts(), Counts { taken: 6, merged: 1, dropped: 1, ..Counts::default() });
    assert_eq!(drain(&mut receiver).len(), 7);
}

#[test]
fn above_the_rate_the_rule_of_the_last_quarter_holds() {
    let (mut sender, mut receiver) = event_ring_with_room(DeviceSlot(0), 10, Bell::silent(), 64, 64);
    for note in 0..10 {
        sender.push(Micros(0), Taint::Clean, on(note));
    }
    sender.push(Micros(1), Taint::Clean, on(11));
    sender.push(Micros(2), Taint::Clean, cc(7, 1));
    sender.push(Micros(3), Taint::Clean, off(1));
    assert_eq!(receiver.counts(), Counts { taken: 11, merged: 1, dropped: 1, rate_limited: 2, ..Counts::default() });
    assert_eq!(drain(&mut receiver).len(), 12);
    sender.push(Micros(100_000), Taint::Clean, on(12));
    assert_eq!(bodies(drain(&mut receiver)), vec![on(12)], "not exactly one event passed after a tenth of a second");
    receiver.set_max_events_per_sec(1_000_000);
    (0..50).for_each(|note| sender.push(Micros(1_100_000), Taint::Clean, on(note)));
    assert_eq!(drain(&mut receiver).len(), 48, "the last quarter of the 64 entries was not reserved");
}

#[test]
fn a_sysex_is_taken_whole_or_not_at_all() {
    let (mut sender, mut receiver) = event_ring_with_room(DeviceSlot(0), UNLIMITED, Bell::silent(), 16, 100);
    let first = [7; 60];
    sender.push_sysex(Micros(0), Taint::Clean, &first);
    sender.push_sysex(Micros(1), Taint::Clean, &[8; 60]);
    sender.push_sysex(Micros(2), Taint::Clean, &[9; 40]);
    let got = bodies(drain(&mut receiver));
    assert_eq!(got, vec![Body::SysEx(first.as_slice().into()), Body::SysEx([9; 40].as_slice().into())]);
    assert_eq!(receiver.counts().sysex_dropped, 1);
    let (mut sender, mut receiver) = event_ring(DeviceSlot(0), UNLIMITED, Bell::silent());
    let largest = vec![5; conductor_core::event::midi::SYSEX_MAX];
    sender.push_sysex(Micros(0), Taint::Clean, &largest);
    sender.push_sysex(Micros(0), Taint::Clean, &largest);
    assert_eq!(drain(&mut receiver).len(), 2);
}

#[test]
fn a_lost_selection_never_sends_its_data_to_the_parameter_before_it() {
    let (mut source, mut receiver) = source(8);
    let select = |number: u8| [cc(99, 0), cc(98, number)];
    select(1).into_iter().chain([cc(6, 10)]).for_each(|it| source.push(it));
    (0..3).for_each(|note| source.push(on(note)));
    select(2).into_iter().chain([cc(6, 20)]).for_each(|it| source.push(it));
    let mut assembler = Assembler::new();
    let mut heard = Vec::new();
    let mut listen = |events: Vec<Event>| {
        for event in events {
            if let Body::Cc { channel, controller, value } = event.body
                && let Some((parameter, Change::Value(value))) = assembler.feed(channel, controller, value).parameter
            {
                heard.push((parameter.number, value / 128));
            }
        }
    };
    listen(drain(&mut receiver));
    source.push(cc(6, 21));
    listen(drain(&mut receiver));
    select(3).into_iter().chain([cc(6, 30)]).for_each(|it| source.push(it));
    listen(drain(&mut receiver));
    assert_eq!(heard, vec![(1, 10), (3, 30)]);
}

#[test]
fn the_bell_rings_once_until_it_is_answered() {
    let rings = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&rings);
    let bell = Bell::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let (mut sender, receiver) = event_ring_with_room(DeviceSlot(0), UNLIMITED, bell.clone(), 16, 16);
    sender.push(Micros(0), Taint::Clean, on(1));
    sender.push(Micros(0), Taint::Clean, on(2));
    assert_eq!(rings.load(Ordering::Relaxed), 1);
    bell.answer();
    sender.push(Micros(0), Taint::Clean, on(3));
    assert_eq!(rings.load(Ordering::Relaxed), 2);
    bell.answer();
    drop(sender);
    assert!(
        rings.load(Ordering::Relaxed) == 3 && receiver.is_abandoned(),
        "the engine was not notified that the callback is gone"
    );
}

#[test]
fn every_slot_gives_back_the_event_that_fills_it() {
    let (sender, mut receiver) = small(4);
    let mut all: Vec<Body> = Button::ALL.iter().map(|it| Body::ButtonUp(*it)).collect();
    all.extend(Axis::ALL.iter().map(|it| Body::Axis { axis: *it, value: -0.5 }));
    all.extend(Side::ALL.iter().map(|it| Body::Trigger { side: *it, value: 0.25 }));
    for channel in 0..16 {
        all.push(Body::PitchBend { channel, value: 16383 });
        all.push(Body::ChannelPressure { channel, pressure: 127 });
        for number in 0..128 {
            all.push(Body::NoteOff { channel, note: number, velocity: 64 });
            all.push(Body::PolyPressure { channel, note: number, pressure: 1 });
            if half(number).is_none() && !matches!(number, 96 | 97) {
                all.push(Body::Cc { channel, controller: number, value: 63 });
            }
        }
    }
    let trail = Trail { taint: Taint::Network, hops: 8 };
    for body in &all {
        match sender.class(body) {
            Class::Release { place, value } | Class::Continuous { place, value } => {
                sender.fill(place, value, Micros(1), trail);
            }
            Class::Press { .. } | Class::Select { .. } | Class::Data { .. } | Class::Other => panic!("{body:?}"),
        }
    }
    let got = drain(&mut receiver);
    assert!(got.iter().all(|event| event.trail() == trail));
    let got = bodies(got);
    assert_eq!(got.len(), all.len());
    assert!(all.iter().all(|body| got.contains(body)));
}

/// The name of a key or control, for the checker. It shares no code with the ring.
fn control(body: &Body) -> String {
    match body {
        Body::NoteOn { channel, note, .. } | Body::NoteOff { channel, note, .. } => format!("note {channel} {note}"),
        Body::ButtonDown(button) | Body::ButtonUp(button) => format!("button {button}"),
        Body::Cc { channel, controller, .. } => format!("cc {channel} {controller}"),
        Body::PolyPressure { channel, note, .. } => format!("poly {channel} {note}"),
        Body::ChannelPressure { channel, .. } => format!("pressure {channel}"),
        Body::PitchBend { channel, .. } => format!("bend {channel}"),
        Body::Axis { axis, .. } => format!("axis {axis}"),
        Body::Trigger { side, .. } => format!("trigger {side}"),
        Body::Program { .. } | Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. } | Body::Osc(_) => {
            "other".into()
        }
    }
}

#[derive(PartialEq, Clone, Copy)]
enum Role {
    Press,
    Release,
    Value,
    Other,
}

fn role(body: &Body) -> Role {
    match body {
        Body::NoteOn { .. } | Body::ButtonDown(_) => Role::Press,
        Body::NoteOff { .. } | Body::ButtonUp(_) => Role::Release,
        Body::Cc { .. }
        | Body::PolyPressure { .. }
        | Body::ChannelPressure { .. }
        | Body::PitchBend { .. }
        | Body::Axis { .. }
        | Body::Trigger { .. } => Role::Value,
        Body::Program { .. } | Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. } | Body::Osc(_) => Role::Other,
    }
}

/// Checks the guarantees of the ring. No event is delivered that was not sent. The order per key
/// and control is kept. Each delivered press is followed by its release before the next press. The
/// last value of every control is delivered.
fn check(sent: &[(Micros, Body)], got: &[Event]) -> Result<(), String> {
    type PerControl = HashMap<String, Vec<(Micros, Body)>>;
    let mut sent_by: PerControl = HashMap::new();
    let mut got_by: PerControl = HashMap::new();
    sent.iter().for_each(|(at, body)| sent_by.entry(control(body)).or_default().push((*at, body.clone())));
    got.iter().for_each(|it| got_by.entry(control(&it.body)).or_default().push((it.at, it.body.clone())));
    for (name, out) in &got_by {
        let mut source = sent_by.get(name).ok_or(format!("{name} was never sent"))?.iter();
        for event in out {
            if !source.any(|it| it == event) {
                return Err(format!("{name}: {event:?} is invented or out of order"));
            }
        }
    }
    for (name, source) in &sent_by {
        let out = got_by.get(name).map_or(&[][..], Vec::as_slice);
        let last = source.last().map(|it| &it.1);
        if last.is_some_and(|body| role(body) == Role::Value) && out.last().map(|it| &it.1) != last {
            return Err(format!("{name}: the last value {last:?} is lost"));
        }
        for (index, (pressed_at, press)) in out.iter().enumerate() {
            if role(press) != Role::Press {
                continue;
            }
            let released = source.iter().find(|(at, body)| at > pressed_at && role(body) == Role::Release);
            let Some((released_at, _)) = released else { continue };
            match out.get(index + 1) {
                Some((_, next)) if role(next) == Role::Release => {}
                Some((next_at, _)) if next_at < released_at => {}
                _ => return Err(format!("{name}: the release at {released_at:?} is lost")),
            }
        }
    }
    Ok(())
}

#[test]
fn the_checker_finds_each_broken_promise() {
    let at = |us: u64, body: Body| (Micros(us), body);
    let out = |items: &[(u64, Body)]| -> Vec<Event> {
        let event = |(at, body): &(u64, Body)| Event {
            at: Micros(*at),
            device: DeviceSlot(0),
            taint: Taint::Clean,
            hops: 0,
            body: body.clone(),
        };
        items.iter().map(event).collect()
    };
    let sent = [at(1, on(1)), at(2, off(1)), at(3, on(1)), at(4, off(1)), at(5, cc(7, 1)), at(6, cc(7, 2))];
    let all: Vec<(u64, Body)> = sent.iter().map(|(at, body)| (at.0, body.clone())).collect();
    assert_eq!(check(&sent, &out(&all)), Ok(()));
    let without = |index: usize| {
        let mut rest = all.clone();
        rest.remove(index);
        out(&rest)
    };
    assert!(check(&sent, &without(1)).unwrap_err().contains("release"));
    assert!(check(&sent, &without(3)).unwrap_err().contains("release"));
    assert!(check(&sent, &without(5)).unwrap_err().contains("last value"));
    assert_eq!(check(&sent, &without(2)), Ok(()), "a lost press was reported as a fault");
    let mut swapped = all.clone();
    swapped.swap(4, 5);
    assert!(check(&sent, &out(&swapped)).unwrap_err().contains("out of order"));
    assert!(check(&sent, &out(&[(9, on(9))])).unwrap_err().contains("never sent"));
}

#[derive(Clone, Debug)]
enum Op {
    Push(Body),
    Pop(usize),
}

fn any_op() -> impl Strategy<Value = Op> {
    let key = 0u8..4;
    prop_oneof![
        6 => key.clone().prop_map(|note| Op::Push(on(note))),
        6 => key.clone().prop_map(|note| Op::Push(off(note))),
        4 => (0u8..3, 0u8..128).prop_map(|(controller, value)| Op::Push(cc(controller + 7, value))),
        2 => (0u8..128).prop_map(|value| Op::Push(cc(SUSTAIN, value))),
        1 => Just(Op::Push(cc(ALL_NOTES_OFF, 0))),
        1 => (0u16..16384).prop_map(|value| Op::Push(Body::PitchBend { channel: 0, value })),
        1 => any::<bool>().prop_map(|down| Op::Push(if down { Body::ButtonDown(Button::South) } else { Body::ButtonUp(Button::South) })),
        1 => (-1.0f32..=1.0).prop_map(|value| Op::Push(Body::Axis { axis: Axis::LeftY, value })),
        1 => Just(Op::Push(Body::Program { channel: 0, program: 1 })),
        3 => (1usize..12).prop_map(Op::Pop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_keeps_the_promises(ops in prop::collection::vec(any_op(), 0..200), room in 4usize..24) {
        let (mut source, mut receiver) = source(room);
        let mut sent = Vec::new();
        let mut got = Vec::new();
        for op in ops {
            match op {
                Op::Push(body) => {
                    source.push(body.clone());
                    sent.push((Micros(source.now), body));
                }
                Op::Pop(count) => got.extend((0..count).map_while(|_| receiver.pop())),
            }
        }
        got.extend(drain(&mut receiver));
        prop_assert!(got.is_sorted_by_key(|event| event.at));
        prop_assert_eq!(check(&sent, &got), Ok(()));
        let counts = receiver.counts();
        let seen = counts.taken + counts.merged + counts.held_releases + counts.dropped;
        prop_assert_eq!(seen, sent.len() as u64, "an event was not counted, or counted twice");
        prop_assert!(receiver.staged.capacity() == place::COUNT, "the engine's list was reallocated");
    }
}

#[test]
fn a_position_is_derived_from_its_low_bits_on_both_sides_of_a_wrap() {
    let trail = Trail { taint: Taint::Tool, hops: u8::MAX };
    for near in [0u64, 5, 1 << 25, (1 << 25) - 3, 7 << 40] {
        for offset in [0i64, 1, 4096, 100_000, -1, -4096] {
            let Some(position) = near.checked_add_signed(offset) else { continue };
            assert_eq!(word::position(word::pack(9, position, trail), near), position, "{near} {offset}");
        }
    }
}

/// A small random number generator, so that the threads below share no state and need no
/// dependency.
fn step(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Every key alternates between press and release, so two presses in a row at the receiver prove
/// that a release was lost.
fn play(
    sender: &mut EventSender,
    count: usize,
    seed: u64,
    mut pause: impl FnMut(usize),
) -> (HashMap<u8, u8>, HashMap<u8, u8>) {
    let (mut down, mut faders) = (HashMap::new(), HashMap::new());
    let mut seed = seed | 1;
    for index in 0..count {
        pause(index);
        let draw = step(&mut seed);
        let key = (draw >> 8 & 15) as u8;
        let body = if draw & 1 == 0 {
            let held = down.entry(key).or_insert(0);
            *held ^= 1;
            if *held == 1 { on(key) } else { off(key) }
        } else {
            let value = (draw >> 16 & 127) as u8;
            faders.insert(key + 16, value);
            cc(key + 16, value)
        };
        sender.push(Micros(index as u64), Taint::Clean, body);
    }
    for (key, held) in &mut down {
        if std::mem::take(held) == 1 {
            sender.push(Micros(count as u64), Taint::Clean, off(*key));
        }
    }
    (down, faders)
}

#[derive(Default)]
struct Listener {
    down: HashMap<u8, u8>,
    faders: HashMap<u8, u8>,
    events: usize,
}

impl Listener {
    fn hear(&mut self, event: &Event) {
        self.events += 1;
        if let Body::NoteOn { note, .. } = event.body {
            assert_eq!(self.down.insert(note, 1).unwrap_or(0), 0, "key {note} lost a release");
        } else if let Body::NoteOff { note, .. } = event.body {
            self.down.insert(note, 0);
        } else if let Body::Cc { controller, value, .. } = event.body {
            self.faders.insert(controller, value);
        } else {
            panic!("{event:?} was never sent");
        }
    }
}

#[test]
fn a_stalled_engine_loses_no_release_and_no_final_value_of_100k_events() {
    let (mut sender, mut receiver) = event_ring(DeviceSlot(0), UNLIMITED, Bell::silent());
    let (_, faders) = play(&mut sender, 100_000, 42, |_| {});
    let mut listener = Listener::default();
    while let Some(event) = receiver.pop() {
        listener.hear(&event);
    }
    assert!(listener.down.values().all(|held| *held == 0));
    assert_eq!(listener.faders, faders);
    assert!(receiver.counts().dropped > 10_000 && receiver.counts().held_releases > 0, "{:?}", receiver.counts());
}

#[test]
fn two_threads_lose_no_release_and_no_final_value() {
    // Both threads pause from time to time, so that the test covers full, empty and half-drained
    // rings.
    for round in 0..12u64 {
        let events = if round % 2 == 0 { 64 } else { EVENTS };
        let (mut sender, mut receiver) = event_ring_with_room(DeviceSlot(0), UNLIMITED, Bell::silent(), events, 64);
        let done = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let producer = std::thread::spawn({
            let (done, sent) = (Arc::clone(&done), Arc::clone(&sent));
            move || {
                let result = play(&mut sender, 100_000, 7 + round, |index| {
                    sent.store(index as u64, Ordering::Relaxed);
                    if round % 3 == 0 && index % 97 == 0 {
                        std::thread::yield_now();
                    }
                });
                done.store(true, Ordering::Release);
                result
            }
        });
        let mut listener = Listener::default();
        let mut seed = 99 + round;
        loop {
            let finished = done.load(Ordering::Acquire);
            for _ in 0..step(&mut seed) % 200 {
                match receiver.pop() {
                    Some(event) => listener.hear(&event),
                    None => break,
                }
            }
            if finished {
                break;
            }
            if step(&mut seed).is_multiple_of(50) {
                // Wait until the other thread has sent enough events to fill the ring up to three
                // times, or has finished.
                let until = sent.load(Ordering::Relaxed) + step(&mut seed) % (3 * events as u64);
                while sent.load(Ordering::Relaxed) < until && !done.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
        }
        while let Some(event) = receiver.pop() {
            listener.hear(&event);
        }
        let (_, faders) = producer.join().unwrap();
        assert!(listener.down.values().all(|held| *held == 0), "round {round}");
        assert_eq!(listener.faders, faders, "round {round}");
    }
}
