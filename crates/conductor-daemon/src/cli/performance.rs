//! `conductor performance on|off`: turns the performance lock on or off. While it is on, AI clients
//! cannot switch modes, mute devices, send MIDI or start MIDI learn; a person can. No plan can be
//! applied, and a changed configuration waits until the lock is off.

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
