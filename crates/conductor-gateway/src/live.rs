//! Live Sets in the gateway: change events for clients that watch a Set, and the errors of Live
//! hosts as tool errors (`errors`).
//!
//! Not here: the hosts (`hosts/live`), and the tools of Live Sets.

pub mod errors;

use crate::studio::Studio;
use conductor_hosts::live::{Live, LiveSet};
use conductor_set::{PathId, Resource};
use std::sync::Arc;

/// Sends a change event for each changed resource, under both of its URIs.
pub fn notify_watchers(studio: &Studio, set: &LiveSet, changed: &[PathId], shifted: bool) {
    let tracks = set.host.known_ids().tracks;
    for resource in Resource::touched_by(changed, tracks, shifted) {
        let uri = resource.uri();
        studio.events.uri_changed(&format!("{uri}?set={}", set.id));
        studio.events.uri_changed(&uri);
    }
    studio.events.uri_changed("ableton://sets");
}

/// Notifies subscribers of changes that a person makes in a running Live.
pub fn connect(studio: &Arc<Studio>, live: &Live) {
    // A strong reference would form a cycle: studio, tools, Sets, studio.
    let studio = Arc::downgrade(studio);
    live.on_change(move |set, changed, shifted| {
        if let Some(studio) = studio.upgrade() {
            notify_watchers(&studio, set, changed, shifted);
        }
    });
}
