//! The binary. Reads the arguments and the environment once, and passes them to `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    conductor_daemon::cli::run(std::env::args_os(), &conductor_hosts::system::Environment::read())
}
