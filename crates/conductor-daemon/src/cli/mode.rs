//! `conductor mode set`: switches the mode.

use super::args::ModeCommand;
use super::call::tool_and_show;
use super::{Failure, Verdict, out::Out, text};
use crate::home::Home;
use serde_json::json;

pub fn run(command: ModeCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let ModeCommand::Set { name, auto: _ } = command;
    // If there is no name, clap has checked that `--auto` is set.
    let arguments = name.map_or_else(|| json!({ "auto": true }), |name| json!({ "mode": name }));
    tool_and_show(home, out, ("conductor_switch_mode", arguments), |out, switched| {
        out.line(format_args!("mode {}", text(switched, "mode_name")))
    })
}
