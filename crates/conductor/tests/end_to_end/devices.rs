//! Devices in `status` and in the tools: the reports are correct, and muting has its effect.

use crate::studio::{Studio, until};
use serde_json::{Value, json};
use std::net::UdpSocket;

const TWO: &str = r#"
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
enabled = ENABLED
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[modes]]
name = "Default"
[[modes.mappings]]
id = "pad"
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 20, value = 1 }
"#;

fn binding(studio: &Studio, device: &str) -> Value {
    let all = studio.call("conductor_list_device_bindings", json!({}));
    all["device_bindings"].as_array().unwrap().iter().find(|it| it["device_id"] == device).cloned().unwrap()
}

fn set(studio: &Studio, device: &str, enabled: bool) -> Value {
    studio.ask(
        "call",
        json!({
            "tool": "conductor_set_device_enabled", "arguments": { "device_id": device, "enabled": enabled },
        }),
    )
}

/// Presses and releases the pad. Returns the number of executed actions.
fn plays(studio: &Studio) -> usize {
    let before = studio.status()["statistics"]["actions_executed"].as_u64().unwrap();
    let mut hand = studio.hand();
    hand.play(&[0x90, 36, 100]);
    hand.play(&[0x80, 36, 0]);
    (studio.status()["statistics"]["actions_executed"].as_u64().unwrap() - before) as usize
}

#[test]
fn muting_silences_a_device_and_unmuting_lets_it_play() {
    let studio = Studio::start(&TWO.replace("ENABLED", "true"));
    assert_eq!(plays(&studio), 1);
    let answer = set(&studio, "pads", false);
    assert_eq!(answer, json!({ "device_id": "pads", "enabled": false, "message": "Device 'pads' muted" }));
    assert_eq!(plays(&studio), 0);
    let row = binding(&studio, "pads");
    assert_eq!((&row["connected"], &row["enabled"]), (&json!(true), &json!(false)));
    let all = studio.call("conductor_list_device_bindings", json!({}));
    assert_eq!((&all["muted_count"], &all["total_devices"]), (&json!(1), &json!(2)));
    let status = studio.status();
    assert_eq!(
        (&status["connected"], &status["device_connected"]),
        (&json!(true), &json!(true)),
        "the muted device is reported as disconnected"
    );
    assert_eq!(studio.call("conductor_explain", json!({ "event": "on:36@100", "device": "pads" }))["verdict"], "muted");
    let trace = studio.call("conductor_get_trace", json!({ "device": "pads", "outcome": "muted" }));
    assert_eq!(trace["records"].as_array().unwrap().len(), 2);

    assert_eq!(set(&studio, "pads", true)["message"], "Device 'pads' enabled");
    assert_eq!(plays(&studio), 1);
    assert_eq!(binding(&studio, "pads")["enabled"], true);
}

#[test]
fn a_device_that_the_file_disables_can_be_enabled_for_the_run() {
    let mut studio = Studio::start(&TWO.replace("ENABLED", "false"));
    let row = binding(&studio, "pads");
    assert_eq!((&row["connected"], &row["enabled"]), (&json!(false), &json!(false)));
    let status = studio.status();
    assert_eq!((&status["connected"], &status["device"]), (&json!(false), &Value::Null));
    assert_eq!(set(&studio, "pads", true)["enabled"], true);
    let row = binding(&studio, "pads");
    assert_eq!(
        (&row["connected"], &row["enabled"]),
        (&json!(true), &json!(true)),
        "the port was not open when the answer was sent"
    );
    assert_eq!(plays(&studio), 1);
    assert_eq!(studio.status()["connected"], true);
    assert_eq!(studio.call("conductor_explain", json!({ "event": "on:36@100", "device": "pads" }))["verdict"], "fires");
    set(&studio, "pads", false);
    assert_eq!(plays(&studio), 0);
    studio.stop();
    studio.up(&[]);
    assert_eq!(binding(&studio, "pads")["enabled"], false, "the change was written to the file");
}

