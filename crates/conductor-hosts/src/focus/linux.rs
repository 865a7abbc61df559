//! The servers of Linux desktops that report the front window.

#[path = "hyprland.rs"]
mod hyprland;
#[path = "niri.rs"]
mod niri;
#[path = "sway.rs"]
mod sway;
#[path = "x11.rs"]
mod x11;

use super::FrontWindow;
use crate::desktop::Unavailable;
use crate::desktop::session::{Compositor, Session};

/// Connects to the server of this session that reports the front window. A Wayland session with an
/// X server for older programs uses the compositor, because the X server reports only the windows
/// of these programs.
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
