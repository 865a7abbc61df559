//! Serves one line connection in one task: reads requests, runs them concurrently, and writes
//! answers.
//!
//! While a peer does not read its answers, its requests are not read either, so that the daemon
//! stores little for it. Answers are still written after the end of input. Not here: parsing of
//! lines (`wire`), and the methods (`methods`).

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorData, GetMeta, JsonRpcMessage, NumberOrString, RequestId,
    ServerNotification,
};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::McpDoor;
use super::methods::{self, Answer, Cx, Outgoing};
use super::subscribe::{self, Watch};
use super::wire::{self, Incoming, LineError, Lines};

/// Capacity of the queue for notifications and questions of running calls.
const OUTBOX: usize = 32;
/// Maximum number of unwritten bytes. Above it, nothing is read from the peer.
const UNREAD: usize = 256 * 1024;
/// Answers that are ready together share a write until it has this many bytes. The first answer
/// must not wait for all others.
const GATHER: usize = 8 * 1024;
/// How long a peer may leave its answers unread.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// How long requests may still run after the end of input.
const DRAIN: Duration = Duration::from_secs(10);
/// Interval at which to check whether a peer that closed its output still reads.
const GONE_CHECK: Duration = Duration::from_millis(50);
/// How long a connection with too many calls is not read.
const FLOOD_PAUSE: Duration = Duration::from_secs(1);
/// Time limit for the last write when the daemon stops.
const LAST_WORDS: Duration = Duration::from_secs(1);
pub const READ_CHUNK: usize = 8 * 1024;

/// Tokens with which other tasks end a connection, or detect that it has failed.
#[derive(Clone, Default)]
pub struct Lifeline {
    /// Cancelling this token acts like the end of input: running requests are answered, and nothing
    /// more is read.
    pub ending: CancellationToken,
    /// Cancelled when writing to the peer has failed.
    pub failed: CancellationToken,
}

pub struct Setup {
    /// Bytes of the peer that were already read.
    pub first: Vec<u8>,
    pub longest_line: usize,
    pub patience: Duration,
    pub lifeline: Lifeline,
    /// Returns whether the peer has closed both directions. The end of input alone shows only that
    /// the peer sends nothing more.
    pub is_gone: Option<Box<dyn Fn() -> bool + Send>>,
}

impl Setup {
    pub fn new(longest_line: usize) -> Self {
        Self { first: Vec::new(), longest_line, patience: WRITE_PATIENCE, lifeline: Lifeline::default(), is_gone: None }
    }
}

