//! `conductor mcp`: the ways an AI client comes in.
//!
//! stdout of `mcp start` belongs to the protocol; everything for people goes to stderr.

use super::args::{Mcp, McpCommand, McpSetup, McpStart, Transport};
use super::{Failure, Verdict, out::Out};
use crate::doors::control::client::{Client, ClientError};
use crate::doors::mcp::setup;
use crate::doors::mcp::stdio::{self, Exit, Hello};
use crate::home::Home;
use conductor_hosts::system::Environment;
use serde_json::json;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// How long a daemon may take to answer after it was started.
const START_PATIENCE: Duration = Duration::from_secs(5);

pub fn run(args: Mcp, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    match args.command {
        McpCommand::Start(start) => match start.transport {
            Transport::Stdio => over_stdio(&start, home),
            Transport::Http => over_http(&start, home, out),
        },
        McpCommand::Setup(args) => set_up(&args, environment, out),
    }
}

fn set_up(args: &McpSetup, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    let client = setup::Client::parse(&args.client).ok_or_else(|| {
        let known: Vec<&str> = setup::Client::ALL.iter().map(|it| it.as_str()).collect();
        Failure::Text(format!("no client {:?} is known; there are: {}", args.client, known.join(", ")))
    })?;
    let program = std::env::current_exe()?;
    let places = setup::Places::of(environment.user_home.clone(), std::env::current_dir()?);
    if args.print {
        out.line(client.snippet(&program))?;
        return Ok(Verdict::Good);
    }
    match setup::apply(client, &places, &program) {
        Ok(setup::Done::Written { file }) => {
            out.line(format_args!("wrote {}; restart {} to see Conductor", file.display(), args.client))?
        }
        Ok(setup::Done::Unchanged { file }) => out.line(format_args!("{} knows Conductor already", file.display()))?,
        Ok(setup::Done::NoFile) => out.line(client.snippet(&program))?,
        Err(fault) => {
            out.line(client.snippet(&program))?;
            out.finish()?;
            return Err(Failure::Text(fault.to_string()));
        }
    }
    Ok(Verdict::Good)
}

fn over_stdio(args: &McpStart, home: &Home) -> Result<Verdict, Failure> {
    let hello = Hello {
        tools: args.tools.as_ref().map(|list| list.split(',').map(|it| it.trim().to_owned()).collect()),
        tool_names: args.tool_names.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(async {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let socket = home.root().join("mcp.sock");
        stdio::run(&socket, &hello, || start_daemon(home), signalled(), stdin.as_fd(), stdout.as_fd(), &say).await
    });
    // A read of the client's pipe may be under way; it ends with the process.
    runtime.shutdown_background();
    match exit {
        Exit::Done => Ok(Verdict::Good),
        Exit::Lost | Exit::Usage => Err(Failure::Exit(ExitCode::from(exit.code()))),
    }
}

/// Listens from the moment it is called, not from the first time it is awaited: a signal between
/// the two would end the process bluntly.
fn signalled() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let listening = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = listening else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", super::out::plain(line));
}

/// A daemon of its own session, that stays when this process ends.
fn start_daemon(home: &Home) -> io::Result<()> {
    home.create().map_err(io::Error::other)?;
    let log = std::fs::OpenOptions::new().create(true).append(true).open(home.root().join("state/daemon.log"))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(home.root()).arg("up").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    conductor_hosts::system::children::detach(&mut command);
    command.spawn().map(|_| ())
}

fn over_http(args: &McpStart, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let mut client = match Client::connect(&home.control_socket()) {
        Err(ClientError::NoDaemon) => {
            start_daemon(home)?;
            wait_for_daemon(home)?
        }
        other => other?,
    };
    let opened = client.ask("http.open", json!({ "address": format!("127.0.0.1:{}", args.port) }))?;
    let text = |key: &str| opened[key].as_str().unwrap_or_default().to_owned();
    say(&format!("MCP over HTTP at {}", text("url")));
    say(&format!("Bearer token in {}", text("token_file")));
    if out.is_json() {
        out.value(&opened)?;
        out.finish()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let hung_up = client.watch()?;
    let is_over = runtime.block_on(async {
        let signalled = signalled();
        tokio::select! {
            () = signalled => false,
            _ = tokio::task::spawn_blocking(hung_up) => true,
        }
    });
    if is_over {
        return Err(Failure::Text("the daemon has ended, and with it this door".to_owned()));
    }
    // The daemon closes the port when this connection ends, and unless others opened it too.
    client.finish();
    runtime.shutdown_background();
    Ok(Verdict::Good)
}

fn wait_for_daemon(home: &Home) -> Result<Client, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let answered = async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if let Ok(client) = Client::connect(&home.control_socket()) {
                    return client;
                }
            }
        };
        tokio::time::timeout(START_PATIENCE, answered).await
    });
    found.map_err(|_| {
        Failure::Text(format!("the daemon did not start; see {}", home.root().join("state/daemon.log").display()))
    })
}
