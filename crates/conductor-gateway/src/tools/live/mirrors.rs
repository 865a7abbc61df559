//! Resources and prompts of Live Sets. A resource mirrors a read tool; a prompt is text for the
//! model and calls nothing.

use super::TOOLSET;
use crate::tools::catalog::{Catalog, CatalogError};
use crate::tools::prompt::{Argument, Message, Prompt};
use crate::tools::resource::{Completer, Resource, ToArguments, percent_encode};
use conductor_hosts::live::Live;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

type Variables = BTreeMap<String, String>;

pub fn add_resources(catalog: &mut Catalog, live: &Arc<Live>) -> Result<(), CatalogError> {
    let (tracks, clips) = (completer(live, track_indices), completer(live, clip_segments));
    let sets = completer(live, set_ids);
    let entry = |uri: &'static str,
                 name: &'static str,
                 title: &'static str,
                 description: &'static str,
                 tool: &'static str,
                 arguments: ToArguments| Resource {
        uri: uri.into(),
        name: name.into(),
        title: title.into(),
        description: description.into(),
        mime: "application/json".into(),
        toolset: TOOLSET.into(),
        tool: tool.into(),
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
    };
    let song: ToArguments = Arc::new(|variables| of_set(json!({}), variables.get("set").cloned()));
    let track: ToArguments = Arc::new(|variables| {
        // A variable at the end of a template takes the query along.
        let (index, query) = match variables.get("i").map(String::as_str).unwrap_or_default().split_once("?set=") {
            Some((index, set)) => (index.to_owned(), Some(set.to_owned())),
            None => (word(variables, "i"), None),
        };
        of_set(json!({ "trackId": format!("track:{index}") }), query.or_else(|| variables.get("set").cloned()))
    });
    let notes: ToArguments =
        Arc::new(|variables| of_set(json!({ "clipId": word(variables, "path") }), variables.get("set").cloned()));
    let overview = "live_get_song_overview";
    let (detail, contents) = ("live_get_track", "live_get_notes");
    let every = [
        entry("ableton://song", "song", "Song", "The current Live Set at a glance", overview, Arc::clone(&song)),
        entry(
            "ableton://song?set={set}",
            "song-of-set",
            "Song of a Set",
            "One open Live Set at a glance",
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

fn word(given: &Variables, name: &str) -> String {
    given.get(name).cloned().unwrap_or_default()
}

/// An argument as data: whatever it holds stays inside its quotes.
fn quoted(given: &Variables, name: &str) -> String {
    Value::from(word(given, name)).to_string()
}

fn completer(live: &Arc<Live>, list: fn(&Live) -> Vec<String>) -> Completer {
    let live = Arc::clone(live);
    Arc::new(move |_studio, _typed| list(&live))
}

fn track_indices(live: &Live) -> Vec<String> {
    let tracks = live.recent().map_or(0, |set| set.host.known_ids().tracks);
    (0..tracks).map(|it| it.to_string()).collect()
}

fn clip_ids(live: &Live) -> Vec<String> {
    let clips = live.recent().map(|set| set.host.known_ids().midi_clips).unwrap_or_default();
    clips.iter().map(ToString::to_string).collect()
}

fn clip_segments(live: &Live) -> Vec<String> {
    clip_ids(live).iter().map(|it| percent_encode(it)).collect()
}

fn set_ids(live: &Live) -> Vec<String> {
    live.sets().iter().map(|it| it.id.clone()).collect()
}

pub fn add_prompts(catalog: &mut Catalog, live: &Arc<Live>) -> Result<(), CatalogError> {
    let amounts: Completer = Arc::new(|_studio, _typed| ["0.01", "0.02", "0.05", "0.1"].map(str::to_owned).to_vec());
    catalog.add_prompt(Prompt {
        name: "humanize_clip".into(),
        title: "Humanize a clip".into(),
        description: "Let a MIDI clip breathe: small changes of timing, velocity and probability".into(),
        toolset: TOOLSET.into(),
        arguments: vec![
            Argument {
                name: "clipId",
                description: "The clip, such as track:0/clipslot:0/clip",
                required: true,
                complete: Some(completer(live, clip_ids)),
                source: Some("live_get_notes"),
            },
            Argument { name: "amount", description: "How far starts may move, in beats, such as 0.05", required: true, complete: Some(amounts), source: None },
        ],
        render: Arc::new(|given| {
            let (clip, amount) = (quoted(given, "clipId"), quoted(given, "amount"));
            vec![Message::text(format!(
                "Humanize the MIDI clip {clip} of the current Live Set; starts may move by at most {amount} beats.\n\
                 1. Call live_get_song_overview and keep its revision.\n\
                 2. Call live_get_notes with clipId {clip}. If the answer is truncated, call it again with offset 0, 400, 800 and so on until \
                 there is no nextOffset, so that you have every note.\n\
                 3. Move each startTime by a different small amount within plus or minus {amount} beats, never below 0. Vary velocity by a few \
                 units within 1 to 127, and probability slightly. Keep the number of notes, every pitch and every other field.\n\
                 4. Call live_set_notes once with clipId {clip}, all notes, and expectRevision set to the revision of step 1. If it answers \
                 STALE_REFERENCE, start again at step 1.\n\
                 5. Tell me how many notes moved, and that live_undo takes it back in one step."
            ))]
        }),
    })?;
    catalog.add_prompt(Prompt {
        name: "build_arrangement".into(),
        title: "Build an arrangement".into(),
        description: "Plan the sections of a song from what is in the session".into(),
        toolset: TOOLSET.into(),
        arguments: vec![Argument {
            name: "style",
            description: "What it should feel like, such as: long build, one big drop",
            required: false,
            complete: None,
            source: None,
        }],
        render: Arc::new(|given| {
            let style = if given.contains_key("style") {
                format!(" The style I want: {}.", quoted(given, "style"))
            } else {
                String::new()
            };
            vec![Message::text(format!(
                "Plan an arrangement from the current Live Set.{style}\n\
                 1. Call live_get_song_overview for tempo, scale and tracks.\n\
                 2. Call live_list_clips for each track that matters, and live_list_scenes for scenes and locators.\n\
                 3. Propose sections in order (intro, verse, break and so on): for each its length in bars, the clips that play, by id and name, \
                 and what changes from the section before.\n\
                 4. Stop there and ask me. Change nothing in the Set before I agree."
            ))]
        }),
    })?;
    catalog.add_prompt(Prompt {
        name: "batch_rename".into(),
        title: "Rename tracks".into(),
        description: "Rename several tracks by one rule".into(),
        toolset: TOOLSET.into(),
        arguments: vec![Argument {
            name: "pattern",
            description: "The rule, such as: drum tracks begin with DRUM_",
            required: true,
            complete: None,
            source: None,
        }],
        render: Arc::new(|given| {
            let pattern = quoted(given, "pattern");
            vec![Message::text(format!(
                "Rename tracks of the current Live Set by this rule: {pattern}.\n\
                 1. Call live_get_song_overview for all tracks, or live_find_track when the rule names some.\n\
                 2. Show me a table of old and new names, and leave out those that stay. Ask me whether to go on.\n\
                 3. When I agree, call live_set_track_props once per track with its trackId and the new name. Each is one undo step of its own.\n\
                 4. Call live_get_song_overview again and show me the names as they are now."
            ))]
        }),
    })
}
