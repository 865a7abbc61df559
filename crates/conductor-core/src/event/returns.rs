//! Stores messages that were not caused by a person's input, so that copies that come back over a
//! cable are tainted.
//!
//! A message that comes back over a cable may be delayed. Its velocity, value or channel may
//! change, and a note-off may become a note-on with velocity 0. The kind of the message and its
//! number (note, controller, program; the address for OSC) do not change. A table of fixed size
//! stores the last time for each kind and number. A flood of messages only overwrites times and
//! never removes an entry. Two OSC addresses may share a cell of the table, so some messages are
//! tainted unnecessarily.
//!
//! Not detected: copies from devices that transpose or convert messages. Not here: `echo_guard`,
//! which drops exact copies (`event::echo`).

use super::{Body, Micros};

/// The time in which a copy may come back. A cable may delay a message by one second. The other 500
/// ms are for queues on the way.
pub const WINDOW: Micros = Micros::from_ms(1500);

const NUMBERS: usize = 128;
const NOTE_ON: usize = 0;
const NOTE_OFF: usize = NUMBERS;
const POLY: usize = 2 * NUMBERS;
const CC: usize = 3 * NUMBERS;
const PROGRAM: usize = 4 * NUMBERS;
const SINGLE: usize = 5 * NUMBERS;
/// The number of cells for messages without a number: pressure, bend, SysEx, four transport
/// messages, and one for all system common messages.
const SINGLES: usize = 8;
const OSC: usize = SINGLE + SINGLES;
const OSC_CELLS: usize = 1024;
const CELLS: usize = OSC + OSC_CELLS;

/// The times of messages that were not caused by a person's input.
#[derive(Debug)]
pub struct Returns {
    sent: Box<[Option<Micros>]>,
    latest: Option<Micros>,
}

impl Default for Returns {
    fn default() -> Self {
        Returns { sent: vec![None; CELLS].into(), latest: None }
    }
}

impl Returns {
    /// Stores the time of a message that was not caused by a person's input.
    pub fn note_sent(&mut self, at: Micros, body: &Body) {
        if let Some(cell) = cell(body).and_then(|it| self.sent.get_mut(it)) {
            *cell = Some(at);
            self.latest = self.latest.max(Some(at));
        }
    }

    /// Whether a message that arrived at `at` may be a copy of a stored message.
    pub fn is_return(&self, at: Micros, body: &Body) -> bool {
        let is_recent = |sent: &Micros| at.since(*sent) <= WINDOW.0;
        self.latest.as_ref().is_some_and(is_recent)
            && cell(body).and_then(|it| self.sent.get(it)?.as_ref()).is_some_and(is_recent)
    }
}

/// The index of a message's cell. `None` for events that no output can send.
fn cell(body: &Body) -> Option<usize> {
    let number = |first: usize, number: u8| Some(first + usize::from(number & 127));
    match body {
        Body::NoteOn { note, .. } => number(NOTE_ON, *note),
        Body::NoteOff { note, .. } => number(NOTE_OFF, *note),
        Body::PolyPressure { note, .. } => number(POLY, *note),
        Body::Cc { controller, .. } => number(CC, *controller),
        Body::Program { program, .. } => number(PROGRAM, *program),
        Body::ChannelPressure { .. } => Some(SINGLE),
        Body::PitchBend { .. } => Some(SINGLE + 1),
        Body::SysEx(_) => Some(SINGLE + 2),
        Body::RealTime(message) => Some(SINGLE + 3 + message.index()),
        Body::Common { .. } => Some(SINGLE + 7),
        Body::Osc(message) => {
            // The hash is FNV-1a.
            let sum = message
                .address
                .bytes()
                .fold(0xCBF2_9CE4_8422_2325, |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
            Some(OSC + (sum % OSC_CELLS as u64) as usize)
        }
        Body::ButtonDown(_) | Body::ButtonUp(_) | Body::Axis { .. } | Body::Trigger { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{OscArg, OscMessage};

    const SECOND: u64 = 1_000_000;

    fn on(channel: u8, note: u8, velocity: u8) -> Body {
        Body::NoteOn { channel, note, velocity }
    }

    fn osc(address: &str, value: f32) -> Body {
        Body::Osc(OscMessage { address: address.into(), args: vec![OscArg::Float(value)] }.into())
    }

    #[test]
    fn a_cable_that_delays_or_changes_velocity_value_or_channel_hides_nothing() {
        let mut returns = Returns::default();
        for sent in [
            on(0, 36, 100),
            Body::NoteOff { channel: 0, note: 36, velocity: 0 },
            Body::Cc { channel: 0, controller: 7, value: 1 },
            Body::PitchBend { channel: 0, value: 0 },
            osc("/a", 0.5),
        ] {
            returns.note_sent(Micros(0), &sent);
        }
        for heard in [
            on(9, 36, 1),
            Body::NoteOff { channel: 3, note: 36, velocity: 64 },
            Body::Cc { channel: 1, controller: 7, value: 99 },
            Body::PitchBend { channel: 5, value: 16383 },
            osc("/a", 0.25),
        ] {
            assert!(returns.is_return(Micros(SECOND), &heard), "{heard:?}");
            assert!(!returns.is_return(Micros(WINDOW.0 + 1), &heard), "{heard:?}");
        }
        for other in [on(0, 37, 100), Body::Cc { channel: 0, controller: 8, value: 1 }, osc("/b", 0.5)] {
            assert!(!returns.is_return(Micros(1), &other), "{other:?}");
        }
    }

    #[test]
    fn a_flood_forgets_nothing() {
        let mut returns = Returns::default();
        returns.note_sent(Micros(0), &on(0, 36, 100));
        for i in 0..100_000u32 {
            returns.note_sent(Micros(1), &Body::PitchBend { channel: 0, value: (i % 16384) as u16 });
            returns.note_sent(Micros(1), &osc(&format!("/{i}"), 0.0));
            returns.note_sent(Micros(1), &on(0, 37 + (i % 90) as u8, 1));
        }
        assert!(returns.is_return(Micros(SECOND), &on(0, 36, 100)));
        assert!(
            !returns.is_return(Micros(SECOND), &on(0, 35, 100)),
            "a message that was never sent was treated as a return"
        );
        assert_eq!(returns.sent.len(), CELLS);
    }
}
