//! What a hand meant: presses become taps, holds, double taps and chords.
//!
//! A pure state machine over keys. Every press passes the chord stage (if its key belongs to a
//! reachable chord) and then the tap stage. Time comes in with events and deadlines only, so the
//! outcome depends on time stamps, never on when somebody looked.
//!
//! Not here: values that are not keys (`engine::thresholds`), and what happens when something was
//! found (`hands`).

use crate::event::{Body, Button, DeviceSlot, Event, Micros, Taint, Trail};
use crate::mapping::table::{ALL_CHANNELS, Entry, Kind, ModeIndex, RowId, Tables};
use crate::mapping::{Fire, TriggerKind};
use crate::timer::{TimerKey, Timers};

/// Sixteen channels of notes, and one lane of gamepad buttons.
const LANES: usize = 17;
const BUTTON_LANE: u8 = 16;
const KEYS_PER_DEVICE: usize = 16 * 128 + 19;
/// A chord has at most this many members, so a flood of notes cannot grow a window.
const MAX_MEMBERS: usize = 16;
const NONE: u32 = u32::MAX;

/// One physical press, from key down until nothing about it is open any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PressId {
    index: u32,
    serial: u32,
}

/// A key of one device: a note on a channel, or a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef {
    pub device: DeviceSlot,
    lane: u8,
    /// As in the tables: notes 0-127, buttons from 128.
    pub number: u8,
}

impl KeyRef {
    fn of(event: &Event) -> Option<Self> {
        let (lane, number) = match &event.body {
            Body::NoteOn { channel, note, .. } | Body::NoteOff { channel, note, .. } => (*channel & 15, *note & 127),
            Body::ButtonDown(button) | Body::ButtonUp(button) => (BUTTON_LANE, button.id()),
            Body::PolyPressure { .. }
            | Body::Cc { .. }
            | Body::Program { .. }
            | Body::ChannelPressure { .. }
            | Body::PitchBend { .. }
            | Body::SysEx(_)
            | Body::RealTime(_)
            | Body::Common { .. }
            | Body::Axis { .. }
            | Body::Trigger { .. }
            | Body::Osc(_) => return None,
        };
        Some(KeyRef { device: event.device, lane, number })
    }

    fn index(self) -> usize {
        if self.lane == BUTTON_LANE {
            16 * 128 + usize::from(self.number - 128)
        } else {
            usize::from(self.lane) * 128 + usize::from(self.number)
        }
    }

    /// The channel as the tables ask for it; buttons have none and match every mask.
    pub fn channels(self) -> u16 {
        if self.lane == BUTTON_LANE { ALL_CHANNELS } else { 1 << self.lane }
    }

    pub fn channel(self) -> Option<u8> {
        (self.lane != BUTTON_LANE).then_some(self.lane)
    }
}

/// What was found, in the order it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GestureEvent {
    /// A press mapping fires.
    Press {
        tap: PressInfo,
        row: RowId,
    },
    Release {
        tap: PressInfo,
        row: RowId,
    },
    Long {
        tap: PressInfo,
        row: RowId,
    },
    Double {
        tap: PressInfo,
        row: RowId,
    },
    Chord {
        tap: PressInfo,
        row: RowId,
    },
    /// The press waits: more than one gesture is still possible.
    Deferred {
        tap: PressInfo,
    },
    /// Nothing is mapped to what this press turned out to be.
    Unmatched {
        tap: PressInfo,
    },
    /// The key came up; what was held for this press ends now.
    Up {
        tap: PressInfo,
    },
    /// The press was taken back by a reload or the loss of its device.
    Cancelled {
        tap: PressInfo,
    },
}

/// A press as it was when something was found; the press itself may be over by the time somebody
/// reads this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressInfo {
    pub id: PressId,
    pub key: KeyRef,
    pub at: Micros,
    pub velocity: u8,
    pub mode: ModeIndex,
    pub taint: Taint,
    pub hops: u8,
    /// Whether an `Up` is still to come.
    pub held: bool,
}

