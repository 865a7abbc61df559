//! Pipeline, doors and tools, driven as a caller drives them.

#![expect(clippy::print_stderr, reason = "a skipped test says why")]

mod catalog;
mod http_door;
mod line_door;
mod live;
mod live_golden;
mod live_osc;
mod pipeline;
mod pipeline_property;
mod socket;
