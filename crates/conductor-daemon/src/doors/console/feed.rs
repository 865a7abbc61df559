//! The events of the console: one numbered ring for all pages.
//!
//! A page reads from its own place in the ring. A page that is too slow loses the oldest events and
//! receives a notice; no sender waits for a page. Events of controls are collected and sent at most
//! [`FRAMES_PER_SECOND`] times a second; decisions are sent at once.

use conductor_core::engine::TraceRecord;
use conductor_core::event::Micros;
use conductor_gateway::secrets::Scrubber;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::watch;

pub const FRAMES_PER_SECOND: u64 = 30;
/// Maximum number of events in the ring.
const MOST: usize = 4096;
/// Maximum size of all events in the ring, in bytes.
const MOST_BYTES: usize = 4 << 20;
/// Maximum number of trace records in one frame. Further records are only counted.
const MOST_RECORDS: usize = 200;
/// Maximum number of calls that are reported in one frame.
pub const MOST_CALLS: usize = 64;

/// One event, as it is sent.
pub struct Item {
    pub seq: u64,
    pub name: &'static str,
    pub data: String,
}

#[derive(Default)]
struct Ring {
    items: VecDeque<Arc<Item>>,
    bytes: usize,
    last: u64,
}

/// The events after a requested event number.
pub struct Read {
    pub items: Vec<Arc<Item>>,
    /// Number of these events that are no longer in the ring.
    pub missed: u64,
    /// The number of the newest event.
    pub last: u64,
}

pub struct Feed {
    ring: Mutex<Ring>,
    last: watch::Sender<u64>,
    scrubber: Arc<Scrubber>,
}

impl Feed {
    pub fn new(scrubber: &Arc<Scrubber>) -> Self {
        Self { ring: Mutex::default(), last: watch::Sender::new(0), scrubber: Arc::clone(scrubber) }
    }

    pub fn push(&self, name: &'static str, mut data: Value) {
        self.scrubber.value(&mut data);
        let data = data.to_string();
        let mut ring = self.ring.lock();
        ring.last += 1;
        ring.bytes += data.len();
        let seq = ring.last;
        ring.items.push_back(Arc::new(Item { seq, name, data }));
        while ring.items.len() > MOST || (ring.bytes > MOST_BYTES && ring.items.len() > 1) {
            let Some(old) = ring.items.pop_front() else { break };
            ring.bytes -= old.data.len();
        }
        drop(ring);
        self.last.send_replace(seq);
    }

    /// The number of the newest event.
    pub fn last(&self) -> u64 {
        self.ring.lock().last
    }

    pub fn watch(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The events after `since`, at most `most`.
    pub fn read(&self, since: u64, most: usize) -> Read {
        let ring = self.ring.lock();
        let last = ring.last;
        // A number from an earlier daemon may be greater than all numbers of this one.
        let since = if since > last { 0 } else { since };
        let first = ring.items.front().map_or(last + 1, |it| it.seq);
        let missed = first.saturating_sub(since + 1);
        let skip = usize::try_from((since + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        Read { items: ring.items.iter().skip(skip).take(most).cloned().collect(), missed, last }
    }
}

/// Upper bounds of latencies, in microseconds.
const BOUNDS_US: [u64; 12] = [50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10_000, 50_000, 100_000];

/// The latencies of events: a histogram, and exact values since the last sample.
#[derive(Default)]
pub struct Latencies {
    counts: [u64; BOUNDS_US.len() + 1],
    recent: VecDeque<u64>,
    most: Option<u64>,
    fresh: Vec<u64>,
}

/// Number of latencies from which the percentiles are computed, as in `conductor monitor`.
const RECENT: usize = 500;
/// Maximum number of latencies that are kept for a sample.
const MOST_FRESH: usize = 10_000;

impl Latencies {
    pub fn add(&mut self, micros: u64) {
        let bucket = BOUNDS_US.iter().position(|bound| micros <= *bound).unwrap_or(BOUNDS_US.len());
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(micros);
        self.most = self.most.max(Some(micros));
        if self.fresh.len() < MOST_FRESH {
            self.fresh.push(micros);
        }
    }

    pub fn to_json(&self) -> Value {
        let mut sorted: Vec<u64> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        json!({
            "bounds_us": BOUNDS_US, "counts": self.counts, "p50_us": percentile(&sorted, 50),
            "p99_us": percentile(&sorted, 99), "max_us": self.most,
        })
    }

    /// The median and the 99th percentile since the last call.
    pub fn sample(&mut self) -> (Option<u64>, Option<u64>) {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.sort_unstable();
        (percentile(&fresh, 50), percentile(&fresh, 99))
    }
}

fn percentile(sorted: &[u64], share: usize) -> Option<u64> {
    sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1))).copied()
}

