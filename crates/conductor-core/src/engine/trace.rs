//! The trace: a ring of records of recent events, each with its outcome and reason. Records are
//! compact; names and texts are created when a record is read.

use crate::action::{Action, KeyName, Keystroke, MidiOut, Modifier, Volume};
use crate::event::{Body, DeviceSlot, Micros, script, wire_names};
use crate::mapping::table::{ActionId, Leaf, ModeIndex, Node, RowId, Slots, Tables};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

/// The outcome of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The action was performed.
    Fired,
    /// No rule matches.
    NoMatch,
    /// A longer gesture is still possible.
    Deferred,
    /// A reload, panic, mute or lost device cancelled the gesture.
    Cancelled,
    /// The condition of the action is false.
    ConditionFalse,
    /// The device of the event is muted.
    Muted,
    /// Only input from a person may fire this action, but the event is tainted.
    Tainted,
    /// The action did not run because a learn session is active.
    Learning,
    /// A rate limit dropped the event.
    RateLimited,
    /// The press was dropped, because too many presses already wait for the running action.
    QueueFull,
    /// The action failed.
    Failed,
}

wire_names!(Outcome {
    Fired "fired", NoMatch "no_match", Deferred "deferred", Cancelled "cancelled", ConditionFalse "condition_false",
    Muted "muted", Tainted "tainted", Learning "learning", RateLimited "rate_limited", QueueFull "queue_full",
    Failed "failed",
});

/// One record as the engine writes it. It owns no memory, because the engine may run in a device
/// callback, where overwriting the oldest record must not free memory. Names are indices into the
/// tables in force.
#[derive(Clone, Debug)]
pub struct Record {
    /// The number of the record, assigned by [`Trace::push`].
    pub seq: u64,
    /// The time of the event or deadline.
    pub at: Micros,
    pub device: DeviceSlot,
    /// The event. A SysEx or OSC message is in [`Kept`] instead.
    pub event: Option<Body>,
    /// The gesture or the kind of event.
    pub gesture: &'static str,
    pub mode: ModeIndex,
    pub mapping: Option<RowId>,
    pub outcome: Outcome,
    pub action: Option<ActionId>,
    /// Microseconds from the event until its effects were sent.
    pub latency_us: Option<u64>,
    /// The reason for the outcome; may be empty.
    pub reason: &'static str,
}

/// The parts of a record that own memory. Only the daemon's owner thread creates and drops them.
#[derive(Clone, Debug)]
struct Kept {
    seq: u64,
    /// A SysEx or OSC message.
    event: Option<Body>,
    /// The names in the record. Present if the tables that its indices refer to have been replaced.
    names: Option<Names>,
}

#[derive(Clone, Debug)]
struct Names {
    mode: Arc<str>,
    mapping: Option<Arc<str>>,
    action: Option<Leaf>,
}

impl Names {
    fn of(record: &Record, tables: &Tables) -> Self {
        let leaf = |action: ActionId| match tables.nodes.get(action.0 as usize) {
            Some(Node::Leaf(leaf)) => Some(leaf.clone()),
            Some(Node::Sequence(_) | Node::Delay(_) | Node::Repeat { .. } | Node::Conditional { .. }) | None => None,
        };
        Names {
            mode: Arc::clone(tables.mode_name(record.mode)),
            mapping: record.mapping.map(|it| Arc::clone(&tables.row(it.0).id)),
            action: record.action.and_then(leaf),
        }
    }
}

/// The number of records for which a trace allocates space at once, so that a device callback does
/// not allocate. The trace of a simulation has no limit and grows when needed.
fn allocated(capacity: usize) -> usize {
    const LARGEST_IN_FILE: usize = 100_000;
    if capacity <= LARGEST_IN_FILE { capacity } else { 0 }
}

/// The last records, oldest first.
#[derive(Clone, Debug)]
pub struct Trace {
    records: VecDeque<Record>,
    /// The parts of records that own memory, ordered by record number. Entries of overwritten
    /// records stay until [`Trace::drop_overwritten`] is called.
    kept: VecDeque<Kept>,
    capacity: usize,
    next_seq: u64,
}

