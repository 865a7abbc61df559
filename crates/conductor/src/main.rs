//! The binary. Reads the outside once and hands it to the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    conductor::cli::run(std::env::args_os(), &conductor_hosts::system::Environment::read())
}
