//! `conductor explain`: which mapping an event fires, and why the others do not. The daemon knows
//! what is connected and muted now; without one the file alone is judged.

use super::args::Explain;
use super::{Failure, Verdict, offline, out::Out};
use crate::doors::control::client::{Client, ClientError};
use crate::doors::control::methods;
use crate::home::Home;
use serde_json::json;

pub fn run(args: &Explain, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let Explain { event, mode, device } = args;
    let result = match Client::connect(&home.control_socket()) {
        Ok(mut client) => client.ask("explain", json!({ "event": event, "mode": mode, "device": device }))?,
        Err(ClientError::NoDaemon) => {
            methods::explain(&offline(home)?.config, event, mode.as_deref(), device.as_deref())?
        }
        Err(error) => return Err(error.into()),
    };
    out.show(&result, |out, result| out.line(super::text(result, "text").trim_end()))?;
    Ok(Verdict::Good)
}
