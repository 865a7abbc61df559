//! Knobs that control parameters of the default Live Set.

use super::sessions::SessionKey;
use super::{Live, LiveHostError, LiveSet};
use crate::worker::{Latest, Worker};
use conductor_core::event::Micros;
use conductor_set::PathId;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Values that follow each other within this time belong to one turn of the knob. In a file they
/// become one undo entry.
const ONE_TURN_US: u64 = 1_000_000;

/// The parameter that a mapping controls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Knob {
    pub path: String,
    /// Whether values are in the parameter's units. Otherwise 0 to 1 covers its whole range.
    pub ranged: bool,
}

/// The state that is kept between two values of a knob.
#[derive(Debug, Default)]
pub struct Turning {
    last: Option<(String, PathId, Micros)>,
    /// Cached ranges by Set and parameter, with the value of `State::structure` for which they are
    /// valid.
    ranges: BTreeMap<(String, PathId), (u64, f64, f64)>,
}

/// Starts the worker that sets the values. It calls `failed` for every value that could not be set.
pub fn start(
    live: &Arc<Live>,
    runtime: tokio::runtime::Handle,
    now: impl Fn() -> Micros + Send + 'static,
    failed: impl Fn(&Knob, LiveHostError) + Send + 'static,
) -> std::io::Result<Worker<Latest<Knob>>> {
    let live: Weak<Live> = Arc::downgrade(live);
    Worker::start("live knobs", move |(knob, value): (Knob, f64)| {
        let Some(live) = live.upgrade() else { return };
        if let Err(refusal) = runtime.block_on(live.turn(&knob, value, now())) {
            failed(&knob, refusal);
        }
    })
}

impl Live {
    /// Sets a parameter from a knob: immediately, without preconditions, and as one undo entry per
    /// turn.
    pub async fn turn(&self, knob: &Knob, value: f64, now: Micros) -> Result<(), LiveHostError> {
        let id: PathId = knob.path.parse().map_err(LiveHostError::Set)?;
        let set = self.set(&SessionKey::Engine, None).await?;
        let value = if knob.ranged {
            value
        } else {
            let (low, high) = self.range(&set, id).await?;
            low + (high - low) * value.clamp(0.0, 1.0)
        };
        let still = self
            .turning()
            .last
            .as_ref()
            .is_some_and(|(of, which, at)| *of == set.id && *which == id && now.since(*at) < ONE_TURN_US);
        set.host.turn_knob(id, value, still).await?;
        self.turning().last = Some((set.id.clone(), id, now));
        self.notify(&set, &[id], false);
        Ok(())
    }

    /// Minimum and maximum of a parameter. Cached until ids shift.
    pub(super) async fn range(&self, set: &LiveSet, id: PathId) -> Result<(f64, f64), LiveHostError> {
        let structure = set.host.state().structure;
        let key = (set.id.clone(), id);
        let known = self.turning().ranges.get(&key).copied().filter(|it| it.0 == structure);
        if let Some((_, low, high)) = known {
            return Ok((low, high));
        }
        let param = set.host.param(id).await?;
        self.turning().ranges.insert(key, (structure, param.min, param.max));
        Ok((param.min, param.max))
    }

    fn turning(&self) -> parking_lot::MutexGuard<'_, Turning> {
        self.turning.lock()
    }
}
