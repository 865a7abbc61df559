//! Remembers messages that were sent a moment ago, so that their echo is not taken for a hand.
//!
//! A device may echo what it receives. A device with `echo_guard` loses one incoming copy of each
//! message sent to it within 20 ms; and the approval pad does not count a press that repeats its
//! own light.
//!
//! A note-on without velocity and a note-off are the same message here, and release velocity does
//! not count: PipeWire rewrites both. Not here: the motor-fader rule of feedback, and messages that
//! come back over a cable (`event::returns`).

use super::midi::{Short, short};
use super::{Body, Micros};
use std::collections::VecDeque;

/// How long a light may be echoed.
pub const LIGHT_ECHO: Micros = Micros::from_ms(100);
/// How long a guarded message may be echoed.
pub const GUARD: Micros = Micros::from_ms(20);

/// The most messages that are remembered.
const MEMORY: usize = 4096;

/// Messages recently sent to one device.
#[derive(Debug)]
pub struct Echo {
    window: Micros,
    sent: VecDeque<(Micros, Key)>,
    /// More was sent than is remembered: until this time every message counts as an echo, so that a
    /// flood cannot get through.
    blind_until: Option<Micros>,
}

/// The part of a message that an echo keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Short(Short),
    /// Length and a checksum; comparing 8 KiB per message would be too slow.
    SysEx {
        len: usize,
        sum: u64,
    },
}

fn key(body: &Body) -> Option<Key> {
    if let Body::SysEx(data) = body {
        // FNV-1a; a collision only taints a message that is clean.
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
    /// For the light of the approval pad.
    pub fn of_lights() -> Self {
        Echo { window: LIGHT_ECHO, sent: VecDeque::new(), blind_until: None }
    }

    /// For the messages to one device with `echo_guard`.
    pub fn of_device() -> Self {
        Echo { window: GUARD, sent: VecDeque::new(), blind_until: None }
    }

    /// Remembers a sent message.
    pub fn note_sent(&mut self, at: Micros, body: &Body) {
        let Some(key) = key(body) else { return };
        self.forget(at);
        if self.sent.len() == MEMORY {
            self.sent.pop_front();
            self.blind_until = Some(Micros(at.0.saturating_add(self.window.0)));
        }
        self.sent.push_back((at, key));
    }

    /// Whether this message may be an echo. Every copy counts: it may come back on several inputs.
    pub fn is_echo(&mut self, at: Micros, body: &Body) -> bool {
        self.forget(at);
        if self.sent.is_empty() && self.blind_until.is_none() {
            return false;
        }
        let Some(key) = key(body) else { return false };
        self.blind_until.is_some() || self.sent.iter().any(|(_, sent)| *sent == key)
    }

    /// Removes one remembered copy of this message, if there is one: each sent message swallows one
    /// echo, and a hand that repeats it is heard.
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
        assert!(echo.is_echo(Micros(100_000), &on(36)), "on several inputs, up to the end of the window");
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
        assert!(!guard.swallow(Micros(10_000), &on(36)), "the third one is a hand");
        guard.note_sent(Micros(20_000), &on(36));
        assert!(!guard.swallow(Micros(40_001), &on(36)), "too late to be an echo");
    }

    #[test]
    fn a_flood_taints_more_and_never_less() {
        let mut echo = Echo::of_lights();
        echo.note_sent(Micros(0), &on(36));
        for i in 0..MEMORY {
            echo.note_sent(Micros(1), &Body::PitchBend { channel: 0, value: (i % 16384) as u16 });
        }
        assert!(echo.is_echo(Micros(2), &on(36)), "pushed out of memory, and still not a hand");
        assert!(!echo.is_echo(Micros(100_002), &on(36)));
        assert!(echo.sent.len() <= MEMORY);
    }
}
