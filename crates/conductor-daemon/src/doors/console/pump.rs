//! Turns the events of the owner and of the gateway into events of the console, while there is a
//! session.
//!
//! The pump reads from bounded queues. When the pump is slow, the owner and the gateway drop events
//! for it; neither waits.

use super::Console;
use super::feed::{FRAMES_PER_SECOND, Frame, MOST_CALLS};
use conductor_core::engine::TraceRecord;
use conductor_core::event::Micros;
use conductor_core::pending::{Kind, Record, State};
use conductor_gateway::audit_log::head_value;
use conductor_gateway::plans;
use conductor_gateway::report::{FiringNow, MetersNow, Statistics};
use conductor_gateway::studio::events::{Change, Event, Listener};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const FRAME_US: u64 = 1_000_000 / FRAMES_PER_SECOND;
/// Maximum number of gateway events that are handled before other work.
const MOST_AT_ONCE: usize = 256;

/// The state that the pages have received.
#[derive(Default)]
pub struct Seen {
    pub frame: Frame,
    /// Absent until the state of the owner was first read.
    status: Option<Value>,
    modes: Value,
    bindings: Value,
    learning: Value,
    config: Value,
    questions: HashMap<Uuid, (State, Option<u32>, bool)>,
    held: BTreeMap<String, Vec<String>>,
    statistics: Statistics,
    firings_since: Micros,
    /// Number of calls that were reported in this frame.
    calls: usize,
}

impl Seen {
    /// The held keys for the pages. A device whose keys were all released has an empty list.
    fn now_held(&mut self, now: &BTreeMap<String, Vec<String>>) -> Map<String, Value> {
        let gone = self.held.keys().filter(|it| !now.contains_key(*it)).map(|it| (it.clone(), json!([])));
        let held = gone.chain(now.iter().map(|(device, keys)| (device.clone(), json!(keys)))).collect();
        self.held.clone_from(now);
        held
    }
}

/// Runs until the daemon stops.
pub async fn run(console: Arc<Console>, stop: CancellationToken) {
    serve_all(&console, &stop).await;
    // A login must not wait for a pump that has ended.
    console.observing.send_replace(true);
}

