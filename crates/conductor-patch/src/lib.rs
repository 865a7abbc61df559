//! Lossless documents for Max (`.maxpat`, `.maxhelp`, `.amxd`) and Pure Data (`.pd`) patches.
//!
//! A patch is opened from bytes and written back to bytes. Unedited parts are copied verbatim,
//! including number spelling, key order, unknown keys, spacing and line ends. Edited parts follow
//! the style of the file. Every edit has an exact inverse, so undo restores the same bytes.
//!
//! ```
//! use conductor_patch::{Atom, CanvasId, CordEnds, Document, Edit, Format, JournalLimits, NewBox, Op, Patch, Point};
//!
//! let root = |op| Edit { canvas: CanvasId::ROOT, op };
//! let new = |class: &str, y, handle: &str| {
//!     let handle = Some(handle.to_owned());
//!     Op::Add(NewBox { class: class.to_owned(), position: Point::new(50.0, y), handle, ..NewBox::default() })
//! };
//! let mut patch = Patch::new(Document::create(Format::Maxpat), JournalLimits::default());
//! let ends = CordEnds { from: "$osc".into(), outlet: 0, to: "$out".into(), inlet: 0 };
//! let edits = [root(new("cycle~ 440", 50.0, "$osc")), root(new("ezdac~", 120.0, "$out")), root(Op::Connect { ends, hidden: false })];
//! patch.apply(&edits, "first sound", Some(1))?;
//! assert_eq!(patch.document().root().cord_count(), 1);
//! patch.undo(1)?;
//! assert_eq!(patch.document().to_bytes(), Document::create(Format::Maxpat).to_bytes());
//! # Ok::<(), conductor_patch::PatchError>(())
//! ```
//!
//! Where to start: [`Document`] opens and writes; [`View`], [`BoxView`] and [`CordView`] read;
//! [`Edit`] changes; [`Patch`] adds revisions, undo and references; [`layout`], [`validate`],
//! [`find()`] and [`diff()`] are functions of a view; [`objects`] contains the known classes.
//!
//! Not here: files, clocks, hosts, sockets, pictures. Opening a document executes nothing, and does
//! not read the files that the document names.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

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
pub mod reach;
mod sequence;
mod statements;
mod style;
pub mod validate;

pub use amxd::AmxdError;
pub use atoms::{Atom, Value};
pub use diagnostic::{Diagnostic, Severity};
pub use diff::{Diff, DiffKind, Difference, diff, diff_bytes};
pub use document::{BoxId, BoxView, CanvasId, CordView, Document, Format, Limits, OpenError, Subpatcher, View};
pub use edit::{
    Applied, CordEnds, DroppedCord, Edit, EditError, Fault, LookupError, Naming, NewBox, Op, Outcome, Refused, Restore,
    StoredIn, Target, Warning, WarningCode,
};
pub use find::{Query, find};
pub use font::{object_width, text_width};
pub use geometry::{Point, Rect};
pub use json::JsonError;
pub use names::{NamesError, Unmatched};
pub use patch::{JournalLimits, Patch, PatchError, Revised, base36, id_stem};
pub use ports::{Basis, Ports};
pub use statements::{is_pd_gui, pd_value_atom};
