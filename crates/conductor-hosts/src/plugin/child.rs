//! The process of one plugin: `conductor plugin-host`. It gives up what it may not do, then serves
//! until its pipe closes.

use super::{Limits, engine, sandbox};
use std::io::{self, Write};
use std::process::ExitCode;

/// Does not return while the daemon holds the other end of the pipes.
pub fn run(limits: &Limits) -> ExitCode {
    // What a panic would print is not for anybody: there is nobody at stderr.
    std::panic::set_hook(Box::new(|_| {}));
    if let Err(fault) = sandbox::enter(limits) {
        let _ = writeln!(io::stderr(), "conductor: no sandbox, no plugin: {fault}");
        return ExitCode::FAILURE;
    }
    engine::serve(limits)
}
