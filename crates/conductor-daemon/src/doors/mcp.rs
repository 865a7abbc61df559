//! The MCP door: both eras of the protocol (`era`), and the direct dialect (`call_tool`). No other
//! module uses types of the SDK.
//!
//! A call passes through `listener`, `connection`, `methods`, `call_tool`, the pipeline, and
//! `render`. Not here: any decision about a call (`conductor_gateway::pipeline`).

pub mod call_tool;
pub mod complete;
pub mod connection;
pub mod elicit;
pub mod era;
pub mod fixtures;
pub mod http;
mod http_headers;
mod http_session;
pub mod listener;
mod lists;
pub mod methods;
pub mod progress;
mod prompt;
pub mod render;
mod resource;
pub mod setup;
mod skill;
pub mod stdio;
pub mod subscribe;
pub mod wire;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use rmcp::model::{ErrorData, Implementation, InitializeRequestParams, MetaObject, RequestStateCodec};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::era::Era;
use self::fixtures::Fixtures;
use self::methods::Cx;
use crate::doors::client_processes::ClientProcesses;
use crate::doors::session::{Session, View, Wanted, Who};
use conductor_gateway::pipeline::call::Principal;
use conductor_gateway::studio::Studio;
use conductor_hosts::connection_limits::{Budget, HttpConnections};

/// The instructions for a model. One widely used client truncates them after 2048 characters, so
/// they are shorter, and the most important parts are first.
pub const INSTRUCTIONS: &str = "Conductor connects a music studio: controllers and their mappings, Ableton Live Sets, Max and Pure Data \
patches, and the daemon that runs them. Reading is free: look before you change (conductor_get_status, live_get_song_overview, \
list_active_patches).\n\
Your list may contain only part of the tools. conductor_find_tools finds the others for a task, with signature and example; \
conductor_call_tool calls them.\n\
A tool that changes the configuration (mappings, modes, devices) returns a plan and changes nothing; a person applies the plan. When a \
call answers APPROVAL_REQUIRED, a person must allow it in the Conductor console or terminal; then repeat the identical call once. You \
cannot approve anything yourself.\n\
Sets of tools: daemon (knob, fader, pad, pedal, foot switch, LED, mapping, mode, MIDI learn, CC, SysEx, stuck notes: conductor_panic), \
live (song, track, clip, notes, beat, loop, scene, BPM, volume, mute, solo, VST and effect parameters), patch (object, cord, inlet, \
subpatcher, layout, picture), filesystem, shell, database, web, plugins.\n\
To map a control: conductor_start_midi_learn, let the person move it, conductor_stop_midi_learn, conductor_create_mapping with the \
suggested trigger. If a control does nothing: conductor_explain, then conductor_get_trace.\n\
Every error carries a hint: follow it before you try something else. Ids go stale when things are moved or deleted; on STALE_REFERENCE \
list again and use a fresh id.";

/// State shared by all connections of one daemon.
pub struct Shared {
    pub studio: Arc<Studio>,
    /// Seals the state that a modern client carries between question and answer. Created at start
    /// and kept in memory only.
    seal: RequestStateCodec,
    /// Cancelled when the daemon stops.
    pub stop: CancellationToken,
    /// Processes of AI clients. Their descendants cannot decide as a person.
    pub clients: Arc<ClientProcesses>,
    pub descriptors: Arc<Budget>,
    pub http_connections: Arc<HttpConnections>,
    /// Only a test server sets this.
    pub fixtures: OnceLock<Box<dyn Fixtures>>,
}

impl Shared {
    pub fn new(studio: &Arc<Studio>) -> Arc<Self> {
        let mut key = vec![0; 32];
        studio.ids.fill(&mut key);
        let descriptors = Budget::of_process();
        Arc::new(Self {
            studio: Arc::clone(studio),
            seal: RequestStateCodec::new_unchecked(key),
            stop: CancellationToken::new(),
            clients: ClientProcesses::new(Arc::clone(&studio.clock)),
            http_connections: HttpConnections::new(&descriptors),
            descriptors,
            fixtures: OnceLock::new(),
        })
    }
}

