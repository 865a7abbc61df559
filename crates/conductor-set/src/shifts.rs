//! Records which author shifted ids, and which callers have stale ids. Ids are positions, so a
//! delete by one caller changes the meaning of another caller's ids.

use crate::error::LiveError;
use crate::open_set::{Author, Guard};
use std::collections::BTreeMap;

/// The author of all changes that do not come from a caller: changes by the person at the computer,
/// by another program, or by an undo from a pad.
const SOMEBODY: Author = Author(u64::MAX);

/// Counts the shifts of ids by author.
#[derive(Debug, Clone, Default)]
pub struct Shifts {
    count: u64,
    /// For each author, the value of `count` after the last shift by this author.
    by: BTreeMap<Author, u64>,
}

impl Shifts {
    /// Number of shifts so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Records a shift by the caller to which this guard belongs.
    pub fn ours(&mut self, guard: &Guard) {
        self.add(guard.seen.map_or(SOMEBODY, |(who, _)| who));
    }

    /// Records a shift by an author that is not a caller. All callers must read the ids again.
    pub fn foreign(&mut self) {
        self.add(SOMEBODY);
    }

    fn add(&mut self, author: Author) {
        self.count += 1;
        self.by.insert(author, self.count);
    }

    /// Refuses ids that another author shifted after the caller last read them.
    ///
    /// # Errors
    /// [`LiveError::StructureShifted`]
    pub fn admit(&self, guard: &Guard, positional: bool) -> Result<(), LiveError> {
        let behind = guard.seen.is_some_and(|(who, seen)| self.by.iter().any(|(by, at)| *by != who && *at > seen));
        if behind && positional { Err(LiveError::StructureShifted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_somebody_else_moved_makes_an_id_stale() {
        let mut shifts = Shifts::default();
        let (me, you) = (Author(1), Author(2));
        let guard = |who, seen| Guard { expect_revision: None, seen: Some((who, seen)) };
        shifts.ours(&guard(me, 0));
        assert!(shifts.admit(&guard(me, 0), true).is_ok());
        assert!(shifts.admit(&guard(you, 0), true).is_err());
        assert!(shifts.admit(&guard(you, 1), true).is_ok());
        assert!(shifts.admit(&guard(you, 0), false).is_ok());
        shifts.foreign();
        assert!(shifts.admit(&guard(me, 1), true).is_err());
        assert!(shifts.admit(&Guard::default(), true).is_ok(), "a caller without `seen` was refused");
    }
}
