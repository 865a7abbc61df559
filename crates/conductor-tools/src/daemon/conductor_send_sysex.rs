//! `conductor_send_sysex`: sends raw SysEx to a device. Every call needs an approval; no rule can
//! allow it in advance.

use super::prelude::*;
use super::{output_target, sysex};
use conductor_core::digest::Digest;
use conductor_core::policy::AskFloor;
use conductor_gateway::catalog::AskFacts;
use conductor_gateway::owner_handle::SentBy;
use std::fmt::Write;

/// How long an approval is valid.
const GRANT_MS: u64 = 60_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Device alias or exact output port name
    #[schemars(length(min = 1, max = 256))]
    port: String,
    /// Bytes as numbers or two hex digits
    #[schemars(with = "Value", extend("$ref" = "#/$defs/SysExData"))]
    data: Vec<Value>,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Always confirmed
    status: &'static str,
    /// Including F0 and F7
    bytes_sent: usize,
    /// The given port
    port: String,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    let mut definition = tool("conductor_send_sysex", Tier::HardwareIo, TOOLSET, owner, run)
        .text(
            "Send SysEx",
            "Sends one SysEx message to a device. A person must approve each message: the first call returns APPROVAL_REQUIRED with a risk \
             assessment; after the approval, the identical call runs once. `data` contains bytes as numbers or two-digit hex strings, at most \
             8192, without F0 and F7, which are added automatically. `port` is a device alias or an exact port name.",
        )
        .summary(with_args(|args: &Args| match sysex::parse(&args.data) {
            Ok(body) => {
                let risk = sysex::assess(&body);
                let undo = if risk.reversible { "" } else { ". Not reversible" };
                format!("send SysEx to {:?}: {} bytes, {}{undo}", args.port, body.len() + 2, risk.category)
            }
            Err(error) => error.message,
        }));
    definition.requires_approval = Some(true);
    definition.ask_floor = AskFloor::Always;
    definition.grantable = false;
    definition.grant_ms = Some(GRANT_MS);
    definition.target = Some(output_target(owner, false));
    let facts = with_args(facts);
    definition.facts = Some(Arc::new(move |_studio, arguments| facts(arguments)));
    definition
}

async fn run(owner: OwnerHandle, cx: Context, args: Args) -> Result<Answer, ToolError> {
    let body = sysex::parse(&args.data)?;
    if !cx.clearance.by_person() && owner.status().await?.performance_lock {
        return Err(locked("no SysEx is sent"));
    }
    let message = [&[0xF0][..], &body, &[0xF7]].concat();
    let bytes_sent = message.len();
    owner.send(args.port.clone(), vec![message], SentBy::Tool { connection: cx.clearance.conn().0 }).await?;
    Ok(Answer { status: "confirmed", bytes_sent, port: args.port })
}

/// The facts for the approver.
fn facts(args: &Args) -> AskFacts {
    let Ok(body) = sysex::parse(&args.data) else { return AskFacts::default() };
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
