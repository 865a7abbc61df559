//! `conductor config check|show|path`. Reads the file itself: a broken file is when these are needed most, and no daemon may run.

use super::args::{Config, ConfigCommand};
use super::{Failure, Verdict, list, out::Out, text};
use crate::daemon::home::Home;
use crate::doors::control::methods;
use serde_json::{Value, json};
use std::io;

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
            let found = methods::checked(path);
            out.show(&found, show)?;
            Ok(if found["valid"] == true { Verdict::Good } else { Verdict::Bad })
        }
    }
}

fn show(out: &mut Out, found: &Value) -> io::Result<()> {
    if found["exists"] != true {
        return out.line(format_args!("{}: no file; the built-in empty mode serves", text(found, "path")));
    }
    for (key, word) in [("errors", "error"), ("warnings", "warning")] {
        for line in list(found, key) {
            out.line(format_args!("{word}: {}", line.as_str().unwrap_or("-")))?;
        }
    }
    let (errors, warnings) = (list(found, "errors").len(), list(found, "warnings").len());
    out.line(format_args!("{}: {errors} errors, {warnings} warnings", text(found, "path")))
}
