//! Converts bytes to messages and back, one JSON object per line.
//!
//! The SDK's own transport ignores unreadable input. Here every line that needs an answer gets one,
//! a peer that does not read cannot make the daemon buffer without limit, and the end of input does
//! not lose replies. Not here: the meaning of a message.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientNotification, ClientRequest, CustomRequest, JsonRpcMessage,
    NumberOrString, RequestId, RequestMetaObject, ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::at_once::{self, Begun};

/// Messages that may wait for a slow peer.
const QUEUE: usize = 256;
/// Bytes that may wait for a peer; above this, nothing is read from it.
const UNREAD: usize = 256 * 1024;
/// Bytes collected into one write.
const GATHER: usize = 64 * 1024;
/// Bytes of answers collected while more requests are in the buffer, so that a peer with many
/// requests gets its first answer early.
const GATHER_ANSWERS: usize = 8 * 1024;
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
const DRAIN: Duration = Duration::from_secs(10);
/// How often to check whether a peer that has closed its sending side still reads.
const GONE_CHECK: Duration = Duration::from_millis(50);
pub const READ_CHUNK: usize = 8 * 1024;
/// A buffer of this size is freed when it is empty, since there may be many idle connections.
const KEPT_BUFFER: usize = 64 * 1024;

/// State that reader, writer and door of one connection share.
#[derive(Default)]
pub struct Wire {
    in_flight: Mutex<HashSet<RequestId>>,
    answered: Notify,
    /// Notified when the writer has written something.
    written: Notify,
    /// Notifications for which the queue was full: the newest of each kind is kept.
    held_back: Mutex<BTreeMap<String, Vec<u8>>>,
    /// The peer cannot be written to.
    pub failed: CancellationToken,
    /// Nothing more is read from the peer.
    ending: CancellationToken,
    pause_until: Mutex<Option<Instant>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Wire {
    /// Pauses reading.
    pub fn pause(&self, time: Duration) {
        *lock(&self.pause_until) = Some(Instant::now() + time);
    }

    /// Stops reading, as at the end of input: running requests are still answered.
    pub fn end(&self) {
        self.ending.cancel();
    }

    pub fn is_ending(&self) -> bool {
        self.ending.is_cancelled()
    }

    fn done(&self, id: &RequestId) {
        lock(&self.in_flight).remove(id);
        self.answered.notify_waiters();
    }
}

pub struct LineTransport<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where in `buffer` the next line starts. The bytes before it are removed at the next read,
    /// once for many lines.
    taken: usize,
    /// Where in `buffer` a newline is looked for next.
    scanned: usize,
    max_line: usize,
    ended: bool,
    drain_until: Option<Instant>,
    /// A request that blocks the following ones until it is answered: `initialize`, which the
    /// others need, or a list, which is long and must not be built many times for a peer that does
    /// not read.
    awaited: Option<RequestId>,
    /// Answers made by the reader. Kept here because `receive` may be dropped at any await.
    answers: Vec<u8>,
    at_once: Option<at_once::Line>,
    queue: Option<mpsc::Sender<Vec<u8>>>,
    end: Arc<dyn WriteNow>,
    writer: Option<JoinHandle<()>>,
    wire: Arc<Wire>,
    /// Whether the peer has closed both directions. The end of input alone means only that it sends
    /// no more.
    is_gone: Option<Box<dyn Fn() -> bool + Send>>,
}

