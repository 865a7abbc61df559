//! Edits as values: each applies as a whole or not at all, and yields its inverse.
//!
//! A list of edits is one transaction: [`Document::apply`] runs them in order and rolls back when
//! one fails. The inverse of a list is one [`Op::Restore`], and applying that yields the redo. Not
//! here: revisions, journals and references like `#3@7` (`patch`).

mod add;
mod attributes;
mod boxes;
mod cords;
mod encapsulate;
mod inlets;
mod text;
mod transaction;

use crate::atoms::{Atom, Value};
use crate::canvas::Canvas;
use crate::change::Change;
use crate::document::{BoxId, CanvasId, Document};
use crate::geometry::{Point, Rect};
use crate::objects;
use crate::ports::Ports;
use transaction::Transaction;

/// One change to one canvas.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Where.
    pub canvas: CanvasId,
    /// What.
    pub op: Op,
}

/// A box an edit is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// By name: a varname, else a key, else the handle (`$x`) of a box added earlier in the same
    /// list.
    Named(String),
    /// By address.
    Box(BoxId),
}

impl From<&str> for Target {
    fn from(name: &str) -> Target {
        Target::Named(name.to_owned())
    }
}

impl From<BoxId> for Target {
    fn from(id: BoxId) -> Target {
        Target::Box(id)
    }
}

/// A box to be made.
#[derive(Clone, Debug, Default)]
pub struct NewBox {
    /// Class, or class and arguments as one text.
    pub class: String,
    /// Top-left corner.
    pub position: Point,
    /// Arguments after the class; for message and comment, their content.
    pub arguments: Vec<Atom>,
    /// Attributes to set, in order.
    pub attributes: Vec<(String, Value)>,
    /// Its name.
    pub varname: Option<String>,
    /// Width and height, when not the usual ones.
    pub size: Option<(f64, f64)>,
    /// Accepts unknown classes and attributes.
    pub allow_unknown: bool,
    /// A name (`$x`) for later edits of the same list.
    pub handle: Option<String>,
}

/// The four things that name a cord.
#[derive(Clone, Debug, PartialEq)]
pub struct CordEnds {
    /// Where it starts.
    pub from: Target,
    /// At which outlet, from 0.
    pub outlet: u32,
    /// Where it ends.
    pub to: Target,
    /// At which inlet, from 0.
    pub inlet: u32,
}

/// The kinds of edit.
#[derive(Clone, Debug)]
pub enum Op {
    /// Adds a box.
    Add(NewBox),
    /// Removes a box and its cords.
    Remove(Target),
    /// Changes the text of a box, and so its class; cords to ports that still exist stay.
    SetText {
        /// The box.
        target: Target,
        /// Class and arguments, or the content of a message or comment.
        text: String,
        /// Accepts an unknown class.
        allow_unknown: bool,
    },
    /// Sets an attribute.
    SetAttribute {
        /// The box.
        target: Target,
        /// The attribute.
        name: String,
        /// Its value; true and false are 1 and 0.
        value: Value,
        /// Accepts an unknown attribute.
        allow_unknown: bool,
    },
    /// Names a box, or takes its name away.
    SetVarname {
        /// The box.
        target: Target,
        /// The name.
        name: Option<String>,
    },
    /// Names many boxes at once by their index; all are checked before any is named, so names can
    /// be exchanged.
    AssignVarnames(Vec<(usize, String)>),
    /// Hides a box when the patch is locked, or shows it.
    SetHidden {
        /// The box.
        target: Target,
        /// Whether to hide it.
        hidden: bool,
    },
    /// Moves and resizes a box.
    SetRect {
        /// The box.
        target: Target,
        /// Its new top-left corner.
        position: Point,
        /// Its new width and height.
        size: Option<(f64, f64)>,
    },
    /// Draws a cord; drawing it twice changes nothing.
    Connect {
        /// Its ends.
        ends: CordEnds,
        /// Hidden when the patch is locked.
        hidden: bool,
    },
    /// Removes a cord.
    Disconnect(CordEnds),
    /// Folds a cord at points, or straightens it.
    SetMidpoints {
        /// Its ends.
        ends: CordEnds,
        /// Interior points from start to end.
        points: Vec<Point>,
    },
    /// Moves boxes into a new subpatcher and connects it where the boxes were connected.
    Encapsulate {
        /// The boxes.
        targets: Vec<Target>,
        /// Name of the subpatcher.
        name: String,
        /// Name of its box.
        varname: Option<String>,
    },
    /// Undoes or redoes an earlier list of edits.
    Restore(Restore),
}

/// The exact inverse of an applied list of edits.
#[derive(Clone, Debug)]
pub struct Restore {
    pub(crate) changes: Vec<Change>,
}

