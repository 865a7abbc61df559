//! `conductor_start_midi_learn`: collects played events in order to suggest triggers.

use super::prelude::*;
use conductor_core::learn::Started;
use conductor_gateway::pipeline::call::ConnId;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Milliseconds until the session ends by itself
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1000, max = 300_000))]
    timeout_ms: u32,
    /// Run mapped actions during the session
    #[serde(default)]
    let_through: bool,
}

fn default_timeout() -> u32 {
    30_000
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_start_midi_learn", Tier::Stateful, TOOLSET, owner, run)
        .text(
            "Start MIDI learn",
            "Collects events from the controllers, so that a person can show you a control. Mapped actions do not run during the \
             session, unless let_through is true. Ask the person to use the control (turn a knob both ways, at least eight steps), \
             then call conductor_stop_midi_learn. A second start extends the same session. The session ends when your connection \
             ends, on panic, when the mode changes, or when the performance lock is switched on.",
        )
        .summary(|_| "start MIDI learn".into())
}

async fn run(owner: OwnerHandle, cx: Context, args: Args) -> Result<Started, ToolError> {
    unlocked(&owner, &cx.clearance, "MIDI learn cannot start").await?;
    let client = Some(cx.clearance.conn()).filter(|it| *it != ConnId::NONE).map(|it| it.0);
    owner.learn_start(args.timeout_ms, args.let_through, client).await
}
