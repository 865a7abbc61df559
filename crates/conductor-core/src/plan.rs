//! Changes to `config.toml` as values: what a plan would write, shown as a diff, and how to take it back.
//!
//! Not here: time, plan ids, approvals and the file itself. A draft is made from bytes and is bytes; the shell keeps and applies it.

mod change;

pub use change::{Change, RowRef};
