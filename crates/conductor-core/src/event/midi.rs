//! Converts MIDI bytes to event bodies and back.
//!
//! The decoder is a state machine that allocates only when it is created, so a device callback can
//! run it. Not here: the source of the bytes, time stamps, and combinations of controllers
//! (`assemble`).

use super::{Body, RealTime};
use std::fmt;

/// The largest number of bytes between F0 and F7. Longer SysEx is dropped and counted.
pub const SYSEX_MAX: usize = 64 * 1024;

/// A decoded message. SysEx is borrowed from the decoder's buffer, because a callback must not
/// allocate.
#[derive(Debug, PartialEq)]
pub enum Heard<'a> {
    /// A MIDI message other than SysEx.
    Message(Body),
    /// The bytes between F0 and F7.
    SysEx(&'a [u8]),
}

/// Counts of bytes and messages that the decoder did not pass on, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swallowed {
    /// Active sensing (FE), which devices send every 300 ms.
    pub active_sensing: u64,
    /// System reset (FF). It is dropped because a device must not be able to silence the studio.
    pub reset: u64,
    /// The undefined status bytes F4, F5, F9 and FD.
    pub undefined: u64,
    /// Data bytes without a status byte, an F7 without an F0, or a message cut short by the next
    /// status byte.
    pub stray: u64,
    /// SysEx longer than the buffer.
    pub sysex_too_long: u64,
    /// SysEx that does not end with F7, because another status byte followed.
    pub sysex_broken: u64,
}

/// The decoder of one input port. Each port needs a separate decoder, because running status and
/// SysEx continue across packets.
pub struct Decoder {
    /// The running status, or 0 if there is none. System messages clear the running status;
    /// real-time bytes do not.
    status: u8,
    /// The first data byte of a message with two data bytes.
    first: Option<u8>,
    sysex: SysEx,
    buffer: Box<[u8]>,
    swallowed: Swallowed,
}

#[derive(Clone, Copy, PartialEq)]
enum SysEx {
    Outside,
    Inside {
        len: usize,
    },
    /// The SysEx is too long. Its bytes are skipped up to its end.
    Skipping,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("status", &self.status)
            .field("swallowed", &self.swallowed)
            .finish_non_exhaustive()
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new(vec![0; SYSEX_MAX].into_boxed_slice())
    }
}

impl Decoder {
    /// Creates a decoder. `buffer` stores one SysEx message; its length is the limit for SysEx.
    pub fn new(buffer: Box<[u8]>) -> Self {
        Decoder { status: 0, first: None, sysex: SysEx::Outside, buffer, swallowed: Swallowed::default() }
    }

    /// Counts of bytes and messages that were not passed on.
    pub fn swallowed(&self) -> Swallowed {
        self.swallowed
    }

    /// Discards an incomplete message, for a port that was closed and opened again. Keeps the
    /// counters.
    pub fn reset(&mut self) {
        self.status = 0;
        self.first = None;
        self.sysex = SysEx::Outside;
    }

    /// Decodes bytes, which may be split at any position. The next call continues an incomplete
    /// message.
    pub fn decode(&mut self, bytes: &[u8], mut heard: impl FnMut(Heard<'_>)) {
        for &byte in bytes {
            match byte {
                0x00..=0x7F => {
                    if let Some(body) = self.data(byte) {
                        heard(Heard::Message(body));
                    }
                }
                0x80..=0xEF => {
                    self.interrupt();
                    self.status = byte;
                }
                0xF0..=0xF7 => self.system(byte, &mut heard),
                0xFE => self.swallowed.active_sensing += 1,
                0xFF => self.swallowed.reset += 1,
                0xF8..=0xFD => match RealTime::from_id(byte.into()) {
                    Some(message) => heard(Heard::Message(Body::RealTime(message))),
                    None => self.swallowed.undefined += 1,
                },
            }
        }
    }

    fn data(&mut self, byte: u8) -> Option<Body> {
        match self.sysex {
            SysEx::Outside => {}
            SysEx::Inside { len } => {
                match self.buffer.get_mut(len) {
                    Some(place) => {
                        *place = byte;
                        self.sysex = SysEx::Inside { len: len + 1 };
                    }
                    None => {
                        self.swallowed.sysex_too_long += 1;
                        self.sysex = SysEx::Skipping;
                    }
                }
                return None;
            }
            SysEx::Skipping => return None,
        }
        let channel = self.status & 0x0F;
        let body = match (self.status & 0xF0, self.first) {
            (0xC0, _) => Body::Program { channel, program: byte },
            (0xD0, _) => Body::ChannelPressure { channel, pressure: byte },
            (0x80 | 0x90 | 0xA0 | 0xB0 | 0xE0, None) => {
                self.first = Some(byte);
                return None;
            }
            (0x80, Some(note)) => Body::NoteOff { channel, note, velocity: byte },
            (0x90, Some(note)) if byte == 0 => Body::NoteOff { channel, note, velocity: 0 },
            (0x90, Some(note)) => Body::NoteOn { channel, note, velocity: byte },
            (0xA0, Some(note)) => Body::PolyPressure { channel, note, pressure: byte },
            (0xB0, Some(controller)) => Body::Cc { channel, controller, value: byte },
            (0xE0, Some(low)) => Body::PitchBend { channel, value: u16::from(byte) << 7 | u16::from(low) },
            (0xF0, None) if self.status == 0xF2 => {
                self.first = Some(byte);
                return None;
            }
            (0xF0, first) => {
                let status = self.status;
                self.status = 0;
                self.first = None;
                return Some(Body::Common { status, data: first.map_or([byte, 0], |low| [low, byte]) });
            }
            _ => {
                self.swallowed.stray += 1;
                return None;
            }
        };
        self.first = None;
        Some(body)
    }

    fn system(&mut self, byte: u8, heard: &mut impl FnMut(Heard<'_>)) {
        if byte == 0xF7 {
            match std::mem::replace(&mut self.sysex, SysEx::Outside) {
                SysEx::Inside { len } => heard(Heard::SysEx(self.buffer.get(..len).unwrap_or_default())),
                SysEx::Skipping => {}
                SysEx::Outside => {
                    self.interrupt();
                    self.swallowed.stray += 1;
                }
            }
            return;
        }
        self.interrupt();
        match byte {
            0xF0 => self.sysex = SysEx::Inside { len: 0 },
            0xF1..=0xF3 => self.status = byte,
            0xF6 => heard(Heard::Message(Body::Common { status: byte, data: [0, 0] })),
            _ => self.swallowed.undefined += 1,
        }
    }

    /// Called for a status byte. Discards an incomplete message and the running status.
    fn interrupt(&mut self) {
        if self.first.take().is_some() || matches!(self.status, 0xF1..=0xF3) {
            self.swallowed.stray += 1;
        }
        if let SysEx::Inside { .. } = self.sysex {
            self.swallowed.sysex_broken += 1;
        }
        self.sysex = SysEx::Outside;
        self.status = 0;
    }
}

/// A message of one to three bytes, stored without allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Short {
    bytes: [u8; 3],
    len: u8,
}

impl Short {
    /// The bytes of the message.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl std::ops::Deref for Short {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.as_bytes())
    }
}

