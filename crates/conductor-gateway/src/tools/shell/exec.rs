//! `shell.exec`: runs one allowed command, given by name and values or as a list of words.

use super::TOOLSET;
use crate::pipeline::call::Output;
use crate::tools::catalog::{Definition, Target};
use crate::tools::daemon::parse_arguments;
use crate::tools::schema_builder::{boolean, integer, nullable, object, text};
use crate::tools::truncate::{fit, room};
use conductor_core::command::CommandEffect;
use conductor_core::error::{ToolError, Violation};
use conductor_core::policy::{AskFloor, ByArgs, Tier};
use conductor_hosts::shell::{Shell, Wanted};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The longest run time of a template, plus the time to stop it.
const MOST_MS: u64 = 602_000;

#[derive(Deserialize)]
struct Arguments {
    command: Option<String>,
    #[serde(default)]
    args: Map<String, Value>,
    argv: Option<Vec<String>>,
    timeout_ms: Option<u64>,
}

impl Arguments {
    fn wanted(&self) -> Wanted<'_> {
        match (&self.command, &self.argv) {
            (Some(name), _) => Wanted::Template { name, values: &self.args },
            (None, argv) => Wanted::Argv(argv.as_deref().unwrap_or_default()),
        }
    }

    fn of(arguments: &Value) -> Option<Self> {
        serde_json::from_value(arguments.clone()).ok()
    }
}

pub fn definition(shell: &Arc<Shell>) -> Definition {
    let (deciding, aiming, shell) = (Arc::clone(shell), Arc::clone(shell), Arc::clone(shell));
    let mut definition = Definition::new("shell.exec", Tier::HardwareIo, TOOLSET, move |studio, clearance, arguments| {
        let shell = Arc::clone(&shell);
        async move {
            let arguments: Arguments = parse_arguments(arguments)?;
            let mut prepared = shell.prepare(&arguments.wanted()).map_err(ToolError::from)?;
            if let Some(asked) = arguments.timeout_ms {
                prepared.timeout_ms = asked;
            }
            let started = studio.clock.now();
            let late = studio.sleeper.until(started.plus_us(prepared.timeout_ms.saturating_mul(1000)));
            let cancel = clearance.cancel().clone();
            let enough = async move {
                tokio::select! {
                    () = late => {}
                    () = cancel.cancelled() => {}
                }
            };
            let ran = shell.run(&prepared, enough).await.map_err(ToolError::from)?;
            let duration_ms = studio.clock.now().0.saturating_sub(started.0) / 1000;
            let room = room(&studio, clearance.tool().max_result_bytes);
            let (stderr, cut_err) = fit(&ran.stderr, room / 2);
            let (stdout, cut_out) = fit(&ran.stdout, room / 2);
            Ok(Output::new(json!({
                "exit_code": ran.exit_code, "signal": ran.signal, "stdout": stdout, "stderr": stderr,
                "truncated": ran.truncated || cut_err || cut_out, "duration_ms": duration_ms,
            })))
        }
    })
    .text(
        "Run command",
        "Runs a command that a person allowed, without a shell: either `command` with the values of its slots in `args`, or `argv` as a list \
         of words that matches an allowed command exactly. No pipes, wildcards or variables. A command that changes something needs approval \
         each time. At its time limit, the command and all its child processes are killed.",
    )
    .input(object(json!({
        "command?": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Name of an allowed command" },
        "args?": {
            "type": "object", "description": "Values of the command's slots",
            "additionalProperties": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
        },
        "argv?": { "type": "array", "items": { "type": "string", "maxLength": 4096 }, "minItems": 1, "maxItems": 257 },
        "timeout_ms?": { "type": "integer", "minimum": 1, "maximum": 600_000 },
    })))
    .output(object(json!({
        "exit_code": nullable(integer()), "signal": nullable(integer()), "stdout": text(), "stderr": text(), "truncated": boolean(),
        "duration_ms": integer(),
    })))
    .check(exactly_one)
    .target(move |_, call| target(&aiming, &call.arguments))
    .summary(|arguments| match Arguments::of(arguments) {
        Some(Arguments { command: Some(name), args, .. }) => format!("run {name} {}", Value::Object(args)),
        Some(Arguments { argv, .. }) => format!("run {}", json!(argv)),
        None => "run a command".to_owned(),
    });
    definition.requires_approval = Some(true);
    definition.grantable = false;
    definition.ask_floor = AskFloor::UnlessMapping;
    definition.timeout_ms = MOST_MS;
    definition.decide = Some(Arc::new(move |_, arguments| {
        let effect = Arguments::of(arguments).and_then(|it| deciding.effect(&it.wanted()));
        match effect {
            Some(CommandEffect::Write) => ByArgs::Ask,
            // The handler refuses a command that matches no template, so no person is asked about
            // it.
            Some(CommandEffect::Read) | None => ByArgs::Allow,
        }
    }));
    definition
}

/// The command, its values and its whole command line, independent of how the caller named it.
fn target(shell: &Shell, arguments: &Value) -> Target {
    let Some(arguments) = Arguments::of(arguments) else { return Target::default() };
    let (template, words) = match shell.resolve(&arguments.wanted()) {
        Ok(found) => found,
        Err(fault) => return Target::refused(fault),
    };
    // Rules and callers may write a value as a number or as a text.
    let given = match &arguments.argv {
        Some(argv) => template.values(argv.get(1..).unwrap_or_default()),
        None => arguments.args.clone(),
    };
    let texts: Map<String, Value> = given.iter().map(|(key, it)| (key.clone(), Value::from(text_of(it)))).collect();
    let numbers: Map<String, Value> = texts
        .iter()
        .map(|(key, it)| {
            (key.clone(), it.as_str().and_then(|it| it.parse::<i64>().ok()).map_or(it.clone(), Value::from))
        })
        .collect();
    let line =
        |program: &str| -> Vec<String> { std::iter::once(program.to_owned()).chain(words.iter().cloned()).collect() };
    let short = template.program.rsplit('/').next().unwrap_or_default();
    let mut forms = Vec::new();
    for program in [&template.program, short, &template.name] {
        for values in [&numbers, &texts] {
            forms.push(json!({ "command": template.name, "args": values, "argv": line(program) }));
        }
    }
    let quoted: Vec<String> = line(&template.program).iter().map(|word| quote(word)).collect();
    let mut shown = vec![("runs", quoted.join(" ")), ("command", template.name.clone())];
    if let Some(root) = &template.cwd {
        shown.push(("in folder", root.clone()));
    }
    Target { shown, forms, key: Some(template.name.clone()), ..Target::default() }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "/._-=:,@%+".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn exactly_one(arguments: &Value) -> Vec<Violation> {
    let has = |key: &str| arguments.get(key).is_some();
    let violation = |path: &str, message: &str| vec![Violation { path: path.to_owned(), message: message.to_owned() }];
    match (has("command"), has("argv")) {
        (true, true) | (false, false) => violation("", "give either command or argv, not both"),
        (false, true) if has("args") => violation("/args", "args belong to command; argv already contains all words"),
        (true, false) | (false, true) => Vec::new(),
    }
}
