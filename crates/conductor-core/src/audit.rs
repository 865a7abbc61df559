//! The audit log as bytes: the content of a record, its chain to the previous one, and the
//! signatures how far.
//!
//! Pure: time, ids and keys are parameters. Not here: files, the thread that syncs them, and
//! queues; those are the shell's `audit_log`. The verifier hashes the bytes it is given and never
//! encodes a record again, so a change of the encoder cannot hide an edit.

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
