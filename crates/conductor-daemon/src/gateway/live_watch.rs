//! Watches the Live parameters that the configuration uses, and reports new values to the owner.

use super::Gateway;
use crate::owner::wake::{Wake, Waker};
use conductor_core::config::{self, Config, FeedbackFrom};
use conductor_core::engine::Reading;
use conductor_core::mapping::{Continuous, SourceKind, Takeover, Target};
use conductor_hosts::live::param_watch::Follow;
use conductor_set::PathId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;

/// Paths of the parameters to watch: those that controllers show, and those whose knobs need the
/// current value.
pub fn watched(config: &Config) -> BTreeSet<String> {
    let modes = config.modes.iter().map(|it| &it.rows);
    let bindings = modes.chain([&config.global]).flat_map(|it| &it.continuous).filter(|it| it.enabled);
    let asks =
        |it: &&Continuous| it.glue.takeover != Takeover::Off || matches!(it.source.kind, SourceKind::Encoder { .. });
    let turned = bindings.filter_map(|it| it.binding.as_ref()).filter(asks).flat_map(|it| &it.targets);
    let turned =
        turned.filter_map(|it| if let Target::LiveParameter { path } = it { Some(path.clone()) } else { None });
    let path = |it: &config::Feedback| match &it.from {
        FeedbackFrom::LiveParameter { path } => Some(path.clone()),
        FeedbackFrom::Mode(_)
        | FeedbackFrom::Pressed { .. }
        | FeedbackFrom::Value { .. }
        | FeedbackFrom::Connected { .. }
        | FeedbackFrom::PerformanceLock
        | FeedbackFrom::PendingApprovals => None,
    };
    config.feedback.iter().filter_map(path).chain(turned).collect()
}

/// Intervals between two polls of the values: for a running Live, for a file, and while no Set is
/// available. A running Live sends values at most ten times a second.
const LIVE_LOOK_US: u64 = 50_000;
const FILE_LOOK_US: u64 = 200_000;
const ABSENT_LOOK_US: u64 = 1_000_000;

/// Runs until the daemon stops. Idle while the configuration uses no parameter.
pub async fn run(gateway: Arc<Gateway>, owner: Waker) {
    let mut paths = gateway.watched_live.subscribe();
    let ended = gateway.shared.stop.clone();
    tokio::select! {
        () = follow(&gateway, &mut paths, &owner) => {}
        () = ended.cancelled() => {}
    }
}

async fn follow(gateway: &Gateway, paths: &mut watch::Receiver<BTreeSet<String>>, owner: &Waker) {
    loop {
        let named = paths.borrow_and_update().clone();
        let mut wanted = BTreeMap::new();
        for path in named {
            match path.parse::<PathId>() {
                Ok(id) => drop(wanted.insert(id, path)),
                Err(why) => gateway.log.warn(format_args!("{path}: {why}")),
            }
        }
        let ids: Vec<PathId> = wanted.keys().copied().collect();
        let mut follow = Follow::default();
        let mut wait = 0;
        loop {
            let due = gateway.studio.clock.now().plus_us(wait);
            let rest = async {
                if ids.is_empty() {
                    std::future::pending::<()>().await;
                }
                gateway.studio.sleeper.until(due).await;
            };
            tokio::select! {
                changed = paths.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = rest => {}
            }
            wait = match follow.look(&gateway.live, &ids).await {
                Ok(look) => {
                    let named = |(id, reading): (PathId, Reading)| Some((wanted.get(&id)?.clone(), reading));
                    let news: Vec<(String, Reading)> = look.news.into_iter().filter_map(named).collect();
                    if !news.is_empty() {
                        owner.post(Wake::LiveParameters(news));
                    }
                    if look.is_file { FILE_LOOK_US } else { LIVE_LOOK_US }
                }
                // Lights keep the last value until a later poll finds an open Set.
                Err(_) => ABSENT_LOOK_US,
            };
        }
    }
}
