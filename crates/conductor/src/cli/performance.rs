//! `conductor performance on|off`: while it is on, only the person in the room changes what is on
//! stage.

use super::approvals::at_a_terminal;
use super::args::Performance;
use super::{Failure, Verdict, ask, out::Out};
use crate::home::Home;
use serde_json::json;

pub fn run(args: &Performance, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    let on = args.state.is_on();
    let answer = ask(home, "performance.set", json!({ "on": on }))?;
    out.show(&answer, |out, _| {
        out.line(if on { "the performance lock is on" } else { "the performance lock is off" })
    })?;
    Ok(Verdict::Good)
}
