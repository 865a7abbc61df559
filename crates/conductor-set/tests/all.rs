//! The crate from outside: one binary, one module per concern.

#[path = "all/fixtures.rs"]
mod fixtures;

#[path = "all/documents.rs"]
mod documents;
#[path = "all/golden.rs"]
mod golden;
#[path = "all/history.rs"]
mod history;
#[path = "all/hostile.rs"]
mod hostile;
#[path = "all/property.rs"]
mod property;
#[path = "all/real.rs"]
mod real;
#[path = "all/traps.rs"]
mod traps;
