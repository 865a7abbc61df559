//! Hot reload: what is wrong keeps the old configuration and says why; what is right is in force at once.

use crate::studio::{DEVICES, Studio, until};
use serde_json::{Value, json};

/// A configuration whose pad sends this controller.
fn sends(controller: u8) -> String {
    format!(
        r#"{DEVICES}
[[modes]]
name = "Default"
[[modes.mappings]]
id = "pad"
trigger = {{ type = "Note", note = 36, device = "pads" }}
action = {{ type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = {controller}, value = 1 }}
"#
    )
}

fn press(studio: &Studio) -> Option<Vec<u8>> {
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    hand.play(&[0x90, 36, 100]);
    hand.play(&[0x80, 36, 0]);
    synth.hear()
}

fn error_of(status: &Value) -> Option<String> {
    status["config"]["error"].as_str().map(str::to_owned)
}

#[test]
fn bad_then_bad_then_good() {
    let studio = Studio::start(&sends(20));
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
    let first = studio.status()["config"]["hash"].clone();

    studio.save(&sends(21).replace("[[modes]]", "[[modes]"));
    let syntax = until("the first fault is told", || error_of(&studio.status()));
    assert!(syntax.starts_with("config.toml:"), "{syntax}");
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]), "the old configuration serves");

    studio.save(&format!("{}\n[[modes]]\nname = \"Default\"\n", sends(22)));
    let twice = until("the second fault is told", || error_of(&studio.status()).filter(|it| *it != syntax));
    assert!(twice.contains("Default"), "{twice}");
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
    let status = studio.status();
    assert_eq!((&status["config"]["hash"], &status["lifecycle_state"]), (&first, &json!("Running")));
    assert_eq!(status["statistics"]["reloads_failed"], 2);

    studio.save(&sends(23));
    until("the good file is in force", || (studio.status()["config"]["hash"] != first).then_some(()));
    assert_eq!(press(&studio), Some(vec![0xB0, 23, 1]));
    let status = studio.status();
    assert_eq!((error_of(&status), &status["lifecycle_state"]), (None, &json!("Running")));
}

#[test]
fn going_back_to_what_serves_clears_the_fault() {
    let studio = Studio::start(&sends(20));
    studio.save("nonsense");
    until("the fault is told", || error_of(&studio.status()));
    studio.save(&sends(20));
    until("the fault is forgotten", || error_of(&studio.status()).is_none().then_some(()));
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
}

#[test]
fn a_deleted_file_keeps_the_old_configuration() {
    let studio = Studio::start(&sends(20));
    std::fs::remove_file(studio.config_file()).unwrap();
    until("the fault is told", || error_of(&studio.status()));
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
}

#[test]
fn one_bad_row_is_disabled_and_the_others_play() {
    let bad = r#"
[[modes.mappings]]
id = "wrong"
trigger = { type = "CC", cc = 128 }
action = { type = "Delay", ms = 1 }
"#;
    let studio = Studio::start(&format!("{}{bad}", sends(20)));
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
    let status = studio.status();
    assert_eq!((&status["config"]["disabled_mappings"], error_of(&status)), (&json!(1), None));

    let check = studio.ask("config.check", json!({}));
    let text = format!("{}{bad}", sends(20));
    let line = text.lines().position(|it| it.contains("128")).unwrap() + 1;
    let column = text.lines().nth(line - 1).unwrap().find("128").unwrap() + 1;
    let fault = &check["diagnostics"][0];
    assert_eq!((&check["valid"], &fault["line"], &fault["column"]), (&json!(false), &json!(line), &json!(column)));
}

#[test]
fn a_mode_that_a_reload_removed_is_gone() {
    let two = format!("{}\n[[modes]]\nname = \"Mix\"\n", sends(20));
    let studio = Studio::start(&two);
    studio.ask("mode.set", json!({ "mode": "Mix" }));
    studio.save(&sends(21));
    until("one mode is left", || (studio.ask("modes", json!({}))["modes"].as_array()?.len() == 1).then_some(()));
    let refusal = studio.refusal("mode.set", json!({ "mode": "Mix" }));
    assert_eq!(refusal["code"], "NOT_FOUND");
    assert_eq!(studio.status()["current_mode"], "Default", "the default mode is taken instead");
}

#[test]
fn a_held_note_ends_when_its_mapping_is_changed_under_the_finger() {
    let holding = |note: u8| {
        sends(1).replace(
            "message_type = \"CC\", controller = 1, value = 1",
            &format!("message_type = \"NoteOn\", note = {note}"),
        )
    };
    let studio = Studio::start(&holding(60));
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    hand.play(&[0x90, 36, 100]);
    assert_eq!(synth.hear(), Some(vec![0x90, 60, 100]));
    studio.save(&holding(62));
    assert_eq!(synth.hear().map(|it| (it[0], it[1])), Some((0x80, 60)));
}

#[test]
fn an_unwatched_file_is_read_only_when_asked() {
    let studio = Studio::start(&format!("config = {{ watch = false }}\n{}", sends(20)));
    studio.save(&sends(21));
    let answer = studio.ask("reload", json!({}));
    assert_eq!((&answer["changed"], &answer["faults"]), (&json!(true), &json!([])));
    assert_eq!(press(&studio), Some(vec![0xB0, 21, 1]));
    assert_eq!(studio.ask("reload", json!({}))["changed"], false);

    studio.save("nonsense");
    let refusal = studio.refusal("reload", json!({}));
    assert_eq!((&refusal["code"], &refusal["subject"]), (&json!("BAD_INPUT"), &json!("config.toml")));
}
