//! Schemas that several Live tools share.

pub use crate::tools::schema_builder::{boolean, integer, list, nullable, number, object, said, text};
use serde_json::{Value, json};

fn more(mut properties: Value, with: Value) -> Value {
    if let (Value::Object(all), Value::Object(with)) = (&mut properties, with) {
        all.extend(with);
    }
    properties
}

/// The input of a tool that reads a Set.
pub fn look(properties: Value) -> Value {
    object(more(properties, json!({ "setId?": set_id() })))
}

/// The input of a tool that changes a Set.
pub fn change(properties: Value) -> Value {
    look(more(
        properties,
        json!({
            "expectRevision?": said("Write nothing and fail if the Set has another revision", text()),
            "dryRun?": said("Return the diff and write nothing", boolean()),
        }),
    ))
}

/// The result of a tool that changes a Set.
pub fn changed(properties: Value) -> Value {
    object(more(
        properties,
        json!({
            "undoSteps": integer(), "revision": text(), "warnings?": list(text()), "shifted?": boolean(), "diff?": diff(),
        }),
    ))
}

pub fn set_id() -> Value {
    json!({ "type": "string", "minLength": 1, "description": "Id of an open Set; default: the current Set" })
}

pub fn id(description: &'static str) -> Value {
    json!({ "type": "string", "minLength": 1, "description": description })
}

pub fn offset() -> Value {
    json!({ "type": "integer", "minimum": 0, "description": "Number of entries to skip: nextOffset of the previous page" })
}

pub fn beats(description: &'static str) -> Value {
    json!({ "type": "number", "minimum": 0, "description": description })
}

/// Members of the overview.
pub fn overview_members() -> Value {
    json!({
        "tempo": nullable(number()), "rootNote": nullable(integer()), "scaleName": nullable(text()), "scaleMode": nullable(boolean()),
        "scaleIntervals": list(integer()), "gridQuantization": nullable(text()), "gridIsTriplet": nullable(boolean()),
        "trackCount": integer(), "returnTrackCount": nullable(integer()), "sceneCount": integer(), "cuePointCount": integer(),
        "tracks": list(track_row()), "timeSignature": nullable(text()), "revision": text(), "editable": boolean(),
        "unknown?": list(text()), "warnings?": list(text()), "setId": text(), "host": text(), "dirty": boolean(),
        "path": nullable(text()), "externalChange?": boolean(),
    })
}

pub fn overview() -> Value {
    object(overview_members())
}

pub fn track_row() -> Value {
    object(json!({ "id": text(), "name": text(), "type": { "enum": ["midi", "audio", "group"] } }))
}

/// A note, in arguments and results.
pub fn note() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pitch": { "type": "integer", "minimum": 0, "maximum": 127 },
            "startTime": { "type": "number", "minimum": 0 },
            "duration": { "type": "number", "minimum": 0 },
            "velocity": { "type": "number", "minimum": 0, "maximum": 127 },
            "muted": { "type": "boolean" },
            "probability": { "type": "number", "minimum": 0, "maximum": 1 },
            "velocityDeviation": { "type": "number" },
            "releaseVelocity": { "type": "number", "minimum": 0, "maximum": 127 },
            "selected": { "type": "boolean" }
        },
        "required": ["pitch", "startTime", "duration"],
        "additionalProperties": false
    })
}

pub fn clip_kind() -> Value {
    json!({ "enum": ["midi", "audio", "empty"] })
}

pub fn clip_info_members() -> Value {
    json!({
        "id": text(), "isMidi": boolean(), "kind": clip_kind(), "location": { "enum": ["session", "arrangement"] }, "slotId?": text(),
        "name": text(), "startTime": number(), "endTime": number(), "duration": number(), "looping": boolean(), "loopStart": number(),
        "loopEnd": number(), "startMarker": number(), "endMarker": number(), "color": integer(), "muted": boolean(), "filePath?": text(),
    })
}

pub fn param_members() -> Value {
    json!({
        "id": text(), "name": text(), "min": number(), "max": number(), "isQuantized": boolean(), "defaultValue": nullable(number()),
        "value": number(), "unit": text(), "display": text(), "rangeSource": text(), "automated": nullable(boolean()),
    })
}

pub fn param() -> Value {
    object(param_members())
}

pub fn diff() -> Value {
    object(diff_members())
}

pub fn diff_members() -> Value {
    let change =
        object(json!({ "op": text(), "subject": text(), "before": nullable(text()), "after": nullable(text()) }));
    json!({ "changes": list(change), "count": integer(), "text": text() })
}

/// The result of undo and redo.
pub fn stepped(word: &str) -> Value {
    let mut members = json!({ "labels": list(text()), "canUndo": boolean(), "canRedo": boolean() });
    members[word] = integer();
    changed(members)
}

/// Input of undo and redo.
pub fn steps() -> Value {
    change(
        json!({ "steps?": { "type": "integer", "minimum": 1, "maximum": 100, "description": "Number of steps; default 1" } }),
    )
}
