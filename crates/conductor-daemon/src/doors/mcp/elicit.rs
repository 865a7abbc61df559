//! Sends approval questions to the client and receives the answers.
//!
//! A model can never answer: an answer in tool arguments is ignored, and the state that a modern
//! client carries between question and answer is sealed. The pipeline decides whether a client may
//! be asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use conductor_core::digest;
use conductor_core::error::{Code, ToolError};
use futures_util::future::BoxFuture;
use rmcp::model::{
    CustomRequest, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, ErrorData,
    InputRequest, InputRequests, InputRequiredResult, SealOptions, ServerRequest,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::McpDoor;
use super::era::{self, Era};
use super::methods::{Cx, Outgoing};
use conductor_gateway::catalog::Tool;
use conductor_gateway::pipeline::call::{Answered, AskClient, Call, ClientAnswer};

const KEY: &str = "approve";
/// Maximum length of a question. A longer question is truncated and ends with the number of omitted
/// lines.
const MAX_MESSAGE: usize = 2000;

/// The sealed state: the id of the approval record, and a nonce.
#[derive(Serialize, Deserialize)]
struct State {
    approval: String,
    nonce: String,
}

/// Binds the state to one call of one principal.
pub struct Question {
    principal: String,
    arguments: Vec<u8>,
}

impl Question {
    pub fn of(call: &Call) -> Self {
        Self {
            principal: call.principal.to_string(),
            arguments: digest::canonical(&call.arguments).unwrap_or_default(),
        }
    }

    fn bound_to(&self, tool: Option<&Tool>) -> Vec<u8> {
        let pin = tool.map(|tool| tool.pin.to_string()).unwrap_or_default();
        let arguments = digest::Digest::of(&self.arguments).to_string();
        [self.principal.as_str(), "\n", pin.as_str(), "\n", arguments.as_str()].concat().into_bytes()
    }
}

/// A client of the legacy era: it shows the form while the call is running.
struct Dialog {
    out: mpsc::Sender<Outgoing>,
    wait: Duration,
}

impl AskClient for Dialog {
    fn by_result(&self) -> bool {
        false
    }

    fn ask(&self, message: String) -> BoxFuture<'static, ClientAnswer> {
        let (out, wait) = (self.out.clone(), self.wait);
        Box::pin(async move {
            let params = serde_json::to_value(form(message)).unwrap_or_default();
            match request(&out, "elicitation/create", params, wait).await {
                Ok(result) => serde_json::from_value(result).map_or(ClientAnswer::Nothing, |it| verdict(&it)),
                Err(_) => ClientAnswer::Nothing,
            }
        })
    }
}

/// Sends a request to the client and waits for its answer.
pub async fn request(
    out: &mpsc::Sender<Outgoing>,
    method: &str,
    params: Value,
    wait: Duration,
) -> Result<Value, String> {
    let (reply, answer) = oneshot::channel();
    let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
    let sent = out.send(Outgoing::Request { request: Box::new(request), reply }).await;
    sent.map_err(|_| "the call has ended")?;
    match tokio::time::timeout(wait, answer).await {
        Ok(Ok(result)) => result.map_err(|error| error.message.into_owned()),
        Ok(Err(_)) => Err("the client has disconnected".to_owned()),
        Err(_) => Err("the client did not answer in time".to_owned()),
    }
}

/// The channel for questions to this client. `None` if the client cannot show forms.
pub fn channel(door: &McpDoor, cx: &Cx, era: Era) -> Option<Arc<dyn AskClient>> {
    if !era::shows_forms(door, cx) {
        return None;
    }
    Some(match era {
        Era::Legacy => {
            let wait = Duration::from_millis(door.studio().settings().mcp.elicitation_wait_ms);
            Arc::new(Dialog { out: cx.out.clone(), wait })
        }
        Era::Modern => Arc::new(ByResult),
    })
}

/// A client of the modern era: the question is the result of the call, and the client repeats the
/// call with the answer.
struct ByResult;

impl AskClient for ByResult {
    fn by_result(&self) -> bool {
        true
    }

    fn ask(&self, _message: String) -> BoxFuture<'static, ClientAnswer> {
        Box::pin(std::future::ready(ClientAnswer::Nothing))
    }
}

/// The decision in an answer: only `accept` with `approve: true` is a yes.
fn verdict(result: &ElicitResult) -> ClientAnswer {
    let yes = matches!(result.action, ElicitationAction::Accept)
        && result.content.as_ref().and_then(|content| content.get(KEY)) == Some(&Value::Bool(true));
    if yes { ClientAnswer::Yes } else { ClientAnswer::No }
}