/// The records since the last frame, and the activity of devices since the feed started.
#[derive(Default)]
pub struct Frame {
    records: Vec<(TraceRecord, u64)>,
    /// The index in `records` of the newest record of each continuous control.
    continuous: BTreeMap<(String, String), usize>,
    skipped: u64,
    devices: BTreeMap<String, (u64, u64)>,
    changed: BTreeMap<String, (u64, u64)>,
    pub latencies: Latencies,
    next_seq: Option<u64>,
    lost: u64,
    newest: Micros,
}

impl Frame {
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.skipped == 0
    }

    pub fn add(&mut self, record: TraceRecord) {
        self.lost += self.next_seq.map_or(0, |next| record.seq.saturating_sub(next));
        self.next_seq = Some(record.seq + 1);
        self.newest = self.newest.max(Micros(record.at_us));
        if !record.event.is_empty() {
            let device = self.devices.entry(record.device.clone()).or_default();
            *device = (device.0 + 1, record.at_us);
            let now = *device;
            self.changed.insert(record.device.clone(), now);
        }
        if let Some(latency) = record.latency_us {
            self.latencies.add(latency);
        }
        let control = continuous(&record.event).map(|it| (format!("{}\n{it}", record.device), key(&record)));
        if let Some(at) = control.as_ref().and_then(|it| self.continuous.get(it)).copied()
            && let Some((old, count)) = self.records.get_mut(at)
        {
            *old = record;
            *count += 1;
            return;
        }
        if self.records.len() >= MOST_RECORDS {
            self.skipped += 1;
            return;
        }
        if let Some(control) = control {
            self.continuous.insert(control, self.records.len());
        }
        self.records.push((record, 0));
    }

    /// Continues after a pause. Records that arrived during the pause do not count as lost.
    pub fn resume(&mut self) {
        self.next_seq = None;
    }

    /// Returns the records of this frame, in order, and the changed devices. Starts the next frame.
    pub fn take(&mut self) -> (Value, Value) {
        self.continuous.clear();
        self.lost += std::mem::take(&mut self.skipped);
        let mut records = std::mem::take(&mut self.records);
        records.sort_by_key(|(record, _)| record.seq);
        let records: Vec<Value> = records.into_iter().map(|(record, replaced)| shown(&record, replaced)).collect();
        let changed: Map<String, Value> =
            std::mem::take(&mut self.changed).into_iter().map(|(name, it)| (name, device(it))).collect();
        (json!({ "records": records }), Value::Object(changed))
    }

    /// The activity of every device.
    pub fn devices(&self) -> Value {
        Value::Object(self.devices.iter().map(|(name, it)| (name.clone(), device(*it))).collect())
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The time of the newest record.
    pub fn newest(&self) -> Micros {
        self.newest
    }
}

fn device((events, last_us): (u64, u64)) -> Value {
    json!({ "events": events, "last_us": last_us })
}

