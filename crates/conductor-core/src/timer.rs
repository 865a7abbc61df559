//! Deadlines in virtual time. Deadlines with the same time keep the order in which they were set.

use crate::event::Micros;
use std::collections::BTreeMap;

/// Identifies a deadline for [`Timers::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey(Micros, u64);

/// A set of deadlines.
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
    /// Sets a deadline.
    pub fn set(&mut self, at: Micros, what: T) -> TimerKey {
        self.order += 1;
        let key = TimerKey(at, self.order);
        self.due.insert(key, what);
        key
    }

    /// Cancels a deadline, if it is still set.
    pub fn cancel(&mut self, key: TimerKey) {
        self.due.remove(&key);
    }

    /// The time of the earliest deadline.
    pub fn next(&self) -> Option<Micros> {
        self.due.first_key_value().map(|(key, _)| key.0)
    }

    /// Removes and returns the earliest deadline that is not after `now`.
    pub fn pop(&mut self, now: Micros) -> Option<(Micros, T)> {
        let first = self.due.first_entry().filter(|it| it.key().0 <= now)?;
        let at = first.key().0;
        Some((at, first.remove()))
    }

    /// The number of deadlines.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether no deadline is set.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Cancels the deadlines that `keep` rejects.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.due.retain(|_, what| keep(what));
    }
}
