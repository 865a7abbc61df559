//! Small interfaces to the operating system, for everything that differs between platforms.
//!
//! | file | contents |
//! |---|---|
//! | `clock`, `ids`, `environment` | time, random numbers and environment variables, as values |
//! | `listener` | a local endpoint for clients of this user, and the identity of a peer |
//! | `folder`, `lock_file` | folders that only their owner can open, and a lock that one process can have |
//! | `processes` | the process table: parents, terminals, the client behind a TCP connection |
//! | `children` | starts programs, and ends them with all their descendants |
//! | `signals`, `service` | signals that end the daemon, and messages to the service manager |
//! | `host_name` | the names and addresses of this machine |
//! | `open_files`, `memory` | the limit of open files, and the memory in use |
//!
//! Only Unix is implemented. The interfaces use no Unix types, except the stream itself
//! ([`listener::Stream`]), which a named pipe could replace.
//!
//! Not here: sandboxes (`confine`), and the protocols of connections.

pub mod children;
mod clock;
mod environment;
pub mod folder;
pub mod host_name;
mod ids;
pub mod listener;
pub mod lock_file;
pub mod memory;
pub mod open_files;
pub mod processes;
pub mod service;
pub mod signals;

pub use clock::{Clock, LocalTime, ManualClock, RealClock};
pub use environment::{Environment, own_program, program_of, runtime_folders, session_variables, variables};
pub use ids::{CountingIds, Ids, RandomIds, SeededIds};
