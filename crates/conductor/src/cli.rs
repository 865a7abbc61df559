//! The command line. Every command is a file; it asks the daemon over the human door, or reads
//! files itself where no daemon is needed.
//!
//! Exit codes: 0 it worked, 1 it failed, 2 the command was not understood. Results go to stdout,
//! everything else to stderr.

mod approvals;
mod args;
pub mod audit;
mod bridge;
mod call;
mod circuit;
mod config;
mod devices;
mod doctor;
mod explain;
mod learn;
mod mcp;
mod mode;
mod modes;
mod monitor;
mod out;
mod panic;
mod patch;
mod performance;
mod plans;
mod plugins;
mod prompt;
mod question;
mod secrets;
mod send;
mod set;
mod simulate;
mod status;
mod up;

use crate::config_file;
use crate::doors::control::client::{Client, ClientError};
use crate::home::{Home, HomeError};
use args::{Args, Command};
use clap::Parser;
use conductor_core::config::KeyRung;
use conductor_core::error::ToolError;
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::config_in_force::ConfigInForce;
use conductor_hosts::system::Environment;
use conductor_hosts::system::{RandomIds, RealClock};
use out::Out;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// Runs one command to its end.
pub fn run(args: impl IntoIterator<Item = OsString>, environment: &Environment) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(fault) => {
            // Help goes to stdout and succeeds, a misunderstanding to stderr with 2. A closed pipe
            // changes neither.
            let _ = fault.print();
            return ExitCode::from(u8::try_from(fault.exit_code()).unwrap_or(2));
        }
    };
    if let Command::PluginHost(host) = &args.command {
        // It has neither a home nor an environment.
        return plugins::host(host);
    }
    let mut out = Out::new(args.json);
    let done = home(&args, environment).and_then(|home| dispatch(args.command, &home, environment, &mut out));
    match done.and_then(|verdict| out.finish().map(|()| verdict).map_err(Failure::from)) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        // `conductor monitor | head -1` is no failure.
        Err(Failure::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Exit(code)) => code,
        Err(failure) => {
            out.fail(&failure);
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        Command::Up(args) => up::run(&args, home, environment, out),
        Command::Status => status::run(home, out),
        Command::Devices => devices::run(home, out),
        Command::Modes => modes::run(home, out),
        Command::Mode(args) => mode::run(args, home, out),
        Command::Panic => panic::run(home, out),
        Command::Monitor(args) => monitor::run(args, home, out),
        Command::Learn(args) => learn::run(&args, home, out),
        Command::Send(args) => send::run(args, home, out),
        Command::Simulate(args) => simulate::run(&args, home, out),
        Command::Explain(args) => explain::run(&args, home, out),
        Command::Config(args) => config::run(&args, home, out),
        Command::Patch(args) => patch::run(&args, out),
        Command::Bridge(args) => bridge::run(&args, home, environment, out),
        Command::Doctor => doctor::run(home, environment, out),
        Command::Mcp(args) => mcp::run(args, home, environment, out),
        Command::Call(args) => call::run(args, home, out),
        Command::Plans(args) => plans::run(args, home, out),
        Command::Approvals(args) => approvals::run(args, home, out),
        Command::Audit(args) => log_command(&args.command, home, out),
        Command::Performance(args) => performance::run(&args, home, out),
        Command::Circuit(args) => circuit::run(&args, home, out),
        Command::Secrets(args) => secrets::run(args, home, out),
        Command::Set(args) => set::run(&args, out),
        Command::Plugins(args) => plugins::run(args, home, out),
        Command::PluginHost(args) => Err(Failure::Exit(plugins::host(&args))),
    }
}

fn home(args: &Args, environment: &Environment) -> Result<Home, Failure> {
    let root = args.home.clone().or_else(|| environment.home.clone()).ok_or(HomeError::Unknown)?;
    // Relative paths would mean another home after the daemon or an editor changes its folder.
    let root = std::path::absolute(root)?;
    Ok(Home::at(root))
}

/// What a command that ran to its end found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// The answer is no: an invalid file, a failed check.
    Bad,
}

/// Why a command could not run to its end.
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
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Text(String),
    /// Everything was said already; only the number is left.
    #[error("")]
    Exit(ExitCode),
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Failure::Tool(Box::new(error))
    }
}

impl Failure {
    fn hint(&self) -> Option<&str> {
        match self {
            Failure::Tool(error) => Some(&error.hint),
            Failure::Client(ClientError::Refused(refused)) => refused.hint.as_deref(),
            Failure::Client(
                ClientError::NoDaemon
                | ClientError::HungUp
                | ClientError::NoAnswer(_)
                | ClientError::Nonsense(_)
                | ClientError::Io(_),
            )
            | Failure::Home(_)
            | Failure::Descriptors(_)
            | Failure::Start(_)
            | Failure::Io(_)
            | Failure::Text(_)
            | Failure::Exit(_) => None,
        }
    }

