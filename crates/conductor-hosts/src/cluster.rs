//! Connects to a NATS server that several rigs share.
//!
//! A [`Link`] is one connection, and it does not reconnect. When the connection is lost, the owner
//! of the link opens a new one and reads the state of the server again. Every operation ends after
//! at most four times [`PATIENCE`], so a server that hangs delays only the task that uses the link.
//! Not here: the contents of messages, and the meaning of answers.

#[cfg(not(feature = "cluster"))]
#[path = "cluster/absent.rs"]
mod backend;
#[cfg(feature = "cluster")]
#[path = "cluster/nats.rs"]
mod backend;

pub use backend::{Link, Subscription};
use bytes::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit for the answer to one request.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The address of the server, and the identity of this rig.
#[derive(Clone)]
pub struct Settings {
    /// `tls://HOST:PORT`, or `nats://HOST:PORT` without encryption.
    pub server: String,
    /// The name of the rig. Answers of the server are sent to `_INBOX.NAME`.
    pub name: String,
    pub credentials: Credentials,
    /// A PEM file with the certificates of the certificate authority. If absent, the certificates
    /// of the system are used.
    pub ca: Option<PathBuf>,
}

/// The private key of this rig, and the JWT that a server with accounts requires.
#[derive(Clone)]
pub struct Credentials {
    pub seed: [u8; 32],
    pub jwt: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error("the NATS server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the NATS server does not accept the key of this rig")]
    NotAccepted,
    #[error("the NATS server did not answer in time")]
    Silent,
    #[error("the NATS server has no stream for this request; create the streams with `conductor rigs init`")]
    NoStream,
    #[error("the connection to the NATS server was lost")]
    Lost,
    #[error("the NATS server sent an unexpected answer: {0}")]
    Answer(String),
    #[error("this program was built without the feature `cluster`")]
    Absent,
}

/// Why a message was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another message for the same subject was stored first.
    #[error("another message was stored first")]
    NotFirst,
    #[error("the server refused the message: {0}")]
    Refused(String),
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// The confirmation of a stored message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The sequence number of the message in its stream.
    pub seq: u64,
    /// Whether the stream already had a message with the same id.
    pub duplicate: bool,
}

/// A message that was read from a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub subject: String,
    pub seq: u64,
    /// Time at which the server stored the message, in RFC 3339.
    pub time: String,
    pub body: Bytes,
}

/// A message to store.
#[derive(Debug, Clone)]
pub struct Draft {
    pub subject: String,
    /// The sequence number that the last message of this subject must have; 0 if there must be
    /// none. The server refuses the message if the number differs. `None` for no such condition.
    pub expected: Option<u64>,
    /// The id for deduplication: the server stores only one message with the same id.
    pub id: Option<String>,
    pub body: Bytes,
}
