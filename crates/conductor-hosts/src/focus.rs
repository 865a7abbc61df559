//! Watches which window has the focus.
//!
//! Not here: the rules that use the focus (`conductor_core::focus`). On a desktop that does not
//! report the focus, these rules do not apply.

use crate::desktop::Unavailable;
use conductor_core::focus::Window;
use std::ops::ControlFlow;

#[cfg_attr(target_os = "linux", path = "focus/linux.rs")]
#[cfg_attr(target_os = "macos", path = "focus/macos.rs")]
#[cfg_attr(windows, path = "focus/windows.rs")]
mod platform;

pub use platform::open;

/// A connection to a server that reports the window with the focus.
pub trait FrontWindow {
    /// The window with the focus. `None` if no window has it.
    fn current(&mut self) -> Result<Option<Window>, Unavailable>;

    /// Waits until the focus or a title may have changed.
    fn wait(&mut self) -> Result<(), Unavailable>;
}

/// Reports the current window and every change, until `report` returns `Break` or the connection is
/// lost. After a loss, the last report is an unknown focus. Returns the reason for the end.
pub fn watch(watcher: &mut dyn FrontWindow, mut report: impl FnMut(Option<Window>) -> ControlFlow<()>) -> Unavailable {
    let mut last: Option<Option<Window>> = None;
    loop {
        let front = match watcher.current() {
            Ok(front) => front,
            Err(why) => {
                let _ = report(None);
                return why;
            }
        };
        if last.as_ref() != Some(&front) {
            last = Some(front.clone());
            if report(front).is_break() {
                return Unavailable("the watch was stopped".to_owned());
            }
        }
        if let Err(why) = watcher.wait() {
            let _ = report(None);
            return why;
        }
    }
}
