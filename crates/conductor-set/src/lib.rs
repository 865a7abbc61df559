//! Ableton Live Sets without Live: lossless `.als` documents, positional path ids, edits with inverses, checks, diffs, drawings.

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
mod skeleton;
mod song;
mod svg;
mod track;
mod wire;
mod xml;

pub use change::Change;
pub use check::{Fault, check};
pub use clip::{ArrangementRow, ClipInfo, ClipKind, Clips, Location, PAGE, SlotRow};
pub use device::{Device, DeviceRow, Devices, Param, RangeSource, Totals, TrackDetail, Unit};
pub use diff::{Diff, Difference, diff};
pub use document::{DEFAULT_XML_LIMIT, Document, Family, Revision, Schema};
pub use edit::{
    ClipCreated, ClipProps, Deleted, DeviceInserted, DeviceRef, LiveEdit, NoteWindow, NotesWritten,
    Outcome, ParamRef, ParamWritten, Plan, TrackProps,
};
pub use error::{Code, LiveError};
pub use note::{FIRST_NOTES, Note, NoteQuery, NoteSummary, Notes};
pub use open_set::{Applied, Author, DEFAULT_UNDO_DEPTH, Guard, OpenSet, Stepped};
pub use path::{ChainOwner, ChainPart, PathId, TrackPart};
pub use render::{RenderPiece, RenderPlan, Samples, mix};
pub use resource::{Address, Resource};
pub use song::{CuePoint, Overview, Scene, Scenes};
pub use svg::{ClipDrawing, Drawing};
pub use track::{MixerInfo, TrackInfo, TrackKind, TrackMatches, TrackRow, TrackState};