impl PressInfo {
    pub fn body(&self) -> Body {
        let number = self.key.number;
        match (self.key.channel(), Button::from_id(i64::from(number))) {
            (Some(channel), _) => Body::NoteOn { channel, note: number, velocity: self.velocity },
            (None, Some(button)) => Body::ButtonDown(button),
            (None, None) => Body::ButtonDown(Button::South),
        }
    }
}

/// The deadlines of this stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    Chord { device: DeviceSlot, lane: u8 },
    Long { press: PressId, row: RowId },
    Double { press: PressId },
}

/// What is known of a press. Kept until the key is up and nothing is pending.
#[derive(Clone, Debug)]
struct Press {
    serial: u32,
    key: KeyRef,
    at: Micros,
    /// Of every event that had a part in what this press becomes.
    trail: Trail,
    velocity: u8,
    /// The mode the press was made in; its tables decide to the end.
    mode: ModeIndex,
    up: bool,
    stage: Stage,
    /// Of a chord: the press whose release ends what the chord holds.
    chord_owner: Option<PressId>,
    /// The tap before this one, still waiting for its double, while this one is in the chord stage.
    earlier: Option<u32>,
    press_row: Option<RowId>,
    release_row: Option<RowId>,
    longs: Vec<TimerKey>,
    double: Option<(TimerKey, Micros)>,
    /// A long press threshold was reached.
    held_long: bool,
    /// The longest reached threshold among rows that fire on release.
    long_on_release: Option<RowId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Chord,
    /// Long press or double tap are possible.
    Waiting,
    /// The press mapping fired, or there is none: only the release is left.
    Settled,
    /// Went to a long press, a double tap or a chord; the release fires nothing.
    Taken,
}

struct Keys {
    /// The press that owns each key.
    current: Box<[u32; KEYS_PER_DEVICE]>,
    windows: Box<[ChordWindow; LANES]>,
}

impl Default for Keys {
    fn default() -> Self {
        Keys {
            current: Box::new([NONE; KEYS_PER_DEVICE]),
            windows: Box::new(std::array::from_fn(|_| ChordWindow::default())),
        }
    }
}

#[derive(Default)]
struct ChordWindow {
    members: Vec<u32>,
    candidates: Vec<RowId>,
    opened: Micros,
    mode: ModeIndex,
    timer: Option<TimerKey>,
}

impl ChordWindow {
    /// Nothing waits in it any more, and nothing will come due for it.
    fn clear<T>(&mut self, timers: &mut Timers<T>) {
        self.members.clear();
        self.candidates.clear();
        if let Some(timer) = self.timer.take() {
            timers.cancel(timer);
        }
    }
}

#[derive(Default)]
pub struct Gestures {
    presses: Vec<Option<Press>>,
    free: Vec<u32>,
    serial: u32,
    devices: Vec<Option<Keys>>,
}

/// The tables and the clockwork a step needs; passed down so that the state machine owns neither.
pub struct GestureCx<'a, T> {
    pub tables: &'a Tables,
    pub mode: ModeIndex,
    pub now: Micros,
    pub timers: &'a mut Timers<T>,
    pub found: &'a mut Vec<GestureEvent>,
}

impl Gestures {
    fn press(&self, id: PressId) -> Option<&Press> {
        self.presses.get(id.index as usize)?.as_ref().filter(|it| it.serial == id.serial)
    }

    /// Whether the key of this press is still down, and for a chord whether all of its keys are.
    pub fn is_held(&self, id: PressId) -> bool {
        self.press(id).is_some_and(|it| !it.up)
    }

    /// Whether the key of this event is down or waits.
    pub fn knows(&self, event: &Event) -> bool {
        KeyRef::of(event).is_some_and(|key| self.current(key).is_some())
    }

    /// Presses that wait for a chord.
    pub fn chord_members(&self) -> usize {
        self.presses.iter().flatten().filter(|it| it.stage == Stage::Chord).count()
    }

    pub fn pending(&self) -> usize {
        self.presses.iter().flatten().filter(|it| matches!(it.stage, Stage::Chord | Stage::Waiting)).count()
    }

