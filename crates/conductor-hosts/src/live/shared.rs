//! What both hosts of a running Live share: whom they tell of changes, and what cannot be done
//! there.

use super::{Caps, LiveHostError, Op};
use conductor_set::{Diff, Listing, LiveError, PathId};
use std::sync::Arc;

/// Told when somebody changed the Set: the objects that changed, and whether ids moved.
pub type Told = Arc<dyn Fn(&[PathId], bool) + Send + Sync>;

/// The note with every undo and redo of a running Live.
pub const FOREIGN_UNDO: &str = "this is Live's own undo list, which also holds what the person did";

/// What no running Live does for us.
pub fn caps(render: &'static str) -> Caps {
    Caps { missing: [(Op::Files, "a running Live saves its Set itself"), (Op::RenderTrack, render)].into() }
}

/// A write that was sent and not answered may have been made.
pub fn unsure(why: LiveHostError) -> LiveHostError {
    after(why, "the write was sent, and whether Live made it is not known")
}

/// The write was made; a read after it was not answered.
pub fn made(why: LiveHostError) -> LiveHostError {
    after(why, "the write was made, and only the read after it was not answered")
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

/// Live tells nothing about what an edit would do, so there is no diff.
pub fn no_diff() -> Diff {
    Diff { changes: Vec::new(), count: 0, text: String::new() }
}
