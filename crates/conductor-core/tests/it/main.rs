//! Integration tests of the crate: one binary, one module per topic.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod approval_model;
mod config_faults;
mod config_held;
mod config_load;
mod config_plan;
mod config_reference;
mod config_schema;
mod config_tutorial;
mod engine_properties;
mod explain;
mod feedback;
mod generate;
mod learn;
mod sim;
mod taint;
