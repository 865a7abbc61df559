//! The commands and options, with their help texts. The help text of a command starts with a verb.

use crate::doors::mcp::setup;
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Parser, Subcommand};
use conductor_core::config::ToolView;
use std::path::PathBuf;

/// A parser that accepts the names of tool views.
pub fn views() -> PossibleValuesParser {
    ToolView::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>().into()
}

/// Connect a music studio, its player and AI clients through one local daemon.
#[derive(Debug, Parser)]
#[command(name = "conductor", version, disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Args {
    /// Use this folder as the home, instead of CONDUCTOR_HOME or ~/.conductor
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colours; NO_COLOR=1 has the same effect as never
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN", hide_possible_values = true)]
    pub color: super::out::ColorChoice,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon in the foreground
    Up(Up),
    /// Show the state of the daemon: mode, devices, configuration, faults
    Status,
    /// List devices and ports
    Devices,
    /// List modes with their number of mappings
    Modes,
    /// Switch the mode
    #[command(subcommand)]
    Mode(ModeCommand),
    /// Release every note and key, and silence every output
    Panic,
    /// Show events, fired mappings and latencies live
    Monitor(Monitor),
    /// Listen while you play a control, and print a trigger for it
    Learn(Learn),
    /// Play events on a port, such as "pads hand" of a loopback device
    Send(Send),
    /// Show what events would do, without sending anything
    Simulate(Simulate),
    /// Show which mapping an event fires, and why the others do not
    Explain(Explain),
    /// Check, show or accept the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check, describe, compare or draw Max and Pure Data patch files
    #[command(subcommand)]
    Patch(PatchCommand),
    /// Install the bridge into Pure Data, Max or Live, so that Conductor can control it
    #[command(subcommand)]
    Bridge(BridgeCommand),
    /// Play the demo studio, so that you can hear it
    #[command(subcommand)]
    Demo(DemoCommand),
    /// Check this machine and report how to fix problems
    Doctor(Doctor),
    /// Connect AI clients over MCP
    #[command(subcommand)]
    Mcp(McpCommand),
    /// List tools, or show one with its arguments and an example
    Tools(super::tools::ToolsArgs),
    /// Call a tool, or print its arguments
    ///
    /// `conductor call TOOL --help` prints the arguments of a tool.
    #[command(disable_help_flag = true)]
    Call(CallArgs),
    /// List, show, apply, reject or undo planned changes
    #[command(subcommand)]
    Plans(PlansCommand),
    /// Review and answer approval requests
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Read, verify and export the audit log
    #[command(subcommand)]
    Audit(super::audit::AuditCommand),
    /// Manage secrets
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Open the console: see the studio in a browser, answer approval requests, edit mappings
    Console(ConsoleArgs),
    /// Pair a phone, so that a person can answer approval requests on it
    Pair(super::pair::PairArgs),
    /// Show how other machines reach this daemon over HTTP, and manage their tokens
    #[command(subcommand)]
    Http(super::http::HttpCommand),
    /// Show the rigs of a venue, answer their questions, and set up their server
    Rigs(super::rigs::RigsArgs),
    /// Switch the performance lock, which stops AI clients from changing modes or sending MIDI
    Performance(Performance),
    /// Show or reset circuit breakers, which disable tools after failures
    #[command(subcommand)]
    Circuit(CircuitCommand),
    /// Check, describe, compare or draw Live Set files
    #[command(subcommand)]
    Set(super::set::SetCommand),
    /// List, check, create, enable and disable plugins: your own tools, in JavaScript
    #[command(subcommand)]
    Plugins(PluginsCommand),
    /// Start the daemon at login
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Print the completion script of a shell
    Completions {
        /// Shell to complete in
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the pages for `man` into a folder; packages use this command
    #[command(hide = true)]
    Man { folder: PathBuf },
    /// Run one plugin; only the daemon uses this command
    #[command(hide = true)]
    PluginHost(PluginHost),
}