#[test]
fn an_osc_device_that_the_file_disables_is_listed_and_can_be_enabled() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let studio = Studio::start(&format!(
        r#"
[[devices]]
alias = "touch"
protocol = "Osc"
listen = "127.0.0.1:{port}"
enabled = false
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[global_mappings]]
trigger = {{ type = "Osc", address = "/go" }}
action = {{ type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 20, value = 1 }}
"#
    ));
    let row = binding(&studio, "touch");
    assert_eq!((&row["connected"], &row["enabled"]), (&json!(false), &json!(false)));
    assert_eq!(
        studio.call("conductor_list_devices", json!({}))["osc_listeners"],
        json!([]),
        "a disabled device has a listener"
    );
    let mut synth = studio.listen("synth");
    set(&studio, "touch", true);
    let row = binding(&studio, "touch");
    assert_eq!((&row["connected"], &row["enabled"]), (&json!(true), &json!(true)));
    let status = studio.status();
    let device = &status["device"];
    assert_eq!((&device["name"], &device["alias"]), (&json!(format!("127.0.0.1:{port}")), &json!("touch")));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"/go\0,\0\0\0", ("127.0.0.1", port)).unwrap();
    assert_eq!(synth.hear(), Some(vec![0xB0, 20, 1]));
    set(&studio, "touch", false);
    socket.send_to(b"/go\0,\0\0\0", ("127.0.0.1", port)).unwrap();
    until("the event of the muted device is in the trace", || {
        let trace = studio.call("conductor_get_trace", json!({ "device": "touch", "outcome": "muted" }));
        (!trace["records"].as_array()?.is_empty()).then_some(())
    });
}

#[test]
fn status_names_the_device_its_place_and_its_last_event() {
    let studio = Studio::start(
        &TWO.replace("ENABLED", "true").replace("alias = \"synth\"\ndirection = \"Output\"", "alias = \"synth\""),
    );
    let device = studio.status()["device"].clone();
    let inputs = studio.call("conductor_list_devices", json!({}))["midi_inputs"].clone();
    assert_eq!((&device["name"], &device["alias"]), (&json!("pads"), &json!("pads")));
    assert_eq!(inputs[device["port"].as_u64().unwrap() as usize], device["name"], "{inputs}");
    assert_eq!(device["last_event_at"], Value::Null);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    studio.hand().play(&[0x90, 36, 100]);
    let at = studio.status()["device"]["last_event_at"].as_u64().unwrap();
    assert!((now - 1..now + 60).contains(&at), "{at} is not close to {now}");
    let status = studio.status();
    assert_eq!(status["input_mode"], "Both");
    assert!(status["uptime_secs"].as_u64().unwrap() < 3600);
    let all = studio.call("conductor_list_device_bindings", json!({}));
    assert_eq!((&all["multi_device_active"], &all["connected_count"]), (&json!(true), &json!(2)));
    let rows = all["device_bindings"].as_array().unwrap();
    assert!(rows.iter().all(|it| it["is_configured"] == true && it["port_name"] == it["device_id"]), "{all}");
}

/// The file gives the device a port that is in use, so the device is lost. This is recorded.
#[test]
fn a_device_that_is_lost_is_written_down() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let osc =
        |port: u16| format!("[[devices]]\nalias = \"touch\"\nprotocol = \"Osc\"\nlisten = \"127.0.0.1:{port}\"\n");
    let studio = Studio::start(&osc(port));
    assert_eq!(binding(&studio, "touch")["connected"], true);
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    studio.save(&osc(taken.local_addr().unwrap().port()));
    let record = until("the lost device is in the audit log", || {
        let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
        let line = log.lines().find(|it| it.contains("\"device.lost\""))?.to_owned();
        serde_json::from_str::<Value>(&line).ok()
    });
    assert_eq!(record["detail"]["device"], "touch", "{record}");
}

/// An action whose port is missing must be reported as failed.
#[test]
fn an_action_that_failed_is_not_counted_as_done() {
    let studio = Studio::start(&TWO.replace("ENABLED", "true").replace("port = \"synth\"", "port = \"nowhere\""));
    assert_eq!(plays(&studio), 0);
    assert_eq!(studio.status()["statistics"]["actions_failed"], 1);
}
