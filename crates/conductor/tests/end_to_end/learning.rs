//! MIDI learn ends with the client that started it and never blocks mappings unnoticed. A script
//! that plays ends with its client.

use crate::studio::{DEVICES, Studio, text, until};
use conductor_testkit::stranger::DirectClient;
use conductor_testkit::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const PAD: &str = r#"
[[modes]]
name = "Play"
[[modes]]
name = "Mix"
[[global_mappings]]
id = "pad"
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "NoteOn", note = 60 }
"#;

fn connect(studio: &Studio) -> DirectClient {
    DirectClient::connect(studio.home())
}

fn learn(model: &mut DirectClient) -> Value {
    model.result("conductor_start_midi_learn", &json!({ "timeout_ms": 300_000 }))
}

fn is_learning(studio: &Studio) -> bool {
    studio.status()["learning"].is_object()
}

/// The outcome of a press.
fn pressed(studio: &Studio) -> String {
    let since = studio.call("conductor_get_trace", json!({ "limit": 1 }))["next_seq"].clone();
    // Play as a person, because a script must not play during the performance lock.
    let mut command = studio.command();
    command.args(["send", "pads hand", "on:36@100 off:36"]);
    assert_eq!(conductor_testkit::terminal::at_a_terminal(command).0, Some(0));
    let trace = studio.call("conductor_get_trace", json!({ "since_seq": since, "mapping_id": "pad" }));
    trace["records"][0]["outcome"].as_str().unwrap().to_owned()
}

#[test]
fn learning_ends_with_the_client_that_began_it() {
    let studio = Studio::start(&format!("{DEVICES}{PAD}"));
    let mut model = connect(&studio);
    let started = learn(&mut model);
    assert_eq!(pressed(&studio), "learning");
    let shown = &studio.status()["learning"];
    assert_eq!((&shown["until"], &shown["let_through"]), (&started["expires_at"], &json!(false)));
    assert!(shown["since"].as_str().unwrap() < shown["until"].as_str().unwrap(), "{shown}");
    let told = model.result("conductor_get_status", &json!({}));
    assert_eq!(&told["learning"], shown, "the two doors report different learn sessions");
    let printed = text(&studio.run(&["status"]).stdout);
    let line = printed
        .lines()
        .find(|it| it.starts_with("learning "))
        .expect("`conductor status` does not show the learn session");
    assert!(line.contains(shown["until"].as_str().unwrap()), "{line}");

    drop(model);
    until("the learn session has ended", || (!is_learning(&studio)).then_some(()));
    assert_eq!(pressed(&studio), "fired");
    assert!(!text(&studio.run(&["status"]).stdout).contains("learning "));
}

#[test]
fn learning_that_two_clients_asked_for_ends_with_the_second() {
    let studio = Studio::start(&format!("{DEVICES}{PAD}"));
    let (mut first, mut second) = (connect(&studio), connect(&studio));
    assert_eq!(learn(&mut first)["was_already_active"], false);
    assert_eq!(learn(&mut second)["was_already_active"], true);
    drop(first);
    // This request uses a new connection, so the daemon has processed the end of the first one
    // before it answers.
    studio.status();
    assert_eq!(pressed(&studio), "learning");
    assert_eq!(second.result("conductor_stop_midi_learn", &json!({}))["events"].as_array().unwrap().len(), 2);
    learn(&mut second);
    drop(second);
    until("the learn session has ended", || (!is_learning(&studio)).then_some(()));
}

#[test]
fn learning_ends_with_panic_another_mode_and_the_performance_lock() {
    let studio = Studio::start(&format!("{DEVICES}{PAD}"));
    let mut model = connect(&studio);
    let person = |words: &[&str]| {
        let mut command = studio.command();
        command.args(words);
        assert_eq!(conductor_testkit::terminal::at_a_terminal(command).0, Some(0), "{words:?}");
    };
    let ends: [&dyn Fn(&mut DirectClient); 5] = [
        &|_| person(&["panic"]),
        &|model| drop(model.result("conductor_panic", &json!({}))),
        &|_| person(&["mode", "set", "Mix"]),
        &|model| drop(model.result("conductor_switch_mode", &json!({ "mode": "Play" }))),
        &|_| person(&["performance", "on"]),
    ];
    for (at, end) in ends.iter().enumerate() {
        learn(&mut model);
        assert_eq!(pressed(&studio), "learning", "{at}");
        end(&mut model);
        assert!(!is_learning(&studio), "{at}");
        assert_eq!(pressed(&studio), "fired", "{at}");
    }
}

#[test]
fn learning_at_a_terminal_ends_with_the_command() {
    let studio = Studio::start(&format!("{DEVICES}{PAD}"));
    let mut command = studio.command();
    command.arg("learn");
    let mut terminal = Terminal::start(command);
    terminal.until("press Enter");
    assert!(is_learning(&studio));
    drop(terminal);
    until("the learn session has ended", || (!is_learning(&studio)).then_some(()));
}

#[test]
fn playing_ends_with_the_player_and_what_it_held_is_released() {
    let studio = Studio::start(&format!("{DEVICES}{PAD}"));
    let mut synth = studio.listen("synth");
    let mut command = studio.command();
    let mut player = command.args(["send", "pads hand", "on:36 t:50000 off:36"]).spawn().unwrap();
    assert_eq!(synth.hear().map(|it| (it[0], it[1])), Some((0x90, 60)));
    kill_process(Pid::from_raw(player.id() as i32).unwrap(), Signal::INT).unwrap();
    player.wait().unwrap();
    assert_eq!(
        synth.hear().map(|it| (it[0], it[1])),
        Some((0x80, 60)),
        "the note was not released when the client ended"
    );
}

#[test]
fn the_daemon_does_not_wait_for_a_player() {
    let mut studio = Studio::start(&format!("{DEVICES}{PAD}"));
    let mut synth = studio.listen("synth");
    let mut command = studio.command();
    let mut player = command.args(["send", "pads hand", "on:36 t:59000 off:36"]).spawn().unwrap();
    assert_eq!(synth.hear().map(|it| (it[0], it[1])), Some((0x90, 60)));
    studio.signal(Signal::TERM);
    assert_eq!(
        synth.hear().map(|it| (it[0], it[1])),
        Some((0x80, 60)),
        "the note was not released when the daemon stopped"
    );
    // The daemon ends long before the script would.
    until("the daemon ended", || (!studio.home().join("control.sock").exists() && studio.has_ended()).then_some(()));
    let ended = studio.ended();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(!player.wait().unwrap().success());
}

/// Pauses count from the start of the script: a slow step does not delay the next one.
#[test]
fn pauses_take_their_time_once() {
    let studio = Studio::start(&format!("{DEVICES}{PAD}"));
    let mut records = studio.control();
    records.ask("monitor", json!({})).unwrap();
    let script: String = (0..600).map(|_| "cc:1=1 t:2 ").collect();
    let sent = studio.ask("play", json!({ "port": "pads hand", "events": script }));
    assert_eq!(sent["messages_sent"], 600);
    let times: Vec<u64> = (0..600).map(|_| records.next_item().unwrap().unwrap()["at_us"].as_u64().unwrap()).collect();
    // A late step does not delay the later steps. Single steps may be late on a busy machine, so
    // the test compares the smallest delay of each half.
    let late: Vec<i64> = times.iter().zip(0..).map(|(at, beat)| (at - times[0]) as i64 - beat * 2000).collect();
    let first = late.iter().take(300).min().unwrap();
    let last = late.iter().skip(300).min().unwrap();
    assert!(last - first < 250_000, "the second half drifted: {first} and {last} microseconds");
}
