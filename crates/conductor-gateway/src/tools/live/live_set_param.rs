//! `live_set_param`: the value of a device or mixer parameter.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    let mut members = schema::param_members();
    members["previous"] = number();
    members["unknown?"] = list(text());
    editing(live, "live_set_param", "set_param")
        .text(
            "Set parameter",
            "Sets one device or mixer parameter to a value within its min..max. One undo step. Ids are from live_list_devices, live_get_track \
             or live_insert_device. In a document, volume is linear gain: 1 is 0 dB, and `display` shows dB.",
        )
        .idempotent()
        .input(schema::change(json!({
            "paramId": schema::id("Parameter id, such as track:2/device:1/param:6 or track:2/mixer/volume"),
            "value": { "type": "number", "description": "Within the parameter's min..max" },
        })))
        .output(schema::changed(members))
}
