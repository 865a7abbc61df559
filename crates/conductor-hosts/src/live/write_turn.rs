//! The write queue of a Set: one writer at a time, in order of arrival, with a limit on waiting
//! writers.

use super::LiveHostError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::OwnedMutexGuard;

/// Maximum number of writes that wait while another write runs.
pub const MAX_WAITING: usize = 64;

/// The write queue. Clones share the queue, so that the writers of a Set stay in order when the Set
/// is saved to another file.
#[derive(Clone, Default)]
pub struct Lane {
    turn: Arc<tokio::sync::Mutex<()>>,
    waiting: Arc<AtomicUsize>,
}

/// The right to write to one Set. Dropping this value ends the turn.
pub struct Turn {
    _held: OwnedMutexGuard<()>,
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Lane {
    /// Waits for the turn. If too many writes are waiting, fails immediately.
    pub async fn enter(&self) -> Result<Turn, LiveHostError> {
        // If no write is running, the turn starts immediately.
        if let Ok(held) = Arc::clone(&self.turn).try_lock_owned() {
            return Ok(Turn { _held: held });
        }
        let more = |waiting: usize| (waiting < MAX_WAITING).then_some(waiting + 1);
        if self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            return Err(LiveHostError::QueueFull { waiting: MAX_WAITING });
        }
        let _place = Waiting(&self.waiting);
        Ok(Turn { _held: Arc::clone(&self.turn).lock_owned().await })
    }

    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether no write is running or waiting.
    pub fn is_idle(&self) -> bool {
        self.waiting() == 0 && self.turn.try_lock().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn sixty_four_wait_and_the_next_is_refused_until_one_leaves() {
        let lane = Lane::default();
        let held = lane.enter().await.ok();
        let mut queue: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(lane.enter())).collect();
        for waiting in &mut queue {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        assert_eq!(lane.waiting(), MAX_WAITING);
        assert!(matches!(lane.enter().await, Err(LiveHostError::QueueFull { waiting: 64 })));
        // A caller frees its place in the queue when it gives up, and also when its turn starts.
        queue.pop();
        assert_eq!(lane.waiting(), MAX_WAITING - 1);
        drop(held);
        assert!(queue.remove(0).await.is_ok());
        assert_eq!(lane.waiting(), MAX_WAITING - 2);
    }
}
