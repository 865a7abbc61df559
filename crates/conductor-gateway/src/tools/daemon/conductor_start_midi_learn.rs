//! `conductor_start_midi_learn`: collects played events in order to suggest triggers.

use super::prelude::*;
use crate::pipeline::call::ConnId;

const DEFAULT_MS: u32 = 30_000;

#[derive(Deserialize)]
struct Arguments {
    timeout_ms: Option<u32>,
    let_through: Option<bool>,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_start_midi_learn", Tier::Stateful, owner, |owner, _studio, clearance, arguments| async move {
        unlocked(&owner, &clearance, "MIDI learn cannot start").await?;
        let Arguments { timeout_ms, let_through } = parse_arguments(arguments)?;
        let client = Some(clearance.conn()).filter(|it| *it != ConnId::NONE).map(|it| it.0);
        let timeout_ms = timeout_ms.unwrap_or(DEFAULT_MS);
        let started = owner.learn_start(timeout_ms, let_through.unwrap_or(false), client).await?;
        Ok(Output::new(started))
    })
    .text(
        "Start MIDI learn",
        "Collects events of the controllers so that a person can show you a control. Mapped actions are suspended meanwhile, unless \
         let_through is true. Ask the person to use the control (turn a knob both ways, at least eight steps), then call \
         conductor_stop_midi_learn. A second start extends the same session. The session ends with your connection, with panic, with a mode \
         change and with the performance lock.",
    )
    .input(object(json!({
        "timeout_ms?": { "type": "integer", "minimum": 1000, "maximum": 300000, "default": DEFAULT_MS },
        "let_through?": { "type": "boolean", "default": false },
    })))
    .output(object(json!({ "status": text(), "expires_at": text(), "session_id": integer(), "was_already_active": boolean() })))
    .summary(|_| "start MIDI learn".into())
}
