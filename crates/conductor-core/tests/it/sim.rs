//! Simulations in virtual time. A script contains the input; the trace contains the result.

mod actions;
mod gestures;
mod precedence;
mod values;

use conductor_core::config::{Config, load};
use conductor_core::engine::sim::Simulation;
use conductor_core::engine::{Effect, Outcome, simulate};

/// The devices that the rules of the tests may use.
pub const DEVICES: &str = r#"
[[devices]]
alias = "pads"
matchers = [{ type = "NameContains", pattern = "pads" }]
[[devices]]
alias = "keys"
matchers = [{ type = "NameContains", pattern = "keys" }]
[[devices]]
alias = "pad1"
protocol = "Gamepad"
matchers = [{ type = "NameContains", pattern = "pad1" }]
[[devices]]
alias = "touch"
protocol = "Osc"
listen = "127.0.0.1:9000"
[[devices]]
alias = "daw"
direction = "Output"
virtual_port = "DAW"
[[devices]]
alias = "synth"
direction = "Output"
virtual_port = "Synth"
"#;

/// A configuration with one mode. Each line is `id: trigger -> action`, with the content of the two
/// inline tables after `type =`.
pub fn rows(rows: &str) -> String {
    let mut text = String::from("[[modes]]\nname = \"Default\"\n");
    for row in rows.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let (id, rest) = row.split_once(": ").expect("the row has no `: ` or no ` -> `");
        let (trigger, action) = rest.split_once(" -> ").expect("the row has no `: ` or no ` -> `");
        text += &format!(
            "[[modes.mappings]]\nid = \"{id}\"\ntrigger = {{ type = {trigger} }}\naction = {{ type = {action} }}\n"
        );
    }
    text + DEVICES
}

pub fn config(text: &str) -> Config {
    let loaded = load(text);
    let faults: Vec<String> = loaded.errors().map(|it| it.render(text, "config.toml")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    loaded.config.expect("a fatal fault")
}

pub fn run(text: &str, script: &str) -> Simulation {
    simulate(&config(text), script, None).unwrap_or_else(|fault| panic!("{fault:?}"))
}

/// The fired rules, one per line as `time id gesture`. Deferred presses are left out.
pub fn fired(text: &str, script: &str) -> String {
    let lines = run(text, script).records;
    let lines = lines.iter().filter(|it| it.outcome == Outcome::Fired);
    lines
        .map(|it| format!("{} {} {}", it.at_us / 1000, it.mapping_id.as_deref().unwrap_or("-"), it.gesture))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every MIDI message that was sent, one per line as `time port message`.
pub fn sent(text: &str, script: &str) -> String {
    let simulation = run(text, script);
    let lines = simulation.effects.iter().filter_map(|(at, effect)| match effect {
        Effect::Midi { port, message, .. } => Some(format!(
            "{} {} {}",
            at.0 / 1000,
            simulation.slots.name(*port),
            conductor_core::event::script::token(message)
        )),
        Effect::Osc { .. }
        | Effect::OscValue { .. }
        | Effect::Key { .. }
        | Effect::Text(_)
        | Effect::Click { .. }
        | Effect::Volume(_)
        | Effect::Parameter { .. }
        | Effect::Call(_) => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// An action for mappings whose action does not matter.
pub const HIT: &str = r#""Text", text = "x""#;
