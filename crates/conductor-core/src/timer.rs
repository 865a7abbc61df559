//! Deadlines in virtual time. Deadlines with the same time keep the order in which they were set.

use crate::event::Micros;

/// Identifies a deadline for [`Timers::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey(Micros, u64);

/// A set of deadlines.
#[derive(Clone, Debug)]
pub struct Timers<T> {
    /// Sorted in descending order, so that the next deadline is removed from the end. A sorted list
    /// needs no allocation per deadline, and there are rarely more than a few dozen deadlines.
    due: Vec<(TimerKey, T)>,
    order: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers { due: Vec::new(), order: 0 }
    }
}

impl<T> Timers<T> {
    /// Sets a deadline.
    pub fn set(&mut self, at: Micros, what: T) -> TimerKey {
        self.order += 1;
        let key = TimerKey(at, self.order);
        let place = self.due.partition_point(|it| it.0 > key);
        self.due.insert(place, (key, what));
        key
    }

    /// Cancels a deadline, if it is still set.
    pub fn cancel(&mut self, key: TimerKey) {
        if let Ok(place) = self.due.binary_search_by(|it| key.cmp(&it.0)) {
            self.due.remove(place);
        }
    }

    /// The time of the earliest deadline.
    pub fn next(&self) -> Option<Micros> {
        self.due.last().map(|(key, _)| key.0)
    }

    /// Removes and returns the earliest deadline that is not after `now`.
    pub fn pop(&mut self, now: Micros) -> Option<(Micros, T)> {
        self.due.pop_if(|it| it.0.0 <= now).map(|(key, what)| (key.0, what))
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
        self.due.retain(|(_, what)| keep(what));
    }

    /// Allocates space for this many further deadlines.
    pub fn reserve(&mut self, more: usize) {
        self.due.reserve(more);
    }

    /// The number of deadlines that can be set without an allocation.
    pub fn room(&self) -> usize {
        self.due.capacity() - self.due.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn deadlines_pop_in_order_of_time_and_then_of_setting(steps in prop::collection::vec((0u8..3, 0u64..20), 0..200)) {
            let (mut timers, mut model, mut keys) = (Timers::default(), BTreeMap::new(), Vec::new());
            for (index, (kind, number)) in steps.into_iter().enumerate() {
                match kind {
                    0 => {
                        let key = timers.set(Micros(number), index);
                        model.insert(key, index);
                        keys.push(key);
                    }
                    1 if !keys.is_empty() => {
                        let key = keys[number as usize % keys.len()];
                        timers.cancel(key);
                        model.remove(&key);
                    }
                    _ => {
                        let first = model.first_key_value().map(|(key, what)| (*key, *what));
                        let due = first.filter(|it| it.0.0 <= Micros(number));
                        prop_assert_eq!(timers.pop(Micros(number)), due.map(|it| (it.0.0, it.1)));
                        due.map(|it| model.remove(&it.0));
                    }
                }
                prop_assert_eq!(timers.next(), model.keys().next().map(|it| it.0));
                prop_assert_eq!(timers.len(), model.len());
            }
        }
    }
}
