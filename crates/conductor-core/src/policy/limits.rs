//! Limits of the pipeline, the token buckets of rate limits, and the delays between retries.
//!
//! The token bucket uses whole numbers and the same monotonic milliseconds as the breaker. Time is
//! a parameter, so tests can use random schedules without a clock. Not here: concurrency slots,
//! which are semaphores of the pipeline.

use crate::config::form::whole;
use crate::config::section::{section, table};
use crate::principal::Principal;
use std::collections::HashMap;

section! {
    /// The refill rate and the size of a token bucket.
    #[derive(Copy, Eq)]
    pub struct Rate {
        /// Calls per minute in the long run.
        per_minute: u32 = 600, whole(1..=1_000_000), "120";
        /// Maximum number of calls at once after a pause.
        burst: u32 = 100, whole(1..=1_000_000), "20";
    }
}

section! {
    /// Limits of calls.
    #[derive(Eq)]
    pub struct Limits {
        /// Maximum number of running calls on all connections. Calls that wait for a person are not
        /// counted.
        in_flight: usize = 256, whole(1..=65_536), "64";
        /// Largest result in bytes.
        result_bytes: usize = 1 << 20, whole(1024..=64 << 20), "262144";
        /// Rate of read-only calls of one principal.
        read: Rate = Rate { per_minute: 6000, burst: 500 }, table();
        /// Rate of other calls of one principal.
        effect: Rate = Rate::default(), table();
        /// Maximum number of open approval requests and plans of one principal. The maximum for all
        /// principals together is 32.
        pending_per_principal: usize = 8, whole(1..=32), "4";
        /// Maximum number of new approval requests of one principal per minute.
        asks_per_minute: u32 = 6, whole(1..=600), "12";
    }
}

/// Maximum number of open approval requests and plans of all principals.
pub const PENDING_ALL: usize = 32;

/// Largest arguments of a call in bytes.
pub const ARGUMENT_BYTES: usize = 1 << 20;

/// Number of consecutive `RATE_LIMITED` replies after which the listener stops reading from the
/// connection for one second.
pub const REFUSALS_BEFORE_PAUSE: u32 = 100;

section! {
    /// Automatic retries of reads if a host does not answer.
    #[derive(Copy, Eq)]
    pub struct Retry {
        /// Number of attempts, including the first.
        attempts: u32 = 3, whole(1..=10), "2";
        /// Pause in milliseconds after the first failure. Each further pause is twice as long.
        base_ms: u64 = 500, whole(1..=60_000), "200";
        /// Longest pause in milliseconds.
        cap_ms: u64 = 10_000, whole(1..=600_000), "5000";
    }
}

impl Retry {
    /// Delay after failed attempt `n`, counted from 1. `jitter` is a random number; it lengthens
    /// the delay by at most `base_ms`.
    pub fn delay_ms(&self, n: u32, jitter: u32) -> u64 {
        let doubled = self.base_ms.saturating_mul(1_u64.checked_shl(n.saturating_sub(1)).unwrap_or(u64::MAX));
        let spread = (u128::from(self.base_ms) * u128::from(jitter)) >> 32;
        doubled.min(self.cap_ms).saturating_add(u64::try_from(spread).unwrap_or(0))
    }
}

/// One token bucket. A token is 60 000 units, and `per_minute` units are added per millisecond, so
/// there are no rounding errors.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    /// Number of tokens times 60 000.
    level: u64,
    at_ms: u64,
}

const TOKEN: u64 = 60_000;

impl Bucket {
    /// Creates a full bucket.
    pub fn full(rate: Rate, now_ms: u64) -> Self {
        Self { level: u64::from(rate.burst) * TOKEN, at_ms: now_ms }
    }

    fn refill(&mut self, rate: Rate, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.at_ms);
        let gained = passed.saturating_mul(u64::from(rate.per_minute));
        self.level = self.level.saturating_add(gained).min(u64::from(rate.burst) * TOKEN);
        self.at_ms = self.at_ms.max(now_ms);
    }

    /// Takes one token, or returns the number of milliseconds until the next token. A refused call
    /// takes no token.
    pub fn take(&mut self, rate: Rate, now_ms: u64) -> Result<(), u64> {
        self.refill(rate, now_ms);
        if let Some(left) = self.level.checked_sub(TOKEN) {
            self.level = left;
            return Ok(());
        }
        let missing = TOKEN - self.level;
        Err(missing.div_ceil(u64::from(rate.per_minute).max(1)).max(1))
    }

    fn is_full(&mut self, rate: Rate, now_ms: u64) -> bool {
        self.refill(rate, now_ms);
        self.level == u64::from(rate.burst) * TOKEN
    }
}