/// The state of one connection.
pub struct McpDoor {
    pub shared: Arc<Shared>,
    pub session: Arc<Session>,
    /// The handshake of a legacy client, with the agreed version.
    handshake: ArcSwapOption<InitializeRequestParams>,
    /// URIs that a legacy client subscribed to.
    pub subscriptions: Arc<Mutex<BTreeSet<String>>>,
    /// The change notifications of a legacy client. They start before the answer to its
    /// `initialize`, so that no change after that answer is missed.
    watch: Mutex<Option<subscribe::Watch>>,
    listens: AtomicUsize,
}

impl McpDoor {
    pub fn new(shared: &Arc<Shared>, who: Who) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            session: Session::new(&shared.studio, who),
            handshake: ArcSwapOption::empty(),
            subscriptions: Arc::default(),
            watch: Mutex::default(),
            listens: AtomicUsize::new(0),
        })
    }

    fn set_handshake(&self, said: InitializeRequestParams) {
        self.handshake.store(Some(Arc::new(said)));
    }

    /// The caller of a request.
    fn principal(&self, cx: &Cx) -> Principal {
        if let Some(principal) = &cx.token {
            return principal.clone();
        }
        let named = |it: Implementation| self.session.principal(&it.name);
        if let Some(client) = cx.meta.client_info() {
            return named(client);
        }
        let handshake = self.handshake.load();
        self.session.principal(handshake.as_ref().map_or("", |it| it.client_info.name.as_str()))
    }

    fn studio(&self) -> &Arc<Studio> {
        &self.shared.studio
    }

    fn identity() -> Implementation {
        Implementation::new("conductor", env!("CARGO_PKG_VERSION")).with_title("Conductor")
    }

    /// The identity of the server, which is part of every modern result. `None` for legacy clients.
    fn signed(&self, era: Era) -> Option<MetaObject> {
        match era {
            Era::Legacy => None,
            Era::Modern => {
                let mut meta = MetaObject::default();
                let name = json!({ "name": "conductor", "title": "Conductor", "version": env!("CARGO_PKG_VERSION") });
                meta.insert("io.modelcontextprotocol/serverInfo".to_owned(), name);
                Some(meta)
            }
        }
    }

    /// Answers the first line of a proxy, which selects the tools of its client. `took` is true if
    /// the daemon reads and writes the client's descriptors itself.
    pub fn hello(&self, params: Option<&Value>, took: bool) -> Result<Value, ErrorData> {
        let wanted = match params {
            None => Wanted::default(),
            Some(params) => Wanted::deserialize(params)
                .map_err(|fault| ErrorData::invalid_params(format!("Invalid hello: {fault}"), None))?,
        };
        let view =
            View::of(self.studio(), &wanted).map_err(|fault| ErrorData::invalid_params(fault.to_string(), None))?;
        self.session.set_view(view);
        self.session.register_starters(&self.shared.clients);
        Ok(json!({ "v": 1, "daemon": env!("CARGO_PKG_VERSION"), "took": took }))
    }

    /// Protocol errors repeat text of the request and do not pass through the pipeline, so secrets
    /// are scrubbed here.
    fn clean(&self, mut error: ErrorData) -> ErrorData {
        let scrubber = &self.studio().scrubber;
        if let std::borrow::Cow::Owned(clean) = scrubber.text(&error.message) {
            error.message = clean.into();
        }
        if let Some(data) = &mut error.data {
            scrubber.value(data);
        }
        error
    }

    fn unknown_method(&self, method: &str) -> ErrorData {
        let mut error = era::unknown_method("");
        error.message = self.studio().scrubber.unknown("Method not found", method).into();
        error
    }
}
