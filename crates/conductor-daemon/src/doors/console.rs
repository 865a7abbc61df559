//! The console: a web page for a person, and the routes that the page uses.
//!
//! A session starts with a one-time link that a person's terminal printed. Every route except the
//! files of the page needs `Sec-Fetch-Site: same-origin` and, except the login, the key of a
//! session in a header. There is no cookie, because cookies ignore ports: any other server on this
//! machine would receive them. No bearer token opens these routes, and no key of a session opens a
//! route of AI clients. `console/contract.d.ts` describes everything that the page reads and sends.
//!
//! Not here: checks of Host and Origin (`doors::http`), and the recognition of a person
//! (`control::person`).

mod announce;
mod call;
mod decide;
pub mod feed;
pub(super) mod files;
mod health;
mod pump;
mod reads;
pub mod sessions;

use self::feed::Feed;
use self::health::Health;
use self::pump::Seen;
use self::sessions::{Ended, IDLE_MS, LINK_MS, LoggedIn, OpenStream, SESSION_MS, Session};
use crate::doors::control::Control;
use crate::doors::http::{read_body, refuse, refuse_after};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use conductor_core::audit::record::EventName;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::script::{self, Step};
use conductor_core::event::{Body as EventBody, Micros};
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::pipeline::approval::ApproverPresent;
use conductor_gateway::studio::Studio;
use conductor_hosts::atomic_file;
use conductor_hosts::connection_limits::HttpConnection;
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

pub const KEY_HEADER: &str = "x-conductor-key";
/// Maximum number of open event streams.
const STREAMS: usize = 16;
/// Number of events that are read from the ring at a time.
const BATCH: usize = 64;
const STILL_HERE: Duration = Duration::from_secs(15);
/// Maximum size of a request body, in bytes.
const MOST_BODY: usize = 1 << 20;
/// Maximum number of events in one request to play.
const MOST_PLAYED: usize = 64;

pub struct Console {
    control: Arc<Control>,
    feed: Feed,
    seen: Mutex<Seen>,
    health: Health,
    streams: Arc<Semaphore>,
    last_failure_s: AtomicU64,
    /// Whether the pump observes every event. Also true after the pump has ended.
    observing: watch::Sender<bool>,
}

impl Console {
    pub fn new(control: &Arc<Control>) -> Arc<Self> {
        Arc::new(Self {
            feed: Feed::new(&control.gateway.studio.scrubber),
            seen: Mutex::default(),
            health: Health::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            last_failure_s: AtomicU64::new(u64::MAX),
            observing: watch::Sender::new(false),
            control: Arc::clone(control),
        })
    }

    /// Starts the tasks of the console. They end with `stop`.
    pub fn start(self: &Arc<Self>, runtime: &tokio::runtime::Handle, stop: &CancellationToken, notifications: bool) {
        runtime.spawn(pump::run(Arc::clone(self), stop.clone()));
        runtime.spawn(health::run(Arc::clone(self), stop.clone()));
        if notifications {
            runtime.spawn(announce::run(Arc::clone(self), stop.clone()));
        }
    }

    fn studio(&self) -> &Arc<Studio> {
        &self.control.gateway.studio
    }

    /// Records at most one failed login or wrong key per second.
    async fn note_failure(&self) {
        let now = self.studio().now_ms() / 1000;
        if self.last_failure_s.swap(now, Ordering::Relaxed) != now {
            let _ = self.studio().audit_event(None, EventName::AuthFailed, json!({ "door": "console" })).await;
        }
    }

