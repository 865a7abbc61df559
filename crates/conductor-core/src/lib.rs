pub mod digest;
pub mod error;
pub mod timestamp;
