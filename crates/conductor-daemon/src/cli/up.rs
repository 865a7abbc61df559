//! `conductor up`: runs the daemon in the foreground.

use super::args::Up;
use super::first_start::{self, FirstConfig};
use super::out::{Out, Tone, cell};
use super::{Failure, Verdict};
use crate::app::{Daemon, Machine, Options};
use crate::demo;
use crate::home::Home;
use crate::log::Log;
use conductor_core::config::KeyRung;
use conductor_gateway::builtin::BuiltinTools;
use conductor_gateway::report::Status;
use conductor_hosts::system::{Environment, RandomIds, RealClock, program_of};
use secrecy::SecretString;
use serde_json::json;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

const FIRST_ROUND: Duration = Duration::from_secs(1);

pub fn run(
    args: &Up,
    home: &Home,
    environment: &Environment,
    tools: &BuiltinTools,
    out: &mut Out,
) -> Result<Verdict, Failure> {
    conductor_hosts::system::open_files::raise()?;
    conductor_hosts::system::memory::forbid_core_dumps();
    let clock = Arc::new(RealClock::new());
    let has_config = home.config_file().exists();
    let first = if args.demo {
        FirstConfig::demo()
    } else if first_start::can_ask(home, out) {
        first_start::ask(home, out)?
    } else {
        FirstConfig::empty()
    };
    let is_demo = first.is_demo;
    let machine = Machine { desktop: environment.desktop.clone(), notifications: true, ..Machine::default() };
    let mut daemon = Daemon::start_on(
        machine,
        Options {
            home: home.clone(),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            log: Log::new(clock, Box::new(io::stderr())),
            tools: *tools,
            first_config: first.text,
            extra_devices: if args.demo && has_config { demo::controllers() } else { Vec::new() },
        },
    )?;
    conductor_gateway::secrets::on_panic(&daemon.gateway().studio.scrubber);
    ask_passphrase(&daemon)?;
    if is_demo {
        daemon.block_on(demo::show_patch(&daemon.gateway().studio, home))?;
        daemon.block_on(demo::show_set(&daemon.gateway().studio, home))?;
    }
    let served = daemon.block_on(daemon.gateway().http.open_own(args.http));
    let url = served.map(|it| format!("{}/mcp", daemon.gateway().http.url(it)));
    let status = daemon.block_on(async {
        daemon.handle().ready().await?;
        daemon.handle().status().await
    })?;
    let signals = daemon.heed_signals()?;
    if out.is_json() {
        out.value(
            &json!({ "ready": true, "home": home.root(), "pid": status.pid, "mode": status.current_mode, "http": url }),
        )?;
    } else {
        greet(out, home, &daemon, &status)?;
        if let Some(url) = url {
            out.line(format_args!(
                "  http     {url} (token in {})",
                home.root().join("state").join("http.token").display()
            ))?;
        }
        // The link is a secret: it is shown on a terminal, never in a log.
        if io::stdout().is_terminal()
            && let Ok(link) = daemon.console_link()
        {
            out.line(format_args!("  console  {link}"))?;
            out.line("           Open this link within 60 seconds; `conductor console` prints a new one.")?;
        }
        if is_demo {
            tour(out, has_config, environment)?;
        }
        if let Some(next) = first.next {
            out.line(next)?;
        }
    }
    out.finish()?;
    if is_demo && !out.is_json() {
        show_trace(&daemon)?;
    }
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        daemon.spawn(super::prompt::run(daemon.gateway().clone(), daemon.handle().clone()));
    }
    crate::release_memory::give_back();
    // Release memory again after every thread has run once: memory that only the start needed is
    // free by then.
    daemon.spawn(async {
        tokio::time::sleep(FIRST_ROUND).await;
        crate::release_memory::give_back();
    });
    conductor_hosts::system::service::report_ready();
    let ended = daemon.wait(signals);
    conductor_hosts::system::service::report_stopping();
    daemon.stop();
    ended?;
    Ok(Verdict::Good)
}

/// With `[secrets] key = "passphrase"`, asks for the passphrase once. Without a terminal the
/// secrets stay locked, and tools that need a secret report that.
fn ask_passphrase(daemon: &Daemon) -> Result<(), Failure> {
    let wanted = daemon.handle().serving().config.secrets == KeyRung::Passphrase;
    if wanted && io::stdin().is_terminal() {
        let typed = super::secrets::value("Passphrase of the secrets (not shown): ")?;
        daemon.gateway().give_passphrase(SecretString::from(typed.as_str()));
        daemon.handle().key_changed();
    }
    Ok(())
}

