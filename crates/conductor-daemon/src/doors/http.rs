//! The HTTP door: listener, router, and the checks in front of every route.
//!
//! Host and Origin are checked before routing, on every path, so a web page that reaches this port
//! by DNS rebinding receives only a 403. There are no CORS headers. Not here: the routes
//! themselves.

mod authority;
pub mod hooks;
pub mod oauth;
pub mod plain;
pub mod tls;

pub use authority::Authority;
use oauth::Oauth;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use conductor_core::audit::record::EventName;
use conductor_core::config::ToolView;
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio::time::{Sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::client_processes::{ClientProcess, ClientProcesses};
use super::mcp::Shared;
use super::mcp::http::McpHttp;
use conductor_gateway::studio::Studio;
use conductor_hosts::atomic_file;
use conductor_hosts::connection_limits::{HttpConnection, HttpConnections};
use conductor_hosts::system::Ids;
use conductor_hosts::system::open_files::after_failed_accept;
use conductor_hosts::system::processes::tcp_peer;

/// Maximum number of bytes of a refused request that are read before the refusal is sent.
const UNREAD: usize = 256 * 1024;
const UNREAD_PATIENCE: Duration = Duration::from_secs(1);
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const BODY_PATIENCE: Duration = Duration::from_secs(30);
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// One token; only its digest is stored.
#[derive(Debug, Clone)]
pub struct Token {
    pub name: String,
    pub hash: [u8; 32],
    pub scopes: BTreeSet<String>,
    /// Names of the toolsets and tools that exist for the token.
    pub tools: Vec<String>,
    /// The views that the token may list. Empty if all views are allowed.
    pub views: Vec<ToolView>,
    pub expires: Option<Timestamp>,
    /// The principal of calls with this token.
    pub principal: Principal,
    /// Identifies the sessions that the token may use. Two tokens of one person with different
    /// scopes have different sessions.
    pub session: String,
}

impl Token {
    pub fn new(name: &str, secret: &str, scopes: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            hash: Sha256::digest(secret.as_bytes()).into(),
            scopes: scopes.iter().map(|it| (*it).to_owned()).collect(),
            tools: vec!["all".to_owned()],
            views: Vec::new(),
            expires: None,
            principal: Principal::Http { token: name.to_owned() },
            session: name.to_owned(),
        }
    }

    /// Waits until the token expires. Streams end at this time.
    pub fn end(&self, studio: &Studio) -> BoxFuture<'static, ()> {
        let Some(expires) = self.expires else { return Box::pin(std::future::pending()) };
        let left_us = expires.millis_since(studio.timestamp()).saturating_mul(1000);
        studio.sleeper.until(studio.clock.now().plus_us(left_us))
    }
}

/// Why a request without a sufficient token is refused.
#[derive(Debug)]
pub struct Refused {
    pub status: StatusCode,
    pub reason: String,
    /// The value of `WWW-Authenticate`, if it is not `Bearer`.
    pub challenge: Option<String>,
}

