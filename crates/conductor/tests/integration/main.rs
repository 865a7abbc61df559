//! Tests of the pipeline, the doors and the tools, through calls.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod approval;
mod apps;
mod architecture;
mod bridges;
mod builtin;
mod call_tool;
mod canary;
mod catalog;
mod client_setup;
mod console;
mod contributing;
#[cfg(feature = "desktop")]
mod desktop;
mod desktop_wayland;
mod evaluation;
mod every_way;
mod examples;
mod http_door;
mod http_plain;
mod line_door;
mod live;
mod live_golden;
mod live_osc;
mod live_running;
mod live_script;
mod live_story;
mod loopback;
mod model_view;
mod patch_box;
mod patch_max;
mod patch_pd;
mod patch_reach;
mod patch_tools;
mod pipeline;
mod pipeline_property;
mod plans;
mod platforms;
mod plugins;
mod scripts;
mod seeds;
mod socket;
