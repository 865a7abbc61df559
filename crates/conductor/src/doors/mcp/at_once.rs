//! Calls that wait for nothing, answered in the task that read them.
//!
//! The SDK makes two tasks of every request and passes each reply through two queues, which costs a read more than the read. Here a call
//! is begun where its line was read, by the same handler; only what is not done at once becomes the SDK's, and goes on there from where
//! it stands. Not here: what a call does, or how its reply reaches the peer (`line`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorData, GetExtensions, GetMeta, RequestId, ServerResult,
};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use tokio_util::sync::CancellationToken;

use super::LineService;

type Answer = Result<ServerResult, ErrorData>;

/// Begins the calls of one connection.
pub struct AtOnce {
    service: LineService,
    /// Set once the SDK serves the connection; before that nothing is begun here.
    peer: Arc<OnceLock<Peer<RoleServer>>>,
}

/// What became of a request.
pub enum Begun {
    Done(Answer),
    /// For the SDK, as it came or with what is left to do inside.
    Passed(ClientRequest),
}

impl AtOnce {
    pub fn new(service: LineService) -> (Self, Arc<OnceLock<Peer<RoleServer>>>) {
        let peer = Arc::new(OnceLock::new());
        (Self { service, peer: Arc::clone(&peer) }, peer)
    }

    pub fn begin(&self, mut request: ClientRequest, id: &RequestId) -> Begun {
        let (ClientRequest::CallToolRequest(_), Some(peer)) = (&request, self.peer.get()) else {
            return Begun::Passed(request);
        };
        let mut context = RequestContext::new(id.clone(), peer.clone());
        std::mem::swap(&mut context.meta, request.get_meta_mut());
        std::mem::swap(&mut context.extensions, request.extensions_mut());
        let cancel = context.ct.clone();
        let service = self.service.clone();
        let mut future: BoxFuture<'static, Answer> = Box::pin(async move { service.answer(request, context).await });
        // Whoever goes on with it asks again at once, with a waker of its own.
        let mut asked = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut asked))) {
            Ok(Poll::Ready(answer)) => Begun::Done(answer),
            Ok(Poll::Pending) => {
                Begun::Passed(Rest(Arc::new(Mutex::new(Some(Work { future, cancel })))).into_request())
            }
            Err(_panic) => Begun::Done(Err(ErrorData::internal_error("Internal error", None))),
        }
    }
}

/// What is left of a call that was begun, on its way through the SDK to [`LineService`].
#[derive(Clone)]
pub struct Rest(Arc<Mutex<Option<Work>>>);

struct Work {
    future: BoxFuture<'static, Answer>,
    cancel: CancellationToken,
}

impl Rest {
    /// A request that stands for it. Nothing of the call is in it: only the handler looks inside.
    fn into_request(self) -> ClientRequest {
        let mut request = CallToolRequest::new(CallToolRequestParams::new(""));
        request.extensions.insert(self);
        ClientRequest::CallToolRequest(request)
    }

    /// Goes on to the end. From here on the SDK's token is what cancels the call.
    pub async fn finish(self, cancelled: &CancellationToken) -> Answer {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut work) = left else { return Err(ErrorData::internal_error("Internal error", None)) };
        tokio::select! {
            answer = &mut work.future => answer,
            () = cancelled.cancelled() => {
                work.cancel.cancel();
                work.future.await
            }
        }
    }
}
