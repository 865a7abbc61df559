//! Stores recently sent messages, so that an echo of such a message is not treated as a person's
//! input.
//!
//! A device may echo the messages that it receives. For a device with `echo_guard`, one copy of
//! each sent message is dropped if it arrives within 20 ms. For the approval pad, a press that
//! equals the pad's own light message is ignored.
//!
//! A note-on with velocity 0 equals a note-off here, and release velocity is ignored, because
//! PipeWire rewrites both. Not here: the motor-fader rule (`feedback`), and messages that come back
//! over a cable (`event::returns`).

use super::midi::{Short, short};
use super::{Body, Micros};
use std::collections::VecDeque;

/// The longest time between a light message and its echo.
pub const LIGHT_ECHO: Micros = Micros::from_ms(100);
/// The longest time between a message to a device with `echo_guard` and its echo.
pub const GUARD: Micros = Micros::from_ms(20);

/// The maximum number of stored messages.
const MEMORY: usize = 4096;

/// Messages recently sent to one device.
#[derive(Debug)]
pub struct Echo {
    window: Micros,
    sent: VecDeque<(Micros, Key)>,
    /// Set when more messages were sent than can be stored. Until this time [`Echo::is_echo`]
    /// treats every message as an echo, so that a flood cannot bypass the check.
    blind_until: Option<Micros>,
}

/// The parts of a message that are the same in its echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Short(Short),
    /// Length and checksum, because comparing long messages would be too slow.
    SysEx {
        len: usize,
        sum: u64,
    },
}

fn key(body: &Body) -> Option<Key> {
    if let Body::SysEx(data) = body {
        // The checksum is FNV-1a. If two messages have the same checksum, a clean message may be
        // treated as an echo. An echo is never treated as clean.
        let sum = data
            .iter()
            .fold(0xCBF2_9CE4_8422_2325, |sum: u64, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3));
        return Some(Key::SysEx { len: data.len(), sum });
    }
    let plain = if let Body::NoteOff { channel, note, .. } = body {
        &Body::NoteOff { channel: *channel, note: *note, velocity: 0 }
    } else {
        body
    };
    short(plain).ok().map(Key::Short)
}

impl Echo {
    /// Creates a memory for light messages to the approval pad.
    pub fn of_lights() -> Self {
        Echo { window: LIGHT_ECHO, sent: VecDeque::new(), blind_until: None }
    }

    /// Creates a memory for messages to one device with `echo_guard`. All space is allocated now,
    /// because messages may be sent in a device callback.
    pub fn of_device() -> Self {
        Echo { window: GUARD, sent: VecDeque::with_capacity(MEMORY), blind_until: None }
    }

    /// Stores a sent message.
    pub fn note_sent(&mut self, at: Micros, body: &Body) {
        let Some(key) = key(body) else { return };
        self.forget(at);
        if self.sent.len() == MEMORY {
            self.sent.pop_front();
            self.blind_until = Some(Micros(at.0.saturating_add(self.window.0)));
        }
        self.sent.push_back((at, key));
    }

    /// Whether this message may be an echo. The stored message is kept, because its echo may arrive
    /// on several inputs.
    pub fn is_echo(&mut self, at: Micros, body: &Body) -> bool {
        self.forget(at);
        if self.sent.is_empty() && self.blind_until.is_none() {
            return false;
        }
        let Some(key) = key(body) else { return false };
        self.blind_until.is_some() || self.sent.iter().any(|(_, sent)| *sent == key)
    }

    /// Removes one stored copy of this message, and returns whether a copy was stored. Each sent
    /// message suppresses one echo, so a person can still play the same message.
    pub fn swallow(&mut self, at: Micros, body: &Body) -> bool {
        self.forget(at);
        let Some(key) = key(body) else { return false };
        let found = self.sent.iter().position(|(_, sent)| *sent == key);
        found.and_then(|index| self.sent.remove(index)).is_some()
    }

    fn forget(&mut self, now: Micros) {
        while self.sent.front().is_some_and(|(at, _)| now.since(*at) > self.window.0) {
            self.sent.pop_front();
        }
        if self.blind_until.is_some_and(|until| until < now) {
            self.blind_until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(note: u8) -> Body {
        Body::NoteOn { channel: 0, note, velocity: 100 }
    }

    fn off(velocity: u8) -> Body {
        Body::NoteOff { channel: 0, note: 36, velocity }
    }

    #[test]
    fn what_was_shown_is_an_echo_for_a_tenth_of_a_second() {
        let mut echo = Echo::of_lights();
        echo.note_sent(Micros(0), &on(36));
        assert!(echo.is_echo(Micros(50_000), &on(36)));
        assert!(echo.is_echo(Micros(100_000), &on(36)), "a second echo at the end of the window was not detected");
        assert!(!echo.is_echo(Micros(50_000), &on(37)));
        assert!(!echo.is_echo(Micros(100_001), &on(36)));
    }

    #[test]
    fn release_velocity_does_not_hide_an_echo() {
        let mut echo = Echo::of_lights();
        echo.note_sent(Micros(0), &off(0));
        assert!(echo.is_echo(Micros(1), &off(64)));
        echo.note_sent(Micros(0), &Body::SysEx([1, 2].as_slice().into()));
        assert!(echo.is_echo(Micros(1), &Body::SysEx([1, 2].as_slice().into())));
        assert!(!echo.is_echo(Micros(1), &Body::SysEx([2, 1].as_slice().into())));
    }

    #[test]
    fn a_guard_swallows_one_copy_each() {
        let mut guard = Echo::of_device();
        guard.note_sent(Micros(0), &on(36));
        guard.note_sent(Micros(0), &on(36));
        assert!(guard.swallow(Micros(10_000), &on(36)));
        assert!(guard.swallow(Micros(10_000), &on(36)));
        assert!(!guard.swallow(Micros(10_000), &on(36)), "a third message was dropped as an echo");
        guard.note_sent(Micros(20_000), &on(36));
        assert!(!guard.swallow(Micros(40_001), &on(36)), "a late message was dropped as an echo");
    }

    #[test]
    fn a_flood_taints_more_and_never_less() {
        let mut echo = Echo::of_lights();
        echo.note_sent(Micros(0), &on(36));
        for i in 0..MEMORY {
            echo.note_sent(Micros(1), &Body::PitchBend { channel: 0, value: (i % 16384) as u16 });
        }
        assert!(echo.is_echo(Micros(2), &on(36)), "an echo was not detected after a flood");
        assert!(!echo.is_echo(Micros(100_002), &on(36)));
        assert!(echo.sent.len() <= MEMORY);
    }
}
