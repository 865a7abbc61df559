//! Resources of Live Sets. Each resource returns the result of a read tool.

use super::TOOLSET;
use conductor_gateway::catalog::resource::{Completer, Resource, ToArguments, percent_encode, variable};
use conductor_gateway::catalog::{Catalog, CatalogError};
use conductor_hosts::live::Live;
use serde_json::{Value, json};
use std::sync::Arc;

pub fn add_resources(catalog: &mut Catalog, live: &Arc<Live>) -> Result<(), CatalogError> {
    let (tracks, clips) = (completer(live, track_indices), completer(live, clip_segments));
    let sets = completer(live, set_ids);
    let entry = |uri: &'static str,
                 name: &'static str,
                 title: &'static str,
                 description: &'static str,
                 tool: &'static str,
                 arguments: ToArguments| Resource {
        title: title.into(),
        arguments,
        complete: uri
            .split('{')
            .skip(1)
            .filter_map(|part| match part.split_once('}').map(|(name, _)| name) {
                Some("i") => Some(("i", Arc::clone(&tracks))),
                Some("path") => Some(("path", Arc::clone(&clips))),
                Some("set") => Some(("set", Arc::clone(&sets))),
                Some(_) | None => None,
            })
            .collect(),
        ..Resource::json((TOOLSET, tool), uri, name, description)
    };
    let song: ToArguments = Arc::new(|variables| of_set(json!({}), variables.get("set").cloned()));
    let track: ToArguments = Arc::new(|variables| {
        // A variable at the end of a template also matches the query of the URI, so split the query
        // off.
        let (index, query) = match variables.get("i").map(String::as_str).unwrap_or_default().split_once("?set=") {
            Some((index, set)) => (index.to_owned(), Some(set.to_owned())),
            None => (variable(variables, "i"), None),
        };
        of_set(json!({ "trackId": format!("track:{index}") }), query.or_else(|| variables.get("set").cloned()))
    });
    let notes: ToArguments =
        Arc::new(|variables| of_set(json!({ "clipId": variable(variables, "path") }), variables.get("set").cloned()));
    let overview = "live_get_song_overview";
    let (detail, contents) = ("live_get_track", "live_get_notes");
    let every = [
        entry("ableton://song", "song", "Song", "Summary of the current Live Set", overview, Arc::clone(&song)),
        entry(
            "ableton://song?set={set}",
            "song-of-set",
            "Song of a Set",
            "Summary of one open Live Set",
            overview,
            song,
        ),
        entry(
            "ableton://track/{i}",
            "track",
            "Track",
            "Clips, devices and parameters of one track; {i} counts from 0",
            detail,
            Arc::clone(&track),
        ),
        entry(
            "ableton://track/{i}?set={set}",
            "track-of-set",
            "Track of a Set",
            "One track of one open Live Set",
            detail,
            track,
        ),
        entry(
            "ableton://clip/{path}/notes",
            "clip-notes",
            "Notes of a clip",
            "Notes of one MIDI clip; {path} is the clip id, percent-encoded as one segment",
            contents,
            Arc::clone(&notes),
        ),
        entry(
            "ableton://clip/{path}/notes?set={set}",
            "clip-notes-of-set",
            "Notes of a clip of a Set",
            "Notes of one MIDI clip of one open Live Set",
            contents,
            notes,
        ),
        entry(
            "ableton://sets",
            "sets",
            "Sets",
            "Open Live Sets and the hosts that can be reached",
            "live_list_sets",
            Arc::new(|_| json!({})),
        ),
    ];
    every.into_iter().try_for_each(|resource| catalog.add_resource(resource))
}

fn of_set(mut arguments: Value, set: Option<String>) -> Value {
    if let Some(set) = set {
        arguments["setId"] = Value::from(set);
    }
    arguments
}

pub(super) fn completer(live: &Arc<Live>, list: fn(&Live) -> Vec<String>) -> Completer {
    let live = Arc::clone(live);
    Arc::new(move |_studio, _typed| list(&live))
}

fn track_indices(live: &Live) -> Vec<String> {
    let tracks = live.recent().map_or(0, |set| set.host.known_ids().tracks);
    (0..tracks).map(|it| it.to_string()).collect()
}

pub(super) fn clip_ids(live: &Live) -> Vec<String> {
    let clips = live.recent().map(|set| set.host.known_ids().midi_clips).unwrap_or_default();
    clips.iter().map(ToString::to_string).collect()
}

fn clip_segments(live: &Live) -> Vec<String> {
    clip_ids(live).iter().map(|it| percent_encode(it)).collect()
}

fn set_ids(live: &Live) -> Vec<String> {
    live.sets().iter().map(|it| it.id.clone()).collect()
}
