//! Handles MCP in both eras, and the direct dialect, with one handler. The SDK's types are not used
//! beyond this module.
//!
//! Not here: framing (`line`, `http`), who may connect (`socket`, `http`), any decision about a
//! call (`pipeline`).

pub mod ask;
pub mod at_once;
pub mod complete;
pub mod era;
#[cfg(feature = "conformance")]
pub mod fixture;
pub mod http;
pub mod line;
pub mod progress;
pub mod render;
pub mod setup;
pub mod socket;
pub mod stdio;
pub mod stdio_handoff;
pub mod watch;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use conductor_core::error::{Code, Subject, ToolError};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, ClientRequest, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, DiscoverResult, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams, PromptArgument, PromptMessage,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, RequestStateCodec, Role,
    ServerCapabilities, ServerConfig, ServerResult, SubscribeRequestParams, SubscriptionFilter, Tool as WireTool,
    ToolAnnotations, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler, Service};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use self::era::Era;
use self::progress::Report;
use crate::doors::client_processes::ClientProcesses;
use crate::doors::session::{Session, View, Who};
#[cfg(feature = "conformance")]
use conductor_gateway::pipeline::call::Output;
use conductor_gateway::pipeline::call::{Outcome, Principal, Via};
use conductor_gateway::pipeline::{self, Reply};
use conductor_gateway::studio::Studio;
use conductor_gateway::tools::catalog::Tool;
use conductor_gateway::tools::lint::MCP_METHODS;
use conductor_gateway::tools::names::NameForm;
use conductor_gateway::tools::resource::Resource;
use conductor_gateway::tools::schema::Schema;
use conductor_hosts::connection_limits::{Budget, HttpConnections};

const DISCOVER_TTL_MS: u64 = 300_000;
const LIST_TTL_MS: u64 = 60_000;
const MAX_LISTENS: usize = 16;
const MAX_SUBSCRIPTIONS: usize = 256;
const MAX_URI: usize = 2048;
/// How long a connection that floods the daemon is paused.
const FLOOD_PAUSE: Duration = Duration::from_secs(1);

/// The instructions for a model; at most 1200 characters.
pub const INSTRUCTIONS: &str = "Conductor connects a music studio: controllers, mappings, patches and Live Sets. \
Reading is free: look before you change. A tool that changes the configuration returns a plan and changes nothing; a person applies \
the plan. When a call answers APPROVAL_REQUIRED, a person must allow it in the Conductor console or terminal; then repeat the \
identical call once. You cannot approve anything yourself. Every error carries a hint: follow it before you try something else. \
Ids go stale when things are moved or deleted; on STALE_REFERENCE list again and use a fresh id.";

/// State shared by all connections of one daemon.
pub struct Shared {
    pub studio: Arc<Studio>,
    /// Seals the state that a modern client carries between question and answer. Created at start
    /// and kept in memory only.
    seal: RequestStateCodec,
    /// The daemon is stopping.
    pub stop: CancellationToken,
    /// Processes of AI clients. Their descendants cannot decide anything.
    pub clients: Arc<ClientProcesses>,
    pub descriptors: Arc<Budget>,
    pub http_connections: Arc<HttpConnections>,
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
        })
    }
}

/// The handler of one connection.
#[derive(Clone)]
pub struct McpDoor {
    pub shared: Arc<Shared>,
    pub session: Arc<Session>,
    subscriptions: Arc<Mutex<BTreeSet<String>>>,
    /// A legacy peer is notified of every change after the answer to its `initialize`, so listening
    /// starts before that answer.
    watch: Arc<Mutex<Option<watch::Watch>>>,
    listens: Arc<AtomicUsize>,
    wire: Option<Arc<line::Wire>>,
}

impl McpDoor {
    pub fn new(shared: &Arc<Shared>, who: Who) -> Self {
        Self {
            shared: Arc::clone(shared),
            session: Session::new(&shared.studio, who),
            subscriptions: Arc::default(),
            watch: Arc::default(),
            listens: Arc::default(),
            wire: None,
        }
    }

