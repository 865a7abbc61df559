//! Polls parameter values of the default Live Set, for lights, faders and knobs that display them.
//!
//! Polling is needed because no running Live reports changes to every kind of parameter, and a file
//! reports no changes. Not here: when to poll, and the display of values
//! (`conductor_core::feedback`).

use super::sessions::SessionKey;
use super::{Live, LiveHostError};
use conductor_core::engine::Reading;
use conductor_set::PathId;
use std::collections::BTreeMap;

/// The values reported so far.
#[derive(Debug, Default)]
pub struct Follow {
    reported: BTreeMap<PathId, f64>,
    /// The file and its revision at the last poll.
    file: Option<(String, String)>,
}

/// The result of one poll.
#[derive(Debug, PartialEq)]
pub struct Look {
    /// Values that differ from the last report.
    pub news: Vec<(PathId, Reading)>,
    /// Whether the Set is a file. A running Live can change at any time; a file changes only
    /// through Conductor.
    pub is_file: bool,
}

impl Follow {
    /// Polls the wanted parameters. A missing parameter is left out, because the person may create
    /// it later.
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
            if self.reported.insert(*id, share) != Some(share) {
                news.push((*id, Reading { value, share }));
            }
        }
        self.file = file;
        Ok(Look { news, is_file })
    }
}
