//! A clock that only the test moves. Code under test can read it and wait for it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conductor_core::event::Micros;
use conductor_gateway::studio::Sleeper;
use conductor_hosts::system::Clock;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

#[derive(Debug, Default)]
struct State {
    now: u64,
    next: u64,
    sleepers: BTreeMap<(u64, u64), oneshot::Sender<()>>,
}

#[derive(Debug)]
pub struct ManualTime {
    state: Mutex<State>,
    wall_start: Duration,
}

impl ManualTime {
    /// Starts at 2026-01-02T03:04:05Z.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), wall_start: Duration::from_secs(1_767_323_045) })
    }

    /// Moves the clock and wakes all waits that are due, in order.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut state = self.state.lock();
            state.now += by.as_micros() as u64;
            let now = state.now;
            let later = state.sleepers.split_off(&(now + 1, 0));
            std::mem::replace(&mut state.sleepers, later)
        };
        for sleeper in due.into_values() {
            let _ = sleeper.send(());
        }
    }

    /// Time until the next wait ends. Cancelled waits are ignored.
    pub fn next_wake(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        state.sleepers.retain(|_, sleeper| !sleeper.is_closed());
        state.sleepers.keys().next().map(|(at, _)| Duration::from_micros(at.saturating_sub(state.now)))
    }

    /// Lets other tasks run until a task waits for the clock. Returns the time until that wait
    /// ends.
    pub async fn until_someone_sleeps(&self) -> Duration {
        loop {
            if let Some(wait) = self.next_wake() {
                return wait;
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Clock for ManualTime {
    fn now(&self) -> Micros {
        Micros(self.state.lock().now)
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + self.wall_start + Duration::from_micros(self.state.lock().now)
    }
}

impl Sleeper for ManualTime {
    fn until(&self, at: Micros) -> BoxFuture<'static, ()> {
        let (wake, woken) = oneshot::channel();
        let mut state = self.state.lock();
        if at.0 <= state.now {
            return Box::pin(std::future::ready(()));
        }
        state.next += 1;
        let key = (at.0, state.next);
        state.sleepers.insert(key, wake);
        Box::pin(async move {
            let _ = woken.await;
        })
    }
}
