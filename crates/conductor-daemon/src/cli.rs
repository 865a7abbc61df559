//! The command line. Each command is in its own file. A command sends requests to the daemon over
//! the human door (`control.sock`), or reads files itself if no daemon is needed.
//!
//! Exit codes: 0 success, 1 failure, 2 usage error; `call --remote` (`remote`) and `audit verify`
//! (`audit`) have more. Results go to stdout, everything else to stderr. With `--json`, errors go
//! to stdout too.

mod approvals;
mod args;
pub mod audit;
mod bridge;
mod call;
mod circuit;
mod completions;
mod config;
mod console;
mod demo;
mod devices;
mod doctor;
mod explain;
mod first_start;
mod http;
mod learn;
mod mcp;
mod mode;
mod modes;
mod monitor;
mod out;
mod pair;
mod panic;
mod patch;
mod performance;
mod plans;
mod plugins;
mod progress;
mod prompt;
mod question;
mod remote;
mod rigs;
mod secrets;
mod send;
mod service;
mod set;
mod simulate;
mod status;
mod tools;
mod up;

use crate::config_file;
use crate::doors::control::client::{Client, ClientError};
use crate::home::{Home, HomeError};
use args::{Args, Command};
use clap::Parser;
use conductor_core::config::{Config, KeyRung};
use conductor_core::error::ToolError;
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::builtin::BuiltinTools;
use conductor_gateway::config_in_force::ConfigInForce;
use conductor_hosts::system::Environment;
use conductor_hosts::system::{RandomIds, RealClock};
use out::Out;
use serde_json::{Value, json};
use std::env::ArgsOs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

/// Runs one command to its end. `tools` are the tools of a daemon that the command starts.
pub fn run(args: ArgsOs, environment: &Environment, tools: &BuiltinTools) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => {
            // clap prints help to stdout with code 0 and usage errors to stderr with code 2. A
            // closed pipe does not change the code.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if let Command::PluginHost(host) = &args.command {
        // The process of a plugin uses neither a home nor the environment.
        return plugins::host(host);
    }
    let mut out = Out::new(args.json, args.color.within(environment.no_color));
    let done = home(&args, environment).and_then(|home| dispatch(args.command, &home, environment, tools, &mut out));
    match done.and_then(|verdict| out.finish().map(|()| verdict).map_err(Failure::from)) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        // A closed pipe is not a failure: `conductor monitor | head -1` succeeds.
        Err(Failure::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Exit(code)) => code,
        Err(failure) => {
            out.fail(&failure);
            failure.exit_code()
        }
    }
}

fn dispatch(
    command: Command,
    home: &Home,
    environment: &Environment,
    tools: &BuiltinTools,
    out: &mut Out,
) -> Result<Verdict, Failure> {
    match command {
        Command::Up(args) => up::run(&args, home, environment, tools, out),
        Command::Status => status::run(home, out),
        Command::Devices => devices::run(home, out),
        Command::Modes => modes::run(home, out),
        Command::Mode(command) => mode::run(command, home, out),
        Command::Panic => panic::run(home, out),
        Command::Monitor(args) => monitor::run(args, home, out),
        Command::Learn(args) => learn::run(&args, home, out),
        Command::Send(args) => send::run(args, home, out),
        Command::Simulate(args) => simulate::run(&args, home, out),
        Command::Explain(args) => explain::run(&args, home, out),
        Command::Config(command) => config::run(&command, home, out),
        Command::Patch(command) => patch::run(&command, out),
        Command::Bridge(command) => bridge::run(&command, home, environment, out),
        Command::Demo(command) => demo::run(&command, home, environment, out),
        Command::Doctor(args) => doctor::run(&args, home, environment, out),
        Command::Mcp(command) => mcp::run(command, home, environment, out),
        Command::Tools(args) => tools::run(&args, home, out),
        Command::Call(args) => call::run(args, home, out),
        Command::Plans(command) => plans::run(command, home, out),
        Command::Approvals(command) => approvals::run(command, home, out),
        Command::Audit(command) => audit_command(&command, home, out),
        Command::Console(args) => console::run(args, home, out),
        Command::Pair(args) => pair::run(args, home, out),
        Command::Http(command) => http::run(command, home, out),
        Command::Rigs(args) => rigs::run(args, home, out),
        Command::Performance(args) => performance::run(&args, home, out),
        Command::Circuit(command) => circuit::run(&command, home, out),
        Command::Secrets(command) => secrets::run(command, home, out),
        Command::Set(command) => set::run(&command, out),
        Command::Plugins(command) => plugins::run(command, home, out),
        Command::Service(command) => service::run(&command, home, environment, out),
        Command::Completions { shell } => completions::run(shell, out),
        Command::Man { folder } => completions::write_man_pages(&folder, out),
        Command::PluginHost(args) => Err(Failure::Exit(plugins::host(&args))),
    }
}

