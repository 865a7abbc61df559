//! Pipeline, doors and tools, driven as a caller drives them.

mod approval;
mod catalog;
mod http_door;
mod line_door;
mod patch_tools;
mod live;
mod live_golden;
mod pipeline;
mod pipeline_property;
mod socket;
