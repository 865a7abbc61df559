//! Attributes of patches under a knob. Not here: what a value means to an object
//! (`conductor-patch`).

use super::Patches;
use crate::worker::{Latest, Worker};
use std::sync::{Arc, Weak};

/// One attribute of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Knob {
    pub patch: String,
    pub object: String,
    pub attribute: String,
    /// Whether a person turns it: neither a tool nor the network did.
    pub by_hand: bool,
}

/// `failed` hears of every value that did not arrive.
pub fn start(
    patches: &Arc<Patches>,
    failed: impl Fn(String) + Send + 'static,
) -> std::io::Result<Worker<Latest<Knob>>> {
    let patches: Weak<Patches> = Arc::downgrade(patches);
    Worker::start("patch knobs", move |(knob, value): (Knob, f64)| {
        let Some(patches) = patches.upgrade() else { return };
        if let Err(fault) = patches.turn(&knob, value) {
            failed(format!("{} of {}: {}", knob.attribute, knob.object, fault.message));
        }
    })
}
