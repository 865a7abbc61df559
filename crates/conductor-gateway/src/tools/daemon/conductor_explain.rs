//! `conductor_explain`: which mapping an event would fire, and why not another.

use super::prelude::*;

#[derive(Deserialize)]
struct Arguments {
    event: String,
    mode: Option<String>,
    device: Option<String>,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_explain", Tier::ReadOnly, owner, |owner, _studio, _clearance, arguments| async move {
        let Arguments { event, mode, device } = parse_arguments(arguments)?;
        Ok(Output::new(owner.explain(&event, mode.as_deref(), device.as_deref()).await?.to_json()))
    })
    .text(
        "Explain an event",
        "Lists the rules that use the control of an event, in order of precedence. For each rule that does not fire, reports the expected and \
         the actual value. Nothing is sent. The event is one token: on:36@100/0 (note@velocity/channel), off:36, cc:7=64, pb:8192, at:90, \
         pat:36=90, pc:5, down:south, up:south, axis:left_x=0.8, trig:right=0.9, osc:/a/b=1.0,2. Channels are 0-15 here.",
    )
    .input(object(json!({
        "event": { "type": "string", "minLength": 1, "maxLength": 512, "description": "One event token, such as on:36@100" },
        "mode?": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Default: the current mode" },
        "device?": { "type": "string", "minLength": 1, "maxLength": 256, "description": "Device alias; default: a device that is not named in any rule" },
    })))
    .output(object(json!({
        "verdict": { "enum": ["fires", "waits", "depends", "no_match", "muted", "absent", "tainted"] },
        "candidates": list(object(json!({
            "rank": integer(), "mode": text(), "mapping_id": text(), "gesture": text(), "action": text(), "wins": boolean(),
            "failed": list(object(json!({ "field": text(), "wanted": text(), "got": text() }))), "note": text(),
        }))),
        "waits_ms": nullable(integer()), "device": nullable(text()), "reason": text(),
    })))
}
