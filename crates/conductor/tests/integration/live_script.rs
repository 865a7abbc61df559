//! A simulated Live with our script: its socket, its token, changes by the person, and a Live that
//! ends during a call.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use conductor_hosts::bridges;
use conductor_hosts::live::script::rendezvous;
use conductor_hosts::system::files;
use conductor_testkit::real::fakelive;
use conductor_testkit::require;
use serde_json::{Value, json};

use crate::live::hears;
use crate::live_story::{BEAT, attached, script_stage};

/// A raw connection, for messages that our own host never sends.
fn knock(home: &Path) -> (TcpStream, rendezvous::Rendezvous) {
    let met = rendezvous::read(home).expect("a rendezvous");
    let stream = TcpStream::connect(("127.0.0.1", met.port)).expect("the script does not listen");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    (stream, met)
}

/// Connects and reads the greeting of the script, but does not send the hello message yet.
fn meet(home: &Path) -> (TcpStream, Value) {
    let (stream, met) = knock(home);
    let first = line(&stream).expect("the script sent no greeting");
    assert_eq!(first["token"], json!(met.token));
    let theirs = first["nonce"].as_str().expect("the greeting has no nonce");
    let proof = bridges::proof(&met.secret, "daemon", theirs, "mine");
    (stream, json!({ "id": 1, "op": "hello", "nonce": "mine", "proof": proof, "protocol": 2 }))
}

fn line(stream: &TcpStream) -> Option<Value> {
    let mut text = String::new();
    BufReader::new(stream).read_line(&mut text).ok().filter(|it| *it > 0)?;
    serde_json::from_str(&text).ok()
}

#[tokio::test]
async fn only_who_knows_the_token_is_let_in_and_only_one() {
    let (_live, stage) = require!(script_stage("12.2.0"));
    let home = stage.studio.home.path().to_owned();
    let file = rendezvous::path(&home);
    assert!(!files::is_open_to_others(&file, &file.metadata().expect("the file")));
    // Refused: a wrong proof, a hello without a proof, another message, and text that is not JSON.
    for words in [
        r#"{"id":1,"op":"hello","nonce":"mine","proof":"guess"}"#,
        r#"{"id":1,"op":"hello"}"#,
        r#"{"id":1,"op":"overview"}"#,
        "GET / HTTP/1.1",
    ] {
        let (mut stream, _) = meet(&home);
        writeln!(stream, "{words}").expect("sent");
        assert_eq!(line(&stream), None, "{words}: the script answered instead of closing the connection");
    }
    // A client that sends nothing does not block the socket.
    let (mut mute, _) = meet(&home);
    assert_eq!(mute.read(&mut [0; 16]).ok(), Some(0), "the connection was not closed");
    // Only one client is allowed; the second receives an error.
    let mut client = attached(&stage, "script").await;
    let (second, _) = knock(&home);
    assert_eq!(line(&second).map(|it| it["error"]["code"].clone()), Some(json!("BUSY")));
    client.ok("live_get_song_overview", json!({})).await;
}

