//! Pads that change the volume of the machine, conditions on running programs, `learn` and
//! `monitor`.

use crate::studio::{DEVICES, Studio, until};
use conductor_testkit::real::pulse;
use conductor_testkit::require;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

fn mapping(note: u8, action: &str) -> String {
    format!("[[global_mappings]]\ntrigger = {{ type = \"Note\", note = {note} }}\naction = {action}\n")
}

#[test]
fn a_pad_changes_the_volume_of_a_real_output() {
    let folder = tempfile::tempdir().unwrap();
    let server = require!(pulse::start(folder.path()));
    let volume = |operation: &str| format!("{{ type = \"VolumeControl\", operation = {operation} }}");
    let config = [
        DEVICES.to_owned(),
        mapping(36, &volume("\"Set\", value = 42")),
        mapping(37, &volume("\"Up\"")),
        mapping(38, &volume("\"Down\"")),
        mapping(39, &volume("\"Mute\"")),
        mapping(40, &volume("\"Unmute\"")),
        mapping(41, &volume("\"Set\", value = 97")),
    ];
    let mut studio = Studio::empty();
    studio.set("PULSE_SERVER", &server.server);
    std::fs::write(studio.config_file(), config.concat()).unwrap();
    studio.up(&[]);
    let mut hand = studio.hand();
    let read = |what: &str| server.pactl(&[what, pulse::SINK]).unwrap_or_default();
    let mut after = |note: u8, what: &str, wanted: &str| {
        hand.play(&[0x90, note, 100]);
        hand.play(&[0x80, note, 0]);
        until(&format!("pactl {what} prints {wanted}"), || read(what).contains(wanted).then_some(()));
    };
    after(36, "get-sink-volume", " 42%");
    after(37, "get-sink-volume", " 52%");
    after(38, "get-sink-volume", " 42%");
    after(39, "get-sink-mute", "Mute: yes");
    after(40, "get-sink-mute", "Mute: no");
    after(41, "get-sink-volume", " 97%");
    after(37, "get-sink-volume", " 100%");
    assert_eq!(studio.status()["statistics"]["actions_failed"], 0);
}

#[test]
fn a_volume_that_nobody_can_change_is_a_failure_that_is_counted() {
    let mut studio = Studio::empty();
    studio.set("PATH", "/nowhere");
    let config = format!("{DEVICES}{}", mapping(36, "{ type = \"VolumeControl\", operation = \"Mute\" }"));
    std::fs::write(studio.config_file(), config).unwrap();
    studio.up(&[]);
    studio.hand().play(&[0x90, 36, 100]);
    until("the failed action is counted", || (studio.status()["statistics"]["actions_failed"] == 1).then_some(()));
}

#[test]
fn a_condition_sees_which_programs_run() {
    let action = "{ type = \"Conditional\", condition = { type = \"AppRunning\", app_name = \"cond-probe\" }, \
        then_action = { type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"CC\", controller = 1, value = 1 }, \
        else_action = { type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"CC\", controller = 1, value = 0 } }";
    let studio = Studio::start(&format!("{DEVICES}{}", mapping(36, action)));
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    let mut runs = || {
        hand.play(&[0x90, 36, 100]);
        hand.play(&[0x80, 36, 0]);
        synth.hear().unwrap()[2]
    };
    assert_eq!(runs(), 0);
    let program = studio.home().join("cond-probe");
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let mut child = Command::new(&program).arg("60").spawn().unwrap();
    let mut seen = |wanted: u8| {
        (0..500).any(|_| {
            std::thread::park_timeout(std::time::Duration::from_millis(20));
            runs() == wanted
        })
    };
    assert!(seen(1), "the condition does not match the running program");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(seen(0), "the condition still matches the ended program");
}

#[test]
fn learn_shows_what_is_heard_and_gives_a_line_for_the_file() {
    let studio = Studio::start(DEVICES);
    let mut command = studio.command();
    let mut child = command.arg("learn").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        line
    };
    assert!(next().contains("press Enter"));
    let mut hand = studio.hand();
    for _ in 0..3 {
        hand.play(&[0x90, 36, 100]);
        hand.play(&[0x80, 36, 0]);
    }
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(rest.contains("6 events received"), "{rest}");
    assert!(
        rest.contains("trigger = { ") && rest.contains("note = 36") && rest.contains("device = \"pads\""),
        "{rest}"
    );
    assert_eq!(studio.status()["statistics"]["actions_executed"], 0, "an action was executed during the learn session");
}

#[test]
fn monitor_begins_with_who_is_there() {
    let studio = Studio::start(DEVICES);
    let mut child = studio.command().arg("monitor").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let head: Vec<String> = (0..3).map(|_| lines.next().unwrap().unwrap()).collect();
    assert!(head[0].starts_with("mode Default, 0 events received, 0 dropped"), "{head:?}");
    assert!(head[1].contains("pads") && head[1].contains("connected"), "{head:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}
