//! Events of the studio on one channel: changes that clients watch, approval requests, calls,
//! circuit breakers, plugins and checkpoints of the audit log.
//!
//! Senders are independent of listeners. Each listener selects the events that it receives. A slow
//! listener loses the oldest events, receives the number of lost events, and must treat everything
//! it watches as changed. Observers get ids, names, results and times, never an argument or an
//! output.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conductor_core::audit::Head;
use conductor_core::error::{AuditResult, Code};
use conductor_core::pending::Record;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use uuid::Uuid;

use crate::audit_log::head_value;

/// Maximum number of events queued for a slow listener.
const BACKLOG: usize = 1024;

/// A catalog list or a resource that has changed since clients read it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    Tools,
    Resources,
    Prompts,
    Uri(Arc<str>),
}

#[derive(Debug, Clone)]
pub enum Event {
    Changed(Change),
    ApprovalAsked(Arc<Record>),
    /// The approval was allowed or denied, has expired, or is stale.
    ApprovalDecided(Uuid),
    CallStarted {
        call: Uuid,
        tool: String,
        principal: String,
    },
    CallEnded {
        call: Uuid,
        tool: String,
        principal: String,
        result: AuditResult,
        code: Option<Code>,
        duration_ms: u64,
    },
    CircuitChanged {
        tool: String,
        target: Option<String>,
        state: &'static str,
    },
    PluginChanged {
        plugin: String,
        status: Value,
    },
    AuditCheckpoint(Head),
}

impl Event {
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Changed(_))
    }

    pub fn is_approval(&self) -> bool {
        matches!(self, Self::ApprovalAsked(_) | Self::ApprovalDecided(_))
    }

    /// Event name and data for an observer. `None` for [`Event::Changed`], which is only for
    /// clients that watch lists or resources.
    pub fn observed(&self) -> Option<(&'static str, Value)> {
        Some(match self {
            Self::Changed(_) => return None,
            Self::ApprovalAsked(record) => (
                "approval.pending",
                json!({
                    "id": record.id.to_string(), "short": record.short, "tool": record.tool, "tier": record.tier,
                    "principal": record.principal.to_string(),
                }),
            ),
            Self::ApprovalDecided(id) => ("approval.decided", json!({ "id": id.to_string() })),
            Self::CallStarted { call, tool, principal } => {
                ("tool.start", json!({ "call": call.to_string(), "tool": tool, "principal": principal }))
            }
            Self::CallEnded { call, tool, principal, result, code, duration_ms } => (
                "tool.complete",
                json!({
                    "call": call.to_string(), "tool": tool, "principal": principal, "result": result.as_str(), "code": code,
                    "duration_ms": duration_ms,
                }),
            ),
            Self::CircuitChanged { tool, target, state } => {
                ("circuit.changed", json!({ "tool": tool, "target": target, "state": state }))
            }
            Self::PluginChanged { plugin, status } => ("plugin.changed", json!({ "plugin": plugin, "status": status })),
            Self::AuditCheckpoint(head) => ("audit.checkpoint", head_value(head)),
        })
    }
}

pub struct Events {
    channel: broadcast::Sender<Event>,
    observers: Arc<AtomicUsize>,
}

impl Default for Events {
    fn default() -> Self {
        Self { channel: broadcast::channel(BACKLOG).0, observers: Arc::default() }
    }
}

impl Events {
    pub fn send(&self, event: Event) {
        // `send` fails when there are no listeners. The event is dropped then.
        let _ = self.channel.send(event);
    }

    pub fn changed(&self, change: Change) {
        self.send(Event::Changed(change));
    }

    pub fn uri_changed(&self, uri: &str) {
        self.changed(Change::Uri(uri.into()));
    }

    /// Sends an event for observers only. The event is built only while there is an observer: most
    /// calls have none.
    pub fn observe_with(&self, event: impl FnOnce() -> Event) {
        if self.observers.load(Ordering::Acquire) > 0 {
            self.send(event());
        }
    }

    /// Receives all later events that `wants` accepts.
    pub fn listen(&self, wants: fn(&Event) -> bool) -> Listener {
        Listener { receiver: self.channel.subscribe(), wants, observing: None }
    }

    /// Receives all later events except [`Event::Changed`].
    pub fn observe(&self) -> Listener {
        self.observe_some(|event| !event.is_change())
    }

    /// Receives all later events, including [`Event::Changed`].
    pub fn observe_all(&self) -> Listener {
        self.observe_some(|_| true)
    }

    fn observe_some(&self, wants: fn(&Event) -> bool) -> Listener {
        self.observers.fetch_add(1, Ordering::AcqRel);
        let observing = Some(Observing(Arc::clone(&self.observers)));
        Listener { observing, ..self.listen(wants) }
    }
}

struct Observing(Arc<AtomicUsize>);

impl Drop for Observing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

pub struct Listener {
    receiver: broadcast::Receiver<Event>,
    wants: fn(&Event) -> bool,
    #[expect(dead_code, reason = "counts the observer until it is dropped")]
    observing: Option<Observing>,
}

impl Listener {
    /// The next wanted event. `Lagged` counts all lost events, including unwanted ones.
    pub async fn recv(&mut self) -> Result<Event, RecvError> {
        loop {
            let event = self.receiver.recv().await?;
            if (self.wants)(&event) {
                return Ok(event);
            }
        }
    }

    pub fn try_recv(&mut self) -> Result<Event, TryRecvError> {
        loop {
            let event = self.receiver.try_recv()?;
            if (self.wants)(&event) {
                return Ok(event);
            }
        }
    }
}
