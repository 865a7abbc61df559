//! The connection to a NATS server that several rigs share.
//!
//! A [`Link`] is one connection. It does not reconnect: when it is lost, its owner opens another
//! one and reads again what the server has. Every request ends after [`PATIENCE`], so a server
//! that hangs delays only the task that uses the link. Not here: what is sent, and what an answer
//! means.

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

/// The longest time that a request waits for the server.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The server, and the identity of this rig.
#[derive(Clone)]
pub struct Settings {
    /// `tls://HOST:PORT`, or `nats://HOST:PORT` without encryption.
    pub server: String,
    /// The name of the rig. Answers of the server are sent to `_INBOX.NAME`.
    pub name: String,
    pub credentials: Credentials,
    /// The file of the certificate authority. Without a file, those of the system.
    pub ca: Option<PathBuf>,
}

/// The key that the server knows, and the JWT that a server with accounts needs.
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
    #[error("no stream of the NATS server stores this message; create the streams with `conductor rigs init`")]
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
    /// Another message was stored first.
    #[error("another message was stored first")]
    NotFirst,
    #[error("the server refused the message: {0}")]
    Refused(String),
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// A stored message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The number of the message in its stream.
    pub seq: u64,
    /// Whether the stream already had a message with this id.
    pub duplicate: bool,
}

/// A message that is read from a stream.
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
    /// The number of the last message with this subject; 0 for none. The server stores the message
    /// only if this is true.
    pub expected: Option<u64>,
    /// The server stores each id once.
    pub id: Option<String>,
    pub body: Bytes,
}
