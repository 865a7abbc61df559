//! The errors of a document. Not here: their wire format; the tool layer converts a [`LiveError`]
//! to its own format.

use crate::document::Revision;
use crate::path::PathId;
use std::fmt;

/// All error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The input violates a documented constraint.
    BadInput,
    /// The id refers to no object, or the document has changed.
    StaleReference,
    /// The id refers to an object of another kind.
    WrongType,
    /// A valid request that Live would also refuse.
    SdkRejected,
    /// The document does not support the operation.
    Unsupported,
    /// A bug in this crate.
    Internal,
}

impl Code {
    /// The code in replies to clients.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::BadInput => "BAD_INPUT",
            Code::StaleReference => "STALE_REFERENCE",
            Code::WrongType => "WRONG_TYPE",
            Code::SdkRejected => "SDK_REJECTED",
            Code::Unsupported => "UNSUPPORTED",
            Code::Internal => "INTERNAL",
        }
    }
}

/// The list that contains the valid ids. The caller adds the name of the tool that returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Listing {
    /// [`crate::Document::overview`]
    Tracks,
    /// [`crate::Document::clips`]
    Clips,
    /// [`crate::Document::devices`]
    Devices,
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Listing::Tracks => "the track list",
            Listing::Clips => "the clip list",
            Listing::Devices => "the device list",
        })
    }
}

/// Where to do an operation that a document does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Elsewhere {
    /// Every running Live supports the operation.
    Running,
    /// A running Live with Conductor's script supports the operation.
    Script,
    /// No tool supports the operation.
    Nowhere,
}

