//! The desktop session of this process: which servers and devices can be reached.

use std::path::PathBuf;

/// The addresses of a desktop session. On a machine without a desktop, only `uinput` may be
/// present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The name of an X display.
    pub x11: Option<String>,
    /// The socket of a Wayland compositor.
    pub wayland: Option<PathBuf>,
    /// The compositor, if it reports the front window over its own protocol.
    pub compositor: Option<Compositor>,
    /// The device file that creates input devices.
    pub uinput: Option<PathBuf>,
    /// Whether the system itself reports windows and accepts keys: Windows and macOS.
    pub native: bool,
}

/// A Wayland compositor, with the path of its control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compositor {
    Sway(PathBuf),
    /// The folder with the two sockets of Hyprland.
    Hyprland(PathBuf),
    Niri(PathBuf),
}

impl Session {
    /// A session with only an X display.
    pub fn on_x11(display: impl Into<String>) -> Self {
        Session { x11: Some(display.into()), ..Session::default() }
    }

    /// Why the front window cannot be watched, if no server reports it.
    pub fn focus_fault(&self) -> Option<&'static str> {
        if self.native {
            return None;
        }
        match (&self.compositor, &self.wayland, &self.x11) {
            (Some(_), _, _) | (None, None, Some(_)) => None,
            (None, Some(_), _) => Some(
                "this Wayland compositor does not report the front window (sway, Hyprland and niri do); window rules are inactive",
            ),
            (None, None, None) => Some("no display; set DISPLAY or WAYLAND_DISPLAY in the daemon's environment"),
        }
    }
}
