//! Dispatches every method of the protocol, for line connections and HTTP.

use conductor_core::principal::Principal;
use rmcp::model::{
    CacheScope, ClientRequest, CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorData,
    InitializeRequestParams, InitializeResult, RequestId, RequestMetaObject, ServerCapabilities, ServerConfig,
    ServerNotification, ServerRequest, ServerResult,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::era::{self, Era};
use super::fixtures::Link;
use super::{INSTRUCTIONS, McpDoor, call_tool, complete, lists, progress, prompt, resource, skill, subscribe};

const DISCOVER_TTL_MS: u64 = 300_000;

pub type Answer = Result<ServerResult, ErrorData>;

/// The context of a request.
pub struct Cx {
    pub id: RequestId,
    pub meta: RequestMetaObject,
    pub cancel: CancellationToken,
    pub out: mpsc::Sender<Outgoing>,
    /// The principal of the bearer token, for requests over HTTP.
    pub token: Option<Principal>,
}

/// A message that a running request sends to its client.
pub enum Outgoing {
    Notification(Box<ServerNotification>),
    Request { request: Box<ServerRequest>, reply: oneshot::Sender<Result<Value, ErrorData>> },
}

/// Whether a client that reads slowly may lose this notification. True for progress and log
/// messages, false for change notifications.
pub fn may_be_lost(notification: &ServerNotification) -> bool {
    matches!(
        notification,
        ServerNotification::ProgressNotification(_) | ServerNotification::LoggingMessageNotification(_)
    )
}

pub async fn answer(door: &McpDoor, request: ClientRequest, cx: Cx) -> Answer {
    let is_first = door.session.first_message();
    let era = era::admit(door, &request, &cx)?;
    let fixtures = door.shared.fixtures.get();
    let answer = match fixtures.and_then(|it| it.answer(&request, Link::new(door, &cx, era))) {
        Some(answer) => answer.await,
        None => dispatch(door, request, &cx, era, is_first).await,
    };
    answer.map(|result| era::shaped(result, era)).map_err(|error| door.clean(era::coded(error, era)))
}

async fn dispatch(door: &McpDoor, request: ClientRequest, cx: &Cx, era: Era, is_first: bool) -> Answer {
    match request {
        ClientRequest::InitializeRequest(it) => initialize(door, it.params).map(ServerResult::InitializeResult),
        ClientRequest::DiscoverRequest(_) => Ok(ServerResult::DiscoverResult(discover(door, era))),
        ClientRequest::PingRequest(_) if era == Era::Legacy => Ok(ServerResult::empty(())),
        ClientRequest::PingRequest(_) => Err(era::unknown_method("ping")),
        ClientRequest::ListToolsRequest(it) => lists::tools(door, it.params, cx, era),
        ClientRequest::CallToolRequest(it) => call_tool::answer(door, it.params, cx, era).await,
        ClientRequest::ListResourcesRequest(it) => lists::resources(door, it.params, era),
        ClientRequest::ListResourceTemplatesRequest(it) => lists::resource_templates(door, it.params, era),
        ClientRequest::ReadResourceRequest(it) => resource::read(door, it.params, cx, era).await,
        ClientRequest::ListPromptsRequest(it) => lists::prompts(door, it.params, era),
        ClientRequest::GetPromptRequest(it) => prompt::get(door, it.params, era),
        ClientRequest::CompleteRequest(it) => {
            let found = complete::complete(
                &door.session,
                &it.params.r#ref,
                &it.params.argument.name,
                &it.params.argument.value,
            );
            found.map(|values| {
                let mut result = CompleteResult::new(values);
                result.meta = door.signed(era);
                ServerResult::CompleteResult(result)
            })
        }
        ClientRequest::SetLevelRequest(it) if era == Era::Legacy => {
            door.session.set_log_level(progress::level_asked(&it.params));
            Ok(ServerResult::empty(()))
        }
        ClientRequest::SetLevelRequest(_) => Err(era::unknown_method("logging/setLevel")),
        ClientRequest::SubscribeRequest(it) if era == Era::Legacy => subscribe::subscribe(door, &it.params.uri),
        ClientRequest::SubscribeRequest(_) => Err(era::unknown_method("resources/subscribe")),
        ClientRequest::UnsubscribeRequest(it) if era == Era::Legacy => {
            door.subscriptions.lock().remove(&it.params.uri);
            Ok(ServerResult::empty(()))
        }
        ClientRequest::UnsubscribeRequest(_) => Err(era::unknown_method("resources/unsubscribe")),
        ClientRequest::SubscriptionsListenRequest(it) if era == Era::Modern => {
            Box::pin(subscribe::listen(door, it.params.notifications, cx)).await
        }
        ClientRequest::SubscriptionsListenRequest(_) => Err(era::unknown_method("subscriptions/listen")),
        ClientRequest::CustomRequest(it) if skill::is_method(&it.method) => {
            skill::answer(door, &it.method, it.params, era)
        }
        ClientRequest::CustomRequest(it) => custom(door, it, cx, is_first).await,
        ClientRequest::GetTaskRequest(_) => Err(era::unknown_method("tasks/get")),
        ClientRequest::UpdateTaskRequest(_) => Err(era::unknown_method("tasks/update")),
        ClientRequest::CancelTaskRequest(_) => Err(era::unknown_method("tasks/cancel")),
        _ => Err(era::unknown_method("this method is part of a newer protocol")),
    }
}

pub fn internal() -> ErrorData {
    ErrorData::internal_error("Internal error", None)
}

/// Answers the hello of a proxy, or a call in the direct dialect. Both are disabled over HTTP: a
/// web page with a stolen token could otherwise run a tool with a single request.
async fn custom(door: &McpDoor, request: CustomRequest, cx: &Cx, is_first: bool) -> Answer {
    let CustomRequest { method, params, .. } = request;
    let result = if cx.token.is_some() {
        Err(door.unknown_method(&method))
    } else if method == "conductor.hello" {
        if is_first { door.hello(params.as_ref(), false) } else { Err(era::unknown_method("conductor.hello")) }
    } else {
        call_tool::direct(door, method, params, cx).await
    };
    result.map(|value| ServerResult::CustomResult(CustomResult::new(value)))
}

pub fn info() -> ServerConfig {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools.get_or_insert_default().list_changed = Some(true);
    capabilities.prompts.get_or_insert_default().list_changed = Some(true);
    let resources = capabilities.resources.get_or_insert_default();
    (resources.list_changed, resources.subscribe) = (Some(true), Some(true));
    capabilities.completions = Some(Default::default());
    skill::declare(capabilities.extensions.get_or_insert_default());
    ServerConfig::new(progress::with_logging(capabilities))
        .with_server_info(McpDoor::identity())
        .with_instructions(INSTRUCTIONS)
}

/// Answers the handshake and stores the agreed version, which may differ from the requested one.
pub fn initialize(door: &McpDoor, mut request: InitializeRequestParams) -> Result<InitializeResult, ErrorData> {
    let mut agreed = info();
    agreed.protocol_version = era::agree(&request.protocol_version);
    request.protocol_version = agreed.protocol_version.clone();
    door.set_handshake(request);
    *door.watch.lock() = Some(subscribe::Watch::new(door.studio()));
    Ok(agreed)
}

pub fn discover(door: &McpDoor, era: Era) -> DiscoverResult {
    let mut result = DiscoverResult::from_server_info(era::SUPPORTED.to_vec(), info())
        .with_ttl_ms(DISCOVER_TTL_MS)
        .with_cache_scope(CacheScope::Private);
    result.meta = door.signed(era);
    result
}
