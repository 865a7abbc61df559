//! Which window is in front, on X11: the root window's `_NET_ACTIVE_WINDOW`, then that window's
//! `WM_CLASS` and title.
//!
//! Not here: what a focus means (`conductor_core::focus`), and other desktops, where focus is
//! unknown and the rules rest.

use super::desktop::Unavailable;
use conductor_core::focus::Window;
use std::ops::ControlFlow;
use x11rb::connection::Connection;
use x11rb::errors::{ConnectionError, ReplyError};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt, EventMask, Window as WindowId,
};
use x11rb::rust_connection::RustConnection;

x11rb::atom_manager! {
    /// The names of the properties we read.
    Atoms: AtomsCookie {
        _NET_ACTIVE_WINDOW,
        _NET_WM_NAME,
        UTF8_STRING,
    }
}

/// Titles and classes longer than this are cut: 4-byte units, as the protocol counts.
const PROPERTY_UNITS: u32 = 1024;

/// A connection that hears of focus.
pub struct Watcher {
    connection: RustConnection,
    root: WindowId,
    atoms: Atoms,
    /// The window whose title is watched.
    watched: Option<WindowId>,
}

impl Watcher {
    /// `display` absent: the one the environment names.
    pub fn open(display: Option<&str>) -> Result<Self, Unavailable> {
        let no = |why: String| Unavailable(format!("no X display to watch: {why}"));
        let (connection, screen) = x11rb::connect(display).map_err(|why| no(why.to_string()))?;
        let root =
            connection.setup().roots.get(screen).map(|it| it.root).ok_or_else(|| no("it has no screen".into()))?;
        let atoms =
            Atoms::new(&connection).map_err(|why| no(why.to_string()))?.reply().map_err(|why| no(why.to_string()))?;
        let watcher = Watcher { connection, root, atoms, watched: None };
        watcher.listen_to(root, true).map_err(|why| no(why.to_string()))?;
        Ok(watcher)
    }

    fn listen_to(&self, window: WindowId, listen: bool) -> Result<(), ReplyError> {
        let mask = if listen { EventMask::PROPERTY_CHANGE } else { EventMask::NO_EVENT };
        let wanted = ChangeWindowAttributesAux::new().event_mask(mask);
        self.connection.change_window_attributes(window, &wanted)?.check()
    }

    /// What is in front now; nothing when no window is, or when no window manager tells.
    pub fn current(&mut self) -> Result<Option<Window>, Unavailable> {
        let front = match self.active() {
            Ok(front) => front,
            Err(why) => return lost(&why),
        };
        if self.watched != front {
            if let Some(before) = self.watched.take() {
                // It may be gone; then it is not heard of anyhow.
                let _ = self.listen_to(before, false);
            }
            // Before the title is read, so that no change of it falls in between.
            self.watched = front.filter(|it| self.listen_to(*it, true).is_ok());
        }
        let Some(front) = front else { return Ok(None) };
        let read =
            self.class(front).and_then(|app| Ok(Window { id: u64::from(front), app, title: self.title(front)? }));
        match read {
            Ok(window) => Ok(Some(window)),
            Err(why) => lost(&why),
        }
    }

    fn property(&self, window: WindowId, name: Atom, kind: Atom) -> Result<Vec<u8>, ReplyError> {
        Ok(self.connection.get_property(false, window, name, kind, 0, PROPERTY_UNITS)?.reply()?.value)
    }

    fn active(&self) -> Result<Option<WindowId>, ReplyError> {
        let value = self.property(self.root, self.atoms._NET_ACTIVE_WINDOW, AtomEnum::WINDOW.into())?;
        let id = value.first_chunk::<4>().map(|it| WindowId::from_ne_bytes(*it));
        Ok(id.filter(|it| *it != x11rb::NONE))
    }

    /// `WM_CLASS` holds two names, each with a NUL at its end: the instance and the class.
    fn class(&self, window: WindowId) -> Result<String, ReplyError> {
        let value = self.property(window, AtomEnum::WM_CLASS.into(), AtomEnum::STRING.into())?;
        let mut names = value.split(|it| *it == 0);
        let instance = names.next().unwrap_or_default();
        let class = names.next().filter(|it| !it.is_empty()).unwrap_or(instance);
        Ok(String::from_utf8_lossy(class).into_owned())
    }

    /// The title in UTF-8, else the older one in whatever it was written in.
    fn title(&self, window: WindowId) -> Result<String, ReplyError> {
        let mut value = self.property(window, self.atoms._NET_WM_NAME, self.atoms.UTF8_STRING)?;
        if value.is_empty() {
            value = self.property(window, AtomEnum::WM_NAME.into(), AtomEnum::ANY.into())?;
        }
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    /// Waits until something about the focus may have changed.
    pub fn wait(&mut self) -> Result<(), Unavailable> {
        let gone = |why: ConnectionError| Unavailable(format!("the X display went away: {why}"));
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

/// A window that vanished while it was read is no fault: the next focus is on its way. A lost
/// connection is.
fn lost(why: &ReplyError) -> Result<Option<Window>, Unavailable> {
    match why {
        ReplyError::X11Error(_) => Ok(None),
        ReplyError::ConnectionError(why) => Err(Unavailable(format!("the X display went away: {why}"))),
    }
}

/// Tells every change, the present window first, until `tell` breaks at one or the display goes
/// away; the last thing told is then that nobody knows. Gives why it ended.
pub fn watch(watcher: &mut Watcher, mut tell: impl FnMut(Option<Window>) -> ControlFlow<()>) -> Unavailable {
    let mut told: Option<Option<Window>> = None;
    loop {
        let front = match watcher.current() {
            Ok(front) => front,
            Err(why) => break lost_sight(why, tell),
        };
        if told.as_ref() != Some(&front) {
            told = Some(front.clone());
            if tell(front).is_break() {
                break Unavailable("nobody watches any more".to_owned());
            }
        }
        if let Err(why) = watcher.wait() {
            break lost_sight(why, tell);
        }
    }
}

fn lost_sight(why: Unavailable, mut tell: impl FnMut(Option<Window>) -> ControlFlow<()>) -> Unavailable {
    // Nothing follows that a break could end.
    let _ = tell(None);
    why
}
