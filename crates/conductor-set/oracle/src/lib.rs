//! Nothing here: see `tests/readers.rs`.
