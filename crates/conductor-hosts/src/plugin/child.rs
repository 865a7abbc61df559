//! The process of one plugin or one script: `conductor plugin-host`. It enters its sandbox, then
//! serves requests until its pipe is closed.

use super::{Kind, Limits, engine, sandbox};
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs the process. Returns only if the sandbox cannot be entered. Otherwise the process exits
/// when the daemon closes the pipes, after a fatal error, or when a limit is reached.
pub fn run(limits: &Limits, kind: Kind) -> ExitCode {
    // Panics print nothing, because stderr is not read.
    std::panic::set_hook(Box::new(|_| {}));
    if let Err(error) = sandbox::enter(limits) {
        let _ = writeln!(io::stderr(), "conductor: the sandbox cannot be entered, so the plugin does not run: {error}");
        return ExitCode::FAILURE;
    }
    engine::serve(limits, kind)
}
