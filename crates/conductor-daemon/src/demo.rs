//! The demo studio: an example configuration and its two virtual controllers.

use crate::home::Home;
use conductor_core::config::{self, Device};
use conductor_gateway::pipeline::{self, Call, Principal};
use conductor_gateway::studio::Studio;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Arc;

/// The configuration of the demo. A test loads it, as it does every example.
pub const CONFIG: &str = include_str!("../../../examples/demo.toml");

/// A Max patch of a small synthesizer.
pub const PATCH: &str = include_str!("../../../examples/patches/demo.maxpat");

/// A Live Set with drums, bass and vocals.
pub const SET: &[u8] = include_bytes!("../../../examples/sets/golden.als");

/// The vocal sample of the Set.
pub const SAMPLE: &[u8] = include_bytes!("../../../examples/sets/Samples/Vox Take.wav");

/// Writes the patch to the patches folder, unless a file with this name exists, and opens it.
pub async fn show_patch(studio: &Arc<Studio>, home: &Home) -> io::Result<bool> {
    lay(home, "patches", "demo.maxpat", PATCH.as_bytes())?;
    Ok(open(studio, "open_patch", json!({ "path": "demo.maxpat", "alias": "demo", "group": "demo" })).await)
}

/// Writes the Set and its sample to the sets folder, unless they exist, and opens the Set.
pub async fn show_set(studio: &Arc<Studio>, home: &Home) -> io::Result<bool> {
    lay(home, "sets", "demo.als", SET)?;
    lay(home, "sets/Samples", "Vox Take.wav", SAMPLE)?;
    Ok(open(studio, "live_open_set", json!({ "path": "demo.als" })).await)
}

fn lay(home: &Home, folder: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = home.root().join(folder);
    conductor_hosts::system::files::private_folders().recursive(true).create(&folder)?;
    match OpenOptions::new().write(true).create_new(true).open(folder.join(name)) {
        Ok(mut file) => file.write_all(bytes),
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(fault) => Err(fault),
    }
}

async fn open(studio: &Arc<Studio>, tool: &'static str, arguments: Value) -> bool {
    let person = Principal::Cli { uid: conductor_hosts::system::processes::current_user() };
    pipeline::run(studio, Call::new(person, tool, arguments)).await.is_ok()
}

/// The controllers that `--demo` adds to an existing configuration, until the daemon stops.
pub fn controllers() -> Vec<Device> {
    let devices = config::load(CONFIG).config.map(|it| it.devices).unwrap_or_default();
    devices.into_iter().filter(|it| it.loopback && it.direction.has_input()).collect()
}

/// Five commands to try, each with an explanation.
pub const TOUR: [(&str, &str); 5] = [
    ("conductor devices", "list the connected devices"),
    (r#"conductor send "pads hand" on:36"#, "press a pad; its action is shown here"),
    ("conductor explain on:36 --device pads", "show which mapping fires, and why no other does"),
    (r#"conductor simulate "dev:pads on:39 t:700 off:39""#, "show what a long press would do, without doing it"),
    ("conductor mode set Mix", "switch the mode; the same pads now have other actions, until `mode set Default`"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_has_no_fault_and_shows_a_dozen_mappings() {
        let loaded = config::load(CONFIG);
        assert_eq!(loaded.diagnostics, []);
        let config = loaded.config.unwrap();
        let rows: usize = config.modes.iter().map(|it| it.rows.mappings.len()).sum();
        assert!(rows >= 12, "{rows}");
        assert_eq!(config.modes[0].name, "Default");
    }

    #[test]
    fn two_controllers() {
        let names: Vec<String> = controllers().into_iter().map(|it| it.alias).collect();
        assert_eq!(names, ["pads", "keys"]);
    }
}
