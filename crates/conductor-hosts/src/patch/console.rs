//! The console of patches: one ring buffer of lines per host. All hosts share one sequence of line
//! numbers. Each principal can clear its own view. The mark of a principal is the number of the
//! last line that it has cleared.

use crate::system::Clock;
use conductor_core::timestamp::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Maximum number of lines per host.
const KEPT: usize = 1000;
/// Maximum number of principals with a mark. The number is limited, because clients choose their
/// own names.
const MARKS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Conductor,
    Pd,
    Max,
}

impl Source {
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Conductor => "conductor",
            Source::Pd => "pd",
            Source::Max => "max",
        }
    }
}

/// The severity of a line; the most severe level is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
    Info,
    Debug,
}

impl Level {
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub seq: u64,
    pub time: Timestamp,
    pub level: Level,
    pub source: Source,
    pub text: String,
    pub patch_id: Option<String>,
    pub object: Option<String>,
}

#[derive(Default)]
pub struct Console {
    rings: BTreeMap<Source, VecDeque<Entry>>,
    last: u64,
    cleared: BTreeMap<String, u64>,
}

/// Writes to the console from any thread.
#[derive(Clone)]
pub struct Voice {
    console: Arc<Mutex<Console>>,
    clock: Arc<dyn Clock>,
}

impl Voice {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Voice { console: Arc::default(), clock }
    }

    pub fn say(&self, source: Source, level: Level, patch_id: Option<&str>, object: Option<String>, text: String) {
        let entry = Entry {
            seq: 0,
            time: Timestamp::from_millis(self.clock.wall_ms()),
            level,
            source,
            text,
            patch_id: patch_id.map(str::to_owned),
            object,
        };
        self.console().push(entry);
    }

    pub fn console(&self) -> MutexGuard<'_, Console> {
        self.console.lock()
    }
}

/// Which lines to read.
pub struct Question<'a> {
    pub principal: &'a str,
    pub patch_id: Option<&'a str>,
    pub after: Option<u64>,
    pub level: Option<Level>,
    pub lines: usize,
}

impl Console {
    pub fn push(&mut self, mut entry: Entry) {
        self.last += 1;
        entry.seq = self.last;
        let ring = self.rings.entry(entry.source).or_default();
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(entry);
    }

    /// Returns lines, oldest first, and the number to continue from. With `after`, these are the
    /// first lines after that number, so that no line is skipped. Without `after`, they are the
    /// newest lines.
    pub fn read(&self, question: &Question<'_>) -> (Vec<Entry>, u64) {
        let mark = self.cleared.get(question.principal).copied().unwrap_or(0);
        let from = question.after.unwrap_or(0).max(mark);
        let mut found: Vec<&Entry> = self
            .rings
            .values()
            .flatten()
            .filter(|it| it.seq > from)
            .filter(|it| question.level.is_none_or(|level| it.level <= level))
            .filter(|it| {
                question.patch_id.is_none_or(|id| {
                    it.patch_id
                        .as_deref()
                        .is_some_and(|of| of == id || of.strip_prefix(id).is_some_and(|rest| rest.starts_with('/')))
                })
            })
            .collect();
        found.sort_by_key(|it| it.seq);
        let all = found.len();
        let cut = all > question.lines;
        if question.after.is_some() {
            found.truncate(question.lines);
        } else {
            found.drain(..all.saturating_sub(question.lines));
        }
        // If the list was truncated, continue after its last line. Otherwise continue after the
        // newest line, even if a filter has hidden it.
        let next = match found.last() {
            Some(last) if cut && question.after.is_some() => last.seq,
            Some(_) | None => self.last,
        };
        (found.into_iter().cloned().collect(), next)
    }

    /// Hides the current lines from this principal only.
    pub fn clear(&mut self, principal: &str) {
        if self.cleared.len() >= MARKS && !self.cleared.contains_key(principal) {
            self.cleared.pop_first();
        }
        self.cleared.insert(principal.to_owned(), self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(source: Source, level: Level, text: &str) -> Entry {
        Entry {
            seq: 0,
            time: Timestamp::default(),
            level,
            source,
            text: text.into(),
            patch_id: Some("a/obj-1".into()),
            object: None,
        }
    }

    fn question(principal: &str) -> Question<'_> {
        Question { principal, patch_id: None, after: None, level: None, lines: 50 }
    }

    fn texts(read: (Vec<Entry>, u64)) -> Vec<String> {
        read.0.into_iter().map(|it| it.text).collect()
    }

    #[test]
    fn reading_on_loses_and_repeats_nothing() {
        let mut console = Console::default();
        let mut seen = Vec::new();
        let mut next = 0;
        for n in 0..20 {
            console.push(line(if n % 3 == 0 { Source::Pd } else { Source::Conductor }, Level::Info, &n.to_string()));
            if n % 4 == 0 {
                let (lines, on) = console.read(&Question { after: Some(next), lines: 3, ..question("a") });
                seen.extend(lines.into_iter().map(|it| it.text));
                next = on;
            }
        }
        loop {
            let (lines, on) = console.read(&Question { after: Some(next), lines: 3, ..question("a") });
            if lines.is_empty() {
                break;
            }
            seen.extend(lines.into_iter().map(|it| it.text));
            next = on;
        }
        assert_eq!(seen, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn clearing_is_for_oneself() {
        let mut console = Console::default();
        console.push(line(Source::Conductor, Level::Error, "one"));
        console.clear("a");
        console.push(line(Source::Conductor, Level::Debug, "two"));
        assert_eq!(texts(console.read(&question("a"))), ["two"]);
        assert_eq!(texts(console.read(&question("b"))), ["one", "two"]);
        assert_eq!(texts(console.read(&Question { level: Some(Level::Warning), ..question("b") })), ["one"]);
        assert_eq!(texts(console.read(&Question { patch_id: Some("a"), ..question("b") })), ["one", "two"]);
        assert!(texts(console.read(&Question { patch_id: Some("obj-1"), ..question("b") })).is_empty());
    }

    #[test]
    fn the_ring_is_bounded_and_keeps_the_newest() {
        let mut console = Console::default();
        for n in 0..1500 {
            console.push(line(Source::Conductor, Level::Info, &n.to_string()));
        }
        let lines = texts(console.read(&Question { lines: 5000, ..question("a") }));
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (1000, Some("1499")));
    }
}
