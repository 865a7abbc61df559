//! The built binary as a child process: what a person at a terminal would see.

#[path = "end_to_end/approvals.rs"]
mod approvals;
#[path = "end_to_end/audit.rs"]
mod audit;
#[path = "end_to_end/canary.rs"]
mod canary;
#[path = "end_to_end/clients.rs"]
mod clients;
#[path = "end_to_end/commands.rs"]
mod commands;
#[path = "end_to_end/devices.rs"]
mod devices;
#[path = "end_to_end/doors.rs"]
mod doors;
#[path = "end_to_end/held.rs"]
mod held;
#[cfg(feature = "jack")]
#[path = "end_to_end/jack.rs"]
mod jack;
#[path = "end_to_end/launch.rs"]
mod launch;
#[path = "end_to_end/learning.rs"]
mod learning;
#[path = "end_to_end/life.rs"]
mod life;
#[path = "end_to_end/limits.rs"]
mod limits;
#[path = "end_to_end/machine.rs"]
mod machine;
#[path = "end_to_end/observe.rs"]
mod observe;
#[path = "end_to_end/plugins.rs"]
mod plugins;
#[path = "end_to_end/proxy.rs"]
mod proxy;
#[path = "end_to_end/reload.rs"]
mod reload;
#[path = "end_to_end/secrets.rs"]
mod secrets;
#[path = "end_to_end/sound.rs"]
mod sound;
#[path = "end_to_end/spine.rs"]
mod spine;
#[path = "end_to_end/studio.rs"]
mod studio;
#[cfg(feature = "jack")]
#[path = "end_to_end/taint.rs"]
mod taint;
#[path = "end_to_end/terminal.rs"]
mod terminal;
#[path = "end_to_end/web.rs"]
mod web;
