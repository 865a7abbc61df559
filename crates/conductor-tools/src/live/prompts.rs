//! Prompts for Live Sets: texts for the model.

use super::TOOLSET;
use super::resources::{clip_ids, completer};
use conductor_gateway::catalog::prompt::{Argument, Prompt};
use conductor_gateway::catalog::resource::{Completer, Variables, variable};
use conductor_gateway::catalog::{Catalog, CatalogError};
use conductor_hosts::live::Live;
use serde_json::Value;
use std::sync::Arc;

pub fn add_prompts(catalog: &mut Catalog, live: &Arc<Live>) -> Result<(), CatalogError> {
    let amounts: Completer = Arc::new(|_studio, _typed| ["0.01", "0.02", "0.05", "0.1"].map(str::to_owned).to_vec());
    catalog.add_prompt(Prompt::new(
        TOOLSET,
        "humanize_clip",
        ("Humanize a clip", "Make a MIDI clip less mechanical: small changes to timing, velocity and probability"),
        vec![
            Argument::required("clipId", "The clip, such as track:0/clipslot:0/clip")
                .completed(completer(live, clip_ids), Some("live_get_notes")),
            Argument::required("amount", "How far starts may move, in beats, such as 0.05").completed(amounts, None),
        ],
        humanize_clip,
    ))?;
    catalog.add_prompt(Prompt::new(
        TOOLSET,
        "build_arrangement",
        ("Build an arrangement", "Plan the sections of a song from the clips of the session"),
        vec![Argument::optional("style", "The style, such as: long build, one big drop")],
        build_arrangement,
    ))?;
    catalog.add_prompt(Prompt::new(
        TOOLSET,
        "batch_rename",
        ("Rename tracks", "Rename several tracks by one rule"),
        vec![Argument::required("pattern", "The rule, such as: drum tracks begin with DRUM_")],
        batch_rename,
    ))
}

fn humanize_clip(given: &Variables) -> String {
    let (clip, amount) = (quoted(given, "clipId"), quoted(given, "amount"));
    format!(
        "Humanize the MIDI clip {clip} of the current Live Set; starts may move by at most {amount} beats.\n\
         1. Call live_get_song_overview and keep its revision.\n\
         2. Call live_get_notes with clipId {clip}. If the answer is truncated, call it again with offset 0, 400, 800 and so on until \
         there is no nextOffset, so that you have every note.\n\
         3. Move each startTime by a different small amount within plus or minus {amount} beats, never below 0. Vary velocity by a few \
         units within 1 to 127, and probability slightly. Keep the number of notes, every pitch and every other field.\n\
         4. Call live_set_notes once with clipId {clip}, all notes, and expectRevision set to the revision of step 1. If it answers \
         STALE_REFERENCE, start again at step 1.\n\
         5. Tell me how many notes moved, and that live_undo undoes it in one step."
    )
}

fn build_arrangement(given: &Variables) -> String {
    let style = if given.contains_key("style") {
        format!(" The style I want: {}.", quoted(given, "style"))
    } else {
        String::new()
    };
    format!(
        "Plan an arrangement from the current Live Set.{style}\n\
         1. Call live_get_song_overview for tempo, scale and tracks.\n\
         2. Call live_list_clips for each track that matters, and live_list_scenes for scenes and locators.\n\
         3. Propose sections in order (intro, verse, break and so on): for each its length in bars, the clips that play, by id and name, \
         and what changes from the section before.\n\
         4. Stop there and ask me. Change nothing in the Set before I agree."
    )
}

fn batch_rename(given: &Variables) -> String {
    let pattern = quoted(given, "pattern");
    format!(
        "Rename tracks of the current Live Set by this rule: {pattern}.\n\
         1. Call live_get_song_overview for all tracks, or live_find_track when the rule names some.\n\
         2. Show me a table of old and new names, and leave out names that stay the same. Ask me whether to continue.\n\
         3. When I agree, call live_set_track_props once per track with its trackId and the new name. Each call is a separate undo step.\n\
         4. Call live_get_song_overview again and show me the names as they are now."
    )
}

/// The value of an argument as a JSON string, so that it cannot be mistaken for instructions.
fn quoted(given: &Variables, name: &str) -> String {
    Value::from(variable(given, name)).to_string()
}
