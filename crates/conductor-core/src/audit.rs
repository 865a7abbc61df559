//! The audit log as bytes: the content of a record, its hash chain to the previous record, and the
//! signed checkpoints.
//!
//! Time, ids and keys are parameters. Not here: files, the thread that writes them, and queues;
//! those are in the gateway's `audit_log`. The verifier hashes the bytes of the file and never
//! encodes a record again, so a change to the encoder cannot hide an edit.

pub mod checkpoint;
pub mod line;
pub mod memory;
pub mod record;
pub mod verify;

pub use checkpoint::{Checkpoint, KeyId};
pub use line::{Chain, Head, Seq};
pub use record::{
    AnsweredBy, ApprovalRef, CallFacts, Entry, EventName, InputHash, InputHasher, OutcomeFacts, Recovery, Stamp, Via,
};
pub use verify::{Fault, Report, Verdict, Verifier};