    #[must_use]
    pub fn on_wire(mut self, wire: Arc<line::Wire>) -> Self {
        self.wire = Some(wire);
        self
    }

    fn studio(&self) -> &Arc<Studio> {
        &self.shared.studio
    }

    fn identity() -> Implementation {
        Implementation::new("conductor", env!("CARGO_PKG_VERSION")).with_title("Conductor")
    }

    /// Added to every modern result; legacy peers never see it.
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

    fn principal(&self, context: &RequestContext<RoleServer>) -> Principal {
        // On HTTP the guard has added the token's name to the request.
        let from_http = || context.extensions.get::<::http::request::Parts>()?.extensions.get::<Who>();
        if let Some(token) = context.extensions.get::<Who>().or_else(from_http) {
            return match token {
                Who::Token(token) => Principal::Http { token: token.clone() },
                Who::Uid(uid) => Principal::socket(*uid, "unknown"),
            };
        }
        let client = context.client_info().map(|it| it.name).unwrap_or_default();
        self.session.principal(&client)
    }

    /// Runs one call and forwards its reports. Boxed: the SDK moves the future of a request several
    /// times before its first poll, and this is the largest part of it.
    fn run<'a>(
        &'a self,
        call: pipeline::Call,
        context: &'a RequestContext<RoleServer>,
        back: progress::BackChannel,
    ) -> BoxFuture<'a, Reply> {
        Box::pin(self.run_here(call, context, back))
    }

    /// Everything is awaited in the task of the request: the SDK finds the stream of a message by
    /// the task that sends it.
    async fn run_here(
        &self,
        mut call: pipeline::Call,
        context: &RequestContext<RoleServer>,
        back: progress::BackChannel,
    ) -> Reply {
        let (running, crowded) = self.session.start();
        call.crowded = crowded;
        call.progress = back.progress;
        let work = pipeline::run(self.studio(), call);
        let reply = match back.open {
            None => work.await,
            // Boxed, because few calls report anything.
            Some(open) => Box::pin(talking(work, open, context)).await,
        };
        drop(running);
        let refused = matches!(reply.outcome(), Outcome::Done(Err(error)) if error.code == Code::RateLimited);
        if self.session.refused_for_speed(refused)
            && let Some(wire) = &self.wire
        {
            wire.pause(FLOOD_PAUSE);
        }
        reply
    }

    /// A method that is not an MCP method is the name of a tool.
    async fn direct(&self, request: CustomRequest, context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        if MCP_METHODS.contains(&method.as_str()) {
            return Err(ErrorData::invalid_params(format!("Invalid params for {method}"), None));
        }
        if method.starts_with("tasks/") || method.starts_with("notifications/") || method.starts_with("conductor.") {
            return Err(self.unknown_method(&method));
        }
        let arguments = params.unwrap_or_else(|| Value::Object(Map::new()));
        let principal = self.session.principal("direct");
        let call = self.session.call(principal, method.clone(), arguments, context.ct.clone());
        match self.run(call, context, progress::back_channel(self, context, Era::Legacy, false)).await.into_outcome() {
            Outcome::Done(Ok(output)) => Ok(render::direct_success(output)),
            Outcome::Done(Err(error)) if is_unknown_tool(&error) => {
                let mut unknown = self.unknown_method(&method);
                unknown.data =
                    Some(json!({ "code": error.code, "hint": error.hint, "did_you_mean": error.extras.did_you_mean }));
                Err(unknown)
            }
            Outcome::Done(Err(error)) => Err(render::direct_failure(&error)),
            // The SDK drops the reply of a cancelled request.
            Outcome::Cancelled | Outcome::Ask { .. } => Err(ErrorData::internal_error("cancelled", None)),
        }
    }

    /// The first line of a proxy: which tools its client sees. `took`: the proxy's descriptors came
    /// with it and are driven here.
    fn hello(&self, params: Option<&Value>, took: bool) -> Result<Value, ErrorData> {
        let params = params.unwrap_or(&Value::Null);
        let settings = self.studio().settings();
        let words: Vec<String> = match params.get("tools") {
            None | Some(Value::Null) => settings.mcp.tools.clone(),
            Some(words) => serde_json::from_value(words.clone())
                .map_err(|_| ErrorData::invalid_params("tools must be a list of names", None))?,
        };
        let names = match params.get("tool_names") {
            None | Some(Value::Null) => settings.mcp.tool_names,
            Some(form) => form
                .as_str()
                .and_then(NameForm::parse)
                .ok_or_else(|| ErrorData::invalid_params("tool_names must be safe or dotted", None))?,
        };
        let view = View::of(self.studio(), &words, names)
            .map_err(|fault| ErrorData::invalid_params(fault.to_string(), None))?;
        self.session.set_view(view);
        self.session.register_starters(&self.shared.clients);
        Ok(json!({ "v": 1, "daemon": env!("CARGO_PKG_VERSION"), "took": took }))
    }

    fn wire_tool(&self, tool: &Tool, names: NameForm) -> WireTool {
        let object = |schema: &Schema| match schema.value() {
            Value::Object(members) => Arc::new(members),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Arc::default(),
        };
        let mut meta = MetaObject::default();
        meta.insert("conductor/tier".to_owned(), json!(tool.tier));
        meta.insert("conductor/toolset".to_owned(), json!(tool.toolset));
        let hints = tool.annotations;
        let wire =
            WireTool::new(names.of(tool).to_owned(), tool.description.to_string(), object(&tool.published_schema))
                .with_title(tool.title.to_string())
                .with_annotations(
                    ToolAnnotations::new()
                        .read_only(hints.read_only)
                        .destructive(hints.destructive)
                        .idempotent(hints.idempotent)
                        .open_world(hints.open_world),
                )
                .with_meta(meta);
        // A common SDK throws on a result without a value when the tool promised one.
        if tool.definition().output_schema.is_null() {
            wire
        } else {
            wire.with_raw_output_schema(object(&tool.output_schema))
        }
    }

    /// One page of a sorted list. The cursor is the last name given, so entries added or removed
    /// between two pages shift nothing.
    fn page<T>(
        &self,
        request: Option<PaginatedRequestParams>,
        entries: impl Iterator<Item = (String, T)>,
    ) -> Result<(Vec<T>, Option<String>), ErrorData> {
        let after = match request.and_then(|it| it.cursor) {
            None => None,
            Some(cursor) => {
                let name = URL_SAFE_NO_PAD.decode(&cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                Some(
                    name.filter(|it| !it.is_empty())
                        .ok_or_else(|| ErrorData::invalid_params("Unknown cursor", None))?,
                )
            }
        };
        let size = self.studio().settings().mcp.page_size.max(1);
        let mut rest = entries.filter(|(name, _)| after.as_ref().is_none_or(|after| name > after));
        let mut page = Vec::new();
        let mut last = None;
        for (name, entry) in rest.by_ref().take(size) {
            page.push(entry);
            last = Some(name);
        }
        let next = rest.next().and(last).map(|name| URL_SAFE_NO_PAD.encode(name));
        Ok((page, next))
    }

    /// A protocol error repeats the request, and the pipeline has not scrubbed it.
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

    fn find_resource(&self, uri: &str) -> Option<(Arc<Resource>, BTreeMap<String, String>)> {
        let catalog = self.studio().catalog();

        catalog
            .resources(&self.session.view().toolset)
            // A fixed entry has priority over a template that matches too.
            .filter_map(|entry| entry.matches(uri).map(|variables| (Arc::clone(entry), variables)))
            .min_by_key(|(_, variables)| variables.len())
    }
}

