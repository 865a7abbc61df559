//! `conductor send`: plays events on a port. Events sent to `NAME hand` arrive as if a person had
//! played the loopback device NAME.

use super::args::Send;
use super::{Failure, Verdict, ask_and_show, out::Out};
use crate::home::Home;
use serde_json::json;

pub fn run(args: Send, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let params = json!({ "port": args.port, "events": args.events.join(" ") });
    ask_and_show(home, out, ("play", params), |_, _| Ok(()))
}