/// The reason why a body has no MIDI bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBytes {
    /// Gamepad and OSC events have no MIDI form.
    NotMidi,
    /// SysEx does not fit into [`Short`]; use [`encode`].
    SysEx,
    /// A number is above its range, or a note-on has velocity 0. Receivers treat such a note-on as
    /// a note-off.
    OutOfRange(&'static str),
}

impl fmt::Display for NoBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoBytes::NotMidi => f.write_str("gamepad and OSC events have no MIDI bytes"),
            NoBytes::SysEx => f.write_str("SysEx does not fit into three bytes"),
            NoBytes::OutOfRange(field) => write!(f, "{field} is out of its MIDI range"),
        }
    }
}

impl std::error::Error for NoBytes {}

/// The bytes of any message except SysEx, without allocation. A number out of range is an error.
pub fn short(body: &Body) -> Result<Short, NoBytes> {
    let two = |status: u8, channel: u8, name, byte| {
        Ok(Short { bytes: [status | nibble(channel)?, seven(name, byte)?, 0], len: 2 })
    };
    let three = |status: u8, channel: u8, first: (&'static str, u8), second: (&'static str, u8)| {
        Ok(Short { bytes: [status | nibble(channel)?, seven(first.0, first.1)?, seven(second.0, second.1)?], len: 3 })
    };
    match *body {
        Body::NoteOn { velocity: 0, .. } => Err(NoBytes::OutOfRange("velocity")),
        Body::NoteOn { channel, note, velocity } => three(0x90, channel, ("note", note), ("velocity", velocity)),
        Body::NoteOff { channel, note, velocity } => three(0x80, channel, ("note", note), ("velocity", velocity)),
        Body::PolyPressure { channel, note, pressure } => three(0xA0, channel, ("note", note), ("pressure", pressure)),
        Body::Cc { channel, controller, value } => three(0xB0, channel, ("controller", controller), ("value", value)),
        Body::Program { channel, program } => two(0xC0, channel, "program", program),
        Body::ChannelPressure { channel, pressure } => two(0xD0, channel, "pressure", pressure),
        Body::PitchBend { channel, value } => {
            if value > 0x3FFF {
                return Err(NoBytes::OutOfRange("pitch bend"));
            }
            three(0xE0, channel, ("value", (value & 0x7F) as u8), ("value", (value >> 7) as u8))
        }
        Body::RealTime(message) => Ok(Short { bytes: [message.id(), 0, 0], len: 1 }),
        Body::Common { status, data: [first, second] } => {
            let len = match status {
                0xF1 | 0xF3 => 2,
                0xF2 => 3,
                0xF6 => 1,
                _ => return Err(NoBytes::OutOfRange("status")),
            };
            Ok(Short { bytes: [status, seven("data", first)?, seven("data", second)?], len })
        }
        Body::SysEx(_) => Err(NoBytes::SysEx),
        Body::ButtonDown(_) | Body::ButtonUp(_) | Body::Axis { .. } | Body::Trigger { .. } | Body::Osc(_) => {
            Err(NoBytes::NotMidi)
        }
    }
}

/// Appends the bytes of one message; on an error `out` is unchanged.
pub fn encode(body: &Body, out: &mut Vec<u8>) -> Result<(), NoBytes> {
    if let Body::SysEx(data) = body {
        if data.iter().any(|byte| *byte > 0x7F) {
            return Err(NoBytes::OutOfRange("SysEx byte"));
        }
        out.reserve(data.len() + 2);
        out.push(0xF0);
        out.extend_from_slice(data);
        out.push(0xF7);
        return Ok(());
    }
    out.extend_from_slice(&short(body)?);
    Ok(())
}

fn nibble(channel: u8) -> Result<u8, NoBytes> {
    if channel < 16 { Ok(channel) } else { Err(NoBytes::OutOfRange("channel")) }
}

fn seven(name: &'static str, value: u8) -> Result<u8, NoBytes> {
    if value < 128 { Ok(value) } else { Err(NoBytes::OutOfRange(name)) }
}

#[cfg(test)]
mod tests;
