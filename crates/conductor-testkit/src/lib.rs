//! What tests share: real programs to run against.

pub mod http_client;
pub mod line_client;
pub mod real;
pub mod studio;
pub mod time;
pub mod tools;
