//! A thread with a bounded inbox, for work that may be slow. The engine adds a job and does not
//! wait for it.
//!
//! The inbox stores the waiting jobs. [`Fifo`] keeps their order, and refuses new jobs when it is
//! full. [`Latest`] keeps only the newest value of each knob. Not here: the work of a job.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// Maximum number of jobs in a [`Fifo`]. The queue is full only if the receiving program hangs. A
/// longer queue would later replay minutes of old keystrokes.
const CAPACITY: usize = 256;

/// The waiting jobs of a worker.
pub trait Inbox: Default + Send + 'static {
    type Job;

    /// Adds a job. Returns false if the inbox is full.
    fn push(&mut self, job: Self::Job) -> bool;

    fn pop(&mut self) -> Option<Self::Job>;
}

/// All jobs, in the order in which they were added.
pub struct Fifo<Job>(VecDeque<Job>);

/// The newest value of each knob.
pub struct Latest<Knob>(BTreeMap<Knob, f64>);

impl<Job> Default for Fifo<Job> {
    fn default() -> Self {
        Fifo(VecDeque::with_capacity(CAPACITY))
    }
}

impl<Knob> Default for Latest<Knob> {
    fn default() -> Self {
        Latest(BTreeMap::new())
    }
}

impl<Job: Send + 'static> Inbox for Fifo<Job> {
    type Job = Job;

    fn push(&mut self, job: Job) -> bool {
        let has_room = self.0.len() < CAPACITY;
        if has_room {
            self.0.push_back(job);
        }
        has_room
    }

    fn pop(&mut self) -> Option<Job> {
        self.0.pop_front()
    }
}

impl<Knob: Ord + Send + 'static> Inbox for Latest<Knob> {
    type Job = (Knob, f64);

    fn push(&mut self, (knob, value): (Knob, f64)) -> bool {
        self.0.insert(knob, value);
        true
    }

    fn pop(&mut self) -> Option<(Knob, f64)> {
        self.0.pop_first()
    }
}

/// Why a job was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    Full,
    /// The thread has ended, because one of its jobs panicked.
    Gone,
}

/// Runs jobs on its own thread. Dropping the worker waits for all jobs that were added, because
/// such a job may release held keys or set the last value of a knob.
pub struct Worker<I> {
    shared: Arc<Shared<I>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<I> {
    /// Locked only for one push or one pop, never while a job runs.
    inbox: Mutex<I>,
    ending: AtomicBool,
}

impl<I: Inbox> Worker<I> {
    pub fn start(name: &str, mut run: impl FnMut(I::Job) + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { inbox: Mutex::new(I::default()), ending: AtomicBool::new(false) });
        let own = Arc::clone(&shared);
        let next = move || own.inbox.lock().pop();
        let ending = Arc::clone(&shared);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                // Read this flag before the inbox, so that jobs pushed before the worker was
                // dropped still run.
                let last = ending.ending.load(Ordering::Acquire);
                while let Some(job) = next() {
                    run(job);
                }
                if last {
                    return;
                }
                std::thread::park();
            }
        })?;
        Ok(Worker { shared, thread: Some(thread) })
    }

    /// Adds a job. Never waits for the thread.
    pub fn push(&self, job: I::Job) -> Result<(), NotTaken> {
        let thread = self.thread.as_ref().filter(|it| !it.is_finished()).ok_or(NotTaken::Gone)?;
        if !self.shared.inbox.lock().push(job) {
            return Err(NotTaken::Full);
        }
        thread.thread().unpark();
        Ok(())
    }
}

impl<I> Drop for Worker<I> {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If the thread panicked, the message is already on stderr.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, mpsc};

    #[test]
    fn jobs_run_in_order_and_all_of_them_before_the_worker_ends() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let seen = done.clone();
        let worker = Worker::<Fifo<u32>>::start("test", move |job| seen.lock().push(job)).unwrap();
        for job in 0..100 {
            worker.push(job).unwrap();
        }
        drop(worker);
        assert_eq!(*done.lock(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_blocked_job_makes_the_inbox_full_and_never_the_caller_wait() {
        let gate = Arc::new(Barrier::new(2));
        let wait = gate.clone();
        let worker = Worker::<Fifo<bool>>::start("test", move |first| {
            if first {
                wait.wait();
            }
        })
        .unwrap();
        worker.push(true).unwrap();
        let full = (0..=CAPACITY).find_map(|_| worker.push(false).err());
        assert_eq!(full, Some(NotTaken::Full));
        gate.wait();
    }

    #[test]
    fn only_the_newest_value_of_a_knob_is_worked_for() {
        let gate = Arc::new(Barrier::new(2));
        let wait = gate.clone();
        let (send, done) = mpsc::channel();
        let worker = Worker::<Latest<&str>>::start("test", move |job| {
            if job.0 == "first" {
                wait.wait();
            }
            send.send(job).unwrap();
        })
        .unwrap();
        worker.push(("first", 0.0)).unwrap();
        // Either the first job is already running or it still waits. In both cases at most one
        // value of each knob waits.
        for value in 0..10 {
            worker.push(("knob", f64::from(value))).unwrap();
        }
        gate.wait();
        drop(worker);
        let done: Vec<(&str, f64)> = done.iter().collect();
        assert_eq!(done.last(), Some(&("knob", 9.0)));
        assert!(done.len() <= 3, "{done:?}");
    }

    #[test]
    fn a_worker_whose_job_panicked_takes_no_more() {
        let worker = Worker::<Fifo<()>>::start("test", |()| panic!("a job failed")).unwrap();
        worker.push(()).unwrap();
        let gone = std::iter::repeat_with(|| worker.push(())).find(|it| *it == Err(NotTaken::Gone));
        assert_eq!(gone, Some(Err(NotTaken::Gone)));
    }
}
