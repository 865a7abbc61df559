//! Path ids: the only way to refer to objects from outside a document. A path id is a position, not
//! a handle, so it can become stale.
//!
//! Not here: whether the object of a [`PathId`] exists.

use crate::error::LiveError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A parsed path id. Parsing and `Display` are exact inverses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema)]
#[schemars(with = "String", description = "")]
pub enum PathId {
    /// `track:N`, counted over MIDI, audio and group tracks.
    Track(u32),
    /// A part of an ordinary track.
    OnTrack(u32, TrackPart),
    /// `returntrack:N`
    Return(u32),
    /// A part of a return track's chain.
    OnReturn(u32, ChainPart),
    /// `main`
    Main,
    /// A part of the main track's chain.
    OnMain(ChainPart),
    /// `scene:N`
    Scene(u32),
    /// `cuepoint:N`
    CuePoint(u32),
}

/// The parts that can follow `track:N/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrackPart {
    /// `clipslot:N`
    Slot(u32),
    /// `clipslot:N/clip`
    SlotClip(u32),
    /// `clip:N`, counted over arrangement clips by start time.
    Clip(u32),
    /// `takelane:N`
    TakeLane(u32),
    /// A device, parameter or mixer part.
    Chain(ChainPart),
}

/// The parts that can follow `track:N/`, `returntrack:N/` and `main/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainPart {
    /// `device:N`
    Device(u32),
    /// `device:N/param:M`
    Param(u32, u32),
    /// `mixer`
    Mixer,
    /// `mixer/volume`
    Volume,
    /// `mixer/panning`
    Panning,
    /// `mixer/send:N`
    Send(u32),
}

/// The track that has a device chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainOwner {
    /// An ordinary track.
    Track(u32),
    /// A return track.
    Return(u32),
    /// The main track.
    Main,
}

impl ChainOwner {
    /// The path of the track.
    pub fn path(self) -> PathId {
        match self {
            ChainOwner::Track(n) => PathId::Track(n),
            ChainOwner::Return(n) => PathId::Return(n),
            ChainOwner::Main => PathId::Main,
        }
    }

    /// The path of a part of this track's chain.
    pub fn part(self, part: ChainPart) -> PathId {
        match self {
            ChainOwner::Track(n) => PathId::OnTrack(n, TrackPart::Chain(part)),
            ChainOwner::Return(n) => PathId::OnReturn(n, part),
            ChainOwner::Main => PathId::OnMain(part),
        }
    }
}

impl PathId {
    /// Index of the ordinary track to which this path refers, or which contains the object of this
    /// path.
    pub fn track(self) -> Option<u32> {
        if let PathId::Track(n) | PathId::OnTrack(n, _) = self { Some(n) } else { None }
    }

    /// The owner of the chain when this path refers to a track.
    pub fn chain_owner(self) -> Option<ChainOwner> {
        match self {
            PathId::Track(n) => Some(ChainOwner::Track(n)),
            PathId::Return(n) => Some(ChainOwner::Return(n)),
            PathId::Main => Some(ChainOwner::Main),
            PathId::OnTrack(..)
            | PathId::OnReturn(..)
            | PathId::OnMain(..)
            | PathId::Scene(_)
            | PathId::CuePoint(_) => None,
        }
    }

    /// The owner and the part when this path refers to a device, parameter or mixer part.
    pub fn chain_part(self) -> Option<(ChainOwner, ChainPart)> {
        match self {
            PathId::OnTrack(n, TrackPart::Chain(part)) => Some((ChainOwner::Track(n), part)),
            PathId::OnReturn(n, part) => Some((ChainOwner::Return(n), part)),
            PathId::OnMain(part) => Some((ChainOwner::Main, part)),
            PathId::Track(_)
            | PathId::OnTrack(..)
            | PathId::Return(_)
            | PathId::Main
            | PathId::Scene(_)
            | PathId::CuePoint(_) => None,
        }
    }
}

impl fmt::Display for ChainPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainPart::Device(n) => write!(f, "device:{n}"),
            ChainPart::Param(n, m) => write!(f, "device:{n}/param:{m}"),
            ChainPart::Mixer => f.write_str("mixer"),
            ChainPart::Volume => f.write_str("mixer/volume"),
            ChainPart::Panning => f.write_str("mixer/panning"),
            ChainPart::Send(n) => write!(f, "mixer/send:{n}"),
        }
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathId::Track(n) => write!(f, "track:{n}"),
            PathId::OnTrack(n, TrackPart::Slot(s)) => write!(f, "track:{n}/clipslot:{s}"),
            PathId::OnTrack(n, TrackPart::SlotClip(s)) => write!(f, "track:{n}/clipslot:{s}/clip"),
            PathId::OnTrack(n, TrackPart::Clip(c)) => write!(f, "track:{n}/clip:{c}"),
            PathId::OnTrack(n, TrackPart::TakeLane(l)) => write!(f, "track:{n}/takelane:{l}"),
            PathId::OnTrack(n, TrackPart::Chain(part)) => write!(f, "track:{n}/{part}"),
            PathId::Return(n) => write!(f, "returntrack:{n}"),
            PathId::OnReturn(n, part) => write!(f, "returntrack:{n}/{part}"),
            PathId::Main => f.write_str("main"),
            PathId::OnMain(part) => write!(f, "main/{part}"),
            PathId::Scene(n) => write!(f, "scene:{n}"),
            PathId::CuePoint(n) => write!(f, "cuepoint:{n}"),
        }
    }
}

