//! `conductor plugins`: what lies in the folder of plugins, and who may run.

use super::args::PluginHost;
use crate::hosts::plugin::{Limits, child};
use std::process::ExitCode;

/// The process of one plugin.
pub fn host(args: &PluginHost) -> ExitCode {
    child::run(&Limits { cpu_ms: args.cpu_ms, heap_mb: args.heap_mb, stack_kb: args.stack_kb })
}
