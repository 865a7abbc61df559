//! `conductor_send_sysex`: sends raw SysEx to a device. Every call needs an approval; no rule can
//! allow it in advance.

use super::prelude::*;
use super::{locked, output_target, sysex};
use crate::owner_handle::SentBy;
use crate::tools::catalog::AskFacts;
use conductor_core::config::schema;
use conductor_core::digest::Digest;
use conductor_core::policy::AskFloor;
use serde_json::Map;
use std::fmt::Write;

/// How long an approval is valid.
const GRANT_MS: u64 = 60_000;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let (aiming, owner) = (owner.clone(), owner.clone());
    let mut definition = Definition::new("conductor_send_sysex", Tier::HardwareIo, TOOLSET, move |_studio, clearance, arguments| {
        let owner = owner.clone();
        async move {
            let (port, body) = read(&arguments)?;
            if !clearance.by_person() && owner.status().await?.performance_lock {
                return Err(locked("no SysEx is sent"));
            }
            let message = [&[0xF0][..], &body, &[0xF7]].concat();
            let sent = message.len();
            owner.send(port.clone(), vec![message], SentBy::Tool { connection: clearance.conn().0 }).await?;
            Ok(Output::new(json!({ "status": "confirmed", "bytes_sent": sent, "port": port })))
        }
    })
    .text(
        "Send SysEx",
        "Sends one SysEx message to a device. A person must approve each message: the first call returns APPROVAL_REQUIRED with a risk \
         assessment; after the approval, the identical call runs once. `data` contains bytes as numbers or two-digit hex strings, at most \
         8192, without F0 and F7, which are added automatically. `port` is a device alias or an exact port name.",
    )
    .input(schema::with_defs(object(json!({
        "port": { "type": "string", "minLength": 1, "maxLength": 256, "description": "Device alias or exact output port name" },
        "data": { "$ref": "#/$defs/SysExData" },
    }))))
    .output(object(json!({ "status": text(), "bytes_sent": integer(), "port": text() })))
    .summary(|arguments| match read(arguments) {
        Ok((port, body)) => {
            let risk = sysex::assess(&body);
            let undo = if risk.reversible { "" } else { ". Not reversible" };
            format!("send SysEx to {port:?}: {} bytes, {}{undo}", body.len() + 2, risk.category)
        }
        Err(error) => error.message,
    });
    definition.requires_approval = Some(true);
    definition.ask_floor = AskFloor::Always;
    definition.grantable = false;
    definition.grant_ms = Some(GRANT_MS);
    definition.target = Some(output_target(&aiming, false));
    definition.facts = Some(Arc::new(|_studio, arguments| facts(arguments)));
    definition
}

fn read(arguments: &Value) -> Result<(String, Vec<u8>), ToolError> {
    let port = arguments.get("port").and_then(Value::as_str).unwrap_or_default().to_owned();
    let data = arguments.get("data").and_then(Value::as_array);
    let data = data.ok_or_else(|| ToolError::new(Code::BadInput, "data is missing"))?;
    Ok((port, sysex::parse(data)?))
}

/// The facts for the approver.
fn facts(arguments: &Value) -> AskFacts {
    let Ok((_, body)) = read(arguments) else { return AskFacts::default() };
    let risk = sysex::assess(&body);
    let (id, maker) = sysex::maker(&body);
    let mut first = String::new();
    for byte in body.iter().take(32) {
        let _ = write!(first, "{byte:02X} ");
    }
    if body.len() > 32 {
        let _ = write!(first, "... and {} more", body.len() - 32);
    }
    let facts = vec![
        ("length".into(), format!("{} bytes with F0 and F7", body.len() + 2)),
        ("maker".into(), format!("{id} {maker}")),
        ("bytes".into(), first.trim_end().to_owned()),
        ("category".into(), format!("{} ({}): {}", risk.category, risk.level, risk.description)),
        ("digest".into(), Digest::of(&body).to_string()),
    ];
    let mut more = Map::new();
    more.insert("status".into(), "requires_confirmation".into());
    more.insert("risk_assessment".into(), sysex::risk_json(risk));
    AskFacts { facts, more }
}
