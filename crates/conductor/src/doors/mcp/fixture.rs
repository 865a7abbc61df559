//! Lets the fixtures of the public test suite reach their client. Compiled in the fixture build
//! only; the product does not use it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolResponse, ErrorCode, ErrorData, GetPromptResponse, InputRequests, InputRequiredResult, MetaObject,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::era::{self, Era};
use super::methods::{Cx, Outgoing};
use super::{McpDoor, Shared, elicit};
use conductor_gateway::pipeline::call::{FixtureClient, Special};

const WAIT: Duration = Duration::from_secs(20);

pub struct Link {
    shared: Arc<Shared>,
    era: Era,
    capabilities: Value,
    responses: Option<Value>,
    state: Option<String>,
    out: mpsc::Sender<Outgoing>,
}

impl Link {
    pub fn new(
        door: &McpDoor,
        cx: &Cx,
        era: Era,
        responses: Option<BTreeMap<String, Value>>,
        state: Option<String>,
    ) -> Self {
        Self {
            shared: Arc::clone(&door.shared),
            era,
            capabilities: era::capabilities(door, cx).and_then(|it| serde_json::to_value(it).ok()).unwrap_or_default(),
            responses: responses.and_then(|it| serde_json::to_value(it).ok()),
            state,
            out: cx.out.clone(),
        }
    }
}

impl FixtureClient for Link {
    fn is_modern(&self) -> bool {
        self.era == Era::Modern
    }

    fn capabilities(&self) -> Value {
        self.capabilities.clone()
    }

    fn responses(&self) -> Option<Value> {
        self.responses.clone()
    }

    fn state(&self) -> Option<String> {
        self.state.clone()
    }

    fn seal(&self, text: &str) -> String {
        self.shared.seal.seal(text.as_bytes())
    }

    fn open(&self, sealed: &str) -> Option<String> {
        self.shared.seal.open(sealed).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    }

    fn request(&self, method: &str, params: Value) -> BoxFuture<'static, Result<Value, String>> {
        let (out, method) = (self.out.clone(), method.to_owned());
        Box::pin(async move { elicit::request(&out, &method, params, WAIT).await })
    }
}

fn input_required(
    requests: Value,
    state: Option<String>,
    meta: Option<MetaObject>,
) -> Result<InputRequiredResult, ErrorData> {
    let requests: InputRequests =
        serde_json::from_value(requests).map_err(|fault| ErrorData::internal_error(fault.to_string(), None))?;
    let mut result = InputRequiredResult::new(Some(requests), state);
    result.meta = meta;
    Ok(result)
}

pub fn special(special: Special, meta: Option<MetaObject>) -> Result<CallToolResponse, ErrorData> {
    match special {
        Special::InputRequired { requests, state } => input_required(requests, state, meta).map(Into::into),
        Special::ProtocolError { code, message, data } => Err(ErrorData::new(ErrorCode(code), message, Some(data))),
    }
}

/// The fixture prompt that asks the client.
pub fn prompt_asks(
    name: &str,
    answered: bool,
    meta: Option<MetaObject>,
) -> Option<Result<GetPromptResponse, ErrorData>> {
    if name != "test_input_required_result_prompt" || answered {
        return None;
    }
    let requests = conductor_gateway::tools::conformance::form(
        "user_context",
        "What context should the prompt use?",
        "context",
        "string",
    );
    Some(input_required(requests, None, meta).map(Into::into))
}
