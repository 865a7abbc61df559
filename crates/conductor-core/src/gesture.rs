//! Recognises gestures of keys: presses, long presses, double taps and chords.
//!
//! This is a pure state machine. A press first enters the chord stage (`chord`), if its key belongs
//! to a chord of the current mode. Then the press enters the tap stage. Time is read only from
//! events and deadlines, so the outcome does not depend on when the caller runs.
//!
//! Not here: values that are not keys (`engine::thresholds`), and the actions of gestures
//! (`engine`).

mod chord;

use crate::event::{Body, Button, DeviceSlot, Event, Micros, Taint, Trail};
use crate::mapping::table::{ALL_CHANNELS, Entry, Kind, ModeIndex, RowId, Tables};
use crate::mapping::{Fire, TriggerKind};
use crate::timer::{TimerKey, Timers};
use chord::ChordWindow;

/// The number of channels: sixteen for notes, and one for gamepad buttons.
const CHANNELS: usize = 17;
const BUTTONS: u8 = 16;
const KEYS_PER_DEVICE: usize = 16 * 128 + 19;
const NONE: u32 = u32::MAX;

/// Identifies a physical press, from the time at which the key goes down until the key is up and no
/// gesture of the press is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PressId {
    index: u32,
    serial: u32,
}

/// A key of one device: a note on a channel, or a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef {
    pub device: DeviceSlot,
    /// 0-15 for the channel of a note; [`BUTTONS`] for buttons.
    channel_index: u8,
    /// The number in the tables: 0-127 for notes, 128 and up for buttons.
    pub number: u8,
}

impl KeyRef {
    fn of(event: &Event) -> Option<Self> {
        let (channel_index, number) =
            if let Body::NoteOn { channel, note, .. } | Body::NoteOff { channel, note, .. } = &event.body {
                (*channel & 15, *note & 127)
            } else if let Body::ButtonDown(button) | Body::ButtonUp(button) = &event.body {
                (BUTTONS, button.id())
            } else {
                return None;
            };
        Some(KeyRef { device: event.device, channel_index, number })
    }

    fn index(self) -> usize {
        if self.channel_index == BUTTONS {
            16 * 128 + usize::from(self.number - 128)
        } else {
            usize::from(self.channel_index) * 128 + usize::from(self.number)
        }
    }

    /// The channel as a mask for the tables. Buttons have no channel and match every mask.
    pub fn channels(self) -> u16 {
        if self.channel_index == BUTTONS { ALL_CHANNELS } else { 1 << self.channel_index }
    }

    /// The channel of a note; buttons have none.
    pub fn channel(self) -> Option<u8> {
        (self.channel_index != BUTTONS).then_some(self.channel_index)
    }
}

/// A recognised gesture, or a change in the state of a press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the types of the fields explain them")]
pub enum GestureEvent {
    /// A press, long press, double tap or chord fires its rule.
    Fired { press: PressInfo, row: RowId },
    /// A rule for the release of a key fires.
    Released { press: PressInfo, row: RowId },
    /// The press is not decided yet: more than one gesture is still possible.
    Deferred { press: PressInfo },
    /// No rule matches the gesture of this press.
    Unmatched { press: PressInfo },
    /// The key was released. Every note and key that this press holds ends.
    Up { press: PressInfo },
    /// A reload, a panic, a mute or the loss of its device cancelled the press.
    Cancelled { press: PressInfo },
}

/// The data of a press at the time of a gesture event. The press may have ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressInfo {
    pub id: PressId,
    pub key: KeyRef,
    /// The time at which the key was pressed.
    pub at: Micros,
    /// The velocity, 1-127; 127 for buttons.
    pub velocity: u8,
    /// The mode at the time of the press.
    pub mode: ModeIndex,
    /// The joined taint of the events of this press.
    pub taint: Taint,
    /// The highest hop count among the events of this press.
    pub hops: u8,
    /// Whether the key is still down, so that an `Up` will follow.
    pub held: bool,
}

impl PressInfo {
    /// The event that pressed the key, rebuilt from the press.
    pub fn event(&self) -> Event {
        Event { at: self.at, device: self.key.device, taint: self.taint, hops: self.hops, body: self.body() }
    }

