//! Deadlines in virtual time. Equal times keep the order in which they were set, so a run is the
//! same however often it is polled.

use crate::event::Micros;
use std::collections::BTreeMap;

/// Names one deadline, to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey(Micros, u64);

#[derive(Clone, Debug)]
pub struct Timers<T> {
    due: BTreeMap<TimerKey, T>,
    order: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers { due: BTreeMap::new(), order: 0 }
    }
}

impl<T> Timers<T> {
    pub fn set(&mut self, at: Micros, what: T) -> TimerKey {
        self.order += 1;
        let key = TimerKey(at, self.order);
        self.due.insert(key, what);
        key
    }

    pub fn cancel(&mut self, key: TimerKey) {
        self.due.remove(&key);
    }

    pub fn next(&self) -> Option<Micros> {
        self.due.first_key_value().map(|(key, _)| key.0)
    }

    /// The earliest deadline that is not after `now`.
    pub fn pop(&mut self, now: Micros) -> Option<(Micros, T)> {
        let first = self.due.first_entry().filter(|it| it.key().0 <= now)?;
        let at = first.key().0;
        Some((at, first.remove()))
    }

    pub fn len(&self) -> usize {
        self.due.len()
    }

    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.due.retain(|_, what| keep(what));
    }
}
