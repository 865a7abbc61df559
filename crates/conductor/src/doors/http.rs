//! The HTTP door: one listener, one router, and the guards every route stands behind.
//!
//! Host and Origin are checked before routing, on every path: a page on another site that reaches this port by DNS rebinding gets 403
//! and learns nothing. There are no CORS headers. Not here: what a route does.

pub mod plain;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use conductor_core::audit::record::EventName;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::mcp::Shared;
use super::mcp::http::McpHttp;
use super::seats::{Seat, Seats, peer_of};
use crate::outside::Ids;
use crate::studio::Studio;

const UNREAD: usize = 256 * 1024;
const UNREAD_PATIENCE: Duration = Duration::from_secs(1);
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// One token: only its digest is kept.
#[derive(Debug, Clone)]
pub struct Token {
    pub name: String,
    pub hash: [u8; 32],
    pub scopes: BTreeSet<String>,
}

impl Token {
    pub fn new(name: &str, secret: &str, scopes: &[&str]) -> Self {
        let scopes = scopes.iter().map(|it| (*it).to_owned()).collect();
        Self { name: name.to_owned(), hash: Sha256::digest(secret.as_bytes()).into(), scopes }
    }
}

#[derive(Debug, Default)]
pub struct Tokens {
    tokens: Vec<Token>,
    last_failure_s: AtomicU64,
}

impl Tokens {
    pub fn new(tokens: Vec<Token>) -> Arc<Self> {
        Arc::new(Self { tokens, last_failure_s: AtomicU64::new(u64::MAX) })
    }

    /// The name of the token in `Authorization`, if it has the scope. Every known token is compared, each in constant time.
    pub fn check(&self, headers: &HeaderMap, scope: &str) -> Option<String> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (given.next(), given.next()) else { return None };
        let value = value.to_str().ok()?;
        let (scheme, secret) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let hash: [u8; 32] = Sha256::digest(secret.trim().as_bytes()).into();
        let mut found = None;
        for token in &self.tokens {
            let same: Choice = token.hash.ct_eq(&hash);
            if bool::from(same) && token.scopes.contains(scope) {
                found = Some(token.name.clone());
            }
        }
        found
    }

    /// At most one record a second: a guesser must not fill the log.
    pub async fn note_failure(&self, studio: &Studio) {
        let now = studio.now_ms() / 1000;
        if self.last_failure_s.swap(now, Ordering::Relaxed) != now {
            let _ = studio.audit.event(None, EventName::AuthFailed, json!({ "door": "http" })).await;
        }
    }
}

/// The token every home has: made at the first start, in clear for its owner only.
pub fn default_token(home: &Path, ids: &dyn Ids) -> io::Result<Token> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let folder = home.join("state");
    let path = folder.join("http.token");
    let secret = match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().to_owned(),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(&folder)?;
            let mut bytes = [0; 32];
            ids.fill(&mut bytes);
            let secret = URL_SAFE_NO_PAD.encode(bytes);
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(secret.as_bytes())?;
            file.sync_all()?;
            secret
        }
        Err(other) => return Err(other),
    };
    Ok(Token::new("default", &secret, &["call", "observe"]))
}

/// Which names this listener answers to.
#[derive(Debug, Clone)]
pub struct Authority {
    port: u16,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Authority {
    pub fn new(port: u16, hosts: Vec<String>, origins: Vec<String>) -> Self {
        Self { port, hosts, origins }
    }

    const LOOPBACK: [&'static str; 3] = ["localhost", "127.0.0.1", "[::1]"];

    pub fn host_names(&self) -> Vec<String> {
        Self::LOOPBACK.iter().map(|it| (*it).to_owned()).chain(self.hosts.iter().cloned()).collect()
    }

    pub fn origins(&self) -> Vec<String> {
        let own = Self::LOOPBACK.iter().map(|host| format!("http://{host}:{}", self.port));
        own.chain(self.origins.iter().cloned()).collect()
    }

    /// Why the request must not go on.
    fn fault(&self, headers: &HeaderMap, uri_authority: Option<&str>) -> Option<&'static str> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok(),
            // An absolute target carries its host itself.
            (None, None) => uri_authority,
            (Some(_) | None, Some(_)) => return Some("more than one Host"),
        };
        let Some(host) = host else { return Some("no usable Host") };
        let ours = Self::LOOPBACK.iter().any(|name| {
            host.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).and_then(|port| port.parse().ok())
                == Some(self.port)
        });
        if !ours && !self.hosts.iter().any(|name| name.eq_ignore_ascii_case(host)) {
            return Some("this Host is not served here");
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => None,
            (Some(origin), None) => {
                let known = origin.to_str().is_ok_and(|origin| self.origins().iter().any(|it| it == origin));
                (!known).then_some("this Origin may not call here")
            }
            (Some(_), Some(_)) => Some("more than one Origin"),
        }
    }
}

