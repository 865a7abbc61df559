//! `conductor plugins`: lists, checks, creates, enables and disables plugins.

use super::approvals::{ask_yes, at_a_terminal};
use super::args::{PluginEnable, PluginHost, PluginsCommand};
use super::out::{Out, Tone, cell};
use super::{Failure, Verdict, ask, ask_and_show, block_on, file_error, list, text, texts};
use crate::home::Home;
use conductor_core::text::escape;
use conductor_gateway::plugins;
use conductor_hosts::plugin::manifest::{OURS, is_name};
use conductor_hosts::plugin::process::Launch;
use conductor_hosts::plugin::{Kind, Limits, child};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const TYPES: &str = include_str!("plugins/conductor-plugin.d.ts");
const STARTER: &str = include_str!("plugins/starter.js");

/// Runs the process of one plugin or one script.
pub fn host(args: &PluginHost) -> ExitCode {
    let kind = if args.script { Kind::Script } else { Kind::Plugin };
    child::run(&Limits { cpu_ms: args.cpu_ms, heap_mb: args.heap_mb, stack_kb: args.stack_kb }, kind)
}

pub fn run(command: PluginsCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        PluginsCommand::List => ask_and_show(home, out, ("plugins.list", json!({})), show_list),
        PluginsCommand::Check { file } => check(&file, home, out),
        PluginsCommand::New { name } => write_new(&name, home, out),
        PluginsCommand::Enable(args) => enable(args, home, out),
        PluginsCommand::Disable { name } => {
            at_a_terminal()?;
            ask_and_show(home, out, ("plugins.disable", json!({ "name": name })), |out, report| {
                out.line(format_args!("{} is disabled", text(report, "name")))
            })
        }
    }
}

fn show_list(out: &mut Out, answer: &Value) -> io::Result<()> {
    let plugins = list(answer, "plugins");
    if plugins.is_empty() {
        out.line(format_args!("no plugins in {}", text(answer, "folder")))?;
        return out.line("`conductor plugins new NAME` creates a plugin");
    }
    let mut rows = Vec::new();
    for it in plugins {
        let (name, status, tools) = (text(it, "name"), text(it, "status"), texts(it, "tools"));
        rows.push(vec![Tone::Strong.cell(name), tone(status).cell(status), cell(text(it, "file"))]);
        rows.extend(it["reason"].as_str().map(|reason| vec![cell(""), cell(reason)]));
        if !tools.is_empty() {
            rows.push(vec![cell(""), cell(tools.join(", "))]);
        } else if status == "disabled" {
            rows.push(vec![cell(""), cell(format_args!("conductor plugins enable {name}"))]);
        }
    }
    out.table(&rows)
}

fn tone(status: &str) -> Tone {
    match status {
        "ready" => Tone::Good,
        "disabled" => Tone::Note,
        _ => Tone::Bad,
    }
}

/// Finds a plugin by path, or by name in the plugin folder, with or without the file extension.
fn find(file: &Path, home: &Home) -> Result<PathBuf, Failure> {
    let folder = home.plugins();
    let name = file.to_string_lossy();
    let candidates = [file.to_owned(), folder.join(file)]
        .into_iter()
        .chain(["js", "mjs", "cjs"].map(|ending| folder.join(format!("{name}.{ending}"))));
    let found = candidates.into_iter().find(|it| it.is_file());
    found.ok_or_else(|| Failure::Text(format!("there is no plugin {name} here or in {}", folder.display())))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
}

fn check(file: &Path, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let path = find(file, home)?;
    let program = conductor_hosts::system::own_program();
    let source = std::fs::read(&path)?.into();
    let launch = Launch { program, limits: Limits::default(), file: file_name(&path), source };
    match block_on(plugins::look(&launch))? {
        Ok(manifest) => out.show(&manifest.shown(None), |out, value| {
            show_manifest(out, value)?;
            out.line("the plugin is valid; this command does not enable it")
        }),
        Err(faults) => {
            out.show(&json!({ "faults": faults }), |out, _| {
                faults.iter().try_for_each(|it| out.line(format_args!("{}: {}", path.display(), escape(it))))
            })?;
            Ok(Verdict::Bad)
        }
    }
}

fn show_manifest(out: &mut Out, value: &Value) -> io::Result<()> {
    out.line(format_args!("{} {}", text(value, "name"), escape(text(value, "version"))))?;
    out.line(format_args!("  {}", escape(text(value, "description"))))?;
    for tool in list(value, "tools") {
        let asks = if tool["asks"] == true { "asks you each time" } else { "runs without asking" };
        out.line(format_args!("  tool     {} ({asks})", text(tool, "name")))?;
        out.line(format_args!("           {}", escape(text(tool, "description"))))?;
    }
    for field in list(value, "secret_fields").iter().filter_map(Value::as_str) {
        out.line(format_args!("  secret   conductor secrets set {}.{field}", text(value, "name")))?;
    }
    out.line(format_args!("  pin      {}", text(value, "pin")))
}

