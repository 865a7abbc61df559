//! The chord stage of gestures. Presses of one device and channel are collected in a window until
//! they are a chord or cannot become one. Presses of keys that belong to no chord of the mode skip
//! this stage.

use super::{Deadline, GestureCx, GestureEvent, Gestures, Stage, matching};
use crate::event::{DeviceSlot, Micros, Trail};
use crate::mapping::table::{Kind, ModeIndex, RowId, Tables};
use crate::timer::{TimerKey, Timers};

/// The maximum number of members of a chord. The limit keeps a window small during a flood of
/// notes.
const MAX_MEMBERS: usize = 16;

/// The presses in a chord window. The size is fixed, so that a chord does not allocate.
#[derive(Clone, Copy, Default)]
struct Members {
    list: [u32; MAX_MEMBERS],
    len: usize,
}

impl Members {
    fn push(&mut self, index: u32) {
        if let Some(place) = self.list.get_mut(self.len) {
            *place = index;
            self.len += 1;
        }
    }

    fn all(&self) -> &[u32] {
        &self.list[..self.len]
    }
}

#[derive(Default)]
pub(super) struct ChordWindow {
    members: Members,
    candidates: Vec<RowId>,
    opened: Micros,
    mode: ModeIndex,
    timer: Option<TimerKey>,
}

impl ChordWindow {
    /// Allocates space for this many rules.
    pub(super) fn reserve(&mut self, rules: usize) {
        self.candidates.reserve(rules.saturating_sub(self.candidates.len()));
    }

    /// Empties the window and cancels its timer.
    pub(super) fn clear<T>(&mut self, timers: &mut Timers<T>) {
        self.members = Members::default();
        self.candidates.clear();
        if let Some(timer) = self.timer.take() {
            timers.cancel(timer);
        }
    }
}

impl Gestures {
    pub(super) fn chord_press<T: From<Deadline>>(&mut self, index: u32, cx: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[index as usize].as_mut() else { return };
        press.stage = Stage::Chord;
        let (key, at, mode) = (press.key, press.at, press.mode);
        let channel_index = usize::from(key.channel_index);
        if self.keys(key.device).windows[channel_index].members.len == 0 {
            return self.open_window(index, cx);
        }
        if self.keys(key.device).windows[channel_index].mode != mode {
            self.close_window(key.device, key.channel_index, None, cx);
            return self.open_window(index, cx);
        }
        let window = &mut self.keys(key.device).windows[channel_index];
        let opened = window.opened;
        let remains = |row: &RowId| {
            let row = cx.tables.row(row.0);
            at < opened.plus_ms(row.time_ms) && row.chord.contains(&key.number)
        };
        if !window.candidates.iter().any(remains) || window.members.len + 1 >= MAX_MEMBERS {
            return self.close_window(key.device, key.channel_index, Some(index), cx);
        }
        window.members.push(index);
        window.candidates.retain(remains);
        self.settle_window(key.device, key.channel_index, cx);
    }

    fn open_window<T: From<Deadline>>(&mut self, index: u32, cx: &mut GestureCx<'_, T>) {
        let Some(press) = self.presses[index as usize].as_ref() else { return };
        let (key, at, mode, info) = (press.key, press.at, press.mode, press.info(index));
        let table = cx.tables.device(mode, key.device);
        let candidates = matching(table.rules(Kind::Chord, usize::from(key.number)), key).map(|it| RowId(it.id));
        let window = &mut self.keys(key.device).windows[usize::from(key.channel_index)];
        window.members.push(index);
        window.candidates.clear();
        window.candidates.extend(candidates);
        window.opened = at;
        window.mode = mode;
        cx.found.push(GestureEvent::Deferred { press: info });
        self.settle_window(key.device, key.channel_index, cx);
    }

    /// Closes the window if no larger chord is possible. Otherwise sets the next deadline.
    fn settle_window<T: From<Deadline>>(&mut self, device: DeviceSlot, channel_index: u8, cx: &mut GestureCx<'_, T>) {
        let window = &mut self.keys(device).windows[usize::from(channel_index)];
        if let Some(timer) = window.timer.take() {
            cx.timers.cancel(timer);
        }
        let pressed = window.members.len;
        let larger = window.candidates.iter().any(|row| cx.tables.row(row.0).chord.len() > pressed);
        if !larger {
            return self.close_window(device, channel_index, None, cx);
        }
        let opened = window.opened;
        let next = window.candidates.iter().map(|row| opened.plus_ms(cx.tables.row(row.0).time_ms)).min();
        if let Some(next) = next {
            window.timer = Some(cx.timers.set(next, Deadline::Chord { device, channel_index }.into()));
        }
    }

