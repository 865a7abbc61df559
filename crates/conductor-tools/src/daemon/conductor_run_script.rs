//! `conductor_run_script`: several calls in one, with code between them.

use super::prelude::*;
use conductor_core::policy::ByArgs;
use conductor_core::script::{MAX_CALLS, MAX_RUN_MS};
use conductor_gateway::script::run::{Asking, Report, Scripts, run as run_script};

/// Longest code of a script, in characters.
const MAX_CODE: usize = 64 * 1024;
/// Time that the last call has to stop after the script reached its time limit, in milliseconds.
const GRACE_MS: u64 = 10_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Body of an async JavaScript function; studio.<set>.<verb>(args) calls a tool, return gives
    /// the result
    #[schemars(length(min = 1, max = MAX_CODE))]
    code: String,
    /// Run on copies of open documents; ends at the first call that acts outside them
    #[serde(default)]
    dry_run: bool,
    /// Stop after this many calls
    #[serde(default = "max_calls")]
    #[schemars(range(min = 1, max = MAX_CALLS))]
    max_calls: usize,
}

fn max_calls() -> usize {
    MAX_CALLS
}

pub fn definition(scripts: &Arc<Scripts>) -> Definition {
    let mut definition = tool("conductor_run_script", Tier::Stateful, TOOLSET, scripts, run)
        .text(
            "Run script",
            "Runs JavaScript that calls tools, for work that needs more than three calls. Example: const modes = await studio.daemon.list_modes(); \
             return modes.current. Policy, approvals and limits apply to every call, as to a direct call. Changes to the \
             configuration become one plan. A call that needs a person stops the script; repeat the identical script to continue.",
        )
        // Policy checks each inner call by the tier of its own tool. Each caller has its own
        // circuit breaker.
        .target(|_, call| Target { by_args: Some(ByArgs::Allow), ..Target::keyed(call.principal.to_string()) })
        .summary(with_args(|args: &Args| format!("run a script of {} characters", args.code.chars().count())));
    definition.destructive = Some(true);
    definition.open_world = Some(true);
    definition.timeout_ms = MAX_RUN_MS + GRACE_MS;
    definition.max_result_bytes = 2 << 20;
    definition
}

async fn run(scripts: Arc<Scripts>, cx: Context, args: Args) -> Result<Report, ToolError> {
    let Args { code, dry_run, max_calls } = args;
    run_script(scripts, cx, Asking { code, dry_run, max_calls }).await
}
