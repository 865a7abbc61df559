//! Values from knobs, on their way to something slow. The hands leave the newest value and go on; a
//! thread of its own works, so a slow document or program never holds them up, and only the last of
//! many values is worked for.
//!
//! Not here: what a value does, and how a knob becomes a value (`conductor_core::engine`).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// One waiting value per `Knob`. As many are kept as mappings name.
pub struct LatestValueWorker<Knob> {
    waiting: Arc<Waiting<Knob>>,
    worker: Option<JoinHandle<()>>,
}

struct Waiting<Knob> {
    /// Held for one insertion or one look, never while a value is worked for.
    values: Mutex<BTreeMap<Knob, f64>>,
    over: AtomicBool,
}

impl<Knob: Ord> Waiting<Knob> {
    fn take(&self) -> Option<(Knob, f64)> {
        self.values.lock().pop_first()
    }
}

impl<Knob: Ord + Send + 'static> LatestValueWorker<Knob> {
    pub fn start(name: &str, mut carry_out: impl FnMut(Knob, f64) + Send + 'static) -> std::io::Result<Self> {
        let waiting = Arc::new(Waiting { values: Mutex::default(), over: AtomicBool::new(false) });
        let seen = Arc::clone(&waiting);
        let worker = Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                while let Some((knob, value)) = seen.take() {
                    carry_out(knob, value);
                }
                if seen.over.load(Ordering::Acquire) {
                    return;
                }
                std::thread::park();
            }
        })?;
        Ok(LatestValueWorker { waiting, worker: Some(worker) })
    }

    /// A newer value replaces one that waits.
    pub fn turn(&self, knob: Knob, value: f64) {
        self.waiting.values.lock().insert(knob, value);
        if let Some(worker) = &self.worker {
            worker.thread().unpark();
        }
    }
}

impl<Knob> Drop for LatestValueWorker<Knob> {
    /// The last values still arrive.
    fn drop(&mut self) {
        self.waiting.over.store(true, Ordering::Release);
        if let Some(worker) = self.worker.take() {
            worker.thread().unpark();
            let _ = worker.join();
        }
    }
}
