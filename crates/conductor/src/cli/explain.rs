//! `conductor explain`: shows which mapping an event fires, and why the others do not fire. A
//! running daemon also considers connected and muted devices; without a daemon only the file is
//! used.

use super::args::Explain;
use super::{Failure, Verdict, ask_or_offline, out::Out, text};
use crate::doors::control::methods;
use crate::home::Home;
use serde_json::json;

pub fn run(args: &Explain, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let Explain { event, mode, device } = args;
    let params = json!({ "event": event, "mode": mode, "device": device });
    let explained = ask_or_offline(home, "explain", params, |config| {
        methods::explain(config, event, mode.as_deref(), device.as_deref())
    })?;
    out.show(&explained, |out, explained| out.line(text(explained, "text").trim_end()))
}
