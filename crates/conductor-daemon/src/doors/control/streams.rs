//! The streams of the human door: trace records, bytes sent to a port, and approval requests.

use super::{Caller, Control, play};
use conductor_core::engine::TraceRecord;
use conductor_core::error::ToolError;
use conductor_gateway::owner_handle::{OwnerHandle, SentBy};
use conductor_gateway::performance_lock::locked;
use conductor_gateway::pipeline::approval::ApproverPresent;
use conductor_gateway::studio::events::{Event, Listener};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Time between two state items of a monitor stream.
const STATE_PERIOD: Duration = Duration::from_millis(500);

/// A stream of items, until either side ends it. Each item is one message.
pub enum Stream {
    Records(mpsc::Receiver<TraceRecord>),
    /// Trace records, and twice a second the state of the daemon. The state is part of the stream,
    /// because repeated calls would fill the audit log.
    RecordsAndState(mpsc::Receiver<TraceRecord>, OwnerHandle, Interval),
    Bytes(mpsc::Receiver<Vec<u8>>),
    /// Approval requests and decisions as they happen. While this stream is open, an approver
    /// counts as present.
    Questions(ApproverPresent, Listener),
}

impl Stream {
    pub async fn next(&mut self) -> Option<Value> {
        match self {
            Stream::Records(records) => records.recv().await.map(|it| it.to_json()),
            Stream::RecordsAndState(records, owner, period) => tokio::select! {
                // The first tick is due at once, so the state is the first item.
                biased;
                _ = period.tick() => {
                    let (status, bindings) = (owner.status().await.ok()?, owner.bindings().await.ok()?);
                    Some(json!({ "status": status, "bindings": bindings }))
                }
                record = records.recv() => record.map(|it| it.to_json()),
            },
            Stream::Bytes(heard) => heard.recv().await.map(|it| json!({ "bytes": it })),
            Stream::Questions(_, events) => loop {
                match events.recv().await {
                    Ok(Event::ApprovalAsked(record)) => return serde_json::from_slice(&record.to_json()).ok(),
                    Ok(Event::ApprovalDecided(id)) => return Some(json!({ "decided": id.to_string() })),
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            },
        }
    }
}

/// Starts a stream of the messages sent to a port, or of the trace.
pub async fn monitor(control: &Control, port: Option<String>, state: bool) -> Result<Stream, ToolError> {
    let owner = &control.handle;
    Ok(match port {
        Some(port) => Stream::Bytes(owner.listen(port).await?),
        None if state => {
            let mut period = interval(STATE_PERIOD);
            period.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Stream::RecordsAndState(owner.monitor().await?, owner.clone(), period)
        }
        None => Stream::Records(owner.monitor().await?),
    })
}

/// Starts a stream of approval requests. Only for a person: while the stream is open, calls of AI
/// clients that need an approval wait for the answer instead of failing at once.
pub fn questions(control: &Control, caller: Caller) -> Result<Stream, ToolError> {
    control.person(caller)?;
    let studio = &control.gateway.studio;
    Ok(Stream::Questions(studio.approvals.attend(), studio.events.listen(Event::is_approval)))
}

/// Sends MIDI in real time until the script or the connection ends. Like events of a controller,
/// the messages are not calls: they are in the trace, not in the audit log.
pub async fn play(
    control: &Control,
    caller: Caller,
    port: String,
    messages: Vec<Vec<u8>>,
    events: &str,
) -> Result<Value, ToolError> {
    let owner = &control.handle;
    // Events of a caller that is not a person are tainted, like those of a tool.
    let (connection, is_person) = (caller.connection, control.recognise(caller.peer).is_ok());
    let by = if is_person { SentBy::Hand { connection } } else { SentBy::Tool { connection } };
    let allowed = is_person || owner.serving().config.performance.allow_output.contains(&port);
    if !allowed && owner.status().await?.performance_lock {
        return Err(locked(&format!("nothing is sent to {port}")));
    }
    let mut sent = 0;
    if !messages.is_empty() {
        sent += owner.send(port.clone(), messages, by).await?;
    }
    sent += play::play(owner, &port, events, by, control.now()).await?;
    Ok(json!({ "messages_sent": sent }))
}
