//! `[[devices]]`: how a port gets its alias, its directions and its trust, and where the daemon
//! listens.

use super::every_key::{bindings, osc};
use super::surface::{BOARD, with_cable};
use super::*;
use conductor_core::engine::Outcome;
use conductor_core::event::Taint;
use conductor_gateway::owner_handle::Wanted;

fn keys_at(port: &str) -> String {
    format!("[[devices]]\nalias = \"keys\"\nmatchers = [{{ type = \"ExactName\", pattern = \"{port}\" }}]\n")
}

#[test]
pub(super) fn a_cable_finds_its_alias() {
    let seen = |config: &str| bindings(&with_cable(config).0);
    assert_ne!(seen(&keys_at("Grand")), seen(&keys_at("Small")));
    let made = |name: &str| {
        seen(&format!("[[devices]]\nalias = \"daw\"\ndirection = \"Output\"\nvirtual_port = \"{name}\"\n"))
    };
    assert_ne!(made("V"), made("W"));
}

#[test]
pub(super) fn a_virtual_input_is_trusted_on_a_word() {
    let outcome = |trusted: bool| {
        let text = "[[global_mappings]]\ntrigger = { type = \"Note\", note = 36 }\naction = { type = \"Text\", text = \"x\" }\n";
        let keys = "[[devices]]\nalias = \"keys\"\ndirection = \"Input\"\nvirtual_port = \"Grand\"\n";
        let alone = "[advanced_settings]\nlisten_mode = \"Configured\"\n";
        let (studio, hand) = with_cable(&format!("{keys}trusted = {trusted}\n{text}{alone}"));
        assert!(hand.play(&[0x90, 36, 100], Taint::Clean));
        let traced = || studio.block_on(studio.handle().trace(Wanted::default())).unwrap().records;
        let record = wait_for(PATIENCE, || traced().into_iter().next()).expect("the event was not received");
        (record.outcome, record.reason.contains("trusted = true"))
    };
    assert_eq!(outcome(true), (Outcome::Fired, false));
    assert_eq!(outcome(false), (Outcome::Tainted, true));
}

/// A binding forwards a knob's message to the loopback device `second`, and a mapping of `second`
/// types text. The mapping must not run if a tool has sent the knob's message.
#[test]
fn what_a_tool_turned_is_no_hand_behind_a_binding() {
    let rows = "[[devices]]\nalias = \"second\"\nloopback = true\n\
                [[global_continuous]]\nid = \"across\"\nsource = { type = \"CC\", cc = 20, device = \"pads\" }\n\
                targets = [{ type = \"CC\", port = \"second hand\", channel = 3, controller = 21 }]\n\
                [[global_mappings]]\nid = \"type\"\ntrigger = { type = \"CC\", cc = 21, device = \"second\" }\n\
                action = { type = \"Text\", text = \"x\" }\n";
    let outcome = |by_tool: bool| {
        let studio = Studio::start(&format!("{BOARD}\n{rows}"));
        if by_tool {
            let message = json!({ "type": "cc", "channel": 1, "controller": 20, "value": 9 });
            let arguments = json!({ "port": "pads hand", "messages": [message] });
            assert_eq!(studio.call(&mut studio.client(), "conductor_send_midi", arguments).0, "ok");
        } else {
            studio.play(&[0xB0, 20, 9]);
        }
        let of = Wanted { mapping_id: Some("type".into()), ..Wanted::default() };
        let traced = || studio.block_on(studio.handle().trace(of.clone())).unwrap().records;
        wait_for(PATIENCE, || traced().first().map(|it| it.outcome)).expect("the event is not in the trace")
    };
    assert_eq!(outcome(false), Outcome::Fired);
    assert_eq!(outcome(true), Outcome::Tainted);
}

#[test]
pub(super) fn a_device_is_looked_for_where_the_file_says() {
    let connected = |protocol: &str| {
        let (studio, _hand) = with_cable(&format!("{}protocol = \"{protocol}\"\n", keys_at("Grand")));
        studio.block_on(studio.handle().bindings()).unwrap().device_bindings[0].connected
    };
    assert!(connected("Midi"));
    assert!(!connected("Gamepad"), "Grand is connected as a gamepad, but is a MIDI port");
}

#[test]
pub(super) fn a_device_is_heard_and_told_as_the_file_says() {
    let ways = |direction: &str| {
        let (studio, hand) = with_cable(&format!("{}direction = \"{direction}\"\n", keys_at("Grand")));
        let told = studio.handle().send("keys".into(), vec![vec![0xB0, 1, 1]], SentBy::Person);
        (hand.play(&[0xB0, 1, 1], Taint::Clean), studio.block_on(told).is_ok())
    };
    assert_eq!(ways("Bidirectional"), (true, true));
    assert_eq!(ways("Input"), (true, false));
    // With this direction, the alias does not cover the input. The default `listen_mode` would open
    // the input like any other port.
    assert_eq!(ways("Output\"\n[advanced_settings]\nlisten_mode = \"Configured"), (false, true));
}

#[test]
pub(super) fn a_network_is_listened_to_only_on_a_word() {
    let heard = |allowed: bool| {
        let device = osc(&format!("allow_network = {allowed}\n")).replacen("127.0.0.1", "0.0.0.0", 1);
        let studio = Studio::start(&device);
        studio.block_on(studio.handle().devices()).unwrap().osc_listeners.len()
    };
    assert_eq!(heard(true), 1);
    assert_eq!(heard(false), 0);
}
