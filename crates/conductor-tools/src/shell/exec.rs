//! `shell.exec`: runs one allowed command, given by name and values or as a list of words.

use super::TOOLSET;
use crate::prelude::*;
use crate::truncate::{fit, room};
use conductor_core::command::CommandEffect;
use conductor_core::error::Violation;
use conductor_core::policy::{AskFloor, ByArgs};
use conductor_hosts::shell::{Shell, Wanted};

/// Longest run time of a command plus the time to stop it, in milliseconds.
const MOST_MS: u64 = 602_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Name of an allowed command
    #[schemars(length(min = 1, max = 64))]
    command: Option<String>,
    /// Values of the command's slots
    #[serde(default)]
    #[schemars(extend("additionalProperties" = { "anyOf": [{ "type": "string" }, { "type": "integer" }] }))]
    args: Map<String, Value>,
    /// The program and its words, in place of command and args
    #[schemars(length(min = 1, max = 257), inner(length(max = 4096)))]
    argv: Option<Vec<String>>,
    /// Time limit in milliseconds; default and maximum: that of the command
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Null if a signal ended the command
    exit_code: Option<i32>,
    /// The signal that ended the command
    signal: Option<i32>,
    /// Standard output
    stdout: String,
    /// Standard error
    stderr: String,
    /// Whether the end of stdout or stderr is missing
    truncated: bool,
    /// Run time in milliseconds
    duration_ms: u64,
}

impl Args {
    fn wanted(&self) -> Wanted<'_> {
        match (&self.command, &self.argv) {
            (Some(name), _) => Wanted::Template { name, values: &self.args },
            (None, argv) => Wanted::Argv(argv.as_deref().unwrap_or_default()),
        }
    }
}

pub fn definition(shell: &Arc<Shell>) -> Definition {
    let (deciding, aiming) = (Arc::clone(shell), Arc::clone(shell));
    let mut definition = tool("shell.exec", Tier::HardwareIo, TOOLSET, shell, run)
    .text(
        "Run command",
        "Runs a command that a person allowed, without a shell: either `command` with the values of its slots in `args`, or `argv` as a list \
         of words that matches an allowed command exactly. No pipes, wildcards or variables. A command with effect \"write\" needs approval \
         each time. At its time limit, the command and all its child processes are killed.",
    )
    .check(exactly_one)
    .target(move |_, call| parse(&call.arguments).map_or_else(Target::refused, |args| target(&aiming, &args)))
    .summary(with_args(|args: &Args| match &args.command {
        Some(name) => format!("run {name} {}", json!(args.args)),
        None => format!("run {}", json!(args.argv)),
    }));
    definition.requires_approval = Some(true);
    definition.grantable = false;
    definition.ask_floor = AskFloor::UnlessMapping;
    definition.timeout_ms = MOST_MS;
    definition.decide = Some(Arc::new(move |_, arguments| {
        let effect = parse(arguments).ok().and_then(|it: Args| deciding.effect(&it.wanted()));
        match effect {
            Some(CommandEffect::Write) => ByArgs::Ask,
            // The handler refuses a command that matches no template, so a person need not be
            // asked.
            Some(CommandEffect::Read) | None => ByArgs::Allow,
        }
    }));
    definition
}

async fn run(shell: Arc<Shell>, cx: Context, args: Args) -> Result<Answer, ToolError> {
    let mut prepared = shell.prepare(&args.wanted())?;
    if let Some(asked) = args.timeout_ms {
        // A caller may shorten the limit that a person configured, but not extend it.
        prepared.timeout_ms = prepared.timeout_ms.min(asked);
    }
    let started = cx.studio.clock.now();
    let late = cx.studio.sleeper.until(started.plus_us(prepared.timeout_ms.saturating_mul(1000)));
    let cancel = cx.clearance.cancel().clone();
    let enough = async move {
        tokio::select! {
            () = late => {}
            () = cancel.cancelled() => {}
        }
    };
    let ran = shell.run(&prepared, enough).await?;
    let duration_ms = cx.studio.clock.now().0.saturating_sub(started.0) / 1000;
    let room = room(&cx.studio, cx.clearance.tool().max_result_bytes);
    let (stderr, cut_err) = fit(&ran.stderr, room / 2);
    let (stdout, cut_out) = fit(&ran.stdout, room / 2);
    Ok(Answer {
        exit_code: ran.exit_code,
        signal: ran.signal,
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        truncated: ran.truncated || cut_err || cut_out,
        duration_ms,
    })
}

/// The command, its values and its whole command line, independent of how the caller named it.
fn target(shell: &Shell, args: &Args) -> Target {
    let (template, words) = match shell.resolve(&args.wanted()) {
        Ok(found) => found,
        Err(fault) => return Target::refused(fault),
    };
    // Rules and callers may write a value as a number or as a text, so match both forms.
    let given = match &args.argv {
        Some(argv) => template.values(argv.get(1..).unwrap_or_default()),
        None => args.args.clone(),
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
        (true, true) | (false, false) => violation("", "give exactly one of command and argv"),
        (false, true) if has("args") => violation("/args", "args belong to command; argv already contains all words"),
        (true, false) | (false, true) => Vec::new(),
    }
}
