//! Serves MCP over HTTP at `/mcp`: the SDK's service behind our checks, with a limit of sessions.
//!
//! Not here: the listener, and the Host and Origin checks that all routes share (`doors/http`).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, GetMeta, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::time::Instant;
use tower_service::Service as _;

use super::at_once::{self, Begun, Seat};
use super::{McpDoor, Shared, era, line};
use crate::doors::http::{Authority, Tokens, read_body, refuse, refuse_after};
use crate::doors::session::Who;

const MAX_SESSIONS: usize = 64;
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// An answer that is complete within this time is sent in one piece; a later one piece by piece.
const AT_ONCE: Duration = Duration::from_millis(2);

pub struct McpHttp {
    service: StreamableHttpService<McpDoor, CappedSessions>,
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
            // Each request identifies its caller; the name here is not used.
            move || Ok(McpDoor::new(&factory, Who::Token(String::new()))),
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
        let mut body = match read_body(body, limit).await {
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
        match self.begin(&parts, &body).await {
            Some((id, Begun::Done(answer))) => {
                let answer = axum::Json(at_once::message(answer, id));
                return ([(header::CACHE_CONTROL, "no-store")], answer).into_response();
            }
            // The SDK must not refuse a call that has started, so it gets a placeholder body of
            // ours.
            Some((id, Begun::Waiting(rest))) => {
                parts.extensions.insert(rest);
                let placeholder =
                    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "" } });
                body = Bytes::from(placeholder.to_string());
            }
            Some((_, Begun::Untouched(_))) | None => {}
        }
        let is_call = parts.method == Method::POST;
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
        let body = if streams && is_call { gather(body).await } else { Body::new(body) };
        let mut response = Response::from_parts(head, body).into_response();
        if streams {
            response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        }
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl McpHttp {
    /// Starts a plain call: in a session that has made one before, without headers or members that
    /// the SDK would have to check. All other requests, and every refusal, are left to the SDK.
    async fn begin(&self, parts: &Parts, body: &[u8]) -> Option<(RequestId, Begun)> {
        let session = plain_session(parts)?;
        let JsonRpcMessage::Request(mut call) = line::read_call(body)? else { return None };
        if !call.request.get_meta().is_empty() || !self.sessions.has_session(&session).await.ok()? {
            return None;
        }
        let seat = self.sessions.seat(&session)?;
        call.request.extensions_mut().insert(parts.extensions.get::<Who>()?.clone());
        let begun = seat.begin(call.request, &call.id);
        Some((call.id, begun))
    }
}

const SESSION: &str = "mcp-session-id";

fn session_of(headers: &http::HeaderMap) -> Option<SessionId> {
    headers.get(SESSION).and_then(|it| it.to_str().ok()).map(Into::into)
}

/// The session of a request whose headers need no check by the SDK.
fn plain_session(parts: &Parts) -> Option<SessionId> {
    const VERSION: &str = "mcp-protocol-version";
    let text = |name: &str| parts.headers.get(name).and_then(|it| it.to_str().ok());
    let accept = text("accept")?;
    let plain = parts.method == Method::POST
        && accept.contains("application/json")
        && accept.contains("text/event-stream")
        && text("content-type") == Some("application/json")
        && parts.headers.keys().all(|it| !it.as_str().starts_with("mcp-") || it == SESSION || it == VERSION)
        && text(VERSION).is_none_or(era::names_legacy);
    text(SESSION).filter(|_| plain).map(Into::into)
}

/// Joins the two events of an SDK answer, which would otherwise be sent in two packets with two
/// wake-ups. Most calls end within this time.
async fn gather(mut body: BoxBody<Bytes, Infallible>) -> Body {
    let mut pieces: Vec<Bytes> = Vec::new();
    let patience = tokio::time::sleep(AT_ONCE);
    tokio::pin!(patience);
    loop {
        tokio::select! {
            biased;
            frame = body.frame() => match frame.map(|Ok(frame)| frame.into_data()) {
                Some(Ok(piece)) => pieces.push(piece),
                // Trailers, which the SDK never sends.
                Some(Err(_)) => {}
                None => return Body::from(pieces.concat()),
            },
            () = &mut patience => {
                let first = stream::iter(pieces.into_iter().map(Ok::<Bytes, Infallible>));
                return Body::from_stream(first.chain(body.into_data_stream()));
            }
        }
    }
}

/// The SDK's sessions, at most [`MAX_SESSIONS`]: a new one replaces the one unused for longest.
pub struct CappedSessions {
    inner: LocalSessionManager,
    used: Mutex<Uses>,
    /// The SDK ends a session after this time without a request.
    idle: Duration,
}

#[derive(Default)]
struct Uses {
    count: u64,
    last: HashMap<SessionId, Use>,
}

struct Use {
    at: u64,
    seat: Seat,
    /// The token that opened the session, once the session id is known to a client.
    owner: Option<String>,
    /// When the SDK last saw a request of this session. It does not see calls answered here.
    heard: Instant,
}

impl CappedSessions {
    fn new(idle: Duration) -> Self {
        let mut inner = LocalSessionManager::default();
        // A model may pause for a long time between two calls.
        inner.session_config = SessionConfig::default();
        inner.session_config.keep_alive = Some(idle);
        Self { inner, used: Mutex::default(), idle }
    }

    fn touch(&self, id: &SessionId) {
        let mut used = self.used.lock();
        used.count += 1;
        let at = used.count;
        match used.last.get_mut(id) {
            Some(last) => last.at = at,
            None => {
                used.last.insert(Arc::clone(id), Use { at, seat: Seat::default(), owner: None, heard: Instant::now() });
            }
        }
    }

    /// The handler that answers calls of this session directly. Sometimes `None`, so that the SDK
    /// sees a request and does not consider a used session idle.
    fn seat(&self, id: &SessionId) -> Option<Seat> {
        let mut used = self.used.lock();
        let last = used.last.get_mut(id)?;
        if last.heard.elapsed() >= self.idle / 4 {
            last.heard = Instant::now();
            return None;
        }
        Some(last.seat.clone())
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
        let mut message = message;
        if let (JsonRpcMessage::Request(request), Some(seat)) = (&mut message, self.seat(id))
            && seat.is_empty()
        {
            request.request.extensions_mut().insert(seat);
        }
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
