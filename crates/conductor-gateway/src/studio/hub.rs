//! What changed, told to whoever listens.
//!
//! Tools and hosts say what changed and know no client; doors listen and decide which client hears
//! of it, and how often. A listener that falls behind is told so and treats everything it watches
//! as changed.

use std::sync::Arc;

use tokio::sync::broadcast;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    Tools,
    Resources,
    Prompts,
    Uri(Arc<str>),
}

/// Changes a slow listener may have waiting before it is told that it lost some.
const BACKLOG: usize = 1024;

pub struct Hub(broadcast::Sender<Change>);

impl Default for Hub {
    fn default() -> Self {
        Self(broadcast::channel(BACKLOG).0)
    }
}

impl Hub {
    pub fn tell(&self, change: Change) {
        // Nobody listening is fine.
        let _ = self.0.send(change);
    }

    pub fn uri_changed(&self, uri: &str) {
        self.tell(Change::Uri(uri.into()));
    }

    pub fn listen(&self) -> broadcast::Receiver<Change> {
        self.0.subscribe()
    }
}
