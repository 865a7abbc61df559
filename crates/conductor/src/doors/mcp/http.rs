//! Serves MCP over HTTP at `/mcp`: the SDK's service behind our checks, with a limit of sessions.
//!
//! Not here: the listener, and the Host and Origin checks that all routes share (`doors/http`).

use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientJsonRpcMessage, ClientRequest, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorData, GetPromptRequestParams, GetPromptResponse,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerConfig, ServerJsonRpcMessage, ServerResult, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::transport::common::server_side_http::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use super::era::Era;
use super::methods::{self, Answer, Cx, Outgoing};
use super::subscribe::{self, Watch};
use super::{McpDoor, Shared, era, lists, progress};
use crate::doors::http::{Authority, Tokens, read_body, refuse, refuse_after};
use crate::doors::session::Who;

const MAX_SESSIONS: usize = 64;
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Messages of one call that wait to be written.
const OUTBOX: usize = 32;

pub struct McpHttp {
    service: StreamableHttpService<Session, CappedSessions>,
    sessions: Arc<CappedSessions>,
    tokens: Arc<Tokens>,
    shared: Arc<Shared>,
}

impl McpHttp {
    pub fn new(shared: &Arc<Shared>, tokens: &Arc<Tokens>, authority: &Authority) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(true)
            .with_json_response(true)
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_cancellation_token(shared.stop.child_token())
            // Defence in depth: our own guard has checked every header already.
            .with_allowed_hosts(authority.host_names())
            .enforce_origin_validation()
            .with_allowed_origins(authority.origins());
        let idle = Duration::from_secs(shared.studio.settings().mcp.session_idle_s);
        let factory = Arc::clone(shared);
        let sessions = Arc::new(CappedSessions::new(idle));
        let service = StreamableHttpService::new(
            // Who calls is in each request; the name here is never used.
            move || Ok(Session(McpDoor::new(&factory, Who::Token(String::new())))),
            Arc::clone(&sessions),
            config,
        );
        Self { service, sessions, tokens: Arc::clone(tokens), shared: Arc::clone(shared) }
    }

    /// Checks token, method and size, then passes the request to the SDK.
    pub async fn handle(self: Arc<Self>, request: Request<Body>) -> Response {
        let Some(who) = self.tokens.check(request.headers(), "call") else {
            self.tokens.note_failure(&self.shared.studio).await;
            return refuse_after(request.into_body(), StatusCode::UNAUTHORIZED, "a bearer token is needed").await;
        };
        if ![Method::POST, Method::GET, Method::DELETE].contains(request.method()) {
            let mut response =
                refuse_after(request.into_body(), StatusCode::METHOD_NOT_ALLOWED, "POST, GET or DELETE").await;
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
            return response;
        }
        let limit = self.shared.studio.settings().mcp.max_message_bytes;
        let (mut parts, body) = request.into_parts();
        let body = match read_body(body, limit).await {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        // A session belongs to its token; for other tokens it does not exist.
        let session: Option<SessionId> = session_of(&parts.headers);
        if session.as_ref().is_some_and(|id| !self.sessions.is_of(id, &who)) {
            return refuse(StatusCode::NOT_FOUND, "there is no such session");
        }
        parts.extensions.insert(Who::Token(who.clone()));
        // Remove the token, so that no later code sees it.
        parts.headers.remove(header::AUTHORIZATION);
        let Ok(response) = self.service.clone().call(Request::from_parts(parts, Full::new(body))).await;
        if session.is_none()
            && let Some(made) = session_of(response.headers())
        {
            self.sessions.give(&made, who);
        }
        let streams = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
        let (head, body) = response.into_parts();
        let mut response = Response::from_parts(head, Body::new(body)).into_response();
        if streams {
            response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        }
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

const SESSION: &str = "mcp-session-id";

fn session_of(headers: &http::HeaderMap) -> Option<SessionId> {
    headers.get(SESSION).and_then(|it| it.to_str().ok()).map(Into::into)
}

/// One session as the SDK sees it: every request goes to `methods`, as on a line.
pub struct Session(Arc<McpDoor>);

impl Session {
    /// Everything is awaited in the request's own task: the SDK finds the stream of a message by
    /// the task that sends it.
    async fn answer(&self, request: ClientRequest, context: &RequestContext<RoleServer>) -> Answer {
        let parts = context.extensions.get::<Parts>();
        let token = parts.and_then(|it| it.extensions.get::<Who>()).and_then(Who::token);
        let (out, mut outgoing) = mpsc::channel(OUTBOX);
        let (id, meta, cancel) = (context.id.clone(), context.meta.clone(), context.ct.clone());
        let cx = Cx { id, meta, cancel, out, token: Some(token.unwrap_or_default()) };
        let answer = methods::answer(&self.0, request, cx);
        tokio::pin!(answer);
        let mut asked = FuturesUnordered::new();
        let answer = loop {
            tokio::select! {
                biased;
                Some(message) = outgoing.recv() => asked.extend(deliver(&context.peer, message).await),
                Some(()) = asked.next(), if !asked.is_empty() => {}
                answer = &mut answer => break answer,
            }
        };
        // What a call reported precedes its answer.
        while let Ok(message) = outgoing.try_recv() {
            let _ = deliver(&context.peer, message).await;
        }
        answer
    }
}

/// A request made of its parameters, which a few methods may do without.
trait FromParams<P> {
    fn from(params: P) -> Self;
}

impl<M: Default, P> FromParams<P> for rmcp::model::Request<M, P> {
    fn from(params: P) -> Self {
        Self::new(params)
    }
}

impl<M: Default, P> FromParams<Option<P>> for rmcp::model::RequestOptionalParam<M, P> {
    fn from(params: Option<P>) -> Self {
        Self { method: M::default(), params, extensions: Default::default() }
    }
}

/// Methods of the SDK's handler, each with its request and the results it may have.
macro_rules! forward {
    ($($name:ident($params:ty) $request:ident => $output:ty: $($result:ident)|+;)*) => {$(
        #[expect(clippy::wildcard_enum_match_arm, reason = "an enum of the SDK; a method has its own results")]
        async fn $name(&self, params: $params, context: RequestContext<RoleServer>) -> Result<$output, ErrorData> {
            let request = ClientRequest::$request(FromParams::from(params));
            match Box::pin(self.answer(request, &context)).await? {
                $(ServerResult::$result(result) => Ok(result.into()),)+
                _ => Err(methods::internal()),
            }
        }
    )*};
}

impl ServerHandler for Session {
    forward! {
        list_tools(Option<PaginatedRequestParams>) ListToolsRequest => ListToolsResult: ListToolsResult;
        call_tool(CallToolRequestParams) CallToolRequest => CallToolResponse: CallToolResult | InputRequiredResult;
        list_resources(Option<PaginatedRequestParams>) ListResourcesRequest => ListResourcesResult: ListResourcesResult;
        list_resource_templates(Option<PaginatedRequestParams>) ListResourceTemplatesRequest =>
            ListResourceTemplatesResult: ListResourceTemplatesResult;
        read_resource(ReadResourceRequestParams) ReadResourceRequest => ReadResourceResponse: ReadResourceResult;
        list_prompts(Option<PaginatedRequestParams>) ListPromptsRequest => ListPromptsResult: ListPromptsResult;
        get_prompt(GetPromptRequestParams) GetPromptRequest => GetPromptResponse: GetPromptResult | InputRequiredResult;
        complete(CompleteRequestParams) CompleteRequest => CompleteResult: CompleteResult;
    }

    async fn initialize(
        &self,
        params: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let agreed = methods::initialize(&self.0, params)?;
        if let Some(said) = self.0.handshake.load_full() {
            context.peer.set_peer_info((*said).clone());
        }
        Ok(agreed)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // Said twice, or without a handshake before it: one watch is enough.
        let Some(watch) = self.0.watch.lock().take() else { return };
        let (uris, gone) = (Arc::clone(&self.0.subscriptions), self.0.session.gone.clone());
        tokio::spawn(notify(uris, watch, gone, context.peer));
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Ok(methods::discover(&self.0, Era::Modern))
    }

    async fn set_level(
        &self,
        params: progress::SetLevel,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.answer(progress::set_level(params), &context).await.map(drop)
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        subscribe::subscribe(&self.0, &params.uri).map(drop)
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.subscriptions.lock().remove(&params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // Too many are refused in `listen`; until then they are not kept twice.
        let is_too_much = subscribe::too_much(requested).is_some();
        Some(if is_too_much { SubscriptionFilter::default() } else { requested.clone() })
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let cancel = context.request_context().ct.clone();
        let send = |notification| {
            let peer = context.request_context().peer.clone();
            async move { peer.send_notification(notification).await.is_ok() }
        };
        let request = (context.request_context().id.clone(), context.requested(), context.accepted());
        Box::pin(subscribe::changes(&self.0, request, &cancel, send)).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match self.answer(ClientRequest::CustomRequest(request), &context).await {
            Ok(_) => methods::internal(),
            Err(error) => error,
        })
    }

    fn get_info(&self) -> ServerConfig {
        methods::info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&era::SUPPORTED)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        lists::tool(&self.0, name)
    }
}

/// Sends a notification, or gives the future that waits for the client's answer.
async fn deliver(peer: &Peer<RoleServer>, message: Outgoing) -> Option<impl Future<Output = ()> + Send + use<>> {
    match message {
        Outgoing::Notification(notification) => {
            // The SDK notices a client that is gone.
            let _ = peer.send_notification(*notification).await;
            None
        }
        Outgoing::Request { request, reply } => {
            let peer = peer.clone();
            Some(Box::pin(async move {
                let answered = match peer.send_request(*request).await {
                    Ok(result) => serde_json::to_value(result).map_err(|fault| fault.to_string()),
                    Err(fault) => Err(fault.to_string()),
                };
                let _ = reply.send(answered.map_err(|fault| ErrorData::internal_error(fault, None)));
            }))
        }
    }
}

/// Changes for a legacy client, as long as its session lives. Holds nothing that
/// would keep the session alive.
async fn notify(uris: Arc<Mutex<BTreeSet<String>>>, watch: Watch, gone: CancellationToken, peer: Peer<RoleServer>) {
    let mut watch = Some(watch);
    loop {
        let news = tokio::select! {
            () = gone.cancelled() => return,
            news = subscribe::legacy_news(&mut watch, &uris) => news,
        };
        for notification in news {
            if peer.send_notification(notification).await.is_err() {
                return;
            }
        }
    }
}

/// The SDK's sessions, at most [`MAX_SESSIONS`]: a new one replaces the one unused for longest.
pub struct CappedSessions {
    inner: LocalSessionManager,
    used: Mutex<Uses>,
}

#[derive(Default)]
struct Uses {
    count: u64,
    last: HashMap<SessionId, Use>,
}

struct Use {
    at: u64,
    /// The token that it was opened with, once its id is known to anyone.
    owner: Option<String>,
}

impl CappedSessions {
    fn new(idle: Duration) -> Self {
        let mut inner = LocalSessionManager::default();
        // A model may pause for a long time between two calls.
        inner.session_config = SessionConfig::default();
        inner.session_config.keep_alive = Some(idle);
        Self { inner, used: Mutex::default() }
    }

    fn touch(&self, id: &SessionId) {
        let mut used = self.used.lock();
        used.count += 1;
        let at = used.count;
        match used.last.get_mut(id) {
            Some(last) => last.at = at,
            None => {
                used.last.insert(Arc::clone(id), Use { at, owner: None });
            }
        }
    }

    fn give(&self, id: &SessionId, owner: String) {
        let mut used = self.used.lock();
        if let Some(last) = used.last.get_mut(id) {
            last.owner.get_or_insert(owner);
        }
    }

    /// Also true for an unknown session, which the SDK reports.
    fn is_of(&self, id: &SessionId, token: &str) -> bool {
        let used = self.used.lock();
        used.last.get(id).is_none_or(|it| it.owner.as_deref() == Some(token))
    }

    fn forget(&self, id: &SessionId) {
        self.used.lock().last.remove(id);
    }

    fn oldest(&self) -> Option<SessionId> {
        let used = self.used.lock();
        used.last.iter().min_by_key(|(_, last)| last.at).map(|(id, _)| Arc::clone(id))
    }
}

impl SessionManager for CappedSessions {
    type Error = LocalSessionManagerError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        while self.inner.sessions.read().await.len() >= MAX_SESSIONS
            && let Some(oldest) = self.oldest()
        {
            self.close_session(&oldest).await?;
        }
        let (id, transport) = self.inner.create_session().await?;
        self.touch(&id);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        let has = self.inner.has_session(id).await?;
        if has {
            self.touch(id);
        } else {
            self.forget(id);
        }
        Ok(has)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.forget(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.resume(id, last_event_id).await
    }
}
