//! `conductor simulate`: what events would do. Asks the daemon for the configuration in force;
//! without one it reads the file.

use super::args::Simulate;
use super::{Failure, Verdict, offline, out::Out, text};
use crate::doors::control::client::{Client, ClientError};
use crate::doors::control::methods;
use crate::home::Home;
use serde_json::json;
use std::io::Read;
use std::path::Path;

pub fn run(args: &Simulate, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let events = match (&args.events, &args.file) {
        (Some(events), _) => events.clone(),
        (None, Some(file)) => read(file)?,
        (None, None) => String::new(),
    };
    let result = match Client::connect(&home.control_socket()) {
        Ok(mut client) => client.ask("simulate", json!({ "events": events, "mode": args.mode }))?,
        Err(ClientError::NoDaemon) => methods::simulate(&offline(home)?.config, &events, args.mode.as_deref())?,
        Err(error) => return Err(error.into()),
    };
    out.show(&result, |out, result| match text(result, "text").trim_end() {
        "" => Ok(()),
        lines => out.line(lines),
    })?;
    Ok(Verdict::Good)
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::Text(format!("{}: {error}", file.display()));
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(failed)
}
