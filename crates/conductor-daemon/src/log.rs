//! The daemon's log on stderr: one line per change of state, filtered by `logging.level`.
//!
//! A separate thread writes the lines, because the reader of stderr may stop reading and the owner
//! must not wait.
//!
//! Not here: the trace of events, and the audit log of calls. Device callbacks never log.

use conductor_core::config::LogLevel;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::secrets::Scrubber;
use conductor_hosts::system::Clock;
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The maximum number of lines that are queued for a slow reader; further lines are lost.
const BACKLOG: usize = 1024;
/// The longest time that a stop waits until the last lines are written.
const LAST_WORDS: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    level: AtomicU8,
    clock: Arc<dyn Clock>,
    lines: SyncSender<Line>,
    scrubber: OnceLock<Arc<Scrubber>>,
}

enum Line {
    Text(String),
    /// Requests a reply when all earlier lines have been written.
    Flush(SyncSender<()>),
}

fn write_all(lines: &Receiver<Line>, sink: &mut dyn Write) {
    for line in lines {
        match line {
            // A closed stderr must not stop the daemon.
            Line::Text(text) => drop(sink.write_all(text.as_bytes())),
            Line::Flush(done) => drop((sink.flush(), done.try_send(()))),
        }
    }
}

impl Log {
    pub fn new(clock: Arc<dyn Clock>, mut sink: Box<dyn Write + Send>) -> Self {
        let (lines, written) = mpsc::sync_channel(BACKLOG);
        // If the thread cannot be started, nothing is logged, but the daemon works.
        let _ = std::thread::Builder::new().name("log".into()).spawn(move || write_all(&written, &mut *sink));
        Log(Arc::new(Inner {
            level: AtomicU8::new(rank(LogLevel::default())),
            clock,
            lines,
            scrubber: OnceLock::new(),
        }))
    }

    /// Waits until all lines so far are written, but at most `LAST_WORDS`.
    pub fn flush(&self) {
        let (done, written) = mpsc::sync_channel(1);
        if self.0.lines.try_send(Line::Flush(done)).is_ok() {
            let _ = written.recv_timeout(LAST_WORDS);
        }
    }

    /// Removes secrets from all later lines, with this scrubber.
    pub fn clean_by(&self, scrubber: &Arc<Scrubber>) {
        let _ = self.0.scrubber.set(Arc::clone(scrubber));
    }

    pub fn set_level(&self, level: LogLevel) {
        self.0.level.store(rank(level), Ordering::Relaxed);
    }

    pub fn error(&self, text: impl Display) {
        self.write(LogLevel::Error, "error", &text);
    }

    pub fn warn(&self, text: impl Display) {
        self.write(LogLevel::Warn, "warn", &text);
    }

    pub fn info(&self, text: impl Display) {
        self.write(LogLevel::Info, "info", &text);
    }

    pub fn debug(&self, text: impl Display) {
        self.write(LogLevel::Debug, "debug", &text);
    }

    fn write(&self, level: LogLevel, word: &str, text: &dyn Display) {
        if rank(level) > self.0.level.load(Ordering::Relaxed) {
            return;
        }
        let at = Timestamp::from_millis(self.0.clock.wall_ms());
        let mut line = format!("{at} {word} {text}\n");
        if let Some(scrubber) = self.0.scrubber.get() {
            scrubber.string(&mut line);
        }
        // Never waits: if the reader has stopped reading, lines are lost.
        let _ = self.0.lines.try_send(Line::Text(line));
    }
}

fn rank(level: LogLevel) -> u8 {
    match level {
        LogLevel::Error => 0,
        LogLevel::Warn => 1,
        LogLevel::Info => 2,
        LogLevel::Debug => 3,
        LogLevel::Trace => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_hosts::system::ManualClock;
    use parking_lot::{Condvar, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_level_decides_what_is_written() {
        let page = Page::default();
        let log = Log::new(ManualClock::at_wall_ms(0), Box::new(page.clone()));
        log.info("one");
        log.debug("two");
        log.set_level(LogLevel::Debug);
        log.debug("three");
        log.set_level(LogLevel::Error);
        log.warn("four");
        log.flush();
        let text = String::from_utf8(page.0.lock().clone()).unwrap();
        assert_eq!(text, "1970-01-01T00:00:00.000Z info one\n1970-01-01T00:00:00.000Z debug three\n");
    }

    /// A reader that has stopped reading.
    #[derive(Clone, Default)]
    struct Stuck(Arc<(Mutex<bool>, Condvar)>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let (open, changed) = &*self.0;
            changed.wait_while(&mut open.lock(), |open| !*open);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stopped_reading_holds_nobody_up() {
        let stuck = Stuck::default();
        let log = Log::new(ManualClock::at_wall_ms(0), Box::new(stuck.clone()));
        for _ in 0..10 * BACKLOG {
            log.info("line");
        }
        *stuck.0.0.lock() = true;
        stuck.0.1.notify_all();
    }
}
