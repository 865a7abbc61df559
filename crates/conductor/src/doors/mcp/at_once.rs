//! Answers calls that need not wait in the task that read them.
//!
//! The SDK makes two tasks of every request and passes each reply through two queues, which costs
//! more than most reads. Here a call starts where it was read, with the same handler; only a call
//! that must wait is passed to the SDK and continues there. Not here: what a call does, or how its
//! reply reaches the peer (`line`, `http`).

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, ClientRequest, ErrorData, GetExtensions, GetMeta,
    JsonRpcMessage, RequestId, ServerResult,
};
use rmcp::service::{RequestContext, TxJsonRpcMessage};
use rmcp::{Peer, RoleServer, Service};
use tokio_util::sync::CancellationToken;

use super::{LineService, McpDoor};

pub type Answer = Result<ServerResult, ErrorData>;

/// The state of a request after its first poll.
pub enum Begun {
    Done(Answer),
    /// To be continued by the SDK.
    Waiting(Rest),
    /// Unchanged, for the SDK.
    Untouched(ClientRequest),
}

/// The answer as a message.
pub fn message(answer: Answer, id: RequestId) -> TxJsonRpcMessage<RoleServer> {
    match answer {
        Ok(result) => JsonRpcMessage::response(result, id),
        Err(error) => JsonRpcMessage::error(error, Some(id)),
    }
}

/// Starts the calls of a line connection.
pub struct Line {
    service: LineService,
    /// Set when the SDK serves the connection; no call starts here before that.
    peer: Arc<OnceLock<Peer<RoleServer>>>,
}

impl Line {
    pub fn new(service: LineService) -> (Self, Arc<OnceLock<Peer<RoleServer>>>) {
        let peer = Arc::new(OnceLock::new());
        (Self { service, peer: Arc::clone(&peer) }, peer)
    }

    pub fn begin(&self, request: ClientRequest, id: &RequestId) -> Begun {
        let (ClientRequest::CallToolRequest(_), Some(peer)) = (&request, self.peer.get()) else {
            return Begun::Untouched(request);
        };
        let service = self.service.clone();
        begin(request, id, peer, |request, context| async move { service.answer(request, context).await })
    }
}

/// Starts the calls of an HTTP session. The SDK creates the session's handler and does not expose
/// it, so the first request carries a shared slot; the handler stores itself there, so that later
/// calls can bypass the SDK.
#[derive(Clone, Default)]
pub struct Seat(Arc<OnceLock<(McpDoor, Peer<RoleServer>)>>);

impl Seat {
    pub fn take(&self, door: &McpDoor, peer: &Peer<RoleServer>) {
        let _ = self.0.set((door.clone(), peer.clone()));
    }

    pub fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }

    pub fn begin(&self, request: ClientRequest, id: &RequestId) -> Begun {
        // Calls that may send messages belong to the SDK, which finds the stream of a message by
        // the task that sends it.
        let is_silent =
            |door: &McpDoor| request.get_meta().get_progress_token().is_none() && door.session.log_level().is_none();
        let (ClientRequest::CallToolRequest(_), Some((door, peer))) =
            (&request, self.0.get().filter(|(door, _)| is_silent(door)))
        else {
            return Begun::Untouched(request);
        };
        let door = door.clone();
        begin(
            request,
            id,
            peer,
            |request, context| async move { Service::handle_request(&door, request, context).await },
        )
    }
}

fn begin<F>(
    mut request: ClientRequest,
    id: &RequestId,
    peer: &Peer<RoleServer>,
    answer: impl FnOnce(ClientRequest, RequestContext<RoleServer>) -> F,
) -> Begun
where
    F: Future<Output = Answer> + Send + 'static,
{
    let mut context = RequestContext::new(id.clone(), peer.clone());
    std::mem::swap(&mut context.meta, request.get_meta_mut());
    std::mem::swap(&mut context.extensions, request.extensions_mut());
    let cancel = context.ct.clone();
    let mut future: BoxFuture<'static, Answer> = Box::pin(answer(request, context));
    // The task that continues the call polls it again at once, with its own waker.
    let mut asked = Context::from_waker(Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut asked))) {
        Ok(Poll::Ready(answer)) => Begun::Done(answer),
        Ok(Poll::Pending) => Begun::Waiting(Rest(Arc::new(Mutex::new(Some(Work { future, cancel }))))),
        Err(_panic) => Begun::Done(Err(internal())),
    }
}

fn internal() -> ErrorData {
    ErrorData::internal_error("Internal error", None)
}

/// The rest of a call that has started, on its way through the SDK to its handler.
#[derive(Clone)]
pub struct Rest(Arc<Mutex<Option<Work>>>);

struct Work {
    future: BoxFuture<'static, Answer>,
    cancel: CancellationToken,
}

impl Rest {
    /// A placeholder request without the content of the call; only the handler reads the rest.
    pub fn into_request(self) -> ClientRequest {
        let mut request = CallToolRequest::new(CallToolRequestParams::new(""));
        request.extensions.insert(self);
        ClientRequest::CallToolRequest(request)
    }

    /// Runs the call to its end. From here on the SDK's token cancels it.
    pub async fn finish(self, cancelled: &CancellationToken) -> Answer {
        let left = self.0.lock().take();
        let Some(mut work) = left else { return Err(internal()) };
        tokio::select! {
            answer = &mut work.future => answer,
            () = cancelled.cancelled() => {
                work.cancel.cancel();
                work.future.await
            }
        }
    }

    /// The same, for the SDK method that expects the result of a call.
    pub async fn finish_call(self, cancelled: &CancellationToken) -> Result<CallToolResponse, ErrorData> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "an enum of the SDK; a call ends in one of two")]
        match self.finish(cancelled).await? {
            ServerResult::CallToolResult(result) => Ok(result.into()),
            ServerResult::InputRequiredResult(result) => Ok(result.into()),
            _ => Err(internal()),
        }
    }
}