const NOT_A_NUMBER: &str = "an index is 0 or a whole number without sign or leading zero, below 4294967296";

fn index(text: &str) -> Result<u32, &'static str> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !plain || (text.len() > 1 && text.starts_with('0')) {
        return Err(NOT_A_NUMBER);
    }
    text.parse().map_err(|_| NOT_A_NUMBER)
}

/// Splits off the first segment: its name, its index if present, and the rest after the slash.
fn segment(text: &str) -> Result<(&str, Option<u32>, Option<&str>), &'static str> {
    let (head, rest) = match text.split_once('/') {
        Some((head, rest)) => (head, Some(rest)),
        None => (text, None),
    };
    match head.split_once(':') {
        Some((word, number)) => Ok((word, Some(index(number)?), rest)),
        None => Ok((head, None, rest)),
    }
}

const TRAILING: &str = "unexpected text after the last segment";
const UNKNOWN: &str = "unknown segment";

fn chain(text: &str) -> Result<ChainPart, &'static str> {
    match segment(text)? {
        ("device", Some(n), None) => Ok(ChainPart::Device(n)),
        ("device", Some(n), Some(rest)) => match segment(rest)? {
            ("param", Some(m), None) => Ok(ChainPart::Param(n, m)),
            ("param", Some(_), Some(_)) => Err(TRAILING),
            (_, _, _) => Err(UNKNOWN),
        },
        ("mixer", None, None) => Ok(ChainPart::Mixer),
        ("mixer", None, Some(rest)) => match segment(rest)? {
            ("volume", None, None) => Ok(ChainPart::Volume),
            ("panning", None, None) => Ok(ChainPart::Panning),
            ("send", Some(n), None) => Ok(ChainPart::Send(n)),
            ("volume" | "panning", None, Some(_)) | ("send", Some(_), Some(_)) => Err(TRAILING),
            (_, _, _) => Err(UNKNOWN),
        },
        (_, _, _) => Err(UNKNOWN),
    }
}

fn on_track(text: &str) -> Result<TrackPart, &'static str> {
    match segment(text)? {
        ("clipslot", Some(n), None) => Ok(TrackPart::Slot(n)),
        ("clipslot", Some(n), Some("clip")) => Ok(TrackPart::SlotClip(n)),
        ("clipslot", Some(_), Some(_)) => Err("only /clip may follow a clipslot"),
        ("clip", Some(n), None) => Ok(TrackPart::Clip(n)),
        ("takelane", Some(n), None) => Ok(TrackPart::TakeLane(n)),
        ("clip" | "takelane", Some(_), Some(_)) => Err(TRAILING),
        (_, _, _) => chain(text).map(TrackPart::Chain),
    }
}

impl FromStr for PathId {
    type Err = LiveError;

    fn from_str(text: &str) -> Result<Self, LiveError> {
        let parsed = match segment(text) {
            Err(reason) => Err(reason),
            Ok(("track", Some(n), None)) => Ok(PathId::Track(n)),
            Ok(("track", Some(n), Some(rest))) => on_track(rest).map(|part| PathId::OnTrack(n, part)),
            Ok(("returntrack", Some(n), None)) => Ok(PathId::Return(n)),
            Ok(("returntrack", Some(n), Some(rest))) => chain(rest).map(|part| PathId::OnReturn(n, part)),
            Ok(("main", None, None)) => Ok(PathId::Main),
            Ok(("main", None, Some(rest))) => chain(rest).map(PathId::OnMain),
            Ok(("scene", Some(n), None)) => Ok(PathId::Scene(n)),
            Ok(("cuepoint", Some(n), None)) => Ok(PathId::CuePoint(n)),
            Ok(("scene" | "cuepoint", Some(_), Some(_))) => Err(TRAILING),
            Ok((_, _, _)) => Err(UNKNOWN),
        };
        parsed.map_err(|reason| LiveError::BadPath { text: text.chars().take(200).collect(), reason })
    }
}

impl Serialize for PathId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PathId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
