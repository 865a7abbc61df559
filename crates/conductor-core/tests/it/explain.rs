//! Tests `explain`: it lists every rule for a control, and for each rule whether it fires and why.

use conductor_core::config::{Config, load};
use conductor_core::engine::explain::{Asked, explain};
use conductor_core::event::Taint;
use conductor_core::event::script::{Step, parse_token};

const CONFIG: &str = r#"
[[devices]]
alias = "pads"
matchers = [{ type = "NameContains", pattern = "pads" }]
[[modes]]
name = "Default"
[[modes.mappings]]
id = "soft"
trigger = { type = "Note", note = 36, velocity_max = 60 }
action = { type = "Text", text = "soft" }
[[modes.mappings]]
id = "loud"
trigger = { type = "Note", note = 36, velocity_min = 61, channel = 3 }
action = { type = "Text", text = "loud" }
[[modes.mappings]]
id = "off"
enabled = false
trigger = { type = "Note", note = 36 }
action = { type = "Text", text = "off" }
[[modes.mappings]]
id = "hold"
trigger = { type = "LongPress", note = 40 }
action = { type = "Text", text = "hold" }
[[modes.mappings]]
id = "tap"
trigger = { type = "Note", note = 40 }
action = { type = "Text", text = "tap" }
[[modes.mappings]]
id = "knob"
trigger = { type = "CC", cc = 7, value_min = 64 }
action = { type = "Text", text = "knob" }
[[modes]]
name = "Mix"
[[modes.mappings]]
id = "mix"
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "Text", text = "mix" }
"#;

fn config() -> Config {
    let loaded = load(CONFIG);
    assert!(loaded.valid(), "{:?}", loaded.diagnostics);
    loaded.config.unwrap()
}

fn says(token: &str, asked: Asked<'_>) -> String {
    let Ok(Step::Event(event)) = parse_token(token) else { panic!("{token} is not an event") };
    explain(&config(), &event, &asked).text()
}

fn plain(token: &str) -> String {
    says(token, Asked { mode: "Default", device: Some("pads"), ..Asked::default() })
}

#[test]
fn the_winner_and_why_the_others_lost() {
    assert_eq!(
        plain("on:36@50"),
        "fires: Default/soft is the first rule that matches\n\
         => 1. Default/soft Note -> Text\n\
         \x20  2. Default/loud Note -> Text; channel wanted 3, got 0; velocity wanted 61-127, got 50\n\
         \x20  3. Mix/mix Note -> Text; mode wanted Mix, got Default\n\
         \x20  4. Default/off Note -> Text; enabled wanted true, got false\n"
    );
}

#[test]
fn nothing_fits_and_nothing_is_there() {
    assert!(plain("on:36@100").starts_with("no_match: 4 rules use this control, but their conditions do not match\n"));
    assert_eq!(plain("on:99"), "no_match: nothing is mapped to note 99\n");
}

#[test]
fn waits_gates_mutes_and_taints_are_named() {
    assert!(plain("on:40").starts_with("waits: Default/tap fires unless a longer gesture follows within 2000 ms\n"));
    assert!(
        plain("cc:7=100").starts_with("depends: Default/knob is the first rule that matches\n"),
        "{}",
        plain("cc:7=100")
    );
    let pads = Asked { mode: "Default", device: Some("pads"), ..Asked::default() };
    assert!(says("on:36@50", Asked { muted: true, ..pads.clone() }).starts_with("muted: pads is muted"));
    assert!(says("on:36@50", Asked { absent: true, ..pads.clone() }).starts_with("absent: pads is not connected"));
    assert!(says("on:36@50", Asked { taint: Taint::Network, ..pads }).starts_with("tainted: "));
}

#[test]
fn a_rule_for_another_device_says_so() {
    let text = says("on:36", Asked { mode: "Mix", device: Some("keys"), ..Asked::default() });
    assert!(text.contains("Mix/mix Note -> Text; device wanted pads, got keys"), "{text}");
}
