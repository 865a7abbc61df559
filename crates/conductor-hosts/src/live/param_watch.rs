//! What parameters of Live Sets stand at, for lights and faders that show them and knobs that turn
//! them, in whichever Set the hands are on.
//!
//! Looked at, not listened to: no host tells of every kind of parameter, and a file tells nothing.
//! Not here: when it is looked at, and what shows the value (`conductor_core::feedback`).

use super::sessions::SessionKey;
use super::{Live, LiveHostError};
use conductor_core::engine::Reading;
use conductor_set::PathId;
use std::collections::BTreeMap;

/// Remembers what was told.
#[derive(Debug, Default)]
pub struct Follow {
    told: BTreeMap<PathId, f64>,
    /// The file and the revision of it that was last looked at.
    file: Option<(String, String)>,
}

/// What a look gave.
#[derive(Debug, PartialEq)]
pub struct Look {
    /// Values that differ from what was told before.
    pub news: Vec<(PathId, Reading)>,
    /// A file changes only through us; a running Live through its person at any moment.
    pub is_file: bool,
}

impl Follow {
    /// A parameter that is not there is left out: the person may be about to make it.
    pub async fn look(&mut self, live: &Live, wanted: &[PathId]) -> Result<Look, LiveHostError> {
        let set = live.set(&SessionKey::Engine, None).await?;
        let state = set.host.state();
        let is_file = state.path.is_some();
        let file = is_file.then(|| (set.id.clone(), state.revision));
        if is_file && self.file == file {
            return Ok(Look { news: Vec::new(), is_file });
        }
        let mut news = Vec::new();
        for (id, value) in wanted.iter().zip(set.host.param_values(wanted.to_vec()).await?) {
            let Some(value) = value else { continue };
            let (low, high) = live.range(&set, *id).await?;
            let share = if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
            if self.told.insert(*id, share) != Some(share) {
                news.push((*id, Reading { value, share }));
            }
        }
        self.file = file;
        Ok(Look { news, is_file })
    }
}
