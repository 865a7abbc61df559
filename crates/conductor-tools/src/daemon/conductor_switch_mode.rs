//! `conductor_switch_mode`: makes a mode active.

use super::SimulatedMode;
use super::prelude::*;
use conductor_core::event::Taint;
use conductor_gateway::owner_handle::no_mode;
use conductor_gateway::report::Switched;

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("oneOf" = ["mode", "auto"].map(|it| json!({ "required": [it] }))))]
struct Args {
    /// Mode name, as in conductor_list_modes
    #[schemars(length(min = 1, max = 64))]
    mode: Option<String>,
    /// true instead of a mode: the rules of [per_app_modes] select the mode again
    #[schemars(extend("const" = true))]
    auto: Option<bool>,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_switch_mode", Tier::Stateful, TOOLSET, owner, run)
        .text(
            "Switch mode",
            "Makes a mapping mode active from the next event on. Keys that are down keep the mode in which they were pressed, so that no \
             note stays on.",
        )
        .idempotent()
        .summary(with_args(|args: &Args| match &args.mode {
            Some(mode) => format!("switch to mode {mode:?}"),
            None => "select the mode by the front window".to_owned(),
        }))
}

/// `conductor_switch_mode` in a dry run: changes only the mode of the simulator.
pub fn simulated(owner: &OwnerHandle, mode: &SimulatedMode) -> Definition {
    let (state, simulated) = ((owner.clone(), mode.clone()), definition(owner));
    let run = |(owner, mode): (OwnerHandle, SimulatedMode), cx: Context, args: Args| async move {
        unlocked(&owner, &cx.clearance, "the mode stays as it is").await?;
        let serving = owner.serving();
        let modes = &serving.config.modes;
        let Some(mode_name) = args.mode else {
            let text = "a dry run has no front window that could select the mode";
            return Err(ToolError::new(Code::Unsupported, text).hint("Give the name of a mode."));
        };
        let Some(mode_index) = modes.iter().position(|it| it.name == mode_name) else {
            return Err(no_mode(&mode_name, modes.iter().map(|it| it.name.as_str())));
        };
        *mode.lock() = Some(mode_name.clone());
        Ok(Switched { success: true, mode_name, mode_index, total_modes: modes.len() })
    };
    Definition { run: tool("conductor_switch_mode", Tier::Stateful, TOOLSET, &state, run).run, ..simulated }
}

async fn run(owner: OwnerHandle, cx: Context, args: Args) -> Result<Switched, ToolError> {
    unlocked(&owner, &cx.clearance, "the mode stays as it is").await?;
    let by = if cx.clearance.by_person() { Taint::Clean } else { Taint::Tool };
    owner.switch_mode(args.mode.filter(|_| args.auto.is_none()), by).await
}
