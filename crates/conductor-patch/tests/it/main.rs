//! Tests of the public interface: one binary, one module per concern.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]
#![allow(clippy::print_stdout, reason = "skipped tests print the reason, and some tests print their counts")]

mod corpus;
mod edits;
mod hostile;
mod identity;
mod layout;
mod reach;
mod style;
mod tables;
mod undo;
