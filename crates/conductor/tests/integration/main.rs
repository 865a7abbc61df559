//! Pipeline, doors and tools, driven as a caller drives them.

#![expect(clippy::print_stderr, reason = "a skipped test says why")]

mod approval;
mod catalog;
mod http_door;
mod line_door;
mod pipeline;
mod pipeline_property;
mod socket;