impl<R: AsyncRead + Unpin + Send + 'static> LineTransport<R> {
    pub fn new<W: AsyncWrite + Unpin + Send + 'static>(reader: R, writer: W, max_line: usize) -> Self {
        Self::with_patience(reader, writer, max_line, WRITE_PATIENCE)
    }

    /// `patience` is how long a peer may leave its replies unread.
    pub fn with_patience<W>(reader: R, writer: W, max_line: usize, patience: Duration) -> Self
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let wire = Arc::new(Wire::default());
        let end = Arc::new(End {
            half: AsyncMutex::new(Half { writer, rest: Vec::new() }),
            queued: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        });
        let writer = tokio::spawn(write_lines(Arc::clone(&end), waiting, Arc::clone(&wire), patience));
        Self {
            reader,
            buffer: Vec::new(),
            taken: 0,
            scanned: 0,
            max_line,
            ended: false,
            drain_until: None,
            awaited: None,
            answers: Vec::new(),
            at_once: None,
            queue: Some(queue),
            end,
            writer: Some(writer),
            wire,
            is_gone: None,
        }
    }

    #[must_use]
    pub fn with_gone_check(mut self, is_gone: impl Fn() -> bool + Send + 'static) -> Self {
        self.is_gone = Some(Box::new(is_gone));
        self
    }

    /// Starts calls in the reading task, and answers those that finish at once.
    #[must_use]
    pub fn with_calls_begun(mut self, at_once: at_once::Line) -> Self {
        self.at_once = Some(at_once);
        self
    }

    /// Bytes read before the transport was created.
    #[must_use]
    pub fn with_first_bytes(mut self, bytes: Vec<u8>) -> Self {
        self.buffer = bytes;
        self
    }

    pub fn wire(&self) -> Arc<Wire> {
        Arc::clone(&self.wire)
    }

    fn refuse(&mut self, refusal: &Refusal) {
        self.answers.extend(refusal.to_line());
    }

    /// The next complete line, without its line break. At the end of input the rest counts as a
    /// line.
    fn take_line(&mut self) -> Option<Range<usize>> {
        let rest = self.buffer.get(self.scanned..).unwrap_or_default();
        let line = match memchr::memchr(b'\n', rest) {
            Some(at) => {
                let end = self.scanned + at;
                let line = self.taken..end;
                self.taken = end + 1;
                line
            }
            None if self.ended && self.taken < self.buffer.len() => {
                let line = self.taken..self.buffer.len();
                self.taken = self.buffer.len();
                line
            }
            None => {
                self.buffer.drain(..self.taken);
                self.taken = 0;
                self.scanned = self.buffer.len();
                return None;
            }
        };
        self.scanned = self.taken;
        Some(line)
    }

    /// Sends the answers of the reader, directly if the peer accepts them at once, else through the
    /// writer.
    async fn flush_answers(&mut self) -> Option<()> {
        if self.answers.is_empty() {
            return Some(());
        }
        match self.end.write_now(std::mem::take(&mut self.answers)) {
            WroteNow::All => return Some(()),
            WroteNow::Part => {}
            WroteNow::Nothing(back) => self.answers = back,
        }
        // Cancel-safe: the answers are removed only when there is room for them. After a partial
        // write, an empty line wakes the writer.
        let room = self.queue.as_ref()?.reserve().await.ok()?;
        let answers = std::mem::take(&mut self.answers);
        self.end.queued(answers.len());
        room.send(answers);
        Some(())
    }

    /// Waits until the peer has read most of its answers. The writer ends a peer that never does.
    async fn wait_for_reader(&mut self) {
        loop {
            let written = self.wire.written.notified();
            tokio::pin!(written);
            // Registered before the check, so that no notification of the writer is missed.
            written.as_mut().enable();
            if self.end.unread() <= UNREAD {
                return;
            }
            tokio::select! {
                () = written => {}
                () = self.wire.failed.cancelled() => return,
            }
        }
    }

    async fn wait_for_answer(&mut self) {
        while let Some(id) = &self.awaited {
            let answered = self.wire.answered.notified();
            if !lock(&self.wire.in_flight).contains(id) {
                self.awaited = None;
                return;
            }
            tokio::select! {
                () = answered => {}
                () = self.wire.failed.cancelled() => return,
            }
        }
    }

    /// Waits until every request is answered, the peer is gone, or `patience` has passed.
    async fn drain(&mut self) {
        let until = *self.drain_until.get_or_insert_with(|| Instant::now() + DRAIN);
        loop {
            let answered = self.wire.answered.notified();
            if lock(&self.wire.in_flight).is_empty() {
                return;
            }
            if self.is_gone.as_ref().is_some_and(|is_gone| is_gone()) {
                self.wire.failed.cancel();
                return;
            }
            tokio::select! {
                () = answered => {}
                () = tokio::time::sleep(GONE_CHECK) => {}
                () = tokio::time::sleep_until(until) => return,
                () = self.wire.failed.cancelled() => return,
            }
        }
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let urgency = Urgency::of(&item);
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let wire = Arc::clone(&self.wire);
        let end = Arc::clone(&self.end);
        let queue = self.queue.clone();
        // No other request is open, so there is nothing to collect, and writing is cheaper than
        // waking the writer.
        let is_last = answered.as_ref().is_some_and(|id| lock(&wire.in_flight).iter().all(|it| it == id));
        // Queue it now if there is room, so that messages are sent in order.
        let first = serde_json::to_vec(&item).map(|mut line| {
            line.push(b'\n');
            let Some(queue) = &queue else { return Err(mpsc::error::TrySendError::Closed(line)) };
            if is_last {
                match self.end.write_now(line) {
                    WroteNow::All => return Ok(()),
                    WroteNow::Part => line = Vec::new(),
                    WroteNow::Nothing(back) => line = back,
                }
            }
            push(&*self.end, queue, line)
        });
        if matches!(first, Ok(Ok(())))
            && let Some(id) = &answered
        {
            wire.done(id);
        }
        async move {
            match first? {
                Ok(()) => Ok(()),
                Err(mpsc::error::TrySendError::Closed(_)) => Err(io::ErrorKind::BrokenPipe.into()),
                Err(mpsc::error::TrySendError::Full(line)) => match urgency {
                    Urgency::MayBeLost => Ok(()),
                    Urgency::NewestCounts(kind) => {
                        lock(&wire.held_back).insert(kind, line);
                        // The queue may be empty by now, and then no one would look at the stored
                        // notifications.
                        if let Some(queue) = queue {
                            let _ = push(&*end, &queue, Vec::new());
                        }
                        Ok(())
                    }
                    Urgency::MustArrive => {
                        let sent = match queue {
                            Some(queue) => match queue.reserve().await {
                                Ok(room) => {
                                    end.queued(line.len());
                                    room.send(line);
                                    Ok(())
                                }
                                Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
                            },
                            None => Err(io::ErrorKind::BrokenPipe.into()),
                        };
                        if let Some(id) = &answered {
                            wire.done(id);
                        }
                        sent
                    }
                },
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let pause = *lock(&self.wire.pause_until);
            if self.answers.len() >= GATHER_ANSWERS || self.awaited.is_some() || pause.is_some() {
                self.flush_answers().await?;
            }
            self.wait_for_answer().await;
            self.wait_for_reader().await;
            if self.wire.failed.is_cancelled() {
                return None;
            }
            if let Some(until) = pause {
                tokio::time::sleep_until(until).await;
                *lock(&self.wire.pause_until) = None;
            }
            if let Some(line) = self.take_line() {
                let line = self.buffer.get(line).unwrap_or_default();
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                if line.len() > self.max_line {
                    self.too_long();
                } else if !line.iter().all(u8::is_ascii_whitespace) {
                    match read_message(line).and_then(|message| self.admit(message)) {
                        Ok(Some(message)) => return Some(message),
                        Ok(None) => {}
                        Err(refusal) => self.refuse(&refusal),
                    }
                    // Yield, so that a peer that sends without pause does not block others.
                    tokio::task::coop::consume_budget().await;
                }
                continue;
            }
            self.flush_answers().await?;
            if self.ended {
                self.drain().await;
                return None;
            }
            if self.buffer.len() > self.max_line {
                self.too_long();
                continue;
            }
            if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER {
                self.buffer = Vec::new();
            }
            self.buffer.reserve(READ_CHUNK);
            tokio::select! {
                read = self.reader.read_buf(&mut self.buffer) => match read {
                    Ok(0) | Err(_) => self.ended = true,
                    Ok(_) => {}
                },
                () = self.wire.ending.cancelled() => self.ended = true,
                () = self.wire.failed.cancelled() => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.await;
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> LineTransport<R> {
    /// The framing is lost: report it, finish running requests, and read no more.
    fn too_long(&mut self) {
        self.refuse(&Refusal { code: -32600, message: "Message too long", id: Value::Null });
        self.buffer = Vec::new();
        self.taken = 0;
        self.scanned = 0;
        self.ended = true;
    }

    /// Answers simple requests here, registers all others, and refuses a duplicate id.
    fn admit(
        &mut self,
        message: Option<RxJsonRpcMessage<RoleServer>>,
    ) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Refusal> {
        let Some(mut message) = message else { return Ok(None) };
        if let JsonRpcMessage::Request(request) = message {
            if lock(&self.wire.in_flight).contains(&request.id) {
                let id = request.id.into_json_value();
                return Err(Refusal { code: -32600, message: "id already in use", id });
            }
            let Some(passed) = self.begin(request.request, &request.id) else { return Ok(None) };
            message = JsonRpcMessage::request(passed, request.id);
        }
        match &message {
            JsonRpcMessage::Request(request) => {
                lock(&self.wire.in_flight).insert(request.id.clone());
                if is_awaited(&request.request) {
                    self.awaited = Some(request.id.clone());
                }
            }
            // The SDK sends no reply to a cancelled request, so do not wait for one.
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.wire.done(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(Some(message))
    }
}

impl<R> LineTransport<R> {
    /// The message for the SDK; `None` when the request is answered already.
    fn begin(&mut self, request: ClientRequest, id: &RequestId) -> Option<ClientRequest> {
        let Some(at_once) = &self.at_once else { return Some(request) };
        let answer = match at_once.begin(request, id) {
            Begun::Untouched(request) => return Some(request),
            Begun::Waiting(rest) => return Some(rest.into_request()),
            Begun::Done(answer) => at_once::message(answer, id.clone()),
        };
        let before = self.answers.len();
        match serde_json::to_writer(&mut self.answers, &answer) {
            Ok(()) => self.answers.push(b'\n'),
            Err(_) => {
                self.answers.truncate(before);
                let id = id.clone().into_json_value();
                self.answers.extend(Refusal { code: -32603, message: "Internal error", id }.to_line());
            }
        }
        None
    }
}

/// Requests not listed here may be answered concurrently.
fn is_awaited(request: &ClientRequest) -> bool {
    matches!(
        request,
        ClientRequest::InitializeRequest(_)
            | ClientRequest::ListToolsRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_)
            | ClientRequest::ListPromptsRequest(_)
            | ClientRequest::GetPromptRequest(_)
    )
}

/// The answer to a line that is not a message.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    pub code: i32,
    pub message: &'static str,
    pub id: Value,
}

impl Refusal {
    pub fn to_line(&self) -> Vec<u8> {
        let mut line =
            json!({ "jsonrpc": "2.0", "id": self.id, "error": { "code": self.code, "message": self.message } })
                .to_string()
                .into_bytes();
        line.push(b'\n');
        line
    }
}

/// The usual form of a call, which does not repeat one with a question. All other lines use the
/// general reader.
#[derive(Deserialize)]
struct CallLine<'a> {
    jsonrpc: &'a str,
    id: Value,
    method: &'a str,
    params: CallParams,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallParams {
    name: String,
    arguments: Option<Map<String, Value>>,
    #[serde(rename = "_meta")]
    meta: Option<Map<String, Value>>,
    input_responses: Option<IgnoredAny>,
    request_state: Option<IgnoredAny>,
}

/// Reads calls directly into their parts, because calls are by far the most frequent messages.
pub fn read_call(line: &[u8]) -> Option<RxJsonRpcMessage<RoleServer>> {
    let CallLine { jsonrpc: "2.0", id, method: "tools/call", params } = serde_json::from_slice(line).ok()? else {
        return None;
    };
    let id = usable_id(&id)?;
    let CallParams { name, arguments, meta, input_responses: None, request_state: None } = params else { return None };
    let mut call = CallToolRequestParams::new(name);
    call.arguments = arguments;
    let mut request = CallToolRequest::new(call);
    if let Some(meta) = meta {
        request.extensions.insert(RequestMetaObject::from(meta));
    }
    Some(JsonRpcMessage::request(ClientRequest::CallToolRequest(request), id))
}

fn usable_id(id: &Value) -> Option<RequestId> {
    match id {
        Value::String(text) => Some(NumberOrString::String(text.as_str().into())),
        Value::Number(number) => number.as_i64().map(NumberOrString::Number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads one line. `None` is an unreadable notification: it has no id, so it gets no answer.
pub fn read_message(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Refusal> {
    match read_call(line) {
        Some(call) => Ok(Some(call)),
        None => read_any(line),
    }
}

fn read_any(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Refusal> {
    let value: Value =
        serde_json::from_slice(line).map_err(|_| Refusal { code: -32700, message: "Parse error", id: Value::Null })?;
    let Value::Object(mut members) = value else {
        let message = if value.is_array() { "Batches are not supported" } else { "Invalid Request" };
        return Err(Refusal { code: -32600, message, id: Value::Null });
    };
    let id = members.get("id").cloned();
    let usable = id.as_ref().and_then(usable_id);
    let invalid =
        |message| Refusal { code: -32600, message, id: usable.clone().map_or(Value::Null, |id| id.into_json_value()) };
    if members.get("jsonrpc") != Some(&Value::from("2.0")) {
        return Err(invalid("Invalid Request: jsonrpc must be \"2.0\""));
    }
    let method = match members.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(invalid("Invalid Request: method must be a string")),
        None => {
            let is_reply = usable.is_some() && (members.contains_key("result") || members.contains_key("error"));
            let message = is_reply.then(|| serde_json::from_value(Value::Object(members)).ok()).flatten();
            return message.map(Some).ok_or_else(|| invalid("Invalid Request"));
        }
    };
    if id.is_some() && usable.is_none() {
        return Err(invalid("Invalid Request: id must be a string or an integer"));
    }
    if members.get("params").is_some_and(|params| !params.is_object()) {
        return match &usable {
            Some(id) => Err(Refusal {
                code: -32602,
                message: "Invalid params: params must be an object",
                id: id.clone().into_json_value(),
            }),
            None => Ok(None),
        };
    }
    match usable {
        Some(id) => Ok(Some(JsonRpcMessage::request(read_request(method, members), id))),
        None => {
            members.insert("method".to_owned(), Value::String(method));
            Ok(serde_json::from_value(Value::Object(members)).ok())
        }
    }
}

/// Builds a direct call by hand; the SDK's reader would try every kind of request in turn.
fn read_request(method: String, mut members: Map<String, Value>) -> ClientRequest {
    let params = members.remove("params");
    if !conductor_gateway::tools::lint::MCP_METHODS.contains(&method.as_str()) {
        let mut request = CustomRequest::new(method, params);
        let meta = request.params.as_ref().and_then(|params| params.get("_meta")).and_then(Value::as_object);
        if let Some(meta) = meta.cloned() {
            request.extensions.insert(RequestMetaObject::from(meta));
        }
        return ClientRequest::CustomRequest(request);
    }
    let whole = match &params {
        Some(params) => json!({ "method": method, "params": params }),
        None => json!({ "method": method }),
    };
    // A protocol method with invalid parameters becomes a custom request; the door answers -32602.
    serde_json::from_value(whole).unwrap_or_else(|_| ClientRequest::CustomRequest(CustomRequest::new(method, params)))
}

/// What happens to a message when the queue is full.
enum Urgency {
    MustArrive,
    /// Only the last of its kind matters.
    NewestCounts(String),
    MayBeLost,
}

impl Urgency {
    #[expect(clippy::wildcard_enum_match_arm, reason = "an enum of the SDK; what is not named must arrive")]
    fn of(item: &TxJsonRpcMessage<RoleServer>) -> Self {
        let JsonRpcMessage::Notification(notification) = item else { return Self::MustArrive };
        match &notification.notification {
            ServerNotification::ProgressNotification(_) | ServerNotification::LoggingMessageNotification(_) => {
                Self::MayBeLost
            }
            ServerNotification::ToolListChangedNotification(_) => Self::NewestCounts("tools".to_owned()),
            ServerNotification::ResourceListChangedNotification(_) => Self::NewestCounts("resources".to_owned()),
            ServerNotification::PromptListChangedNotification(_) => Self::NewestCounts("prompts".to_owned()),
            ServerNotification::ResourceUpdatedNotification(updated) => {
                Self::NewestCounts(format!("uri {}", updated.params.uri))
            }
            _ => Self::MustArrive,
        }
    }
}

/// The writing half of a connection. The transport may write a line itself while nothing is queued;
/// otherwise the writer does, in order.
struct End<W> {
    half: AsyncMutex<Half<W>>,
    /// Lines queued for the writer and not yet written. At 0 the writer is idle, and a sender that
    /// is about to queue a line has no order relative to what is written now.
    queued: AtomicUsize,
    /// Their bytes.
    bytes: AtomicUsize,
}

struct Half<W> {
    writer: W,
    /// The rest of a line that the transport could not write.
    rest: Vec<u8>,
}

enum WroteNow {
    All,
    /// The writer must be woken for the rest.
    Part,
    Nothing(Vec<u8>),
}

/// An [`End`] over any kind of output.
trait WriteNow: Send + Sync {
    /// Counts a line that is about to be queued.
    fn queued(&self, bytes: usize);
    fn unqueued(&self, lines: usize, bytes: usize);
    /// Bytes that the writer still has to write.
    fn unread(&self) -> usize;
    /// Writes as much as the peer accepts without waiting.
    fn write_now(&self, line: Vec<u8>) -> WroteNow;
}

impl<W: AsyncWrite + Unpin + Send> WriteNow for End<W> {
    fn queued(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.queued.fetch_add(1, Ordering::SeqCst);
    }

    fn unqueued(&self, lines: usize, bytes: usize) {
        self.queued.fetch_sub(lines, Ordering::SeqCst);
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    fn unread(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    fn write_now(&self, mut line: Vec<u8>) -> WroteNow {
        if self.queued.load(Ordering::SeqCst) > 0 {
            return WroteNow::Nothing(line);
        }
        let Ok(mut half) = self.half.try_lock() else { return WroteNow::Nothing(line) };
        // The writer waits for the peer; it polls again with its own waker.
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut half.writer).poll_write(&mut context, &line) {
            Poll::Ready(Ok(written)) if written == line.len() => WroteNow::All,
            Poll::Ready(Ok(written)) if written > 0 => {
                line.drain(..written);
                half.rest = line;
                WroteNow::Part
            }
            // The writer gets the same error and reports it.
            Poll::Ready(Ok(_) | Err(_)) | Poll::Pending => WroteNow::Nothing(line),
        }
    }
}

fn push(
    end: &dyn WriteNow,
    queue: &mpsc::Sender<Vec<u8>>,
    line: Vec<u8>,
) -> Result<(), mpsc::error::TrySendError<Vec<u8>>> {
    let bytes = line.len();
    end.queued(bytes);
    let pushed = queue.try_send(line);
    if pushed.is_err() {
        end.unqueued(1, bytes);
    }
    pushed
}

/// The writer of a connection: complete lines, collected while there are more, flushed when there
/// are none.
async fn write_lines<W: AsyncWrite + Unpin + Send>(
    end: Arc<End<W>>,
    mut queue: mpsc::Receiver<Vec<u8>>,
    wire: Arc<Wire>,
    patience: Duration,
) {
    let mut out = Vec::new();
    while let Some(line) = queue.recv().await {
        let mut half = end.half.lock().await;
        out.clear();
        out.append(&mut half.rest);
        let (mut lines, mut bytes) = (1, line.len());
        out.extend_from_slice(&line);
        drop(line);
        while out.len() < GATHER
            && let Ok(line) = queue.try_recv()
        {
            lines += 1;
            bytes += line.len();
            out.extend_from_slice(&line);
        }
        if queue.is_empty() {
            for line in std::mem::take(&mut *lock(&wire.held_back)).into_values() {
                out.extend_from_slice(&line);
            }
        }
        let written = tokio::time::timeout(patience, async {
            half.writer.write_all(&out).await?;
            half.writer.flush().await
        });
        if !matches!(written.await, Ok(Ok(()))) {
            wire.failed.cancel();
            return;
        }
        drop(half);
        end.unqueued(lines, bytes);
        wire.written.notify_waiters();
        if out.capacity() > 4 * GATHER {
            out = Vec::new();
        }
    }
    let _ = end.half.lock().await.writer.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::GetMeta;

    #[test]
    fn the_short_way_reads_a_call_as_the_long_way_does() {
        let told = |message: RxJsonRpcMessage<RoleServer>| {
            let JsonRpcMessage::Request(request) = message else { panic!("a request") };
            let meta = request.request.get_meta().clone();
            (request.id, serde_json::to_value(request.request).unwrap(), serde_json::to_value(meta).unwrap())
        };
        let short = [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"params":{"arguments":{"b":[1,{"c":null}],"b":2},"name":"a\u0062"},"method":"tools/call","id":"x","jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":-7,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"progressToken":"p","z":1}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","unknown":{"deep":[1]}},"unknown":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":null,"requestState":null}}"#,
        ];
        for line in short {
            let call = read_call(line.as_bytes()).expect(line);
            let any = read_any(line.as_bytes()).unwrap().expect(line);
            assert_eq!(told(call), told(any), "{line}");
        }
        let long = [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","requestState":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","inputResponses":{}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}} x"#,
        ];
        for line in long {
            assert!(read_call(line.as_bytes()).is_none(), "{line}");
        }
    }
}
