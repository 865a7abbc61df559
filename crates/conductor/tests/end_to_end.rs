//! The built binary as a child process: what a person at a terminal would see.

#[path = "end_to_end/commands.rs"]
mod commands;
#[cfg(feature = "jack")]
#[path = "end_to_end/jack.rs"]
mod jack;
#[path = "end_to_end/life.rs"]
mod life;
#[path = "end_to_end/machine.rs"]
mod machine;
#[path = "end_to_end/reload.rs"]
mod reload;
#[path = "end_to_end/spine.rs"]
mod spine;
#[path = "end_to_end/studio.rs"]
mod studio;
