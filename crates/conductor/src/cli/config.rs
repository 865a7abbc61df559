//! `conductor config check|show|path|accept`. All but `accept` read the file themselves: a broken
//! file is when they are needed most, and no daemon may run.

use super::approvals::{ask_yes, at_a_terminal};
use super::args::{Config, ConfigCommand};
use super::{Failure, Verdict, ask, list, out::Out, text};
use crate::config_check::Checked;
use crate::home::Home;
use conductor_core::text::escape;
use serde_json::{Value, json};
use std::io;
use std::path::Path;

pub fn run(args: &Config, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let path = home.config_file();
    match &args.command {
        ConfigCommand::Path => {
            out.show(&json!({ "path": path }), |out, _| out.line(path.display()))?;
            Ok(Verdict::Good)
        }
        ConfigCommand::Show => {
            let content = std::fs::read_to_string(&path)
                .map_err(|error| Failure::Text(format!("{}: {error}", path.display())))?;
            let hash = conductor_core::digest::Digest::of(content.as_bytes()).to_string();
            let value = json!({ "content": content, "path": path, "hash": hash });
            out.show(&value, |out, value| out.line(text(value, "content").trim_end_matches('\n')))?;
            Ok(Verdict::Good)
        }
        ConfigCommand::Accept => accept(home, out),
        ConfigCommand::Check { file } => {
            let path = file.as_ref().unwrap_or(&path);
            if file.is_some() && !path.exists() {
                return Err(Failure::Text(format!("{}: no such file", path.display())));
            }
            let checked = Checked::of(path);
            // A running daemon knows the tools, plugins and ports that rows name.
            let here = if file.is_none() { ask(home, "config.check", json!({})).ok() } else { None };
            let value = here.unwrap_or_else(|| checked.to_json());
            if out.is_json() {
                out.value(&value)?;
            } else {
                show(out, path, &checked, &value)?;
            }
            Ok(if value["valid"] == true { Verdict::Good } else { Verdict::Bad })
        }
    }
}

/// A person reads the difference and says yes. The daemon checks that it is a person, and that the
/// file is still the one shown.
fn accept(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    let waiting = ask(home, "config.waiting", json!({}))?;
    let waits = ["held", "unprotected"].iter().any(|it| !list(&waiting, it).is_empty());
    if !waits && waiting["error"].is_null() && waiting["closed"].is_null() {
        out.line("nothing waits: the file is in force")?;
        return Ok(Verdict::Good);
    }
    out.text(&difference(&waiting))?;
    if !ask_yes(out, "Put this file in force?")? {
        out.line("left as it is")?;
        return Ok(Verdict::Bad);
    }
    let accepted = ask(home, "config.accept", json!({ "hash": waiting["hash"] }))?;
    out.show(&accepted, |out, accepted| {
        for fault in list(accepted, "faults") {
            out.line(format_args!("  {}", escape(fault.as_str().unwrap_or_default())))?;
        }
        out.line("accepted: the file is in force")
    })?;
    Ok(Verdict::Good)
}

/// What waits, as a person reads it; shared with the terminal of `up`.
pub fn difference(waiting: &Value) -> String {
    let mut text = String::new();
    let mut line = |it: &str| {
        text.push_str(&escape(it));
        text.push('\n');
    };
    if let Some(why) = waiting["closed"].as_str() {
        line(&format!("Closed defaults serve: {why}"));
    }
    if let Some(why) = waiting["error"].as_str() {
        line(&format!("Not read: {why}"));
    }
    for held in list(waiting, "held") {
        line(&format!("waits: {}", held.as_str().unwrap_or_default()));
    }
    for typing in list(waiting, "unprotected") {
        line(&format!("types keys or text, in force already: mapping {}", typing.as_str().unwrap_or_default()));
    }
    for changed in waiting["difference"].as_str().unwrap_or_default().split('\n').filter(|it| !it.is_empty()) {
        line(&format!("  {changed}"));
    }
    text
}

fn show(out: &mut Out, path: &Path, checked: &Checked, value: &Value) -> io::Result<()> {
    if !checked.exists() {
        return out.line(format_args!("{}: no file; the built-in empty mode serves", path.display()));
    }
    for fault in checked.rendered() {
        out.line(fault)?;
    }
    let known = [checked.errors(), checked.warnings()].concat();
    let lines = |key: &str| list(value, key).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let (errors, warnings) = (lines("errors"), lines("warnings"));
    for (kind, found) in [("error", &errors), ("warning", &warnings)] {
        for line in found.iter().filter(|it| !known.iter().any(|known| known == *it)) {
            out.line(format_args!("{kind}: {}", escape(line)))?;
        }
    }
    for wait in checked.waits() {
        out.line(format_args!("note: {wait}"))?;
    }
    out.line(format_args!("{}: {} errors, {} warnings", path.display(), errors.len(), warnings.len()))
}