fn greet(out: &mut Out, home: &Home, daemon: &Daemon, status: &Status) -> io::Result<()> {
    out.line(format_args!("Conductor is up in {} (pid {}). Ctrl-C ends it.", home.root().display(), status.pid))?;
    let serving = daemon.handle().serving();
    let mappings: usize = serving.config.modes.iter().map(|it| it.rows.mappings.len()).sum();
    let mappings = mappings + serving.config.global.mappings.len();
    let wrote = if daemon.wrote_config { ", written just now" } else { "" };
    let modes: Vec<&str> = serving.config.modes.iter().map(|it| it.name.as_str()).collect();
    let row = |tone: Tone, label: &str, text: String| vec![cell(""), tone.cell(label), cell(text)];
    let file = home.config_file();
    let mut rows = vec![
        row(Tone::Faint, "config", format!("{} ({mappings} mappings{wrote})", file.display())),
        row(Tone::Faint, "modes", format!("{} (now {})", modes.join(", "), status.current_mode)),
    ];
    for device in &serving.config.devices {
        let what = device.description.as_deref().unwrap_or("");
        rows.push(row(Tone::Faint, "device", format!("{:<8} {what}", device.alias)));
    }
    for backend in &status.backends {
        let Some(reason) = &backend.reason else { continue };
        rows.push(row(Tone::Note, "missing", format!("{:<8} {reason}", backend.name)));
    }
    if let Some(why) = &status.config.closed {
        rows.push(row(Tone::Bad, "closed", format!("no rights are granted: {why}; see `conductor config accept`")));
    }
    if !status.config.held.is_empty() {
        let held = conductor_core::text::escape(&status.config.held.join(", ")).into_owned();
        rows.push(row(Tone::Note, "held", format!("{held}; not in force, see `conductor config accept`")));
    }
    if let Some(error) = &status.config.error {
        rows.push(row(Tone::Bad, "fault", error.to_string()));
    }
    out.table(&rows)
}

fn tour(out: &mut Out, has_config: bool, environment: &Environment) -> io::Result<()> {
    let program = command_name(environment);
    if has_config {
        out.line("\nYour configuration is unchanged. The demo's controllers (pads and keys) exist only for this run.")?;
    }
    out.line("\nTry these in a second terminal:\n")?;
    for (at, (command, what)) in demo::TOUR.iter().enumerate() {
        let command = command.replacen("conductor", &program, 1);
        out.line(format_args!("  {}. {command}", at + 1))?;
        out.line(format_args!("     {what}\n"))?;
    }
    out.line(super::demo::how_to_hear(environment, &program))?;
    out.line("Events and actions appear below.\n")
}

/// The text that a person types to run this program: its name if it is in the search path,
/// otherwise its path, relative to the working directory if possible.
fn command_name(environment: &Environment) -> String {
    let name = "conductor";
    let Ok(own) = std::env::current_exe().and_then(dunce::canonicalize) else { return name.to_owned() };
    let found = program_of(std::path::Path::new(name), &environment.search_path);
    if found.and_then(|it| dunce::canonicalize(it).ok()).is_some_and(|it| it == own) {
        return name.to_owned();
    }
    let here = std::env::current_dir().and_then(dunce::canonicalize).ok();
    let near = here.and_then(|here| own.strip_prefix(here).ok().map(|it| it.to_path_buf()));
    let path = match near {
        // A shell looks for a name without a folder only in the search path, so add the folder.
        Some(near) if near.components().count() == 1 => std::path::Path::new(".").join(near),
        Some(near) => near,
        None => own,
    };
    let path = path.display().to_string();
    if path.contains(' ') { format!("\"{path}\"") } else { path }
}

/// Prints every record of the trace; used by the demo.
fn show_trace(daemon: &Daemon) -> Result<(), Failure> {
    let mut records = daemon.block_on(daemon.handle().monitor())?;
    daemon.spawn(async move {
        let mut out = Out::new(false, super::out::ColorChoice::Never);
        while let Some(record) = records.recv().await {
            let shown = out.line(super::monitor::line(&record.to_json())).and_then(|()| out.finish());
            // Stop printing when the output is closed; the daemon keeps running.
            if shown.is_err() {
                return;
            }
        }
    });
    Ok(())
}