async fn serve_all(console: &Arc<Console>, stop: &CancellationToken) {
    let mut sessions = console.control.gateway.consoles.watch();
    loop {
        while *sessions.borrow_and_update() == 0 {
            tokio::select! {
                changed = sessions.changed() => if changed.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
        tokio::select! {
            served = serve(console, &mut sessions) => if served.is_none() { return },
            () = stop.cancelled() => return,
        }
    }
}

/// Serves the sessions until there are none. `None` if the owner has ended.
async fn serve(console: &Arc<Console>, sessions: &mut watch::Receiver<usize>) -> Option<()> {
    let gateway = &console.control.gateway;
    let (mut state, mut waiting) = (gateway.owner_state(), gateway.waiting());
    let mut events = gateway.studio.events.observe_all();
    let mut records = console.control.handle.monitor().await.ok()?;
    console.seen.lock().frame.resume();
    console.notice_questions(false);
    console.notice_owner().await?;
    console.observing.send_replace(true);
    let mut due: Option<Micros> = None;
    let mut last_frame = Micros(0);
    loop {
        let now = gateway.studio.clock.now();
        let frame = async {
            match due {
                Some(at) => gateway.studio.sleeper.until(at).await,
                None => std::future::pending().await,
            }
        };
        let next = Micros(last_frame.0.saturating_add(FRAME_US)).max(now);
        tokio::select! {
            record = records.recv() => {
                console.add_records(record?, &mut records);
                due.get_or_insert(next);
            }
            event = events.recv() => {
                if console.take_event(event, &mut events)? {
                    due.get_or_insert(next);
                }
            }
            changed = state.changed() => {
                changed.ok()?;
                console.notice_owner().await?;
            }
            changed = waiting.changed() => {
                changed.ok()?;
                console.notice_owner().await?;
            }
            changed = sessions.changed() => {
                changed.ok()?;
                console.feed.push("sessions", json!({ "sessions": gateway.consoles.list() }));
                // Reset the flag before reading the number: a login that is not counted here waits
                // for the next start of the pump.
                console.observing.send_replace(false);
                if *sessions.borrow_and_update() == 0 {
                    return Some(());
                }
                console.observing.send_replace(true);
            }
            () = frame => {
                due = None;
                last_frame = now;
                console.end_frame().await?;
            }
        }
    }
}

impl Console {
    fn add_records(&self, first: TraceRecord, records: &mut mpsc::Receiver<TraceRecord>) {
        let mut seen = self.seen.lock();
        seen.frame.add(first);
        while let Ok(record) = records.try_recv() {
            seen.frame.add(record);
        }
    }

    /// Sends the records and the meters of this frame.
    async fn end_frame(&self) -> Option<()> {
        // Look at the questions again: a call starts to wait for its answer only after its question
        // was sent, and no event reports this.
        self.notice_questions(true);
        let since = {
            let mut seen = self.seen.lock();
            seen.calls = 0;
            if seen.frame.is_empty() {
                return Some(());
            }
            seen.firings_since
        };
        let meters = self.control.handle.meters(since).await.ok()?;
        let mut seen = self.seen.lock();
        let (records, devices) = seen.frame.take();
        let held = seen.now_held(&meters.held);
        seen.statistics = meters.statistics;
        seen.firings_since = seen.frame.newest();
        let values = json!({
            "statistics": meters.statistics, "devices": devices, "firings": firings(&meters.firings), "held": held,
            "latency": seen.frame.latencies.to_json(), "trace_lost": seen.frame.lost(),
        });
        drop(seen);
        self.feed.push("trace", records);
        self.feed.push("meters", values);
        Some(())
    }

    /// Looks for changes that no event reports, such as a released key or a backend that is
    /// available again.
    pub(super) async fn refresh(&self, meters: &MetersNow) -> Option<()> {
        let changed = {
            let mut seen = self.seen.lock();
            let changed = seen.held != meters.held || seen.statistics != meters.statistics;
            seen.statistics = meters.statistics;
            changed.then(|| json!({ "statistics": meters.statistics, "held": seen.now_held(&meters.held) }))
        };
        if let Some(changed) = changed {
            self.feed.push("meters", changed);
        }
        self.notice_owner().await
    }

    /// Handles an event and the events queued after it. Returns whether questions may have changed;
    /// `None` if there will be no more events.
    fn take_event(&self, first: Result<Event, RecvError>, events: &mut Listener) -> Option<bool> {
        let mut asked = self.one_event(first)?;
        // With this limit, a frame ends even while events keep arriving.
        for event in std::iter::from_fn(|| waiting(events)).take(MOST_AT_ONCE) {
            asked |= self.one_event(event)?;
        }
        if asked {
            self.notice_questions(true);
        }
        Some(asked)
    }

    fn one_event(&self, event: Result<Event, RecvError>) -> Option<bool> {
        let event = match event {
            Ok(event) => event,
            Err(RecvError::Lagged(missed)) => {
                // Every page reads the state again.
                self.feed.push("behind", json!({ "missed": missed }));
                return Some(true);
            }
            Err(RecvError::Closed) => return None,
        };
        match event {
            Event::Changed(Change::Tools) => self.feed.push("tools", json!({})),
            Event::Changed(Change::Resources | Change::Prompts) => {}
            Event::Changed(Change::Uri(uri)) => {
                self.feed.push("changed", json!({ "uri": &*uri }));
                return Some(&*uri == "conductor://plans");
            }
            Event::ApprovalAsked(_) | Event::ApprovalDecided(_) => return Some(true),
            Event::CallStarted { .. } | Event::CallEnded { .. } => {
                let few = {
                    let mut seen = self.seen.lock();
                    seen.calls += 1;
                    seen.calls <= MOST_CALLS
                };
                if few && let Some((name, data)) = event.observed() {
                    self.feed.push(if name == "tool.start" { "call.started" } else { "call.ended" }, data);
                }
                // A call may have used an approval or stored a question.
                return Some(true);
            }
            Event::CircuitChanged { tool, target, state } => {
                self.feed.push("circuit", json!({ "tool": tool, "target": target, "state": state }));
            }
            Event::PluginChanged { plugin, status } => {
                self.feed.push("plugin", json!({ "plugin": plugin, "status": status }));
            }
            Event::AuditCheckpoint(head) => self.feed.push("checkpoint", head_value(&head)),
        }
        Some(false)
    }

    /// Finds the questions and plans that changed since the last call, and sends them if `send`.
    fn notice_questions(&self, send: bool) {
        let changed: Vec<Record> = {
            let mut seen = self.seen.lock();
            self.studio().approvals.store().read(|pending| {
                let known = &mut seen.questions;
                known.retain(|id, _| pending.get(*id).is_some());
                let differs = |record: &&Record| {
                    let now = (record.state, record.uses_left, pending.is_waited_for(record.id));
                    known.insert(record.id, now) != Some(now)
                };
                pending.iter().filter(|it| it.kind != Kind::Standing).filter(differs).cloned().collect()
            })
        };
        if send {
            for record in changed {
                self.feed.push("question", self.question(&record));
            }
        }
    }

    /// Reads the state of the owner, and sends the parts that changed.
    async fn notice_owner(&self) -> Option<()> {
        let handle = &self.control.handle;
        let status = json!(plans::with_waiting(self.studio(), handle.status().await.ok()?));
        let (modes, bindings) = (json!(&*handle.modes()), json!(handle.bindings().await.ok()?));
        let devices = json!(handle.devices().await.ok()?);
        let learning = json!({ "learning": status["learning"] });
        let bindings = json!({ "bindings": bindings, "devices": devices });
        let config = json!({ "hash": status["config"]["hash"], "waiting": self.config_waiting() });
        let mut news: Vec<(&'static str, Value)> = Vec::new();
        let mut seen = self.seen.lock();
        let steady = without_counters(&status);
        let is_first = seen.status.is_none();
        if seen.status.as_ref() != Some(&steady) {
            news.push(("status", status));
            seen.status = Some(steady);
        }
        let Seen { modes: old_modes, bindings: old_bindings, learning: old_learning, config: old_config, .. } =
            &mut *seen;
        for (name, old, new) in [
            ("modes", old_modes, modes),
            ("bindings", old_bindings, bindings),
            ("learning", old_learning, learning),
            ("config", old_config, config),
        ] {
            if *old != new {
                old.clone_from(&new);
                news.push((name, new));
            }
        }
        drop(seen);
        // Send nothing the first time: a page reads this state in its first snapshot.
        if !is_first {
            news.into_iter().for_each(|(name, data)| self.feed.push(name, data));
        }
        Some(())
    }
}

/// The next event that has already arrived. If events were lost, returns this error like an event,
/// because the receiver reports a loss only once.
fn waiting(events: &mut Listener) -> Option<Result<Event, RecvError>> {
    match events.try_recv() {
        Ok(event) => Some(Ok(event)),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Lagged(missed)) => Some(Err(RecvError::Lagged(missed))),
        Err(TryRecvError::Closed) => Some(Err(RecvError::Closed)),
    }
}

pub fn firings(firings: &BTreeMap<String, FiringNow>) -> Value {
    let of = |(key, it): (&String, &FiringNow)| {
        let mode = key.split_once('/').map_or("", |(mode, _)| mode);
        (key.clone(), json!({ "count": it.count, "last_us": it.last_us, "mode": mode }))
    };
    Value::Object(firings.iter().map(of).collect())
}

/// The status without the members that change with every event or second.
fn without_counters(status: &Value) -> Value {
    let mut steady = status.clone();
    if let Value::Object(members) = &mut steady {
        for key in ["uptime_secs", "statistics", "last_event_at_iso", "device", "audit"] {
            members.shift_remove(key);
        }
    }
    steady
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_gateway::studio::events::Events;

    #[tokio::test]
    async fn lost_events_are_reported_also_behind_another_event() {
        let events = Events::default();
        let mut listener = events.observe_all();
        events.uri_changed("patch://first");
        listener.recv().await.unwrap();
        (0..5000).for_each(|_| events.uri_changed("patch://more"));
        let mut missed = 0;
        let mut received = 0;
        while let Some(next) = waiting(&mut listener) {
            match next {
                Ok(_) => received += 1,
                Err(RecvError::Lagged(count)) => missed += count,
                Err(RecvError::Closed) => break,
            }
        }
        assert!(missed > 0, "the burst was too small to lose events");
        assert_eq!(missed + received, 5000, "an event was neither received nor counted");
        drop(events);
        assert!(matches!(waiting(&mut listener), Some(Err(RecvError::Closed))));
    }
}
