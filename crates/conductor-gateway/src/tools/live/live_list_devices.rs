//! `live_list_devices`: the device chain and mixer of a track, with every parameter.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_list_devices", |mut ask, set| async move {
        let chain = ask.id("trackId")?;
        to_output(&set.host.devices(chain).await.map_err(refused)?)
    })
    .text(
        "List devices",
        "Lists the devices and the mixer of a track, a return track or the main track; each parameter has its id, range, value and display \
         text. Use a parameter id with live_set_param. At most 400 parameters in total. In a document, ranges are those that a mapped \
         controller would have.",
    )
    .input(schema::look(json!({ "trackId": schema::id("track:N, returntrack:N or main") })))
    .output(object(json!({
        "trackId": text(),
        "devices": list(object(json!({
            "id": text(), "name": text(), "className": text(), "isOn": nullable(boolean()), "params": list(schema::param()),
        }))),
        "mixer": list(schema::param()), "truncated?": boolean(), "unknown?": list(text()),
    })))
}