    async fn log_in(self: Arc<Self>, body: Body) -> Result<Response, Refusal> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Login {
            secret: String,
        }
        let Login { secret } = read(body).await?;
        let Some(LoggedIn { key, session }) = self.control.gateway.consoles.log_in(&secret) else {
            self.note_failure().await;
            return Err(Refusal::Status(StatusCode::UNAUTHORIZED, "this link was used or has expired"));
        };
        // A page reads the state once, and then only its changes. A change between this answer and
        // the start of the pump would be lost.
        let _ = self.observing.subscribe().wait_for(|it| *it).await;
        let studio = Arc::clone(self.studio());
        let opened = json!({ "session": session.name });
        let _ = studio.audit_event(Some(session.person()), EventName::ConsoleOpened, opened).await;
        let (console, ending) = (Arc::clone(&self), Arc::clone(&session));
        tokio::spawn(async move { console.when_over(&ending).await });
        let ends = studio.timestamp().plus_millis(SESSION_MS);
        Ok(plain(&json!({ "key": key, "session": session.name, "expires_at": ends, "idle_ms": IDLE_MS })))
    }

    /// Waits for the end of a session, then releases its pressed pads and its connection.
    async fn when_over(&self, session: &Session) {
        loop {
            tokio::select! {
                () = session.over.cancelled() => break,
                // End the session at its time limit, even if no request arrives.
                () = self.studio().sleeper.until(session.ends()) => self.control.gateway.consoles.reap(),
            }
        }
        self.release(session).await;
        self.studio().connection_ended(session.conn);
        let detail = json!({ "session": session.name, "reason": session.why() });
        let _ = self.studio().audit_event(Some(session.person()), EventName::ConsoleEnded, detail).await;
        self.feed.push("sessions", json!({ "sessions": self.control.gateway.consoles.list() }));
    }

    /// Releases the virtual pads that a page left pressed.
    async fn release(&self, session: &Session) {
        let held = std::mem::take(&mut *session.playing.lock());
        for (device, token) in held {
            if let Ok(body) = conductor_gateway::owner_handle::one_event(&token) {
                // If the device is gone, nothing is held.
                let _ = self.control.handle.inject(device, vec![body]).await;
            }
        }
    }

    async fn play(&self, session: &Session, body: Body) -> Result<Response, Refusal> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Play {
            device: Option<String>,
            events: String,
        }
        let Play { device, events } = read(body).await?;
        let bodies = playable(&events)?;
        {
            let mut playing = session.playing.lock();
            for body in &bodies {
                if let Some((release, down)) = release_of(body) {
                    let held = (device.clone(), release);
                    if down {
                        playing.insert(held)
                    } else {
                        playing.remove(&held)
                    };
                }
            }
        }
        Ok(plain(&json!(self.control.handle.inject(device, bodies).await?)))
    }

    async fn events(self: Arc<Self>, session: Arc<Session>, since: u64) -> Response {
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many event streams are open; close one first");
        };
        let pages = PageStream {
            news: self.feed.watch(),
            ready: VecDeque::new(),
            since,
            open: Some(session.open_stream()),
            over: false,
            present: self.studio().approvals.attend(),
            permit,
            console: self,
        };
        let mut response =
            Sse::new(pages.into_stream()).keep_alive(KeepAlive::new().interval(STILL_HERE)).into_response();
        response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }
}

/// One open event stream. While it is open, an approver counts as present.
struct PageStream {
    console: Arc<Console>,
    open: Option<OpenStream>,
    news: watch::Receiver<u64>,
    ready: VecDeque<Event>,
    since: u64,
    over: bool,
    #[expect(dead_code, reason = "an approver is present while the stream is open")]
    present: ApproverPresent,
    #[expect(dead_code, reason = "counts the stream while it is open")]
    permit: OwnedSemaphorePermit,
}

