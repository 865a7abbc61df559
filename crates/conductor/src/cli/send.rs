//! `conductor send`: plays events on a port. Sent to `NAME hand`, they arrive as if a hand had
//! played the loopback device NAME.

use super::args::Send;
use super::{Failure, Verdict, ask, out::Out};
use crate::home::Home;
use serde_json::json;

pub fn run(args: Send, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let sent = ask(home, "play", json!({ "port": args.port, "events": args.events.join(" ") }))?;
    // Whoever plays a note wants to hear it, not to read about it.
    if out.is_json() {
        out.value(&sent)?;
    }
    Ok(Verdict::Good)
}
