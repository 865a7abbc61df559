//! `live_set_param`: sets the value of a device or mixer parameter.

use super::prelude::*;
use conductor_set::ParamWritten;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Parameter id, such as track:2/device:1/param:6 or track:2/mixer/volume.
    param_id: Id,
    /// Within the parameter's min..max.
    value: f64,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    editing::<Args, ParamWritten>(live, "live_set_param", |args| {
        Ok(LiveEdit::SetParam { param_id: args.param_id.path()?, value: args.value })
    })
    .text(
        "Set parameter",
        "Sets one device or mixer parameter to a value within its min..max. One undo step. Ids are from live_list_devices, \
         live_get_track or live_insert_device. In a document, volume is linear gain: 1 is 0 dB, and `display` shows dB.",
    )
    .idempotent()
}
