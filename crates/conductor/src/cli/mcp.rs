//! `conductor mcp`: connects AI clients.
//!
//! `mcp start` writes only protocol messages to stdout. Messages for people go to stderr.

use super::args::{McpCommand, McpSetup, McpStart, Transport};
use super::{Failure, Verdict, block_on, out::Out, text};
use crate::doors::control::client::{Client as ControlClient, ClientError};
use crate::doors::mcp::setup::clients::{CLIENTS, Client, Launch, Places, Platform};
use crate::doors::mcp::setup::{self, Status, skill_folders};
use crate::doors::mcp::stdio::{self, Exit, Hello};
use crate::home::Home;
use conductor_hosts::system::Environment;
use conductor_hosts::system::signals::interrupted;
use serde_json::json;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Time limit for a new daemon to accept connections.
const START_PATIENCE: Duration = Duration::from_secs(5);

pub fn run(command: McpCommand, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        McpCommand::Start(start) => match start.transport {
            Transport::Stdio => over_stdio(&start, home),
            Transport::Http => over_http(&start, home, out),
        },
        McpCommand::Setup(args) => set_up(&args, home, environment, out),
    }
}

fn set_up(args: &McpSetup, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    let places = Places {
        user_home: environment.user_home.clone(),
        app_data: environment.app_data.clone(),
        project: std::env::current_dir()?,
        platform: Platform::current(),
    };
    let named = args.client.as_deref().and_then(Client::named);
    if args.status {
        return show_status(named, &places, out);
    }
    let client = named.or_else(|| Client::named("generic"));
    let client = client.ok_or_else(|| Failure::Text("unknown client".to_owned()))?;
    if args.remove {
        return remove(client, args.skills, &places, out);
    }
    let launch = launch(args, home, environment)?;
    if args.print {
        out.text(&setup::snippet(client, &launch))?;
        return Ok(Verdict::Good);
    }
    match setup::apply(client, &places, &launch) {
        Ok(setup::Done::Written { file } | setup::Done::Deleted { file }) => {
            out.line(format_args!("wrote {}; restart {} to connect it to Conductor", file.display(), client.title))?
        }
        Ok(setup::Done::Unchanged { file }) => {
            out.line(format_args!("{} already has this entry for Conductor", file.display()))?
        }
        Ok(setup::Done::NoFile) => out.text(&setup::snippet(client, &launch))?,
        Err(fault) => {
            out.text(&setup::snippet(client, &launch))?;
            out.finish()?;
            return Err(Failure::Text(fault.to_string()));
        }
    }
    if args.skills { copy_skills(client, &places, skill_folders::copy, out) } else { Ok(Verdict::Good) }
}

/// The command that the client starts. A home other than the default is part of it, because a
/// client does not have the environment of this terminal.
fn launch(args: &McpSetup, home: &Home, environment: &Environment) -> Result<Launch, Failure> {
    let program = utf8(&std::env::current_exe()?)?;
    let default = environment.user_home.as_ref().map(|it| it.join(".conductor"));
    let other = (default.as_deref() != Some(home.root())).then(|| std::path::absolute(home.root())).transpose()?;
    let other = other.map(|it| utf8(&it)).transpose()?;
    Ok(Launch::new(program, other.as_deref(), args.view.as_deref().filter(|it| *it != "core")))
}

fn utf8(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::Text(format!("{} is not valid UTF-8, so no client could start it", path.display())))
}

fn remove(client: &Client, with_skills: bool, places: &Places, out: &mut Out) -> Result<Verdict, Failure> {
    match setup::remove(client, places).map_err(|it| Failure::Text(it.to_string()))? {
        setup::Done::Written { file } => out.line(format_args!("removed Conductor from {}", file.display()))?,
        setup::Done::Deleted { file } => {
            out.line(format_args!("removed {}, which contained only Conductor", file.display()))?
        }
        setup::Done::Unchanged { file } => out.line(format_args!("{} has no entry for Conductor", file.display()))?,
        setup::Done::NoFile => out.line(format_args!("Conductor does not write a file for {}", client.title))?,
    }
    if with_skills { copy_skills(client, places, skill_folders::remove, out) } else { Ok(Verdict::Good) }
}

