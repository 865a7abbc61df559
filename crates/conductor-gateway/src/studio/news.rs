//! What happens to calls, told to whoever observes. Ids, names, results and times; never an
//! argument, never an output.

use serde_json::Value;
use tokio::sync::broadcast;

#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// Such as `tool.complete`.
    pub name: &'static str,
    pub data: Value,
}

/// What a slow observer may have waiting; then it loses the oldest and is told how many.
const BACKLOG: usize = 256;

pub struct Newsroom(broadcast::Sender<News>);

impl Default for Newsroom {
    fn default() -> Self {
        Self(broadcast::channel(BACKLOG).0)
    }
}

impl Newsroom {
    /// Costs nothing while nobody listens.
    pub fn tell(&self, name: &'static str, data: impl FnOnce() -> Value) {
        if self.0.receiver_count() > 0 {
            let _ = self.0.send(News { name, data: data() });
        }
    }

    pub fn listen(&self) -> broadcast::Receiver<News> {
        self.0.subscribe()
    }
}
