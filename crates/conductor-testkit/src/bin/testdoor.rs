//! A server process with the daemon's doors and the test tools, and the stdio proxy, for tests with
//! real clients.
//!
//! `testdoor serve HOME [--fixtures] [--client-approves]` opens `mcp.sock` and a free HTTP port. It
//! prints this port and the port of the proxy that adds the token. `testdoor proxy HOME [TOOLS...]`
//! is like `mcp start`, but lists all tools and does not start a daemon.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a separate program for tests")]

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use conductor_core::config::{OutputSchemas, ToolView};
use conductor_core::digest::Digest;
use conductor_core::policy::limits::Rate;
use conductor_core::policy::{Policy, Tier};
use conductor_daemon::doors::http::{self, Authority, Tokens};
use conductor_daemon::doors::mcp::{Shared, listener as socket, stdio};
use conductor_gateway::audit_log;
use conductor_gateway::pending_store::PendingStore;
use conductor_gateway::studio::{Parts, PolicyInForce, RealSleeper, Settings, Studio};
use conductor_hosts::system::listener::Listener;
use conductor_hosts::system::{Clock, RandomIds, RealClock};
use conductor_testkit::conformance::{self, Suite};
use conductor_testkit::tools::{self, Runs};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(verb), Some(home)) = (words.next(), words.next()) else {
        eprintln!("usage: testdoor serve HOME [--fixtures] [--client-approves] | testdoor proxy HOME [TOOLS...]");
        return ExitCode::from(2);
    };
    let home = PathBuf::from(home);
    let rest: Vec<String> = words.collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(fault) => {
            eprintln!("{fault}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(async {
        match verb.as_str() {
            "serve" => serve(home, &rest).await,
            _ => proxy(home, rest).await,
        }
    });
    // A blocking read from a terminal cannot be interrupted, so waiting for it could hang.
    runtime.shutdown_background();
    code
}

async fn proxy(home: PathBuf, tools: Vec<String>) -> ExitCode {
    let hello = stdio::Hello {
        tools: (!tools.is_empty()).then_some(tools),
        tool_names: None,
        view: Some("all".to_owned()),
        exclude_tools: None,
        read_only: false,
    };
    let never = || Err(io::Error::other("this proxy does not start a daemon"));
    let signal = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let say = |line: &str| eprintln!("{line}");
    let exit = stdio::run(&home.join("mcp.sock"), &hello, never, signal, &stdin, &stdout, &say).await;
    ExitCode::from(exit.code())
}

async fn serve(home: PathBuf, flags: &[String]) -> ExitCode {
    match open(home, flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

async fn open(home: PathBuf, flags: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(&home)?;
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let ids = Arc::new(RandomIds);
    let (log, _opened) = audit_log::AuditLog::open(
        &home,
        Arc::new(audit_log::files::Disk),
        audit_log::Settings::default(),
        Arc::clone(&clock),
        ids.clone(),
    )?;
    let runs = Arc::new(Runs::default());
    let mut policy = Policy::default();
    let mut settings = Settings::default();
    // The limits are high, so that they do not affect measurements of the throughput.
    let plenty = Rate { per_minute: 600_000_000, burst: 10_000_000 };
    (settings.limits.read, settings.limits.effect) = (plenty, plenty);
    settings.limits.in_flight = 100_000;
    // List all tools with complete schemas, because the public suites check the lists.
    (settings.mcp.view, settings.mcp.output_schemas) = (ToolView::All, OutputSchemas::Full);
    if flags.iter().any(|it| it == "--client-approves") {
        policy.approval.client_tiers = Tier::ALL.to_vec();
    }
    let mut catalog = tools::catalog(&runs);
    let has_fixtures = flags.iter().any(|it| it == "--fixtures");
    if has_fixtures {
        conformance::register(&mut catalog)?;
    }
    let studio = Studio::new(Parts {
        sleeper: Arc::new(RealSleeper::new(Arc::clone(&clock))),
        clock,
        ids: ids.clone(),
        home: home.clone(),
        audit: Arc::new(log),
        pending: PendingStore::open(&home, Arc::new(audit_log::files::Disk), [7; 32])?.0,
        catalog,
        policy: PolicyInForce { policy, version: Digest::of(b"policy") },
        settings,
        scrubber: conductor_gateway::secrets::Scrubber::new(),
    });
    let shared = Shared::new(&studio);
    if has_fixtures {
        let _ = shared.fixtures.set(Box::new(Suite::new()));
    }
    let listener = Listener::bind(&home.join("mcp.sock"))?;
    tokio::spawn(socket::serve(listener, Arc::clone(&shared), Arc::default()));
    let (listener, address) = http::bind(([127, 0, 0, 1], 0).into()).await?;
    let tokens = Tokens::new(vec![http::default_token(&home, &*ids)?]);
    let router =
        http::router(&shared, &tokens, Authority::new(address, Vec::new(), Vec::new(), false), axum::Router::new());
    // The second port is for clients that cannot send headers.
    let token = std::fs::read_to_string(home.join("state/http.token"))?;
    let open_port = conductor_testkit::auth_proxy::start(address, token.trim()).await?.port();
    println!("{} {open_port}", address.port());
    let stop = shared.stop.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    http::serve(listener, router, None, Arc::clone(&shared.http_connections), shared.stop.clone()).await;
    Ok(())
}
