//! A plugin that is enabled: its calls pass one after the other through one process, which is
//! replaced when it has failed.
//!
//! One at a time, because the engine's clock belongs to the whole runtime: two calls would spend
//! each other's time. Not here: deadlines. Whoever gives up drops the call, and the process with
//! it.

use super::process::{Answers, Fault, Launch, Process};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Mutex;

/// Calls that wait beside the one that runs.
pub const QUEUE: usize = 64;

/// Whether what a file declares is what a person enabled; else why not.
pub type Expected = Arc<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

pub struct Runner {
    launch: Launch,
    /// What `onLoad` is given.
    start: Value,
    expected: Expected,
    answers: Arc<dyn Answers>,
    seat: Mutex<Seat>,
    crowd: AtomicUsize,
    restarts: AtomicU64,
    pid: AtomicU32,
}

#[derive(Default)]
struct Seat {
    process: Option<Process>,
    started: bool,
}

impl Runner {
    /// `config` is what the plugin is given, without its secret fields; those are named in
    /// `secrets`, field by secret.
    pub fn new(
        launch: Launch,
        config: &Value,
        secrets: &Value,
        expected: Expected,
        answers: Arc<dyn Answers>,
    ) -> Arc<Self> {
        Arc::new(Runner {
            launch,
            start: json!({ "start": { "config": config, "secrets": secrets } }),
            expected,
            answers,
            seat: Mutex::default(),
            crowd: AtomicUsize::new(0),
            restarts: AtomicU64::new(0),
            pid: AtomicU32::new(0),
        })
    }

    /// Starts the process before the first call needs it, and so learns whether it starts.
    pub async fn warm(&self) -> Result<(), Fault> {
        let mut seat = self.seat.lock().await;
        let process = self.seated(&mut seat).await?;
        seat.process = Some(process);
        Ok(())
    }

    pub async fn call(&self, tool: &str, input: &Value) -> Result<Value, Fault> {
        let _place = Place::take(&self.crowd)?;
        let mut seat = self.seat.lock().await;
        let mut process = self.seated(&mut seat).await?;
        // The process is not in its seat meanwhile: a call that is dropped here ends it, and the
        // next one starts another.
        let result = process.tell(&json!({ "call": { "tool": tool, "input": input } }), &*self.answers).await;
        if matches!(result, Ok(_) | Err(Fault::Threw(_))) {
            seat.process = Some(process);
        }
        result
    }

    /// The process that is there, or a new one.
    async fn seated(&self, seat: &mut Seat) -> Result<Process, Fault> {
        if let Some(mut process) = seat.process.take()
            && process.lives()
        {
            return Ok(process);
        }
        if std::mem::replace(&mut seat.started, true) {
            self.restarts.fetch_add(1, Ordering::Relaxed);
            self.answers.restarted();
        }
        let (mut process, declared) = Process::start(&self.launch).await?;
        (self.expected)(&declared).map_err(Fault::Changed)?;
        process.tell(&self.start, &*self.answers).await?;
        self.pid.store(process.pid().unwrap_or(0), Ordering::Relaxed);
        Ok(process)
    }

    /// Lets the plugin say goodbye and ends its process. Waits for the call that runs.
    pub async fn stop(&self) {
        let process = self.seat.lock().await.process.take();
        if let Some(mut process) = process {
            // It is ended whatever it says.
            let _ = process.tell(&json!({ "stop": true }), &*self.answers).await;
        }
    }

    /// How often a process was started anew after the first.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Of the last process started; absent before the first.
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|it| *it != 0)
    }
}

/// A place in the queue, given back when the call is over.
struct Place<'r>(&'r AtomicUsize);

impl<'r> Place<'r> {
    fn take(crowd: &'r AtomicUsize) -> Result<Self, Fault> {
        let before = crowd.fetch_add(1, Ordering::AcqRel);
        let place = Place(crowd);
        if before > QUEUE { Err(Fault::Busy(QUEUE)) } else { Ok(place) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
