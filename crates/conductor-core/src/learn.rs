//! Learn sessions: record the events that a person plays between start and stop, and suggest
//! triggers that these events would fire.
//!
//! A session has a number and a deadline. Whether an event is recorded depends on its time stamp,
//! not on when a timer ran.
//!
//! Not here: suppressing actions (`engine`, see [`Learn::holds_back`]), reading clocks, and opening
//! devices.

mod keys;
mod suggest;
mod values;

pub use suggest::{Suggestion, suggest};

use crate::config::Advanced;
use crate::event::{Body, DeviceSlot, Event, Micros, OscArg};
use crate::mapping::table::Slots;
use crate::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, VecDeque};

/// Maximum number of events in a session. The newest events are kept, because the intended gesture
/// is the last one played.
pub const MAX_EVENTS: usize = 512;

/// Identifies a session, so that the timer of an earlier session cannot end a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct SessionId(pub u64);

/// A recorded event with its wall-clock time.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// The time stamp.
    pub at: Micros,
    /// The wall-clock time.
    pub wall: Timestamp,
    pub device: DeviceSlot,
    pub body: Body,
}

/// The result of [`Learn::start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Started {
    /// `learning`.
    pub status: &'static str,
    /// The time at which the session expires.
    pub expires_at: Timestamp,
    /// The session.
    #[serde(rename = "session_id")]
    pub session: SessionId,
    /// Whether a running session was extended.
    pub was_already_active: bool,
    /// The time `expires_at` on the monotonic clock. [`Learn::expire`] must be called at this time.
    #[serde(skip)]
    pub deadline: Micros,
}

/// The result of `conductor_stop_midi_learn`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// The events, oldest first.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub events: Vec<Value>,
    /// Triggers for `conductor_create_mapping`, the most likely first.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub suggestions: Vec<Value>,
    /// Confidence and reason of each suggestion.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub suggestion_info: Vec<Value>,
    /// Whether the session had ended before it was stopped.
    pub expired: bool,
}

#[derive(Clone, Debug)]
struct Session {
    id: SessionId,
    deadline: Micros,
    since: Timestamp,
    expires_at: Timestamp,
    let_through: bool,
    /// The connections that started or extended the session. The session ends when the last of them
    /// closes.
    clients: BTreeSet<u64>,
    /// Whether the session has ended. Its events are kept until it is stopped.
    over: bool,
    events: VecDeque<Captured>,
}

/// A running session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The start of the session.
    pub since: Timestamp,
    /// The time at which the session expires.
    pub until: Timestamp,
    /// Whether mapped actions run during the session.
    pub let_through: bool,
}

/// The learn state; there is at most one session at a time.
#[derive(Clone, Debug, Default)]
pub struct Learn {
    last: u64,
    session: Option<Session>,
}

/// The result of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learned {
    /// The recorded events.
    pub events: Vec<Captured>,
    /// Whether the session had ended before it was stopped.
    pub expired: bool,
}

impl Learn {
    /// Starts a session, or extends the running session. A session that has ended is replaced.
    /// `client` is the connection of the caller, if there is one.
    pub fn start(
        &mut self,
        timeout_ms: u32,
        let_through: bool,
        client: Option<u64>,
        now: Micros,
        wall: Timestamp,
    ) -> Started {
        self.advance(now);
        let (deadline, expires_at) = (now.plus_ms(timeout_ms), wall.plus_millis(u64::from(timeout_ms)));
        if let Some(session) = self.session.as_mut().filter(|it| !it.over) {
            // An extension never shortens the time of another caller.
            if deadline > session.deadline {
                session.deadline = deadline;
                session.expires_at = expires_at;
            }
            session.let_through = let_through;
            session.clients.extend(client);
            return session.started(true);
        }
        self.last += 1;
        let id = SessionId(self.last);
        let session = Session {
            id,
            deadline,
            since: wall,
            expires_at,
            let_through,
            clients: client.into_iter().collect(),
            over: false,
            events: VecDeque::new(),
        };
        self.session.insert(session).started(false)
    }