    /// What `--json` prints: the daemon's own object where there is one.
    fn to_wire(&self) -> Value {
        match self {
            Failure::Tool(error) => error.to_wire(),
            Failure::Client(ClientError::Refused(refused)) if refused.data.is_object() => refused.data.clone(),
            Failure::Client(ClientError::NoDaemon) => {
                json!({ "code": "HOST_OFFLINE", "message": self.to_string(), "hint": null, "subject": "conductor" })
            }
            Failure::Client(_)
            | Failure::Home(_)
            | Failure::Descriptors(_)
            | Failure::Start(_)
            | Failure::Io(_)
            | Failure::Text(_)
            | Failure::Exit(_) => {
                json!({ "code": "INTERNAL", "message": self.to_string(), "hint": null, "subject": null })
            }
        }
    }
}

/// `conductor audit`: over the files, with the running daemon's word about where they end.
fn log_command(command: &audit::AuditCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    use crate::gateway::audit::{NOTE, recall};
    use conductor_core::audit::Head;
    use conductor_gateway::secrets::KeychainNote;
    let checks = matches!(command, audit::AuditCommand::Verify(_) | audit::AuditCommand::AcceptRollback);
    let serving = offline(home).unwrap_or_else(|_| ConfigInForce::built_in(&[], Timestamp::default()));
    let settings = crate::gateway::audit::settings(&serving.config.audit);
    let note = (serving.config.secrets == KeyRung::Keychain).then(|| KeychainNote::of_home(NOTE, home.root()));
    let (remembered, silent) = if checks { recall(home.root(), &settings, note.as_ref())? } else { (Vec::new(), None) };
    let told = ask(home, "audit.head", json!({}));
    let daemon_runs = !matches!(told, Err(Failure::Client(ClientError::NoDaemon)));
    let head = told.ok().and_then(|it| {
        let head = &it["head"];
        Some(Head {
            log_id: head["log_id"].as_str()?.parse().ok()?,
            seq: head["seq"].as_u64()?,
            hash: head["hash"].as_str()?.parse().ok()?,
        })
    });
    let by_daemon = || {
        let accepted = ask(home, "audit.accept", json!({})).map_err(|fault| fault.to_string())?;
        Ok((text(&accepted, "by").to_owned(), accepted["head"]["seq"].as_u64().unwrap_or_default()))
    };
    let remember = |line: &str| {
        if let Some(note) = &note {
            // A keychain that does not answer now is asked again at the next start.
            let _ = note.write(line);
        }
    };
    // No daemon may start between the look and the acceptance.
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
    let around = audit::Around {
        home: home.root(),
        head,
        remembered: &remembered,
        silent: silent.as_deref(),
        copy_to: settings.copy_to.as_deref(),
        acceptor,
        clock: &clock,
        ids: &ids,
        json: out.is_json(),
    };
    let code = audit::run(command, &around, out.writer(), &mut io::stderr());
    drop(lock);
    if code != 0 {
        out.finish()?;
        return Err(Failure::Exit(ExitCode::from(code)));
    }
    Ok(Verdict::Good)
}

/// Whether this command is run by a person, as far as it can be known without a daemon: which AI
/// clients are connected is not.
fn person_here() -> Result<Principal, String> {
    use crate::doors::control::person;
    approvals::at_a_terminal().map_err(|fault| fault.to_string())?;
    let uid = rustix::process::geteuid().as_raw();
    let peer = conductor_hosts::system::listener::Peer { uid, pid: i32::try_from(std::process::id()).ok() };
    person::recognise(peer, &[], conductor_hosts::system::processes::find)
        .map(|person| Principal::Person { uid: person.uid })
        .map_err(|why| why.to_string())
}

/// One question to the daemon of this home.
fn ask(home: &Home, method: &str, params: Value) -> Result<Value, Failure> {
    Ok(Client::connect(&home.control_socket())?.ask(method, params)?)
}

/// The configuration of a home without a daemon.
fn offline(home: &Home) -> Result<ConfigInForce, Failure> {
    match config_file::read(&home.config_file(), &[], Timestamp::default()) {
        Ok(Some(serving)) => Ok(serving),
        Ok(None) => Ok(ConfigInForce::built_in(&[], Timestamp::default())),
        Err(refusal) => Err(Failure::Text(refusal.reason)),
    }
}

/// Text members of an answer; an answer without one shows a dash.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("-")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}
