//! The event ring: passes events from a device callback to the engine without a lock, an allocation
//! or a log line.
//!
//! Each source has one event ring. The callback has the [`EventSender`], the engine has the
//! [`EventReceiver`]. They share a bounded ring of events, a ring of SysEx bytes, and one slot per
//! key and per control. A slot stores an event when the ring is too full:
//!
//! | free space in the ring | release | continuous value | press, tick, anything else |
//! |---|---|---|---|
//! | more than a quarter | ring | ring | ring |
//! | the last quarter, or above `max_events_per_sec` | ring | slot, newest value wins | dropped, counted |
//! | none | slot | slot, newest value wins | dropped, counted |
//!
//! Releases are NoteOff, ButtonUp, CC 64 with a value below 64, CC 120 and CC 123. No release and
//! no final fader position is ever lost.
//!
//! Order: a slot also stores its position, which is the number of events pushed before it was
//! filled. The receiver delivers the slot at that position. A release is therefore delivered after
//! its own press and before the next press. While a slot is full, no event of that key or control
//! enters the ring: presses are dropped, values and releases go to the slot. Otherwise a newer
//! event in the ring could be delivered before an older event in the slot.
//!
//! A parameter number (RPN, NRPN) consists of several controllers, so its messages are dropped
//! together and never merged. When half of a selection is lost, its data is dropped until a
//! complete selection has passed. Changing a wrong parameter would be worse than losing a change.
//!
//! Not here: decoding (`conductor_core::event::midi`), and the handling of events.

use conductor_core::event::midi::{Decoder, Heard, Swallowed};
use conductor_core::event::{Axis, Body, Button, DeviceSlot, Event, Micros, Side, Taint, Trail};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Capacity of the ring, in events.
pub const EVENTS: usize = 4096;
/// Capacity in SysEx bytes: two messages of the largest size that the decoder passes on.
pub const SYSEX_BYTES: usize = 128 * 1024;

const SUSTAIN: u8 = 64;
const ALL_SOUND_OFF: u8 = 120;
const ALL_NOTES_OFF: u8 = 123;

/// Wakes the engine. All event rings share one bell. After it has woken the engine, it does so
/// again only after the engine has started to drain the rings.
#[derive(Clone)]
pub struct Bell(Arc<BellInner>);

struct BellInner {
    rung: AtomicBool,
    ring: Box<dyn Fn() + Send + Sync>,
}

impl Bell {
    /// `ring` wakes the engine. It runs in device callbacks, so it must neither lock nor allocate.
    /// It may unpark a thread or write to an eventfd.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Self {
        Bell(Arc::new(BellInner { rung: AtomicBool::new(false), ring: Box::new(ring) }))
    }

    /// A bell that does nothing, for an engine that polls.
    pub fn silent() -> Self {
        Bell::new(|| {})
    }

    pub fn ring(&self) {
        // `ring` and `answer` both swap the flag. If `ring` finds it already set, the next `answer`
        // happens after this call, so the engine will drain this event too.
        if !self.0.rung.swap(true, Ordering::AcqRel) {
            (self.0.ring)();
        }
    }

    /// The engine calls this before it drains the rings. An event that is pushed later wakes it
    /// again.
    pub fn answer(&self) {
        self.0.rung.swap(false, Ordering::AcqRel);
    }
}

/// Counts of events since the ring was created, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts<T = u64> {
    /// Events that entered the ring.
    pub taken: T,
    /// Continuous values that were stored in a slot.
    pub merged: T,
    /// Releases that were stored in a slot.
    pub held_releases: T,
    /// Presses, ticks and other events that were dropped.
    pub dropped: T,
    /// Events that were merged or dropped because the source exceeded `max_events_per_sec`,
    /// although the ring had space.
    pub rate_limited: T,
    /// SysEx messages for which there was no space.
    pub sysex_dropped: T,
    /// SysEx messages that were too long or incomplete.
    pub sysex_refused: T,
    /// Other bytes that the decoder dropped: active sensing, resets, undefined bytes and stray data
    /// bytes.
    pub swallowed: T,
}

/// Controllers that send ticks instead of positions: `mask[channel]` has one bit per controller.
/// Ticks must not be merged in a slot.
pub type RelativeControllers = [u128; 16];

