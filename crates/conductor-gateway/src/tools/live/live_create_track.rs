//! `live_create_track`: a new track at the end.

use super::{editing, schema};
use crate::tools::catalog::Definition;
use conductor_hosts::live::Live;
use schema::{boolean, integer, nullable, number, object, text};
use serde_json::json;
use std::sync::Arc;

pub fn definition(live: &Arc<Live>) -> Definition {
    editing(live, "live_create_track", "create_track")
        .text(
            "Create track",
            "Adds an empty MIDI or audio track after the last one. One undo step. Name it afterwards with live_set_track_props and the id given.",
        )
        .input(schema::change(json!({ "kind": { "type": "string", "enum": ["midi", "audio"], "description": "Kind of track" } })))
        .output(schema::changed(json!({
            "id": text(), "kind": text(), "name": text(), "mute": boolean(), "solo": boolean(), "mutedViaSolo": boolean(), "arm": boolean(),
            "clipSlotCount": integer(), "arrangementClipCount": integer(), "deviceCount": integer(),
            "mixer": object(json!({ "volume": nullable(number()), "panning": nullable(number()), "sendCount": integer() })),
        })))
}
