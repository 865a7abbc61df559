//! Ranks suggestions: gestures of keys, single keys, velocity ranges, other controls, pressure. In
//! each of these groups, the latest suggestion comes first.
//!
//! Every suggestion is a valid trigger. If it were the only mapping, the same events would fire it.

use super::{Captured, keys, values};
use crate::config::Advanced;
use crate::event::{DeviceSlot, Micros};
use crate::mapping::table::Slots;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Maximum number of suggestions; more suggestions do not help.
const MAX_SUGGESTIONS: usize = 16;

/// A suggested trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// The trigger in the form of the configuration.
    pub trigger: Value,
    /// The confidence, 0..=1.
    pub confidence: f64,
    /// The reason for the suggestion.
    pub reason: String,
    /// An action of the person that would confirm the suggestion.
    pub needs: Option<&'static str>,
}

impl Suggestion {
    /// The wire form of confidence, reason and `needs`.
    pub fn info(&self) -> Value {
        let mut info = json!({"confidence": self.confidence, "reason": self.reason});
        if let (Some(needs), Some(info)) = (self.needs, info.as_object_mut()) {
            info.insert("needs".into(), json!(needs));
        }
        info
    }
}

/// The coarse rank of a suggestion. Within one rank, suggestions are sorted by time (latest first),
/// then by confidence (highest first).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    Gesture,
    Key,
    Velocity,
    Control,
    Pressure,
}

/// A trigger that the recorded events would fire.
pub(super) struct Guess {
    pub tier: Tier,
    pub kind: &'static str,
    pub fields: Vec<(&'static str, Value)>,
    pub confidence: f64,
    pub reason: String,
    pub needs: Option<&'static str>,
}

impl Guess {
    pub fn new(
        tier: Tier,
        kind: &'static str,
        fields: Vec<(&'static str, Value)>,
        confidence: f64,
        reason: impl Into<String>,
    ) -> Self {
        Guess { tier, kind, fields, confidence, reason: reason.into(), needs: None }
    }

    pub fn needs(self, needs: &'static str) -> Self {
        Guess { needs: Some(needs), ..self }
    }
}

/// A guess with its device and time, before it is ranked.
pub(super) struct Draft {
    pub guess: Guess,
    /// The time at which the control was last used or the gesture was completed.
    pub seen: Micros,
    pub device: DeviceSlot,
    /// The channel, if the control used only one channel.
    pub channel: Option<u8>,
}

impl Draft {
    fn finish(self, slots: &Slots) -> Suggestion {
        let Guess { kind, fields, confidence, reason, needs, .. } = self.guess;
        let mut trigger = Map::new();
        trigger.insert("type".into(), json!(kind));
        trigger.extend(fields.into_iter().map(|(key, value)| (key.to_owned(), value)));
        trigger.insert("device".into(), json!(slots.name(self.device)));
        if let Some(channel) = self.channel {
            trigger.insert("channel".into(), json!(channel));
        }
        Suggestion { trigger: Value::Object(trigger), confidence, reason, needs }
    }
}

/// Suggests triggers for recorded events.
pub fn suggest(events: &[Captured], slots: &Slots, advanced: &Advanced) -> Vec<Suggestion> {
    let mut drafts = keys::drafts(events, advanced);
    drafts.extend(values::drafts(events, advanced));
    drafts.sort_by(|a, b| {
        let by_time = b.seen.cmp(&a.seen);
        a.guess.tier.cmp(&b.guess.tier).then(by_time).then(b.guess.confidence.total_cmp(&a.guess.confidence))
    });
    let mut said = BTreeSet::new();
    let mut suggestions: Vec<Suggestion> = drafts.into_iter().map(|it| it.finish(slots)).collect();
    suggestions.retain(|it| said.insert(it.trigger.to_string()));
    suggestions.truncate(MAX_SUGGESTIONS);
    suggestions
}

/// The member of a set that has exactly one member.
pub(super) fn only(channels: &BTreeSet<u8>) -> Option<u8> {
    channels.first().copied().filter(|_| channels.len() == 1)
}