struct Shared {
    slots: Box<[Slot]>,
    /// One bit per slot. The bit is set if the slot may be full.
    full: Box<[AtomicU64]>,
    any_full: AtomicBool,
    relative: [AtomicU64; 32],
    max_events_per_sec: AtomicU32,
    counters: Counts<AtomicU64>,
}

/// The slot of one key or control. `at` is written before `word`. If the receiver empties the slot
/// between the two writes, it may read a time later than that of the event, but never an earlier
/// one.
struct Slot {
    word: AtomicU64,
    at: AtomicU64,
}

/// The `word` of a slot: the value in bits 0-31, the position in 32-56. The `Trail` of the event
/// follows: the hops in 57-60, the taint in 61-62. Bit 63 is set when the slot is full.
mod word {
    use super::{Taint, Trail};

    pub const EMPTY: u64 = 0;
    const FULL: u64 = 1 << 63;
    const POSITION_BITS: u32 = 25;
    const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
    /// Maximum hop count. Higher counts are stored as this value, which is above the limit of any
    /// configuration.
    const HOPS_MAX: u8 = 15;

    pub fn pack(value: u32, position: u64, trail: Trail) -> u64 {
        let taint = match trail.taint {
            Taint::Clean => 0,
            Taint::Network => 1,
            Taint::Tool => 2,
            Taint::Virtual => 3,
        };
        let hops = u64::from(trail.hops.min(HOPS_MAX));
        FULL | taint << 61 | hops << 57 | (position & POSITION_MASK) << 32 | u64::from(value)
    }

    pub fn is_full(word: u64) -> bool {
        word & FULL != 0
    }

    pub fn value(word: u64) -> u32 {
        word as u32
    }

    pub fn trail(word: u64) -> Trail {
        let taint = match word >> 61 & 3 {
            0 => Taint::Clean,
            1 => Taint::Network,
            3 => Taint::Virtual,
            _ => Taint::Tool,
        };
        Trail { taint, hops: (word >> 57) as u8 & HOPS_MAX }
    }

    /// Restores the full position from the stored low bits. The position differs from `near` by at
    /// most the length of the ring.
    pub fn position(word: u64, near: u64) -> u64 {
        let ahead = (word >> 32).wrapping_sub(near) & POSITION_MASK;
        if ahead < 1 << (POSITION_BITS - 1) {
            near.wrapping_add(ahead)
        } else {
            near.saturating_sub(POSITION_MASK + 1 - ahead)
        }
    }
}

/// The slot index of each key and control.
mod place {
    pub const CONTROLLER: usize = 0;
    pub const POLY_PRESSURE: usize = CONTROLLER + 16 * 128;
    pub const NOTE: usize = POLY_PRESSURE + 16 * 128;
    pub const CHANNEL_PRESSURE: usize = NOTE + 16 * 128;
    pub const PITCH_BEND: usize = CHANNEL_PRESSURE + 16;
    pub const BUTTON: usize = PITCH_BEND + 16;
    pub const AXIS: usize = BUTTON + 32;
    pub const TRIGGER: usize = AXIS + 4;
    pub const COUNT: usize = TRIGGER + 2;

    pub fn of(base: usize, channel: u8, number: u8) -> usize {
        base + usize::from(channel & 15) * 128 + usize::from(number & 127)
    }

    pub fn of_channel(base: usize, channel: u8) -> usize {
        base + usize::from(channel & 15)
    }
}

/// The classes of events that the table in the module documentation distinguishes.
#[derive(Clone, Copy)]
enum Class {
    Release {
        place: usize,
        value: u32,
    },
    Press {
        place: usize,
    },
    Continuous {
        place: usize,
        value: u32,
    },
    /// Half of a parameter number (CC 98-101).
    Select {
        channel: u8,
        half: Half,
        value: u8,
    },
    /// Data entry, increment or decrement of the selected parameter.
    Data {
        channel: u8,
        controller: u8,
    },
    Other,
}

#[derive(Clone, Copy)]
struct Half {
    registered: bool,
    msb: bool,
}

fn half(controller: u8) -> Option<Half> {
    match controller {
        98 | 99 => Some(Half { registered: false, msb: controller == 99 }),
        100 | 101 => Some(Half { registered: true, msb: controller == 101 }),
        _ => None,
    }
}