/// Serves one connection to its end, then cancels its running calls. Each call still runs until its
/// outcome is recorded.
pub async fn serve<R, W>(door: Arc<McpDoor>, mut reader: R, mut writer: W, setup: Setup)
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let Setup { first, longest_line, patience, lifeline, is_gone } = setup;
    let mut lines = Lines::new(first, longest_line);
    let (outbox, mut outgoing) = mpsc::channel(OUTBOX);
    let mut peer = Peer::new(door, outbox);
    let stop = peer.door.shared.stop.clone();
    let (mut paused_until, mut drain_until, mut gone_check) = (None, None, None);
    let mut stopping = false;
    // The time of the last successful write. While nothing waits to be written, it is set to now.
    let mut last_write = Instant::now();
    loop {
        // Start all requests that were read, as long as the peer reads its answers.
        while paused_until.is_none() && peer.takes_more() {
            let Some(line) = lines.next_line() else { break };
            // Let other tasks run even if the peer never stops sending.
            tokio::task::coop::consume_budget().await;
            peer.take(line.map(|range| lines.buffer.get(range).unwrap_or_default()));
        }
        if peer.out.is_empty() {
            last_write = Instant::now();
        }
        if lines.ended {
            if peer.is_done() && paused_until.is_none() {
                break;
            }
            drain_until.get_or_insert_with(|| Instant::now() + DRAIN);
            gone_check = is_gone.as_ref().map(|_| Instant::now() + GONE_CHECK);
        }
        let reads = !lines.ended && paused_until.is_none() && peer.takes_more();
        if reads {
            lines.buffer.reserve(READ_CHUNK);
        }
        let may_send = peer.out.len() < UNREAD;
        let unread_until = (!peer.out.is_empty()).then(|| last_write + patience);
        tokio::select! {
            biased;
            () = lifeline.failed.cancelled() => break,
            () = stop.cancelled(), if !stopping => {
                // The stop cancels all calls; their answers are still written.
                (stopping, lines.ended) = (true, true);
                drain_until = Some(Instant::now() + LAST_WORDS);
            }
            written = writer.write_buf(&mut peer.out), if !peer.out.is_empty() => {
                if !matches!(written, Ok(1..)) {
                    lifeline.failed.cancel();
                    break;
                }
                last_write = Instant::now();
            }
            Some(message) = outgoing.recv(), if may_send => peer.send(message),
            Some(ended) = peer.calls.next(), if !peer.calls.is_empty() => {
                let mut next = Some(ended);
                while let Some(ended) = next {
                    // Write the reports of a call before its answer.
                    while let Ok(message) = outgoing.try_recv() {
                        peer.send(message);
                    }
                    peer.finish(ended);
                    next = peer.next_ready();
                }
                if peer.door.session.take_pause() {
                    paused_until = Some(Instant::now() + FLOOD_PAUSE);
                }
            }
            read = reader.read_buf(&mut lines.buffer), if reads => lines.ended = !matches!(read, Ok(1..)),
            () = lifeline.ending.cancelled(), if !lines.ended => lines.ended = true,
            news = subscribe::legacy_news(&mut peer.watch, &peer.door.subscriptions), if may_send => {
                news.into_iter().for_each(|notification| peer.notify(notification));
            }
            () = until(paused_until) => paused_until = None,
            () = until(unread_until) => {
                lifeline.failed.cancel();
                break;
            }
            () = until(drain_until) => break,
            () = until(gone_check) => {
                if is_gone.as_ref().is_some_and(|is_gone| is_gone()) {
                    lifeline.failed.cancel();
                    break;
                }
            }
        }
    }
    let rest = peer.end();
    if !lifeline.failed.is_cancelled() {
        let _ = tokio::time::timeout(LAST_WORDS, writer.write_all(&rest)).await;
        let _ = writer.shutdown().await;
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// An ended call: its serial number, its id, and its answer.
type Ended = (u64, RequestId, Answer);

/// The peer of a connection, with its requests and the messages to it.
struct Peer {
    door: Arc<McpDoor>,
    /// Lines to be written.
    out: BytesMut,
    calls: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// Requests without an answer. The serial number distinguishes a cancelled request from a later
    /// one with the same id.
    in_flight: HashMap<RequestId, (u64, CancellationToken)>,
    last_serial: u64,
    /// The request that all later requests wait for: `initialize`, a list, or a prompt. Lists and
    /// prompts are long, and the peer may not read, so only one is built at a time.
    awaited: Option<u64>,
    outbox: mpsc::Sender<Outgoing>,
    /// Requests to the client that have no reply yet.
    asked: HashMap<RequestId, oneshot::Sender<Result<Value, ErrorData>>>,
    /// Reports changes to a legacy client after its `initialized`.
    watch: Option<Watch>,
    cancel: CancellationToken,
}

impl Peer {
    fn new(door: Arc<McpDoor>, outbox: mpsc::Sender<Outgoing>) -> Self {
        Self {
            cancel: door.shared.stop.child_token(),
            door,
            out: BytesMut::new(),
            calls: FuturesUnordered::new(),
            in_flight: HashMap::new(),
            last_serial: 0,
            awaited: None,
            outbox,
            asked: HashMap::new(),
            watch: None,
        }
    }

    fn takes_more(&self) -> bool {
        self.awaited.is_none() && self.out.len() < UNREAD
    }

    fn is_done(&self) -> bool {
        self.in_flight.is_empty() && self.out.is_empty()
    }

    fn take(&mut self, line: Result<&[u8], LineError>) {
        let read = line.and_then(|line| if line.trim_ascii().is_empty() { Ok(None) } else { wire::read(line) });
        match read {
            Ok(None) => {}
            Ok(Some(Incoming::Request(id, request))) => self.start(id, *request),
            Ok(Some(Incoming::Notification(notification))) => self.notified(notification),
            Ok(Some(Incoming::Reply(id, result))) => {
                if let Some(reply) = self.asked.remove(&id) {
                    // The question may have expired.
                    let _ = reply.send(result);
                }
            }
            Err(error) => self.out.extend_from_slice(&error.to_line()),
        }
    }

    fn start(&mut self, id: RequestId, mut request: ClientRequest) {
        if self.in_flight.contains_key(&id) {
            let error = LineError { code: -32600, message: "id already in use", id: id.into_json_value() };
            return self.out.extend_from_slice(&error.to_line());
        }
        self.last_serial += 1;
        let serial = self.last_serial;
        if is_awaited(&request) {
            self.awaited = Some(serial);
        }
        let cancel = self.cancel.child_token();
        self.in_flight.insert(id.clone(), (serial, cancel.clone()));
        let meta = std::mem::take(request.get_meta_mut());
        let cx = Cx { id: id.clone(), meta, cancel, out: self.outbox.clone(), token: None };
        let door = Arc::clone(&self.door);
        self.calls.push(Box::pin(async move {
            let answer = AssertUnwindSafe(methods::answer(&door, request, cx)).catch_unwind().await;
            (serial, id, answer.unwrap_or_else(|_panic| Err(methods::internal())))
        }));
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "an enum of the SDK; other notifications change nothing here")]
    fn notified(&mut self, notification: ClientNotification) {
        self.door.session.first_message();
        match notification {
            ClientNotification::CancelledNotification(cancelled) => {
                let cancelled = cancelled.params.request_id.and_then(|id| self.in_flight.remove(&id));
                // A cancelled request has no answer, so later requests must not wait for it.
                if let Some((serial, cancel)) = cancelled {
                    cancel.cancel();
                    self.awaited.take_if(|it| *it == serial);
                }
            }
            ClientNotification::InitializedNotification(_) => {
                if let Some(watch) = self.door.watch.lock().take() {
                    self.watch = Some(watch);
                }
            }
            _ => {}
        }
    }

    /// Writes the answer to a request, unless the request was cancelled.
    fn finish(&mut self, (serial, id, answer): Ended) {
        self.awaited.take_if(|it| *it == serial);
        if self.in_flight.get(&id).is_some_and(|it| it.0 == serial) {
            self.in_flight.remove(&id);
            wire::write_answer(answer, id, &mut self.out);
        }
    }

    /// Returns another call that has already ended, so that both answers are sent in one write. The
    /// loop polls the remaining calls before it waits.
    fn next_ready(&mut self) -> Option<Ended> {
        if self.out.len() < GATHER { self.calls.next().now_or_never().flatten() } else { None }
    }

    fn send(&mut self, message: Outgoing) {
        match message {
            Outgoing::Notification(notification) => {
                // A slow peer loses progress and log messages, but no answers and no change
                // notifications.
                if !methods::may_be_lost(&notification) || self.out.len() < UNREAD / 2 {
                    self.notify(*notification);
                }
            }
            Outgoing::Request { request, reply } => {
                self.asked.retain(|_, reply| !reply.is_closed());
                self.last_serial += 1;
                let id = NumberOrString::Number(self.last_serial as i64);
                self.asked.insert(id.clone(), reply);
                wire::write(&JsonRpcMessage::request(*request, id), None, &mut self.out);
            }
        }
    }

    fn notify(&mut self, notification: ServerNotification) {
        wire::write(&JsonRpcMessage::notification(notification), None, &mut self.out);
    }

    /// Cancels all calls and returns the unwritten bytes. A dropped call still runs until its
    /// outcome is recorded.
    fn end(mut self) -> BytesMut {
        self.cancel.cancel();
        self.door.session.gone.cancel();
        std::mem::take(&mut self.out)
    }
}

/// Whether later requests wait for this one. All other requests run concurrently.
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
