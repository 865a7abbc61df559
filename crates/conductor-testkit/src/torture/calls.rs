//! Calls in the background, and the promises that the daemon makes with its answers.

use super::control::{Client, ClientError};
use super::{pause, until};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The tool with an effect that is called under every fault.
pub const EFFECT: &str = "conductor_send_midi";

/// The promises of the daemon so far.
#[derive(Debug, Default)]
pub struct Promised {
    /// Number of acknowledged calls, by tool.
    acknowledged: Mutex<BTreeMap<&'static str, usize>>,
    /// Calls without an answer within the time limit.
    pub unanswered: AtomicUsize,
    /// The tempo that the daemon has acknowledged last. `None` if a later call failed, because a
    /// failed call may still have an effect.
    pub tempo: Mutex<Option<u32>>,
    /// Acknowledged effects that the host does not have.
    pub missing: Mutex<Vec<String>>,
}

impl Promised {
    pub fn acknowledge(&self, tool: &'static str) {
        *self.acknowledged.lock().entry(tool).or_default() += 1;
    }

    pub fn acknowledged(&self) -> BTreeMap<&'static str, usize> {
        self.acknowledged.lock().clone()
    }

    /// Calls a tool, and counts the answer.
    pub fn call(&self, client: &mut Client, tool: &'static str, arguments: Value) -> Result<Value, ClientError> {
        let result = client.call(tool, arguments);
        match &result {
            Ok(_) => self.acknowledge(tool),
            Err(ClientError::NoAnswer) => _ = self.unanswered.fetch_add(1, Ordering::Relaxed),
            Err(ClientError::Refused(_) | ClientError::Closed(_)) => {}
        }
        result
    }
}

/// The arguments of [`EFFECT`].
pub fn effect() -> Value {
    let message = json!({ "type": "cc", "channel": 1, "controller": 99, "value": 1 });
    json!({ "port": "synth", "messages": [message] })
}

/// A tool that is called again and again by a thread.
pub struct Caller {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    failed: AtomicUsize,
    last_error: Mutex<String>,
}

/// The calls that a [`Caller`] makes.
pub struct Calls {
    pub tool: &'static str,
    /// The arguments of the nth call.
    pub arguments: Box<dyn Fn(u32) -> Value + Send>,
    /// Called with the number of each call and whether it was acknowledged.
    pub after: Box<dyn Fn(u32, bool) + Send>,
    /// Longest time for an answer.
    pub deadline: Duration,
    /// Pause after an acknowledged call, in milliseconds.
    pub pace_ms: u64,
    /// Pause after a refused call, in milliseconds.
    pub pause_ms: u64,
}

impl Caller {
    pub fn start(control: PathBuf, promised: Arc<Promised>, calls: Calls) -> Self {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let mut client = None;
            let mut number = 0;
            while !own.stop.load(Ordering::Relaxed) {
                let Some(open) = &mut client else {
                    client = Client::connect(&control, calls.deadline).ok();
                    if client.is_none() {
                        pause(20);
                    }
                    continue;
                };
                number += 1;
                let result = promised.call(open, calls.tool, (calls.arguments)(number));
                (calls.after)(number, result.is_ok());
                match result {
                    Ok(_) => {
                        own.acknowledged.fetch_add(1, Ordering::Release);
                        pause(calls.pace_ms);
                    }
                    Err(error) => {
                        *own.last_error.lock() = error.to_string();
                        own.failed.fetch_add(1, Ordering::Release);
                        match error {
                            ClientError::Refused(_) => pause(calls.pause_ms),
                            ClientError::NoAnswer | ClientError::Closed(_) => client = None,
                        }
                    }
                }
            }
        });
        Caller { shared, thread }
    }

    pub fn acknowledged(&self) -> usize {
        self.shared.acknowledged.load(Ordering::Acquire)
    }

    pub fn failed(&self) -> usize {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// Waits for another acknowledged call.
    pub fn until_acknowledged(&self) -> Result<(), String> {
        let before = self.acknowledged();
        until(super::RECOVERY, || {
            if self.acknowledged() > before { Ok(()) } else { Err(format!("no call succeeds: {}", self.last_error())) }
        })
    }

    /// Waits for another failed call.
    pub fn until_failed(&self) -> Result<(), String> {
        let before = self.failed();
        until(super::RECOVERY, || if self.failed() > before { Ok(()) } else { Err("no call fails".to_owned()) })
    }

    pub fn last_error(&self) -> String {
        self.shared.last_error.lock().clone()
    }

    /// Ends the calls and waits for the answer of the last one. Returns the number of acknowledged
    /// calls.
    pub fn stop(self) -> usize {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.shared.acknowledged.load(Ordering::Acquire)
    }
}
