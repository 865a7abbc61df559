pub mod breaker;
pub mod digest;
pub mod error;
pub mod principal;
pub mod timestamp;
