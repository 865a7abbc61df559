//! The binary. Reads the arguments and the environment once, and passes them and the tools to
//! `conductor_daemon::cli`.
//!
//! Not here: the daemon, which does not depend on the tools. A changed tool therefore recompiles
//! only the tools and this file.

use std::process::ExitCode;

fn main() -> ExitCode {
    let environment = conductor_hosts::system::Environment::read();
    conductor_daemon::cli::run(std::env::args_os(), &environment, &conductor_tools::BUILTIN)
}