/// The kind of call; a principal has one bucket per kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Read-only calls.
    Read,
    /// Calls with an effect.
    Effect,
    /// New approval requests.
    Ask,
}

/// All buckets. Full buckets are removed, so only active principals have buckets.
#[derive(Debug, Default)]
pub struct Rates {
    buckets: HashMap<(Principal, Class), Bucket>,
    sweep_at: usize,
}

impl Rates {
    /// Takes one token, or returns the number of milliseconds to wait.
    pub fn take(&mut self, limits: &Limits, principal: &Principal, class: Class, now_ms: u64) -> Result<(), u64> {
        if self.buckets.len() >= self.sweep_at.max(64) {
            self.buckets.retain(|(_, class), bucket| !bucket.is_full(limits.rate(*class), now_ms));
            self.sweep_at = self.buckets.len() * 2;
        }
        let rate = limits.rate(class);
        self.buckets.entry((principal.clone(), class)).or_insert_with(|| Bucket::full(rate, now_ms)).take(rate, now_ms)
    }
}

impl Limits {
    /// The rate of a class of calls.
    pub const fn rate(&self, class: Class) -> Rate {
        match class {
            Class::Read => self.read,
            Class::Effect => self.effect,
            Class::Ask => Rate { per_minute: self.asks_per_minute, burst: self.asks_per_minute },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_then_the_rate() {
        let rate = Limits::default().effect;
        let mut bucket = Bucket::full(rate, 0);
        assert_eq!((0..200).filter(|_| bucket.take(rate, 0).is_ok()).count(), 100);
        assert_eq!(bucket.take(rate, 0), Err(100));
        assert_eq!(bucket.take(rate, 99), Err(1));
        assert_eq!(bucket.take(rate, 100), Ok(()));
    }

    #[test]
    fn principals_and_classes_do_not_share_and_idle_ones_are_dropped() {
        let limits = Limits::default();
        let mut rates = Rates::default();
        let who = |n: u32| Principal::Cli { uid: n };
        for _ in 0..6 {
            assert_eq!(rates.take(&limits, &who(0), Class::Ask, 0), Ok(()));
        }
        assert_eq!(rates.take(&limits, &who(0), Class::Ask, 0), Err(10_000));
        assert_eq!(rates.take(&limits, &who(0), Class::Read, 0), Ok(()));
        assert_eq!(rates.take(&limits, &who(1), Class::Ask, 0), Ok(()));
        for n in 0..10_000 {
            let _ = rates.take(&limits, &who(n), Class::Read, u64::from(n) * 1000);
        }
        assert!(rates.buckets.len() < 200, "{}", rates.buckets.len());
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        let retry = Retry::default();
        let delays: Vec<u64> = (1..=7).map(|n| retry.delay_ms(n, 0)).collect();
        assert_eq!(delays, [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(retry.delay_ms(1, u32::MAX), 999);
        assert_eq!(retry.delay_ms(u32::MAX, 0), 10_000);
    }

    proptest! {
        /// In any period, at most the burst plus the refill of that period is allowed. A call after
        /// the returned waiting time is allowed.
        #[test]
        fn never_more_than_promised(steps in prop::collection::vec(0..500_u64, 1..200), per_minute in 1..10_000_u32, burst in 1..50_u32) {
            let rate = Rate { per_minute, burst };
            let (mut bucket, mut now, mut passed) = (Bucket::full(rate, 0), 0_u64, 0_u64);
            for step in steps {
                now += step;
                match bucket.take(rate, now) {
                    Ok(()) => passed += 1,
                    Err(wait) => {
                        prop_assert!(bucket.take(rate, now + wait - 1).is_err(), "the returned wait is too long");
                        now += wait;
                        prop_assert!(bucket.take(rate, now).is_ok());
                        passed += 1;
                    }
                }
                prop_assert!(passed * 60_000 <= u64::from(burst) * 60_000 + now * u64::from(per_minute));
            }
        }
    }
}
