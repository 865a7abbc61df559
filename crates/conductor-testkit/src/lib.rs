//! What tests share: real programs to run against.

pub mod real;
