//! The crate from outside: one binary, one module per concern.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod documents;
mod fixtures;
mod golden;
mod history;
mod hostile;
mod large;
mod property;
mod real;
mod traps;

// The one place that knows how recordings are compared; a dependency would bring the whole product
// along.
#[path = "../../../conductor-testkit/src/golden.rs"]
mod recorded;
