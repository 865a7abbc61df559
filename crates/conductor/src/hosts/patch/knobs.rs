//! Attributes of patches under a knob. The hands leave the newest value and go on; a thread of its own brings it to the patch, so a slow
//! document or program never holds them up, and only the last of many values is worked for.
//!
//! Not here: what a value means to an object (`conductor-patch`), and how a knob becomes a value (`conductor_core::hands`).

use super::Patches;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};

/// One attribute of one object. As many are kept as mappings name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Knob {
    pub patch: String,
    pub object: String,
    pub attribute: String,
}

pub struct Knobs {
    waiting: Arc<Waiting>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Waiting {
    /// Held for one insertion or one look, never while a patch is worked on.
    values: Mutex<BTreeMap<Knob, f64>>,
    over: AtomicBool,
}

impl Waiting {
    fn take(&self) -> Option<(Knob, f64)> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }
}

impl Knobs {
    /// `failed` hears of every value that did not arrive.
    pub fn start(patches: &Arc<Patches>, failed: impl Fn(String) + Send + 'static) -> std::io::Result<Self> {
        let waiting: Arc<Waiting> = Arc::default();
        let (seen, patches): (_, Weak<Patches>) = (Arc::clone(&waiting), Arc::downgrade(patches));
        let worker = Builder::new().name("patch knobs".into()).spawn(move || {
            loop {
                while let Some((knob, value)) = seen.take() {
                    let Some(patches) = patches.upgrade() else { return };
                    if let Err(fault) = patches.turn(&knob, value) {
                        failed(format!("{} of {}: {}", knob.attribute, knob.object, fault.message));
                    }
                }
                if seen.over.load(Ordering::Acquire) {
                    return;
                }
                std::thread::park();
            }
        })?;
        Ok(Knobs { waiting, worker: Some(worker) })
    }

    /// A newer value replaces one that waits.
    pub fn turn(&self, knob: Knob, value: f64) {
        self.waiting.values.lock().unwrap_or_else(PoisonError::into_inner).insert(knob, value);
        if let Some(worker) = &self.worker {
            worker.thread().unpark();
        }
    }
}

impl Drop for Knobs {
    /// The last values still arrive.
    fn drop(&mut self) {
        self.waiting.over.store(true, Ordering::Release);
        if let Some(worker) = self.worker.take() {
            worker.thread().unpark();
            let _ = worker.join();
        }
    }
}