    /// Records an event if its time stamp is before the deadline. Transport and SysEx messages are
    /// not recorded, because no trigger matches them.
    pub fn feed(&mut self, event: &Event, wall: Timestamp) {
        let Some(session) = self.session.as_mut().filter(|it| !it.over && event.at < it.deadline) else { return };
        if matches!(event.body, Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. }) {
            return;
        }
        if session.events.len() >= MAX_EVENTS {
            session.events.pop_front();
        }
        session.events.push_back(Captured { at: event.at, wall, device: event.device, body: event.body.clone() });
    }

    /// The deadline of the running session.
    pub fn next_deadline(&self) -> Option<Micros> {
        self.session.as_ref().filter(|it| !it.over).map(|it| it.deadline)
    }

    /// Called when the timer of a session is due. Ends this session unless it was extended or
    /// replaced. Returns whether it ended.
    pub fn expire(&mut self, session: SessionId, now: Micros) -> bool {
        self.session.as_ref().is_some_and(|it| it.id == session) && self.advance(now)
    }

    /// Ends the session if its deadline is not after `now`. Returns whether a session ended.
    pub fn advance(&mut self, now: Micros) -> bool {
        let due = self.session.as_mut().filter(|it| !it.over && it.deadline <= now);
        due.map(|it| it.over = true).is_some()
    }

    /// Ends the running session, for a panic, a mode change or the performance lock.
    pub fn end(&mut self) {
        if let Some(session) = &mut self.session {
            session.over = true;
        }
    }

    /// Called when a connection has closed. Ends its session, unless another connection uses the
    /// session too.
    pub fn client_gone(&mut self, client: u64) {
        if let Some(session) = &mut self.session
            && session.clients.remove(&client)
            && session.clients.is_empty()
        {
            session.over = true;
        }
    }

    /// The running session, if there is one.
    pub fn running(&self) -> Option<Running> {
        let session = self.session.as_ref().filter(|it| !it.over)?;
        Some(Running { since: session.since, until: session.expires_at, let_through: session.let_through })
    }

    /// Ends the session and returns its events. The list is empty if there was no session.
    pub fn stop(&mut self, now: Micros) -> Learned {
        self.advance(now);
        let Some(session) = self.session.take() else { return Learned::default() };
        Learned { events: session.events.into(), expired: session.over }
    }

    /// The id of the running session.
    pub fn session(&self) -> Option<SessionId> {
        self.session.as_ref().filter(|it| !it.over).map(|it| it.id)
    }

    /// Whether actions must not run during this session. Passed to `Engine::set_learning`.
    pub fn holds_back(&self) -> bool {
        self.session.as_ref().is_some_and(|it| !it.over && !it.let_through)
    }
}

impl Session {
    fn started(&self, was_already_active: bool) -> Started {
        Started {
            status: "learning",
            expires_at: self.expires_at,
            session: self.id,
            was_already_active,
            deadline: self.deadline,
        }
    }
}

impl Learned {
    /// The events with the names of their devices, and suggestions for them.
    pub fn report(&self, slots: &Slots, advanced: &Advanced) -> Report {
        let suggestions = suggest(&self.events, slots, advanced);
        Report {
            events: self.events.iter().map(|it| it.to_json(slots)).collect(),
            suggestion_info: suggestions.iter().map(Suggestion::info).collect(),
            suggestions: suggestions.into_iter().map(|it| it.trigger).collect(),
            expired: self.expired,
        }
    }
}