    /// Takes a key event; anything else is not for this stage and gives `false`.
    pub fn feed<T: From<Deadline>>(&mut self, event: &Event, around: &mut GestureCx<'_, T>) -> bool {
        let Some(key) = KeyRef::of(event) else { return false };
        if let Body::NoteOn { velocity, .. } = &event.body {
            self.down(key, event, *velocity, around);
        } else if let Body::ButtonDown(_) = &event.body {
            self.down(key, event, 127, around);
        } else {
            self.up(key, event.trail(), around);
        }
        true
    }

    pub fn deadline<T: From<Deadline>>(&mut self, deadline: Deadline, around: &mut GestureCx<'_, T>) {
        match deadline {
            Deadline::Chord { device, lane } => self.chord_deadline(device, lane, around),
            Deadline::Long { press, row } => self.long_deadline(press, row, around),
            Deadline::Double { press } => self.double_deadline(press, around),
        }
    }

    /// A reload: pending gestures are taken back, held keys stay known so that their release still
    /// ends what they hold.
    pub fn cancel_pending<T>(&mut self, around: &mut GestureCx<'_, T>) {
        for index in 0..self.presses.len() as u32 {
            self.take_back(index, around);
        }
        for window in self.devices.iter_mut().flatten().flat_map(|it| it.windows.iter_mut()) {
            window.clear(around.timers);
        }
    }

    /// The device is gone or muted: everything it pressed is taken back and comes up.
    pub fn drop_device<T>(&mut self, device: DeviceSlot, around: &mut GestureCx<'_, T>) {
        for index in 0..self.presses.len() as u32 {
            let Some(press) = self.presses[index as usize].as_ref().filter(|it| it.key.device == device) else {
                continue;
            };
            let tap = press.tap(index);
            self.take_back(index, around);
            if self.press(tap.id).is_some() {
                // No hand lets go here.
                around.found.push(GestureEvent::Up { tap: PressInfo { taint: Taint::Tool, ..tap } });
                self.forget(index);
            }
        }
        if let Some(keys) = self.devices.get_mut(usize::from(device.0)).and_then(Option::as_mut) {
            for window in keys.windows.iter_mut() {
                window.clear(around.timers);
            }
        }
    }

    fn take_back<T>(&mut self, index: u32, around: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        let tap = press.tap(index);
        let was_pending = matches!(press.stage, Stage::Chord | Stage::Waiting);
        for timer in press.longs.drain(..).chain(press.double.take().map(|it| it.0)) {
            around.timers.cancel(timer);
        }
        press.stage = Stage::Taken;
        press.earlier = None;
        press.long_on_release = None;
        let gone = press.up;
        if was_pending {
            around.found.push(GestureEvent::Cancelled { tap });
        }
        if gone {
            self.forget(index);
        }
    }

    // Down.

