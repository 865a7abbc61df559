//! `desktop.launch`: starts an allowed program and leaves it running.

use super::TOOLSET;
use crate::pipeline::call::Output;
use crate::tools::catalog::{AskFacts, Definition};
use crate::tools::daemon::parse_arguments;
use crate::tools::schema_builder::{integer, object, text};
use conductor_core::command::CommandEffect;
use conductor_core::error::ToolError;
use conductor_core::policy::{AskFloor, ByArgs, Tier};
use conductor_hosts::shell::{Shell, Wanted};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Deserialize)]
struct Arguments {
    app: String,
}

pub fn definition(shell: &Arc<Shell>) -> Definition {
    let (deciding, showing, shell) = (Arc::clone(shell), Arc::clone(shell), Arc::clone(shell));
    let mut definition =
        Definition::new("desktop.launch", Tier::HardwareIo, TOOLSET, move |_studio, _clearance, arguments| {
            let shell = Arc::clone(&shell);
            async move {
                let Arguments { app } = parse_arguments(arguments)?;
                let prepared = shell.prepare(&Wanted::App(&app)).map_err(ToolError::from)?;
                let pid = shell.launch(&prepared).map_err(ToolError::from)?;
                Ok(Output::new(json!({ "app": app, "program": prepared.program.display().to_string(), "pid": pid })))
            }
        })
        .text(
            "Launch program",
            "Starts a program that a person allowed under [[tools.shell.commands]], given by the name of that row or by its program. Returns \
             when it has started. The program runs in its own session and does not end with this call or with the daemon. Rows with slots \
             cannot be launched. A row that changes something needs approval each time.",
        )
        .input(object(json!({
            "app": {
                "type": "string", "minLength": 1, "maxLength": 512,
                "description": "Name of an allowed command, or the path of its program",
            },
        })))
        .output(object(json!({ "app": text(), "program": text(), "pid": integer() })))
        .summary(|arguments| format!("launch {}", arguments.get("app").unwrap_or(&Value::Null)));
    definition.requires_approval = Some(true);
    definition.grantable = false;
    definition.ask_floor = AskFloor::UnlessMapping;
    definition.decide = Some(Arc::new(move |_, arguments| {
        let app = arguments.get("app").and_then(Value::as_str).unwrap_or_default();
        match deciding.effect(&Wanted::App(app)) {
            Some(CommandEffect::Write) => ByArgs::Ask,
            // The handler refuses a program that is not allowed, so no person is asked about it.
            Some(CommandEffect::Read) | None => ByArgs::Allow,
        }
    }));
    definition.facts = Some(Arc::new(move |_, arguments| {
        let app = arguments.get("app").and_then(Value::as_str).unwrap_or_default();
        let prepared = showing.prepare(&Wanted::App(app)).ok();
        let facts =
            prepared.map(|it| vec![("starts".to_owned(), format!("{} {}", it.program.display(), json!(it.words)))]);
        AskFacts { facts: facts.unwrap_or_default(), ..AskFacts::default() }
    }));
    definition
}
