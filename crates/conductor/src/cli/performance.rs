//! `conductor performance on|off`: while the lock is on, only a person changes what is on stage.

use super::approvals::at_a_terminal;
use super::args::{Performance, Switch};
use super::{Failure, Verdict, ask_and_show, out::Out};
use crate::home::Home;
use serde_json::json;

pub fn run(args: &Performance, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    let (on, text) = match args.state {
        Switch::On => (true, "the performance lock is on"),
        Switch::Off => (false, "the performance lock is off"),
    };
    ask_and_show(home, out, ("performance.set", json!({ "on": on })), |out, _| out.line(text))
}
