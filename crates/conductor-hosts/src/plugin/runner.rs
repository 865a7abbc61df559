//! Runs the calls of an enabled plugin one after the other, in one process. The process is kept
//! after an error in the plugin's code, and replaced after any other failure.
//!
//! Calls do not run concurrently, because the time limit applies to the whole JavaScript runtime:
//! two calls would use each other's time. Not here: deadlines. A caller that cancels drops the
//! call, which also ends the process.

use super::process::{Answers, Launch, PluginError, Process};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Mutex;

/// Maximum number of calls that wait while one runs.
pub const QUEUE: usize = 64;

/// Checks that the declarations of a file are those that a person enabled. Returns the reason if
/// they are not.
pub type Expected = Arc<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

pub struct Runner {
    launch: Launch,
    /// The argument of `onLoad`.
    start: Value,
    expected: Expected,
    answers: Arc<dyn Answers>,
    slot: Mutex<Slot>,
    /// Number of running and waiting calls.
    calls: AtomicUsize,
    restarts: AtomicU64,
    pid: AtomicU32,
}

#[derive(Default)]
struct Slot {
    process: Option<Process>,
    was_started: bool,
}

impl Runner {
    /// Creates a runner. `config` does not contain the secret fields; `secrets` maps the secret
    /// fields to names of secrets.
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
            slot: Mutex::default(),
            calls: AtomicUsize::new(0),
            restarts: AtomicU64::new(0),
            pid: AtomicU32::new(0),
        })
    }

    /// Starts the process before the first call, so that an error at the start is reported early.
    pub async fn warm(&self) -> Result<(), PluginError> {
        let mut slot = self.slot.lock().await;
        slot.process = Some(self.ready(&mut slot).await?);
        Ok(())
    }

    pub async fn call(&self, tool: &str, input: &Value) -> Result<Value, PluginError> {
        let _place = Place::take(&self.calls)?;
        let mut slot = self.slot.lock().await;
        let mut process = self.ready(&mut slot).await?;
        // The slot is empty during the call. If the call is dropped, its process ends and the next
        // call starts a new one.
        let result = process.request(&json!({ "call": { "tool": tool, "input": input } }), &*self.answers).await;
        if matches!(result, Ok(_) | Err(PluginError::Threw(_))) {
            slot.process = Some(process);
        }
        result
    }

    /// The running process, or a new process if none is running.
    async fn ready(&self, slot: &mut Slot) -> Result<Process, PluginError> {
        if let Some(mut process) = slot.process.take()
            && process.is_running()
        {
            return Ok(process);
        }
        if std::mem::replace(&mut slot.was_started, true) {
            self.restarts.fetch_add(1, Ordering::Relaxed);
            self.answers.restarted();
        }
        let (mut process, declared) = Process::start(&self.launch).await?;
        (self.expected)(&declared).map_err(PluginError::Changed)?;
        process.request(&self.start, &*self.answers).await?;
        self.pid.store(process.pid().unwrap_or(0), Ordering::Relaxed);
        Ok(process)
    }

    /// Calls the plugin's stop handler and ends its process. Waits for the running call.
    pub async fn stop(&self) {
        let process = self.slot.lock().await.process.take();
        if let Some(mut process) = process {
            // An error is ignored, because the process is ended anyway.
            let _ = process.request(&json!({ "stop": true }), &*self.answers).await;
        }
    }

    /// How often the process was restarted.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// The pid of the last process; `None` before the first start.
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|it| *it != 0)
    }
}

/// A place in the queue. Dropping this value frees the place.
struct Place<'r>(&'r AtomicUsize);

impl<'r> Place<'r> {
    fn take(calls: &'r AtomicUsize) -> Result<Self, PluginError> {
        let before = calls.fetch_add(1, Ordering::AcqRel);
        let place = Place(calls);
        if before > QUEUE { Err(PluginError::Busy(QUEUE)) } else { Ok(place) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
