//! The demo studio: a configuration to play with, and its two virtual controllers.

use conductor_core::config::{self, Device};

/// Loaded by a test, like every example.
pub const CONFIG: &str = include_str!("../../../../examples/demo.toml");

/// What `--demo` adds to a studio that has a configuration of its own: the controllers, for this run only.
pub fn controllers() -> Vec<Device> {
    let devices = config::load(CONFIG).config.map(|it| it.devices).unwrap_or_default();
    devices.into_iter().filter(|it| it.loopback && it.direction.has_input()).collect()
}

/// Five commands to try, each with what it shows.
pub const TOUR: [(&str, &str); 5] = [
    ("conductor devices", "what is connected"),
    (r#"conductor send "pads hand" on:36"#, "press a pad; what it does appears here"),
    ("conductor explain on:36 --device pads", "which mapping that was, and why not another"),
    (r#"conductor simulate "dev:pads on:39 t:700 off:39""#, "what a long press would do, without doing it"),
    ("conductor mode set Mix", "now the pads mean something else: press again"),
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
