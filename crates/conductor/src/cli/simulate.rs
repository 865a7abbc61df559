//! `conductor simulate`: shows what events would do. It uses the configuration in force, or the
//! file if no daemon runs.

use super::args::Simulate;
use super::{Failure, Verdict, ask_or_offline, file_error, out::Out, text};
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
    let params = json!({ "events": events, "mode": args.mode });
    let simulated =
        ask_or_offline(home, "simulate", params, |config| methods::simulate(config, &events, args.mode.as_deref()))?;
    out.show(&simulated, |out, simulated| match text(simulated, "text").trim_end() {
        "" => Ok(()),
        lines => out.line(lines),
    })
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error| file_error(file, error);
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(failed)
}