/// Runs the work and forwards its reports.
async fn talking(
    work: impl Future<Output = Reply>,
    open: progress::Open,
    context: &RequestContext<RoleServer>,
) -> Reply {
    // The queue is kept until the end, since senders hold weak references to it.
    let progress::Open { queue: _queue, mut reports } = open;
    tokio::pin!(work);
    let mut asked = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(report) = reports.next() => match report {
                Report::Ask { method, params, wait, reply } => asked.push(Box::pin(async move {
                    let _ = reply.send(progress::ask(context, method, params, wait).await);
                })),
                report @ (Report::Progress { .. } | Report::Log { .. }) => progress::send(context, report).await,
            },
            Some(()) = asked.next(), if !asked.is_empty() => {}
            reply = &mut work => {
                // Send the reports that are already queued; nothing may follow the reply.
                while let Some(report) = reports.left() {
                    progress::send(context, report).await;
                }
                break reply;
            }
        }
    }
}

fn is_too_much(filter: &SubscriptionFilter) -> bool {
    let uris = filter.resource_subscriptions.as_deref().unwrap_or_default();
    uris.len() > MAX_SUBSCRIPTIONS || uris.iter().any(|it| it.len() > MAX_URI)
}

fn too_many_uris() -> ErrorData {
    let text =
        format!("At most {MAX_SUBSCRIPTIONS} subscriptions per connection, each with a URI of at most {MAX_URI} bytes");
    ErrorData::invalid_params(text, None)
}

