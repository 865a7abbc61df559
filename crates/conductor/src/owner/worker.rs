//! A worker lane: one thread that carries out jobs in the order they were given, so that a slow
//! program never holds up the hands.
//!
//! Not here: what a job does. A lane knows its queue and nothing else.

use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{Builder, JoinHandle};

/// Jobs a lane holds. More means that the desktop has stopped taking them; queueing on would replay
/// minutes of old keystrokes later.
const CAPACITY: usize = 256;

pub struct Worker<Job> {
    jobs: Option<SyncSender<Job>>,
    worker: Option<JoinHandle<()>>,
}

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxFull {
    Full,
    /// The worker is gone: a job of its own panicked.
    Gone,
}

impl<Job: Send + 'static> Worker<Job> {
    pub fn start(name: &str, mut carry_out: impl FnMut(Job) + Send + 'static) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::sync_channel::<Job>(CAPACITY);
        let worker =
            Builder::new().name(name.to_owned()).spawn(move || receiver.into_iter().for_each(&mut carry_out))?;
        Ok(Worker { jobs: Some(sender), worker: Some(worker) })
    }

    /// Never waits.
    pub fn push(&self, job: Job) -> Result<(), InboxFull> {
        match self.jobs.as_ref().ok_or(InboxFull::Gone)?.try_send(job) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(InboxFull::Full),
            Err(TrySendError::Disconnected(_)) => Err(InboxFull::Gone),
        }
    }
}

impl<Job> Drop for Worker<Job> {
    /// Waits for the jobs already taken: held keys are released by such a job.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(worker) = self.worker.take() {
            // A worker that panicked has said so on stderr already.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::{Arc, Barrier};

    #[test]
    fn jobs_run_in_order_and_all_of_them_before_the_lane_ends() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let seen = done.clone();
        let lane = Worker::start("test", move |job: u32| seen.lock().push(job)).unwrap();
        for job in 0..100 {
            lane.push(job).unwrap();
        }
        drop(lane);
        assert_eq!(*done.lock(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_blocked_worker_makes_the_lane_full_and_never_the_caller_wait() {
        let gate = Arc::new(Barrier::new(2));
        let wait = gate.clone();
        let lane = Worker::start("test", move |first: bool| {
            if first {
                wait.wait();
            }
        })
        .unwrap();
        lane.push(true).unwrap();
        let full = (0..=CAPACITY).find_map(|_| lane.push(false).err());
        assert_eq!(full, Some(InboxFull::Full));
        gate.wait();
    }
}
