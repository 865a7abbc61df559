//! A call and its reply.
//!
//! Not here: how a call arrived (`doors`) and its steps (`pipeline`).

use std::sync::Arc;

use conductor_core::error::ToolError;
pub use conductor_core::principal::Principal;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Recorded;
use crate::catalog::names::Toolset;
use crate::script::Execution;
use crate::secrets::Scrubber;

/// One connection or HTTP session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

impl ConnId {
    /// The id of callers without a connection.
    pub const NONE: Self = Self(0);
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    Tool,
    Resource {
        uri: String,
    },
    /// The call was made through `conductor_call_tool`.
    CallTool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
    Error,
}

/// Sends progress and log messages to the client that waits for this call.
pub trait Progress: Send + Sync {
    fn report(&self, done: f64, total: Option<f64>, text: &str);
    /// Logs an event of this call, such as a retry, a wait or a probe. `text` must not contain
    /// arguments or secrets.
    fn log(&self, level: LogLevel, text: &str);
}

/// The answer of the client's own dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAnswer {
    Yes,
    No,
    /// No answer in time, or the client could not show the form. The question stays open.
    Nothing,
}

/// A client that can show a form. The pipeline decides whether to use it.
pub trait AskClient: Send + Sync {
    /// Whether the question is sent as a result, so that the client repeats the call with its
    /// answer. If false, the call waits.
    fn by_result(&self) -> bool;
    /// Shows the form and waits, at most for the time that the door allows.
    fn ask(&self, message: String) -> BoxFuture<'static, ClientAnswer>;
}

/// A client's answer to a question that was returned as the result of an earlier call. The door has
/// verified the seal of the answer. The approval store decides whether the answer is still valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    pub approval: String,
    pub yes: bool,
}

pub struct Call {
    pub principal: Principal,
    pub conn: ConnId,
    /// The dotted or the safe form of the tool's name.
    pub tool: String,
    pub arguments: Value,
    pub via: Via,
    /// Tools outside this set are unknown to the caller.
    pub toolset: Arc<Toolset>,
    pub cancel: CancellationToken,
    pub progress: Option<Arc<dyn Progress>>,
    pub ask: Option<Arc<dyn AskClient>>,
    pub answered: Option<Answered>,
    /// Whether the event of a `mapping:` principal came from the network. If so, no standing grant
    /// (an approval that was given in advance) applies.
    pub tainted: bool,
    /// Whether the caller's connection has reached its maximum number of running calls.
    pub crowded: bool,
    /// The script that makes this call. Such a call never waits for a person. Instead the script
    /// stops, and continues when the caller runs the identical script again.
    pub script: Option<Arc<Execution>>,
}

impl Call {
    pub fn new(principal: Principal, tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            principal,
            conn: ConnId::NONE,
            tool: tool.into(),
            arguments,
            via: Via::Tool,
            toolset: Arc::new(Toolset::All),
            cancel: CancellationToken::new(),
            progress: None,
            ask: None,
            answered: None,
            tainted: false,
            crowded: false,
            script: None,
        }
    }
}

/// A content block in addition to the value.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text(String),
    Image { mime: String, base64: String },
    Audio { mime: String, base64: String },
    Resource { uri: String, mime: String, text: String },
    Blob { uri: String, mime: String, base64: String },
}

impl Content {
    /// Replaces all known secrets.
    pub fn clean(&mut self, scrubber: &Scrubber) {
        match self {
            Self::Text(text) => scrubber.string(text),
            Self::Image { base64, .. } | Self::Audio { base64, .. } => scrubber.string(base64),
            Self::Resource { uri, text, .. } | Self::Blob { uri, base64: text, .. } => {
                scrubber.string(uri);
                scrubber.string(text);
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Image { base64, .. } | Self::Audio { base64, .. } | Self::Blob { base64, .. } => base64.len(),
            Self::Resource { text, .. } => text.len(),
        }
    }
}

/// The result of a tool: one value, and content blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    pub value: Value,
    pub content: Vec<Content>,
    /// The value as compact JSON. The pipeline renders it once; every door sends this text.
    text: String,
    /// False for a plugin that returned finished blocks without a value.
    structured: bool,
    /// Whether the tool itself reports that it could not do the work. Such a report is an answer,
    /// not a failure of the tool.
    pub is_error: bool,
}

impl Output {
    pub fn new(value: Value) -> Self {
        Self { value, content: Vec::new(), text: String::new(), structured: true, is_error: false }
    }

    /// An output with content blocks only, for a tool without an output schema.
    pub fn blocks(content: Vec<Content>) -> Self {
        Self { content, structured: false, ..Self::new(Value::Null) }
    }

    /// Marks this output as the tool's own error result.
    #[must_use]
    pub fn as_error(self, is_error: bool) -> Self {
        Self { is_error, ..self }
    }

    pub fn is_structured(&self) -> bool {
        self.structured
    }

    #[must_use]
    pub fn with(mut self, content: Content) -> Self {
        self.content.push(content);
        self
    }

    /// Renders the text and returns the number of bytes to send.
    pub(super) fn render(&mut self) -> usize {
        if self.structured {
            self.text = self.value.to_string();
        }
        self.text.len() + self.content.iter().map(Content::bytes).sum::<usize>()
    }

    /// The text blocks, joined.
    pub(super) fn plain(&self) -> String {
        let texts =
            self.content.iter().filter_map(|it| if let Content::Text(text) = it { Some(text.as_str()) } else { None });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Replaces all known secrets in every part.
    pub(super) fn clean(&mut self, scrubber: &Scrubber) {
        scrubber.value(&mut self.value);
        scrubber.string(&mut self.text);
        self.content.iter_mut().for_each(|it| it.clean(scrubber));
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn into_parts(self) -> (Value, String, Vec<Content>) {
        (self.value, self.text, self.content)
    }
}

impl From<Value> for Output {
    fn from(value: Value) -> Self {
        Self::new(value)
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Done(Result<Output, ToolError>),
    /// No reply is sent.
    Cancelled,
    /// The question is sent to the client as a result (MCP 2026); the approval stays pending.
    Ask {
        approval: String,
        message: String,
    },
}

/// The reply that a door sends. It is built only from a [`Recorded`], so that no call skips the
/// audit log.
pub struct Reply {
    outcome: Outcome,
    tool: Option<Arc<crate::catalog::Tool>>,
    steps: super::Steps,
}

impl Reply {
    pub(super) fn new(recorded: Recorded) -> Self {
        let (outcome, tool, steps) = recorded.into_parts();
        Self { outcome, tool, steps }
    }

    /// Whether the tool ran and succeeded.
    pub fn is_ok(&self) -> bool {
        matches!(self.outcome(), Outcome::Done(Ok(_)))
    }

    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    pub fn into_outcome(self) -> Outcome {
        self.outcome
    }

    /// The definition of the called tool; absent when there is no such tool.
    pub fn tool(&self) -> Option<&Arc<crate::catalog::Tool>> {
        self.tool.as_ref()
    }

    /// The steps this call passed, in order.
    pub fn steps(&self) -> &super::Steps {
        &self.steps
    }
}