impl PageStream {
    fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        futures_util::stream::unfold(self, |mut it| async move {
            let event = it.next().await?;
            Some((Ok(event), it))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            let session = Arc::clone(self.open.as_ref()?.session());
            if session.over.is_cancelled() {
                self.over = true;
                let ended = json!({ "reason": session.why() });
                return Some(Event::default().event("ended").data(ended.to_string()));
            }
            // Mark the news as seen before reading, so that later news wakes this stream again.
            self.news.borrow_and_update();
            let read = self.console.feed.read(self.since, BATCH);
            if read.missed > 0 {
                // Continue after the newest event, because the page reads the whole state again.
                self.since = read.last;
                let behind = json!({ "missed": read.missed });
                return Some(Event::default().id(read.last.to_string()).event("behind").data(behind.to_string()));
            }
            if let Some(last) = read.items.last() {
                self.since = last.seq;
                self.ready.extend(
                    read.items.iter().map(|it| Event::default().id(it.seq.to_string()).event(it.name).data(&it.data)),
                );
                continue;
            }
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                () = session.over.cancelled() => {}
            }
        }
    }
}

impl Drop for PageStream {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let is_last = open.is_last();
        let session = Arc::clone(open.session());
        drop(open);
        if is_last
            && !session.over.is_cancelled()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            session.set_in_front(false);
            let console = Arc::clone(&self.console);
            runtime.spawn(async move { console.release(&session).await });
        }
    }
}

/// The events of a script without times, devices and modes.
fn playable(events: &str) -> Result<Vec<EventBody>, ToolError> {
    let bad = |why: String| ToolError::new(Code::BadInput, why).subject(Subject::Argument("events".into()));
    let steps = script::parse(events)
        .map_err(|faults| bad(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    if steps.is_empty() || steps.len() > MOST_PLAYED {
        return Err(bad(format!("send 1 to {MOST_PLAYED} events")));
    }
    steps
        .into_iter()
        .map(|step| match step {
            Step::Event(body) => Ok(body),
            Step::Device(_) | Step::Mode(_) | Step::Advance(_) => {
                Err(bad("only events can be played, without t:, dev: and mode:".to_owned()))
            }
        })
        .collect()
}

/// The script token of the event that releases this control, and whether `body` presses it.
fn release_of(body: &EventBody) -> Option<(String, bool)> {
    if let EventBody::NoteOn { channel, note, .. } = body {
        Some((format!("off:{note}/{channel}"), true))
    } else if let EventBody::NoteOff { channel, note, .. } = body {
        Some((format!("off:{note}/{channel}"), false))
    } else if let EventBody::ButtonDown(button) = body {
        Some((script::token(&EventBody::ButtonUp(*button)), true))
    } else if matches!(body, EventBody::ButtonUp(_)) {
        Some((script::token(body), false))
    } else {
        None
    }
}

/// Why a request was not answered.
pub(super) enum Refusal {
    Status(StatusCode, &'static str),
    Tool(ToolError),
    Response(Response),
}

impl From<ToolError> for Refusal {
    fn from(error: ToolError) -> Self {
        Refusal::Tool(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Refusal::Status(status, reason) => refuse_without_challenge(status, reason),
            Refusal::Tool(error) => failed(&error),
            Refusal::Response(response) => response,
        }
    }
}

/// A refusal without `WWW-Authenticate`: a browser would show its own dialog.
fn refuse_without_challenge(status: StatusCode, reason: &str) -> Response {
    let code = if status == StatusCode::UNAUTHORIZED { Code::Denied } else { Code::BadInput };
    let body = json!({
        "error": reason, "code": code, "message": reason, "subject": null,
        "hint": "Open the console again with the link of `conductor console`.",
    });
    (status, axum::Json(body)).into_response()
}

/// An answer in JSON. The caller has scrubbed it.
pub(super) fn plain(value: &Value) -> Response {
    axum::Json(value).into_response()
}

fn failed(error: &ToolError) -> Response {
    let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(error.to_wire())).into_response()
}

/// Reads a JSON body.
pub(super) async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Refusal> {
    let bytes = read_body(body, MOST_BODY).await.map_err(Refusal::Response)?;
    let bytes = if bytes.trim_ascii().is_empty() { b"{}".as_slice() } else { &bytes };
    serde_json::from_slice(bytes)
        .map_err(|error| ToolError::new(Code::BadInput, format!("the body is not valid: {error}")).into())
}

/// The routes of the console, and the files of its page.
pub fn routes(console: &Arc<Console>) -> Router {
    type Here = State<Arc<Console>>;
    let guarded = Router::new()
        .route("/console/logout", post(async |State(console): Here, session: Mine| console.log_out(&session.0)))
        .route("/console/state", get(async |State(console): Here, session: Mine| console.state(&session.0).await))
        .route(
            "/console/events",
            get(async |State(console): Here, session: Mine, request: Request| {
                let since = since(&request);
                console.events(session.0, since).await
            }),
        )
        .route(
            "/console/call/{tool}",
            post(async |State(console): Here, session: Mine, Path(tool): Path<String>, body: Body| {
                console.call(&session.0, tool, body).await
            }),
        )
        .route(
            "/console/decide",
            post(async |State(console): Here, session: Mine, body: Body| console.decide(&session.0, body).await),
        )
        .route(
            "/console/play",
            post(async |State(console): Here, session: Mine, body: Body| console.play(&session.0, body).await),
        )
        .route("/console/front", post(async |session: Mine, body: Body| front(&session.0, body).await))
        .route(
            "/console/read/{name}",
            post(async |State(console): Here, session: Mine, Path(name): Path<String>, body: Body| {
                console.read(&session.0, &name, body).await
            }),
        )
        .layer(middleware::from_fn_with_state(Arc::clone(console), needs_session))
        .route("/console/login", post(async |State(console): Here, body: Body| console.log_in(body).await))
        .layer(middleware::from_fn(needs_same_origin))
        .with_state(Arc::clone(console));
    Router::new()
        .route("/", get(async || files::page()))
        .route("/assets/{*path}", get(async |Path(path): Path<String>| files::asset(&path)))
        .merge(guarded)
        .layer(middleware::map_response(harden))
}

async fn front(session: &Session, body: Body) -> Result<Response, Refusal> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Front {
        visible: bool,
    }
    let Front { visible } = read(body).await?;
    session.set_in_front(visible);
    Ok(plain(&json!({})))
}

/// The session of the request, which [`needs_session`] has found.
struct Mine(Arc<Session>);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for Mine {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut http::request::Parts, _state: &S) -> Result<Self, Response> {
        let session = parts.extensions.get::<Arc<Session>>().cloned();
        session.map(Mine).ok_or_else(|| refuse_without_challenge(StatusCode::UNAUTHORIZED, NO_KEY))
    }
}

