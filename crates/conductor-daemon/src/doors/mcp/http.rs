//! Serves MCP over HTTP at `/mcp`: one message per POST.
//!
//! The answer to a request is one JSON object. It becomes an event stream if the request reports
//! progress, asks its client, or takes longer than `ONE_PIECE`. Not here: the listener, and the
//! Host and Origin checks that all routes share (`doors/http`), sessions (`http_session`), and the
//! work of a request (`methods`).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use conductor_core::config::ToolView;
use futures_util::{StreamExt as _, stream};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use rmcp::model::{ClientRequest, RequestId};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::era::Era;
use super::http_session::{EventStream, HttpSession, Sessions, run};
use super::wire::{self, Incoming, LineError};
use super::{McpDoor, Shared, http_headers, subscribe};
use crate::doors::http::{Token, Tokens, mark_known, read_body, refuse, refuse_after};
use crate::doors::session::{View, Wanted, Who};

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A request that has not ended after this time is answered with an event stream, whose comments
/// keep proxies from closing the connection.
const ONE_PIECE: Duration = Duration::from_secs(1);
const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

pub struct McpHttp {
    sessions: Arc<Sessions>,
    tokens: Arc<Tokens>,
    shared: Arc<Shared>,
}

impl McpHttp {
    pub fn new(shared: &Arc<Shared>, tokens: &Arc<Tokens>) -> Arc<Self> {
        let idle = Duration::from_secs(shared.studio.settings().mcp.session_idle_s);
        let sessions = Arc::new(Sessions::new(idle));
        Arc::new(Self { sessions, tokens: Arc::clone(tokens), shared: Arc::clone(shared) })
    }

    /// `/mcp`, and a path for each view: `/mcp/x/NAME`, `/mcp/readonly` and `/mcp/x/NAME/readonly`.
    pub fn routes(self: Arc<Self>) -> Router {
        let at = |view: Option<ToolView>, read_only: bool| {
            let door = Arc::clone(&self);
            any(move |request: Request<Body>| door.handle(request, Wanted { view, read_only, ..Wanted::default() }))
        };
        let plain = Router::new().route("/mcp", at(None, false)).route("/mcp/readonly", at(None, true));
        ToolView::ALL.iter().fold(plain, |routes, view| {
            let path = format!("/mcp/x/{view}");
            routes.route(&path, at(Some(*view), false)).route(&format!("{path}/readonly"), at(Some(*view), true))
        })
    }