fn is_unknown_tool(error: &ToolError) -> bool {
    error.code == Code::NotFound && matches!(error.subject, Some(Subject::Tool(_)))
}

/// The service of a line door: the era check first, then the direct dialect, the proxy's hello, and
/// MCP.
#[derive(Clone)]
pub struct LineService(pub McpDoor);

impl LineService {
    async fn answer(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let first = self.0.session.first_message();
        if let ClientRequest::CustomRequest(custom) = &request
            && custom.method == "conductor.hello"
        {
            if !first {
                return Err(era::unknown_method("conductor.hello"));
            }
            let answer = self.0.hello(custom.params.as_ref(), false);
            return answer.map(|it| ServerResult::CustomResult(CustomResult::new(it)));
        }
        era::admit(&request, &context)?;
        Service::handle_request(&self.0, request, context).await
    }
}

impl Service<RoleServer> for LineService {
    /// Boxed immediately, since the SDK moves this future several times before its first poll.
    fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ServerResult, ErrorData>> + Send + '_ {
        Box::pin(async move {
            match context.extensions.remove::<at_once::Rest>() {
                Some(rest) => rest.finish(&context.ct).await,
                None => self.answer(request, context).await,
            }
        })
    }

    async fn handle_notification(
        &self,
        notification: rmcp::model::ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.session.first_message();
        Service::handle_notification(&self.0, notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&self.0)
    }
}

