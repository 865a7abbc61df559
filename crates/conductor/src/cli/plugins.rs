//! `conductor plugins`: what lies in the folder of plugins, and what of it a person lets run.

use super::approvals::{ask_yes, at_a_terminal};
use super::args::{PluginEnable, PluginHost, Plugins, PluginsCommand};
use super::{Failure, Verdict, ask, list, out::Out, text};
use crate::home::Home;
use conductor_core::text::escape;
use conductor_gateway::tools::plugins;
use conductor_hosts::plugin::manifest::{OURS, is_name};
use conductor_hosts::plugin::process::Launch;
use conductor_hosts::plugin::{Limits, child};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const TYPES: &str = include_str!("plugins/conductor-plugin.d.ts");
const STARTER: &str = include_str!("plugins/starter.js");

/// The process of one plugin.
pub fn host(args: &PluginHost) -> ExitCode {
    child::run(&Limits { cpu_ms: args.cpu_ms, heap_mb: args.heap_mb, stack_kb: args.stack_kb })
}

pub fn run(args: Plugins, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match args.command {
        PluginsCommand::List => {
            let answer = ask(home, "plugins.list", json!({}))?;
            out.show(&answer, show_list)?;
        }
        PluginsCommand::Check { file } => return check(&file, home, out),
        PluginsCommand::New { name } => write_new(&name, home, out)?,
        PluginsCommand::Enable(args) => return enable(args, home, out),
        PluginsCommand::Disable { name } => {
            at_a_terminal()?;
            let report = ask(home, "plugins.disable", json!({ "name": name }))?;
            out.show(&report, |out, report| out.line(format_args!("{} is disabled", text(report, "name"))))?;
        }
    }
    Ok(Verdict::Good)
}

fn show_list(out: &mut Out, answer: &Value) -> io::Result<()> {
    let plugins = list(answer, "plugins");
    if plugins.is_empty() {
        out.line(format_args!("no plugins in {}", text(answer, "folder")))?;
        return out.line("`conductor plugins new NAME` writes one to begin with");
    }
    for it in plugins {
        out.line(format_args!(
            "{:<20} {:<15} {}",
            escape(text(it, "name")),
            text(it, "status"),
            escape(text(it, "file"))
        ))?;
        if let Some(reason) = it["reason"].as_str() {
            out.line(format_args!("{:<20} {}", "", escape(reason)))?;
        }
        let tools: Vec<&str> = list(it, "tools").iter().filter_map(Value::as_str).collect();
        if !tools.is_empty() {
            out.line(format_args!("{:<20} {}", "", tools.join(", ")))?;
        }
        if it["status"] == "disabled" && it["tools"].as_array().is_none_or(Vec::is_empty) {
            out.line(format_args!("{:<20} conductor plugins enable {}", "", escape(text(it, "name"))))?;
        }
    }
    Ok(())
}

/// A path as given, or a name in the folder of plugins, with or without its ending.
fn find(file: &Path, home: &Home) -> Result<PathBuf, Failure> {
    let folder = home.plugins();
    let name = file.to_string_lossy();
    let candidates = [file.to_owned(), folder.join(file)]
        .into_iter()
        .chain(["js", "mjs", "cjs"].map(|ending| folder.join(format!("{name}.{ending}"))));
    let found = candidates.into_iter().find(|it| it.is_file());
    found.ok_or_else(|| Failure::Text(format!("there is no plugin {name} here or in {}", folder.display())))
}