/// The parameter that the device has selected. If a selection was dropped because the ring was
/// full, the data that follows must not change the previously selected parameter.
#[derive(Clone, Copy, Default)]
struct Selection {
    number: [Option<u8>; 2],
    registered: bool,
    /// The halves of the number that must enter the ring before data may: bit 0 is the LSB, bit 1
    /// the MSB.
    missing: u8,
    /// Whether the coarse half of a value was dropped. The fine half alone would change an older
    /// value.
    coarse_lost: bool,
}

impl Selection {
    /// Whether controllers 6 and 38 are data entry. Without a selection they are plain controllers.
    fn is_used(self) -> bool {
        self.missing != 0 || matches!(self.number, [Some(lsb), Some(msb)] if (lsb, msb) != (127, 127))
    }

    fn select(&mut self, half: Half, value: u8, passed: bool) {
        if self.registered != half.registered {
            self.registered = half.registered;
            self.number = [None; 2];
            // Half of an NRPN number does not complete an RPN selection, and vice versa.
            self.missing = if self.missing == 0 { 0 } else { 3 };
        }
        self.number[usize::from(half.msb)] = Some(value);
        self.coarse_lost = false;
        self.missing = if passed { self.missing & !(1 << u8::from(half.msb)) } else { 3 };
    }
}

struct Entry {
    at: Micros,
    trail: Trail,
    content: Content,
}

