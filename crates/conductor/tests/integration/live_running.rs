//! A running Live that a person uses at the same time: changes between a read and a write, bad
//! network paths, deletions, and hints.

use std::net::Ipv4Addr;
use std::time::Duration;

use conductor_core::config::LiveHostChoice;
use conductor_core::pending::Yes;
use conductor_core::policy::Channel;
use conductor_testkit::real::fakelive::{self, Faults, Running};
use conductor_testkit::require;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::live::{Client, Stage};
use crate::live_story::{BEAT, OscStage, attached, osc_stage, script_stage};

const CLIP: &str = "song.tracks[0].clip_slots[0].clip";
const LONG: Duration = Duration::from_secs(5);

/// The two hosts of a running Live, each with its client.
struct Both {
    hosts: Vec<(&'static str, Stage, Running, Client)>,
    _way: fakelive::Lossy,
}

async fn both() -> Result<Both, conductor_testkit::real::Missing> {
    let OscStage { live, way, stage } = osc_stage(LONG).await?;
    let osc = attached(&stage, "abletonosc").await;
    let (scripted, on_script) = script_stage("12.2.0")?;
    let script = attached(&on_script, "script").await;
    let hosts = vec![("abletonosc", stage, live, osc), ("script", on_script, scripted, script)];
    Ok(Both { hosts, _way: way })
}

async fn revision(client: &mut Client) -> Value {
    client.ok("live_get_song_overview", json!({})).await["revision"].clone()
}

fn write(revision: &Value) -> Value {
    json!({ "clipId": BEAT, "notes": [{ "pitch": 60, "startTime": 0, "duration": 1 }], "expectRevision": revision })
}

/// The notes that Live stores.
fn stored(live: &mut Running) -> Value {
    live.look(&format!(
        "[[it.pitch, it.start_time, it.duration, it.velocity, it.mute, it.probability] for it in {CLIP}.get_all_notes_extended()]"
    ))
}

/// Changes by a person that keep the number of notes.
fn changes(host: &str) -> Vec<String> {
    let first = format!("{CLIP}._notes[0]");
    let mut all = vec![
        format!("{first}.pitch = 41"),
        format!("{first}.velocity = 3.0"),
        format!("{first}.duration = 0.125"),
        format!("{first}.mute = True"),
        format!("{first}.start_time = 0.0625"),
        format!(
            "{CLIP}.remove_notes_extended(0, 128, 0.0, 0.5); {CLIP}.add_new_notes([lom.MidiNoteSpecification(99, 0.0, 0.5)])"
        ),
        format!("{CLIP}.add_new_notes([lom.MidiNoteSpecification(99, 3.5, 0.5)])"),
        format!("{CLIP}.remove_notes_extended(0, 128, -10.0, 100.0)"),
    ];
    if host == "script" {
        // AbletonOSC does not transfer the probability.
        all.push(format!("{first}.probability = 0.5"));
    }
    all
}

#[tokio::test]
async fn notes_that_a_person_changed_after_the_read_are_not_replaced() {
    for (host, _stage, mut live, mut client) in require!(both().await).hosts {
        for (n, change) in changes(host).into_iter().enumerate() {
            live.run(&format!(
                "{CLIP}._notes = []; {CLIP}.add_new_notes([lom.MidiNoteSpecification(36 + 2 * n, float(n), 0.5) for n in range(4)])"
            ));
            // Read the notes in every second case only. The revision comes from the overview in
            // both cases.
            if n % 2 == 0 {
                client.ok("live_get_notes", json!({ "clipId": BEAT })).await;
            }
            let seen = revision(&mut client).await;
            live.run(&change);
            let theirs = stored(&mut live);
            let error = client.refused("live_set_notes", write(&seen)).await;
            assert_eq!(error["code"], "STALE_REFERENCE", "{host}: {change}: {error}");
            assert_eq!(stored(&mut live), theirs, "{host}: {change}: something was written");
            let now = revision(&mut client).await;
            assert_ne!(now, seen, "{host}: {change}");
            client.ok("live_set_notes", write(&now)).await;
        }
    }
}

#[tokio::test]
async fn a_change_between_overview_and_notes_and_one_after_both_are_found() {
    for (host, _stage, mut live, mut client) in require!(both().await).hosts {
        let seen = revision(&mut client).await;
        live.run(&format!("{CLIP}._notes[1].velocity = 9.0"));
        client.ok("live_get_notes", json!({ "clipId": BEAT })).await;
        assert_eq!(
            client.code("live_set_notes", write(&seen)).await,
            "STALE_REFERENCE",
            "{host}: a change before the notes were read was overwritten"
        );
        let seen = revision(&mut client).await;
        client.ok("live_get_notes", json!({ "clipId": BEAT })).await;
        live.run(&format!("{CLIP}._notes[1].velocity = 8.0"));
        assert_eq!(
            client.code("live_set_notes", write(&seen)).await,
            "STALE_REFERENCE",
            "{host}: a change after the notes were read was overwritten"
        );
        let window = json!({ "fromBeat": 0, "toBeat": 1 });
        let partly = json!({ "clipId": BEAT, "notes": [], "window": window, "expectRevision": seen });
        assert_eq!(
            client.code("live_set_notes", partly).await,
            "STALE_REFERENCE",
            "{host}: a change was overwritten in a part of the clip"
        );
    }
}

#[tokio::test]
async fn an_unchanged_set_takes_every_write_with_its_revision() {
    for (host, stage, _live, mut client) in require!(both().await).hosts {
        let mut seen = revision(&mut client).await;
        client.ok("live_get_notes", json!({ "clipId": BEAT })).await;
        client.ok("live_list_devices", json!({ "trackId": "track:2" })).await;
        client.ok("live_get_track", json!({ "trackId": "track:0" })).await;
        assert_eq!(revision(&mut client).await, seen, "{host}: reading changed the revision");
        for (tool, mut arguments) in [
            ("live_set_notes", write(&seen)),
            ("live_set_param", json!({ "paramId": "track:2/device:0/param:1", "value": 0.3 })),
            ("live_set_clip_props", json!({ "clipId": BEAT, "props": { "loopEnd": 3.5 } })),
            ("live_set_track_props", json!({ "trackId": "track:1", "props": { "mute": true } })),
            ("live_set_param", json!({ "paramId": "track:2/device:0/param:1", "value": 0.7 })),
            ("live_set_notes", json!({ "clipId": BEAT, "notes": [] })),
        ] {
            arguments["expectRevision"] = seen.clone();
            let wrote = client.ok(tool, arguments).await;
            assert_ne!(wrote["revision"], seen, "{host}: {tool} did not change the revision");
            seen = wrote["revision"].clone();
        }
        assert_eq!(
            revision(&mut client).await,
            seen,
            "{host}: the revision differs from the one that the last write returned"
        );
        // A write of another session makes the revision of this session stale.
        let set = if host == "script" { "live_script" } else { "live_osc" };
        let mut other = stage.client().await;
        other.ok("live_get_notes", json!({ "clipId": BEAT, "setId": set })).await;
        let mut theirs = write(&seen);
        theirs["setId"] = json!(set);
        other.ok("live_set_notes", theirs).await;
        assert_eq!(client.code("live_set_notes", write(&seen)).await, "STALE_REFERENCE", "{host}");
    }
}

#[tokio::test]
async fn values_and_properties_that_a_person_changed_are_not_written_over() {
    for (host, _stage, mut live, mut client) in require!(both().await).hosts {
        client.ok("live_get_track", json!({ "trackId": "track:2" })).await;
        client.ok("live_get_track", json!({ "trackId": "track:0" })).await;
        client.ok("live_set_track_props", json!({ "trackId": "track:1", "props": { "solo": true } })).await;
        for (change, tool, arguments, look) in [
            (
                "song.tracks[2].devices[0].parameters[1].value = 0.9",
                "live_set_param",
                json!({ "paramId": "track:2/device:0/param:1", "value": 0.1 }),
                "round(song.tracks[2].devices[0].parameters[1].value, 3) == 0.9",
            ),
            (
                "song.tracks[2].mixer_device.volume.value = 0.25",
                "live_set_param",
                json!({ "paramId": "track:2/mixer/volume", "value": 0.1 }),
                "song.tracks[2].mixer_device.volume.value == 0.25",
            ),
            (
                "song.tracks[0].clip_slots[0].clip.loop_end = 2.0",
                "live_set_clip_props",
                json!({ "clipId": BEAT, "props": { "loopEnd": 3.0 } }),
                "song.tracks[0].clip_slots[0].clip.loop_end == 2.0",
            ),
            (
                "song.tracks[1].solo = False",
                "live_set_track_props",
                json!({ "trackId": "track:1", "props": { "solo": true } }),
                "song.tracks[1].solo == False",
            ),
        ] {
            let seen = revision(&mut client).await;
            live.run(change);
            let mut arguments = arguments;
            arguments["expectRevision"] = seen;
            assert_eq!(client.code(tool, arguments.clone()).await, "STALE_REFERENCE", "{host}: {change}");
            assert_eq!(live.look(look), true, "{host}: {change}: something was written");
            arguments["expectRevision"] = revision(&mut client).await;
            client.ok(tool, arguments).await;
        }
    }
}

#[tokio::test]
async fn a_revision_of_an_earlier_attachment_is_stale() {
    let (_live, first) = require!(script_stage("12.2.0"));
    let seen = {
        let mut client = attached(&first, "script").await;
        revision(&mut client).await
    };
    let (_live, second) = require!(script_stage("12.2.0"));
    let mut client = attached(&second, "script").await;
    assert_eq!(client.code("live_set_notes", write(&seen)).await, "STALE_REFERENCE");
}

#[tokio::test]
async fn doubled_and_late_replies_are_tolerated() {
    let OscStage { way, stage, mut live } = require!(osc_stage(LONG).await);
    let mut client = attached(&stage, "abletonosc").await;
    for (doubled, delayed) in [(true, None), (false, Some(40)), (true, Some(25)), (false, Some(300))] {
        *way.faults() = Faults { doubled, delayed: delayed.map(Duration::from_millis), ..Faults::default() };
        for n in 0..6 {
            let bpm = 90 + n;
            let song = client.ok("live_set_tempo", json!({ "bpm": bpm })).await;
            assert_eq!(song["tempo"], bpm, "doubled {doubled}, delayed {delayed:?}");
            assert_eq!(live.look("song.tempo"), json!(f64::from(bpm)), "doubled {doubled}, delayed {delayed:?}");
            let name = format!("Kit {n}");
            let props = json!({ "trackId": "track:0", "props": { "name": name, "mute": n % 2 == 0 } });
            let wrote = client.ok("live_set_track_props", props).await;
            assert_eq!((&wrote["name"], &wrote["mute"]), (&json!(name), &json!(n % 2 == 0)));
            client
                .ok("live_set_param", json!({ "paramId": "track:0/mixer/volume", "value": 0.1 * f64::from(n) }))
                .await;
        }
        // The network works again. Late datagrams must not count as changes by a person.
        *way.faults() = Faults::default();
        client.ok("live_set_track_props", json!({ "trackId": "track:0", "props": { "mute": false } })).await;
    }
}

#[tokio::test]
async fn lost_datagrams_cost_a_question_each_and_not_the_time_limit() {
    // A batch that waits for its timeout would take longer than the test.
    let OscStage { way, stage, mut live } = require!(osc_stage(Duration::from_secs(600)).await);
    let mut client = attached(&stage, "abletonosc").await;
    way.faults().lose_every = Some(10);
    for n in 0..10 {
        let read = client.ok("live_get_notes", json!({ "clipId": BEAT })).await;
        assert_eq!(read["count"], 4, "notes were lost or invented");
        let song = client.ok("live_get_song_overview", json!({})).await;
        assert_eq!((&song["trackCount"], &song["scaleName"]), (&json!(3), &json!("Minor")));
        let devices = client.ok("live_list_devices", json!({ "trackId": "track:2" })).await;
        assert_eq!(devices["mixer"].as_array().map(Vec::len), Some(4), "not volume, panning and two sends: {n}");
    }
    way.faults().lose_every = None;
    assert_eq!(live.look("song.tempo"), 124.0);
}

#[tokio::test]
async fn a_write_without_an_answer_says_what_is_known_of_it() {
    let OscStage { way, stage, mut live } = require!(osc_stage(Duration::from_millis(400)).await);
    let mut client = attached(&stage, "abletonosc").await;
    // Live receives the write and does not answer.
    way.faults().quit_at = Some("/live/song/set/tempo");
    let error = client.refused("live_set_tempo", json!({ "bpm": 77 })).await;
    assert_eq!((&error["code"], &error["effect"]), (&json!("TIMEOUT"), &json!("unknown")));
    assert!(error["message"].as_str().is_some_and(|it| it.contains("the write was sent")), "{error}");
    assert_eq!(live.look("song.tempo"), 77.0);
    *way.faults() = Faults::default();
    client.ok("live_get_song_overview", json!({})).await;
    // The write and its read-back succeed, but the overview after them is lost.
    way.faults().lose = Some(("/live/song/get/scale_name", 99));
    let error = client.refused("live_set_tempo", json!({ "bpm": 78 })).await;
    assert_eq!((&error["code"], &error["effect"]), (&json!("TIMEOUT"), &json!("unknown")));
    assert!(error["message"].as_str().is_some_and(|it| it.contains("the write was made")), "{error}");
    *way.faults() = Faults::default();
    // A launch without confirmation is not reported as a success.
    way.faults().quit_at = Some("/live/scene/fire");
    let error = client.refused("live_fire_scene", json!({ "sceneId": "scene:0" })).await;
    assert_eq!((&error["code"], &error["effect"]), (&json!("TIMEOUT"), &json!("unknown")));
}

/// Makes a call that must need an approval, approves it as a person, and repeats the call.
pub async fn agreed(stage: &Stage, client: &mut Client, tool: &str, arguments: Value) -> Value {
    let error = client.refused(tool, arguments.clone()).await;
    assert_eq!(error["code"], "APPROVAL_REQUIRED", "{tool} {arguments}: {error}");
    let id = Uuid::parse_str(error["approval_id"].as_str().unwrap_or_default()).expect("an id");
    let studio = &stage.studio.studio;
    studio.approvals.allow(studio, id, Yes::once("person:1000", Channel::Cli)).await.expect("allowed");
    client.ok(tool, arguments).await
}

#[tokio::test]
async fn deleting_in_a_running_live_asks_a_person_and_on_a_document_does_not() {
    for (host, stage, mut live, mut client) in require!(both().await).hosts {
        client.ok("live_get_song_overview", json!({})).await;
        let set = if host == "script" { "live_script" } else { "live_osc" };
        for (tool, arguments, look) in [
            ("live_delete_clip", json!({ "clipId": BEAT }), "song.tracks[0].clip_slots[0].has_clip"),
            ("live_delete_track", json!({ "trackId": "track:1" }), "len(song.tracks) == 3"),
            ("live_delete_track", json!({ "trackId": "track:1", "setId": set }), "len(song.tracks) == 3"),
        ] {
            assert_eq!(client.code(tool, arguments.clone()).await, "APPROVAL_REQUIRED", "{host}: {arguments}");
            assert_eq!(live.look(look), true, "{host}: something was deleted");
        }
        let dry = json!({ "trackId": "track:1", "dryRun": true });
        assert_eq!(client.code("live_delete_track", dry).await, "UNSUPPORTED", "a dry run was not refused");
        let gone = agreed(&stage, &mut client, "live_delete_track", json!({ "trackId": "track:1" })).await;
        assert_eq!(gone["deleted"], json!(["track:1"]));
        assert_eq!(live.look("[it.name for it in song.tracks]"), json!(["Drums", "Vocals"]));
        // On a document, the same session needs no approval for these calls.
        client.ok("live_open_set", json!({ "path": "golden.als" })).await;
        client.ok("live_delete_clip", json!({ "clipId": BEAT })).await;
        client.ok("live_delete_track", json!({ "trackId": "track:1" })).await;
    }
}

#[tokio::test]
async fn a_yes_for_a_deletion_is_for_the_set_as_it_was() {
    let (mut live, stage) = require!(script_stage("12.2.0"));
    let mut client = attached(&stage, "script").await;
    let delete = json!({ "trackId": "track:1", "setId": "live_script" });
    let error = client.refused("live_delete_track", delete.clone()).await;
    let id = Uuid::parse_str(error["approval_id"].as_str().unwrap_or_default()).expect("an id");
    let studio = &stage.studio.studio;
    studio.approvals.allow(studio, id, Yes::once("person:1000", Channel::Cli)).await.expect("allowed");
    live.run("song.delete_track(0)");
    client.ok("live_get_song_overview", json!({})).await;
    assert_ne!(
        client.code("live_delete_track", delete).await,
        "",
        "the deletion ran, although another track now has the id"
    );
    assert_eq!(live.look("[it.name for it in song.tracks]"), json!(["Bass", "Vocals"]));
}

#[tokio::test]
async fn a_deletion_that_attaches_live_by_itself_deletes_nothing() {
    let nowhere =
        std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("an address");
    let stage = Stage::with(|settings| {
        settings.host = LiveHostChoice::Auto;
        settings.osc.peer = nowhere;
    });
    let mut live = require!(fakelive::script(stage.studio.home.path(), "12.2.0"));
    let mut client = stage.client().await;
    let error = client.refused("live_delete_track", json!({ "trackId": "track:0" })).await;
    assert!(["STALE_REFERENCE", "APPROVAL_REQUIRED"].contains(&error["code"].as_str().unwrap_or_default()), "{error}");
    assert_eq!(live.look("len(song.tracks)"), 3);
    let named = json!({ "trackId": "track:0", "setId": "live_script" });
    assert_eq!(client.code("live_delete_track", named).await, "APPROVAL_REQUIRED");
}

/// Each hint names a host that supports the operation, or states that no host does.
#[tokio::test]
async fn a_hint_names_a_host_that_can_or_says_that_none_can() {
    let render = json!({ "trackId": "track:2", "startBeat": 0, "endBeat": 8 });
    let insert = json!({ "trackId": "track:2", "deviceName": "Reverb", "index": 0 });
    let dry = json!({ "bpm": 99, "dryRun": true });
    for (host, _stage, _live, mut client) in require!(both().await).hosts {
        for (tool, arguments, names) in [
            ("live_render_track", render.clone(), "a document"),
            ("live_save_set", json!({}), "a document"),
            ("live_diff_set", json!({}), "a document"),
            ("live_set_tempo", dry.clone(), "a document"),
            ("live_undo", json!({ "dryRun": true }), "a document"),
        ] {
            let error = client.refused(tool, arguments).await;
            let hint = error["hint"].as_str().unwrap_or_default().to_owned();
            assert_eq!(error["code"], "UNSUPPORTED", "{host} {tool}: {error}");
            assert!(hint.contains(names) && !hint.contains("[live] host"), "{host} {tool}: {hint}");
        }
        let error = client.refused("live_insert_device", insert.clone()).await;
        let hint = error["hint"].as_str().unwrap_or_default().to_owned();
        let names = if host == "script" { "a document" } else { "Live 12.3" };
        assert!(hint.contains(names) && !hint.contains("\"abletonosc\""), "{host}: {hint}");
    }
    let stage = Stage::new();
    let mut client = stage.opened().await;
    client.ok("live_set_tempo", dry).await;
    let error = client.refused("live_render_track", render).await;
    assert!(
        error["hint"].as_str().is_some_and(|it| it.contains("No host supports")),
        "the hint names a host, although none supports this: {error}"
    );
    let unknown = json!({ "trackId": "track:0", "deviceName": "Saturator", "index": 0 });
    let error = client.refused("live_insert_device", unknown).await;
    let hint = error["hint"].as_str().unwrap_or_default().to_owned();
    assert!(hint.contains("\"script\"") && !hint.contains("\"abletonosc\""), "{hint}");
    let error = client.refused("live_transport", json!({ "action": "play" })).await;
    assert!(error["hint"].as_str().is_some_and(|it| it.contains("a running Live")), "{error}");
}

#[tokio::test]
async fn an_attribute_that_this_live_lacks_is_explained() {
    let (mut live, stage) = require!(script_stage("12.2.0"));
    let mut client = attached(&stage, "script").await;
    live.run("del song.tracks[2].devices[0].parameters[1].__dict__['automation_state']");
    let devices = client.ok("live_list_devices", json!({ "trackId": "track:2" })).await;
    assert_eq!(devices["devices"][0]["params"][1]["automated"], Value::Null, "an unknown value was invented");
    live.run("del song.tracks[2].devices[0].parameters[1].__dict__['is_quantized']");
    let error = client.refused("live_list_devices", json!({ "trackId": "track:2" })).await;
    let message = error["message"].as_str().unwrap_or_default();
    assert_eq!(error["code"], "UNSUPPORTED");
    assert!(
        message.contains("Live 12.2.0") && message.contains("devices") && message.contains("is_quantized"),
        "{error}"
    );
}
