//! One connected AI client: its identity, the tools it can list, and its calls.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::client_processes::{ClientProcess, ClientProcesses};
use super::control::person::starters;
use super::http::Token;
use conductor_core::config::{ToolNames, ToolView};
use conductor_core::policy::limits::REFUSALS_BEFORE_PAUSE;
use conductor_gateway::catalog::Tool;
use conductor_gateway::catalog::names::{ReadOnly, Toolset, UnknownToolset};
use conductor_gateway::catalog::views;
use conductor_gateway::pipeline::call::{Call, ConnId, LogLevel, Principal};
use conductor_gateway::studio::Studio;
use conductor_hosts::system::processes;

/// The verified identity of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// The user id that the kernel reports.
    Uid(u32),
    /// The principal of the token that the peer sent.
    Token(Principal),
}

impl Who {
    pub fn token(&self) -> Option<Principal> {
        match self {
            Who::Uid(_) => None,
            Who::Token(token) => Some(token.clone()),
        }
    }
}

/// The tools and the view that a client requests when it connects. Absent parts come from the
/// configuration.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Wanted {
    pub view: Option<ToolView>,
    pub tools: Option<Vec<String>>,
    pub exclude_tools: Option<Vec<String>>,
    #[serde(default)]
    pub read_only: bool,
    pub tool_names: Option<ToolNames>,
}

/// The tools of a connection, and the form of their names. Fixed while the connection is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The tools that exist for the client.
    pub toolset: Arc<Toolset>,
    /// The part of the toolset that the client lists.
    pub listed: ToolView,
    pub names: ToolNames,
}

impl View {
    /// The view of a client that connects through the proxy or over HTTP.
    pub fn of(studio: &Studio, wanted: &Wanted) -> Result<Self, UnknownToolset> {
        let catalog = studio.catalog();
        let parse = |words: &Vec<String>| Toolset::parse(words, |name| catalog.get(name).is_some());
        let configured = Self::configured(studio);
        let chosen = match &wanted.tools {
            Some(words) => parse(words)?,
            None => Toolset::clone(&configured.toolset),
        };
        let without = wanted.exclude_tools.as_ref().map(parse).transpose()?;
        // Tools that were chosen by name are all listed, unless the client also chose a view.
        let default = if chosen == Toolset::All { studio.settings().mcp.view } else { ToolView::All };
        let listed = wanted.view.unwrap_or(default);
        let read_only =
            wanted.read_only.then_some(if listed == ToolView::Stage { ReadOnly::Stage } else { ReadOnly::Plain });
        let names = wanted.tool_names.unwrap_or(configured.names);
        Ok(Self { toolset: Arc::new(chosen.less(without, read_only)), listed, names })
    }

    pub fn lists(&self, tool: &Tool) -> bool {
        views::lists(self.listed, tool)
    }

    /// The view of a client that connects to the socket directly or uses plain HTTP: everything
    /// that `[mcp]` allows, because scripts use these doors.
    pub fn configured(studio: &Studio) -> Self {
        let settings = studio.settings();
        let toolset = known_tools(studio, &settings.mcp.tools);
        Self { toolset: Arc::new(toolset), listed: ToolView::All, names: settings.mcp.tool_names }
    }

    /// Limits this view to the tools that exist for a token.
    #[must_use]
    pub fn within(self, studio: &Studio, token: &Token) -> Self {
        let toolset = Toolset::clone(&self.toolset).and(known_tools(studio, &token.tools));
        Self { toolset: Arc::new(toolset), ..self }
    }
}

/// The toolset of these names. Unknown names were reported when the file was loaded and are skipped
/// here.
fn known_tools(studio: &Studio, words: &[String]) -> Toolset {
    let catalog = studio.catalog();
    let is_known = |word: &&String| Toolset::parse(std::slice::from_ref(*word), |it| catalog.get(it).is_some()).is_ok();
    let known: Vec<String> = words.iter().filter(is_known).cloned().collect();
    // Every name in `known` is valid, so `parse` does not fail. The fallback is an empty set,
    // because granting no tool is safer than granting all tools.
    Toolset::parse(&known, |_| true).unwrap_or(Toolset::Some(BTreeSet::new()))
}

static NEXT_CONN: AtomicU64 = AtomicU64::new(1);

