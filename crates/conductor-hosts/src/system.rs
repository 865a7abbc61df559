//! The operating system behind narrow signatures: everything that differs between platforms.
//!
//! | file | holds |
//! |---|---|
//! | `clock`, `ids`, `environment` | time, random numbers and environment variables, as values |
//! | `listener` | a local endpoint for clients of this user, and the identity of a peer |
//! | `folder`, `lock_file` | folders that only their owner can open, and a lock with one holder |
//! | `processes` | the process table: parents, terminals, the client behind a TCP connection |
//! | `children` | programs we start, and how all their descendants end |
//! | `signals` | requests of the system to end |
//! | `open_files` | the limit of open files |
//!
//! Only Unix is implemented. Signatures name no Unix type except where a caller needs the stream
//! itself ([`listener::Stream`]); a named pipe could take its place.
//!
//! Not here: sandboxes (`confine`), and what is sent over a connection.

pub mod children;
mod clock;
mod environment;
pub mod folder;
mod ids;
pub mod listener;
pub mod lock_file;
pub mod open_files;
pub mod processes;
pub mod signals;

pub use clock::{Clock, LocalTime, ManualClock, RealClock};
pub use environment::{Environment, own_program, program_of, runtime_folders, session_variables, variables};
pub use ids::{CountingIds, Ids, RandomIds, SeededIds};