fn write_new(name: &str, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    if !is_name(name) || OURS.contains(&name) {
        let ours = OURS.join(", ");
        return Err(Failure::Text(format!(
            "{name:?} is not a valid plugin name: start with a-z, use only a-z, 0-9, - and _, at most 32 characters, and none of the names {ours}"
        )));
    }
    home.create()?;
    let folder = home.plugins();
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{name}.js"));
    let mut file = std::fs::File::create_new(&path).map_err(|error| file_error(&path, error))?;
    file.write_all(STARTER.replace("NAME", name).as_bytes())?;
    let types = folder.join("conductor-plugin.d.ts");
    std::fs::write(&types, TYPES)?;
    out.show(&json!({ "file": path, "types": types }), |out, _| {
        out.line(format_args!("wrote {}", path.display()))?;
        out.line(format_args!("wrote {} (type definitions for your editor)", types.display()))?;
        out.line(format_args!("next: conductor plugins check {name}, then conductor plugins enable {name}"))
    })
}

fn enable(args: PluginEnable, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    let file = file_name(&find(Path::new(&args.name), home)?);
    let shown = ask(home, "plugins.check", json!({ "file": file }))?;
    let mut row = shown["row"].as_object().cloned().unwrap_or_default();
    let changes = granted(&args, &row)?;
    row.extend(changes.clone());
    if !out.is_json() {
        show_manifest(out, &shown)?;
        show_grants(out, &row)?;
    }
    if !ask_yes(out, &format!("Enable {}?", text(&shown, "name")))? {
        out.line("nothing was changed")?;
        return Ok(Verdict::Bad);
    }
    let params = json!({ "name": shown["name"], "file": file, "pin": shown["pin"], "row": changes });
    let report = ask(home, "plugins.enable", params)?;
    out.show(&report, |out, report| {
        out.line(format_args!("{} is {}", text(report, "name"), text(report, "status")))?;
        report["reason"].as_str().map_or(Ok(()), |reason| out.line(format_args!("  {}", escape(reason))))
    })?;
    Ok(Verdict::good_if(report["status"] == "ready"))
}

/// Converts the options of the command line to keys of the plugin's row in the configuration.
fn granted(args: &PluginEnable, row: &Map<String, Value>) -> Result<Map<String, Value>, Failure> {
    let mut changes = Map::new();
    let lists = [
        ("net", &args.net),
        ("files_read", &args.files_read),
        ("files_write", &args.files_write),
        ("secrets", &args.secret),
    ];
    for (key, given) in lists {
        changes.extend(given.as_ref().map(|given| (key.to_owned(), json!(given))));
    }
    if let Some(pairs) = &args.config {
        let mut config = row.get("config").and_then(Value::as_object).cloned().unwrap_or_default();
        for pair in pairs {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| Failure::Text(format!("{pair:?}: use --config KEY=VALUE, such as units=metric")))?;
            // A value that is not JSON is used as a string, so that strings need no extra quotes.
            config.insert(key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value)));
        }
        changes.insert("config".into(), Value::Object(config));
    }
    Ok(changes)
}

fn show_grants(out: &mut Out, row: &Map<String, Value>) -> io::Result<()> {
    let labels = [
        ("net", "fetches from"),
        ("files_read", "reads files under"),
        ("files_write", "writes files under"),
        ("secrets", "uses the secrets"),
    ];
    let mut any = false;
    for (key, label) in labels {
        let named: Vec<&str> =
            row.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if !named.is_empty() {
            any = true;
            out.line(format_args!("  may      {label}: {}", escape(&named.join(", "))))?;
        }
    }
    if !any {
        out.line("  may      reach nothing outside its process")?;
    }
    match row.get("config").and_then(Value::as_object).filter(|it| !it.is_empty()) {
        Some(config) => out.line(format_args!("  config   {}", escape(&json!(config).to_string()))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::plugins::Status;

    #[test]
    fn every_status_of_a_plugin_has_its_colour() {
        for (status, colour) in [
            (Status::Ready, Tone::Good),
            (Status::Disabled, Tone::Note),
            (Status::NotConfigured, Tone::Bad),
            (Status::InitFailed, Tone::Bad),
            (Status::PinMismatch, Tone::Bad),
        ] {
            assert_eq!(tone(json!(status).as_str().unwrap()), colour, "{status:?}");
        }
    }
}
