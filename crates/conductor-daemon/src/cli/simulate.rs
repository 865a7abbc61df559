//! `conductor simulate`: shows what events would do. It uses the configuration in force, or the
//! file if no daemon runs.

use super::args::Simulate;
use super::{Failure, Verdict, file_error, out::Out, text, tool_or_offline};
use crate::home::Home;
use conductor_gateway::simulation::simulate_script;
use serde_json::json;
use std::io::Read;
use std::path::Path;

pub fn run(args: &Simulate, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let events = match (&args.events, &args.file) {
        (Some(events), _) => events.clone(),
        (None, Some(file)) => read(file)?,
        (None, None) => String::new(),
    };
    let mut arguments = json!({ "events": events });
    if let Some(mode) = &args.mode {
        arguments["mode"] = json!(mode);
    }
    let simulated = tool_or_offline(home, out, ("conductor_simulate", arguments), |config| {
        Ok(json!(simulate_script(config, &events, args.mode.as_deref())?))
    })?;
    out.show(&simulated, |out, simulated| match text(simulated, "text").trim_end() {
        "" => Ok(()),
        lines if simulated["truncated"] == true => out.line(format_args!("{lines}\n(further records are not shown)")),
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