const NO_KEY: &str = "this route needs the key of a console session";

/// Refuses requests that our own page did not make. A browser sets `Sec-Fetch-Site` itself, and no
/// script can change it.
pub(super) async fn needs_same_origin(request: Request, next: Next) -> Response {
    let headers = request.headers();
    if only(headers, "sec-fetch-site") != Some("same-origin") {
        let why = "only the page of this server may use this route";
        return refuse_after(request.into_body(), StatusCode::FORBIDDEN, why).await;
    }
    let is_json = only(headers, header::CONTENT_TYPE.as_str())
        .is_some_and(|it| it.split(';').next().is_some_and(|it| it.trim() == "application/json"));
    if request.method() == Method::POST && !is_json {
        return refuse_after(request.into_body(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json").await;
    }
    next.run(request).await
}

async fn needs_session(State(console): State<Arc<Console>>, mut request: Request, next: Next) -> Response {
    let key = only(request.headers(), KEY_HEADER);
    let Some(session) = key.and_then(|key| console.control.gateway.consoles.find(key)) else {
        if key.is_some() {
            console.note_failure().await;
        }
        let refusal = refuse_without_challenge(StatusCode::UNAUTHORIZED, NO_KEY);
        // Read the rest of the request first, so that the page receives the refusal.
        let _ = refuse_after(request.into_body(), StatusCode::UNAUTHORIZED, NO_KEY).await;
        return refusal;
    };
    if let Some(connection) = request.extensions().get::<HttpConnection>() {
        connection.mark_known();
    }
    request.extensions_mut().insert(session);
    next.run(request).await
}

/// The value of a header that occurs exactly once.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (_, _) => None,
    }
}

