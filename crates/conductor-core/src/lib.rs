pub mod audit;
pub mod breaker;
pub mod digest;
pub mod error;
pub mod pending;
pub mod policy;
pub mod principal;
pub mod timestamp;