/// A refusal as JSON, so that a client's log says why.
pub fn refuse(status: StatusCode, reason: &str) -> Response {
    let mut response = (status, axum::Json(json!({ "error": reason }))).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Reads what the peer is still sending before it is refused: closing on unread bytes resets the connection, and the peer would see
/// that instead of the reason. Bounded in size and time.
pub async fn refuse_after(body: Body, status: StatusCode, reason: &str) -> Response {
    let rest = Limited::new(body, UNREAD).collect();
    let _ = tokio::time::timeout(UNREAD_PATIENCE, rest).await;
    refuse(status, reason)
}

async fn guard(State(authority): State<Arc<Authority>>, request: Request, next: Next) -> Response {
    let uri_authority = request.uri().authority().map(|it| it.as_str());
    if let Some(reason) = authority.fault(request.headers(), uri_authority) {
        return refuse_after(request.into_body(), StatusCode::FORBIDDEN, reason).await;
    }
    next.run(request).await
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    match shared.studio.audit.up() {
        Ok(()) => axum::Json(json!({ "status": "ok" })).into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, axum::Json(json!({ "status": "degraded" }))).into_response(),
    }
}

/// Everything this listener serves. `more` are routes of other modules; they stand behind the same guard.
pub fn router(shared: &Arc<Shared>, tokens: &Arc<Tokens>, authority: Authority, more: Router) -> Router {
    let mcp = Arc::new(McpHttp::new(shared, tokens, &authority));
    Router::new()
        .route("/mcp", any(move |request: Request<Body>| Arc::clone(&mcp).handle(request)))
        .route("/health", get(health).with_state(Arc::clone(shared)))
        .merge(plain::routes(shared, tokens))
        .merge(more)
        .fallback(|request: Request| {
            refuse_after(request.into_body(), StatusCode::NOT_FOUND, "nothing is served at this path")
        })
        .method_not_allowed_fallback(|| async { refuse(StatusCode::METHOD_NOT_ALLOWED, "not with this method") })
        .layer(middleware::from_fn_with_state(Arc::clone(&shared.clients), seat))
        .layer(middleware::from_fn_with_state(Arc::new(authority), guard))
}

/// Both ends of a connection, and the process of a client that spoke on it.
struct Ends {
    peer: SocketAddr,
    ours: SocketAddr,
    seat: OnceCell<Option<Seat>>,
}

/// A local process that shows a token is an AI client. It is looked up once per connection, before its first request is answered.
async fn seat(State(seats): State<Arc<Seats>>, request: Request, next: Next) -> Response {
    if request.headers().contains_key(header::AUTHORIZATION)
        && let Some(ends) = request.extensions().get::<Arc<Ends>>().cloned()
    {
        let (peer, ours) = (ends.peer, ends.ours);
        ends.seat
            .get_or_init(|| async move {
                let found = tokio::task::spawn_blocking(move || peer_of(peer, ours)).await;
                found.ok().flatten().and_then(|pid| seats.take(pid))
            })
            .await;
    }
    next.run(request).await
}

/// Opens the port; loopback is the caller's duty to check.
pub async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Serves until told to stop; open streams end with it.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let ends = stream.local_addr().ok().map(|ours| Arc::new(Ends { peer, ours, seat: OnceCell::new() }));
        let router = match ends {
            Some(ends) => router.clone().layer(axum::Extension(ends)),
            None => router.clone(),
        };
        let service = TowerToHyperService::new(router);
        let stop = stop.clone();
        tokio::spawn(async move {
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = connection => {}
                () = stop.cancelled() => {}
            }
        });
    }
}
