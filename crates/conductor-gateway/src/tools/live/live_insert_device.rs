//! `live_insert_device`: a device in a track's chain.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    let named = || object(json!({ "id": text(), "name": text() }));
    editing(live, "live_insert_device", "insert_device")
        .text(
            "Insert device",
            "Inserts a built-in device into a track's chain; an index beyond the end means the end. One undo step. In a document, the device \
             is a copy of a device of the same kind that the Set already contains, with its settings; if there is none, the call is refused.",
        )
        .input(schema::change(json!({
            "trackId": schema::id("Track id, such as track:2"),
            "deviceName": schema::id("Name of a built-in device, such as Reverb"),
            "index": { "type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991_u64, "description": "Position in the chain, from 0" },
        })))
        .output(schema::changed(json!({ "trackId": text(), "device": named(), "params": list(named()) })))
}
