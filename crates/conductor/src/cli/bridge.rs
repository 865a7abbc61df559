//! `conductor bridge`: puts what runs inside other programs where they find it, with the address of this studio in it.

use super::args::{Bridge, BridgeCommand, BridgeName};
use super::{Failure, Verdict, out::Out};
use crate::daemon::home::Home;
use crate::hosts::pd::attach;
use crate::outside::RandomIds;
use serde_json::json;

pub fn run(args: &Bridge, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let BridgeCommand::Install { name } = &args.command;
    match name {
        BridgeName::Pd => {
            let address = attach::Address::of(home.root(), &RandomIds)?;
            let file = address.install(home.root(), &RandomIds)?;
            out.show(&json!({ "bridge": "pd", "file": file, "port": address.port }), |out, _| {
                out.line(format_args!("wrote {}", file.display()))?;
                out.line("Open it in your Pd and keep it open. In config.toml: [patch.pd] mode = \"attach\"")
            })?;
        }
    }
    Ok(Verdict::Good)
}
