//! What tests share: real programs to run against.

pub mod real;
pub mod studio;
pub mod time;
pub mod tools;
