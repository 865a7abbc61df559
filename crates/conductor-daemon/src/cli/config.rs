//! `conductor config check|show|path|schema|accept`. All commands except `accept` read the file
//! themselves, so that they work when the file is invalid or no daemon runs.

use super::approvals::{ask_yes, at_a_terminal};
use super::args::ConfigCommand;
use super::{Failure, Verdict, ask, ask_and_show, call, file_error, list, out::Out, text, texts};
use crate::config_check::Checked;
use crate::home::Home;
use conductor_core::config::{reference, schema};
use conductor_core::text::escape;
use serde_json::{Value, json};
use std::io;
use std::path::Path;

pub fn run(command: &ConfigCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let path = home.config_file();
    match command {
        ConfigCommand::Path => out.show(&json!({ "path": path }), |out, _| out.line(path.display())),
        ConfigCommand::Show => {
            let content = std::fs::read_to_string(&path).map_err(|error| file_error(&path, error))?;
            let hash = conductor_core::digest::Digest::of(content.as_bytes()).to_string();
            let value = json!({ "content": content, "path": path, "hash": hash });
            out.show(&value, |out, value| out.line(text(value, "content").trim_end_matches('\n')))
        }
        ConfigCommand::Schema => out.show(schema::file(), |out, _| out.text(&reference::schema_text())),
        ConfigCommand::Accept => accept(home, out),
        ConfigCommand::Check { file } => {
            let path = file.as_ref().unwrap_or(&path);
            if file.is_some() && !path.exists() {
                return Err(file_error(path, "no such file"));
            }
            let checked = Checked::of(path);
            let mut value = checked.to_json();
            // A running daemon can also check the names of tools, plugins and ports.
            if file.is_none()
                && let Ok(by_daemon) = call::tool(home, out, "conductor_validate_config", json!({}))
            {
                for key in ["valid", "errors", "warnings", "diagnostics"] {
                    value[key] = by_daemon[key].clone();
                }
            }
            out.show(&value, |out, value| show(out, path, &checked, value))?;
            Ok(Verdict::good_if(value["valid"] == true))
        }
    }
}

/// Shows the difference and asks the person. The daemon checks that a person answers, and that the
/// file has not changed since it was shown.
fn accept(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    let waiting = ask(home, "config.reload", json!({}))?;
    let waits = ["held", "unprotected"].iter().any(|it| !list(&waiting, it).is_empty());
    if !waits && waiting["error"].is_null() && waiting["closed"].is_null() {
        out.line("nothing to accept: the file is in force")?;
        return Ok(Verdict::Good);
    }
    out.text(&difference(&waiting))?;
    if !ask_yes(out, "Put this file in force?")? {
        out.line("nothing was changed")?;
        return Ok(Verdict::Bad);
    }
    ask_and_show(home, out, ("config.accept", json!({ "hash": waiting["hash"] })), |out, accepted| {
        texts(accepted, "faults").iter().try_for_each(|it| out.line(format_args!("  {}", escape(it))))?;
        out.line("accepted: the file is in force")
    })
}

/// Describes what a person has to accept: the parts of the file that are not in force, and mappings
/// in force that type keys. The terminal of `conductor up` shows this text too.
pub fn difference(waiting: &Value) -> String {
    let mut text = String::new();
    let mut line = |it: &str| {
        text.push_str(&escape(it));
        text.push('\n');
    };
    if let Some(why) = waiting["closed"].as_str() {
        line(&format!("No rights are granted: {why}"));
    }
    if let Some(why) = waiting["error"]["message"].as_str() {
        line(&format!("The file could not be read: {why}"));
    }
    texts(waiting, "held").iter().for_each(|it| line(&format!("not in force: {it}")));
    for mapping in texts(waiting, "unprotected") {
        line(&format!("already in force: mapping {mapping}, which types keys or text and was added without a plan"));
    }
    for changed in waiting["difference"].as_str().unwrap_or_default().split('\n').filter(|it| !it.is_empty()) {
        line(&format!("  {changed}"));
    }
    text
}

fn show(out: &mut Out, path: &Path, checked: &Checked, value: &Value) -> io::Result<()> {
    if !checked.exists() {
        return out.line(format_args!("{}: there is no file; the built-in empty mode is in force", path.display()));
    }
    for fault in checked.rendered() {
        out.line(fault)?;
    }
    let known = [checked.errors(), checked.warnings()].concat();
    let (errors, warnings) = (texts(value, "errors"), texts(value, "warnings"));
    for (kind, found) in [("error", &errors), ("warning", &warnings)] {
        // Skip the lines that were already printed. Lines from a daemon do not start with the file
        // name, so compare only the ends.
        for line in found.iter().filter(|it| !known.iter().any(|known| known.ends_with(*it))) {
            out.line(format_args!("{kind}: {}", escape(line)))?;
        }
    }
    for wait in checked.waits() {
        out.line(format_args!("note: {wait}"))?;
    }
    out.line(format_args!("{}: {} errors, {} warnings", path.display(), errors.len(), warnings.len()))
}