fn shown(record: &TraceRecord, replaced: u64) -> Value {
    let mut value = record.to_json();
    if replaced > 0
        && let Value::Object(members) = &mut value
    {
        members.insert("coalesced".into(), replaced.into());
    }
    value
}

/// The control of an event that belongs to a continuous movement; `None` for presses.
fn continuous(event: &str) -> Option<&str> {
    let is_moving = ["cc:", "pb:", "at:", "pat:", "axis:", "trig:", "osc:"].iter().any(|it| event.starts_with(it));
    // Use the token without its value. The channel follows the value, so it is dropped too: a
    // control rarely uses two channels.
    is_moving.then(|| event.split('=').next().unwrap_or(event))
}

/// The key for combining records: records with another outcome, mapping or reason stay separate.
fn key(record: &TraceRecord) -> String {
    format!("{}\n{}\n{}", record.outcome.name(), record.mapping_id.as_deref().unwrap_or_default(), record.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_core::engine::Outcome;

    fn record(seq: u64, event: &str, outcome: Outcome) -> TraceRecord {
        TraceRecord {
            seq,
            at_us: seq * 1000,
            device: "pads".into(),
            event: event.into(),
            gesture: String::new(),
            mode: "Default".into(),
            mapping_id: None,
            outcome,
            action: None,
            latency_us: Some(seq),
            reason: String::new(),
        }
    }

    #[test]
    fn a_moving_control_is_one_record_and_presses_are_all_kept() {
        let mut frame = Frame::default();
        for (seq, event) in ["cc:7=1", "on:36@9", "cc:7=2", "off:36", "cc:8=5", "on:36@9", "cc:7=3"].iter().enumerate()
        {
            frame.add(record(seq as u64, event, Outcome::NoMatch));
        }
        frame.add(record(7, "cc:7=4", Outcome::Fired));
        let (records, devices) = frame.take();
        let shown: Vec<(&str, Option<u64>)> = records["records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (it["event"].as_str().unwrap(), it["coalesced"].as_u64()))
            .collect();
        assert_eq!(
            shown,
            [
                ("on:36@9", None),
                ("off:36", None),
                ("cc:8=5", None),
                ("on:36@9", None),
                ("cc:7=3", Some(2)),
                ("cc:7=4", None)
            ]
        );
        assert_eq!(devices["pads"], json!({ "events": 8, "last_us": 7000 }));
        assert!(frame.is_empty() && frame.lost() == 0);
        frame.add(record(12, "on:1", Outcome::Fired));
        assert_eq!(frame.lost(), 4, "records that the owner could not send are not counted");
    }

    #[test]
    fn a_frame_is_bounded_and_counts_the_rest() {
        let mut frame = Frame::default();
        for seq in 0..1000 {
            frame.add(record(seq, "on:36", Outcome::Fired));
        }
        assert_eq!(frame.take().0["records"].as_array().unwrap().len(), MOST_RECORDS);
        assert_eq!(frame.lost(), 1000 - MOST_RECORDS as u64);
    }

    #[test]
    fn a_reader_goes_on_where_it_was_and_is_told_what_it_missed() {
        let feed = Feed::new(&Scrubber::new());
        for at in 0..10 {
            feed.push("trace", json!({ "at": at }));
        }
        let read = feed.read(4, 3);
        assert_eq!((read.items.iter().map(|it| it.seq).collect::<Vec<_>>(), read.missed), (vec![5, 6, 7], 0));
        assert!(feed.read(10, 3).items.is_empty());
        let large = "x".repeat(MOST_BYTES / 4);
        for _ in 0..8 {
            feed.push("status", json!(large));
        }
        let read = feed.read(4, 100);
        assert_eq!(read.last, 18);
        assert_eq!(read.missed + read.items.len() as u64, 14, "an event was neither sent nor counted");
        assert!(read.items.len() <= 4, "the ring has more events than its limit");
        assert_eq!(feed.read(99, 1).missed, read.items.first().unwrap().seq - 1);
    }
}
