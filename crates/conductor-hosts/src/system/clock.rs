//! The daemon's two clocks: a monotonic clock for gestures and deadlines, and wall time for people.

#![expect(clippy::disallowed_methods, reason = "the only file that reads the real clocks")]

use conductor_core::event::Micros;
use conductor_core::timestamp::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock and wall time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Microseconds since this clock was created.
    fn now(&self) -> Micros;
    fn wall(&self) -> SystemTime;

    /// Wall time in the time zone of this machine. The default implementation returns UTC.
    fn local(&self) -> LocalTime {
        LocalTime::utc(self.wall_ms())
    }

    /// Wall time in milliseconds since the epoch.
    fn wall_ms(&self) -> u64 {
        self.wall().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.wall_ms())
    }

    /// Milliseconds of the monotonic clock, for intervals.
    fn now_ms(&self) -> u64 {
        self.now().0 / 1000
    }
}

/// The parts of local time that the conditions of a mapping use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    pub minute_of_day: u16,
    /// 1 is Monday.
    pub weekday: u8,
}

impl LocalTime {
    pub fn utc(wall_ms: u64) -> Self {
        let minutes = wall_ms / 60_000;
        // 1 January 1970 was a Thursday.
        LocalTime { minute_of_day: (minutes % 1440) as u16, weekday: ((minutes / 1440 + 3) % 7 + 1) as u8 }
    }
}

#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    pub fn new() -> Self {
        RealClock { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        RealClock::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Micros {
        Micros(self.start.elapsed().as_micros() as u64)
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn local(&self) -> LocalTime {
        use chrono::{Datelike, Timelike};
        let now = chrono::Local::now();
        LocalTime {
            minute_of_day: (now.hour() * 60 + now.minute()) as u16,
            weekday: now.weekday().number_from_monday() as u8,
        }
    }
}

/// A clock that moves only when a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicU64,
    wall_start_ms: AtomicU64,
}

impl ManualClock {
    pub fn at_wall_ms(wall_start_ms: u64) -> Arc<Self> {
        Arc::new(ManualClock { micros: AtomicU64::new(0), wall_start_ms: AtomicU64::new(wall_start_ms) })
    }

    /// Sets wall time back, as a person can do.
    pub fn set_wall_back(&self, by: Duration) {
        self.wall_start_ms.fetch_sub(by.as_millis() as u64, Ordering::SeqCst);
    }

    pub fn set_wall_forward(&self, by: Duration) {
        self.wall_start_ms.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }

    pub fn advance(&self, by: Duration) {
        self.micros.fetch_add(by.as_micros() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        Micros(self.micros.load(Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        let start = Duration::from_millis(self.wall_start_ms.load(Ordering::SeqCst));
        UNIX_EPOCH + start + Duration::from_micros(self.now().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_weekdays_and_minutes() {
        assert_eq!(LocalTime::utc(0), LocalTime { minute_of_day: 0, weekday: 4 });
        // Sunday 2001-09-09 01:46:40.
        assert_eq!(LocalTime::utc(1_000_000_000_000), LocalTime { minute_of_day: 106, weekday: 7 });
    }
}