    fn down<T: From<Deadline>>(&mut self, key: KeyRef, event: &Event, velocity: u8, around: &mut GestureCx<'_, T>) {
        // A second note-on without a note-off between: some controllers never send one. The key
        // went up in between, unseen.
        if self.current(key).is_some_and(|index| self.presses[index as usize].as_ref().is_some_and(|it| !it.up)) {
            self.up(key, event.trail(), around);
        }
        let earlier = self.current(key);
        let index = self.store(key, event, velocity, around.mode);
        let earlier = earlier.filter(|first| {
            self.presses[*first as usize].as_ref().is_some_and(|it| it.double.is_some() && it.mode == around.mode)
        });
        let table = around.tables.device(around.mode, key.device);
        let in_chord =
            table.rules(Kind::Chord, usize::from(key.number)).iter().any(|it| it.channels & key.channels() != 0);
        if in_chord {
            // Whether this is the second half of a double tap is decided when the chord stage lets
            // go of it.
            if let Some(first) = earlier
                && let Some(press) = self.presses[first as usize].as_mut()
                && let Some((timer, _)) = press.double
            {
                around.timers.cancel(timer);
                if let Some(second) = self.presses[index as usize].as_mut() {
                    second.earlier = Some(first);
                }
            }
            self.chord_press(index, around);
        } else {
            match earlier {
                Some(first) => self.second_tap(first, index, around),
                None => self.tap(index, around),
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
            longs: Vec::new(),
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
        let keys = self.keys(press.key.device);
        let current = &mut keys.current[press.key.index()];
        if *current == index {
            *current = NONE;
        }
    }

    fn id(&self, index: u32) -> PressId {
        PressId { index, serial: self.presses[index as usize].as_ref().map_or(0, |it| it.serial) }
    }

    // Chord stage.

    fn chord_press<T: From<Deadline>>(&mut self, index: u32, around: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        press.stage = Stage::Chord;
        let (key, at, mode) = (press.key, press.at, press.mode);
        let lane = usize::from(key.lane);
        if self.keys(key.device).windows[lane].members.is_empty() {
            return self.open_window(index, around);
        }
        if self.keys(key.device).windows[lane].mode != mode {
            self.close_window(key.device, key.lane, None, around);
            return self.open_window(index, around);
        }
        let window = &mut self.keys(key.device).windows[lane];
        let opened = window.opened;
        let remaining: Vec<RowId> = window
            .candidates
            .iter()
            .copied()
            .filter(|row| {
                let row = around.tables.row(row.0);
                at < opened.plus_ms(row.time_ms) && row.chord.contains(&key.number)
            })
            .collect();
        if remaining.is_empty() || window.members.len() + 1 >= MAX_MEMBERS {
            return self.close_window(key.device, key.lane, Some(index), around);
        }
        window.members.push(index);
        window.candidates = remaining;
        self.settle_window(key.device, key.lane, around);
    }

    fn open_window<T: From<Deadline>>(&mut self, index: u32, around: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[index as usize].as_ref() else { return };
        let (key, at, mode, tap) = (press.key, press.at, press.mode, press.tap(index));
        let table = around.tables.device(mode, key.device);
        let candidates =
            matching(table.rules(Kind::Chord, usize::from(key.number)), key).map(|it| RowId(it.id)).collect();
        let window = &mut self.keys(key.device).windows[usize::from(key.lane)];
        window.members.push(index);
        window.candidates = candidates;
        window.opened = at;
        window.mode = mode;
        around.found.push(GestureEvent::Deferred { tap });
        self.settle_window(key.device, key.lane, around);
    }

    /// Fires when the pressed keys are a chord and nothing larger is possible any more, else waits
    /// for the next deadline.
    fn settle_window<T: From<Deadline>>(&mut self, device: DeviceSlot, lane: u8, around: &mut GestureCx<'_, T>) {
        let window = &mut self.keys(device).windows[usize::from(lane)];
        if let Some(timer) = window.timer.take() {
            around.timers.cancel(timer);
        }
        let pressed = window.members.len();
        let larger = window.candidates.iter().any(|row| around.tables.row(row.0).chord.len() > pressed);
        if !larger {
            return self.close_window(device, lane, None, around);
        }
        let opened = window.opened;
        let next = window.candidates.iter().map(|row| opened.plus_ms(around.tables.row(row.0).time_ms)).min();
        if let Some(next) = next {
            window.timer = Some(around.timers.set(next, Deadline::Chord { device, lane }.into()));
        }
    }

    fn chord_deadline<T: From<Deadline>>(&mut self, device: DeviceSlot, lane: u8, around: &mut GestureCx<'_, T>) {
        let now = around.now;
        let window = &mut self.keys(device).windows[usize::from(lane)];
        window.timer = None;
        let opened = window.opened;
        window.candidates.retain(|row| now < opened.plus_ms(around.tables.row(row.0).time_ms));
        self.settle_window(device, lane, around);
    }

    /// Ends the window. The largest chord inside the pressed set fires; the others go on to the tap
    /// stage in the order of their presses. `last` is the press that left no candidate: it may
    /// complete a chord, else it begins a window of its own.
    fn close_window<T: From<Deadline>>(
        &mut self,
        device: DeviceSlot,
        lane: u8,
        last: Option<u32>,
        around: &mut GestureCx<'_, T>,
    ) {
        let window = &mut self.keys(device).windows[usize::from(lane)];
        if let Some(timer) = window.timer.take() {
            around.timers.cancel(timer);
        }
        window.candidates.clear();
        let mut members = std::mem::take(&mut window.members);
        let mode = window.mode;
        members.extend(last);
        let chord = self.largest_chord(device, mode, &members, around.tables);
        let owner = chord.and_then(|row| {
            let keys = &around.tables.row(row.0).chord;
            members.iter().rev().copied().find(|it| self.number(*it).is_some_and(|number| keys.contains(&number)))
        });
        if let (Some(row), Some(at)) = (chord, owner) {
            let keys = &around.tables.row(row.0).chord;
            let owner = self.id(at);
            let parts = members.iter().filter_map(|it| self.presses[*it as usize].as_ref());
            let trail = parts
                .filter(|it| keys.contains(&it.key.number))
                .fold(Trail::default(), |trail, it| trail.and(it.trail));
            let Some(press) = self.presses[at as usize].as_mut() else { return };
            press.trail = trail;
            let tap = press.tap(at);
            for index in &members {
                let Some(press) = self.presses[*index as usize].as_mut() else { continue };
                if keys.contains(&press.key.number) {
                    press.stage = Stage::Taken;
                    press.chord_owner = Some(owner);
                    if let Some(first) = press.earlier.take() {
                        self.resume_double(first, around);
                    }
                }
            }
            around.found.push(GestureEvent::Chord { tap, row });
        }
        for index in members {
            if self.presses[index as usize].as_ref().is_none_or(|it| it.stage != Stage::Chord) {
                continue;
            }
            if last == Some(index) {
                self.open_window(index, around);
                continue;
            }
            let earlier = self.presses[index as usize].as_mut().and_then(|it| it.earlier.take());
            match earlier {
                Some(first) => self.second_tap(first, index, around),
                None => self.tap(index, around),
            }
        }
    }

    fn number(&self, index: u32) -> Option<u8> {
        self.presses[index as usize].as_ref().map(|it| it.key.number)
    }

    /// The largest chord whose keys are all among the members and were pressed within its own time;
    /// ties go by precedence.
    fn largest_chord(&self, device: DeviceSlot, mode: ModeIndex, members: &[u32], tables: &Tables) -> Option<RowId> {
        let table = tables.device(mode, device);
        let presses: Vec<&Press> = members.iter().filter_map(|it| self.presses[*it as usize].as_ref()).collect();
        let mut best: Option<RowId> = None;
        for press in &presses {
            for entry in matching(table.rules(Kind::Chord, usize::from(press.key.number)), press.key) {
                let row = tables.row(entry.id);
                let times =
                    || row.chord.iter().map(|key| presses.iter().find(|it| it.key.number == *key).map(|it| it.at));
                // `None` sorts first: a missing key makes the minimum `None`.
                let (Some(first), Some(last)) = (times().min().flatten(), times().max().flatten()) else { continue };
                if last >= first.plus_ms(row.time_ms) {
                    continue;
                }
                let better = best.is_none_or(|best| {
                    let held = tables.row(best.0);
                    (row.chord.len(), std::cmp::Reverse(row.rank)) > (held.chord.len(), std::cmp::Reverse(held.rank))
                });
                if better {
                    best = Some(RowId(entry.id));
                }
            }
        }
        best
    }

    // PressInfo stage.

    fn tap<T: From<Deadline>>(&mut self, index: u32, around: &mut GestureCx<'_, T>) {
        let id = self.id(index);
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        let (key, number) = (press.key, usize::from(press.key.number));
        let table = around.tables.device(press.mode, key.device);
        let velocity = u16::from(press.velocity);
        press.press_row = table.first(Kind::Press, number, key.channels(), velocity).map(RowId);
        press.release_row = table.first(Kind::Release, number, key.channels(), velocity).map(RowId);

        let longs = matching(table.rules(Kind::Long, number), key);
        let mut times: Vec<(u32, Fire)> = Vec::new();
        for entry in longs {
            let row = around.tables.row(entry.id);
            let TriggerKind::LongPress { fire, .. } = row.trigger.kind else { continue };
            // Rules come in order of precedence: of two with the same time the first wins.
            if times.contains(&(row.time_ms, fire)) {
                continue;
            }
            times.push((row.time_ms, fire));
            let deadline = Deadline::Long { press: id, row: RowId(entry.id) };
            press.longs.push(around.timers.set(press.at.plus_ms(row.time_ms), deadline.into()));
        }
        let double = matching(table.rules(Kind::Double, number), key).map(|it| around.tables.row(it.id).time_ms).max();
        if let Some(time_ms) = double {
            let end = press.at.plus_ms(time_ms);
            press.double = Some((around.timers.set(end, Deadline::Double { press: id }.into()), end));
        }

        if press.longs.is_empty() && press.double.is_none() {
            press.stage = Stage::Settled;
            match (press.press_row, press.release_row) {
                (Some(row), _) => around.found.push(GestureEvent::Press { tap: press.tap(index), row }),
                (None, Some(_)) => {}
                (None, None) => around.found.push(GestureEvent::Unmatched { tap: press.tap(index) }),
            }
            return;
        }
        press.stage = Stage::Waiting;
        match press.press_row.filter(|row| is_eager(around.tables, *row)) {
            Some(row) => {
                press.press_row = None;
                around.found.push(GestureEvent::Press { tap: press.tap(index), row });
            }
            None => around.found.push(GestureEvent::Deferred { tap: press.tap(index) }),
        }
    }

    fn second_tap<T: From<Deadline>>(&mut self, first: u32, second: u32, around: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[second as usize].as_ref() else { return };
        let at = press.at;
        let (key, mode) = (press.key, press.mode);
        let table = around.tables.device(mode, key.device);
        let gap = self.presses[first as usize].as_ref().map_or(u64::MAX, |it| at.since(it.at));
        let row = matching(table.rules(Kind::Double, usize::from(key.number)), key)
            .find(|it| gap < u64::from(around.tables.row(it.id).time_ms) * 1000)
            .map(|it| RowId(it.id));
        match row {
            Some(row) => {
                self.cancel_timers(first, around);
                let earlier = self.presses[first as usize].as_ref().map_or(Trail::default(), |it| it.trail);
                self.forget(first);
                // `forget` frees the key only if the first press still owned it; the second one
                // does by now.
                if let Some(press) = self.presses[second as usize].as_mut() {
                    press.stage = Stage::Taken;
                    press.trail = press.trail.and(earlier);
                    around.found.push(GestureEvent::Double { tap: press.tap(second), row });
                }
            }
            None => {
                self.resume_double(first, around);
                self.tap(second, around);
            }
        }
    }

    /// The press that might have been a second tap went elsewhere; the first one waits out the rest
    /// of its window.
    fn resume_double<T: From<Deadline>>(&mut self, first: u32, around: &mut GestureCx<'_, T>) {
        let id = self.id(first);
        let Some(press) = self.presses[first as usize].as_mut() else { return };
        if let Some((timer, end)) = press.double {
            around.timers.cancel(timer);
            press.double = Some((around.timers.set(end, Deadline::Double { press: id }.into()), end));
        }
    }

    fn cancel_timers<T>(&mut self, index: u32, around: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        for timer in press.longs.drain(..).chain(press.double.take().map(|it| it.0)) {
            around.timers.cancel(timer);
        }
    }

    fn long_deadline<T: From<Deadline>>(&mut self, id: PressId, row: RowId, around: &mut GestureCx<'_, T>) {
        if self.press(id).is_none() {
            return;
        }
        let Some(press) = self.presses[id.index as usize].as_mut() else { return };
        press.held_long = true;
        press.press_row = None;
        press.release_row = None;
        if let Some((timer, _)) = press.double.take() {
            around.timers.cancel(timer);
        }
        let TriggerKind::LongPress { fire, .. } = around.tables.row(row.0).trigger.kind else { return };
        match fire {
            Fire::Threshold => around.found.push(GestureEvent::Long { tap: press.tap(id.index), row }),
            Fire::Release => press.long_on_release = Some(row),
        }
    }

    fn double_deadline<T>(&mut self, id: PressId, around: &mut GestureCx<'_, T>) {
        if self.press(id).is_none() {
            return;
        }
        let Some(press) = self.presses[id.index as usize].as_mut() else { return };
        press.double = None;
        if press.up {
            self.resolve_as_press(id.index, around);
            self.forget(id.index);
        } else if press.longs.is_empty() {
            self.resolve_as_press(id.index, around);
        }
    }

    /// Neither long nor double: the press is what it looked like at first.
    fn resolve_as_press<T>(&mut self, index: u32, around: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        let eager_fired = press.press_row.is_none();
        press.stage = Stage::Settled;
        let table = around.tables.device(press.mode, press.key.device);
        let had_press = table
            .first(Kind::Press, usize::from(press.key.number), press.key.channels(), u16::from(press.velocity))
            .is_some();
        match press.press_row.take() {
            Some(row) => around.found.push(GestureEvent::Press { tap: press.tap(index), row }),
            None if eager_fired && had_press => {}
            None if press.release_row.is_some() => {}
            None => around.found.push(GestureEvent::Unmatched { tap: press.tap(index) }),
        }
        if press.up
            && let Some(row) = press.release_row.take()
        {
            around.found.push(GestureEvent::Release { tap: press.tap(index), row });
        }
    }

    // Up.

    fn up<T: From<Deadline>>(&mut self, key: KeyRef, trail: Trail, around: &mut GestureCx<'_, T>) {
        let Some(index) = self.current(key) else { return };
        // The release decides with the press what fires, so its taint counts too.
        if let Some(press) = self.presses[index as usize].as_mut() {
            press.trail = press.trail.and(trail);
        }
        if self.presses[index as usize].as_ref().is_some_and(|it| it.stage == Stage::Chord) {
            self.close_window(key.device, key.lane, None, around);
        }
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        if press.up {
            return;
        }
        press.up = true;
        match press.stage {
            Stage::Taken => {
                let owner = press.chord_owner.filter(|it| *it != press.tap(index).id);
                around.found.push(GestureEvent::Up { tap: press.tap(index) });
                let taint = press.trail.taint;
                if let Some(owner) = owner.and_then(|it| Some(self.press(it)?.tap(it.index))) {
                    // The first key to come up ends the chord.
                    around.found.push(GestureEvent::Up { tap: PressInfo { taint: owner.taint.max(taint), ..owner } });
                }
                self.forget(index);
            }
            Stage::Settled | Stage::Chord => {
                let release = press.release_row.take();
                around.found.push(GestureEvent::Up { tap: press.tap(index) });
                if let Some(row) = release {
                    around.found.push(GestureEvent::Release { tap: press.tap(index), row });
                }
                self.forget(index);
            }
            Stage::Waiting => {
                for timer in press.longs.drain(..) {
                    around.timers.cancel(timer);
                }
                if press.held_long {
                    let long = press.long_on_release.take();
                    if let Some(row) = long {
                        around.found.push(GestureEvent::Long { tap: press.tap(index), row });
                    }
                    around.found.push(GestureEvent::Up { tap: press.tap(index) });
                    self.forget(index);
                } else if press.double.is_some() {
                    around.found.push(GestureEvent::Up { tap: press.tap(index) });
                } else {
                    // What fires now is held until the `Up` right behind it.
                    press.up = false;
                    let release = press.release_row;
                    self.resolve_as_press(index, around);
                    if let Some(press) = self.presses[index as usize].as_mut() {
                        press.up = true;
                        around.found.push(GestureEvent::Up { tap: press.tap(index) });
                        if let Some(row) = release {
                            around.found.push(GestureEvent::Release { tap: press.tap(index), row });
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

impl Press {
    fn tap(&self, index: u32) -> PressInfo {
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