    pub(super) fn chord_deadline<T: From<Deadline>>(
        &mut self,
        device: DeviceSlot,
        channel_index: u8,
        cx: &mut GestureCx<'_, T>,
    ) {
        let now = cx.now;
        let window = &mut self.keys(device).windows[usize::from(channel_index)];
        window.timer = None;
        let opened = window.opened;
        window.candidates.retain(|row| now < opened.plus_ms(cx.tables.row(row.0).time_ms));
        self.settle_window(device, channel_index, cx);
    }

    /// Closes the window. The largest chord among the pressed keys fires; the other presses enter
    /// the tap stage in order. `last` is the press after which no larger chord is possible. If this
    /// press does not complete a chord, it opens a new window.
    pub(super) fn close_window<T: From<Deadline>>(
        &mut self,
        device: DeviceSlot,
        channel_index: u8,
        last: Option<u32>,
        cx: &mut GestureCx<'_, T>,
    ) {
        let window = &mut self.keys(device).windows[usize::from(channel_index)];
        if let Some(timer) = window.timer.take() {
            cx.timers.cancel(timer);
        }
        window.candidates.clear();
        let mut members = std::mem::take(&mut window.members);
        let mode = window.mode;
        last.into_iter().for_each(|it| members.push(it));
        let members = members.all();
        let chord = self.largest_chord(device, mode, members, cx.tables);
        let owner = chord.and_then(|row| {
            let keys = &cx.tables.row(row.0).chord;
            members.iter().rev().copied().find(|it| self.number(*it).is_some_and(|number| keys.contains(&number)))
        });
        if let (Some(row), Some(at)) = (chord, owner) {
            let keys = &cx.tables.row(row.0).chord;
            let owner = self.id(at);
            let parts = members.iter().filter_map(|it| self.presses[*it as usize].as_ref());
            let trail = parts
                .filter(|it| keys.contains(&it.key.number))
                .fold(Trail::default(), |trail, it| trail.and(it.trail));
            let Some(press) = self.presses[at as usize].as_mut() else { return };
            press.trail = trail;
            let info = press.info(at);
            for index in members {
                let Some(press) = self.presses[*index as usize].as_mut() else { continue };
                if keys.contains(&press.key.number) {
                    press.stage = Stage::Taken;
                    press.chord_owner = Some(owner);
                    if let Some(first) = press.earlier.take() {
                        self.resume_double(first, cx);
                    }
                }
            }
            cx.found.push(GestureEvent::Fired { press: info, row });
        }
        for index in members.iter().copied() {
            if self.presses[index as usize].as_ref().is_none_or(|it| it.stage != Stage::Chord) {
                continue;
            }
            if last == Some(index) {
                self.open_window(index, cx);
                continue;
            }
            let earlier = self.presses[index as usize].as_mut().and_then(|it| it.earlier.take());
            match earlier {
                Some(first) => self.second_tap(first, index, cx),
                None => self.tap_stage(index, cx),
            }
        }
    }

    fn number(&self, index: u32) -> Option<u8> {
        self.presses[index as usize].as_ref().map(|it| it.key.number)
    }

    /// The largest chord whose keys were all pressed within its time. If several have the same
    /// size, precedence decides.
    fn largest_chord(&self, device: DeviceSlot, mode: ModeIndex, members: &[u32], tables: &Tables) -> Option<RowId> {
        let table = tables.device(mode, device);
        let presses = || members.iter().filter_map(|it| self.presses[*it as usize].as_ref());
        let mut best: Option<RowId> = None;
        for press in presses() {
            for entry in matching(table.rules(Kind::Chord, usize::from(press.key.number)), press.key) {
                let row = tables.row(entry.id);
                let times = || row.chord.iter().map(|key| presses().find(|it| it.key.number == *key).map(|it| it.at));
                // `None` is less than any time, so the minimum is `None` if a key is missing.
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
}