    /// The body of the event that pressed the key.
    pub fn body(&self) -> Body {
        let number = self.key.number;
        match (self.key.channel(), Button::from_id(i64::from(number))) {
            (Some(channel), _) => Body::NoteOn { channel, note: number, velocity: self.velocity },
            (None, Some(button)) => Body::ButtonDown(button),
            (None, None) => Body::ButtonDown(Button::South),
        }
    }
}

/// The deadlines of the gesture stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the types of the fields explain them")]
pub enum Deadline {
    /// The chord window of a device and channel closes.
    Chord { device: DeviceSlot, channel_index: u8 },
    /// A long press reaches the threshold of this rule.
    Long { press: PressId, row: RowId },
    /// The time for a second tap has expired.
    Double { press: PressId },
}

/// A press. It is stored until its key is up and no gesture of the press is pending.
#[derive(Clone, Debug)]
struct Press {
    serial: u32,
    key: KeyRef,
    at: Micros,
    /// The joined trail of the events of this press.
    trail: Trail,
    velocity: u8,
    /// The mode at the time of the press. The tables of this mode apply until the press ends.
    mode: ModeIndex,
    up: bool,
    stage: Stage,
    /// For a member of a chord, the press that owns the notes and keys held by the chord. The first
    /// release of a member ends them.
    chord_owner: Option<PressId>,
    /// While this press is in the chord stage, an earlier tap of the same key. Both taps may become
    /// a double tap.
    earlier: Option<u32>,
    press_row: Option<RowId>,
    release_row: Option<RowId>,
    /// Whether a rule for a long press of this key exists.
    has_long: bool,
    double: Option<(TimerKey, Micros)>,
    /// Whether the threshold of a long press was reached.
    held_long: bool,
    /// Among the rules that fire on release, the rule with the longest threshold that was reached.
    long_on_release: Option<RowId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Chord,
    /// A long press or a double tap is still possible, or the press is a long press.
    Waiting,
    /// The press has fired, or no rule matches it. Only its release is still expected.
    Settled,
    /// The press became part of a double tap or a chord, or was cancelled. Its release fires no
    /// rule.
    Taken,
}

struct Keys {
    /// The index in `presses` for each key.
    current: Box<[u32; KEYS_PER_DEVICE]>,
    windows: Box<[ChordWindow; CHANNELS]>,
}

impl Default for Keys {
    fn default() -> Self {
        Keys {
            current: Box::new([NONE; KEYS_PER_DEVICE]),
            windows: Box::new(std::array::from_fn(|_| ChordWindow::default())),
        }
    }
}

/// The state of all keys of all devices.
#[derive(Default)]
pub struct Gestures {
    presses: Vec<Option<Press>>,
    free: Vec<u32>,
    serial: u32,
    devices: Vec<Option<Keys>>,
    /// The timers of long presses, with the index of their press. All presses share one list, so
    /// that a press does not allocate.
    longs: Vec<(u32, TimerKey)>,
}

/// Data that the state machine uses but does not own.
pub struct GestureCx<'a, T> {
    /// The compiled configuration.
    pub tables: &'a Tables,
    /// The current mode.
    pub mode: ModeIndex,
    /// The current time.
    pub now: Micros,
    /// The timers in which deadlines are set.
    pub timers: &'a mut Timers<T>,
    /// The list that receives gesture events.
    pub found: &'a mut Vec<GestureEvent>,
}

impl Gestures {
    fn press(&self, id: PressId) -> Option<&Press> {
        self.presses.get(id.index as usize)?.as_ref().filter(|it| it.serial == id.serial)
    }

    /// Whether the key of this press is still down. For a chord, `id` is the press that owns the
    /// chord, and only the key of this press counts.
    pub fn is_held(&self, id: PressId) -> bool {
        self.press(id).is_some_and(|it| !it.up)
    }

    /// Whether the key of this event is down or has a pending gesture.
    pub fn knows(&self, event: &Event) -> bool {
        KeyRef::of(event).is_some_and(|key| self.current(key).is_some())
    }

    /// Allocates the state of a device's keys, and space for this many further presses.
    pub fn make_room(&mut self, devices: impl Iterator<Item = DeviceSlot>, chords: usize, more: usize) {
        for device in devices {
            for window in self.keys(device).windows.iter_mut() {
                window.reserve(chords);
            }
        }
        self.presses.reserve(more);
        self.free.reserve(self.presses.capacity() - self.free.len());
        self.longs.reserve(more);
    }

