//! Parameters of Live Sets under a knob, in whichever Set the hands are on.

use super::sessions::SessionKey;
use super::{Live, Refusal};
use crate::hosts::knobs::Knobs;
use conductor_core::event::Micros;
use conductor_set::PathId;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};

/// Values closer together than this are one turn, and one undo entry where the history is ours.
const ONE_TURN_US: u64 = 1_000_000;

/// One parameter, as a mapping names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Knob {
    pub path: String,
    /// Whether values come in the parameter's own units; else 0 to 1 stands for all of its range.
    pub ranged: bool,
}

/// What is remembered between values.
#[derive(Debug, Default)]
pub struct Turning {
    last: Option<(String, PathId, Micros)>,
    /// Ranges by Set and parameter, for as long as ids stay where they are.
    ranges: BTreeMap<(String, PathId), (u64, f64, f64)>,
}

/// `failed` hears of every value that did not arrive.
pub fn start(
    live: &Arc<Live>,
    runtime: tokio::runtime::Handle,
    now: impl Fn() -> Micros + Send + 'static,
    failed: impl Fn(&Knob, Refusal) + Send + 'static,
) -> std::io::Result<Knobs<Knob>> {
    let live: Weak<Live> = Arc::downgrade(live);
    Knobs::start("live knobs", move |knob: Knob, value| {
        let Some(live) = live.upgrade() else { return };
        if let Err(refusal) = runtime.block_on(live.turn(&knob, value, now())) {
            failed(&knob, refusal);
        }
    })
}

impl Live {
    /// Sets a parameter as a knob does: at once, unguarded, and as one undo entry while it is turning.
    pub async fn turn(&self, knob: &Knob, value: f64, now: Micros) -> Result<(), Refusal> {
        let id: PathId = knob.path.parse().map_err(Refusal::Set)?;
        let set = self.set(&SessionKey::Hands, None).await?;
        let structure = set.host.state().structure;
        let value = if knob.ranged {
            value
        } else {
            let key = (set.id.clone(), id);
            let known = self.turning().ranges.get(&key).copied().filter(|it| it.0 == structure);
            let (low, high) = match known {
                Some((_, low, high)) => (low, high),
                None => {
                    let param = set.host.param(id).await?;
                    self.turning().ranges.insert(key, (structure, param.min, param.max));
                    (param.min, param.max)
                }
            };
            low + (high - low) * value.clamp(0.0, 1.0)
        };
        let still = self
            .turning()
            .last
            .as_ref()
            .is_some_and(|(of, which, at)| *of == set.id && *which == id && now.since(*at) < ONE_TURN_US);
        set.host.turn_knob(id, value, still).await?;
        self.turning().last = Some((set.id.clone(), id, now));
        self.tell_of(&set, &[id], false);
        Ok(())
    }

    /// Where a parameter stands in its range, 0 to 1.
    pub async fn stands(&self, path: &str) -> Result<f64, Refusal> {
        let id: PathId = path.parse().map_err(Refusal::Set)?;
        let param = self.set(&SessionKey::Hands, None).await?.host.param(id).await?;
        let range = param.max - param.min;
        Ok(if range > 0.0 { ((param.value - param.min) / range).clamp(0.0, 1.0) } else { 0.0 })
    }

    fn turning(&self) -> std::sync::MutexGuard<'_, Turning> {
        self.turning.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
