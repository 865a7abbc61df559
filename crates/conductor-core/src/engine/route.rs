//! Routes forward events from one device to another, filtered and transformed. Only events that no
//! mapping has used, or that a mapping lets through, are routed.

use super::effect::{Effect, Placeholders};
use super::ledger::{Held, Owner};
use super::trace::Outcome;
use super::{Context, Engine, TOO_FAR, curves};
use crate::config::{Filter, MessageType};
use crate::event::{Body, Event};
use crate::gesture::PressInfo;
use std::sync::Arc;

const ROUTE: &str = "Route";

impl Engine {
    /// Forwards an event through all matching routes. `press` is the press of a note-on; the
    /// release of this press ends the notes that the routes sent.
    pub(super) fn route(&mut self, event: &Event, press: Option<&PressInfo>, out: &mut Vec<Effect>) {
        let tables = Arc::clone(&self.tables);
        let mode = press.map_or(self.mode, |it| it.mode);
        for route in tables.routes.iter().filter(|it| it.from == event.device) {
            if !(route.any_mode || route.modes.contains(&mode)) || !passes(&route.filter, &event.body) {
                continue;
            }
            let Some(message) = curves::transform(&route.transform, &event.body) else { continue };
            if self.is_too_far(event.trail()) {
                self.counters.over_hops += 1;
                return self.note_outcome(event, ROUTE, Outcome::Failed, TOO_FAR);
            }
            self.counters.routed += 1;
            let context = Context {
                gesture: ROUTE,
                press: press.copied(),
                device: event.device,
                body: None,
                trail: event.trail(),
                values: Placeholders::default(),
            };
            if let Body::Cc { channel, controller: 64, value } = message {
                self.pedal(route.to, channel, value, &context, None, out);
                continue;
            }
            self.send(route.to, message.clone(), context.trail, out);
            if let (Body::NoteOn { channel, note, .. }, Some(press)) = (message, press) {
                let held = Held::Note { port: route.to, channel, note };
                let entry = self.ledger.enter(Owner::Press(press.id), Some(event.device), None, held, event.taint);
                if !press.held {
                    self.ledger.end(entry, out);
                }
            }
        }
    }
}

fn passes(filter: &Filter, body: &Body) -> bool {
    let (kind, channel) = match body {
        Body::NoteOn { channel, .. } => (MessageType::NoteOn, Some(*channel)),
        Body::NoteOff { channel, .. } => (MessageType::NoteOff, Some(*channel)),
        Body::PolyPressure { channel, .. } => (MessageType::PolyAftertouch, Some(*channel)),
        Body::Cc { channel, .. } => (MessageType::Cc, Some(*channel)),
        Body::Program { channel, .. } => (MessageType::ProgramChange, Some(*channel)),
        Body::ChannelPressure { channel, .. } => (MessageType::Aftertouch, Some(*channel)),
        Body::PitchBend { channel, .. } => (MessageType::PitchBend, Some(*channel)),
        Body::SysEx(_) => (MessageType::SysEx, None),
        Body::RealTime(_) | Body::Common { .. } => (MessageType::Clock, None),
        Body::ButtonDown(_) | Body::ButtonUp(_) | Body::Axis { .. } | Body::Trigger { .. } | Body::Osc(_) => {
            return false;
        }
    };
    let listed = filter.message_types.is_empty() || filter.message_types.contains(&kind);
    let on_channel = channel.is_none_or(|it| filter.channels.is_empty() || filter.channels.contains(&it));
    let within = |range: Option<(u8, u8)>, value: u8| range.is_none_or(|(low, high)| (low..=high).contains(&value));
    let in_range =
        if let Body::NoteOn { note, .. } | Body::NoteOff { note, .. } | Body::PolyPressure { note, .. } = body {
            within(filter.note_range, *note)
        } else if let Body::Cc { controller, .. } = body {
            within(filter.cc_range, *controller)
        } else {
            true
        };
    listed && on_channel && in_range
}