    /// The number of presses that need no allocation, if `make_room` was called for their device.
    pub fn room(&self) -> usize {
        let presses = self.presses.capacity() - self.presses.len();
        presses.min(self.longs.capacity() - self.longs.len())
    }

    /// The number of presses in the chord stage.
    pub fn chord_members(&self) -> usize {
        self.presses.iter().flatten().filter(|it| it.stage == Stage::Chord).count()
    }

    /// The number of presses that are not decided yet.
    pub fn pending(&self) -> usize {
        self.presses.iter().flatten().filter(|it| matches!(it.stage, Stage::Chord | Stage::Waiting)).count()
    }

    /// Processes a key event. Returns `false` for any other event.
    pub fn feed<T: From<Deadline>>(&mut self, event: &Event, cx: &mut GestureCx<'_, T>) -> bool {
        let Some(key) = KeyRef::of(event) else { return false };
        if let Body::NoteOn { velocity, .. } = &event.body {
            self.down(key, event, *velocity, cx);
        } else if let Body::ButtonDown(_) = &event.body {
            self.down(key, event, 127, cx);
        } else {
            self.up(key, event.trail(), cx);
        }
        true
    }

    /// Called when a deadline of a gesture is due.
    pub fn deadline<T: From<Deadline>>(&mut self, deadline: Deadline, cx: &mut GestureCx<'_, T>) {
        match deadline {
            Deadline::Chord { device, channel_index } => self.chord_deadline(device, channel_index, cx),
            Deadline::Long { press, row } => self.long_deadline(press, row, cx),
            Deadline::Double { press } => self.double_deadline(press, cx),
        }
    }

    /// Cancels pending gestures because of a reload or a panic. The presses of held keys are kept,
    /// so that a release still ends held notes and keys.
    pub fn cancel_pending<T>(&mut self, cx: &mut GestureCx<'_, T>) {
        for index in 0..self.presses.len() as u32 {
            self.take_back(index, cx);
        }
        for window in self.devices.iter_mut().flatten().flat_map(|it| it.windows.iter_mut()) {
            window.clear(cx.timers);
        }
    }

    /// Cancels and releases all presses of a device that was disconnected or muted.
    pub fn drop_device<T>(&mut self, device: DeviceSlot, cx: &mut GestureCx<'_, T>) {
        for index in 0..self.presses.len() as u32 {
            let Some(press) = self.presses[index as usize].as_ref().filter(|it| it.key.device == device) else {
                continue;
            };
            let info = press.info(index);
            self.take_back(index, cx);
            if self.press(info.id).is_some() {
                // The release was not made by a person, so it is tainted.
                cx.found.push(GestureEvent::Up { press: PressInfo { taint: Taint::Tool, ..info } });
                self.forget(index);
            }
        }
        if let Some(keys) = self.devices.get_mut(usize::from(device.0)).and_then(Option::as_mut) {
            for window in keys.windows.iter_mut() {
                window.clear(cx.timers);
            }
        }
    }

    fn take_back<T>(&mut self, index: u32, cx: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        let info = press.info(index);
        let was_pending = matches!(press.stage, Stage::Chord | Stage::Waiting);
        press.cancel_double(cx.timers);
        cancel_longs(&mut self.longs, index, cx.timers);
        press.stage = Stage::Taken;
        press.earlier = None;
        press.long_on_release = None;
        let gone = press.up;
        if was_pending {
            cx.found.push(GestureEvent::Cancelled { press: info });
        }
        if gone {
            self.forget(index);
        }
    }

