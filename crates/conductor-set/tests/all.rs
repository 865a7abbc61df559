//! The crate from outside: one binary, one module per concern.

#[path = "all/fixtures.rs"]
mod fixtures;

#[path = "all/documents.rs"]
mod documents;
#[path = "all/real.rs"]
mod real;
