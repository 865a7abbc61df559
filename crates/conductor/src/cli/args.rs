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
    #[command(subcommand)]
    Mode(ModeCommand),
    /// Release every note and key now
    Panic,
    /// Show what happens, as it happens
    Monitor(Monitor),
    /// Play a control and get the trigger that would fire on it
    Learn(Learn),
    /// Play events on a port, such as the hand's end of a loopback device
    Send(Send),
    /// Show what events would do, without doing it
    Simulate(Simulate),
    /// Show why an event does, or does not, fire a mapping
    Explain(Explain),
    /// Check or show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check, describe, compare or draw patch files of Max and Pure Data
    #[command(subcommand)]
    Patch(PatchCommand),
    /// Install what runs inside Pure Data, Max or Live, so that they can be driven
    #[command(subcommand)]
    Bridge(BridgeCommand),
    /// Look for what is missing on this machine
    Doctor,
    /// Let an AI client in
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Call any tool
    Call(CallArgs),
    /// List, apply or undo changes that wait for you
    #[command(subcommand)]
    Plans(PlansCommand),
    /// Answer what an AI client may do
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Read and check the log of every call
    #[command(subcommand)]
    Audit(super::audit::AuditCommand),
    /// Store what tools need and nobody should see
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Keep everyone but you from changing what is on stage
    Performance(Performance),
    /// Show or reset tools that are off after failures
    #[command(subcommand)]
    Circuit(CircuitCommand),
    /// Check, show, compare or draw Live Sets
    #[command(subcommand)]
    Set(super::set::SetCommand),
    /// List, check, write and enable plugins: tools of your own, in JavaScript
    #[command(subcommand)]
    Plugins(PluginsCommand),
    /// The process of one plugin; the daemon starts it
    #[command(hide = true)]
    PluginHost(PluginHost),
}

#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// What lies in the folder of plugins, and what of it runs
    List,
    /// Load a file in the sandbox and show what it says about itself; enables nothing
    Check {
        /// A file of the folder of plugins, or any path
        file: PathBuf,
    },
    /// Write a working plugin and its type definitions into the folder of plugins
    New {
        /// Begins with a-z and holds a-z, 0-9, - and _
        name: String,
    },
    /// Show a plugin, ask, and let it run from now on
    ///
    /// What you see is pinned: when the file changes, its tools are refused until you enable it
    /// again. What is not given here stays as it was. This needs a terminal.
    Enable(PluginEnable),
    /// Take a plugin's tools away
    Disable { name: String },
}

#[derive(Debug, ClapArgs)]
pub struct PluginEnable {
    /// Name of the plugin, or of its file
    pub name: String,
    /// Host it may fetch from, such as api.example.org; may be given several times
    #[arg(long, value_name = "HOST")]
    pub net: Option<Vec<String>>,
    /// File root it may read
    #[arg(long, value_name = "ROOT")]
    pub files_read: Option<Vec<String>>,
    /// File root it may write
    #[arg(long, value_name = "ROOT")]
    pub files_write: Option<Vec<String>>,
    /// Secret it may put into requests
    #[arg(long, value_name = "NAME")]
    pub secret: Option<Vec<String>>,
    /// A field of its configuration, such as units=metric; the value may be JSON
    #[arg(long, value_name = "KEY=VALUE")]
    pub config: Option<Vec<String>>,
}

#[derive(Debug, ClapArgs)]
pub struct PluginHost {
    #[arg(long)]
    pub cpu_ms: u32,
    #[arg(long)]
    pub heap_mb: u32,
    #[arg(long)]
    pub stack_kb: u32,
}