    fn down<T: From<Deadline>>(&mut self, key: KeyRef, event: &Event, velocity: u8, cx: &mut GestureCx<'_, T>) {
        // Some controllers never send a note-off. At a second note-on, treat the key as released
        // between the two.
        if self.current(key).is_some_and(|index| self.presses[index as usize].as_ref().is_some_and(|it| !it.up)) {
            self.up(key, event.trail(), cx);
        }
        let earlier = self.current(key);
        let index = self.store(key, event, velocity, cx.mode);
        let earlier = earlier.filter(|first| {
            self.presses[*first as usize].as_ref().is_some_and(|it| it.double.is_some() && it.mode == cx.mode)
        });
        let table = cx.tables.device(cx.mode, key.device);
        let in_chord =
            table.rules(Kind::Chord, usize::from(key.number)).iter().any(|it| it.channels & key.channels() != 0);
        if in_chord {
            // Chords have precedence. A press is checked as a second tap only after the chord
            // stage.
            if let Some(first) = earlier
                && let Some(press) = self.presses[first as usize].as_mut()
                && let Some((timer, _)) = press.double
            {
                cx.timers.cancel(timer);
                if let Some(second) = self.presses[index as usize].as_mut() {
                    second.earlier = Some(first);
                }
            }
            self.chord_press(index, cx);
        } else {
            match earlier {
                Some(first) => self.second_tap(first, index, cx),
                None => self.tap_stage(index, cx),
            }
        }
    }

    fn current(&self, key: KeyRef) -> Option<u32> {
        let keys = self.devices.get(usize::from(key.device.0))?.as_ref()?;
        keys.current.get(key.index()).copied().filter(|it| *it != NONE)
    }

    fn keys(&mut self, device: DeviceSlot) -> &mut Keys {
        let at = usize::from(device.0);
        if self.devices.len() <= at {
            self.devices.resize_with(at + 1, || None);
        }
        self.devices[at].get_or_insert_with(Keys::default)
    }