fn form(message: String) -> ElicitRequestParams {
    let schema = json!({
        "type": "object",
        "properties": { "approve": { "type": "boolean", "title": "Allow this call once", "default": false } },
        "required": ["approve"]
    });
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: shorten(message),
        requested_schema: serde_json::from_value(schema).unwrap_or_else(|_| ElicitationSchema::new(BTreeMap::new())),
    }
}

fn shorten(message: String) -> String {
    if message.chars().count() <= MAX_MESSAGE {
        return message;
    }
    let lines: Vec<&str> = message.lines().collect();
    let mut kept = String::new();
    for (index, line) in lines.iter().enumerate() {
        let tail = format!("… {} more lines", lines.len() - index);
        if kept.chars().count() + line.chars().count() + tail.chars().count() + 1 > MAX_MESSAGE {
            if kept.is_empty() {
                let room = MAX_MESSAGE - tail.chars().count() - 1;
                kept.extend(line.chars().take(room));
                kept.push('\n');
            }
            kept.push_str(&tail);
            return kept;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// Adds the client's answer to a repeated call.
pub fn prepare(
    door: &McpDoor,
    call: &mut Call,
    state: Option<&str>,
    responses: Option<&BTreeMap<String, Value>>,
    era: Era,
) -> Result<(), ErrorData> {
    // An answer without a question is ignored.
    let (Era::Modern, Some(state)) = (era, state) else { return Ok(()) };
    let catalog = door.studio().catalog();
    let bound = Question::of(call).bound_to(catalog.get(&call.tool).map(|tool| tool.as_ref()));
    let opened: State = door.shared.seal.open_json_with(state, &bound).map_err(|_| bad_state())?;
    // No answer, or the answer to another question: ask the same question again.
    let Some(answer) = responses.and_then(|it| it.get(KEY)) else { return Ok(()) };
    let yes = serde_json::from_value::<ElicitResult>(answer.clone())
        .is_ok_and(|result| verdict(&result) == ClientAnswer::Yes);
    call.answered = Some(Answered { approval: opened.approval, yes });
    Ok(())
}

/// The error for a state that is not valid. The caller cannot distinguish forged, foreign, replayed
/// and expired states.
pub fn bad_state() -> ErrorData {
    ErrorData::invalid_params("Invalid requestState", None)
}

/// Whether the store reports that a sealed answer is no longer valid.
pub fn is_bad_state(error: &ToolError) -> bool {
    error.code == Code::PlanExpired && error.extras.more.get("request_state") == Some(&Value::Bool(false))
}

pub fn input_required(
    door: &McpDoor,
    question: &Question,
    tool: Option<&Tool>,
    approval: &str,
    message: String,
) -> Result<InputRequiredResult, ErrorData> {
    let mut requests = InputRequests::new();
    requests.insert(KEY.to_owned(), InputRequest::Elicitation(ElicitRequest::new(form(message))));
    let state = State { approval: approval.to_owned(), nonce: door.studio().ids.v4().to_string() };
    let bound = question.bound_to(tool);
    let sealed = door
        .shared
        .seal
        .seal_json_with(&state, &SealOptions::new().associated_data(&bound))
        .map_err(|_| ErrorData::internal_error("Internal error", None))?;
    Ok(InputRequiredResult::new(Some(requests), Some(sealed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_accept_and_true_is_a_yes() {
        let says = |value: Value| serde_json::from_value::<ElicitResult>(value).map(|it| verdict(&it));
        let yes = json!({ "action": "accept", "content": { "approve": true } });
        assert_eq!(says(yes).ok(), Some(ClientAnswer::Yes));
        for no in [
            json!({ "action": "accept", "content": { "approve": false } }),
            json!({ "action": "accept", "content": { "approve": "true" } }),
            json!({ "action": "accept", "content": { "ok": true } }),
            json!({ "action": "accept" }),
            json!({ "action": "decline", "content": { "approve": true } }),
            json!({ "action": "cancel" }),
        ] {
            assert_eq!(says(no.clone()).ok(), Some(ClientAnswer::No), "{no}");
        }
    }

    #[test]
    fn a_long_question_says_how_much_is_missing() {
        let short = shorten("a\nb".to_owned());
        assert_eq!(short, "a\nb");
        let long = shorten((0..1000).map(|n| format!("line {n}\n")).collect());
        assert!(long.chars().count() <= MAX_MESSAGE);
        let (kept, tail) = long.rsplit_once('\n').expect("lines");
        let left: usize =
            tail.trim_start_matches("… ").split(' ').next().and_then(|it| it.parse().ok()).expect("a number");
        assert_eq!(kept.lines().count() + left, 1000);
        assert!(shorten("x".repeat(5000)).chars().count() <= MAX_MESSAGE);
    }
}
