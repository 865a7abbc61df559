//! Sets attributes of patches from knobs of a controller. Not here: the effect of a value on an
//! object (`conductor-patch`).

use super::Patches;
use crate::worker::{Latest, Worker};
use std::sync::{Arc, Weak};

/// A knob that controls one attribute of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Knob {
    pub patch: String,
    pub object: String,
    pub attribute: String,
    /// Whether a person turned the knob. False for a tool or the network.
    pub by_hand: bool,
}

/// Starts the worker that sets the values. `failed` is called with a message for every value that
/// could not be set.
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
