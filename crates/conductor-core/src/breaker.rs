//! The state machine of one circuit breaker. It decides when the breaker trips, which call is a
//! probe, and when the breaker closes again.
//!
//! Time is a parameter, in milliseconds of a monotonic clock. Not here: the breakers of all tools,
//! and the guard that returns a permit when a call panics or is cancelled; both are in the
//! pipeline. Dropping a permit does not return it: every call must end with one explicit
//! [`Breaker::settle`].

use crate::config::form::{named, whole};
use crate::config::section::section;
use crate::named_enum::named_enum;
use std::collections::VecDeque;

named_enum! {
    /// How failures are counted.
    pub enum Mode {
        /// Trips after `failures` failures within `window_ms`. Successes between them do not reset
        /// the count.
        Window = "window",
        /// Trips after `failures` consecutive failures, regardless of time.
        Consecutive = "consecutive",
    }
}

section! {
    /// The circuit breaker of one tool.
    #[derive(Copy, Eq)]
    pub struct Settings {
        /// How failures are counted. `window`: failures within `window_ms`, even if other calls
        /// succeed between them. `consecutive`: failures in a row, regardless of time.
        mode: Mode = Mode::Window, named(), "\"consecutive\"";
        /// Number of failures that trip the circuit.
        failures: u32 = 5, whole(1..=1000), "3";
        /// Length of the window in milliseconds; only for the mode `window`.
        window_ms: u64 = 60_000, whole(1..=86_400_000), "30000";
        /// Time in milliseconds until a tripped circuit lets one call through as a test.
        open_ms: u64 = 30_000, whole(1..=86_400_000), "10000";
        /// Number of successful test calls in a row that close the circuit.
        close_after: u32 = 1, whole(1..=100), "2";
    }
}

impl Settings {
    /// Tools whose defaults differ from those of other tools: name, `failures`, `open_ms`.
    pub(crate) const BUILT_IN: [(&str, u32, u64); 3] =
        [("shell.exec", 3, 60_000), ("database.query", 10, 15_000), ("web.fetch", 5, 10_000)];
}

/// Whether calls are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Closed: every call is admitted.
    Passing,
    /// Open: no call is admitted.
    Tripped,
    /// Half open: one call at a time is admitted.
    Probing,
}

/// How a call with a permit ended. Reported once, after the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The call reached the tool, and its error code, if any, is not counted. For example, bad
    /// input is not a failure of the tool.
    Good,
    /// The call failed with a counted code; see [`crate::error::Code::counts_for_breaker`].
    Failed,
    /// The call was cancelled, or never reached the tool.
    Cancelled,
}

/// Permission to call the tool once. It must be returned with [`Breaker::settle`]; otherwise no
/// further probe is admitted.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an unsettled probe keeps the circuit open"]
pub struct Permit {
    epoch: u64,
    probe: bool,
}

impl Permit {
    /// Whether the call probes a tripped circuit.
    pub const fn is_probe(&self) -> bool {
        self.probe
    }
}

/// A refusal because the circuit is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Milliseconds until the next probe is admitted; `open_ms` while a probe is running.
    pub retry_after_ms: u64,
    /// Number of failures that trip the circuit.
    pub failures: u32,
}

/// The change of state after a call. The pipeline records and announces each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The state is the same.
    None,
    /// The circuit has opened.
    Tripped,
    /// The circuit has closed.
    Closed,
}

/// The circuit breaker of one tool.
#[derive(Debug, Clone)]
pub struct Breaker {
    settings: Settings,
    inner: Inner,
    /// Incremented whenever the circuit trips, closes or is reset. Results of calls that started in
    /// an earlier epoch are ignored.
    epoch: u64,
    failures_total: u64,
    trips_total: u64,
}

#[derive(Debug, Clone)]
enum Inner {
    /// Times of counted failures, oldest first; at most `failures`.
    Passing {
        failures: VecDeque<u64>,
    },
    Tripped {
        since_ms: u64,
    },
    Probing {
        taken: bool,
        good: u32,
    },
}

