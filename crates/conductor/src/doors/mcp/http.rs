//! MCP over HTTP at `/mcp`: the SDK's service behind our guards, with a bound on its sessions.
//!
//! Not here: the listener, Host and Origin, which every route shares (`doors/http`).

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tower_service::Service as _;

use super::{McpDoor, Shared};
use crate::doors::http::{Authority, Tokens, refuse, refuse_after};
use crate::doors::session::Who;

const MAX_SESSIONS: usize = 64;
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What is answered within this time goes out in one piece; later, as it comes.
const AT_ONCE: Duration = Duration::from_millis(2);

#[derive(Clone)]
pub struct McpHttp {
    service: StreamableHttpService<McpDoor, CappedSessions>,
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
            // A second belt: our own guard has looked at every header already.
            .with_allowed_hosts(authority.host_names())
            .enforce_origin_validation()
            .with_allowed_origins(authority.origins());
        let idle = Duration::from_secs(shared.studio.settings().mcp.session_idle_s);
        let factory = Arc::clone(shared);
        let service = StreamableHttpService::new(
            // Who calls is in each request; the name here is never used.
            move || Ok(McpDoor::new(&factory, Who::Token(String::new()))),
            Arc::new(CappedSessions::new(idle)),
            config,
        );
        Self { service, tokens: Arc::clone(tokens), shared: Arc::clone(shared) }
    }

    /// Token, method, size; then the SDK.
    pub async fn handle(mut self, request: Request<Body>) -> Response {
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
        let body = match Limited::new(body, limit).collect().await {
            Ok(body) => body.to_bytes(),
            Err(fault) if fault.is::<LengthLimitError>() => {
                return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the message is too long");
            }
            Err(_) => return refuse(StatusCode::BAD_REQUEST, "the body did not arrive"),
        };
        parts.extensions.insert(Who::Token(who));
        // The token is ours alone: nothing behind this line sees it.
        parts.headers.remove(header::AUTHORIZATION);
        let is_call = parts.method == Method::POST;
        let Ok(response) = self.service.call(Request::from_parts(parts, Full::new(body))).await;
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

/// The SDK writes an answer as a stream of two events, and the first would leave alone, in a packet and a wake-up of its own. Most calls
/// end before anyone could tell.
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

/// The SDK's sessions, at most [`MAX_SESSIONS`] of them: the one unused for longest makes room.
pub struct CappedSessions {
    inner: LocalSessionManager,
    used: Mutex<Uses>,
}

#[derive(Default)]
struct Uses {
    count: u64,
    last: HashMap<SessionId, u64>,
}

impl CappedSessions {
    fn new(idle: Duration) -> Self {
        let mut inner = LocalSessionManager::default();
        // A model may think for a long time between two calls.
        inner.session_config = SessionConfig::default();
        inner.session_config.keep_alive = Some(idle);
        Self { inner, used: Mutex::default() }
    }

    fn touch(&self, id: &SessionId) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.count += 1;
        let count = used.count;
        used.last.insert(Arc::clone(id), count);
    }

    fn forget(&self, id: &SessionId) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).last.remove(id);
    }

    fn oldest(&self) -> Option<SessionId> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.last.iter().min_by_key(|(_, at)| **at).map(|(id, _)| Arc::clone(id))
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
