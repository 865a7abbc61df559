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
use conductor_core::config::{self, Surroundings};
use conductor_core::plan::{self, RowList, TokenChange};
use conductor_hosts::atomic_file;
use conductor_hosts::system::signals::interrupted;
use conductor_hosts::system::{Environment, Ids as _, RandomIds};
use serde_json::{Map, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Time limit for a new daemon to accept connections.
const START_PATIENCE: Duration = Duration::from_secs(5);

pub fn run(command: McpCommand, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        McpCommand::Start(start) => {
            // A client that cannot get its folders can still use the other tools.
            if let Err(reason) = request_folders(&start.folders, home) {
                say(&format!("the folders were not requested: {reason}"));
            }
            match start.transport {
                Transport::Stdio => over_stdio(&start, home),
                Transport::Http => over_http(&start, home, out),
            }
        }
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

/// Adds folders to `config.toml`. This grants nothing: the daemon holds the new rows back until a
/// person accepts them. The daemon must run first, because it trusts the file of a new home.
fn request_folders(folders: &[String], home: &Home) -> Result<(), String> {
    let wanted: Vec<&String> = folders.iter().filter(|it| !it.is_empty()).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    drop(connect_or_start(home).map_err(|it| it.to_string())?);
    let file = home.config_file();
    let fault = |it: io::Error| format!("{}: {it}", file.display());
    let before = atomic_file::read(&file).map_err(fault)?;
    let text = std::str::from_utf8(&before).map_err(|it| format!("{}: {it}", file.display()))?;
    let listed = config::load(text).config.map(|it| it.tools.roots).unwrap_or_default();
    let mut names: BTreeSet<String> = listed.iter().map(|it| it.name.clone()).collect();
    let mut after = before.clone();
    let new: Vec<&String> = wanted.into_iter().filter(|path| !listed.iter().any(|it| it.path == **path)).collect();
    for path in &new {
        let name = folder_name(path, &names);
        let row = Map::from_iter([("name".to_owned(), json!(name)), ("path".to_owned(), json!(path))]);
        let (change, about) = (TokenChange::Add(&row), format!("Add the folder {path}"));
        let draft = plan::draft_token(&after, RowList::Folders, change, about, &Surroundings::default());
        after = draft.map_err(|it| it.to_string())?.result;
        names.insert(name);
    }
    if new.is_empty() {
        return Ok(());
    }
    let unchanged = || match atomic_file::read(&file)? == before {
        true => Ok(()),
        false => Err(io::Error::other("the file was changed by another program; start the client again")),
    };
    atomic_file::replace_if(&file, &after, 0o600, &RandomIds.v4().simple().to_string(), unchanged).map_err(fault)?;
    for path in new {
        say(&format!("{path} waits for your approval: run `conductor config accept`, or open the console"));
    }
    Ok(())
}

/// A name for a folder that no other folder has, made from the last part of its path.
fn folder_name(path: &str, taken: &BTreeSet<String>) -> String {
    let last = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    let mut base: String =
        last.to_lowercase().chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).take(24).collect();
    if !base.starts_with(|it: char| it.is_ascii_lowercase()) {
        base.insert_str(0, "folder-");
    }
    let numbered = (2..).map(|it| format!("{base}-{it}"));
    std::iter::once(base.clone()).chain(numbered).find(|it| !taken.contains(it)).unwrap_or(base)
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
    let mut client = connect_or_start(home)?;
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

/// Connects to the daemon of this home, and starts it if it does not run.
fn connect_or_start(home: &Home) -> Result<ControlClient, Failure> {
    match ControlClient::connect(&home.control_socket()) {
        Err(ClientError::NoDaemon) => {
            start_daemon(home)?;
            wait_for_daemon(home)
        }
        other => Ok(other?),
    }
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
