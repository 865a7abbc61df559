//! Code that both hosts of a running Live share: the change callback, error helpers and missing
//! operations.

use super::{Caps, KnownIds, LiveHostError, Mode, Op};
use conductor_set::{Diff, Listing, LiveError, PathId, TrackKind, TrackPart};
use std::sync::Arc;

/// Called when the Set was changed in Live. Arguments: the changed objects, and whether ids
/// shifted.
pub type OnChange = Arc<dyn Fn(&[PathId], bool) + Send + Sync>;

/// The warning in the reply to every undo and redo of a running Live.
pub const FOREIGN_UNDO: &str = "this is Live's own undo list, which also contains the changes made by the person";

/// The operations that no host of a running Live supports.
pub fn caps(render: &'static str) -> Caps {
    Caps { missing: [(Op::Files, "a running Live saves its Set itself"), (Op::RenderTrack, render)].into() }
}

/// Refuses a preview, because a running Live does not support dry runs.
pub fn refuse_preview(host: &'static str, mode: Mode, reason: &'static str) -> Result<(), LiveHostError> {
    match mode {
        Mode::Preview => Err(LiveHostError::Missing { host, op: Op::TryOut, reason }),
        Mode::Apply => Ok(()),
    }
}

/// Builds the known ids from all tracks. Each item has the kind and name of a track, and the clip
/// names of its slots.
pub fn known_ids<'a>(tracks: impl Iterator<Item = (TrackKind, &'a str, &'a [Option<String>])>) -> KnownIds {
    let mut known = KnownIds::default();
    for (n, (kind, name, slots)) in (0_u32..).zip(tracks) {
        known.tracks += 1;
        known.names.insert(PathId::Track(n), name.to_owned());
        for (slot, name) in (0_u32..).zip(slots) {
            let Some(name) = name else { continue };
            let id = PathId::OnTrack(n, TrackPart::SlotClip(slot));
            known.names.insert(id, name.clone());
            if kind == TrackKind::Midi {
                known.midi_clips.push(id);
            }
        }
    }
    known
}

/// The error for a write without a reply: Live may have made the change.
pub fn unsure(why: LiveHostError) -> LiveHostError {
    after(why, "the write was sent, but it is not known whether Live made the change")
}

/// The error for a write that was made but could not be read back.
pub fn made(why: LiveHostError) -> LiveHostError {
    after(why, "the write was made, but reading it back failed")
}

fn after(why: LiveHostError, done: &str) -> LiveHostError {
    if !matches!(why, LiveHostError::Offline { .. } | LiveHostError::NoAnswer { .. }) {
        return why;
    }
    LiveHostError::HalfDone { done: done.into(), why: Box::new(why) }
}

pub fn gone(subject: PathId, listing: Listing) -> LiveHostError {
    LiveError::Gone { subject, listing }.into()
}

pub fn wrong(subject: PathId, expected: &'static str, listing: Listing) -> LiveHostError {
    LiveError::WrongKind { subject, expected, listing }.into()
}

pub fn track_of(path: PathId) -> Result<u32, LiveHostError> {
    if let PathId::Track(n) = path { Ok(n) } else { Err(wrong(path, "a track (track:N)", Listing::Tracks)) }
}

/// An empty diff: Live does not report the effects of an edit.
pub fn no_diff() -> Diff {
    Diff { changes: Vec::new(), count: 0, text: String::new() }
}
