//! `live_insert_device`: inserts a device into a track's chain.

use super::prelude::*;
use conductor_set::DeviceInserted;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Track id, such as track:2.
    track_id: Id,
    /// Name of a built-in device, such as Reverb.
    #[schemars(length(min = 1))]
    device_name: String,
    /// Position in the chain, from 0.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    index: u64,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    editing::<Args, DeviceInserted>(live, "live_insert_device", |args| {
        // Any index beyond the end of a chain means its end.
        let index = u32::try_from(args.index).unwrap_or(u32::MAX);
        Ok(LiveEdit::InsertDevice { track_id: args.track_id.path()?, device_name: args.device_name, index })
    })
    .text(
        "Insert device",
        "Inserts a built-in device into a track's chain; an index beyond the end means the end. One undo step. In a document, the device \
         is a copy of a device of the same kind that the Set already contains, with its settings; if there is none, the call is refused.",
    )
}
