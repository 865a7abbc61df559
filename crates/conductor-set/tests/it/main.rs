//! Tests of the public interface: one binary, one module per concern.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod documents;
mod fixtures;
mod golden;
mod history;
mod hostile;
mod large;
mod property;
mod real;
// Compares recorded exchanges. The file is included because a dependency on the testkit would pull
// in the whole product.
#[path = "../../../conductor-testkit/src/golden.rs"]
mod recorded;
mod traps;
