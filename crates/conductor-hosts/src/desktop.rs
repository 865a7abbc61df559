//! Presses keys, types text, moves the mouse and sets the system volume.
//!
//! Not here: the decision when a key is pressed (`conductor_core::engine`), and the queue of jobs
//! (`worker`).

mod backends;
#[cfg(feature = "desktop")]
pub mod enigo_keys;
pub mod notification;
pub mod session;
#[cfg(all(feature = "desktop", target_os = "linux"))]
pub mod uinput;
#[cfg(all(feature = "desktop", target_os = "linux"))]
pub mod virtual_keyboard;
pub mod volume;

pub use backends::Backends;
use conductor_core::action::{Keystroke, MouseButton, Volume};
use conductor_core::engine::Stroke;
pub use session::Session;
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
    /// Connects, unless a connection is open. A job is passed to another backend only if `open`
    /// fails, so that no job runs twice.
    fn open(&mut self) -> Result<(), Unavailable>;

    fn carry_out(&mut self, job: &Job) -> Result<(), Unavailable>;
}

pub trait Mixer: Send {
    fn carry_out(&mut self, volume: Volume) -> Result<(), Unavailable>;
}

/// Why a job failed. `conductor status` shows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);
