//! Edits as values: an edit is applied completely or not at all, and returns its inverse.
//!
//! A list of edits is one transaction: [`Document::apply`] applies them in order and rolls back
//! when one fails. The inverse of a list is one [`Op::Restore`]; applying it returns the redo. Not
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
    /// The canvas to change.
    pub canvas: CanvasId,
    /// The change to make.
    pub op: Op,
}

/// The box that an edit changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// By name: the handle (`$x`) of a box that an earlier edit of the same list added, else a
    /// varname, else a key.
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

/// A box to add.
#[derive(Clone, Debug, Default)]
pub struct NewBox {
    /// The class, or the class and its arguments as one text.
    pub class: String,
    /// Top-left corner.
    pub position: Point,
    /// Arguments after the class; for a message or comment, its content.
    pub arguments: Vec<Atom>,
    /// Attributes to set, in order.
    pub attributes: Vec<(String, Value)>,
    /// Scripting name of the box.
    pub varname: Option<String>,
    /// Width and height. If absent, the box gets the default size of its class.
    pub size: Option<(f64, f64)>,
    /// Whether unknown classes and attributes are accepted.
    pub allow_unknown: bool,
    /// A name (`$x`) for later edits of the same list.
    pub handle: Option<String>,
}

/// The two ends of a cord. A cord is identified by its ends.
#[derive(Clone, Debug, PartialEq)]
pub struct CordEnds {
    /// The box at the start.
    pub from: Target,
    /// Outlet of the box at the start, counted from 0.
    pub outlet: u32,
    /// The box at the end.
    pub to: Target,
    /// Inlet of the box at the end, counted from 0.
    pub inlet: u32,
}

/// The kinds of edit.
#[derive(Clone, Debug)]
pub enum Op {
    /// Adds a box.
    Add(NewBox),
    /// Removes a box and its cords.
    Remove(Target),
    /// Changes the text of a box and therefore its class. Keeps the cords to ports that still
    /// exist.
    SetText {
        /// The box to change.
        target: Target,
        /// Class and arguments, or the content of a message or comment.
        text: String,
        /// Whether an unknown class is accepted.
        allow_unknown: bool,
    },
    /// Sets an attribute.
    SetAttribute {
        /// The box to change.
        target: Target,
        /// Name of the attribute.
        name: String,
        /// The new value; true and false become 1 and 0.
        value: Value,
        /// Whether an unknown attribute is accepted.
        allow_unknown: bool,
    },
    /// Sets or removes the name of a box.
    SetVarname {
        /// The box to name.
        target: Target,
        /// The new name; `None` removes the name.
        name: Option<String>,
    },
    /// Names many boxes at once by their index. All names are checked before any box is renamed, so
    /// two boxes can exchange their names.
    AssignVarnames(Vec<(usize, String)>),
    /// Sets whether a box is hidden when the patch is locked.
    SetHidden {
        /// The box to hide or show.
        target: Target,
        /// Whether to hide the box.
        hidden: bool,
    },
    /// Moves a box, and resizes it if a size is given.
    SetRect {
        /// The box to move.
        target: Target,
        /// New top-left corner of the box.
        position: Point,
        /// New width and height of the box; none keeps the size.
        size: Option<(f64, f64)>,
    },
    /// Adds a cord; does nothing when the cord exists.
    Connect {
        /// The ends of the cord.
        ends: CordEnds,
        /// Whether the cord is hidden when the patch is locked.
        hidden: bool,
    },
    /// Removes a cord.
    Disconnect(CordEnds),
    /// Sets the interior points of a cord; without points the cord is straight.
    SetMidpoints {
        /// The ends of the cord.
        ends: CordEnds,
        /// Interior points from start to end.
        points: Vec<Point>,
    },
    /// Moves boxes into a new subpatcher and reconnects their outside cords to it.
    Encapsulate {
        /// The boxes to move.
        targets: Vec<Target>,
        /// Name of the subpatcher.
        name: String,
        /// Name of the subpatcher's box.
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
    /// Adds the inverse of a later list of edits, so that one restore undoes both lists.
    ///
    /// A knob that a person turns changes the text of the same box many times. Only the first state
    /// of each box is kept, because undo returns to that state.
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

    /// Estimate of the bytes that the restore keeps in memory.
    pub fn weight(&self) -> usize {
        self.changes.iter().map(Change::weight).sum()
    }
}

/// Where an attribute's value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredIn {
    /// A key of the box.
    Box,
    /// The text of the box.
    Text,
}

/// A cord that an edit removed because its port no longer exists.
#[derive(Clone, Debug, PartialEq)]
pub struct DroppedCord {
    /// Name or key of the box at the start of the cord.
    pub from: String,
    /// Outlet at the start of the cord.
    pub outlet: u32,
    /// Name or key of the box at the end of the cord.
    pub to: String,
    /// Inlet at the end of the cord.
    pub inlet: u32,
    /// Why the cord was removed.
    pub reason: String,
}

