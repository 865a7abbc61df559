//! One test binary; real files come from the folders that the environment names.

mod corpus;
mod edits;
mod hostile;
mod identity;
mod layout;
mod picture;
mod style;
mod tables;
mod undo;