#[tokio::test]
async fn a_client_that_reconnects_at_once_is_not_refused() {
    let (_live, stage) = require!(script_stage("12.2.0"));
    let home = stage.studio.home.path().to_owned();
    for round in 0..20 {
        // Disconnect before or after the hello message, and before the script reads again.
        let (mut left, hello) = meet(&home);
        if round % 2 == 0 {
            writeln!(left, "{hello}").expect("sent");
            assert_eq!(line(&left).map(|it| it["ok"].clone()), Some(json!(true)));
        }
        drop(left);
        let (next, met) = knock(&home);
        assert_eq!(line(&next).map(|it| it["token"].clone()), Some(json!(met.token)), "round {round}");
    }
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_the_connection() {
    let (_live, stage) = require!(script_stage("12.2.0"));
    let (mut stream, hello) = meet(stage.studio.home.path());
    writeln!(stream, "{hello}").expect("sent");
    assert_eq!(line(&stream).map(|it| it["ok"].clone()), Some(json!(true)));
    let sent = stream.write_all(&vec![b'x'; (1 << 20) + 2]);
    // The peer may close the connection before everything is written.
    if sent.is_ok() {
        assert_eq!(line(&stream).map(|it| it["error"]["code"].clone()), Some(json!("BAD_INPUT")));
    }
    // Another client can connect now.
    attached(&stage, "script").await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_stale_token_and_an_open_file_are_refused_clearly() {
    use std::fs;
    let (live, stage) = require!(script_stage("12.2.0"));
    let file = rendezvous::path(stage.studio.home.path());
    let good = fs::read(&file).expect("the file");
    let mut client = stage.client().await;
    let open = json!({ "host": "script" });
    let mut stale: Value = serde_json::from_slice(&good).expect("JSON");
    stale["token"] = json!("left-over-from-another-live");
    fs::write(&file, stale.to_string()).expect("written");
    let error = client.refused("live_open_set", open.clone()).await;
    assert_eq!(error["code"], "HOST_OFFLINE");
    assert!(error["message"].as_str().is_some_and(|it| it.contains("token")), "{error}");
    fs::write(&file, &good).expect("written");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("a mode");
    let error = client.refused("live_open_set", open.clone()).await;
    assert!(error["message"].as_str().is_some_and(|it| it.contains("chmod 600")), "{error}");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
    let mut newer: Value = serde_json::from_slice(&good).expect("JSON");
    newer["protocol"] = json!(9);
    fs::write(&file, newer.to_string()).expect("written");
    let error = client.refused("live_open_set", open.clone()).await;
    assert!(error["message"].as_str().is_some_and(|it| it.contains("protocol 9")), "{error}");
    fs::write(&file, &good).expect("written");
    client.ok("live_open_set", open.clone()).await;
    // A Live that crashed does not remove its rendezvous file.
    live.crash();
    let fresh = stage.client().await;
    drop(client);
    let mut fresh = fresh;
    assert_eq!(fresh.code("live_get_song_overview", json!({ "setId": "live_script" })).await, "HOST_OFFLINE");
}

#[tokio::test]
async fn every_field_of_a_note_and_every_undo_entry_is_told_truly() {
    let (mut live, stage) = require!(script_stage("12.2.0"));
    let mut client = attached(&stage, "script").await;
    let note = json!({
        "pitch": 64, "startTime": 0.5, "duration": 1.25, "velocity": 77.5, "muted": true, "probability": 0.25,
        "velocityDeviation": -12, "releaseVelocity": 33,
    });
    let wrote = client.ok("live_set_notes", json!({ "clipId": BEAT, "notes": [note] })).await;
    assert_eq!(wrote["undoSteps"], 1);
    assert_eq!(client.ok("live_get_notes", json!({ "clipId": BEAT })).await["notes"], json!([note]));
    let rename = json!({ "trackId": "track:0", "props": { "name": "A" } });
    assert_eq!(client.ok("live_set_track_props", rename).await["undoSteps"], 1);
    let all = json!({ "trackId": "track:0", "props": { "name": "B", "mute": true, "solo": true } });
    assert_eq!(client.ok("live_set_track_props", all).await["undoSteps"], 2, "the rename is not a separate undo entry");
    client.ok("live_set_param", json!({ "paramId": "track:0/mixer/panning", "value": -0.5 })).await;
    assert_eq!(live.look("len(song._undo.done)"), 5, "Live has another number of undo entries than reported");
    // An edit that Live refuses halfway leaves no open undo step.
    live.run("song._broken = True\ndef refuse(specs): raise RuntimeError('no more notes')\nsong.tracks[0].clip_slots[0].clip.__dict__['add_new_notes'] = refuse");
    let error = client.refused("live_set_notes", json!({ "clipId": BEAT, "notes": [note] })).await;
    assert_eq!(error["code"], "SDK_REJECTED");
    assert!(live.look("song._undo.step is None").as_bool().unwrap_or(false), "the undo step is still open");
    assert_eq!(
        client.code("live_insert_device", json!({ "trackId": "track:0", "deviceName": "Reverb", "index": 0 })).await,
        "UNSUPPORTED"
    );
}

#[tokio::test]
async fn what_the_person_does_is_told_and_makes_ids_stale() {
    let (mut live, stage) = require!(script_stage("12.2.0"));
    let mut client = attached(&stage, "script").await;
    let mut heard = stage.studio.studio.events.listen(conductor_gateway::studio::events::Event::is_change);
    live.run("song.tempo = 99.5");
    assert!(hears(&mut heard, "ableton://song").await);
    live.run("song.tracks[0].clip_slots[0].clip.name = 'Groove'");
    assert!(hears(&mut heard, "ableton://clip/track%3A0%2Fclipslot%3A0%2Fclip/notes").await);
    // A new track at the end makes no id stale; a deleted track does.
    live.run("song.create_midi_track(-1)");
    let mute = json!({ "trackId": "track:1", "props": { "mute": true } });
    client.ok("live_set_track_props", mute.clone()).await;
    live.run("song.delete_track(0)");
    assert_eq!(client.code("live_set_track_props", mute.clone()).await, "STALE_REFERENCE");
    assert_eq!(live.look("song.tracks[1].mute"), false, "the refused call muted a track");
    client.ok("live_get_song_overview", json!({})).await;
    client.ok("live_set_track_props", mute).await;
    assert_eq!(live.look("[song.tracks[1].name, song.tracks[1].mute]"), json!(["Vocals", true]));
}

#[tokio::test]
async fn live_that_ends_is_told_and_found_again() {
    let (live, stage) = require!(script_stage("12.2.0"));
    let mut client = attached(&stage, "script").await;
    live.quit();
    assert!(!rendezvous::path(stage.studio.home.path()).exists(), "the rendezvous file was not removed");
    let error = client.refused("live_set_tempo", json!({ "bpm": 99 })).await;
    assert_eq!(error["code"], "HOST_OFFLINE");
    let again = require!(fakelive::script(stage.studio.home.path(), "12.2.0"));
    let mute = json!({ "trackId": "track:0", "props": { "mute": true } });
    assert_eq!(
        client.code("live_set_track_props", mute.clone()).await,
        "STALE_REFERENCE",
        "ids stay valid, although another Set may be open"
    );
    client.ok("live_get_song_overview", json!({})).await;
    client.ok("live_set_track_props", mute).await;
    drop(again);
}

#[tokio::test]
async fn a_write_that_live_did_not_answer_is_said_to_be_unsure() {
    let (mut live, stage) = require!(script_stage("12.2.0"));
    let mut client = attached(&stage, "script").await;
    // Live ends during the edit.
    live.run("import os\ndef end(self, index): os._exit(1)\nlom.Song.create_midi_track = end");
    let error = client.refused("live_create_track", json!({ "kind": "midi" })).await;
    assert_eq!((&error["code"], &error["effect"]), (&json!("TIMEOUT"), &json!("unknown")));
    assert!(error["message"].as_str().is_some_and(|it| it.contains("not known")), "{error}");
}