    fn store(&mut self, key: KeyRef, event: &Event, velocity: u8, mode: ModeIndex) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        let press = Press {
            serial: self.serial,
            key,
            at: event.at,
            trail: event.trail(),
            velocity,
            mode,
            up: false,
            stage: Stage::Settled,
            chord_owner: None,
            earlier: None,
            press_row: None,
            release_row: None,
            has_long: false,
            double: None,
            held_long: false,
            long_on_release: None,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.presses[index as usize] = Some(press);
                index
            }
            None => {
                self.presses.push(Some(press));
                self.presses.len() as u32 - 1
            }
        };
        self.keys(key.device).current[key.index()] = index;
        index
    }

    fn forget(&mut self, index: u32) {
        let Some(press) = self.presses[index as usize].take() else { return };
        self.free.push(index);
        self.longs.retain(|it| it.0 != index);
        let keys = self.keys(press.key.device);
        let current = &mut keys.current[press.key.index()];
        if *current == index {
            *current = NONE;
        }
    }

    fn id(&self, index: u32) -> PressId {
        PressId { index, serial: self.presses[index as usize].as_ref().map_or(0, |it| it.serial) }
    }

    fn tap_stage<T: From<Deadline>>(&mut self, index: u32, cx: &mut GestureCx<'_, T>) {
        let id = self.id(index);
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        let (key, number) = (press.key, usize::from(press.key.number));
        let table = cx.tables.device(press.mode, key.device);
        let velocity = u16::from(press.velocity);
        press.press_row = table.first(Kind::Press, number, key.channels(), velocity).map(RowId);
        press.release_row = table.first(Kind::Release, number, key.channels(), velocity).map(RowId);

        let longs = || matching(table.rules(Kind::Long, number), key);
        for (order, entry) in longs().enumerate() {
            let Some((time_ms, fire)) = long_press(cx.tables, entry) else { continue };
            // Rules are in order of precedence. If two rules have the same time, the first rule
            // applies.
            if longs().take(order).any(|it| long_press(cx.tables, it) == Some((time_ms, fire))) {
                continue;
            }
            press.has_long = true;
            let deadline = Deadline::Long { press: id, row: RowId(entry.id) };
            self.longs.push((index, cx.timers.set(press.at.plus_ms(time_ms), deadline.into())));
        }
        let double = matching(table.rules(Kind::Double, number), key).map(|it| cx.tables.row(it.id).time_ms).max();
        if let Some(time_ms) = double {
            let end = press.at.plus_ms(time_ms);
            press.double = Some((cx.timers.set(end, Deadline::Double { press: id }.into()), end));
        }

        if !press.has_long && press.double.is_none() {
            press.stage = Stage::Settled;
            match (press.press_row, press.release_row) {
                (Some(row), _) => cx.found.push(GestureEvent::Fired { press: press.info(index), row }),
                (None, Some(_)) => {}
                (None, None) => cx.found.push(GestureEvent::Unmatched { press: press.info(index) }),
            }
            return;
        }
        press.stage = Stage::Waiting;
        match press.press_row.filter(|row| is_eager(cx.tables, *row)) {
            Some(row) => {
                press.press_row = None;
                cx.found.push(GestureEvent::Fired { press: press.info(index), row });
            }
            None => cx.found.push(GestureEvent::Deferred { press: press.info(index) }),
        }
    }

    fn second_tap<T: From<Deadline>>(&mut self, first: u32, second: u32, cx: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[second as usize].as_ref() else { return };
        let at = press.at;
        let (key, mode) = (press.key, press.mode);
        let table = cx.tables.device(mode, key.device);
        let gap = self.presses[first as usize].as_ref().map_or(u64::MAX, |it| at.since(it.at));
        let row = matching(table.rules(Kind::Double, usize::from(key.number)), key)
            .find(|it| gap < u64::from(cx.tables.row(it.id).time_ms) * 1000)
            .map(|it| RowId(it.id));
        match row {
            Some(row) => {
                let earlier = self.presses[first as usize].as_mut().map_or(Trail::default(), |it| {
                    it.cancel_double(cx.timers);
                    it.trail
                });
                cancel_longs(&mut self.longs, first, cx.timers);
                self.forget(first);
                // The key stays in use after `forget(first)`, because its current press is already
                // the second press.
                if let Some(press) = self.presses[second as usize].as_mut() {
                    press.stage = Stage::Taken;
                    press.trail = press.trail.and(earlier);
                    cx.found.push(GestureEvent::Fired { press: press.info(second), row });
                }
            }
            None => {
                self.resume_double(first, cx);
                self.tap_stage(second, cx);
            }
        }
    }

    /// Called when the second press did not complete a double tap. Until its time expires, the
    /// first tap can still become a double tap with a later press.
    fn resume_double<T: From<Deadline>>(&mut self, first: u32, cx: &mut GestureCx<'_, T>) {
        let id = self.id(first);
        let Some(press) = self.presses[first as usize].as_mut() else { return };
        if let Some((timer, end)) = press.double {
            cx.timers.cancel(timer);
            press.double = Some((cx.timers.set(end, Deadline::Double { press: id }.into()), end));
        }
    }

    fn long_deadline<T: From<Deadline>>(&mut self, id: PressId, row: RowId, cx: &mut GestureCx<'_, T>) {
        if self.press(id).is_none() {
            return;
        }
        let Some(press) = self.presses[id.index as usize].as_mut() else { return };
        press.held_long = true;
        press.press_row = None;
        press.release_row = None;
        if let Some((timer, _)) = press.double.take() {
            cx.timers.cancel(timer);
        }
        let TriggerKind::LongPress { fire, .. } = cx.tables.row(row.0).trigger.kind else { return };
        match fire {
            Fire::Threshold => cx.found.push(GestureEvent::Fired { press: press.info(id.index), row }),
            Fire::Release => press.long_on_release = Some(row),
        }
    }

    fn double_deadline<T>(&mut self, id: PressId, cx: &mut GestureCx<'_, T>) {
        if self.press(id).is_none() {
            return;
        }
        let Some(press) = self.presses[id.index as usize].as_mut() else { return };
        press.double = None;
        if press.up {
            self.resolve_as_press(id.index, cx);
            self.forget(id.index);
        } else if !press.has_long {
            self.resolve_as_press(id.index, cx);
        }
    }

    /// Resolves a press that became neither a long press nor a double tap.
    fn resolve_as_press<T>(&mut self, index: u32, cx: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        let eager_fired = press.press_row.is_none();
        press.stage = Stage::Settled;
        let table = cx.tables.device(press.mode, press.key.device);
        let had_press = table
            .first(Kind::Press, usize::from(press.key.number), press.key.channels(), u16::from(press.velocity))
            .is_some();
        match press.press_row.take() {
            Some(row) => cx.found.push(GestureEvent::Fired { press: press.info(index), row }),
            None if eager_fired && had_press => {}
            None if press.release_row.is_some() => {}
            None => cx.found.push(GestureEvent::Unmatched { press: press.info(index) }),
        }
        if press.up
            && let Some(row) = press.release_row.take()
        {
            cx.found.push(GestureEvent::Released { press: press.info(index), row });
        }
    }

    fn up<T: From<Deadline>>(&mut self, key: KeyRef, trail: Trail, cx: &mut GestureCx<'_, T>) {
        let Some(index) = self.current(key) else { return };
        // The release can decide the gesture, so the trail of the release is joined to the trail of
        // the press.
        if let Some(press) = self.presses[index as usize].as_mut() {
            press.trail = press.trail.and(trail);
        }
        if self.presses[index as usize].as_ref().is_some_and(|it| it.stage == Stage::Chord) {
            self.close_window(key.device, key.channel_index, None, cx);
        }
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        if press.up {
            return;
        }
        press.up = true;
        match press.stage {
            Stage::Taken => {
                let owner = press.chord_owner.filter(|it| *it != press.info(index).id);
                cx.found.push(GestureEvent::Up { press: press.info(index) });
                let taint = press.trail.taint;
                if let Some(owner) = owner.and_then(|it| Some(self.press(it)?.info(it.index))) {
                    // The first released key ends the chord.
                    cx.found.push(GestureEvent::Up { press: PressInfo { taint: owner.taint.max(taint), ..owner } });
                }
                self.forget(index);
            }
            Stage::Settled | Stage::Chord => {
                let release = press.release_row.take();
                cx.found.push(GestureEvent::Up { press: press.info(index) });
                if let Some(row) = release {
                    cx.found.push(GestureEvent::Released { press: press.info(index), row });
                }
                self.forget(index);
            }
            Stage::Waiting => {
                cancel_longs(&mut self.longs, index, cx.timers);
                if press.held_long {
                    let long = press.long_on_release.take();
                    if let Some(row) = long {
                        cx.found.push(GestureEvent::Fired { press: press.info(index), row });
                    }
                    cx.found.push(GestureEvent::Up { press: press.info(index) });
                    self.forget(index);
                } else if press.double.is_some() {
                    cx.found.push(GestureEvent::Up { press: press.info(index) });
                } else {
                    // Fire the press, then release it immediately.
                    press.up = false;
                    let release = press.release_row;
                    self.resolve_as_press(index, cx);
                    if let Some(press) = self.presses[index as usize].as_mut() {
                        press.up = true;
                        cx.found.push(GestureEvent::Up { press: press.info(index) });
                        if let Some(row) = release {
                            cx.found.push(GestureEvent::Released { press: press.info(index), row });
                        }
                    }
                    self.forget(index);
                }
            }
        }
    }
}