impl Captured {
    /// The wire form: `{type, note?, velocity?, cc?, value?, button?, address?, channel?,
    /// device_id, timestamp}`. `button` contains the axis or trigger of a gamepad, and `value`
    /// contains the number of a program.
    pub fn to_json(&self, slots: &Slots) -> Value {
        let fields: Vec<(&str, Value)> = match &self.body {
            Body::NoteOn { note, velocity, .. } | Body::NoteOff { note, velocity, .. } => {
                vec![("note", json!(note)), ("velocity", json!(velocity))]
            }
            Body::PolyPressure { note, pressure, .. } => vec![("note", json!(note)), ("value", json!(pressure))],
            Body::Cc { controller, value, .. } => vec![("cc", json!(controller)), ("value", json!(value))],
            Body::Program { program: value, .. } | Body::ChannelPressure { pressure: value, .. } => {
                vec![("value", json!(value))]
            }
            Body::PitchBend { value, .. } => vec![("value", json!(value))],
            Body::ButtonDown(button) | Body::ButtonUp(button) => vec![("button", json!(button.name()))],
            Body::Axis { axis, value } => vec![("button", json!(axis.name())), ("value", json!(value))],
            Body::Trigger { side, value } => vec![("button", json!(side.name())), ("value", json!(value))],
            Body::Osc(message) => {
                let value = message.args.first().map(|it| ("value", osc_value(it)));
                std::iter::once(("address", json!(message.address))).chain(value).collect()
            }
            // These messages are never recorded.
            Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. } => Vec::new(),
        };
        let channel = self.body.channel().map(|it| ("channel", json!(it)));
        let rest = [("device_id", json!(slots.name(self.device))), ("timestamp", json!(self.wall))];
        let all = std::iter::once(("type", json!(self.body.name()))).chain(fields).chain(channel).chain(rest);
        Value::Object(all.map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

fn osc_value(arg: &OscArg) -> Value {
    match arg {
        OscArg::Int(value) => json!(value),
        OscArg::Float(value) => json!(value),
        OscArg::Text(value) => json!(value),
        OscArg::Bool(value) => json!(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{RealTime, Taint};

    fn event(ms: u64, body: Body) -> Event {
        Event { at: Micros::from_ms(ms), device: DeviceSlot(0), taint: Taint::Clean, hops: 0, body }
    }

    fn note(ms: u64, note: u8) -> Event {
        event(ms, Body::NoteOn { channel: 0, note, velocity: 100 })
    }

    fn wall(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_767_323_045_000 + ms)
    }

    fn start(learn: &mut Learn, ms: u64, timeout_ms: u32) -> Started {
        learn.start(timeout_ms, false, None, Micros::from_ms(ms), wall(ms))
    }

    #[test]
    fn a_late_timer_does_not_end_a_newer_session() {
        let mut learn = Learn::default();
        let first = start(&mut learn, 0, 1000);
        learn.stop(Micros::from_ms(500));
        let second = start(&mut learn, 600, 1000);
        assert_ne!(first.session, second.session);
        assert!(!learn.expire(first.session, Micros::from_ms(1600)), "the timer of an earlier session ended this one");
        assert_eq!(learn.session(), Some(second.session));
        assert!(learn.expire(second.session, Micros::from_ms(1600)));
        assert_eq!(learn.session(), None);
    }

    #[test]
    fn starting_again_extends_and_an_older_timer_of_the_same_session_waits() {
        let mut learn = Learn::default();
        let first = start(&mut learn, 0, 1000);
        learn.feed(&note(10, 36), wall(10));
        let again = start(&mut learn, 900, 1000);
        assert_eq!((again.session, again.was_already_active), (first.session, true));
        assert_eq!(again.deadline, Micros::from_ms(1900));
        assert!(!learn.expire(first.session, Micros::from_ms(1000)), "an old timer ended the extended session");
        learn.feed(&note(1500, 37), wall(1500));
        let learned = learn.stop(Micros::from_ms(1600));
        assert_eq!((learned.events.len(), learned.expired), (2, false));
        let short = {
            start(&mut learn, 2000, 30_000);
            start(&mut learn, 2001, 1000)
        };
        assert_eq!(short.deadline, Micros::from_ms(32_000), "an extension shortened the session");
    }

    #[test]
    fn after_its_time_the_events_wait_and_nothing_is_added() {
        let mut learn = Learn::default();
        start(&mut learn, 0, 1000);
        assert!(learn.holds_back());
        learn.feed(&note(999, 36), wall(999));
        // No timer has run, but the event is after the deadline.
        learn.feed(&note(1000, 37), wall(1000));
        assert!(learn.advance(Micros::from_ms(1000)) && !learn.holds_back());
        assert_eq!(learn.next_deadline(), None);
        let learned = learn.stop(Micros::from_ms(90_000));
        assert_eq!((learned.events.len(), learned.expired), (1, true));
        assert_eq!(learn.stop(Micros::from_ms(90_001)), Learned::default(), "a second stop returned events again");
        start(&mut learn, 100_000, 1000);
        learn.feed(&note(100_001, 38), wall(100_001));
        assert!(!start(&mut learn, 200_000, 1000).was_already_active, "an expired session was extended");
        assert!(learn.stop(Micros::from_ms(200_001)).events.is_empty());
    }

    #[test]
    fn the_newest_512_are_kept_and_let_through_lets_actions_go() {
        let mut learn = Learn::default();
        let started = learn.start(300_000, true, None, Micros(0), wall(0));
        assert!(!learn.holds_back() && learn.session() == Some(started.session));
        for at in 0..600u64 {
            learn.feed(&event(at, Body::Cc { channel: 0, controller: 1, value: (at % 128) as u8 }), wall(at));
        }
        learn.feed(&event(700, Body::RealTime(RealTime::Clock)), wall(700));
        let learned = learn.stop(Micros::from_ms(1000));
        assert_eq!(learned.events.len(), MAX_EVENTS);
        assert_eq!(learned.events.first().map(|it| it.at), Some(Micros::from_ms(88)));
        assert_eq!(learned.events.last().map(|it| it.at), Some(Micros::from_ms(599)));
    }

    #[test]
    fn the_wire_form_is_the_documented_one() {
        let mut slots = Slots::default();
        slots.slot("pads");
        let mut learn = Learn::default();
        let started = json!(start(&mut learn, 0, 30_000));
        assert_eq!(
            started,
            json!({"status": "learning", "expires_at": "2026-01-02T03:04:35.000Z", "session_id": 1, "was_already_active": false})
        );
        learn.feed(&note(5, 36), wall(5));
        let wire = json!(learn.stop(Micros::from_ms(20)).report(&slots, &Advanced::default()));
        assert_eq!(
            wire["events"],
            json!([{"type": "NoteOn", "note": 36, "velocity": 100, "channel": 0, "device_id": "pads",
                "timestamp": "2026-01-02T03:04:05.005Z"}])
        );
        assert_eq!(
            wire["suggestions"],
            json!([{"type": "Note", "note": 36, "velocity_range": [1, 127], "device": "pads", "channel": 0}])
        );
        assert_eq!(wire["suggestion_info"].as_array().map(Vec::len), Some(1));
        assert_eq!(wire["expired"], json!(false));
        let none = json!(Learn::default().stop(Micros(0)).report(&slots, &Advanced::default()));
        assert_eq!(none, json!({"events": [], "suggestions": [], "suggestion_info": [], "expired": false}));
    }
}