impl Trace {
    /// Creates an empty trace for `capacity` records.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let records = VecDeque::with_capacity(allocated(capacity));
        Trace { records, kept: VecDeque::new(), capacity, next_seq: 0 }
    }

    /// Changes the capacity and drops the oldest records beyond it.
    pub fn resize(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
        self.records.drain(..self.records.len().saturating_sub(self.capacity));
        self.records.shrink_to(self.capacity);
        self.records.reserve_exact(allocated(self.capacity).saturating_sub(self.records.len()));
        self.drop_overwritten();
    }

    /// Assigns the next number to a record and appends it.
    pub fn push(&mut self, mut record: Record) {
        record.seq = self.next_seq;
        self.next_seq += 1;
        if record.event.as_ref().is_some_and(Body::owns_memory) {
            self.kept.push_back(Kept { seq: record.seq, event: record.event.take(), names: None });
        }
        if self.records.len() >= self.capacity {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// Stores the names of all records, because their tables are about to be replaced.
    pub(super) fn keep_names(&mut self, tables: &Tables) {
        self.drop_overwritten();
        let mut before = std::mem::take(&mut self.kept).into_iter().peekable();
        for record in &self.records {
            let kept = before.next_if(|it| it.seq == record.seq);
            let kept = kept.unwrap_or(Kept { seq: record.seq, event: None, names: None });
            let names = kept.names.unwrap_or_else(|| Names::of(record, tables));
            self.kept.push_back(Kept { names: Some(names), ..kept });
        }
    }

    /// Frees the memory of records that have been overwritten.
    pub fn drop_overwritten(&mut self) {
        let first = self.first_seq();
        while self.kept.front().is_some_and(|it| it.seq < first) {
            self.kept.pop_front();
        }
    }

    /// The stored records, oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter()
    }

    /// The number of the next record.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The number of the oldest stored record.
    pub fn first_seq(&self) -> u64 {
        self.next_seq - self.records.len() as u64
    }

    /// Stores the latency, from the event to `now`, in each record since `seq`.
    pub fn stamp(&mut self, seq: u64, now: Micros) {
        for record in self.records.iter_mut().rev().take_while(|it| it.seq >= seq) {
            record.latency_us.get_or_insert(now.since(record.at));
        }
    }

    fn kept(&self, seq: u64) -> Option<&Kept> {
        self.kept.get(self.kept.binary_search_by_key(&seq, |it| it.seq).ok()?)
    }

    /// The mappings that fired since the record `since`, newest first: mode, id and time of each.
    pub(super) fn fired(&self, since: u64, tables: &Tables) -> impl Iterator<Item = (Arc<str>, Arc<str>, Micros)> {
        let new = self.records.iter().rev().take_while(move |it| it.seq >= since);
        new.filter(|it| it.outcome == Outcome::Fired).filter_map(|record| {
            let kept = self.kept(record.seq).and_then(|it| it.names.clone());
            let names = kept.unwrap_or_else(|| Names::of(record, tables));
            Some((names.mode, names.mapping?, record.at))
        })
    }

    /// The records from this number on, with their names. `tables` are those in force.
    pub(super) fn read(&self, since: u64, tables: &Tables, slots: &Slots) -> impl Iterator<Item = TraceRecord> {
        self.records.iter().filter(move |it| it.seq >= since).map(move |record| {
            let kept = self.kept(record.seq);
            let event = record.event.as_ref().or_else(|| kept?.event.as_ref());
            match kept.and_then(|it| it.names.as_ref()) {
                Some(names) => TraceRecord::of(record, event, names, slots),
                None => TraceRecord::of(record, event, &Names::of(record, tables), slots),
            }
        })
    }
}

/// A record as people and tools read it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TraceRecord {
    /// The number of the record.
    pub seq: u64,
    /// Microseconds since the daemon or simulation started.
    pub at_us: u64,
    /// The device alias or port name.
    pub device: String,
    /// The event as a token of the event script.
    pub event: String,
    /// The gesture or the kind of event.
    pub gesture: String,
    /// The mode.
    pub mode: String,
    /// The id of the mapping.
    pub mapping_id: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// Short text for the action.
    pub action: Option<String>,
    /// Microseconds from the event until its effects were sent.
    pub latency_us: Option<u64>,
    /// The reason for the outcome; may be empty.
    pub reason: String,
}

