//! Small interfaces to the operating system, for everything that differs between platforms.
//!
//! | file | contents |
//! |---|---|
//! | `clock`, `ids`, `environment` | time, random numbers and environment variables, as values |
//! | `listener` | a local endpoint for clients of this user, and the identity of a peer |
//! | `folder`, `lock_file` | folders that only their owner can open, and a lock that one process can have |
//! | `processes` | the process table: parents, terminals, the client behind a TCP connection |
//! | `children`, `wait` | starts programs, waits until they connect, and ends them with all their descendants |
//! | `signals`, `service` | signals that end the daemon, and messages to the service manager |
//! | `host_name` | the names and addresses of this machine |
//! | `open_files`, `memory`, `priority` | the limit of open files, the memory, and the priority of a thread |
//! | `files`, `rooted` | permissions of files, and the system's part of `crate::rooted` |
//! | `protect` | encryption of a key file by the system |
//! | `windows_names` | names that Windows does not treat as names of files |
//! | `handoff` | passes stdin and stdout of a proxy to the daemon |
//! | `terminal`, `worker_process` | the terminal of a command, and the pipes of a plugin's process |
//!
//! Every platform has the same modules with the same functions: those of Unix are in this folder,
//! those of Windows in `windows/`. All other code is the same on every platform, except the lines
//! that choose a module (`tests/integration/platforms.rs` of `conductor` counts them).
//!
//! Not here: sandboxes (`confine`), and the protocols of connections.

mod clock;
mod environment;
pub mod host_name;
mod ids;
pub mod lock_file;
pub mod service;
pub mod windows_names;

#[cfg_attr(windows, path = "system/windows/children.rs")]
pub mod children;
#[cfg_attr(windows, path = "system/windows/files.rs")]
pub mod files;
#[cfg_attr(windows, path = "system/windows/folder.rs")]
pub mod folder;
#[cfg_attr(windows, path = "system/windows/handoff.rs")]
pub mod handoff;
#[cfg_attr(windows, path = "system/windows/listener.rs")]
pub mod listener;
#[cfg_attr(windows, path = "system/windows/memory.rs")]
pub mod memory;
#[cfg_attr(windows, path = "system/windows/open_files.rs")]
pub mod open_files;
#[cfg_attr(windows, path = "system/windows/priority.rs")]
pub mod priority;
#[cfg_attr(windows, path = "system/windows/processes.rs")]
pub mod processes;
#[cfg_attr(windows, path = "system/windows/protect.rs")]
pub mod protect;
#[cfg_attr(windows, path = "system/windows/rooted.rs")]
pub mod rooted;
#[cfg(windows)]
#[path = "system/windows/security.rs"]
mod security;
#[cfg_attr(windows, path = "system/windows/signals.rs")]
pub mod signals;
#[cfg_attr(windows, path = "system/windows/terminal.rs")]
pub mod terminal;
#[cfg_attr(windows, path = "system/windows/wait.rs")]
pub mod wait;
#[cfg(all(windows, test))]
#[path = "system/windows/wine.rs"]
mod wine;
#[cfg_attr(windows, path = "system/windows/worker_process.rs")]
pub mod worker_process;

pub use clock::{Clock, LocalTime, ManualClock, RealClock};
pub use environment::{
    Environment, basic_variables, own_program, program_of, runtime_folders, session_variables, variables,
};
pub use ids::{CountingIds, Ids, RandomIds, SeededIds};
