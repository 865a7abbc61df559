//! The process of one plugin: `conductor plugin-host`. It enters its sandbox, then serves until its
//! pipe closes.

use super::{Limits, engine, sandbox};
use std::io::{self, Write};
use std::process::ExitCode;

/// Does not return while the daemon holds the other end of the pipes.
pub fn run(limits: &Limits) -> ExitCode {
    // No output of panics: stderr is not read.
    std::panic::set_hook(Box::new(|_| {}));
    if let Err(error) = sandbox::enter(limits) {
        let _ = writeln!(io::stderr(), "conductor: no sandbox, no plugin: {error}");
        return ExitCode::FAILURE;
    }
    engine::serve(limits)
}