/// The result of one edit.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A box was added.
    Added {
        /// Address of the box.
        id: BoxId,
        /// Key of the box.
        key: String,
        /// Index of the box.
        index: usize,
        /// Text of the box.
        text: String,
        /// Rectangle of the box.
        rect: Rect,
        /// Inlets and outlets of the box.
        ports: Ports,
    },
    /// A box was removed.
    Removed {
        /// Key of the box.
        key: String,
        /// Name or key of the box.
        label: String,
        /// Text of the box.
        text: String,
        /// Kind of the box.
        maxclass: String,
        /// Number of cords removed with the box.
        cords: usize,
    },
    /// A text was changed.
    TextSet {
        /// The old text.
        old_text: String,
        /// Number of cords that stayed.
        kept: usize,
        /// The removed cords.
        dropped: Vec<DroppedCord>,
    },
    /// An attribute was set.
    AttributeSet {
        /// Old value of the attribute.
        old: Option<Value>,
        /// New value of the attribute, read back from the document.
        value: Option<Value>,
        /// Where the value is stored.
        stored_in: StoredIn,
    },
    /// Boxes were named.
    Named(Vec<Naming>),
    /// A box was hidden or shown.
    HiddenSet(bool),
    /// A box was moved to this rectangle.
    Moved(Rect),
    /// A cord was added.
    Connected {
        /// Whether the cord existed before, so that nothing changed.
        already: bool,
    },
    /// A cord was removed.
    Disconnected,
    /// The midpoints of a cord were set to these points, read back from the document.
    MidpointsSet(Vec<Point>),
    /// Boxes were moved into a subpatcher.
    Encapsulated {
        /// The subpatcher's box.
        id: BoxId,
        /// Key of the subpatcher's box.
        key: String,
        /// Canvas of the subpatcher.
        canvas: CanvasId,
        /// For each inlet, the box outside that feeds it: name or key, and outlet.
        inlets: Vec<(String, u32)>,
        /// For each outlet, the box inside that feeds it: name or key, and outlet.
        outlets: Vec<(String, u32)>,
    },
    /// An earlier state was restored.
    Restored,
}

/// The new name of a box.
#[derive(Clone, Debug, PartialEq)]
pub struct Naming {
    /// Index of the box.
    pub index: usize,
    /// The new name.
    pub varname: Option<String>,
    /// The old name.
    pub old_varname: Option<String>,
    /// Kind of the box.
    pub maxclass: String,
}

/// A warning about an edit that succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// Kind of warning.
    pub code: WarningCode,
    /// Description of the warning.
    pub message: String,
    /// Name or key of the box.
    pub subject: Option<String>,
}

/// Kinds of warnings. Clients rely on these codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningCode {
    /// The ports could not be checked.
    UnverifiedPorts,
    /// An unknown class.
    UnknownClass,
    /// Cords were removed.
    DroppedCords,
    /// Two boxes share an id.
    DuplicateId,
    /// A cord has an end without a box or port.
    DanglingCord,
    /// Messages may be sent in another order than before.
    OrderMayChange,
    /// A box is no longer in the presentation.
    PresentationLost,
    /// The program that runs the patch (the host) supports only a part of the functions.
    HostDegraded,
    /// The host changed the patch without a request.
    RewrittenByHost,
    /// A value was adjusted, because the format cannot store it exactly.
    Coerced,
    /// Boxes overlap.
    Overlap,
}

impl WarningCode {
    /// The warning code in replies to clients.
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
    /// The inverse of the list.
    pub inverse: Restore,
    /// The result of each edit.
    pub outcomes: Vec<Outcome>,
    /// Warnings about the edits.
    pub warnings: Vec<Warning>,
    /// Handles of added boxes.
    pub handles: Vec<(String, BoxId)>,
    /// False when the list changed nothing.
    pub changed: bool,
}

/// The kind of an error. Callers use it to decide what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is invalid.
    BadInput,
    /// The requested object does not exist.
    NotFound,
    /// The requested object was removed, or has changed.
    StaleReference,
    /// This document does not support the operation.
    Unsupported,
}

/// Why a name did not identify exactly one box.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No box has this name or key.
    #[error("there is no object {name:?} in this patch")]
    NotFound {
        /// The requested name.
        name: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// Several boxes share the name.
    #[error("{} objects are named {name:?}: {}", keys.len(), keys.join(", "))]
    Ambiguous {
        /// The shared name.
        name: String,
        /// Keys of the boxes.
        keys: Vec<String>,
    },
    /// The box was removed.
    #[error("object {key:?} was removed")]
    Gone {
        /// Key of the box.
        key: String,
    },
    /// The reference belongs to another revision.
    #[error("{reference:?} refers to revision {revision}, but the patch is at revision {now}")]
    OldRevision {
        /// The requested reference.
        reference: String,
        /// The revision of the reference.
        revision: u64,
        /// The current revision.
        now: u64,
    },
}

