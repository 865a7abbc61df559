//! Tests of the pipeline, the doors and the tools in one process, and of the documentation.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod approval;
mod apps;
#[cfg(unix)]
mod architecture;
#[cfg(unix)]
mod bridges;
mod builtin;
mod call_tool;
mod canary;
mod catalog;
mod client_setup;
mod console;
#[cfg(unix)]
mod contributing;
#[cfg(all(unix, feature = "desktop"))]
mod desktop;
#[cfg(unix)]
mod desktop_wayland;
#[cfg(unix)]
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
#[cfg(unix)]
mod patch_box;
mod patch_max;
#[cfg(unix)]
mod patch_pd;
#[cfg(unix)]
mod patch_reach;
mod patch_tools;
mod pipeline;
mod pipeline_property;
mod plans;
#[cfg(unix)]
mod platforms;
mod plugins;
mod scripts;
mod seeds;
#[cfg(unix)]
mod socket;