impl Restore {
    /// Adds the inverse of a later list of edits, so that one restore undoes both.
    ///
    /// Of repeated changes to the texts of the same boxes, as a turned knob makes them, only the
    /// first state of each is kept, because undo returns to it.
    pub(crate) fn append(&mut self, later: &Restore) {
        let face = |change: &Change| match change {
            Change::Face { canvas, slot, .. } => Some((canvas.clone(), *slot)),
            Change::Splice { .. } | Change::Inner { .. } | Change::Cord { .. } => None,
        };
        let only_faces = self.changes.iter().chain(&later.changes).all(|change| face(change).is_some());
        for change in &later.changes {
            let known = only_faces && self.changes.iter().any(|earlier| face(earlier) == face(change));
            if !known {
                self.changes.push(change.clone());
            }
        }
    }

    /// Bytes it keeps alive; an estimate.
    pub fn weight(&self) -> usize {
        self.changes.iter().map(Change::weight).sum()
    }
}

/// Where an attribute's value went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredIn {
    /// A key of the box.
    Box,
    /// The text of the box.
    Text,
}

/// A cord that could not stay.
#[derive(Clone, Debug, PartialEq)]
pub struct DroppedCord {
    /// Name or key of the box it started at.
    pub from: String,
    /// Its outlet.
    pub outlet: u32,
    /// Name or key of the box it ended at.
    pub to: String,
    /// Its inlet.
    pub inlet: u32,
    /// Why it is gone.
    pub reason: String,
}

/// The result of one edit.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A box was added.
    Added {
        /// Its address.
        id: BoxId,
        /// Its key.
        key: String,
        /// Its index.
        index: usize,
        /// Its text.
        text: String,
        /// Its rectangle.
        rect: Rect,
        /// Its inlets and outlets.
        ports: Ports,
    },
    /// A box was removed.
    Removed {
        /// Its key.
        key: String,
        /// Its name or key.
        label: String,
        /// Its text.
        text: String,
        /// Its kind.
        maxclass: String,
        /// How many cords went with it.
        cords: usize,
    },
    /// A text was changed.
    TextSet {
        /// The text before.
        old_text: String,
        /// How many cords stayed.
        kept: usize,
        /// The cords that did not.
        dropped: Vec<DroppedCord>,
    },
    /// An attribute was set.
    AttributeSet {
        /// Its value before.
        old: Option<Value>,
        /// Its value now, as read back.
        value: Option<Value>,
        /// Where it is kept.
        stored_in: StoredIn,
    },
    /// Boxes were named.
    Named(Vec<Naming>),
    /// A box was hidden or shown.
    HiddenSet(bool),
    /// A box was moved; its rectangle now.
    Moved(Rect),
    /// A cord was drawn.
    Connected {
        /// It was there before, nothing changed.
        already: bool,
    },
    /// A cord was removed.
    Disconnected,
    /// A cord was folded; its points as read back.
    MidpointsSet(Vec<Point>),
    /// Boxes were moved into a subpatcher.
    Encapsulated {
        /// Its box.
        id: BoxId,
        /// Key of its box.
        key: String,
        /// Its canvas.
        canvas: CanvasId,
        /// The source of each inlet: name or key of the box, and its outlet.
        inlets: Vec<(String, u32)>,
        /// The source of each outlet: name or key of the box inside, and its outlet.
        outlets: Vec<(String, u32)>,
    },
    /// An earlier state was restored.
    Restored,
}

/// One box that got a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Naming {
    /// Its index.
    pub index: usize,
    /// Its name now.
    pub varname: Option<String>,
    /// Its name before.
    pub old_varname: Option<String>,
    /// Its kind.
    pub maxclass: String,
}

/// A warning about an edit that succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// Which kind.
    pub code: WarningCode,
    /// A description.
    pub message: String,
    /// Name or key of the box.
    pub subject: Option<String>,
}

/// Kinds of warnings; a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningCode {
    /// The ports could not be checked.
    UnverifiedPorts,
    /// An unknown class.
    UnknownClass,
    /// Cords were lost.
    DroppedCords,
    /// Two boxes share an id.
    DuplicateId,
    /// A cord ends at nothing.
    DanglingCord,
    /// Messages may now arrive in another order.
    OrderMayChange,
    /// A box left the presentation.
    PresentationLost,
    /// A host can do less than usual.
    HostDegraded,
    /// A host changed the patch itself.
    RewrittenByHost,
    /// A value was changed to fit.
    Coerced,
    /// Boxes overlap.
    Overlap,
}