impl TraceRecord {
    fn of(record: &Record, event: Option<&Body>, names: &Names, slots: &Slots) -> Self {
        TraceRecord {
            seq: record.seq,
            at_us: record.at.0,
            device: slots.name(record.device).to_owned(),
            event: event.map(script::token).unwrap_or_default(),
            gesture: record.gesture.to_owned(),
            mode: names.mode.to_string(),
            mapping_id: names.mapping.as_ref().map(|it| it.to_string()),
            outcome: record.outcome,
            action: names.action.as_ref().map(|it| label(it, slots)),
            latency_us: record.latency_us,
            reason: record.reason.to_owned(),
        }
    }

    /// One line of text, for example `600 save LongPress fired Keystroke cmd+s`.
    pub fn line(&self) -> String {
        let mut line = format!("{}", self.at_us / 1000);
        if !self.at_us.is_multiple_of(1000) {
            let _ = write!(line, ".{:03}", self.at_us % 1000);
        }
        let subject = self.mapping_id.as_deref().unwrap_or(if self.event.is_empty() { "-" } else { &self.event });
        let _ = write!(line, " {subject} {} {}", self.gesture, self.outcome.name());
        if let Some(action) = &self.action {
            let _ = write!(line, " {action}");
        }
        if !self.reason.is_empty() {
            let _ = write!(line, " ({})", self.reason);
        }
        line
    }

    /// The record as JSON.
    pub fn to_json(&self) -> Value {
        json!(self)
    }
}

/// Short text for an action.
pub fn label(leaf: &Leaf, slots: &Slots) -> String {
    match leaf {
        Leaf::Keystroke(keys) => format!("Keystroke {}", keystroke(keys)),
        Leaf::Text(text) => format!("Text {text:?}"),
        Leaf::Click { button, .. } => {
            format!("MouseClick {button:?}").to_lowercase().replacen("mouseclick", "MouseClick", 1)
        }
        Leaf::Volume(volume) => match volume {
            Volume::Up => "VolumeControl Up".into(),
            Volume::Down => "VolumeControl Down".into(),
            Volume::Mute => "VolumeControl Mute".into(),
            Volume::Unmute => "VolumeControl Unmute".into(),
            Volume::Set(value) => format!("VolumeControl Set {value}"),
        },
        Leaf::ModeChange(mode) => format!("ModeChange {}", mode.0),
        Leaf::SendMidi { port, channel, message } => {
            let port = slots.name(*port);
            let what = match message {
                MidiOut::NoteOn { note, .. } => format!("NoteOn {note}"),
                MidiOut::NoteOff { note, .. } => format!("NoteOff {note}"),
                MidiOut::Cc { controller, value } => format!("CC {controller}={value}"),
                MidiOut::ProgramChange { program } => format!("ProgramChange {program}"),
                MidiOut::PitchBend { pitch } => format!("PitchBend {pitch}"),
                MidiOut::Aftertouch { pressure, .. } => format!("Aftertouch {pressure}"),
            };
            format!("SendMidi {port}/{channel} {what}")
        }
        Leaf::Forward { port, .. } => format!("MidiForward {}", port.map_or("_source", |it| slots.name(it))),
        Leaf::Osc { message, .. } => format!("OscSend {}", message.address),
        Leaf::Call(action) => {
            let name = action.name();
            if let Action::CallTool { tool, .. } = &**action {
                format!("{name} {tool}")
            } else if let Action::Shell { argv, .. } = &**action {
                format!("{name} {}", argv.first().map_or("", |it| it))
            } else if let Action::Launch { app } = &**action {
                format!("{name} {app}")
            } else if let Action::Plugin { plugin, tool, .. } = &**action {
                let tool = tool.as_ref().map(|it| format!(".{it}")).unwrap_or_default();
                format!("{name} {plugin}{tool}")
            } else {
                name.into()
            }
        }
    }
}

/// A keystroke in the notation of the configuration, such as `cmd+s`.
pub fn keystroke(keys: &Keystroke) -> String {
    let mut words: Vec<String> = keys
        .modifiers
        .iter()
        .map(|it| match it {
            Modifier::Cmd => "cmd".into(),
            Modifier::Ctrl => "ctrl".into(),
            Modifier::Alt => "alt".into(),
            Modifier::Shift => "shift".into(),
        })
        .collect();
    words.extend(keys.key.map(key_name));
    words.join("+")
}

/// The name of a key in the configuration.
pub fn key_name(key: KeyName) -> String {
    if let KeyName::Char(c) = key {
        c.to_string()
    } else if let KeyName::F(number) = key {
        format!("f{number}")
    } else {
        format!("{key:?}").to_lowercase()
    }
}