#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// List the files in the plugin folder, with their status and tools
    List,
    /// Load a file in the sandbox and show its manifest; enables nothing
    Check {
        /// Name of a file in the plugin folder, or any path
        file: PathBuf,
    },
    /// Write a working plugin and its type definitions into the plugin folder
    New {
        /// Name of the plugin; starts with a-z and contains a-z, 0-9, - and _
        name: String,
    },
    /// Show a plugin, ask for confirmation, and enable it
    ///
    /// The manifest and the file are pinned: when they change, the tools are refused until you
    /// enable the plugin again. Options that you omit keep their value. This command needs a
    /// terminal.
    Enable(PluginEnable),
    /// Disable a plugin and remove its tools
    Disable {
        /// Name of the plugin
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct PluginEnable {
    /// Name of the plugin or of its file
    pub name: String,
    /// Host that the plugin may fetch from, such as api.example.org; can be repeated
    #[arg(long, value_name = "HOST")]
    pub net: Option<Vec<String>>,
    /// File root that the plugin may read; can be repeated
    #[arg(long, value_name = "ROOT")]
    pub files_read: Option<Vec<String>>,
    /// File root that the plugin may write; can be repeated
    #[arg(long, value_name = "ROOT")]
    pub files_write: Option<Vec<String>>,
    /// Secret that the plugin may put into requests; can be repeated
    #[arg(long, value_name = "NAME")]
    pub secret: Option<Vec<String>>,
    /// Configuration field, such as units=metric; the value may be JSON; can be repeated
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
    /// Run the code of one script instead of a plugin
    #[arg(long)]
    pub script: bool,
}

#[derive(Debug, Subcommand)]
pub enum BridgeCommand {
    /// Write the bridge for this home, and print its path
    Install {
        /// Program to install the bridge for
        #[arg(value_enum)]
        name: BridgeName,
        /// Target folder for live, instead of the Remote Scripts folder of the User Library
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum BridgeName {
    /// A control surface for Ableton Live 11 and later
    Live,
    /// A patch for Max 9 (not yet tested in a real Max)
    Max,
    /// A helper patch for a Pure Data that you start yourself
    Pd,
}

#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Write the service for this home, and start it now and at every login
    Install,
    /// End the service and remove it
    Uninstall,
    /// Show whether the service is installed and runs
    Status,
    /// Print the last lines that the daemon logged
    Logs {
        /// Keep printing new lines
        #[arg(short, long)]
        follow: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Serve MCP over stdio or HTTP; starts the daemon if none runs
    Start(McpStart),
    /// Add Conductor to the configuration of an AI client
    Setup(McpSetup),
}

#[derive(Debug, ClapArgs)]
pub struct McpSetup {
    /// Name of the client; without a name, print an entry that most clients accept
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(setup::clients::CLIENTS.iter().map(|it| it.name)))]
    pub client: Option<String>,
    /// Print the entry instead of writing it
    #[arg(long, conflicts_with_all = ["remove", "status"])]
    pub print: bool,
    /// Remove Conductor from the client, and leave everything else as it was
    #[arg(long, requires = "client", conflicts_with = "status")]
    pub remove: bool,
    /// Show which clients have an entry for Conductor, with its program and view
    #[arg(long)]
    pub status: bool,
    /// The tools that the client lists: core (the default), live, patch, stage, seed or all
    #[arg(long, value_name = "NAME", value_parser = views(), conflicts_with_all = ["remove", "status"])]
    pub view: Option<String>,
    /// Also copy the skills to the folder of the client, or remove them with --remove
    #[arg(long, requires = "client", conflicts_with_all = ["print", "status"])]
    pub skills: bool,
}

#[derive(Debug, ClapArgs)]
pub struct McpStart {
    /// Transport; stdio serves the program that started this command
    #[arg(long, value_enum, default_value_t = Transport::Stdio)]
    pub transport: Transport,
    /// Port on 127.0.0.1 for HTTP; 0 chooses a free port
    #[arg(long, default_value_t = 3000)]
    pub port: u16,
    /// Tools to list: core, live, patch, stage, seed or all; the others can still be called
    #[arg(long, value_name = "NAME", value_parser = views())]
    pub view: Option<String>,
    /// Toolsets or tools to offer, separated by commas; all others are removed
    #[arg(long)]
    pub tools: Option<String>,
    /// Toolsets or tools to remove, separated by commas
    #[arg(long, value_name = "LIST")]
    pub exclude_tools: Option<String>,
    /// Remove every tool that has an effect, except conductor_panic; the view stage also keeps
    /// conductor_switch_mode
    #[arg(long)]
    pub read_only: bool,
    /// List tool names with underscores (safe) or with dots (dotted)
    #[arg(long, value_name = "safe|dotted", value_parser = ["safe", "dotted"])]
    pub tool_names: Option<String>,
    /// Ask for read access to these folders; a person accepts it with `conductor config accept`
    #[arg(long, value_name = "DIR", num_args = 0..)]
    pub folders: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Transport {
    Stdio,
    Http,
}

#[derive(Debug, ClapArgs)]
pub struct CallArgs {
    /// Name of the tool, such as conductor_switch_mode
    #[arg(required_unless_present = "help")]
    pub tool: Option<String>,
    /// Arguments as JSON; `-` reads them from stdin
    pub arguments: Option<String>,
    /// Call the tool of a daemon on another machine, with the token in CONDUCTOR_TOKEN
    #[arg(long, value_name = "URL", conflicts_with = "help")]
    pub remote: Option<String>,
    /// Trust only the certificate with this fingerprint, as `conductor http pair` shows it
    #[arg(long, value_name = "SHA256", requires = "remote")]
    pub fingerprint: Option<conductor_core::digest::Digest>,
    /// Print help; after TOOL, the arguments of this tool
    #[arg(short, long)]
    pub help: bool,
}

#[derive(Debug, Subcommand)]
pub enum PlansCommand {
    /// List all plans, newest first
    List,
    /// Show one plan with its diff
    Show {
        /// Id of the plan, as in the list
        id: String,
    },
    /// Write the planned change into config.toml
    Apply {
        /// Id of the plan, as in the list
        id: String,
    },
    /// Close a plan without changing anything
    Reject {
        /// Id of the plan, as in the list
        id: String,
    },
    /// Roll back an applied plan or a file edit; shows the change and asks for confirmation
    Undo {
        /// Id of the plan or edit, as in the list
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// List the calls that wait for an answer
    List {
        /// Keep running, and ask you about each open and each new request
        #[arg(long)]
        watch: bool,
    },
    /// Show one request with all its facts
    Show {
        /// Id of the request, as in the list
        id: String,
        /// Show long values in full, page by page
        #[arg(long)]
        full: bool,
    },
    /// Allow a call: by default once, and with exactly these arguments
    ///
    /// This command needs a terminal, and is refused to programs that an AI client started. This
    /// stops an honest client, but not a hostile program that runs as your user.
    Allow {
        /// Id of the request, as in the list
        id: String,
        /// How many times the call is allowed
        #[arg(long, default_value_t = 1)]
        uses: u32,
        /// How long the permission lasts, such as 90s, 10m or 2h
        #[arg(long = "for", value_name = "TIME")]
        duration: Option<String>,
        /// Allow the tool with any arguments
        #[arg(long)]
        any_args: bool,
    },
    /// Refuse a call
    Deny {
        /// Id of the request, as in the list
        id: String,
        /// Reason; the AI client sees it
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Store a value, typed without echo or read from stdin
    Set {
        /// Name of the secret
        name: String,
        /// Host that the secret may be sent to; can be repeated. Without a host, the secret is
        /// never sent
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// Create the key file that [secrets] key = "file" uses. Anyone who can read your files can
        /// then read your secrets
        #[arg(long)]
        allow_key_file: bool,
    },
    /// List names, versions and hosts, never values
    List,
    /// Delete a value
    Remove {
        /// Name of the secret
        name: String,
    },
    /// Show where the key is, or why it cannot be read
    Status,
    /// Create a new key and encrypt every value again, all or none
    Rotate,
}

#[derive(Debug, ClapArgs)]
pub struct Performance {
    /// New state of the lock
    #[arg(value_enum)]
    pub state: Switch,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Switch {
    On,
    Off,
}

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ConsoleArgs {
    #[command(subcommand)]
    pub command: Option<ConsoleCommand>,
    /// Open the browser instead of printing the link
    #[arg(long)]
    pub open: bool,
}

#[derive(Debug, Subcommand)]
pub enum ConsoleCommand {
    /// List the open console sessions
    Sessions,
    /// End a session, or all of them
    Revoke {
        /// Name of the session, as in `console sessions`
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        session: Option<String>,
        /// End every session and every unused link
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum CircuitCommand {
    /// List the tools that have run, with their state, failures and targets
    List,
    /// Let a tool run again now
    Reset {
        /// Name of the tool
        tool: Option<String>,
        /// Reset every tool
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub struct Doctor {
    /// Ask about each problem that can be fixed without the rights of an administrator, and fix it
    #[arg(long)]
    pub fix: bool,
}

#[derive(Debug, Subcommand)]
pub enum DemoCommand {
    /// Play eight bars on the pads and keys of the demo, through the mappings
    Play {
        /// Beats per minute
        #[arg(long, default_value_t = 112, value_name = "BPM", value_parser = clap::value_parser!(u32).range(40..=400))]
        tempo: u32,
        /// Do not start fluidsynth
        #[arg(long, conflicts_with = "audio")]
        silent: bool,
        #[command(flatten)]
        sound: DemoSound,
    },
    /// Let fluidsynth play everything that the demo's instrument receives, until Ctrl-C
    Hear {
        #[command(flatten)]
        sound: DemoSound,
    },
}

#[derive(Debug, ClapArgs)]
pub struct DemoSound {
    /// Audio driver of fluidsynth, such as pulseaudio, pipewire, jack or alsa
    #[arg(long, value_name = "DRIVER")]
    pub audio: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Up {
    /// Start with virtual controllers, and with a demo configuration if there is none yet
    #[arg(long)]
    pub demo: bool,
    /// Serve HTTP at this address, instead of [http] bind; port 0 chooses a free port
    #[arg(long, value_name = "ADDR")]
    pub http: Option<std::net::SocketAddr>,
}

#[derive(Debug, Subcommand)]
pub enum ModeCommand {
    /// Switch to a mode, or select the mode by the front window again (--auto)
    Set {
        /// Name of the mode
        #[arg(required_unless_present = "auto")]
        name: Option<String>,
        /// Select the mode by the rules in [per_app_modes]
        #[arg(long, conflicts_with = "name")]
        auto: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub struct Monitor {
    /// Show the bytes sent to this port instead of the trace
    #[arg(long)]
    pub port: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Learn {
    /// Stop listening after this time
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=300))]
    pub seconds: u32,
    /// Let mappings fire while learning
    #[arg(long)]
    pub let_through: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Send {
    /// Device alias or exact port name
    pub port: String,
    /// Events, such as "on:36@100 t:600 off:36"; notes that are on at the end are released
    #[arg(required = true, num_args = 1..)]
    pub events: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Simulate {
    /// Events, such as "on:36@100 t:600 off:36"
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
    /// One event, such as on:36@100
    pub event: String,
    /// Explain the event in this mode
    #[arg(long)]
    pub mode: Option<String>,
    /// Explain the event as if this device had sent it
    #[arg(long)]
    pub device: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// List every error in the file, with its line
    Check {
        /// Check this file instead of the one in the home
        file: Option<PathBuf>,
    },
    /// Print the file
    Show,
    /// Print the path of the file
    Path,
    /// Print the JSON Schema of the file, for editors
    Schema,
    /// Show the parts of the file that are not in force, ask for confirmation, and accept them
    Accept,
}

#[derive(Debug, Subcommand)]
pub enum PatchCommand {
    /// Check that files can be read, and that saving them would not change a byte
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Describe a file: format, objects, cords
    Info { file: PathBuf },
    /// Compare two files; exit code 1 when they differ
    Diff { a: PathBuf, b: PathBuf },
    /// Draw a file as PNG, or as SVG if OUT ends in .svg
    Render {
        file: PathBuf,
        /// Output file; by default next to the patch
        #[arg(short, long, value_name = "OUT")]
        out: Option<PathBuf>,
    },
}
