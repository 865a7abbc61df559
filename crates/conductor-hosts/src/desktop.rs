//! Presses keys, types text, moves the mouse and sets the system volume.
//!
//! Not here: the decision when a key is pressed (`conductor_core::engine`), and the queue of jobs
//! (`worker`).

#[cfg(feature = "desktop")]
pub mod keys;
pub mod volume;

use conductor_core::action::{Keystroke, MouseButton, Volume};
use conductor_core::engine::Stroke;
use std::sync::Arc;

/// One job for the desktop. Jobs run in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    Key { keys: Arc<Keystroke>, stroke: Stroke },
    Text(Arc<str>),
    Click { button: MouseButton, at: Option<(i32, i32)> },
}

/// Keys, text and mouse of one machine. Used by one worker thread.
pub trait Desktop: Send {
    fn carry_out(&mut self, job: &Job) -> Result<(), Unavailable>;
}

pub trait Mixer: Send {
    fn carry_out(&mut self, volume: Volume) -> Result<(), Unavailable>;
}

/// Why a job failed. `conductor status` shows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// For a machine without a supported desktop. Every job fails with the reason.
pub struct Headless {
    pub reason: String,
}

impl Desktop for Headless {
    fn carry_out(&mut self, _: &Job) -> Result<(), Unavailable> {
        Err(Unavailable(self.reason.clone()))
    }
}
