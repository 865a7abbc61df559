//! What tests are made of: time that moves by hand, a studio in a temporary home, tools that misbehave on request.
//!
//! Development only; nothing here ships. Fakes stand for the outside world, never for the code under test.

pub mod doorstep;
pub mod forwarder;
pub mod http_client;
pub mod line_client;
pub mod studio;
pub mod time;
pub mod tools;
