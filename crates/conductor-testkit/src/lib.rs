//! What tests share: real programs to run against.

pub mod doorstep;
pub mod forwarder;
pub mod golden;
pub mod http_client;
pub mod line_client;
pub mod puppet;
pub mod real;
pub mod skips;
pub mod stranger;
pub mod studio;
pub mod terminal;
pub mod time;
pub mod tools;
