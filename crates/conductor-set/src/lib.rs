//! Reads and edits Ableton Live Sets without Live: lossless `.als` documents, positional path ids,
//! edits with inverses, checks, diffs.
//!
//! A [`Document`] contains the unchanged text of a Set. Readers use spans of this text. An edit
//! replaces spans and leaves all other bytes unchanged. An [`OpenSet`] adds the history: revisions,
//! guards (the preconditions of a write), undo.
//!
//! ```
//! use conductor_set::{Document, Guard, LiveEdit, Note, OpenSet};
//!
//! # fn main() -> Result<(), conductor_set::LiveError> {
//! let mut set = OpenSet::new(Document::new_set()?);
//! let slot_id = "track:0/clipslot:0".parse()?;
//! let clip_id = "track:0/clipslot:0/clip".parse()?;
//! set.apply(
//!     &[
//!         LiveEdit::CreateMidiClip { slot_id, length_beats: 4.0 },
//!         LiveEdit::ReplaceNotes { clip_id, notes: vec![Note::new(60, 0.0, 1.0)], window: None },
//!     ],
//!     &Guard::default(),
//! )?;
//! assert_eq!(set.document().all_notes(clip_id)?.len(), 1);
//! set.undo(1, &Guard::default())?;
//! assert!(!set.is_dirty());
//! # Ok(())
//! # }
//! ```
//!
//! Sets of Live 8 to 12.3 can be read; Sets of Live 11 and 12 can be edited. Not here: files,
//! clocks, pictures, MCP, a running Live. No function panics on a document or an argument; each
//! error is a [`LiveError`] with a code and a hint.
//!
//! Modules: `xml` (spans and splices), `document` (chunks and bytes), `song`, `track`, `clip`,
//! `note` and `device` (readers), `edit` (all kinds of edits), `change` (inverses), `open_set`
//! (history), `check` (consistency), `diff`, `render`, `skeleton` (new Sets).

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod change;
mod check;
mod clip;
mod device;
mod diff;
mod document;
mod edit;
mod error;
mod facts;
mod ids;
mod note;
mod open_set;
mod path;
mod render;
mod resource;
mod shifts;
mod skeleton;
mod song;
mod track;
pub mod wire;
mod xml;

pub use change::Change;
pub use check::{Fault, check};
pub use clip::{ArrangementRow, ClipInfo, ClipKind, Clips, Location, PAGE, SlotRow};
pub use device::{Device, DeviceRow, Devices, Param, RangeSource, Totals, TrackDetail, Unit, display, send_name};
pub use diff::{Diff, Difference, diff};
pub use document::{DEFAULT_XML_LIMIT, Document, Family, Revision, Schema};
pub use edit::{
    ClipCreated, ClipProps, Deleted, DeviceInserted, DeviceRef, LiveEdit, NoteWindow, NotesWritten, Outcome, ParamRef,
    ParamWritten, Plan, TrackProps,
};
pub use error::{Code, Elsewhere, Listing, LiveError};
pub use note::{FIRST_NOTES, Note, NoteQuery, NoteSummary, Notes};
pub use open_set::{Applied, Author, DEFAULT_UNDO_DEPTH, Guard, OpenSet, Stepped, WriteResult};
pub use path::{ChainOwner, ChainPart, PathId, TrackPart};
pub use render::{RenderPiece, RenderPlan, Samples, mix};
pub use resource::{Address, Resource};
pub use shifts::Shifts;
pub use song::{CuePoint, Overview, Scene, Scenes, SessionTrack, scale_intervals};
pub use track::{MixerInfo, TrackInfo, TrackKind, TrackMatches, TrackRow, TrackState};
