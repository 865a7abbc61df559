//! Tests the precedence of rules.

use super::{HIT, config, fired, rows};
use conductor_core::event::DeviceSlot;
use conductor_core::mapping::table::{Kind, ModeIndex, Slots, Tables};

fn rules(mappings: &str) -> String {
    rows(&mappings.replace("HIT", HIT))
}

fn with_global(mappings: &str, global: &str) -> String {
    let global = rules(global)
        .replace("[[modes]]\nname = \"Default\"\n", "")
        .replace("[[modes.mappings]]", "[[global_mappings]]");
    let global = global.split("\n[[devices]]").next().unwrap_or_default().to_owned();
    rules(mappings) + &global
}

#[test]
fn the_mode_wins_over_global_even_when_global_is_narrower() {
    let config = with_global(
        r#"mode: "Note", note = 36 -> HIT"#,
        r#"all: "Note", note = 36, channel = 0, device = "pads" -> HIT"#,
    );
    assert_eq!(fired(&config, "on:36"), "0 mode Note");
}

#[test]
fn global_is_reached_when_the_mode_has_no_match() {
    let config =
        with_global(r#"mode: "Note", note = 36, velocity_min = 100 -> HIT"#, r#"all: "Note", note = 36 -> HIT"#);
    assert_eq!(fired(&config, "on:36@120"), "0 mode Note");
    assert_eq!(fired(&config, "on:36@50"), "0 all Note");
}

#[test]
fn precedence_is_per_gesture_kind() {
    let config =
        with_global(r#"tap: "Note", note = 36 -> HIT"#, r#"hold: "LongPress", note = 36, duration_ms = 300 -> HIT"#);
    assert_eq!(fired(&config, "on:36 t:100 off:36"), "100 tap Note");
    assert_eq!(fired(&config, "on:36 t:400 off:36"), "300 hold LongPress");
}

#[test]
fn each_rule_of_the_order_against_the_next() {
    let cases = [
        (
            "device before constraints",
            r#"narrow: "Note", note = 36, channel = 0, velocity_min = 90 -> HIT
               device: "Note", note = 36, device = "pads" -> HIT"#,
            "device",
        ),
        (
            "more constraints first",
            r#"one: "Note", note = 36, velocity_min = 100, velocity_max = 100 -> HIT
               two: "Note", note = 36, velocity_min = 2, channel = 0 -> HIT"#,
            "two",
        ),
        (
            "narrower window first",
            r#"wide: "Note", note = 36, velocity_min = 50 -> HIT
               slim: "Note", note = 36, velocity_min = 90, velocity_max = 110 -> HIT"#,
            "slim",
        ),
        (
            "then the order of the file",
            r#"first: "Note", note = 36 -> HIT
               second: "Note", note = 36 -> HIT"#,
            "first",
        ),
    ];
    for (name, mappings, wanted) in cases {
        assert_eq!(fired(&rules(mappings), "dev:pads on:36@100"), format!("0 {wanted} Note"), "{name}");
    }
}

#[test]
fn a_switched_off_row_takes_no_part() {
    let text = rules(
        r#"first: "Note", note = 36 -> HIT
           second: "Note", note = 36 -> HIT"#,
    );
    let text = text.replacen("action =", "enabled = false\naction =", 1);
    assert_eq!(fired(&text, "on:36"), "0 second Note");
}

#[test]
fn directions_and_osc_arguments_count_as_constraints() {
    let config = rules(
        r#"any: "EncoderTurn", cc = 16, mode = "twos_complement" -> HIT
           right: "EncoderTurn", cc = 16, mode = "twos_complement", direction = "Clockwise" -> HIT
           glob: "Osc", address = "/a/*" -> HIT
           exact: "Osc", address = "/a/b" -> HIT
           args: "Osc", address = "/a/c", args = [{ index = 0, min = 0.5 }] -> HIT"#,
    );
    assert_eq!(fired(&config, "cc:16=1"), "0 right EncoderTurn");
    assert_eq!(fired(&config, "cc:16=127"), "0 any EncoderTurn");
    assert_eq!(fired(&config, "dev:touch osc:/a/b=1.0"), "0 exact Osc");
    assert_eq!(fired(&config, "dev:touch osc:/a/c=1.0"), "0 args Osc");
    assert_eq!(fired(&config, "dev:touch osc:/a/c=0.1"), "0 glob Osc");
}

/// A key with many rules is split by channel and velocity. The lookup must find the same rule as a
/// linear scan.
#[test]
fn a_crowded_key_answers_as_a_plain_scan_does() {
    let mut mappings = String::new();
    for n in 0..60u32 {
        let low = 1 + (n * 37) % 120;
        let high = (low + (n * 13) % 40).min(127);
        let channel = if n % 3 == 0 { format!(", channel = {}", n % 16) } else { String::new() };
        mappings +=
            &format!("r{n}: \"Note\", note = 36, velocity_min = {low}, velocity_max = {high}{channel} -> HIT\n");
    }
    let mut slots = Slots::default();
    let tables = Tables::compile(&config(&rules(&mappings)), &mut slots);
    let table = tables.device(ModeIndex(0), DeviceSlot(999));
    let mut rows: Vec<_> = tables.rows.iter().enumerate().collect();
    rows.sort_by_key(|it| it.1.rank);
    for channel in 0..16u16 {
        for velocity in 1..=127u16 {
            let scan = rows.iter().find(|(_, row)| row.channels & (1 << channel) != 0 && row.window.contains(velocity));
            let found = table.first(Kind::Press, 36, 1 << channel, velocity);
            assert_eq!(found, scan.map(|it| it.0 as u32), "channel {channel}, velocity {velocity}");
        }
    }
}
