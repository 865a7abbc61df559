//! The front window of sway, over its IPC socket. The socket of i3 has the same protocol.

use super::FrontWindow;
use crate::desktop::Unavailable;
use conductor_core::focus::Window;
use std::os::unix::net::UnixStream;
use std::path::Path;
use swayipc::{Connection, EventStream, EventType, Node};

pub struct Watcher {
    requests: Connection,
    events: EventStream,
}

impl Watcher {
    pub fn open(socket: &Path) -> Result<Self, Unavailable> {
        let connect = || UnixStream::connect(socket).map(Connection::from).map_err(gone);
        // Subscribe before the first request, so that no change is missed.
        let events = connect()?.subscribe([EventType::Window, EventType::Workspace]).map_err(gone)?;
        Ok(Watcher { requests: connect()?, events })
    }
}

impl FrontWindow for Watcher {
    fn current(&mut self) -> Result<Option<Window>, Unavailable> {
        let tree = self.requests.get_tree().map_err(gone)?;
        Ok(tree.find_focused(|it| it.focused && it.pid.is_some()).map(window))
    }

    fn wait(&mut self) -> Result<(), Unavailable> {
        match self.events.next() {
            Some(Ok(_)) => Ok(()),
            Some(Err(why)) => Err(gone(why)),
            None => Err(gone("the stream of events ended")),
        }
    }
}

/// A Wayland program has an app id; a program on the X server of sway has a class.
fn window(node: Node) -> Window {
    let class = node.window_properties.and_then(|it| it.class);
    Window {
        id: node.id.unsigned_abs(),
        app: node.app_id.or(class).unwrap_or_default(),
        title: node.name.unwrap_or_default(),
    }
}

fn gone(why: impl std::fmt::Display) -> Unavailable {
    Unavailable(format!("sway does not report windows: {why}"))
}