    /// Checks token, method and size, in this order, then answers. The path selects the view of a
    /// new session, or of a request without a session.
    async fn handle(self: Arc<Self>, request: Request<Body>, wanted: Wanted) -> Response {
        let token = match self.tokens.admit(&self.shared.studio, request.headers(), "call").await {
            Ok(token) => token,
            Err(refused) => return refused.answer(request.into_body()).await,
        };
        mark_known(&request);
        let wanted = match permitted(wanted, &token) {
            Ok(wanted) => wanted,
            Err(reason) => return refuse_after(request.into_body(), StatusCode::FORBIDDEN, &reason).await,
        };
        if ![Method::POST, Method::GET, Method::DELETE].contains(request.method()) {
            let body = request.into_body();
            return not_allowed(refuse_after(body, StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE").await);
        }
        let limit = self.shared.studio.settings().mcp.max_message_bytes;
        let (parts, body) = request.into_parts();
        let answered = match read_body(body, limit).await {
            Ok(body) => self.answer(&parts, &body, &token, &wanted).await,
            Err(refused) => Err(refused),
        };
        let mut response = answered.unwrap_or_else(|refused| refused);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    async fn answer(&self, parts: &Parts, body: &[u8], token: &Token, wanted: &Wanted) -> Result<Response, Response> {
        let session = match text(&parts.headers, SESSION) {
            Some(id) => {
                let found = self.sessions.find(id, &token.session);
                Some(found.ok_or_else(|| refuse(StatusCode::NOT_FOUND, "there is no such session"))?)
            }
            None => None,
        };
        if parts.method == Method::POST {
            return self.post(&parts.headers, body, (token, wanted), session).await;
        }
        if http_headers::is_modern(&parts.headers).map_err(|error| http_headers::refused(None, error))? {
            let refused = "this protocol version has no sessions: use POST";
            return Err(not_allowed(refuse(StatusCode::METHOD_NOT_ALLOWED, refused)));
        }
        let session = session.ok_or_else(no_session)?;
        if parts.method == Method::DELETE {
            self.sessions.end(&session.id);
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        Ok(self.get(&parts.headers, session, token))
    }

    async fn post(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        (token, wanted): (&Token, &Wanted),
        session: Option<Arc<HttpSession>>,
    ) -> Result<Response, Response> {
        if !(accepts(headers, JSON) && accepts(headers, EVENTS)) {
            let refused = "Accept must contain application/json and text/event-stream";
            return Err(refuse(StatusCode::NOT_ACCEPTABLE, refused));
        }
        if !text(headers, header::CONTENT_TYPE.as_str()).is_some_and(|it| it.starts_with(JSON)) {
            return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json"));
        }
        let message = match wire::read(body) {
            Ok(Some(message)) => message,
            // A notification that cannot be parsed gets no answer.
            Ok(None) => return Ok(StatusCode::ACCEPTED.into_response()),
            Err(error) => return Err(bad_line(error)),
        };
        let id = match &message {
            Incoming::Request(id, _) | Incoming::Reply(id, _) => Some(id),
            Incoming::Notification(_) => None,
        };
        let era = http_headers::check(headers, &message, &self.shared.studio)
            .map_err(|error| http_headers::refused(id, error))?;
        match (era, message) {
            (Era::Modern, Incoming::Request(id, request)) => {
                Ok(self.alone(id, *request, self.door(token, wanted)).await)
            }
            (Era::Modern, Incoming::Notification(_)) => Ok(StatusCode::ACCEPTED.into_response()),
            (Era::Modern, Incoming::Reply(..)) => Err(refuse(
                StatusCode::BAD_REQUEST,
                "a response is not accepted: in this protocol version, the server sends no requests to the client",
            )),
            (Era::Legacy, Incoming::Request(id, request)) if session.is_none() && is_initialize(&request) => {
                Ok(self.open(id, *request, token, wanted).await)
            }
            (Era::Legacy, message) => session.ok_or_else(no_session)?.take(message, &self.shared).await,
        }
    }

    /// Answers a request that carries its own version and capabilities. Such a request is cancelled
    /// when its client disconnects.
    async fn alone(&self, id: RequestId, request: ClientRequest, door: Arc<McpDoor>) -> Response {
        let cancel = self.shared.stop.child_token();
        let guard = cancel.clone().drop_guard();
        let stream = EventStream::new(0);
        tokio::spawn(run(door, None, (id, request), cancel, Arc::clone(&stream)));
        respond(&stream, &self.shared.stop, Some(guard)).await
    }

    /// The state of a client with this view.
    fn door(&self, token: &Token, wanted: &Wanted) -> Arc<McpDoor> {
        let door = McpDoor::new(&self.shared, Who::Token(token.principal.clone()));
        // A path cannot contain the name of a toolset, so this does not fail.
        if let Ok(view) = View::of(&self.shared.studio, wanted) {
            door.session.set_view(view.within(&self.shared.studio, token));
        }
        door
    }

    /// Opens a session for a client of the legacy era.
    async fn open(&self, id: RequestId, request: ClientRequest, token: &Token, wanted: &Wanted) -> Response {
        let session = self.sessions.open(&self.shared, token.session.clone(), self.door(token, wanted));
        let taken = Arc::clone(&session).take(Incoming::Request(id, Box::new(request)), &self.shared).await;
        let mut response = taken.unwrap_or_else(|refused| refused);
        match HeaderValue::from_str(&session.id) {
            Ok(id) if session.is_open() => {
                response.headers_mut().insert(SESSION, id);
            }
            Ok(_) | Err(_) => self.sessions.end(&session.id),
        }
        response
    }

    /// Answers a GET with the change notifications of a session, or with the rest of a response
    /// stream whose connection broke.
    fn get(&self, headers: &HeaderMap, session: Arc<HttpSession>, token: &Token) -> Response {
        if !accepts(headers, EVENTS) {
            return refuse(StatusCode::NOT_ACCEPTABLE, "Accept must contain text/event-stream");
        }
        if let Some(last) = text(headers, LAST_EVENT) {
            // An unknown stream is answered with an empty one: after an error a browser would
            // repeat the same request forever.
            let body = session
                .resume(last)
                .map_or_else(Body::empty, |(stream, from)| events(stream, from, self.shared.stop.clone(), None));
            return event_response(body);
        }
        let Ok(changes) = session.changes() else {
            return refuse(StatusCode::CONFLICT, "this session has an open stream of changes");
        };
        let (stop, sessions) = (self.shared.stop.clone(), Arc::clone(&self.sessions));
        let body =
            stream::unfold((session, changes, stop, sessions), |(session, mut changes, stop, sessions)| async move {
                let door = &session.door;
                let text = tokio::select! {
                    () = stop.cancelled() => return None,
                    () = door.session.gone.cancelled() => return None,
                    () = sessions.when_idle(&session) => return None,
                    news = subscribe::legacy_news(&mut changes, &door.subscriptions) => {
                        news.into_iter().map(|it| event(None, &wire::notification(it))).collect()
                    }
                    () = sleep(KEEP_ALIVE) => ": keep-alive\n\n".to_owned(),
                };
                Some((Ok::<_, Infallible>(Bytes::from(text)), (session, changes, stop, sessions)))
            });
        let body = body.take_until(token.end(&self.shared.studio));
        event_response(Body::from_stream(body))
    }
}

/// The view that the client wants, if its token may use it. If the token has views, the
/// first of them is the default. If the token has chosen tools, all of these are listed by default.
fn permitted(mut wanted: Wanted, token: &Token) -> Result<Wanted, String> {
    match wanted.view {
        Some(view) if !token.views.is_empty() && !token.views.contains(&view) => {
            Err(format!("the token \"{}\" may not use the view {view}", token.name))
        }
        None => {
            let has_chosen = !token.tools.iter().any(|it| it == "all");
            wanted.view = token.views.first().copied().or(has_chosen.then_some(ToolView::All));
            Ok(wanted)
        }
        Some(_) => Ok(wanted),
    }
}

/// Waits for the answer, but at most `ONE_PIECE`, and not after an earlier event. Without the
/// answer, the response is an event stream.
pub async fn respond(stream: &Arc<EventStream>, stop: &CancellationToken, guard: Option<DropGuard>) -> Response {
    match timeout(ONE_PIECE, stream.answer_alone()).await {
        Ok(Some((status, answer))) => (status, [(header::CONTENT_TYPE, JSON)], answer).into_response(),
        Ok(None) | Err(_) => event_response(events(Arc::clone(stream), 0, stop.clone(), guard)),
    }
}

/// The events of a stream from number `from` on.
fn events(stream: Arc<EventStream>, from: u64, stop: CancellationToken, guard: Option<DropGuard>) -> Body {
    let body = stream::unfold((stream, from, stop, guard), |(stream, from, stop, guard)| async move {
        let (text, next) = tokio::select! {
            () = stop.cancelled() => return None,
            events = stream.after(from) => {
                let events = events?;
                let next = from + events.len() as u64;
                let numbered = (from..next).zip(&events);
                (numbered.map(|(number, it)| event(Some((stream.id, number)), it)).collect(), next)
            }
            () = sleep(KEEP_ALIVE) => (": keep-alive\n\n".to_owned(), from),
        };
        Some((Ok::<_, Infallible>(Bytes::from(text)), (stream, next, stop, guard)))
    });
    Body::from_stream(body)
}

fn event(id: Option<(u64, u64)>, message: &Bytes) -> String {
    let id = id.map(|(stream, number)| format!("id: {stream}-{number}\n")).unwrap_or_default();
    format!("{id}data: {}\n\n", String::from_utf8_lossy(message))
}

fn event_response(body: Body) -> Response {
    let headers = [(header::CONTENT_TYPE, EVENTS), (header::HeaderName::from_static("x-accel-buffering"), "no")];
    (headers, body).into_response()
}

pub fn bad_line(error: LineError) -> Response {
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, JSON)], error.to_line()).into_response()
}

fn is_initialize(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::InitializeRequest(_))
}

fn no_session() -> Response {
    refuse(StatusCode::BAD_REQUEST, "send initialize first, then repeat its Mcp-Session-Id header")
}

fn not_allowed(mut response: Response) -> Response {
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    response
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|it| it.to_str().ok())
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    text(headers, header::ACCEPT.as_str()).is_some_and(|it| it.contains(kind))
}
