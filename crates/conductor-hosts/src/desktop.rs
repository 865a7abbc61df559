//! The desktop in front of the person: keys, text, mouse and system volume.
//!
//! Not here: when a key is pressed (`conductor_core::engine`) and the queue before it (the daemon's
//! lanes).

#[cfg(feature = "desktop")]
pub mod keys;
pub mod volume;

use conductor_core::action::{Keystroke, MouseButton, Volume};
use conductor_core::engine::Stroke;
use std::sync::Arc;

/// One thing to do, in the order it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    Key { keys: Arc<Keystroke>, stroke: Stroke },
    Text(Arc<str>),
    Click { button: MouseButton, at: Option<(i32, i32)> },
}

/// Keys, text and mouse of one machine. Lives on its lane's thread.
pub trait Desktop: Send {
    fn carry_out(&mut self, job: &Job) -> Result<(), Unavailable>;
}

pub trait Mixer: Send {
    fn carry_out(&mut self, volume: Volume) -> Result<(), Unavailable>;
}

/// Why it could not be done, in words for `status`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// What stands in where a machine has no desktop we can drive. Every job fails and says so.
pub struct Headless {
    pub reason: String,
}

impl Desktop for Headless {
    fn carry_out(&mut self, _: &Job) -> Result<(), Unavailable> {
        Err(Unavailable(self.reason.clone()))
    }
}