fn matching(entries: &[Entry], key: KeyRef) -> impl Iterator<Item = &Entry> {
    entries.iter().filter(move |it| it.channels & key.channels() != 0)
}

fn is_eager(tables: &Tables, row: RowId) -> bool {
    matches!(
        &tables.row(row.0).trigger.kind,
        TriggerKind::Note { eager: true, .. }
            | TriggerKind::VelocityRange { eager: true, .. }
            | TriggerKind::GamepadButton { eager: true, .. }
    )
}

/// The duration of a rule for a long press, and the time at which it fires.
fn long_press(tables: &Tables, entry: &Entry) -> Option<(u32, Fire)> {
    let row = tables.row(entry.id);
    if let TriggerKind::LongPress { fire, .. } = row.trigger.kind { Some((row.time_ms, fire)) } else { None }
}

fn cancel_longs<T>(longs: &mut Vec<(u32, TimerKey)>, press: u32, timers: &mut Timers<T>) {
    longs.retain(|(index, timer)| {
        if *index == press {
            timers.cancel(*timer);
        }
        *index != press
    });
}

impl Press {
    fn cancel_double<T>(&mut self, timers: &mut Timers<T>) {
        if let Some((timer, _)) = self.double.take() {
            timers.cancel(timer);
        }
    }

    fn info(&self, index: u32) -> PressInfo {
        PressInfo {
            id: PressId { index, serial: self.serial },
            key: self.key,
            at: self.at,
            velocity: self.velocity,
            mode: self.mode,
            taint: self.trail.taint,
            hops: self.trail.hops,
            held: !self.up,
        }
    }
}
