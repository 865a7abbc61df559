//! HTTP sessions of legacy clients, and the events of their response streams.
//!
//! A session belongs to the token that opened it; for other tokens it does not exist. Not here:
//! HTTP itself (`http`).

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::http::StatusCode;
use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use parking_lot::Mutex;
use rmcp::model::{ClientNotification, ClientRequest, ErrorData, GetMeta, NumberOrString, RequestId};
use serde_json::Value;
use tokio::sync::{Notify, OwnedMutexGuard, TryLockError, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::era;
use super::methods::{self, Cx, Outgoing};
use super::subscribe::Watch;
use super::wire::{self, Incoming, LineError};
use super::{McpDoor, Shared, http, http_headers};

const MAX_SESSIONS: usize = 64;
/// Maximum number of response streams that a client can resume.
const KEPT_STREAMS: usize = 16;
/// Maximum number of messages of one request that wait to become events.
const OUTBOX: usize = 32;
/// Maximum size of the unread events of one stream, in bytes. Progress reports are dropped at half
/// of this size. At this size, the request is cancelled.
const KEPT_BYTES: usize = 1024 * 1024;

/// All sessions. The least recently used one ends when there are too many.
pub struct Sessions {
    open: Mutex<HashMap<Arc<str>, Arc<HttpSession>>>,
    /// A session that is unused for this time ends.
    idle: Duration,
}

impl Sessions {
    pub fn new(idle: Duration) -> Self {
        Self { open: Mutex::default(), idle }
    }

    /// The session with this id, if this token opened it.
    pub fn find(&self, id: &str, token: &str) -> Option<Arc<HttpSession>> {
        let mut open = self.open.lock();
        self.end_idle(&mut open);
        let session = open.get(id).filter(|it| it.token == token)?;
        *session.used.lock() = Instant::now();
        Some(Arc::clone(session))
    }

    pub fn open(&self, shared: &Arc<Shared>, token: String, door: Arc<McpDoor>) -> Arc<HttpSession> {
        let session = Arc::new(HttpSession::new(shared, token, door));
        let mut open = self.open.lock();
        self.end_idle(&mut open);
        if open.len() >= MAX_SESSIONS
            && let Some(oldest) = open.values().min_by_key(|it| *it.used.lock()).map(|it| Arc::clone(&it.id))
        {
            end(open.remove(&oldest));
        }
        open.insert(Arc::clone(&session.id), Arc::clone(&session));
        session
    }

    pub fn end(&self, id: &str) {
        end(self.open.lock().remove(id));
    }

    fn end_idle(&self, open: &mut HashMap<Arc<str>, Arc<HttpSession>>) {
        let idle = open.extract_if(|_, session| session.idle_since().is_some_and(|it| it.elapsed() >= self.idle));
        idle.for_each(|(_, session)| end(Some(session)));
    }

    /// Waits until the session has been idle for too long, then ends it.
    pub async fn when_idle(&self, session: &HttpSession) {
        loop {
            let last = session.idle_since().unwrap_or_else(Instant::now);
            sleep_until(last + self.idle).await;
            if session.idle_since() == Some(last) {
                return self.end(&session.id);
            }
        }
    }
}

fn end(session: Option<Arc<HttpSession>>) {
    if let Some(session) = session {
        session.door.session.gone.cancel();
        session.cancel.cancel();
    }
}

pub struct HttpSession {
    pub id: Arc<str>,
    pub door: Arc<McpDoor>,
    token: String,
    used: Mutex<Instant>,
    in_flight: Mutex<HashMap<RequestId, CancellationToken>>,
    /// Requests to the client that have no reply yet.
    asked: Mutex<HashMap<RequestId, oneshot::Sender<Result<Value, ErrorData>>>>,
    streams: Mutex<VecDeque<Arc<EventStream>>>,
    last_number: AtomicU64,
    /// Locked while the session's only stream of change notifications is open.
    changes: Arc<tokio::sync::Mutex<Option<Watch>>>,
    cancel: CancellationToken,
}

impl HttpSession {
    fn new(shared: &Arc<Shared>, token: String, door: Arc<McpDoor>) -> Self {
        Self {
            id: shared.studio.ids.v4().simple().to_string().into(),
            door,
            token,
            used: Mutex::new(Instant::now()),
            in_flight: Mutex::default(),
            asked: Mutex::default(),
            streams: Mutex::default(),
            last_number: AtomicU64::new(0),
            changes: Arc::default(),
            cancel: shared.stop.child_token(),
        }
    }

    /// The time since when the session is idle. `None` while a request is running.
    fn idle_since(&self) -> Option<Instant> {
        self.in_flight.lock().is_empty().then(|| *self.used.lock())
    }

    /// Whether the handshake succeeded.
    pub fn is_open(&self) -> bool {
        self.door.handshake.load().is_some()
    }

    pub async fn take(self: Arc<Self>, message: Incoming, shared: &Shared) -> Result<Response, Response> {
        match message {
            Incoming::Request(id, request) => return self.answer(id, *request, shared).await,
            Incoming::Notification(ClientNotification::CancelledNotification(cancelled)) => {
                let request = cancelled.params.request_id.and_then(|id| self.in_flight.lock().remove(&id));
                if let Some(request) = request {
                    request.cancel();
                }
            }
            Incoming::Notification(_) => {}
            Incoming::Reply(id, result) => {
                if let Some(reply) = self.asked.lock().remove(&id) {
                    // The question may have expired.
                    let _ = reply.send(result);
                }
            }
        }
        Ok(StatusCode::ACCEPTED.into_response())
    }

    /// Runs a request. The request continues if the client disconnects, because the client can
    /// resume the stream.
    async fn answer(
        self: Arc<Self>,
        id: RequestId,
        request: ClientRequest,
        shared: &Shared,
    ) -> Result<Response, Response> {
        let cancel = self.cancel.child_token();
        {
            let mut in_flight = self.in_flight.lock();
            if in_flight.contains_key(&id) {
                let id = id.into_json_value();
                return Err(http::bad_line(LineError { code: -32600, message: "id already in use", id }));
            }
            in_flight.insert(id.clone(), cancel.clone());
        }
        let stream = EventStream::new(self.next_number());
        let door = Arc::clone(&self.door);
        tokio::spawn(run(door, Some(Arc::clone(&self)), (id, request), cancel, Arc::clone(&stream)));
        let response = http::respond(&stream, &shared.stop, None).await;
        if !stream.has_ended() {
            let mut streams = self.streams.lock();
            streams.truncate(KEPT_STREAMS - 1);
            streams.push_front(stream);
        }
        Ok(response)
    }

    fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Finds the stream of the event that a client received last, and the number of the next event.
    pub fn resume(&self, last: &str) -> Option<(Arc<EventStream>, u64)> {
        let (stream, number) = last.split_once('-')?;
        let (stream, number): (u64, u64) = (stream.parse().ok()?, number.parse().ok()?);
        let streams = self.streams.lock();
        let found = streams.iter().find(|it| it.id == stream)?;
        Some((Arc::clone(found), number.checked_add(1)?))
    }

    /// Locks the change notifications of this session for one stream. Fails if another stream holds
    /// the lock.
    pub fn changes(&self) -> Result<OwnedMutexGuard<Option<Watch>>, TryLockError> {
        let mut changes = Arc::clone(&self.changes).try_lock_owned()?;
        if changes.is_none() {
            *changes = self.door.watch.lock().take();
        }
        Ok(changes)
    }
}

/// The messages that one request sends to its client, in order; the answer is the last one.
pub struct EventStream {
    pub id: u64,
    state: Mutex<EventState>,
    changed: Notify,
}

#[derive(Default)]
struct EventState {
    /// The number of the first kept event.
    first: u64,
    events: VecDeque<Bytes>,
    kept_bytes: usize,
    /// The number of the first event that no response has read.
    read: u64,
    /// The HTTP status if the answer is the only event. `None` until the request has ended.
    ended: Option<StatusCode>,
}

impl EventStream {
    pub fn new(id: u64) -> Arc<Self> {
        Arc::new(Self { id, state: Mutex::default(), changed: Notify::new() })
    }

    /// Returns false if the stream is full of unread events.
    fn push(&self, event: Bytes, limit: usize) -> bool {
        let mut state = self.state.lock();
        while state.kept_bytes + event.len() > limit && state.first < state.read {
            let dropped = state.events.pop_front().map_or(0, |it| it.len());
            state.kept_bytes -= dropped;
            state.first += 1;
        }
        let fits = state.events.is_empty() || state.kept_bytes + event.len() <= limit;
        if fits {
            state.kept_bytes += event.len();
            state.events.push_back(event);
            drop(state);
            self.changed.notify_waiters();
        }
        fits
    }

    /// Ends the stream. `answer` is its last event; it is absent if the request was cancelled.
    fn end(&self, answer: Option<Bytes>, status: StatusCode) {
        let mut state = self.state.lock();
        state.events.extend(answer);
        state.ended = Some(status);
        drop(state);
        self.changed.notify_waiters();
    }

    fn has_ended(&self) -> bool {
        self.state.lock().ended.is_some()
    }

    /// Waits for the answer. `None` if another event comes first, or if the request was cancelled.
    pub async fn answer_alone(&self) -> Option<(StatusCode, Bytes)> {
        self.when(|state| match (state.ended, state.events.len()) {
            (Some(status), 1) => Some(state.events.front().map(|it| (status, it.clone()))),
            (None, 0) => None,
            (Some(_) | None, _) => Some(None),
        })
        .await
    }

    /// The events from number `from` on, as soon as there are some. `None` at the end.
    pub async fn after(&self, from: u64) -> Option<Vec<Bytes>> {
        self.when(|state| {
            let skipped = usize::try_from(from.saturating_sub(state.first)).unwrap_or(usize::MAX);
            let events: Vec<Bytes> = state.events.iter().skip(skipped).cloned().collect();
            state.read = state.read.max(state.first + state.events.len() as u64);
            match (events.is_empty(), state.ended) {
                (false, _) => Some(Some(events)),
                (true, Some(_)) => Some(None),
                (true, None) => None,
            }
        })
        .await
    }

    async fn when<T>(&self, mut look: impl FnMut(&mut EventState) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = look(&mut self.state.lock()) {
                return found;
            }
            changed.await;
        }
    }
}

