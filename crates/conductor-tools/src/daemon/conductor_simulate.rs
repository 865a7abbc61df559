//! `conductor_simulate`: runs a script of events against the configuration in virtual time, without
//! output.

use super::SimulatedMode;
use super::prelude::*;
use conductor_core::config::load;
use conductor_core::error::Violation;
use conductor_gateway::simulation::{Simulated, simulate_script};

/// Maximum length of a script, in characters. Real scripts are much shorter.
const MAX_SCRIPT: usize = 256 * 1024;
const MAX_CONFIG: usize = 256 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Such as: on:36@100 t:600 off:36
    #[schemars(length(min = 1, max = MAX_SCRIPT))]
    events: String,
    /// Mode at the start; default: the default mode of the configuration
    #[schemars(length(min = 1, max = 64))]
    mode: Option<String>,
    /// TOML text of a configuration to use instead of the one in force
    #[schemars(length(max = MAX_CONFIG))]
    config: Option<String>,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_simulate", Tier::ReadOnly, TOOLSET, owner, run).text(
        "Simulate events",
        "Runs a script of events against the configuration in force, or against a given one, in virtual time. Reports what would fire, when, \
         and why not. Nothing is sent and no key is pressed. Tokens, separated by spaces: on:36@100/0 off:36 cc:7=64 pb:8192 at:90 pat:36=90 \
         pc:5 down:south up:south axis:left_x=0.8 trig:right=0.9 osc:/a/b=1.0,2 dev:ALIAS mode:NAME t:600 (wait 600 ms). Channels are \
         0-15 here.",
    )
}

/// `conductor_simulate` in a dry run: by default, the simulation starts in the mode to which the
/// script has switched.
pub fn simulated(owner: &OwnerHandle, mode: &SimulatedMode) -> Definition {
    let (state, simulated) = ((owner.clone(), mode.clone()), definition(owner));
    let run = |(owner, mode): (OwnerHandle, SimulatedMode), cx: Context, args: Args| async move {
        let mode = args.mode.clone().or_else(|| mode.lock().clone());
        run(owner, cx, Args { mode, ..args }).await
    };
    Definition { run: tool("conductor_simulate", Tier::ReadOnly, TOOLSET, &state, run).run, ..simulated }
}

async fn run(owner: OwnerHandle, _cx: Context, args: Args) -> Result<Simulated, ToolError> {
    // Run the script on a blocking thread, because a long script would block the threads that serve
    // calls.
    let run = tokio::task::spawn_blocking(move || report(&owner, &args));
    run.await.map_err(|_| ToolError::new(Code::Internal, "the simulation failed"))?
}

fn report(owner: &OwnerHandle, args: &Args) -> Result<Simulated, ToolError> {
    let config = match &args.config {
        None => Arc::clone(&owner.serving().config),
        Some(text) => {
            let loaded = load(text);
            let violations: Vec<Violation> =
                loaded.errors().take(8).map(|it| Violation { path: it.path.clone(), message: it.summary() }).collect();
            match loaded.config {
                Some(config) if violations.is_empty() => Arc::new(config),
                Some(_) | None => {
                    let first = violations.first().map_or("it is not TOML", |it| &it.message);
                    return Err(ToolError::new(Code::BadInput, format!("the given configuration has faults: {first}"))
                        .subject(Subject::Argument("/config".into()))
                        .violations(violations));
                }
            }
        }
    };
    simulate_script(&config, &args.events, args.mode.as_deref())
}
