//! `schema`, `[config]`, `[logging]` and `[advanced_settings]`.

use super::every_key::{STICKS, modes};
use super::surface::{BOARD, Cable, with_cable, with_gamepad};
use super::*;
use conductor_core::event::{Axis, Body, Side, Taint};
use conductor_daemon::app::MakeBackend;
use conductor_hosts::midi::loopback::Loopback;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
pub(super) fn another_schema_is_refused() {
    let studio = Studio::start(BOARD);
    studio.save(&format!("schema = 2\n{BOARD}"));
    assert!(studio.block_on(studio.handle().reload()).is_err());
}

#[test]
pub(super) fn ports_without_an_alias_are_heard_as_the_file_says() {
    let connected = |lines: &str| {
        let (studio, _hand) = with_cable(&format!("[advanced_settings]\n{lines}\n"));
        studio.block_on(studio.handle().bindings()).unwrap().connected_count
    };
    assert_eq!(connected("listen_mode = \"All\""), 2);
    assert_eq!(connected("listen_mode = \"Configured\""), 0);
    assert_eq!(connected("max_midi_ports = 1"), 1);
}

/// A mapping or a binding can send events back to its own device, as a route can. Such a loop must
/// be stopped.
#[test]
fn a_ring_of_mappings_or_bindings_ends_where_the_file_says() {
    let forward = "[[global_mappings]]\nid = \"on\"\ntrigger = { type = \"Note\", note = 60, device = \"pads\" }\n\
                   action = { type = \"MidiForward\", target = \"pads hand\" }\n";
    let knob = "[[global_continuous]]\nid = \"round\"\nsource = { type = \"CC\", cc = 20, device = \"pads\" }\n\
                glue = { invert = true, throttle_ms = 0 }\n\
                targets = [{ type = \"CC\", port = \"pads hand\", channel = 0, controller = 20 }]\n";
    for (rows, message) in [(forward, [0x90, 60, 100]), (knob, [0xB0, 20, 127])] {
        let studio = Studio::start(&format!("{BOARD}\n{rows}[advanced_settings]\nmax_route_depth = 5\n"));
        let mut ear = studio.ear("pads hand");
        studio.play(&message);
        studio.was_stopped();
        // The mark is the first message after those of the loop.
        studio.play(&[0xBF, 99, 1]);
        let heard = std::iter::repeat_with(|| studio.hear(&mut ear)).take_while(|it| it[..2] != [0xBF, 99]);
        let sounding = heard.filter(|it| it[0] == message[0]);
        assert_eq!(sounding.count(), 1 + 5, "{rows}");
        assert_eq!(studio.status().statistics.actions_failed, 1);
    }
}

/// The messages that the synth receives when a stick and a trigger are moved to 0.6.
#[test]
pub(super) fn a_stick_and_a_trigger_rest_as_far_as_the_file_says() {
    let told = |line: &str| {
        let (studio, mut pad) = with_gamepad(&format!("{BOARD}\n{STICKS}[advanced_settings]\n{line}\n"));
        let mut ear = studio.ear("synth");
        let mut moved = |body: Body| {
            pad.moved(body);
            studio.hear(&mut ear)[2]
        };
        (moved(Body::Axis { axis: Axis::LeftX, value: 0.6 }), moved(Body::Trigger { side: Side::Right, value: 0.6 }))
    };
    let (stick, pull) = told("");
    let (by_stick, pull_beside) = told("stick_deadzone = 0.5");
    let (stick_beside, by_pull) = told("trigger_deadzone = 0.5");
    assert!(by_stick < stick && by_pull < pull, "{stick} {by_stick} {pull} {by_pull}");
    assert_eq!((stick_beside, pull_beside), (stick, pull), "one dead zone changes the other");
}

/// Counts how often the ports are listed. A missing backend may cause further scans, at first about
/// one per second, so the two counts are only compared.
#[test]
pub(super) fn ports_that_nobody_announces_are_looked_for_as_often_as_the_file_says() {
    let start = |interval: u32| {
        let scans: Arc<AtomicUsize> = Arc::default();
        let counted = scans.clone();
        let make: MakeBackend = Box::new(move |stamp, _| {
            Box::new(Cable { machinery: Loopback::new(stamp, Arc::new(|_| {})), scans: counted })
        });
        let machine = Machine { backends: vec![make], ..Machine::default() };
        let studio = Studio::on(machine, &format!("[advanced_settings]\nscan_interval_ms = {interval}\n"));
        (studio, move || scans.load(Ordering::Relaxed))
    };
    let ((_seldom, few), (_often, many)) = (start(60_000), start(100));
    wait_for(PATIENCE, || (many() >= 15).then_some(())).expect("ports were not listed every 100 ms");
    assert!(few() * 2 < many(), "{} {}", few(), many());
}

#[test]
pub(super) fn a_file_is_picked_up_when_and_if_the_file_says() {
    let start = |section: &str| Studio::start(&format!("{BOARD}\n{section}\n"));
    let save = |studio: &Studio| studio.save(&BOARD.replacen("color = \"green\"", "color = \"red\"", 1));
    let is_seen = |studio: &Studio| modes(studio).contains("red");
    let unwatched = start("[config]\nwatch = false");
    let patient = start("[config]\ndebounce_ms = 10000");
    save(&unwatched);
    save(&patient);
    // The third file is saved last, with the default delay. When it has been read, the other two
    // would have been read too.
    let usual = start("");
    save(&usual);
    wait_for(PATIENCE, || is_seen(&usual).then_some(())).expect("the file was not read");
    assert!(!is_seen(&unwatched) && !is_seen(&patient));
}

#[test]
pub(super) fn the_level_says_what_is_logged() {
    let logged = |level: &str| {
        let studio = Studio::start(&format!("{BOARD}\n[logging]\nlevel = \"{level}\"\n"));
        studio.block_on(studio.handle().switch_mode(Some("Mix".into()), Taint::Clean)).unwrap();
        studio.log().contains("mode Mix")
    };
    assert!(logged("info"));
    assert!(!logged("error"));
}