enum Content {
    Body(Body),
    /// The bytes of the message are the next `len` bytes in the byte ring.
    SysEx {
        len: usize,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum Room {
    Open,
    /// The ring has space, but the source exceeds its rate.
    OverRate,
    LastQuarter,
    None,
}

/// How the ring has handled one event.
enum Admission {
    Ring,
    /// The event is a release and was stored in its slot.
    HeldRelease,
    /// The event is a value and was stored in its slot.
    Merged,
    Dropped,
}

/// The callback's side of the ring.
pub struct EventSender {
    device: DeviceSlot,
    events: rtrb::Producer<Entry>,
    bytes: rtrb::Producer<u8>,
    reserve: usize,
    pushed: u64,
    shared: Arc<Shared>,
    bell: Bell,
    selections: [Selection; 16],
    rate: Rate,
    /// Must be the last field, so that it is dropped after `events`. When it wakes the receiver,
    /// the receiver then finds the ring abandoned.
    _ring_on_drop: RingOnDrop,
}

/// The part of an input that runs in the callback: it decodes bytes and pushes events.
pub struct Intake {
    decoder: Decoder,
    events: EventSender,
}

impl Intake {
    pub fn new(events: EventSender) -> Self {
        Intake { decoder: Decoder::default(), events }
    }

    /// Decodes received bytes; messages may be split at any byte. Neither locks nor allocates.
    pub(crate) fn hear(&mut self, at: Micros, trail: impl Into<Trail>, bytes: &[u8]) {
        let (events, trail) = (&mut self.events, trail.into());
        self.decoder.decode(bytes, |heard| match heard {
            Heard::Message(body) => events.push(at, trail, body),
            Heard::SysEx(data) => events.push_sysex(at, trail, data),
        });
        events.note_swallowed(self.decoder.swallowed());
    }

    /// Like [`hear`](Self::hear), but offers each event to `decide` first. Returns the number of
    /// events that `decide` did not accept. The ring handles these events as usual, but does not
    /// wake the owner: the caller calls [`wake`](Self::wake) once per period.
    pub(crate) fn hear_now(
        &mut self,
        at: Micros,
        trail: impl Into<Trail>,
        bytes: &[u8],
        decide: &mut dyn FnMut(&Event) -> bool,
    ) -> u64 {
        let (events, trail) = (&mut self.events, trail.into());
        let mut deferred = 0;
        self.decoder.decode(bytes, |heard| {
            let is_first = deferred == 0;
            deferred += u64::from(!match heard {
                Heard::Message(body) => events.offer(at, trail, body, &mut |event| is_first && decide(event)),
                Heard::SysEx(data) => {
                    events.put_sysex(at, trail, data);
                    false
                }
            });
        });
        events.note_swallowed(self.decoder.swallowed());
        deferred
    }

    pub(crate) fn wake(&self) {
        self.events.bell.ring();
    }
}

/// Wakes the engine when the callback's side is dropped.
struct RingOnDrop(Bell);

impl Drop for RingOnDrop {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// The engine's side of the ring.
pub struct EventReceiver {
    device: DeviceSlot,
    events: rtrb::Consumer<Entry>,
    bytes: rtrb::Consumer<u8>,
    popped: u64,
    shared: Arc<Shared>,
    /// Contents of slots that were emptied and are not delivered yet. The last element is delivered
    /// next.
    staged: Vec<Staged>,
    last_at: Micros,
}

struct Staged {
    position: u64,
    place: usize,
    word: u64,
    at: Micros,
}

/// Creates an event ring of the standard size.
pub fn event_ring(device: DeviceSlot, max_events_per_sec: u32, bell: Bell) -> (EventSender, EventReceiver) {
    event_ring_with_room(device, max_events_per_sec, bell, EVENTS, SYSEX_BYTES)
}

fn event_ring_with_room(
    device: DeviceSlot,
    max_events_per_sec: u32,
    bell: Bell,
    events: usize,
    bytes: usize,
) -> (EventSender, EventReceiver) {
    let (events_in, events_out) = rtrb::RingBuffer::new(events);
    let (bytes_in, bytes_out) = rtrb::RingBuffer::new(bytes);
    let shared = Arc::new(Shared {
        slots: (0..place::COUNT).map(|_| Slot { word: AtomicU64::new(0), at: AtomicU64::new(0) }).collect(),
        full: (0..place::COUNT.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        any_full: AtomicBool::new(false),
        relative: std::array::from_fn(|_| AtomicU64::new(0)),
        max_events_per_sec: AtomicU32::new(max_events_per_sec),
        counters: Counts::default(),
    });
    let sender = EventSender {
        device,
        events: events_in,
        bytes: bytes_in,
        reserve: events / 4,
        pushed: 0,
        shared: Arc::clone(&shared),
        _ring_on_drop: RingOnDrop(bell.clone()),
        bell,
        selections: [Selection::default(); 16],
        rate: Rate::default(),
    };
    let receiver = EventReceiver {
        device,
        events: events_out,
        bytes: bytes_out,
        popped: 0,
        shared,
        // Each slot is staged at most once, so this list is never reallocated.
        staged: Vec::with_capacity(place::COUNT),
        last_at: Micros(0),
    };
    (sender, receiver)
}

impl EventSender {
    /// Handles an event by the table in the module documentation. `at` must not decrease. A
    /// `Body::SysEx` is passed to [`push_sysex`](Self::push_sysex).
    pub fn push(&mut self, at: Micros, trail: impl Into<Trail>, body: Body) {
        let trail = trail.into();
        if let Body::SysEx(data) = &body {
            self.push_sysex(at, trail, data);
            return;
        }
        self.offer(at, trail, body, &mut |_| false);
        self.bell.ring();
    }

    /// Applies the limits of the ring, and offers the event to `decide` if the ring would accept
    /// it. Stores the event if `decide` returns false. Returns whether `decide` accepted the event.
    fn offer(&mut self, at: Micros, trail: Trail, body: Body, decide: &mut dyn FnMut(&Event) -> bool) -> bool {
        let room = self.room(at);
        match self.admit(room, at, trail, &body) {
            Admission::Ring => {
                let event = Event { at, device: self.device, taint: trail.taint, hops: trail.hops, body };
                if decide(&event) {
                    return true;
                }
                self.take(at, trail, Content::Body(event.body));
            }
            Admission::HeldRelease => add(&self.shared.counters.held_releases),
            Admission::Merged => self.count(&self.shared.counters.merged, room),
            Admission::Dropped => self.count(&self.shared.counters.dropped, room),
        }
        false
    }

    /// Applies the table in the module documentation. Stores the event in its slot if the table
    /// requires it.
    fn admit(&mut self, room: Room, at: Micros, trail: Trail, body: &Body) -> Admission {
        let is_open = room == Room::Open;
        let passes = match self.class(body) {
            Class::Release { place, value } => {
                let in_slot =
                    self.replace(place, value, at, trail) || (room == Room::None && self.fill(place, value, at, trail));
                if in_slot {
                    return Admission::HeldRelease;
                }
                true
            }
            Class::Continuous { place, value } => {
                let in_slot = self.replace(place, value, at, trail) || (!is_open && self.fill(place, value, at, trail));
                if in_slot {
                    return Admission::Merged;
                }
                true
            }
            Class::Press { place } => is_open && !self.slot_is_full(place),
            Class::Select { channel, half, value } => {
                self.selections[usize::from(channel & 15)].select(half, value, is_open);
                is_open
            }
            Class::Data { channel, controller } => {
                let selection = &mut self.selections[usize::from(channel & 15)];
                let passes = is_open && selection.missing == 0 && !(controller == 38 && selection.coarse_lost);
                if controller == 6 {
                    selection.coarse_lost = !passes;
                }
                passes
            }
            Class::Other => is_open,
        };
        if passes { Admission::Ring } else { Admission::Dropped }
    }

    /// Pushes all bytes between F0 and F7, or drops the message and counts it.
    pub fn push_sysex(&mut self, at: Micros, trail: impl Into<Trail>, data: &[u8]) {
        if self.put_sysex(at, trail, data) {
            self.bell.ring();
        }
    }

    fn put_sysex(&mut self, at: Micros, trail: impl Into<Trail>, data: &[u8]) -> bool {
        let fits = self.room(at) == Room::Open && self.bytes.push_entire_slice(data).is_ok();
        if fits {
            self.take(at, trail.into(), Content::SysEx { len: data.len() });
        } else {
            add(&self.shared.counters.sysex_dropped);
        }
        fits
    }

    /// Publishes the counts of the decoder.
    pub fn note_swallowed(&mut self, it: Swallowed) {
        let other = it.active_sensing + it.reset + it.undefined + it.stray;
        self.shared.counters.swallowed.store(other, Ordering::Relaxed);
        self.shared.counters.sysex_refused.store(it.sysex_too_long + it.sysex_broken, Ordering::Relaxed);
    }

    /// Whether the engine has dropped its side.
    pub fn is_abandoned(&self) -> bool {
        self.events.is_abandoned()
    }

    fn room(&mut self, at: Micros) -> Room {
        let within_rate = self.rate.pass(at, self.shared.max_events_per_sec.load(Ordering::Relaxed));
        match self.events.slots() {
            0 => Room::None,
            free if free <= self.reserve => Room::LastQuarter,
            _ if within_rate => Room::Open,
            _ => Room::OverRate,
        }
    }

    fn class(&self, body: &Body) -> Class {
        match *body {
            Body::NoteOn { channel, note, .. } => Class::Press { place: place::of(place::NOTE, channel, note) },
            Body::NoteOff { channel, note, velocity } => {
                Class::Release { place: place::of(place::NOTE, channel, note), value: u32::from(velocity) }
            }
            Body::ButtonDown(button) => Class::Press { place: button_place(button) },
            Body::ButtonUp(button) => Class::Release { place: button_place(button), value: 0 },
            Body::Cc { channel, controller, value } => self.controller_class(channel, controller, value),
            Body::PolyPressure { channel, note, pressure } => {
                Class::Continuous { place: place::of(place::POLY_PRESSURE, channel, note), value: u32::from(pressure) }
            }
            Body::ChannelPressure { channel, pressure } => Class::Continuous {
                place: place::of_channel(place::CHANNEL_PRESSURE, channel),
                value: u32::from(pressure),
            },
            Body::PitchBend { channel, value } => {
                Class::Continuous { place: place::of_channel(place::PITCH_BEND, channel), value: u32::from(value) }
            }
            Body::Axis { axis, value } => Class::Continuous {
                place: place::AXIS + usize::from(axis.id() - Axis::LeftX.id()),
                value: value.to_bits(),
            },
            Body::Trigger { side, value } => Class::Continuous {
                place: place::TRIGGER + usize::from(side.id() - Side::Left.id()),
                value: value.to_bits(),
            },
            Body::Program { .. } | Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. } | Body::Osc(_) => {
                Class::Other
            }
        }
    }

    fn controller_class(&self, channel: u8, controller: u8, value: u8) -> Class {
        let place = place::of(place::CONTROLLER, channel, controller);
        let packed = u32::from(value);
        if let Some(half) = half(controller) {
            return Class::Select { channel, half, value };
        }
        let release = match controller {
            SUSTAIN => value < 64,
            ALL_SOUND_OFF | ALL_NOTES_OFF => true,
            _ => false,
        };
        if release {
            return Class::Release { place, value: packed };
        }
        if matches!(controller, 96 | 97)
            || matches!(controller, 6 | 38) && self.selections[usize::from(channel & 15)].is_used()
        {
            return Class::Data { channel, controller };
        }
        let word = usize::from(channel & 15) * 2 + usize::from(controller & 127) / 64;
        let ticks = self.shared.relative.get(word).map_or(0, |it| it.load(Ordering::Relaxed));
        if ticks & (1 << (controller % 64)) != 0 { Class::Other } else { Class::Continuous { place, value: packed } }
    }

    fn take(&mut self, at: Micros, trail: Trail, content: Content) {
        // This push cannot fail: `room` found space, and since then the receiver can only have
        // freed more.
        if self.events.push(Entry { at, trail, content }).is_ok() {
            self.pushed = self.pushed.wrapping_add(1);
            add(&self.shared.counters.taken);
        } else {
            add(&self.shared.counters.dropped);
        }
    }

    fn slot_is_full(&self, place: usize) -> bool {
        self.shared.slots.get(place).is_some_and(|slot| word::is_full(slot.word.load(Ordering::Acquire)))
    }

    /// Overwrites a full slot. Returns false if the slot is empty, or if the receiver emptied it
    /// during this call.
    fn replace(&self, place: usize, value: u32, at: Micros, trail: Trail) -> bool {
        let Some(slot) = self.shared.slots.get(place) else { return false };
        let old = slot.word.load(Ordering::Acquire);
        if !word::is_full(old) {
            return false;
        }
        slot.at.store(at.0, Ordering::Relaxed);
        let new = word::pack(value, self.pushed, trail);
        slot.word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Fills an empty slot and marks it as full.
    fn fill(&self, place: usize, value: u32, at: Micros, trail: Trail) -> bool {
        let Some(slot) = self.shared.slots.get(place) else { return true };
        slot.at.store(at.0, Ordering::Relaxed);
        slot.word.store(word::pack(value, self.pushed, trail), Ordering::Release);
        if let Some(bits) = self.shared.full.get(place / 64) {
            bits.fetch_or(1 << (place % 64), Ordering::AcqRel);
        }
        self.shared.any_full.store(true, Ordering::Release);
        true
    }

    fn count(&self, counter: &AtomicU64, room: Room) {
        add(counter);
        if room == Room::OverRate {
            add(&self.shared.counters.rate_limited);
        }
    }
}

fn button_place(button: Button) -> usize {
    place::BUTTON + usize::from(button.id() - Button::South.id())
}

/// Increments a counter. Only the sender writes the counters, so no atomic addition is needed.
fn add(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

impl EventReceiver {
    pub fn device(&self) -> DeviceSlot {
        self.device
    }

    /// Removes and returns the next event. Event times never decrease.
    pub fn pop(&mut self) -> Option<Event> {
        if self.staged.is_empty() && self.shared.any_full.load(Ordering::Acquire) {
            self.stage();
        }
        if self.staged.last().is_some_and(|next| next.position <= self.popped) {
            return self.deliver_staged();
        }
        match self.events.pop() {
            Ok(entry) => {
                self.popped = self.popped.wrapping_add(1);
                let body = match entry.content {
                    Content::Body(body) => body,
                    Content::SysEx { len } => Body::SysEx(self.sysex(len)),
                };
                Some(self.event(entry.at, entry.trail, body))
            }
            Err(rtrb::PopError::Empty) => self.deliver_staged(),
        }
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.staged.is_empty() && !self.shared.any_full.load(Ordering::Acquire) && self.events.is_empty()
    }

    pub fn counts(&self) -> Counts {
        let it = &self.shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            taken: read(&it.taken),
            merged: read(&it.merged),
            held_releases: read(&it.held_releases),
            dropped: read(&it.dropped),
            rate_limited: read(&it.rate_limited),
            sysex_dropped: read(&it.sysex_dropped),
            sysex_refused: read(&it.sysex_refused),
            swallowed: read(&it.swallowed),
        }
    }

    /// Sets which controllers send ticks. A reload of the configuration may call this at any time.
    pub fn set_relative(&self, mask: &RelativeControllers) {
        for (channel, bits) in mask.iter().enumerate() {
            for (part, word) in [*bits as u64, (*bits >> 64) as u64].into_iter().enumerate() {
                if let Some(place) = self.shared.relative.get(channel * 2 + part) {
                    place.store(word, Ordering::Relaxed);
                }
            }
        }
    }

    pub fn set_max_events_per_sec(&self, max: u32) {
        self.shared.max_events_per_sec.store(max, Ordering::Relaxed);
    }

    /// Whether the callback's side was dropped. Events that it pushed can still be popped.
    pub fn is_abandoned(&self) -> bool {
        self.events.is_abandoned()
    }

    fn stage(&mut self) {
        self.shared.any_full.swap(false, Ordering::AcqRel);
        for (index, bits) in self.shared.full.iter().enumerate() {
            if bits.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut left = bits.swap(0, Ordering::AcqRel);
            while left != 0 {
                let place = index * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                let Some(slot) = self.shared.slots.get(place) else { continue };
                let word = slot.word.swap(word::EMPTY, Ordering::AcqRel);
                if word::is_full(word) {
                    let at = Micros(slot.at.load(Ordering::Relaxed));
                    self.staged.push(Staged { position: word::position(word, self.popped), place, word, at });
                }
            }
        }
        self.staged.sort_unstable_by_key(|it| std::cmp::Reverse((it.position, it.at, it.place)));
    }

    fn deliver_staged(&mut self) -> Option<Event> {
        let staged = self.staged.pop()?;
        let body = body_of(staged.place, word::value(staged.word))?;
        Some(self.event(staged.at, word::trail(staged.word), body))
    }

    fn event(&mut self, at: Micros, trail: Trail, body: Body) -> Event {
        self.last_at = self.last_at.max(at);
        Event { at: self.last_at, device: self.device, taint: trail.taint, hops: trail.hops, body }
    }

    fn sysex(&mut self, len: usize) -> Arc<[u8]> {
        let mut data = vec![0; len];
        // The sender pushes the bytes before their entry.
        let whole = self.bytes.pop_entire_slice(&mut data).is_ok();
        debug_assert!(whole);
        data.into()
    }
}

/// Restores the event from a slot's index and value.
fn body_of(place: usize, value: u32) -> Option<Body> {
    let split = |base: usize| (((place - base) / 128) as u8, ((place - base) % 128) as u8);
    let byte = (value & 127) as u8;
    Some(match place {
        place::CONTROLLER..place::POLY_PRESSURE => {
            let (channel, controller) = split(place::CONTROLLER);
            Body::Cc { channel, controller, value: byte }
        }
        place::POLY_PRESSURE..place::NOTE => {
            let (channel, note) = split(place::POLY_PRESSURE);
            Body::PolyPressure { channel, note, pressure: byte }
        }
        place::NOTE..place::CHANNEL_PRESSURE => {
            let (channel, note) = split(place::NOTE);
            Body::NoteOff { channel, note, velocity: byte }
        }
        place::CHANNEL_PRESSURE..place::PITCH_BEND => {
            Body::ChannelPressure { channel: (place - place::CHANNEL_PRESSURE) as u8, pressure: byte }
        }
        place::PITCH_BEND..place::BUTTON => {
            Body::PitchBend { channel: (place - place::PITCH_BEND) as u8, value: (value & 0x3FFF) as u16 }
        }
        place::BUTTON..place::AXIS => {
            Body::ButtonUp(Button::from_id((place - place::BUTTON) as i64 + i64::from(Button::South.id()))?)
        }
        place::AXIS..place::TRIGGER => Body::Axis {
            axis: Axis::from_id((place - place::AXIS) as i64 + i64::from(Axis::LeftX.id()))?,
            value: f32::from_bits(value),
        },
        _ => Body::Trigger {
            side: Side::from_id((place - place::TRIGGER) as i64 + i64::from(Side::Left.id()))?,
            value: f32::from_bits(value),
        },
    })
}

/// A token bucket with a capacity of one second of events.
#[derive(Default)]
struct Rate {
    /// Tokens left, in millionths of an event; absent before the first event.
    left: Option<u64>,
    last: Micros,
}

impl Rate {
    const ONE: u64 = 1_000_000;

    fn pass(&mut self, at: Micros, max_per_sec: u32) -> bool {
        let full = u64::from(max_per_sec) * Self::ONE;
        let gained = at.since(self.last).min(Self::ONE) * u64::from(max_per_sec);
        let left = self.left.map_or(full, |left| left.saturating_add(gained).min(full));
        self.last = self.last.max(at);
        let rest = left.checked_sub(Self::ONE);
        self.left = Some(rest.unwrap_or(left));
        rest.is_some()
    }
}

#[cfg(test)]
mod tests;