fn since(request: &Request) -> u64 {
    let query = request.uri().query().unwrap_or_default();
    let named = query.split('&').find_map(|it| it.strip_prefix("since="));
    named.or_else(|| only(request.headers(), "last-event-id")).and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// Headers of every answer of the console. They forbid inline scripts, other origins and frames.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

pub(super) async fn harden(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        if name != "cache-control" || !response.headers().contains_key(header::CACHE_CONTROL) {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

impl Console {
    fn log_out(&self, session: &Session) -> Response {
        self.control.gateway.consoles.end(Some(&session.name), Ended::Logout);
        plain(&json!({}))
    }
}

/// A new one-time link for a person. With `open`, writes a redirect file that only the user can
/// read and returns its path: the arguments of a browser are visible to every process.
pub fn link(control: &Control, person: &Principal, open: bool) -> Result<Value, ToolError> {
    let http = &control.gateway.http;
    let Some(address) = http.served().first().copied() else {
        let why = http.fault().unwrap_or_else(|| "no HTTP listener is open".to_owned());
        return Err(ToolError::new(Code::HostOffline, format!("the console is not served: {why}"))
            .subject(Subject::Host("http".into()))
            .hint("Choose a free address with `conductor up --http` or [http] bind."));
    };
    let Principal::Person { uid } = person else {
        return Err(ToolError::new(Code::Denied, "only a person can open the console"));
    };
    let page = format!("{}/", http.url(address));
    let studio = &control.gateway.studio;
    let ends = studio.timestamp().plus_millis(LINK_MS);
    let (secret, file) = control.gateway.consoles.link(*uid, |secret| {
        if !open {
            return Ok(None);
        }
        let name = format!("console-{}.html", studio.ids.v4().simple());
        let path = control.home.root().join("state").join(name);
        let text = redirect(&format!("{page}#login={secret}"));
        atomic_file::replace(&path, text.as_bytes(), 0o600, &studio.ids.v4().to_string())
            .map_err(|error| ToolError::new(Code::Internal, format!("{}: {error}", path.display())))?;
        Ok::<_, ToolError>(Some(path))
    })?;
    let mut link = json!({ "page": page, "expires_at": ends, "seconds": LINK_MS / 1000 });
    match file {
        Some(file) => link["file"] = json!(file),
        None => link["link"] = format!("{page}#login={secret}").into(),
    }
    Ok(link)
}

/// A page that opens the link at once. No character of the link has a meaning in HTML.
fn redirect(link: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\"><title>Conductor</title>\n\
         <p><a href=\"{link}\" rel=\"noreferrer\">Open the console</a></p>\n"
    )
}

/// Ends one session, or all sessions and links.
pub fn revoke(control: &Control, session: Option<&str>) -> Result<Value, ToolError> {
    let ended = control.gateway.consoles.end(session, Ended::Revoked);
    match session {
        Some(name) if ended == 0 => {
            Err(ToolError::new(Code::NotFound, format!("there is no console session {name:?}"))
                .hint("`conductor console sessions` lists the sessions."))
        }
        Some(_) | None => Ok(json!({ "ended": ended })),
    }
}

/// The wall time at which the daemon's clock was zero.
fn epoch_ms(studio: &Studio) -> u64 {
    studio.clock.wall_ms().saturating_sub(studio.clock.now().0 / 1000)
}

/// The start of the daemon's clock. A query for firings since this time returns all of them.
const EVER: Micros = Micros(0);

fn now(studio: &Studio) -> Timestamp {
    studio.timestamp()
}
