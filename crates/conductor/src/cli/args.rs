//! What can be typed. Help texts say what a command is for, in one line.

use clap::{Args as ClapArgs, Parser, Subcommand};
use std::path::PathBuf;

/// One local daemon between a music studio and whoever plays it.
#[derive(Debug, Parser)]
#[command(name = "conductor", version, disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Args {
    /// Folder of this studio, instead of CONDUCTOR_HOME or ~/.conductor
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon in the foreground
    Up(Up),
    /// Show what the daemon is doing
    Status,
    /// List devices and ports
    Devices,
    /// List modes
    Modes,
    /// Change the mode
    Mode(Mode),
    /// Release every note and key now
    Panic,
    /// Show what happens, as it happens
    Monitor(Monitor),
    /// Play events on a port, such as the hand's end of a loopback device
    Send(Send),
    /// Show what events would do, without doing it
    Simulate(Simulate),
    /// Show why an event does, or does not, fire a mapping
    Explain(Explain),
    /// Check or show the configuration
    Config(Config),
    /// Check, describe, compare or draw patch files of Max and Pure Data
    Patch(Patch),
    /// Look for what is missing on this machine
    Doctor,
}

#[derive(Debug, ClapArgs)]
pub struct Up {
    /// Start with two virtual controllers and a configuration to play with
    #[arg(long)]
    pub demo: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Mode {
    #[command(subcommand)]
    pub command: ModeCommand,
}

#[derive(Debug, Subcommand)]
pub enum ModeCommand {
    /// Switch to a mode
    Set { name: String },
}

#[derive(Debug, ClapArgs)]
pub struct Monitor {
    /// Show the bytes that leave at this port instead of the trace
    #[arg(long)]
    pub port: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Send {
    /// Device alias, or exact name of a port
    pub port: String,
    /// Events such as "on:36@100 t:600 off:36"; notes still on at the end are released
    #[arg(required = true, num_args = 1..)]
    pub events: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Simulate {
    /// Events such as "on:36@100 t:600 off:36"
    #[arg(required_unless_present = "file")]
    pub events: Option<String>,
    /// Read the events from a file; `-` is stdin
    #[arg(long, conflicts_with = "events")]
    pub file: Option<PathBuf>,
    /// Mode to start in
    #[arg(long)]
    pub mode: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Explain {
    /// One event such as on:36@100
    pub event: String,
    /// As if in this mode
    #[arg(long)]
    pub mode: Option<String>,
    /// As if from this device
    #[arg(long)]
    pub device: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Config {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// List every fault of the file, with its place
    Check {
        /// Another file than the one of this home
        file: Option<PathBuf>,
    },
    /// Print the file
    Show,
    /// Print where the file is
    Path,
}

#[derive(Debug, ClapArgs)]
pub struct Patch {
    #[command(subcommand)]
    pub command: PatchCommand,
}

#[derive(Debug, Subcommand)]
pub enum PatchCommand {
    /// Read files and check that a save would not change a byte
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Tell what is in a file
    Info { file: PathBuf },
    /// Compare two files; exit 1 when they differ
    Diff { a: PathBuf, b: PathBuf },
    /// Draw a file as PNG, or as SVG by the ending of OUT
    Render {
        file: PathBuf,
        /// Where to; beside the file when left out
        #[arg(short, long, value_name = "OUT")]
        out: Option<PathBuf>,
    },
}
