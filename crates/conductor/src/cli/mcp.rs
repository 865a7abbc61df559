//! `conductor mcp`: connects AI clients.
//!
//! On stdout, `mcp start` writes only the protocol; messages for people go to stderr.

use super::args::{McpCommand, McpSetup, McpStart, Transport};
use super::{Failure, Verdict, block_on, out::Out, text};
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

/// Time limit for a new daemon to accept connections.
const START_PATIENCE: Duration = Duration::from_secs(5);

pub fn run(command: McpCommand, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
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
        Failure::Text(format!("unknown client {:?}; known clients: {}", args.client, known.join(", ")))
    })?;
    let program = std::env::current_exe()?;
    let places = setup::Places::of(environment.user_home.clone(), std::env::current_dir()?);
    if args.print {
        out.line(client.snippet(&program))?;
        return Ok(Verdict::Good);
    }
    match setup::apply(client, &places, &program) {
        Ok(setup::Done::Written { file }) => {
            out.line(format_args!("wrote {}; restart {} to connect it to Conductor", file.display(), args.client))?
        }
        Ok(setup::Done::Unchanged { file }) => {
            out.line(format_args!("{} already has an entry for Conductor", file.display()))?
        }
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
    // Do not wait for a blocking read of the client's pipe, which ends with the process.
    runtime.shutdown_background();
    match exit {
        Exit::Done => Ok(Verdict::Good),
        Exit::Lost | Exit::Usage => Err(Failure::Exit(ExitCode::from(exit.code()))),
    }
}

/// Resolves on SIGINT or SIGTERM. The handlers are installed by the call and not by the first poll,
/// because a signal between the two would kill the process.
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

/// Starts a daemon in its own session, so that it continues when this process ends.
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
    say(&format!("MCP over HTTP at {}", text(&opened, "url")));
    say(&format!("Bearer token in {}", text(&opened, "token_file")));
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
        return Err(Failure::Text("the daemon has ended, so MCP over HTTP is no longer served".to_owned()));
    }
    // The daemon closes the port when the last connection that requested it has ended.
    client.finish();
    runtime.shutdown_background();
    Ok(Verdict::Good)
}

fn wait_for_daemon(home: &Home) -> Result<Client, Failure> {
    let connected = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if let Ok(client) = Client::connect(&home.control_socket()) {
                return client;
            }
        }
    };
    let found = block_on(async { tokio::time::timeout(START_PATIENCE, connected).await })?;
    found.map_err(|_| {
        Failure::Text(format!("the daemon did not start; see {}", home.root().join("state/daemon.log").display()))
    })
}