impl WarningCode {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            WarningCode::UnverifiedPorts => "unverified_ports",
            WarningCode::UnknownClass => "unknown_class",
            WarningCode::DroppedCords => "dropped_cords",
            WarningCode::DuplicateId => "duplicate_id",
            WarningCode::DanglingCord => "dangling_cord",
            WarningCode::OrderMayChange => "order_may_change",
            WarningCode::PresentationLost => "presentation_lost",
            WarningCode::HostDegraded => "host_degraded",
            WarningCode::RewrittenByHost => "rewritten_by_host",
            WarningCode::Coerced => "coerced",
            WarningCode::Overlap => "overlap",
        }
    }
}

/// A list of edits that was applied.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The edit that undoes it.
    pub inverse: Restore,
    /// The result of each edit.
    pub outcomes: Vec<Outcome>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// Handles of added boxes.
    pub handles: Vec<(String, BoxId)>,
    /// False when the list changed nothing.
    pub changed: bool,
}

/// The kind of an error, by which a caller decides what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request makes no sense as it is.
    BadInput,
    /// The subject does not exist.
    NotFound,
    /// The subject was removed, or has changed.
    StaleReference,
    /// This document cannot do it.
    Unsupported,
}

/// Why a name did not lead to one box.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No box is called that.
    #[error("no object {name:?} in this patch")]
    NotFound {
        /// The requested name.
        name: String,
        /// Names that look like it.
        nearest: Vec<String>,
    },
    /// Several boxes share the name.
    #[error("{} objects are named {name:?}: {}", keys.len(), keys.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// Their keys.
        keys: Vec<String>,
    },
    /// The box was removed.
    #[error("object {key:?} was removed")]
    Gone {
        /// Its key.
        key: String,
    },
    /// An index of another revision.
    #[error("{reference:?} refers to revision {revision}, the patch is at {now}")]
    OldRevision {
        /// The requested reference.
        reference: String,
        /// Its revision.
        revision: u64,
        /// The revision now.
        now: u64,
    },
}

