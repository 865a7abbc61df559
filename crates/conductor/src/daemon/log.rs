//! What the daemon says on stderr while it runs: one line per change of state, filtered by `logging.level`.
//!
//! Not here: the trace of events, and the audit log of calls. Nothing logs in a device callback.

use crate::outside::Clock;
use conductor_core::config::LogLevel;
use conductor_core::timestamp::Timestamp;
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    level: AtomicU8,
    clock: Arc<dyn Clock>,
    // A lock, because lines of several threads must not mix.
    sink: Mutex<Box<dyn Write + Send>>,
}

impl Log {
    pub fn new(clock: Arc<dyn Clock>, sink: Box<dyn Write + Send>) -> Self {
        Log(Arc::new(Inner { level: AtomicU8::new(rank(LogLevel::default())), clock, sink: Mutex::new(sink) }))
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
        let mut sink = self.0.sink.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed stderr is no reason to stop making music.
        let _ = writeln!(sink, "{at} {word} {text}");
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
    use crate::outside::ManualClock;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
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
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "1970-01-01T00:00:00.000Z info one\n1970-01-01T00:00:00.000Z debug three\n");
    }
}
