//! `live_set_tempo`: beats per minute of the Set.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    let mut members = schema::overview_members();
    if let Value::Object(members) = &mut members {
        // `changed` adds these members.
        members.shift_remove("revision");
        members.shift_remove("warnings?");
    }
    editing(live, "live_set_tempo", "set_tempo")
        .text(
            "Set tempo",
            "Sets the tempo in beats per minute. One undo step. Returns the overview after the write. Refused if the tempo of the Set is \
             automated.",
        )
        .idempotent()
        .input(schema::change(json!({ "bpm": { "type": "number", "minimum": 20, "maximum": 999, "description": "Beats per minute, 20 to 999" } })))
        .output(schema::changed(members))
}
