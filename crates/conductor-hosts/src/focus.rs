//! Watches which window has the focus.
//!
//! Not here: the rules that use the focus (`conductor_core::focus`). On a desktop that does not
//! report the focus, these rules do not apply.

mod hyprland;
mod niri;
mod sway;
pub mod x11;

use crate::desktop::Unavailable;
use crate::desktop::session::{Compositor, Session};
use conductor_core::focus::Window;
use std::ops::ControlFlow;

/// A connection to a server that reports the window with the focus.
pub trait FrontWindow {
    /// The window with the focus. `None` if no window has it.
    fn current(&mut self) -> Result<Option<Window>, Unavailable>;

    /// Waits until the focus or a title may have changed.
    fn wait(&mut self) -> Result<(), Unavailable>;
}

/// Connects to the server of this session that knows the front window. A Wayland session with an X
/// server for older programs uses the compositor, because the X server sees only its own windows.
pub fn open(session: &Session) -> Result<Box<dyn FrontWindow>, Unavailable> {
    if let Some(why) = session.focus_fault() {
        return Err(Unavailable(why.to_owned()));
    }
    match (&session.compositor, &session.x11) {
        (Some(Compositor::Sway(socket)), _) => Ok(Box::new(sway::Watcher::open(socket)?)),
        (Some(Compositor::Hyprland(folder)), _) => Ok(Box::new(hyprland::Watcher::open(folder)?)),
        (Some(Compositor::Niri(socket)), _) => Ok(Box::new(niri::Watcher::open(socket)?)),
        (None, Some(display)) => Ok(Box::new(x11::Watcher::open(display)?)),
        (None, None) => Err(Unavailable("no display".to_owned())),
    }
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
