//! One test binary; real files come from the folders that the environment names.

mod corpus;
mod identity;
mod tables;
mod undo;
