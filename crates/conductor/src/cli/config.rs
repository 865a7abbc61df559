//! `conductor config check|show|path`. Reads the file itself: a broken file is when these are needed most, and no daemon may run.

use super::args::{Config, ConfigCommand};
use super::{Failure, Verdict, out::Out, text};
use crate::daemon::config_check::Checked;
use crate::daemon::home::Home;
use serde_json::json;
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
        ConfigCommand::Check { file } => {
            let path = file.as_ref().unwrap_or(&path);
            if file.is_some() && !path.exists() {
                return Err(Failure::Text(format!("{}: no such file", path.display())));
            }
            let checked = Checked::of(path);
            if out.is_json() {
                out.value(&checked.to_json())?;
            } else {
                show(out, path, &checked)?;
            }
            Ok(if checked.is_valid() { Verdict::Good } else { Verdict::Bad })
        }
    }
}

fn show(out: &mut Out, path: &Path, checked: &Checked) -> io::Result<()> {
    if !checked.exists() {
        return out.line(format_args!("{}: no file; the built-in empty mode serves", path.display()));
    }
    for fault in checked.rendered() {
        out.line(fault)?;
    }
    for wait in checked.waits() {
        out.line(format_args!("note: {wait}"))?;
    }
    let (errors, warnings) = (checked.errors().len(), checked.warnings().len());
    out.line(format_args!("{}: {errors} errors, {warnings} warnings", path.display()))
}
