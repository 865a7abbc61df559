//! Sends the example requests of the product's first documents as direct tool calls, and checks the
//! documented form of the answers.
//!
//! `seeds.json` contains the examples: request, documented result, and the values that must be
//! inserted first.

use conductor_core::digest::Digest;
use conductor_core::timestamp::Timestamp;
use conductor_hosts::system::listener::Blocking;
use conductor_testkit::daemon::TestDaemon;
use conductor_testkit::real::PATIENCE;
use conductor_testkit::stranger::DirectClient;
use serde_json::{Value, json};

const CONFIG: &str = r#"
schema = 1
[[devices]]
alias = "pads"
loopback = true
[[devices]]
alias = "other"
loopback = true
[[modes]]
name = "Default"
color = "blue"
[[modes.mappings]]
trigger = { type = "Note", note = 36 }
action = { type = "Keystroke", keys = ["cmd", "c"] }
[[modes.mappings]]
trigger = { type = "GamepadButtonChord", buttons = ["south", "east"] }
action = { type = "Launch", app = "nothing-of-this-name" }
[[modes]]
name = "DJ"
color = "purple"
[[modes]]
name = "Performance"
"#;

/// Lists that may be empty, for example on a machine without a gamepad.
const MAY_BE_EMPTY: &[&str] = &["/result/gamepads", "/result/errors"];

/// Checks that every documented member exists and has the same type; of lists, only the first items
/// are compared. A list with a documented item must not be empty, except for [`MAY_BE_EMPTY`].
/// Additional members are allowed.
fn fits(documented: &Value, got: &Value, at: &str) -> Result<(), String> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match (documented, got) {
        (Value::Object(members), Value::Object(there)) => {
            for (name, member) in members {
                let found = there.get(name).ok_or_else(|| format!("{at}/{name} is missing"))?;
                fits(member, found, &format!("{at}/{name}"))?;
            }
            Ok(())
        }
        (Value::Array(items), Value::Array(there)) => match (items.first(), there.first()) {
            (Some(item), Some(found)) => fits(item, found, &format!("{at}/0")),
            (Some(_), None) if !MAY_BE_EMPTY.contains(&at) => Err(format!("{at} is empty")),
            (Some(_) | None, _) => Ok(()),
        },
        // No event has occurred yet.
        (Value::Number(_), Value::Null) if at.ends_with("last_event_at") => Ok(()),
        (documented, got) if kind(documented) == kind(got) => Ok(()),
        (documented, got) => Err(format!("{at} is a {} and not a {}", kind(got), kind(documented))),
    }
}

fn start() -> (TestDaemon, DirectClient) {
    let daemon = TestDaemon::start(CONFIG);
    let stream = Blocking::connect(&daemon.home.path().join("mcp.sock"), PATIENCE).unwrap();
    (daemon, DirectClient::over(stream))
}

#[test]
fn every_documented_exchange_has_its_documented_shape() {
    let (daemon, mut wire) = start();
    let exchanges: Vec<Value> = serde_json::from_str(include_str!("seeds.json")).unwrap();
    for exchange in &exchanges {
        let request = exchange["request"].to_string();
        if exchange["request"]["method"] == "conductor_stop_midi_learn" {
            for message in [[0x90, 36, 100], [0x80, 36, 0]] {
                daemon.send("pads hand", &message);
            }
        }
        let answer = wire.say(&request);
        let wanted = match exchange.get("error_code") {
            Some(code) => json!({ "error": { "code": 0, "message": "" }, "id": exchange["request"]["id"] })
                .pointer("/error")
                .map(|it| {
                    assert_eq!(&answer["error"]["code"], code, "{request}: {answer}");
                    json!({ "error": it })
                }),
            None => Some(json!({ "result": exchange["result"] })),
        };
        if let Err(fault) = fits(&wanted.unwrap(), &answer, "") {
            panic!("{request}\n{fault}\n{answer}");
        }
        assert_eq!(answer["id"], exchange["request"]["id"]);
        assert_eq!(answer["jsonrpc"], "2.0");
    }
}