/// An error. `Display` returns the message; [`LiveError::hint`] returns how to recover.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the comment of each variant explains its fields")]
pub enum LiveError {
    /// The bytes are not a Set that can be opened.
    #[error("not a Live Set: {reason}")]
    BadFile { reason: String },
    /// The text is not a path id.
    #[error("{text:?} is not a path id: {reason}")]
    BadPath { text: String, reason: &'static str },
    /// A value violates its constraint; `subject` is the invalid argument.
    #[error("{subject}: {reason}")]
    BadValue { subject: String, reason: String },
    /// The path is valid, but the operation needs a path of another kind.
    #[error("{subject} is not {expected}")]
    WrongKind { subject: PathId, expected: &'static str, listing: Listing },
    /// The object exists but does not have the type that the operation needs.
    #[error("{subject}: {reason}")]
    WrongType { subject: PathId, reason: String, listing: Listing },
    /// No object exists at this path.
    #[error("{subject} does not exist in the Set")]
    Gone { subject: PathId, listing: Listing },
    /// The slot exists and is empty.
    #[error("{subject}: the slot is empty")]
    EmptySlot { subject: PathId },
    /// The caller expects another revision.
    #[error("the Set is at revision {actual}, not {expected}")]
    RevisionDiffers { expected: String, actual: Revision },
    /// Another caller shifted the indices, or may have shifted them, after this caller last read
    /// them.
    #[error("objects may have been inserted, deleted or renamed since the last read, so ids may have shifted")]
    StructureShifted,
    /// The slot already has a clip.
    #[error("{subject} already contains a clip")]
    SlotOccupied { subject: PathId },
    /// The device name is unknown.
    #[error("no device is named {name:?}")]
    UnknownDevice { name: String },
    /// The document refuses the edit, as Live does.
    #[error("{subject}: {reason}")]
    Refused { subject: PathId, reason: String, cure: &'static str },
    /// A document does not support the operation.
    #[error("{}{reason}", subject.as_ref().map(|it| format!("{it}: ")).unwrap_or_default())]
    Unsupported { subject: Option<String>, reason: String, instead: String, elsewhere: Elsewhere },
    /// This crate has a bug, for example an edit whose result fails the consistency check. Nothing
    /// was changed.
    #[error("an internal consistency check failed: {reason}")]
    Broken { reason: String },
}

pub(crate) const IN_LIVE: &str = "make the change in a running Live";

impl LiveError {
    pub(crate) fn value(subject: impl Into<String>, reason: impl Into<String>) -> Self {
        LiveError::BadValue { subject: subject.into(), reason: reason.into() }
    }

    pub(crate) fn unsupported(subject: impl fmt::Display, reason: impl Into<String>) -> Self {
        LiveError::Unsupported {
            subject: Some(subject.to_string()),
            reason: reason.into(),
            instead: IN_LIVE.into(),
            elsewhere: Elsewhere::Running,
        }
    }

    pub(crate) fn wrong_kind(subject: PathId, expected: &'static str, listing: Listing) -> Self {
        LiveError::WrongKind { subject, expected, listing }
    }

    pub(crate) fn wrong_type(subject: PathId, reason: impl Into<String>, listing: Listing) -> Self {
        LiveError::WrongType { subject, reason: reason.into(), listing }
    }

    pub(crate) fn gone(subject: PathId, listing: Listing) -> Self {
        LiveError::Gone { subject, listing }
    }

    pub(crate) fn broken(reason: impl Into<String>) -> Self {
        LiveError::Broken { reason: reason.into() }
    }

    /// The code of this error.
    pub fn code(&self) -> Code {
        match self {
            LiveError::BadFile { .. } | LiveError::BadPath { .. } | LiveError::BadValue { .. } => Code::BadInput,
            LiveError::WrongKind { .. } | LiveError::WrongType { .. } => Code::WrongType,
            LiveError::Gone { .. }
            | LiveError::EmptySlot { .. }
            | LiveError::RevisionDiffers { .. }
            | LiveError::StructureShifted => Code::StaleReference,
            LiveError::SlotOccupied { .. } | LiveError::UnknownDevice { .. } | LiveError::Refused { .. } => {
                Code::SdkRejected
            }
            LiveError::Unsupported { .. } => Code::Unsupported,
            LiveError::Broken { .. } => Code::Internal,
        }
    }

    /// A hint with which the caller can correct the request.
    pub fn hint(&self) -> String {
        match self {
            LiveError::BadFile { .. } => "pass a .als file that Live 8 or later saved".into(),
            LiveError::BadPath { .. } => {
                "a path id looks like track:0, track:0/clipslot:1/clip, track:0/clip:2, track:0/device:0/param:3, \
                 track:0/mixer/volume, returntrack:0, main, scene:0; numbers have no sign and no leading zero"
                    .into()
            }
            LiveError::BadValue { reason, .. } => format!("fix the argument: {reason}"),
            LiveError::WrongKind { expected, listing, .. } => format!("use {expected} from {listing}"),
            LiveError::WrongType { listing, .. } => format!("pick an object of the right kind from {listing}"),
            LiveError::Gone { listing, .. } => format!("read {listing} again and use a fresh id"),
            LiveError::EmptySlot { .. } => "list the clips again, or create a clip in the slot first".into(),
            LiveError::RevisionDiffers { actual, .. } => {
                format!("read the Set again, then repeat the call with expectRevision {actual}")
            }
            LiveError::StructureShifted => "list the tracks again and use fresh ids".into(),
            LiveError::SlotOccupied { .. } => "pick an empty slot from the clip list".into(),
            LiveError::UnknownDevice { .. } => {
                "use the exact name of a device from the device lists of this Set".into()
            }
            LiveError::Refused { cure, .. } => (*cure).into(),
            LiveError::Unsupported { instead, .. } => format!("do not retry with other arguments: {instead}"),
            LiveError::Broken { .. } => "nothing was changed; report this bug".into(),
        }
    }

    /// The list to read before a retry, if there is one.
    pub fn listing(&self) -> Option<Listing> {
        match self {
            LiveError::WrongKind { listing, .. }
            | LiveError::WrongType { listing, .. }
            | LiveError::Gone { listing, .. } => Some(*listing),
            LiveError::EmptySlot { .. } | LiveError::SlotOccupied { .. } => Some(Listing::Clips),
            LiveError::StructureShifted => Some(Listing::Tracks),
            LiveError::UnknownDevice { .. } => Some(Listing::Devices),
            LiveError::BadFile { .. }
            | LiveError::BadPath { .. }
            | LiveError::BadValue { .. }
            | LiveError::RevisionDiffers { .. }
            | LiveError::Refused { .. }
            | LiveError::Unsupported { .. }
            | LiveError::Broken { .. } => None,
        }
    }

    /// The invalid id or argument.
    pub fn subject(&self) -> Option<String> {
        match self {
            LiveError::BadPath { text, .. } => Some(text.clone()),
            LiveError::BadValue { subject, .. } => Some(subject.clone()),
            LiveError::WrongKind { subject, .. }
            | LiveError::WrongType { subject, .. }
            | LiveError::Gone { subject, .. }
            | LiveError::EmptySlot { subject }
            | LiveError::SlotOccupied { subject }
            | LiveError::Refused { subject, .. } => Some(subject.to_string()),
            LiveError::UnknownDevice { name } => Some(name.clone()),
            LiveError::Unsupported { subject, .. } => subject.clone(),
            LiveError::RevisionDiffers { .. } => Some("expectRevision".into()),
            LiveError::BadFile { .. } | LiveError::StructureShifted | LiveError::Broken { .. } => None,
        }
    }
}
