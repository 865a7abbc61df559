//! Empty: the tests are in `tests/readers.rs`.
