//! `conductor mode set`.

use super::args::{Mode, ModeCommand};
use super::{Failure, Verdict, ask, out::Out, text};
use crate::home::Home;
use serde_json::json;

pub fn run(args: Mode, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let ModeCommand::Set { name, .. } = args.command;
    // Without a name it is `--auto`.
    let switched = match name {
        Some(name) => ask(home, "mode.set", json!({ "mode": name }))?,
        None => ask(home, "mode.auto", json!({}))?,
    };
    out.show(&switched, |out, switched| out.line(format_args!("mode {}", text(switched, "mode_name"))))?;
    Ok(Verdict::Good)
}