/// Checks the values themselves, in a studio with known content.
#[test]
fn every_answer_about_the_studio_says_what_is() {
    let (daemon, mut wire) = start();
    let mut call = |method: &str, params: Value| {
        let request = json!({ "jsonrpc": "2.0", "method": method, "params": params, "id": 1 });
        let answer = wire.say(&request.to_string());
        if answer["error"].is_null() { answer["result"].clone() } else { answer["error"].clone() }
    };
    let config = call("conductor_get_config", json!({}));
    assert_eq!(config["content"], CONFIG);
    assert_eq!(config["path"], daemon.home.path().join("config.toml").display().to_string());
    assert_eq!(config["hash"], Digest::of(CONFIG.as_bytes()).to_string());

    let status = call("conductor_get_status", json!({}));
    for (member, wanted) in [
        ("/daemon_running", json!(true)),
        ("/lifecycle_state", json!("Running")),
        ("/connected", json!(true)),
        ("/device_connected", json!(true)),
        ("/device", json!({ "name": "pads", "alias": "pads", "port": 1, "last_event_at": null })),
        ("/input_mode", json!("Both")),
        ("/statistics/events_processed", json!(0)),
        ("/statistics/actions_executed", json!(0)),
        ("/current_mode", json!("Default")),
        ("/learning", json!(null)),
    ] {
        assert_eq!(status.pointer(member), Some(&wanted), "{member}: {status}");
    }
    assert_eq!(
        call("conductor_list_modes", json!({}))["modes"],
        json!([
            { "name": "Default", "color": "blue", "mapping_count": 2 },
            { "name": "DJ", "color": "purple", "mapping_count": 0 },
            { "name": "Performance", "color": null, "mapping_count": 0 },
        ])
    );
    let devices = call("conductor_list_devices", json!({}));
    assert_eq!(devices["midi_inputs"], json!(["other", "pads"]));
    assert_eq!(devices["midi_outputs"], json!(["other", "other hand", "pads", "pads hand"]));
    let row = |id: &str, enabled: bool| {
        json!({
            "device_id": id, "port_name": id, "connected": true, "enabled": enabled, "is_configured": true, "tainted": false,
        })
    };
    let all = |muted: bool| {
        json!({
            "device_bindings": [row("pads", !muted), row("other", true)], "multi_device_active": true,
            "total_devices": 2, "connected_count": 2, "muted_count": u8::from(muted),
        })
    };
    assert_eq!(call("conductor_list_device_bindings", json!({})), all(false));
    assert_eq!(
        call("conductor_set_device_enabled", json!({ "device_id": "pads", "enabled": false })),
        json!({ "device_id": "pads", "enabled": false, "message": "Device 'pads' muted" })
    );
    assert_eq!(call("conductor_list_device_bindings", json!({})), all(true));
    assert_eq!(
        call("conductor_set_device_enabled", json!({ "device_id": "pads", "enabled": true })),
        json!({ "device_id": "pads", "enabled": true, "message": "Device 'pads' enabled" })
    );
    let unknown = call("conductor_set_device_enabled", json!({ "device_id": "pad", "enabled": true }));
    assert_eq!(
        (&unknown["code"], &unknown["message"]),
        (&json!(-32002), &json!("no device 'pad'; there are: pads, other"))
    );
    assert_eq!(
        call("conductor_scan_ports", json!({})),
        json!({ "message": "Port rescan triggered", "added": [], "removed": [] })
    );

    let coverage = &call("conductor_validate_config", json!({}))["coverage"];
    assert_eq!(
        coverage,
        &json!({ "midi": { "notes_used": 1, "cc_used": 0 }, "hid": { "buttons_used": 2 }, "osc": { "addresses_used": 0 } })
    );

    let started = call("conductor_start_midi_learn", json!({}));
    assert_eq!((&started["status"], &started["was_already_active"]), (&json!("learning"), &json!(false)));
    let learning = &call("conductor_get_status", json!({}))["learning"];
    assert_eq!(learning["until"], started["expires_at"]);
    let ms = |it: &Value| it.as_str().unwrap().parse::<Timestamp>().unwrap().as_millis();
    assert_eq!(ms(&learning["until"]) - ms(&learning["since"]), 30_000, "the timeout is not the documented default");
    for message in [[0x90, 36, 100], [0x80, 36, 0]] {
        daemon.send("pads hand", &message);
    }
    let learned = call("conductor_stop_midi_learn", json!({}));
    let heard: Vec<Value> = learned["events"].as_array().unwrap().clone();
    let event = |kind: &str, velocity: u8, at: usize| {
        json!({
            "type": kind, "note": 36, "velocity": velocity, "channel": 0, "device_id": "pads",
            "timestamp": heard[at]["timestamp"],
        })
    };
    assert_eq!(heard, [event("NoteOn", 100, 0), event("NoteOff", 0, 1)]);
    assert!(
        ms(&heard[0]["timestamp"]) >= ms(&learning["since"]) && ms(&heard[1]["timestamp"]) <= ms(&learning["until"])
    );
    assert_eq!((&learned["suggestions"][0]["type"], &learned["suggestions"][0]["note"]), (&json!("Note"), &json!(36)));
    assert_eq!(learned["expired"], false);

    assert_eq!(
        call("conductor_switch_mode", json!({ "mode": "Performance" })),
        json!({ "success": true, "mode_name": "Performance", "mode_index": 2, "total_modes": 3 })
    );
    let messages =
        json!([{ "type": "note_on", "channel": 1, "note": 60 }, { "type": "note_off", "channel": 1, "note": 60 }]);
    assert_eq!(
        call("conductor_send_midi", json!({ "port": "other", "messages": messages })),
        json!({ "success": true, "messages_sent": 2, "port": "other" })
    );
}

#[test]
fn the_scan_interval_of_a_file_without_one_is_five_seconds() {
    let config = conductor_core::config::load(CONFIG).config.unwrap();
    assert_eq!(config.advanced.scan_interval_ms, 5000);
}

#[test]
fn the_checker_finds_a_missing_and_a_wrong_member() {
    assert!(fits(&json!({ "a": { "b": 1 } }), &json!({ "a": {} }), "").is_err());
    assert!(fits(&json!({ "a": "x" }), &json!({ "a": 1 }), "").is_err());
    assert!(fits(&json!({ "a": [1] }), &json!({ "a": [] }), "").is_err());
    assert!(fits(&json!({ "a": [{ "b": true }] }), &json!({ "a": [{ "b": false, "c": 1 }] }), "").is_ok());
}
