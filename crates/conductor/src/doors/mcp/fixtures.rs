//! Lets a test server answer requests itself.
//!
//! Fixtures of the public suite send requests to their client and answer with questions, as no tool
//! of the product does. The product has no fixtures.

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
    /// The answer of a fixture. `None` leaves the request to the product.
    fn answer(&self, request: &ClientRequest, link: Link) -> Option<BoxFuture<'static, Answer>>;
}

/// The client of a fixture.
pub struct Link {
    shared: Arc<Shared>,
    out: mpsc::Sender<Outgoing>,
    pub capabilities: Value,
    /// The identity of the server, which belongs on every result of the newer era.
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

    /// A request to a client of the older era.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, String> {
        elicit::request(&self.out, method, params, WAIT).await
    }
}
