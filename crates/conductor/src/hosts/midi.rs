//! MIDI.

pub mod ring;
