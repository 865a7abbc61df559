//! Allows a test server to answer requests itself.
//!
//! The public conformance suite needs tools that send requests to their client and return
//! questions. Tools of the product never do this.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{ClientRequest, MetaObject};
use serde_json::Value;
use tokio::sync::mpsc;

use super::era::{self, Era};
use super::methods::{Answer, Cx, Outgoing};
use super::{McpDoor, Shared, elicit};

const WAIT: Duration = Duration::from_secs(20);

pub trait Fixtures: Send + Sync {
    /// The answer of a fixture. `None` if the request is not for a fixture.
    fn answer(&self, request: &ClientRequest, link: Link) -> Option<BoxFuture<'static, Answer>>;
}

/// The connection of a fixture to its client.
pub struct Link {
    shared: Arc<Shared>,
    out: mpsc::Sender<Outgoing>,
    pub capabilities: Value,
    /// The identity of the server, which is part of every modern result.
    pub meta: Option<MetaObject>,
}

impl Link {
    pub fn new(door: &McpDoor, cx: &Cx, era: Era) -> Self {
        Self {
            shared: Arc::clone(&door.shared),
            out: cx.out.clone(),
            capabilities: era::capabilities(door, cx).and_then(|it| serde_json::to_value(it).ok()).unwrap_or_default(),
            meta: door.signed(era),
        }
    }

    pub fn seal(&self, text: &str) -> String {
        self.shared.seal.seal(text.as_bytes())
    }

    pub fn open(&self, sealed: &str) -> Option<String> {
        self.shared.seal.open(sealed).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    }

    /// Sends a request to a client of the legacy era.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, String> {
        elicit::request(&self.out, method, params, WAIT).await
    }
}