impl ServerHandler for McpDoor {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .build();
        ServerConfig::new(progress::with_logging(capabilities))
            .with_server_info(Self::identity())
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        std::borrow::Cow::Borrowed(&era::SUPPORTED)
    }

    /// From here on the negotiated version is the peer's version, not the one it requested.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let agreed = self.negotiate_initialize(&request).map_err(|error| self.clean(error))?;
        let mut info = request;
        info.protocol_version = agreed.protocol_version.clone();
        context.peer.set_peer_info(info);
        *self.watch.lock() = Some(watch::Watch::new(self.studio()));
        Ok(agreed)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let watch = self.watch.lock().take();
        // A second `initialized`, or one without a handshake, starts no second listener.
        let Some(watch) = watch else { return };
        let gone = self.session.gone.clone();
        tokio::spawn(watch::notify_legacy_peer(watch, Arc::clone(&self.subscriptions), gone, context.peer));
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let mut result = DiscoverResult::from_server_info(era::SUPPORTED.to_vec(), ServerHandler::get_info(self))
            .with_ttl_ms(DISCOVER_TTL_MS)
            .with_cache_scope(CacheScope::Private);
        result.meta = self.signed(era::of(&context));
        Ok(result)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let catalog = self.studio().catalog();
        let policy = self.studio().policy();
        let view = self.session.view();
        let listed = catalog
            .list(&view.toolset)
            .filter(|tool| !policy.policy.denies_everyone(&tool.name, tool.tier))
            .map(|tool| (tool.name.to_string(), tool));
        let (page, next) = self.page(request, listed)?;
        let mut result =
            ListToolsResult::with_all_items(page.into_iter().map(|it| self.wire_tool(it, view.names)).collect());
        result.next_cursor = next;
        (result.ttl_ms, result.cache_scope, result.meta) = self.cache(&context);
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<WireTool> {
        let view = self.session.view();
        let catalog = self.studio().catalog();
        catalog
            .get(name)
            .filter(|tool| !tool.hidden && view.toolset.has(tool))
            .map(|tool| self.wire_tool(tool, view.names))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Over HTTP the rest of a started call comes with the request.
        let parts = context.extensions.get::<::http::request::Parts>();
        if let Some(rest) = parts.and_then(|it| it.extensions.get::<at_once::Rest>()).cloned() {
            return rest.finish_call(&context.ct).await;
        }
        if let Some(seat) = context.extensions.remove::<at_once::Seat>() {
            seat.take(self, &context.peer);
        }
        let era = era::of(&context);
        let principal = self.principal(&context);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let mut call = self.session.call(principal, request.name.into_owned(), arguments, context.ct.clone());
        ask::prepare(self, &mut call, request.request_state.as_deref(), request.input_responses.as_ref(), era)?;
        let shows_forms = era::shows_forms(&context);
        let back = progress::back_channel(self, &context, era, shows_forms && era == Era::Legacy);
        call.ask = ask::channel(self, shows_forms, era, &back);
        #[cfg(feature = "conformance")]
        {
            let link = fixture::Link::new(self, &context, era, &back, request.input_responses, request.request_state);
            call.client = Some(Arc::new(link));
        }
        let question = call.ask.as_ref().is_some_and(|ask| ask.by_result()).then(|| ask::Question::of(&call));
        let reply = self.run(call, &context, back).await;
        let tool = reply.tool().cloned();
        let mut result = match reply.into_outcome() {
            #[cfg(feature = "conformance")]
            Outcome::Done(Ok(Output { special: Some(special), .. })) => {
                return fixture::special(special, self.signed(era));
            }
            Outcome::Done(Ok(output)) => render::success(output),
            Outcome::Done(Err(error)) if is_unknown_tool(&error) => return Err(render::unknown_tool(&error)),
            Outcome::Done(Err(error)) if ask::is_bad_state(&error) => return Err(ask::bad_state()),
            Outcome::Done(Err(error)) => render::failure(&error),
            Outcome::Cancelled => return Err(ErrorData::internal_error("cancelled", None)),
            Outcome::Ask { approval, message } => {
                let question = question.ok_or_else(|| ErrorData::internal_error("Internal error", None))?;
                let mut result = ask::input_required(self, &question, tool.as_deref(), &approval, message)?;
                result.meta = self.signed(era);
                return Ok(result.into());
            }
        };
        result.meta = self.signed(era);
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let catalog = self.studio().catalog();
        let fixed = catalog.resources(&self.session.view().toolset).filter(|it| !it.is_template());
        let (page, next) = self.page(request, fixed.map(|it| (it.uri.to_string(), it)))?;
        let entries = page
            .into_iter()
            .map(|it| {
                rmcp::model::Resource::new(it.uri.to_string(), it.name.to_string())
                    .with_title(it.title.to_string())
                    .with_description(it.description.to_string())
                    .with_mime_type(it.mime.to_string())
            })
            .collect();
        let mut result = ListResourcesResult::with_all_items(entries);
        result.next_cursor = next;
        (result.ttl_ms, result.cache_scope, result.meta) = self.cache(&context);
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let catalog = self.studio().catalog();
        let templates = catalog.resources(&self.session.view().toolset).filter(|it| it.is_template());
        let (page, next) = self.page(request, templates.map(|it| (it.uri.to_string(), it)))?;
        let entries = page
            .into_iter()
            .map(|it| {
                rmcp::model::ResourceTemplate::new(it.uri.to_string(), it.name.to_string())
                    .with_title(it.title.to_string())
                    .with_description(it.description.to_string())
                    .with_mime_type(it.mime.to_string())
            })
            .collect();
        let mut result = ListResourceTemplatesResult::with_all_items(entries);
        result.next_cursor = next;
        (result.ttl_ms, result.cache_scope, result.meta) = self.cache(&context);
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.read(request, context).await.map_err(|error| self.clean(error))
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let catalog = self.studio().catalog();
        let listed = catalog.prompts(&self.session.view().toolset).map(|it| (it.name.to_string(), it));
        let (page, next) = self.page(request, listed)?;
        let entries = page
            .into_iter()
            .map(|it| {
                let arguments = it
                    .arguments
                    .iter()
                    .map(|it| PromptArgument::new(it.name).with_description(it.description).with_required(it.required))
                    .collect();
                rmcp::model::Prompt::new(it.name.to_string(), Some(it.description.to_string()), Some(arguments))
                    .with_title(it.title.to_string())
            })
            .collect();
        let mut result = ListPromptsResult::with_all_items(entries);
        result.next_cursor = next;
        (result.ttl_ms, result.cache_scope, result.meta) = self.cache(&context);
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(request, &context).map_err(|error| self.clean(error))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let found = complete::complete(&self.session, &request.r#ref, &request.argument.name, &request.argument.value)
            .map_err(|error| self.clean(error))?;
        let mut result = CompleteResult::new(found);
        result.meta = self.signed(era::of(&context));
        Ok(result)
    }

    async fn set_level(
        &self,
        request: progress::SetLevel,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // The SDK accepts it in both eras; a modern client asks per request.
        match era::of(&context) {
            Era::Modern => Err(era::unknown_method("logging/setLevel")),
            Era::Legacy => {
                self.session.set_log_level(progress::level_asked(&request));
                Ok(())
            }
        }
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if request.uri.len() > MAX_URI {
            return Err(too_many_uris());
        }
        let mut subscriptions = self.subscriptions.lock();
        if subscriptions.len() >= MAX_SUBSCRIPTIONS && !subscriptions.contains(&request.uri) {
            return Err(too_many_uris());
        }
        // Copy the text: the received one may have a much larger capacity.
        subscriptions.insert(request.uri.as_str().to_owned());
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.lock().remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // `listen` refuses more than the limit; until then it is not stored twice.
        Some(if is_too_much(requested) { SubscriptionFilter::default() } else { requested.clone() })
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let open = self.listens.fetch_add(1, Ordering::AcqRel);
        let result = if open >= MAX_LISTENS {
            Err(ErrorData::invalid_params(format!("At most {MAX_LISTENS} subscriptions per connection"), None))
        } else if is_too_much(context.requested()) {
            Err(too_many_uris())
        } else {
            Box::pin(watch::listen(self.studio(), &context, &self.shared.stop)).await;
            Ok(())
        };
        self.listens.fetch_sub(1, Ordering::AcqRel);
        result
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // Off on HTTP: a page with a stolen token would need no protocol at all.
        if self.wire.is_none() {
            return Err(self.unknown_method(&request.method));
        }
        self.direct(request, &context).await.map(CustomResult::new).map_err(|error| self.clean(error))
    }
}