fn home(args: &Args, environment: &Environment) -> Result<Home, Failure> {
    let root = args.home.clone().or_else(|| environment.home.clone()).ok_or(HomeError::Unknown)?;
    // Make the path absolute: a relative path would name another home if the working directory
    // changed.
    let root = std::path::absolute(root)?;
    Ok(Home::at(root))
}

/// The result of a command that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// The result is negative: an invalid file or a failed check.
    Bad,
}

impl Verdict {
    fn good_if(good: bool) -> Self {
        if good { Verdict::Good } else { Verdict::Bad }
    }
}

/// Why a command did not complete.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Home(#[from] HomeError),
    #[error("{0}")]
    Client(#[from] ClientError),
    #[error("{0}")]
    Descriptors(#[from] conductor_hosts::system::open_files::TooFew),
    #[error("{0}")]
    Start(#[from] crate::app::StartError),
    #[error("{}", .0.message)]
    Tool(Box<ToolError>),
    /// The error object of a daemon on another machine, and the exit code.
    #[error("{}", text(.error, "message"))]
    Remote { error: Box<Value>, code: u8 },
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Text(String),
    /// The error was already printed; only the exit code is needed.
    #[error("")]
    Exit(ExitCode),
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Failure::Tool(Box::new(error))
    }
}

impl Failure {
    fn exit_code(&self) -> ExitCode {
        if let Failure::Remote { code, .. } = self { ExitCode::from(*code) } else { ExitCode::FAILURE }
    }

    fn hint(&self) -> Option<&str> {
        if let Failure::Tool(error) = self {
            Some(&error.hint)
        } else if let Failure::Client(ClientError::Refused(refused)) = self {
            refused.hint.as_deref()
        } else if let Failure::Remote { error, .. } = self {
            error["hint"].as_str()
        } else {
            None
        }
    }

    /// The object that `--json` prints. If the daemon returned an error, this is the daemon's
    /// error.
    fn to_wire(&self) -> Value {
        if let Failure::Tool(error) = self {
            return error.to_wire();
        }
        if let Failure::Remote { error, .. } = self {
            return Value::clone(error);
        }
        if let Failure::Client(ClientError::Refused(refused)) = self
            && refused.data.is_object()
        {
            return refused.data.clone();
        }
        let offline = matches!(self, Failure::Client(ClientError::NoDaemon));
        let (code, subject) = if offline { ("HOST_OFFLINE", Some("conductor")) } else { ("INTERNAL", None) };
        json!({ "code": code, "message": self.to_string(), "hint": null, "subject": subject })
    }
}

/// The checks of `conductor doctor`, for the console. Blocks, and asks the running daemon.
pub(crate) fn doctor_checks(home: &Home) -> Result<Vec<Value>, String> {
    doctor::checks(home, &Environment::read())
}

/// `conductor audit`: reads the files, and requests the end of the log from a running daemon.
fn audit_command(command: &audit::AuditCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    use crate::gateway::audit::{NOTE, recall};
    use conductor_core::audit::Head;
    use conductor_gateway::secrets::KeychainNote;
    let checks = matches!(command, audit::AuditCommand::Verify(_) | audit::AuditCommand::AcceptRollback);
    let serving = offline(home).unwrap_or_else(|_| ConfigInForce::built_in(&[], Timestamp::default()));
    let settings = conductor_gateway::audit_log::Settings::from(&serving.config.audit);
    let note = (serving.config.secrets == KeyRung::Keychain).then(|| KeychainNote::of_home(NOTE, home.root()));
    let (remembered, keychain_error) =
        if checks { recall(home.root(), &settings, note.as_ref())? } else { (Vec::new(), None) };
    let answer = ask(home, "audit.head", json!({}));
    let daemon_runs = !matches!(answer, Err(Failure::Client(ClientError::NoDaemon)));
    let head = answer.ok().and_then(|it| {
        let head = &it["head"];
        Some(Head {
            log_id: head["log_id"].as_str()?.parse().ok()?,
            seq: head["seq"].as_u64()?,
            hash: head["hash"].as_str()?.parse().ok()?,
        })
    });
    let by_daemon = || {
        let accepted = ask(home, "audit.accept", json!({})).map_err(|error| error.to_string())?;
        Ok((text(&accepted, "by").to_owned(), accepted["head"]["seq"].as_u64().unwrap_or_default()))
    };
    let remember = |line: &str| {
        if let Some(note) = &note {
            // If the keychain does not respond now, the daemon stores the checkpoint at its next
            // start.
            let _ = note.write(line);
        }
    };
    // Lock the home, so that no daemon starts before the log is accepted.
    let accepts = matches!(command, audit::AuditCommand::AcceptRollback)
        || matches!(command, audit::AuditCommand::Verify(args) if args.accept);
    let lock = match accepts && !daemon_runs {
        true => home.create().and_then(|()| home.lock()).map(Some)?,
        false => None,
    };
    let person = person_here();
    let acceptor = match &person {
        Err(why) => audit::Acceptor::Refused(why),
        Ok(_) if daemon_runs => audit::Acceptor::Daemon(&by_daemon),
        Ok(person) => audit::Acceptor::Here(person, &remember),
    };
    let (clock, ids) = (RealClock::new(), RandomIds);
    let witness = if let audit::AuditCommand::Verify(args) = command
        && args.witness.is_some()
    {
        Some(rigs::read_witness(home, &serving.config.cluster, args)?)
    } else {
        None
    };
    let context = audit::Context {
        home: home.root(),
        head,
        remembered: &remembered,
        keychain_error: keychain_error.as_deref(),
        copy_to: settings.copy_to.as_deref(),
        witness: witness.as_ref(),
        acceptor,
        clock: &clock,
        ids: &ids,
        json: out.is_json(),
        // No progress bar on a terminal that shows the exported records.
        progress: io::stderr().is_terminal() && !(exports_to_stdout(command) && io::stdout().is_terminal()),
    };
    let code = audit::run(command, &context, out.writer(), &mut io::stderr());
    drop(lock);
    if code != 0 {
        out.finish()?;
        return Err(Failure::Exit(ExitCode::from(code)));
    }
    Ok(Verdict::Good)
}

fn exports_to_stdout(command: &audit::AuditCommand) -> bool {
    matches!(command, audit::AuditCommand::Export(args) if args.output.is_none())
}

/// Checks that a person runs this command. Without a daemon this check is weaker, because connected
/// AI clients are unknown.
fn person_here() -> Result<Principal, String> {
    use crate::doors::control::person;
    approvals::at_a_terminal().map_err(|error| error.to_string())?;
    let uid = conductor_hosts::system::processes::current_user();
    let peer = conductor_hosts::system::listener::Peer { uid, pid: i32::try_from(std::process::id()).ok() };
    person::recognise(peer, &[], conductor_hosts::system::processes::find)
        .map(|person| Principal::Person { uid: person.uid })
        .map_err(|why| why.to_string())
}

/// Sends one request to the daemon of this home.
fn ask(home: &Home, method: &str, params: Value) -> Result<Value, Failure> {
    Ok(Client::connect(&home.control_socket())?.ask(method, params)?)
}

/// Sends one request and prints the reply, as JSON or with the function `text`.
fn ask_and_show(
    home: &Home,
    out: &mut Out,
    (method, params): (&str, Value),
    text: impl FnOnce(&mut Out, &Value) -> io::Result<()>,
) -> Result<Verdict, Failure> {
    out.show(&ask(home, method, params)?, text)
}

/// Calls a tool. Without a daemon, computes the answer from the configuration file.
fn tool_or_offline(
    home: &Home,
    out: &mut Out,
    (tool, arguments): (&str, Value),
    offline_answer: impl FnOnce(&Config) -> Result<Value, ToolError>,
) -> Result<Value, Failure> {
    match call::tool(home, out, tool, arguments) {
        Err(Failure::Client(ClientError::NoDaemon)) => Ok(offline_answer(&offline(home)?.config)?),
        answer => answer,
    }
}

/// Reads the configuration of a home when no daemon runs.
fn offline(home: &Home) -> Result<ConfigInForce, Failure> {
    match config_file::read(&home.config_file(), &[], Timestamp::default()) {
        Ok(Some(serving)) => Ok(serving),
        Ok(None) => Ok(ConfigInForce::built_in(&[], Timestamp::default())),
        Err(refusal) => Err(Failure::Text(refusal.reason)),
    }
}

/// Runs a future on a new runtime.
fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

/// An error about a file, with its path.
fn file_error(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Text(format!("{}: {error}", path.display()))
}

/// A string member of a reply; a dash if it is missing.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("-")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// The strings in a list member of a reply.
fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    list(value, key).iter().filter_map(Value::as_str).collect()
}
