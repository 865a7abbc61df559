//! Lossless documents for Max (`.maxpat`, `.maxhelp`, `.amxd`) and Pure Data (`.pd`) patches.
#![warn(missing_docs)]

mod amxd;
mod atoms;
mod canvas;
mod change;
mod chunk;
mod diagnostic;
mod diff;
mod document;
mod edit;
mod find;
mod font;
mod geometry;
mod grid;
mod json;
pub mod layout;
mod max;
mod names;
pub mod objects;
mod patch;
mod pd;
mod ports;
mod sequence;
pub mod render;
mod style;
mod svg;
pub mod validate;

pub use amxd::AmxdError;
pub use atoms::{Atom, Value};
pub use diagnostic::{Diagnostic, Severity};
pub use diff::{Diff, DiffKind, Difference, diff};
pub use document::{BoxId, BoxView, CanvasId, CordView, Document, Format, Limits, OpenError, Subpatcher, View};
pub use edit::{Applied, CordEnds, DroppedCord, Edit, EditError, Fault, LookupError, Naming, NewBox, Op, Outcome, Refused, Restore, StoredIn, Target, Warning, WarningCode};
pub use find::{Query, find};
pub use font::{object_width, text_width};
pub use geometry::{Point, Rect};
pub use json::JsonError;
pub use names::{NamesError, Unmatched};
pub use patch::{JournalLimits, Patch, PatchError, Revised, base36, id_stem};
pub use ports::{Basis, Ports};
