//! Tool calls that a person makes in the console. Each call passes through the pipeline and is
//! recorded. If the call needs an approval, the page shows the question once, and the repeated
//! call carries the person's confirmation.

use super::sessions::Session;
use super::{Console, Refusal, plain, read};
use axum::body::Body;
use axum::response::Response;
use conductor_core::digest::{self, Digest};
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::pending::{Kind, State};
use conductor_core::policy::Channel;
use conductor_gateway::catalog::names::Toolset;
use conductor_gateway::pipeline::call::{Content, Outcome};
use conductor_gateway::pipeline::{self, Call};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use crate::doors::control::decisions::{self, Grant};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default = "nothing")]
    arguments: Value,
    confirm: Option<String>,
}

fn nothing() -> Value {
    json!({})
}

impl Console {
    pub(super) async fn call(&self, session: &Session, tool: String, body: Body) -> Result<Response, Refusal> {
        let Request { arguments, confirm } = read(body).await?;
        let studio = self.studio();
        if let Some(id) = confirm {
            self.confirm(session, &tool, &arguments, &id).await?;
        }
        let mut call = Call::new(session.person(), tool, arguments);
        call.conn = session.conn;
        // Exclude the hidden tools: they make decisions, and decisions have their own route.
        call.toolset = Arc::new(Toolset::Listed);
        // If the page is closed, this future is dropped, and that cancels the call.
        let cancel = CancellationToken::new();
        let _gone = cancel.clone().drop_guard();
        call.cancel = cancel;
        match pipeline::run(studio, call).await.into_outcome() {
            Outcome::Done(Ok(output)) => {
                let is_error = output.is_error;
                let (value, _, content) = output.into_parts();
                let mut answer = json!({ "result": value });
                if !content.is_empty() {
                    answer["content"] = content.into_iter().map(block).collect();
                }
                if is_error {
                    answer["is_error"] = true.into();
                }
                Ok(plain(&answer))
            }
            Outcome::Done(Err(error)) => Err(error.into()),
            Outcome::Cancelled => Err(ToolError::new(Code::Internal, "the call was cancelled").into()),
            Outcome::Ask { .. } => Err(ToolError::new(Code::ApprovalRequired, "a person must answer").into()),
        }
    }

    /// Approves exactly this call by this person.
    async fn confirm(&self, session: &Session, tool: &str, arguments: &Value, id: &str) -> Result<(), ToolError> {
        let person = session.person();
        let record = decisions::find(&self.control, id, &[Kind::Call])?;
        let name = self.studio().catalog().named(tool).map(|it| it.name.to_string());
        let args_hash = digest::canonical(arguments).ok().map(|it| Digest::of(&it));
        let is_this = record.kind == Kind::Call
            && record.state == State::Pending
            && record.principal == person
            && Some(&record.tool) == name.as_ref()
            && Some(record.args_hash) == args_hash;
        if !is_this {
            return Err(ToolError::new(Code::PlanStale, "this confirmation is not an open request for this call")
                .subject(Subject::Approval(id.to_owned()))
                .hint("Call the tool again and confirm the new question."));
        }
        let once = Grant::Uses { uses: 1, for_ms: None, any_args: false };
        decisions::allow(&self.control, &person, Channel::Console, id, once).await.map(drop)
    }
}

/// A content block in the form of MCP.
fn block(content: Content) -> Value {
    match content {
        Content::Text(text) => json!({ "type": "text", "text": text }),
        Content::Image { mime, base64 } => json!({ "type": "image", "mimeType": mime, "data": base64 }),
        Content::Audio { mime, base64 } => json!({ "type": "audio", "mimeType": mime, "data": base64 }),
        Content::Resource { uri, mime, text } => {
            json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime, "text": text } })
        }
        Content::Blob { uri, mime, base64 } => {
            json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime, "blob": base64 } })
        }
    }
}
