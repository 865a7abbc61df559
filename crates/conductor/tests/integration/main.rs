//! Pipeline, doors and tools, driven as a caller drives them.

mod approval;
mod architecture;
mod bridges;
mod builtin;
mod canary;
mod catalog;
mod http_door;
mod http_plain;
mod line_door;
mod live;
mod live_golden;
mod live_osc;
mod live_running;
mod live_script;
mod live_story;
mod patch_box;
mod patch_max;
mod patch_pd;
mod patch_reach;
mod patch_tools;
mod pipeline;
mod pipeline_property;
mod plugins;
mod socket;