/// Why an edit was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EditError {
    /// A name led to no box.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The canvas is gone.
    #[error("the patcher is no longer there")]
    CanvasGone,
    /// Patchers would be nested deeper than a file may nest them.
    #[error("patchers would be nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The document cannot be written.
    #[error("this device is read-only: {0}")]
    ReadOnly(&'static str),
    /// The format has no such thing.
    #[error("{what} is not possible here: {why}")]
    Unsupported {
        /// The requested operation.
        what: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// An unknown class.
    #[error("unknown object class {class:?}")]
    UnknownClass {
        /// The class.
        class: String,
        /// Classes that look like it.
        nearest: Vec<String>,
    },
    /// An unknown attribute.
    #[error("{class} has no attribute {name:?}")]
    UnknownAttribute {
        /// The class.
        class: String,
        /// The attribute.
        name: String,
        /// Attributes that look like it.
        nearest: Vec<String>,
    },
    /// An attribute that another edit changes.
    #[error("{name:?} is not set as an attribute: use {instead}")]
    ReservedAttribute {
        /// The attribute.
        name: String,
        /// The alternatives.
        instead: &'static str,
    },
    /// A value of the wrong kind or length.
    #[error("{what}: {why}")]
    BadValue {
        /// Which value.
        what: String,
        /// The reason.
        why: &'static str,
    },
    /// A port the box does not have.
    #[error("{label} has {inlets} inlets and {outlets} outlets: there is no {side} {port}")]
    NoSuchPort {
        /// The box.
        label: String,
        /// `inlet` or `outlet`.
        side: &'static str,
        /// The requested port.
        port: u32,
        /// How many inlets there are.
        inlets: u32,
        /// How many outlets there are.
        outlets: u32,
    },
    /// No such cord.
    #[error("no cord from outlet {outlet} of {from} to inlet {inlet} of {to}")]
    NotConnected {
        /// Where it would start.
        from: String,
        /// Its outlet.
        outlet: u32,
        /// Where it would end.
        to: String,
        /// Its inlet.
        inlet: u32,
    },
    /// Another box has the name.
    #[error("the name {name:?} is taken by {key}")]
    NameTaken {
        /// The name.
        name: String,
        /// The box that has it.
        key: String,
    },
    /// An index past the end.
    #[error("Index {index} out of range (0-{last})")]
    IndexOutOfRange {
        /// The index.
        index: usize,
        /// The last one there is.
        last: usize,
    },
    /// A cord cannot name the box.
    #[error("{label} cannot be reached by a cord: {why}")]
    Unreachable {
        /// The box.
        label: String,
        /// Why.
        why: &'static str,
    },
    /// The document is not in the state the restore was made for.
    #[error("the patch has changed since")]
    Stale,
}

impl EditError {
    /// The kind of the error.
    pub fn fault(&self) -> Fault {
        match self {
            EditError::Lookup(LookupError::NotFound { .. }) | EditError::NotConnected { .. } => Fault::NotFound,
            EditError::Lookup(LookupError::Gone { .. } | LookupError::OldRevision { .. })
            | EditError::CanvasGone
            | EditError::Stale => Fault::StaleReference,
            EditError::ReadOnly(_) | EditError::Unsupported { .. } => Fault::Unsupported,
            EditError::Lookup(LookupError::Ambiguous { .. })
            | EditError::UnknownClass { .. }
            | EditError::UnknownAttribute { .. }
            | EditError::ReservedAttribute { .. }
            | EditError::BadValue { .. }
            | EditError::TooDeep { .. }
            | EditError::NoSuchPort { .. }
            | EditError::NameTaken { .. }
            | EditError::IndexOutOfRange { .. }
            | EditError::Unreachable { .. } => Fault::BadInput,
        }
    }

    /// A hint for the next step.
    pub fn hint(&self) -> String {
        let near = |names: &[String], other: &str| {
            if names.is_empty() { other.to_owned() } else { format!("did you mean {}?", names.join(", ")) }
        };
        match self {
            EditError::Lookup(LookupError::NotFound { nearest, .. }) => {
                near(nearest, "list the objects of the patch to see their names and keys")
            }
            EditError::Lookup(LookupError::Ambiguous { keys, .. }) => {
                format!("use a key: {}", keys.join(", "))
            }
            EditError::Lookup(LookupError::Gone { .. } | LookupError::OldRevision { .. })
            | EditError::Stale
            | EditError::CanvasGone => "list the objects again and use the new names and keys".to_owned(),
            EditError::ReadOnly(_) => "save the patch inside as a .maxpat and edit that".to_owned(),
            EditError::Unsupported { .. } => "leave it out for this document".to_owned(),
            EditError::UnknownClass { nearest, .. } => {
                near(nearest, "check the spelling, or set allow_unknown for an external object")
            }
            EditError::UnknownAttribute { nearest, .. } => {
                near(nearest, "describe the object to see its attributes, or set allow_unknown")
            }
            EditError::ReservedAttribute { instead, .. } => format!("use {instead}"),
            EditError::BadValue { why, .. } => (*why).to_owned(),
            EditError::TooDeep { .. } => "put it into a patcher further out".to_owned(),
            EditError::NoSuchPort { .. } => "ports count from 0".to_owned(),
            EditError::NotConnected { .. } => "list the cords of the patch".to_owned(),
            EditError::NameTaken { key, .. } => {
                format!("choose another name, or rename {key} first")
            }
            EditError::IndexOutOfRange { .. } => "list the objects again: indices hold for one revision".to_owned(),
            EditError::Unreachable { .. } => {
                "remove the box and add it again: it then gets an id of its own".to_owned()
            }
        }
    }
}

/// A list of edits that was refused: nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("edit {index}: {error}")]
pub struct Refused {
    /// Position of the edit in the list.
    pub index: usize,
    /// Why.
    #[source]
    pub error: EditError,
}

impl Document {
    /// Applies a list of edits in order: all of them, or none.
    pub fn apply(&mut self, edits: &[Edit]) -> Result<Applied, Refused> {
        if let Some(reason) = self.read_only() {
            return Err(Refused { index: 0, error: EditError::ReadOnly(reason) });
        }
        let mut transaction = Transaction::begin(self);
        let mut outcomes = Vec::with_capacity(edits.len());
        for (index, edit) in edits.iter().enumerate() {
            match transaction.edit(edit) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    transaction.roll_back();
                    return Err(Refused { index, error });
                }
            }
        }
        let (changes, warnings, handles) = transaction.finish();
        Ok(Applied { changed: !changes.is_empty(), inverse: Restore { changes }, outcomes, warnings, handles })
    }
}

/// Finds a box by varname, then by key.
pub(crate) fn find(canvas: &Canvas, name: &str) -> Result<BoxId, LookupError> {
    match canvas.by_varname(name) {
        [] => {}
        [slot] => return Ok(BoxId(*slot)),
        several => {
            let keys = several.iter().filter_map(|slot| Some(canvas.face(*slot)?.key.to_string())).collect();
            return Err(LookupError::Ambiguous { name: name.to_owned(), keys });
        }
    }
    if let Some(slot) = canvas.by_key(name) {
        return Ok(BoxId(slot));
    }
    if canvas.was(name) {
        return Err(LookupError::Gone { key: name.to_owned() });
    }
    let nearest = objects::nearest(name, canvas.names().map(AsRef::as_ref));
    Err(LookupError::NotFound { name: name.to_owned(), nearest })
}