impl McpDoor {
    /// Calls the tool that the resource mirrors, so that policy, limits and audit apply.
    async fn read(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let era = era::of(&context);
        let uri = request.uri;
        let Some((entry, variables)) = self.find_resource(&uri) else {
            let scrubber = &self.studio().scrubber;
            let shown: String = if scrubber.is_idle() { uri.chars().take(256).collect() } else { String::new() };
            let unknown = ToolError::new(Code::NotFound, scrubber.unknown("Unknown resource", &shown))
                .hint("Call resources/list and resources/templates/list.")
                .subject(Subject::Other(shown.clone()));
            return Err(render::resource_failure(&shown, &unknown));
        };
        let principal = self.principal(&context);
        let mut call =
            self.session.call(principal, entry.tool.to_string(), (entry.arguments)(&variables), context.ct.clone());
        call.via = Via::Resource { uri: uri.clone() };
        // The toolset that contains the resource contains its tool.
        call.toolset = Arc::new(conductor_gateway::tools::names::Toolset::All);
        let back = progress::back_channel(self, &context, era, false);
        let contents = match self.run(call, &context, back).await.into_outcome() {
            Outcome::Done(Ok(output)) => {
                render::resource_contents(&self.studio().scrubber.text(&uri), &entry.mime, output)
            }
            Outcome::Done(Err(error)) => return Err(render::resource_failure(&uri, &error)),
            Outcome::Cancelled | Outcome::Ask { .. } => return Err(ErrorData::internal_error("cancelled", None)),
        };
        let mut result = ReadResourceResult::new(contents).with_cache_scope(CacheScope::Private).with_ttl_ms(0);
        if era == Era::Legacy {
            (result.ttl_ms, result.cache_scope) = (None, None);
        }
        result.meta = self.signed(era);
        Ok(result.into())
    }

    fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let catalog = self.studio().catalog();
        let prompt =
            catalog.prompt(&request.name).filter(|it| self.session.view().toolset.has_set(&it.toolset)).ok_or_else(
                || ErrorData::invalid_params(self.studio().scrubber.unknown("Unknown prompt", &request.name), None),
            )?;
        #[cfg(feature = "conformance")]
        if let Some(asks) =
            fixture::prompt_asks(&request.name, request.input_responses.is_some(), self.signed(era::of(context)))
        {
            return asks;
        }
        let mut arguments = BTreeMap::new();
        for (name, value) in request.arguments.unwrap_or_default() {
            match value {
                Value::String(text) => {
                    arguments.insert(name, text);
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(ErrorData::invalid_params(format!("Prompt argument {name} must be a string"), None));
                }
            }
        }
        if let Some(unknown) = arguments.keys().find(|name| prompt.arguments.iter().all(|it| it.name != name.as_str()))
        {
            let known: Vec<&str> = prompt.arguments.iter().map(|it| it.name).collect();
            let name: String = unknown.chars().take(128).collect();
            return Err(ErrorData::invalid_params(
                format!("Unknown prompt argument: {name}; {} takes: {}", prompt.name, known.join(", ")),
                None,
            ));
        }
        if let Some(missing) = prompt.arguments.iter().find(|it| it.required && !arguments.contains_key(it.name)) {
            return Err(ErrorData::invalid_params(format!("Missing prompt argument: {}", missing.name), None));
        }
        let messages = (prompt.render)(&arguments)
            .into_iter()
            .map(|mut it| {
                it.content.clean(&self.studio().scrubber);
                PromptMessage::new(Role::User, render::block(it.content))
            })
            .collect();
        let mut result = GetPromptResult::new(messages).with_description(prompt.description.to_string());
        result.meta = self.signed(era::of(context));
        Ok(result.into())
    }

    fn cache(&self, context: &RequestContext<RoleServer>) -> (Option<u64>, Option<CacheScope>, Option<MetaObject>) {
        match era::of(context) {
            Era::Legacy => (None, None, None),
            // Toolsets and policy can differ by principal.
            Era::Modern => (Some(LIST_TTL_MS), Some(CacheScope::Private), self.signed(Era::Modern)),
        }
    }
}