/// Why an edit was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EditError {
    /// A name did not identify exactly one box.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The canvas was removed.
    #[error("the patcher was removed")]
    CanvasGone,
    /// The edit would nest patchers deeper than the limit.
    #[error("patchers would be nested deeper than {limit} levels")]
    TooDeep {
        /// Maximum nesting depth.
        limit: usize,
    },
    /// The document is read-only.
    #[error("this device is read-only: {0}")]
    ReadOnly(&'static str),
    /// The format does not support the operation.
    #[error("{what} is not possible here: {why}")]
    Unsupported {
        /// The requested operation.
        what: &'static str,
        /// Why the operation is not possible.
        why: &'static str,
    },
    /// An unknown class.
    #[error("unknown object class {class:?}")]
    UnknownClass {
        /// Name of the class.
        class: String,
        /// Similar classes.
        nearest: Vec<String>,
    },
    /// An unknown attribute.
    #[error("{class} has no attribute {name:?}")]
    UnknownAttribute {
        /// Name of the class.
        class: String,
        /// Name of the attribute.
        name: String,
        /// Similar attributes.
        nearest: Vec<String>,
    },
    /// The attribute can only be changed by another kind of edit.
    #[error("{name:?} cannot be set as an attribute: {instead}")]
    ReservedAttribute {
        /// Name of the attribute.
        name: String,
        /// The alternative, as a clause.
        instead: &'static str,
    },
    /// A value has the wrong kind or length.
    #[error("{what}: {why}")]
    BadValue {
        /// The name of the value.
        what: String,
        /// Why the value is invalid.
        why: &'static str,
    },
    /// The box does not have this port.
    #[error("{label} has no {side} {port} (inlets: {inlets}, outlets: {outlets})")]
    NoSuchPort {
        /// Label of the box.
        label: String,
        /// `inlet` or `outlet`.
        side: &'static str,
        /// The requested port.
        port: u32,
        /// Number of inlets of the box.
        inlets: u32,
        /// Number of outlets of the box.
        outlets: u32,
    },
    /// The cord does not exist.
    #[error("there is no cord from outlet {outlet} of {from} to inlet {inlet} of {to}")]
    NotConnected {
        /// The box at the start of the cord.
        from: String,
        /// Outlet at the start of the cord.
        outlet: u32,
        /// The box at the end of the cord.
        to: String,
        /// Inlet at the end of the cord.
        inlet: u32,
    },
    /// Another box has the name.
    #[error("the name {name:?} is already used by {key}")]
    NameTaken {
        /// The requested name.
        name: String,
        /// Key of the box that has the name.
        key: String,
    },
    /// The index is too large.
    #[error("Index {index} out of range (0-{last})")]
    IndexOutOfRange {
        /// The requested index.
        index: usize,
        /// The last valid index.
        last: usize,
    },
    /// The box cannot be an end of a cord.
    #[error("{label} cannot be connected: {why}")]
    Unreachable {
        /// Label of the box.
        label: String,
        /// Why the box cannot be connected.
        why: &'static str,
    },
    /// The document is not in the state that the restore expects.
    #[error("the patch has changed since these edits were prepared")]
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
                format!("use one of these keys: {}", keys.join(", "))
            }
            EditError::Lookup(LookupError::Gone { .. } | LookupError::OldRevision { .. })
            | EditError::Stale
            | EditError::CanvasGone => "list the objects again and use the new names and keys".to_owned(),
            EditError::ReadOnly(_) => "save the patch of the device as a .maxpat file and edit this file".to_owned(),
            EditError::Unsupported { .. } => "do not use this operation on this document".to_owned(),
            EditError::UnknownClass { nearest, .. } => {
                near(nearest, "check the spelling, or set allow_unknown for an external object")
            }
            EditError::UnknownAttribute { nearest, .. } => {
                near(nearest, "describe the object to see its attributes, or set allow_unknown")
            }
            EditError::ReservedAttribute { instead, .. } => (*instead).to_owned(),
            EditError::BadValue { why, .. } => format!("fix the argument: {why}"),
            EditError::TooDeep { .. } => "use a patcher that is nested less deeply".to_owned(),
            EditError::NoSuchPort { .. } => "port numbers start at 0".to_owned(),
            EditError::NotConnected { .. } => "list the cords of the patch".to_owned(),
            EditError::NameTaken { key, .. } => {
                format!("choose another name, or rename {key} first")
            }
            EditError::IndexOutOfRange { .. } => {
                "list the objects again: an index is valid for one revision only".to_owned()
            }
            EditError::Unreachable { .. } => "remove the box and add it again: the new box gets a unique id".to_owned(),
        }
    }
}

/// A list of edits was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("edit {index}: {error}")]
pub struct Refused {
    /// Position of the edit in the list.
    pub index: usize,
    /// Why the edit was refused.
    #[source]
    pub error: EditError,
}

impl Document {
    /// Applies all edits of a list in order, or none of them.
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