#[derive(Debug, Subcommand)]
pub enum BridgeCommand {
    /// Write the bridge with the address of this studio, and say where it is
    Install {
        #[arg(value_enum)]
        name: BridgeName,
        /// Folder to put it into, instead of the usual one of the program
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum BridgeName {
    /// A control surface for Ableton Live 11 and later
    Live,
    /// A patch for Max 9; not yet run in a real Max
    Max,
    /// A helper patch for a Pure Data that you start yourself
    Pd,
}

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Serve MCP to the program that started this one, or over HTTP; starts the daemon if none runs
    Start(McpStart),
    /// Write the AI client's configuration, so that it finds Conductor
    Setup(McpSetup),
}

#[derive(Debug, ClapArgs)]
pub struct McpSetup {
    /// claude-desktop, claude-code, cursor, windsurf, vscode, cline or generic
    #[arg(long, default_value = "generic")]
    pub client: String,
    /// Print what would be written, and write nothing
    #[arg(long)]
    pub print: bool,
}

#[derive(Debug, ClapArgs)]
pub struct McpStart {
    #[arg(long, value_enum, default_value_t = Transport::Stdio)]
    pub transport: Transport,
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 3000)]
    pub port: u16,
    /// Toolsets or tools to show, separated by commas
    #[arg(long)]
    pub tools: Option<String>,
    /// How names with a dot are listed
    #[arg(long, value_name = "safe|dotted", value_parser = ["safe", "dotted"])]
    pub tool_names: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Transport {
    Stdio,
    Http,
}

#[derive(Debug, ClapArgs)]
pub struct CallArgs {
    /// Such as conductor_switch_mode
    pub tool: String,
    /// Arguments as JSON; `-` reads them from stdin
    pub arguments: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum PlansCommand {
    /// Every plan, newest first
    List,
    /// One plan with its diff
    Show { id: String },
    /// Write the plan's change into config.toml
    Apply { id: String },
    /// End the plan without a change
    Reject { id: String },
    /// Take an applied plan back; shows the diff and asks
    Undo { id: String },
}

#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// What waits for an answer
    List {
        /// Stay, and ask as questions come
        #[arg(long)]
        watch: bool,
    },
    /// One question, with everything you should know
    Show {
        id: String,
        /// Every value whole, one screen after the other; long ones are otherwise shown with their
        /// middle left out
        #[arg(long)]
        full: bool,
    },
    /// Allow a call: once and with exactly these arguments, unless you say more
    ///
    /// This needs a terminal, and is refused to programs that an AI client started. That stops an
    /// honest client, not a hostile one that runs as you.
    Allow {
        id: String,
        /// How often
        #[arg(long, default_value_t = 1)]
        uses: u32,
        /// How long, such as 10m
        #[arg(long = "for", value_name = "TIME")]
        duration: Option<String>,
        /// Whatever the arguments
        #[arg(long)]
        any_args: bool,
    },
    /// Refuse a call
    Deny { id: String },
}

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Store a value: typed without echo, or from stdin, never from the command line
    Set {
        name: String,
        /// A host it may be sent to; may be repeated. Without one it is sent to no host
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// With [secrets] key = "file": make the key file. Who can read your files can then read
        /// your secrets
        #[arg(long)]
        allow_key_file: bool,
    },
    /// Names, versions and hosts; never a value
    List,
    /// Forget a value
    Remove { name: String },
    /// Who holds the key, or why nobody can be asked
    Status,
    /// Make a new key and seal every value again, all or none
    Rotate,
}

#[derive(Debug, ClapArgs)]
pub struct Performance {
    #[arg(value_enum)]
    pub state: Switch,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Switch {
    On,
    Off,
}

#[derive(Debug, Subcommand)]
pub enum CircuitCommand {
    /// Tools that have failed
    List,
    /// Let a tool run again now
    Reset {
        tool: Option<String>,
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub struct Up {
    /// Start with two virtual controllers and a configuration to play with
    #[arg(long)]
    pub demo: bool,
    /// Serve HTTP clients at this address, instead of [http] bind; port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    pub http: Option<std::net::SocketAddr>,
}

#[derive(Debug, Subcommand)]
pub enum ModeCommand {
    /// Switch to a mode, or let the window in front choose it again
    Set {
        #[arg(required_unless_present = "auto")]
        name: Option<String>,
        /// Let the rules of [per_app_modes] choose
        #[arg(long, conflicts_with = "name")]
        auto: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub struct Monitor {
    /// Show the bytes that leave at this port instead of the trace
    #[arg(long)]
    pub port: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Learn {
    /// How long to listen at most
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=300))]
    pub seconds: u32,
    /// Let what is played do what it always does
    #[arg(long)]
    pub let_through: bool,
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
    /// Show what of the file is not in force, and put it in force after a yes
    Accept,
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