fn look(path: &Path) -> Result<Result<conductor_hosts::plugin::manifest::Manifest, Vec<String>>, Failure> {
    let source = std::fs::read(path)?;
    let file = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let launch = Launch {
        program: conductor_hosts::system::own_program(),
        limits: Limits::default(),
        file,
        source: source.into(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(plugins::look(&launch)))
}

fn check(file: &Path, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let path = find(file, home)?;
    match look(&path)? {
        Ok(manifest) => {
            let value = manifest.shown(None);
            out.show(&value, |out, value| {
                show_manifest(out, value)?;
                out.line("sound; it is not enabled by this")
            })?;
            Ok(Verdict::Good)
        }
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
        let asks = if tool["asks"] == true { "asks each time" } else { "runs without asking" };
        out.line(format_args!("  tool     {} ({asks})", text(tool, "name")))?;
        out.line(format_args!("           {}", escape(text(tool, "description"))))?;
    }
    for field in list(value, "secret_fields").iter().filter_map(Value::as_str) {
        out.line(format_args!("  secret   conductor secrets set {}.{field}", text(value, "name")))?;
    }
    out.line(format_args!("  pin      {}", text(value, "pin")))
}

fn write_new(name: &str, home: &Home, out: &mut Out) -> Result<(), Failure> {
    if !is_name(name) || OURS.contains(&name) {
        let ours = OURS.join(", ");
        return Err(Failure::Text(format!(
            "{name:?} is no name for a plugin: it begins with a-z, holds a-z, 0-9, - and _, at most 32, and is none of {ours}"
        )));
    }
    home.create()?;
    let folder = home.plugins();
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{name}.js"));
    let mut file =
        std::fs::File::create_new(&path).map_err(|fault| Failure::Text(format!("{}: {fault}", path.display())))?;
    file.write_all(STARTER.replace("NAME", name).as_bytes())?;
    let types = folder.join("conductor-plugin.d.ts");
    std::fs::write(&types, TYPES)?;
    out.show(&json!({ "file": path, "types": types }), |out, _| {
        out.line(format_args!("wrote {}", path.display()))?;
        out.line(format_args!("wrote {} (what your editor knows about plugins)", types.display()))?;
        out.line(format_args!("next: conductor plugins check {name}, then conductor plugins enable {name}"))
    })?;
    Ok(())
}

fn enable(args: PluginEnable, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    let file = find(Path::new(&args.name), home)?;
    let file = file.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let shown = ask(home, "plugins.check", json!({ "file": file }))?;
    let mut row = shown["row"].as_object().cloned().unwrap_or_default();
    let changes = granted(&args, &row)?;
    row.extend(changes.clone());
    if !out.is_json() {
        show_manifest(out, &shown)?;
        show_grants(out, &row)?;
    }
    if !ask_yes(out, &format!("Let {} run?", text(&shown, "name")))? {
        out.line("nothing was changed")?;
        return Ok(Verdict::Bad);
    }
    let params = json!({ "name": shown["name"], "file": file, "pin": shown["pin"], "row": changes });
    let report = ask(home, "plugins.enable", params)?;
    let ready = report["status"] == "ready";
    out.show(&report, |out, report| {
        out.line(format_args!("{} is {}", text(report, "name"), text(report, "status")))?;
        report["reason"].as_str().map_or(Ok(()), |reason| out.line(format_args!("  {}", escape(reason))))
    })?;
    Ok(if ready { Verdict::Good } else { Verdict::Bad })
}

/// What the command line says, as keys of the row.
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
                .ok_or_else(|| Failure::Text(format!("{pair:?}: write --config KEY=VALUE, such as units=metric")))?;
            // What is no JSON is a text: nobody wants to quote twice.
            config.insert(key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value)));
        }
        changes.insert("config".into(), Value::Object(config));
    }
    Ok(changes)
}

fn show_grants(out: &mut Out, row: &Map<String, Value>) -> io::Result<()> {
    let words = [
        ("net", "fetches from"),
        ("files_read", "reads files under"),
        ("files_write", "writes files under"),
        ("secrets", "uses the secrets"),
    ];
    let mut any = false;
    for (key, said) in words {
        let named: Vec<&str> =
            row.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if !named.is_empty() {
            any = true;
            out.line(format_args!("  may      {said}: {}", escape(&named.join(", "))))?;
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