pub struct Session {
    pub studio: Arc<Studio>,
    pub conn: ConnId,
    pub who: Who,
    view: OnceLock<View>,
    /// True until the first message. A proxy may send its hello only as the first message.
    fresh: AtomicBool,
    running: AtomicUsize,
    refused_in_a_row: AtomicU32,
    floods: AtomicBool,
    /// 0 if the client wants no log messages, otherwise the level plus 1.
    log_level: AtomicU8,
    /// Cancelled when the peer has disconnected.
    pub gone: CancellationToken,
    /// The process of the peer, if the kernel reports it.
    peer_pid: OnceLock<i32>,
    /// Registrations of the peer's process. If the peer is a proxy, also of the processes that
    /// started it.
    processes: Mutex<Vec<ClientProcess>>,
}

/// Counts one running tool call of a connection.
pub struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.gone.cancel();
        self.studio.connection_ended(self.conn);
    }
}

impl Session {
    pub fn new(studio: &Arc<Studio>, who: Who) -> Arc<Self> {
        Arc::new(Self {
            studio: Arc::clone(studio),
            conn: ConnId(NEXT_CONN.fetch_add(1, Ordering::Relaxed)),
            who,
            view: OnceLock::new(),
            fresh: AtomicBool::new(true),
            running: AtomicUsize::new(0),
            refused_in_a_row: AtomicU32::new(0),
            floods: AtomicBool::new(false),
            log_level: AtomicU8::new(0),
            gone: CancellationToken::new(),
            peer_pid: OnceLock::new(),
            processes: Mutex::default(),
        })
    }

    /// Registers the peer's process as an AI client.
    pub fn register_peer(&self, clients: &Arc<ClientProcesses>, pid: i32) {
        let _ = self.peer_pid.set(pid);
        self.processes.lock().extend(clients.register(pid));
    }

    /// Called if the peer is a proxy. The processes that started the proxy are registered as AI
    /// clients.
    pub fn register_starters(&self, clients: &Arc<ClientProcesses>) {
        let pids = self.peer_pid.get().map(|pid| starters(*pid, processes::find)).unwrap_or_default();
        self.processes.lock().extend(pids.into_iter().filter_map(|pid| clients.register(pid)));
    }

    pub fn view(&self) -> &View {
        self.view.get_or_init(|| View::configured(&self.studio))
    }

    /// Sets the view that the client requested. Returns false if the view was already set.
    pub fn set_view(&self, view: View) -> bool {
        self.view.set(view).is_ok()
    }

    /// Returns true once, for the first message.
    pub fn first_message(&self) -> bool {
        self.fresh.swap(false, Ordering::AcqRel)
    }

    pub fn principal(&self, client: &str) -> Principal {
        match &self.who {
            // Client names are untrusted and are logged, so scrub secrets from them.
            Who::Uid(uid) => Principal::socket(*uid, &self.studio.scrubber.text(client)),
            Who::Token(principal) => principal.clone(),
        }
    }

    /// Uses one of the connection's slots. The second value is true if that exceeds the limit; the
    /// pipeline then refuses and records the call.
    pub fn start(&self) -> (Running<'_>, bool) {
        let running = self.running.fetch_add(1, Ordering::AcqRel);
        (Running(&self.running), running >= self.studio.settings().mcp.max_in_flight)
    }

    pub fn call(&self, principal: Principal, tool: String, arguments: Value, cancel: CancellationToken) -> Call {
        let mut call = Call::new(principal, tool, arguments);
        call.conn = self.conn;
        call.toolset = Arc::clone(&self.view().toolset);
        call.cancel = cancel;
        call
    }

    /// Counts consecutive rate-limit refusals. After many of them the door pauses reading, so that
    /// a flood of calls cannot fill the log.
    pub fn refused_for_speed(&self, refused: bool) {
        if !refused {
            return self.refused_in_a_row.store(0, Ordering::Relaxed);
        }
        let count = self.refused_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(REFUSALS_BEFORE_PAUSE) {
            self.floods.store(true, Ordering::Relaxed);
        }
    }

    /// Whether reading should pause now.
    pub fn take_pause(&self) -> bool {
        self.floods.load(Ordering::Relaxed) && self.floods.swap(false, Ordering::Relaxed)
    }

    pub fn set_log_level(&self, level: LogLevel) {
        self.log_level.store(level as u8 + 1, Ordering::Relaxed);
    }

    pub fn log_level(&self) -> Option<LogLevel> {
        match self.log_level.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(LogLevel::Debug),
            2 => Some(LogLevel::Info),
            3 => Some(LogLevel::Warning),
            _ => Some(LogLevel::Error),
        }
    }
}
