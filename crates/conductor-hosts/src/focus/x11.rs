//! Watches which window has the focus on X11. The root window's `_NET_ACTIVE_WINDOW` names the
//! window; `WM_CLASS` and the title are properties of that window.

use crate::desktop::Unavailable;
use conductor_core::focus::Window;
use std::error::Error;
use x11rb::connection::Connection;
use x11rb::errors::{ConnectionError, ReplyError};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt, EventMask, Window as WindowId,
};
use x11rb::rust_connection::RustConnection;

x11rb::atom_manager! {
    /// The atoms that X11 does not predefine: names of properties, and the type of UTF-8 text.
    Atoms: AtomsCookie {
        _NET_ACTIVE_WINDOW,
        _NET_WM_NAME,
        UTF8_STRING,
    }
}

/// Maximum length of a title or class, in the protocol's units of 4 bytes. Longer ones are
/// truncated.
const PROPERTY_UNITS: u32 = 1024;

/// A connection that receives focus changes.
pub struct Watcher {
    connection: RustConnection,
    root: WindowId,
    atoms: Atoms,
    /// The window whose title is watched.
    watched: Option<WindowId>,
}

impl Watcher {
    pub fn open(display: &str) -> Result<Self, Unavailable> {
        let open = || -> Result<Watcher, Box<dyn Error>> {
            let (connection, screen) = x11rb::connect(Some(display))?;
            let root = connection.setup().roots.get(screen).map(|it| it.root).ok_or("it has no screen")?;
            let atoms = Atoms::new(&connection)?.reply()?;
            let watcher = Watcher { connection, root, atoms, watched: None };
            watcher.listen_to(root, true)?;
            Ok(watcher)
        };
        open().map_err(|why| Unavailable(format!("no X display to watch: {why}")))
    }

    fn listen_to(&self, window: WindowId, listen: bool) -> Result<(), ReplyError> {
        let mask = if listen { EventMask::PROPERTY_CHANGE } else { EventMask::NO_EVENT };
        let wanted = ChangeWindowAttributesAux::new().event_mask(mask);
        self.connection.change_window_attributes(window, &wanted)?.check()
    }

    /// Returns `None` if no window has the focus, and if the window manager does not report the
    /// window with the focus.
    fn read_front(&mut self) -> Result<Option<Window>, Unavailable> {
        let front = match self.active() {
            Ok(front) => front,
            Err(error) => return vanished(error),
        };
        if self.watched != front {
            if let Some(before) = self.watched.take() {
                // This fails when the window was closed.
                let _ = self.listen_to(before, false);
            }
            // Subscribe before the title is read, so that no change is missed.
            self.watched = front.filter(|it| self.listen_to(*it, true).is_ok());
        }
        let Some(front) = front else { return Ok(None) };
        let read =
            self.class(front).and_then(|app| Ok(Window { id: u64::from(front), app, title: self.title(front)? }));
        read.map(Some).or_else(vanished)
    }

    fn property(&self, window: WindowId, name: Atom, kind: Atom) -> Result<Vec<u8>, ReplyError> {
        Ok(self.connection.get_property(false, window, name, kind, 0, PROPERTY_UNITS)?.reply()?.value)
    }

    fn active(&self) -> Result<Option<WindowId>, ReplyError> {
        let value = self.property(self.root, self.atoms._NET_ACTIVE_WINDOW, AtomEnum::WINDOW.into())?;
        let id = value.first_chunk::<4>().map(|it| WindowId::from_ne_bytes(*it));
        Ok(id.filter(|it| *it != x11rb::NONE))
    }

    /// `WM_CLASS` contains two names, each ended by a NUL: the instance and the class.
    fn class(&self, window: WindowId) -> Result<String, ReplyError> {
        let value = self.property(window, AtomEnum::WM_CLASS.into(), AtomEnum::STRING.into())?;
        let mut names = value.split(|it| *it == 0);
        let instance = names.next().unwrap_or_default();
        let class = names.next().filter(|it| !it.is_empty()).unwrap_or(instance);
        Ok(String::from_utf8_lossy(class).into_owned())
    }

    /// The title from the UTF-8 property, or else from the older property in any encoding.
    fn title(&self, window: WindowId) -> Result<String, ReplyError> {
        let mut value = self.property(window, self.atoms._NET_WM_NAME, self.atoms.UTF8_STRING)?;
        if value.is_empty() {
            value = self.property(window, AtomEnum::WM_NAME.into(), AtomEnum::ANY.into())?;
        }
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    fn wait_for_change(&mut self) -> Result<(), Unavailable> {
        let gone = |why: ConnectionError| Unavailable(format!("the X display was disconnected: {why}"));
        loop {
            let event = self.connection.wait_for_event().map_err(gone)?;
            if let Event::PropertyNotify(it) = event {
                let names = [self.atoms._NET_ACTIVE_WINDOW, self.atoms._NET_WM_NAME, AtomEnum::WM_NAME.into()];
                if names.contains(&it.atom) {
                    return Ok(());
                }
            }
        }
    }
}

impl super::FrontWindow for Watcher {
    fn current(&mut self) -> Result<Option<Window>, Unavailable> {
        self.read_front()
    }

    fn wait(&mut self) -> Result<(), Unavailable> {
        self.wait_for_change()
    }
}

/// Converts an error of a read. A lost connection is an error. A window that was closed during the
/// read is not an error, because a change of focus follows.
fn vanished(error: ReplyError) -> Result<Option<Window>, Unavailable> {
    match error {
        ReplyError::X11Error(_) => Ok(None),
        ReplyError::ConnectionError(why) => Err(Unavailable(format!("the X display was disconnected: {why}"))),
    }
}
