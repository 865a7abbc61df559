//! `conductor mode set`: switches the mode.

use super::args::ModeCommand;
use super::{Failure, Verdict, ask_and_show, out::Out, text};
use crate::home::Home;
use serde_json::json;

pub fn run(command: ModeCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    // Without a name, the option `--auto` is set.
    let request = match command {
        ModeCommand::Set { name: Some(name), .. } => ("mode.set", json!({ "mode": name })),
        ModeCommand::Set { name: None, .. } => ("mode.auto", json!({})),
    };
    ask_and_show(home, out, request, |out, switched| out.line(format_args!("mode {}", text(switched, "mode_name"))))
}