/// Runs one request to its end and stores its messages as events. Runs in a separate task, so that
/// every call is recorded even if its client disconnects.
pub async fn run(
    door: Arc<McpDoor>,
    session: Option<Arc<HttpSession>>,
    (id, mut request): (RequestId, ClientRequest),
    cancel: CancellationToken,
    stream: Arc<EventStream>,
) {
    let (out, mut outgoing) = mpsc::channel(OUTBOX);
    let meta = std::mem::take(request.get_meta_mut());
    let is_whole = meta.missing_required_keys(&era::SUPPORTED[0]).is_empty();
    let cx = Cx { id: id.clone(), meta, cancel: cancel.clone(), out, token: door.session.who.token() };
    let send = |message| {
        if !store(message, session.as_deref(), &stream) {
            cancel.cancel();
        }
    };
    let answer = AssertUnwindSafe(methods::answer(&door, request, cx)).catch_unwind();
    tokio::pin!(answer);
    let answer = loop {
        tokio::select! {
            biased;
            Some(message) = outgoing.recv() => send(message),
            answer = &mut answer => break answer.unwrap_or_else(|_| Err(methods::internal())),
        }
    };
    // The reports of a call precede its answer.
    while let Ok(message) = outgoing.try_recv() {
        send(message);
    }
    // A cancelled request was removed and gets no answer.
    let is_wanted = session.as_ref().is_none_or(|it| it.in_flight.lock().remove(&id).is_some());
    // Legacy clients get every error with status 200.
    let status = match (&answer, &session) {
        (Err(error), None) => http_headers::status(error.code, is_whole),
        (Err(_) | Ok(_), _) => StatusCode::OK,
    };
    stream.end(is_wanted.then(|| wire::answer(answer, id)), status);
}

/// Returns false if the request must be cancelled, because its client does not read.
fn store(message: Outgoing, session: Option<&HttpSession>, stream: &EventStream) -> bool {
    match message {
        Outgoing::Notification(notification) => {
            // A client that reads slowly loses reports, but no answers and no change notifications.
            let may_be_lost = methods::may_be_lost(&notification);
            let limit = if may_be_lost { KEPT_BYTES / 2 } else { KEPT_BYTES };
            stream.push(wire::notification(*notification), limit) || may_be_lost
        }
        Outgoing::Request { request, reply } => {
            // A client without a session cannot reply. Dropping the sender reports this to the
            // call.
            let Some(session) = session else { return true };
            let id = NumberOrString::Number(session.next_number() as i64);
            let mut asked = session.asked.lock();
            asked.retain(|_, reply| !reply.is_closed());
            asked.insert(id.clone(), reply);
            drop(asked);
            stream.push(wire::request(*request, id), KEPT_BYTES)
        }
    }
}