impl Breaker {
    /// Creates a closed circuit.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            inner: Inner::Passing { failures: VecDeque::new() },
            epoch: 0,
            failures_total: 0,
            trips_total: 0,
        }
    }

    /// The settings in force.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The present state.
    pub const fn state(&self) -> State {
        match self.inner {
            Inner::Passing { .. } => State::Passing,
            Inner::Tripped { .. } => State::Tripped,
            Inner::Probing { .. } => State::Probing,
        }
    }

    /// Number of counted failures since the start.
    pub const fn failures_total(&self) -> u64 {
        self.failures_total
    }

    /// Number of trips since the start.
    pub const fn trips_total(&self) -> u64 {
        self.trips_total
    }

    /// Whether a call would be admitted now; takes no permit. Called before a person is asked, so
    /// that no approval is wasted on an open circuit.
    pub fn peek(&self, now_ms: u64) -> Result<(), Open> {
        match &self.inner {
            Inner::Passing { .. } | Inner::Probing { taken: false, .. } => Ok(()),
            Inner::Probing { taken: true, .. } => Err(self.open(self.settings.open_ms)),
            Inner::Tripped { since_ms } => {
                let passed = now_ms.saturating_sub(*since_ms);
                if passed >= self.settings.open_ms { Ok(()) } else { Err(self.open(self.settings.open_ms - passed)) }
            }
        }
    }

    const fn open(&self, retry_after_ms: u64) -> Open {
        Open { retry_after_ms, failures: self.settings.failures }
    }

    /// Takes a permit. In state `Probing`, only one permit exists at a time.
    pub fn admit(&mut self, now_ms: u64) -> Result<Permit, Open> {
        self.peek(now_ms)?;
        let probe = match &mut self.inner {
            Inner::Passing { .. } => false,
            Inner::Tripped { .. } => {
                self.inner = Inner::Probing { taken: true, good: 0 };
                true
            }
            Inner::Probing { taken, .. } => {
                *taken = true;
                true
            }
        };
        Ok(Permit { epoch: self.epoch, probe })
    }

    /// Returns a permit and reports how the call ended.
    pub fn settle(&mut self, permit: Permit, end: End, now_ms: u64) -> Change {
        let Settings { mode, failures: limit, window_ms, close_after, .. } = self.settings;
        if end == End::Failed {
            self.failures_total += 1;
        }
        if permit.epoch != self.epoch {
            return Change::None;
        }
        match &mut self.inner {
            Inner::Passing { failures } => {
                match end {
                    End::Failed => {
                        failures.push_back(now_ms);
                        if mode == Mode::Window {
                            while failures.front().is_some_and(|at| now_ms.saturating_sub(*at) >= window_ms) {
                                failures.pop_front();
                            }
                        }
                        if failures.len() >= limit.max(1) as usize {
                            return self.trip(now_ms);
                        }
                    }
                    End::Good if mode == Mode::Consecutive => failures.clear(),
                    End::Good | End::Cancelled => {}
                }
                Change::None
            }
            Inner::Probing { taken, good } => {
                *taken = false;
                match end {
                    End::Cancelled => Change::None,
                    End::Failed => self.trip(now_ms),
                    End::Good => {
                        *good += 1;
                        if *good < close_after {
                            return Change::None;
                        }
                        self.reset();
                        Change::Closed
                    }
                }
            }
            // Not reached: a trip starts a new epoch, and the first permit of that epoch is a
            // probe, which changes the state.
            Inner::Tripped { .. } => Change::None,
        }
    }

    fn trip(&mut self, now_ms: u64) -> Change {
        self.inner = Inner::Tripped { since_ms: now_ms };
        self.epoch += 1;
        self.trips_total += 1;
        Change::Tripped
    }

    /// Closes the circuit and clears the count. Called when a person resets the circuit, or when
    /// the tool's host is online again.
    pub fn reset(&mut self) {
        self.inner = Inner::Passing { failures: VecDeque::new() };
        self.epoch += 1;
    }

    /// Replaces the settings after a reload. State and counts stay.
    pub fn reconfigure(&mut self, settings: Settings) {
        self.settings = settings;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(breaker: &mut Breaker, end: End, now: u64) -> Result<Change, Open> {
        let permit = breaker.admit(now)?;
        Ok(breaker.settle(permit, end, now))
    }

    #[test]
    fn trips_at_the_fifth_failure_and_fifty_calls_make_one_probe() {
        let mut breaker = Breaker::new(Settings::default());
        for n in 0..5 {
            let change = call(&mut breaker, End::Failed, n);
            assert_eq!(change, Ok(if n == 4 { Change::Tripped } else { Change::None }));
        }
        assert_eq!(breaker.admit(5), Err(Open { retry_after_ms: 29_999, failures: 5 }));
        assert_eq!(breaker.peek(30_003), Err(Open { retry_after_ms: 1, failures: 5 }));
        let admitted: Vec<_> = (0..50).filter_map(|_| breaker.admit(30_004).ok()).collect();
        assert_eq!(admitted.len(), 1);
        for permit in admitted {
            assert!(permit.is_probe());
            assert_eq!(breaker.settle(permit, End::Good, 30_005), Change::Closed);
        }
        assert_eq!(breaker.state(), State::Passing);
    }

    #[test]
    fn a_window_forgets_and_a_row_does_not() {
        let window = Settings { failures: 2, ..Settings::default() };
        let mut breaker = Breaker::new(window);
        let _ = call(&mut breaker, End::Failed, 0);
        assert_eq!(call(&mut breaker, End::Failed, 60_000), Ok(Change::None));
        let _ = call(&mut breaker, End::Good, 60_001);
        assert_eq!(call(&mut breaker, End::Failed, 119_999), Ok(Change::Tripped));

        let mut breaker = Breaker::new(Settings { mode: Mode::Consecutive, ..window });
        let _ = call(&mut breaker, End::Failed, 0);
        let _ = call(&mut breaker, End::Good, 1);
        assert_eq!(call(&mut breaker, End::Failed, 2), Ok(Change::None));
        assert_eq!(call(&mut breaker, End::Failed, 9_000_000), Ok(Change::Tripped));
    }

    #[test]
    fn a_failed_probe_waits_a_full_time_and_a_cancelled_one_decides_nothing() {
        let mut breaker = Breaker::new(Settings { failures: 1, close_after: 2, ..Settings::default() });
        let _ = call(&mut breaker, End::Failed, 0);
        assert_eq!(call(&mut breaker, End::Cancelled, 30_000), Ok(Change::None));
        assert_eq!(breaker.state(), State::Probing);
        assert_eq!(call(&mut breaker, End::Good, 30_001), Ok(Change::None));
        assert_eq!(call(&mut breaker, End::Failed, 30_002), Ok(Change::Tripped));
        assert_eq!(breaker.peek(60_001), Err(Open { retry_after_ms: 1, failures: 1 }));
        let _ = call(&mut breaker, End::Good, 60_002);
        assert_eq!(call(&mut breaker, End::Good, 60_002), Ok(Change::Closed));
    }

    #[test]
    fn a_call_from_before_a_reset_says_nothing_about_the_tool_after_it() {
        let mut breaker = Breaker::new(Settings { failures: 1, ..Settings::default() });
        let old = breaker.admit(0);
        breaker.reset();
        let change = old.map(|permit| breaker.settle(permit, End::Failed, 1));
        assert_eq!(change, Ok(Change::None));
        assert_eq!(breaker.state(), State::Passing);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Admit,
        Settle(usize, End),
        Pass(u64),
        Reset,
    }

    fn op() -> impl Strategy<Value = Op> {
        let end = prop_oneof![Just(End::Good), Just(End::Failed), Just(End::Cancelled)];
        prop_oneof![
            4 => Just(Op::Admit),
            4 => (0..8_usize, end).prop_map(|(which, end)| Op::Settle(which, end)),
            2 => (0..40_u64).prop_map(Op::Pass),
            1 => Just(Op::Reset),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn invariants(
            ops in prop::collection::vec(op(), 0..120),
            window in any::<bool>(),
            failures in 1..4_u32,
            close_after in 1..3_u32,
        ) {
            let mode = if window { Mode::Window } else { Mode::Consecutive };
            let mut breaker = Breaker::new(Settings { mode, failures, window_ms: 50, open_ms: 20, close_after });
            let mut out: Vec<Permit> = Vec::new();
            let mut now = 0;
            let mut tripped_at = None;
            for op in ops {
                let before = breaker.state();
                match op {
                    Op::Pass(ms) => now += ms,
                    Op::Reset => {
                        breaker.reset();
                        prop_assert_eq!(breaker.state(), State::Passing);
                        out.iter_mut().for_each(|permit| permit.probe = false);
                    }
                    Op::Admit => {
                        let peeked = breaker.peek(now);
                        let admitted = breaker.admit(now);
                        prop_assert_eq!(peeked.is_ok(), admitted.is_ok(), "peek and admit differ");
                        if let Err(open) = &admitted {
                            prop_assert!(open.retry_after_ms > 0 && open.retry_after_ms <= 20);
                        }
                        if before == State::Tripped && admitted.is_ok() {
                            prop_assert!(now >= tripped_at.unwrap_or(0) + 20, "a call ran before open_ms was over");
                        }
                        out.extend(admitted.ok());
                    }
                    Op::Settle(which, end) => {
                        if out.is_empty() {
                            continue;
                        }
                        let permit = out.swap_remove(which % out.len());
                        let probe = permit.probe;
                        let change = breaker.settle(permit, end, now);
                        match change {
                            Change::Tripped => {
                                prop_assert_eq!(end, End::Failed);
                                prop_assert_eq!(breaker.state(), State::Tripped);
                                tripped_at = Some(now);
                            }
                            Change::Closed => prop_assert!(probe && end == End::Good && before == State::Probing),
                            Change::None => {}
                        }
                        if end == End::Cancelled {
                            prop_assert_eq!(breaker.state(), before, "a cancelled call changed the state");
                        }
                    }
                }
                prop_assert!(out.iter().filter(|permit| permit.probe).count() <= 1, "two probes ran at the same time");
                if breaker.state() == State::Probing {
                    let taken = out.iter().any(|permit| permit.probe);
                    prop_assert_eq!(breaker.peek(now).is_ok(), !taken, "a probe was admitted twice, or not after the last probe ended");
                }
            }
        }
    }
}