type EachSkill = fn(&Path) -> io::Result<Vec<(&'static str, skill_folders::Outcome)>>;

fn copy_skills(client: &Client, places: &Places, each: EachSkill, out: &mut Out) -> Result<Verdict, Failure> {
    let Some(folder) = skill_folders::folder(client, places) else {
        let reason = "has no skill folder, or is not installed here; clients can read the skills over MCP";
        out.line(format_args!("{} {reason}", client.title))?;
        return Ok(Verdict::Good);
    };
    let mut verdict = Verdict::Good;
    for (name, outcome) in each(&folder)? {
        let what = match outcome {
            skill_folders::Outcome::Written => "wrote",
            skill_folders::Outcome::Unchanged => "unchanged",
            skill_folders::Outcome::Removed => "removed",
            skill_folders::Outcome::Foreign => {
                verdict = Verdict::Bad;
                "kept, because it was changed or is not from Conductor:"
            }
        };
        out.line(format_args!("{what} {}", folder.join(name).display()))?;
    }
    Ok(verdict)
}

fn show_status(only: Option<&'static Client>, places: &Places, out: &mut Out) -> Result<Verdict, Failure> {
    let mut rows = Vec::new();
    for client in CLIENTS.iter().filter(|it| only.is_none_or(|only| only.name == it.name)) {
        let Some((file, status)) = setup::status(client, places) else { continue };
        let (state, text) = match &status {
            Status::NotInstalled => ("not_installed", "not installed".to_owned()),
            Status::NotSetUp => ("not_set_up", "not set up".to_owned()),
            Status::OtherEntry => ("other_entry", "has an entry that starts no program".to_owned()),
            Status::Unreadable(reason) => ("unreadable", format!("unreadable: {reason}")),
            Status::SetUp(launch) => {
                let missing = if Path::new(&launch.program).is_file() { "" } else { " (this program does not exist)" };
                ("set_up", format!("{}{missing}, view {}", launch.program, launch.view().unwrap_or("core")))
            }
        };
        if !out.is_json() {
            out.line(format_args!("{:<16} {text}  {}", client.name, file.display()))?;
        }
        let (program, view) = match &status {
            Status::SetUp(launch) => (Some(launch.program.clone()), Some(launch.view().unwrap_or("core").to_owned())),
            Status::NotInstalled | Status::NotSetUp | Status::OtherEntry | Status::Unreadable(_) => (None, None),
        };
        let reason = if let Status::Unreadable(reason) = &status { Some(reason.clone()) } else { None };
        rows.push(json!({
            "client": client.name, "file": file, "state": state, "program": program, "view": view, "reason": reason,
        }));
    }
    if out.is_json() {
        out.value(&json!({ "clients": rows }))?;
    }
    Ok(Verdict::Good)
}

fn over_stdio(args: &McpStart, home: &Home) -> Result<Verdict, Failure> {
    let words = |list: &String| list.split(',').map(|it| it.trim().to_owned()).collect();
    let hello = Hello {
        tools: args.tools.as_ref().map(words),
        tool_names: args.tool_names.clone(),
        view: args.view.clone(),
        exclude_tools: args.exclude_tools.as_ref().map(words),
        read_only: args.read_only,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(async {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let socket = home.root().join("mcp.sock");
        stdio::run(&socket, &hello, || start_daemon(home), interrupted(), &stdin, &stdout, &say).await
    });
    // A blocking read of the client's pipe ends only with this process, so do not wait for it.
    runtime.shutdown_background();
    match exit {
        Exit::Done => Ok(Verdict::Good),
        Exit::Lost | Exit::Usage => Err(Failure::Exit(ExitCode::from(exit.code()))),
    }
}

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", super::out::plain(line));
}

/// Starts a daemon in its own session, so that it continues when this process ends.
fn start_daemon(home: &Home) -> io::Result<()> {
    home.create().map_err(io::Error::other)?;
    if let Some(started) = super::service::start_through_manager(home) {
        return started;
    }
    let log = std::fs::OpenOptions::new().create(true).append(true).open(home.root().join("state/daemon.log"))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(home.root()).arg("up").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    conductor_hosts::system::children::detach(&mut command);
    command.spawn().map(|_| ())
}

fn over_http(args: &McpStart, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    if args.tools.is_some() || args.exclude_tools.is_some() {
        let text = "--tools and --exclude-tools cannot be used over HTTP, where all clients share the tools: \
                    set `tools` in [mcp], or use --view and --read-only";
        return Err(Failure::Text(text.to_owned()));
    }
    let view = args.view.as_ref().map(|it| format!("/x/{it}")).unwrap_or_default();
    let path = if args.read_only { format!("{view}/readonly") } else { view };
    let mut client = match ControlClient::connect(&home.control_socket()) {
        Err(ClientError::NoDaemon) => {
            start_daemon(home)?;
            wait_for_daemon(home)?
        }
        other => other?,
    };
    let opened = client.ask("http.open", json!({ "address": format!("127.0.0.1:{}", args.port) }))?;
    say(&format!("MCP over HTTP at {}{path}", text(&opened, "url")));
    say(&format!("Bearer token in {}", text(&opened, "token_file")));
    if out.is_json() {
        out.value(&opened)?;
        out.finish()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let hung_up = client.watch()?;
    let is_over = runtime.block_on(async {
        let signalled = interrupted();
        tokio::select! {
            () = signalled => false,
            _ = tokio::task::spawn_blocking(hung_up) => true,
        }
    });
    if is_over {
        return Err(Failure::Text("the daemon has ended, so MCP over HTTP is no longer served".to_owned()));
    }
    // The daemon closes the port when the last connection that requested it has ended.
    client.finish();
    runtime.shutdown_background();
    Ok(Verdict::Good)
}

fn wait_for_daemon(home: &Home) -> Result<ControlClient, Failure> {
    let connected = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if let Ok(client) = ControlClient::connect(&home.control_socket()) {
                return client;
            }
        }
    };
    let found = block_on(async { tokio::time::timeout(START_PATIENCE, connected).await })?;
    found.map_err(|_| {
        Failure::Text(format!("the daemon did not start; see {}", home.root().join("state/daemon.log").display()))
    })
}
