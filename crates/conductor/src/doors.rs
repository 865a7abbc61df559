//! The ways in. A door turns bytes into a question and an answer into bytes; what happens between is not its business.

pub mod control;
