//! `desktop.launch`: starts an allowed program and leaves it running.

use super::TOOLSET;
use crate::prelude::*;
use conductor_core::command::CommandEffect;
use conductor_core::policy::{AskFloor, ByArgs};
use conductor_hosts::shell::{Shell, Wanted};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Name of an allowed command, or the path of its program
    #[schemars(length(min = 1, max = 512))]
    app: String,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The given `app`
    app: String,
    /// Path of the program
    program: String,
    /// Process id
    pid: u32,
}

pub fn definition(shell: &Arc<Shell>) -> Definition {
    let (deciding, showing) = (Arc::clone(shell), Arc::clone(shell));
    let mut definition = tool("desktop.launch", Tier::HardwareIo, TOOLSET, shell, run)
        .text(
            "Launch program",
            "Starts a program that a person allowed under [[tools.shell.commands]], given by the name of that row or by its program. Returns \
             when it has started. The program runs in its own session and does not end with this call or with the daemon. Rows with slots \
             cannot be launched. A row with effect \"write\" needs approval each time.",
        )
        .summary(with_args(|args: &Args| format!("launch {:?}", args.app)));
    definition.requires_approval = Some(true);
    definition.grantable = false;
    definition.ask_floor = AskFloor::UnlessMapping;
    definition.decide = Some(Arc::new(move |_, arguments| {
        let app = arguments.get("app").and_then(Value::as_str).unwrap_or_default();
        match deciding.effect(&Wanted::App(app)) {
            Some(CommandEffect::Write) => ByArgs::Ask,
            // The handler refuses a program that is not allowed, so a person need not be asked.
            Some(CommandEffect::Read) | None => ByArgs::Allow,
        }
    }));
    let facts = with_args(move |args: &Args| {
        let prepared = showing.prepare(&Wanted::App(&args.app)).ok();
        let facts =
            prepared.map(|it| vec![("starts".to_owned(), format!("{} {}", it.program.display(), json!(it.words)))]);
        AskFacts { facts: facts.unwrap_or_default(), ..AskFacts::default() }
    });
    definition.facts = Some(Arc::new(move |_, arguments| facts(arguments)));
    definition
}

async fn run(shell: Arc<Shell>, _cx: Context, args: Args) -> Result<Answer, ToolError> {
    let prepared = shell.prepare(&Wanted::App(&args.app))?;
    let pid = shell.launch(&prepared)?;
    Ok(Answer { app: args.app, program: prepared.program.display().to_string(), pid })
}