impl Refused {
    /// Reads the rest of the request, and then refuses it.
    pub async fn answer(self, body: Body) -> Response {
        let mut response = refuse_after(body, self.status, &self.reason).await;
        if let Some(challenge) = self.challenge.and_then(|it| HeaderValue::from_str(&it).ok()) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

#[derive(Default)]
pub struct Tokens {
    tokens: Vec<Arc<Token>>,
    oauth: Option<Arc<Oauth>>,
    last_failure_s: AtomicU64,
}

impl Tokens {
    pub fn new(tokens: Vec<Token>) -> Arc<Self> {
        Self::with_oauth(tokens, None)
    }

    /// Like [`Tokens::new`]; tokens of an authorization server are accepted too.
    pub fn with_oauth(tokens: Vec<Token>, oauth: Option<Arc<Oauth>>) -> Arc<Self> {
        let tokens = tokens.into_iter().map(Arc::new).collect();
        Arc::new(Self { tokens, oauth, last_failure_s: AtomicU64::new(u64::MAX) })
    }

    /// The token in `Authorization`, if it has this scope and has not expired. Otherwise the reason
    /// for the refusal, which is also recorded.
    pub async fn admit(&self, studio: &Studio, headers: &HeaderMap, scope: &str) -> Result<Arc<Token>, Refused> {
        let refused = match (self.find(headers), &self.oauth) {
            (Some(token), _) if token.expires.is_some_and(|it| studio.timestamp() >= it) => {
                self.unauthorized(format!("the token \"{}\" has expired", token.name))
            }
            (Some(token), _) if token.scopes.contains(scope) => return Ok(token),
            (None, Some(oauth)) if bearer(headers).is_some_and(Oauth::is_for) => {
                match oauth.admit(&*studio.clock, bearer(headers).unwrap_or_default()).await {
                    Ok(token) if token.scopes.contains(scope) => return Ok(token),
                    Ok(_) if scope == "observe" => oauth.may_not_observe(),
                    Ok(_) => oauth.missing_scope(scope),
                    Err(refused) => refused,
                }
            }
            (Some(_) | None, _) => self.unauthorized(format!("a bearer token with the scope {scope} is needed")),
        };
        self.note_failure(studio).await;
        Err(refused)
    }

    fn unauthorized(&self, reason: String) -> Refused {
        let challenge = self.oauth.as_ref().map(|it| it.challenge(""));
        Refused { status: StatusCode::UNAUTHORIZED, reason, challenge }
    }

    /// Whether `Authorization` contains any known token.
    pub fn knows(&self, headers: &HeaderMap) -> bool {
        self.find(headers).is_some()
    }

    /// Compares the token in `Authorization` with every known token, each in constant time.
    fn find(&self, headers: &HeaderMap) -> Option<Arc<Token>> {
        let hash: [u8; 32] = Sha256::digest(bearer(headers)?.as_bytes()).into();
        let mut found = None;
        for token in &self.tokens {
            let same: Choice = token.hash.ct_eq(&hash);
            if bool::from(same) {
                found = Some(Arc::clone(token));
            }
        }
        found
    }

    /// Records at most one failure per second, so that guessing tokens cannot fill the log.
    async fn note_failure(&self, studio: &Studio) {
        let now = studio.now_ms() / 1000;
        if self.last_failure_s.swap(now, Ordering::Relaxed) != now {
            let _ = studio.audit_event(None, EventName::AuthFailed, json!({ "door": "http" })).await;
        }
    }
}

/// The bearer token in `Authorization`, if the header occurs exactly once.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return None };
    let (scheme, secret) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
}

/// Number of random bytes in a token.
const TOKEN_BYTES: usize = 32;

/// The default token of a home. It is created at the first start, in a file that only its owner can
/// read. A truncated token is replaced.
pub fn default_token(home: &Path, ids: &dyn Ids) -> io::Result<Token> {
    let secret = match std::fs::read_to_string(token_file(home)) {
        Ok(text) if is_whole(text.trim()) => text.trim().to_owned(),
        Ok(_) => return new_token(home, ids),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return new_token(home, ids),
        Err(not_text) if not_text.kind() == io::ErrorKind::InvalidData => return new_token(home, ids),
        Err(other) => return Err(other),
    };
    Ok(Token::new("default", &secret, &["call", "observe"]))
}

/// Replaces the default token.
pub fn new_token(home: &Path, ids: &dyn Ids) -> io::Result<Token> {
    let path = token_file(home);
    std::fs::create_dir_all(home.join("state"))?;
    let secret = random_token(ids);
    atomic_file::replace(&path, secret.as_bytes(), 0o600, &ids.v4().to_string())?;
    Ok(Token::new("default", &secret, &["call", "observe"]))
}

/// The text of a new token.
pub fn random_token(ids: &dyn Ids) -> String {
    let mut bytes = [0; TOKEN_BYTES];
    ids.fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn token_file(home: &Path) -> PathBuf {
    home.join("state").join("http.token")
}

fn is_whole(secret: &str) -> bool {
    URL_SAFE_NO_PAD.decode(secret).is_ok_and(|it| it.len() == TOKEN_BYTES)
}

/// A refusal with its reason as JSON, which the client may log.
pub fn refuse(status: StatusCode, reason: &str) -> Response {
    let mut response = (status, axum::Json(json!({ "error": reason }))).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Reads the rest of the request, bounded in size and time, and then refuses it. Closing a
/// connection with unread bytes would reset it, and the peer would not receive the reason.
pub async fn refuse_after(body: Body, status: StatusCode, reason: &str) -> Response {
    let rest = Limited::new(body, UNREAD).collect();
    let _ = timeout(UNREAD_PATIENCE, rest).await;
    refuse(status, reason)
}

struct Guard {
    authority: Authority,
    tokens: Arc<Tokens>,
}

async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let Guard { authority, tokens } = &*guard;
    if let Some(connection) = request.extensions().get::<HttpConnection>()
        && tokens.knows(request.headers())
    {
        connection.mark_known();
    }
    let uri_authority = request.uri().authority().map(|it| it.as_str());
    if let Some(reason) = authority.fault(request.headers(), uri_authority) {
        return refuse_after(request.into_body(), StatusCode::FORBIDDEN, reason).await;
    }
    next.run(request).await
}

/// Marks the connection of an admitted request, so that it is kept when connections are scarce.
pub fn mark_known<B>(request: &http::Request<B>) {
    if let Some(connection) = request.extensions().get::<HttpConnection>() {
        connection.mark_known();
    }
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    match shared.studio.audit_up() {
        Ok(()) => axum::Json(json!({ "status": "ok" })).into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, axum::Json(json!({ "status": "degraded" }))).into_response(),
    }
}

/// All routes of this listener. `more` contains routes of other modules; the same checks apply to
/// them.
pub fn router(shared: &Arc<Shared>, tokens: &Arc<Tokens>, authority: Authority, more: Router) -> Router {
    let mcp = McpHttp::new(shared, tokens);
    let metadata = tokens.oauth.as_ref().map(|it| it.routes()).unwrap_or_default();
    Router::new()
        .merge(mcp.routes())
        .merge(metadata)
        .route("/health", get(health).with_state(Arc::clone(shared)))
        .merge(plain::routes(shared, tokens))
        .merge(more)
        .fallback(|request: Request| {
            refuse_after(request.into_body(), StatusCode::NOT_FOUND, "nothing is served at this path")
        })
        .method_not_allowed_fallback(|| async {
            refuse(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed here")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&shared.clients), register_client))
        .layer(middleware::from_fn_with_state(Arc::new(Guard { authority, tokens: Arc::clone(tokens) }), guard))
}

/// Adds the checks of Host and Origin to the routes of a listener without tokens.
pub fn with_authority(routes: Router, authority: Authority) -> Router {
    routes.layer(middleware::from_fn_with_state(Arc::new(Guard { authority, tokens: Arc::default() }), guard))
}

/// The two addresses of a connection, and the process of the client that uses it.
struct Ends {
    peer: SocketAddr,
    ours: SocketAddr,
    process: OnceCell<Option<ClientProcess>>,
}

/// If a local process sends a token, registers it as an AI client. This happens once per
/// connection, before the first request is answered.
async fn register_client(State(clients): State<Arc<ClientProcesses>>, request: Request, next: Next) -> Response {
    if request.headers().contains_key(header::AUTHORIZATION)
        && let Some(ends) = request.extensions().get::<Arc<Ends>>().cloned()
    {
        let (peer, ours) = (ends.peer, ends.ours);
        ends.process
            .get_or_init(|| async move {
                let found = tokio::task::spawn_blocking(move || tcp_peer(peer, ours)).await;
                found.ok().flatten().and_then(|pid| clients.register(pid))
            })
            .await;
    }
    next.run(request).await
}

/// Opens the port. The caller has checked that the address is allowed.
pub async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Serves requests until `stop`, which also ends open streams.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<TlsAcceptor>,
    connections: Arc<HttpConnections>,
    stop: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                after_failed_accept(&error).await;
                continue;
            }
        };
        let Some(connection) = connections.admit(peer.ip()) else { continue };
        let _ = stream.set_nodelay(true);
        let ends = stream.local_addr().ok().map(|ours| Arc::new(Ends { peer, ours, process: OnceCell::new() }));
        let router = router.clone().layer(Extension(connection.clone()));
        let router = match ends {
            Some(ends) => router.layer(Extension(ends)),
            None => router,
        };
        let (stop, tls) = (stop.clone(), tls.clone());
        tokio::spawn(async move {
            let served = async {
                match tls {
                    None => answer(WriteTimeout::new(stream), Version::Http1, router).await,
                    Some(tls) => answer_encrypted(stream, &tls, router).await,
                }
            };
            tokio::select! {
                () = served => {}
                () = connection.ended() => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

/// Maximum number of concurrent requests on one HTTP/2 connection.
const STREAMS: u32 = 64;

async fn answer<S>(stream: S, version: Version, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, service) = (TokioIo::new(stream), TowerToHyperService::new(router));
    // An error ends only this connection.
    match version {
        Version::Http1 => {
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
            let _ = builder.serve_connection(stream, service).await;
        }
        Version::Http2 => {
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).keep_alive_interval(HEAD_PATIENCE).max_concurrent_streams(STREAMS);
            let _ = builder.serve_connection(stream, service).await;
        }
    }
}

/// The answer to a client that sends plain HTTP to a listener with TLS.
const USE_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\
    Content-Length: 71\r\n\r\n{\"error\":\"this port accepts only HTTPS; use https:// in the address\"}\r\n";

async fn answer_encrypted(mut stream: TcpStream, tls: &TlsAcceptor, router: Router) {
    // A TLS connection starts with a byte that no HTTP method contains.
    let is_plain = async |stream: &TcpStream| {
        let mut first = [0];
        stream.peek(&mut first).await.is_ok_and(|_| first[0].is_ascii_alphabetic())
    };
    if timeout(HEAD_PATIENCE, is_plain(&stream)).await.unwrap_or(false) {
        let _ = stream.write_all(USE_TLS).await;
        let _ = stream.shutdown().await;
        return;
    }
    if let Ok(Ok(stream)) = timeout(HEAD_PATIENCE, tls.accept(WriteTimeout::new(stream))).await {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        answer(stream, if is_http2 { Version::Http2 } else { Version::Http1 }, router).await;
    }
}

/// Reads a whole body, bounded in size and time.
pub async fn read_body(body: Body, limit: usize) -> Result<Bytes, Response> {
    match timeout(BODY_PATIENCE, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "the message is too long"))
        }
        Ok(Err(_)) => Err(refuse(StatusCode::BAD_REQUEST, "the body could not be read")),
        Err(_) => Err(refuse(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    }
}

/// A stream whose writes fail if the peer reads nothing for [`WRITE_PATIENCE`], so that unread
/// answers are not kept forever.
struct WriteTimeout {
    stream: TcpStream,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl WriteTimeout {
    fn new(stream: TcpStream) -> Self {
        WriteTimeout { stream, waiting: None }
    }

    fn bounded<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_PATIENCE)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for WriteTimeout {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for WriteTimeout {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.bounded(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
