//! Calls the Live tools in the same sequence on every host with the same Set: a document, a
//! simulated Live with AbletonOSC, and a simulated Live with our script.
//!
//! Supported operations must give the same results on all hosts. Unsupported operations must be
//! refused with a reason.

use std::time::Duration;

use conductor_hosts::live::abletonosc::wire;
use conductor_testkit::real::Missing;
use conductor_testkit::real::fakelive::{self, Lossy, Running};
use conductor_testkit::require;
use serde_json::{Value, json};

use crate::live::{Client, Stage, write_wav};
use crate::live_running::agreed;

pub const BEAT: &str = "track:0/clipslot:0/clip";

/// A simulated Live with AbletonOSC, and a network path that a test can disturb.
pub struct OscStage {
    pub live: Running,
    pub way: Lossy,
    pub stage: Stage,
}

pub async fn osc_stage(timeout: Duration) -> Result<OscStage, Missing> {
    let live = fakelive::osc()?;
    let way = Lossy::before(live.address()).await.expect("a way");
    // Replies are sent to the source port of the request, so any free port works.
    let osc = wire::Settings { peer: way.address, reply_port: 0, timeout };
    let stage = Stage::with(|settings| settings.osc = osc);
    Ok(OscStage { live, way, stage })
}

pub async fn attached(stage: &Stage, host: &str) -> Client {
    let mut client = stage.client().await;
    let song = client.ok("live_open_set", json!({ "host": host })).await;
    assert_eq!(song["host"], host);
    client
}

pub fn script_stage(version: &str) -> Result<(Running, Stage), Missing> {
    let stage = Stage::new();
    Ok((fakelive::script(stage.studio.home.path(), version)?, stage))
}

/// The intended differences between hosts.
struct HostFacts {
    host: &'static str,
    unknown: &'static [&'static str],
    /// The unit of volume: a document stores gain, a running Live reports its fader position.
    unit: &'static str,
    /// Number of undo entries for a rename with a mute.
    rename_steps: u32,
    inserts: Result<(), &'static str>,
    renders: Result<(), &'static str>,
}

/// Deletes an item. In a running Live, a person must approve it.
async fn delete(stage: &Stage, client: &mut Client, host: &str, tool: &str, arguments: Value) -> Value {
    if host == "document" { client.ok(tool, arguments).await } else { agreed(stage, client, tool, arguments).await }
}

async fn play_story(stage: &Stage, client: &mut Client, facts: &HostFacts) {
    let song = client.ok("live_get_song_overview", json!({})).await;
    assert_eq!(
        (&song["tempo"], &song["rootNote"], &song["scaleName"], &song["timeSignature"]),
        (&json!(124), &json!(0), &json!("Minor"), &json!("4/4"))
    );
    assert_eq!(song["scaleIntervals"], json!([0, 2, 3, 5, 7, 8, 10]));
    assert_eq!((&song["trackCount"], &song["sceneCount"], &song["host"]), (&json!(3), &json!(2), &json!(facts.host)));
    let unknown: Vec<&str> = song["unknown"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(unknown, facts.unknown, "{song}");
    assert!(unknown.iter().all(|it| song[*it].is_null()), "an unknown value was invented: {song}");
    let found = client.ok("live_find_track", json!({ "query": "DRU" })).await;
    assert_eq!(found, json!({ "matches": [{ "id": "track:0", "name": "Drums", "type": "midi" }], "count": 1 }));
    assert_eq!(client.ok("live_find_track", json!({ "query": "horns" })).await["count"], 0);
    let clips = client.ok("live_list_clips", json!({ "trackId": "track:0" })).await;
    assert_eq!(
        clips["session"],
        json!([
            { "slotId": "track:0/clipslot:0", "clipId": BEAT, "name": "Beat", "kind": "midi" },
            { "slotId": "track:0/clipslot:1", "clipId": null, "name": null, "kind": "empty" },
        ])
    );
    let arranged = client.ok("live_list_clips", json!({ "trackId": "track:2" })).await;
    assert_eq!(
        (&arranged["arrangement"][0]["startBeat"], &arranged["arrangement"][0]["kind"]),
        (&json!(0), &json!("audio"))
    );
    assert_eq!(client.ok("live_get_notes", json!({ "clipId": BEAT })).await["count"], 4);
    let slower = client.ok("live_set_tempo", json!({ "bpm": 90.5 })).await;
    assert_eq!((&slower["tempo"], &slower["undoSteps"]), (&json!(90.5), &json!(1)));
    assert_ne!(slower["revision"], song["revision"]);
    let props = json!({ "trackId": "track:0", "props": { "name": "Kit <1>", "mute": true } });
    let props = client.ok("live_set_track_props", props).await;
    assert_eq!(
        (&props["name"], &props["mute"], &props["solo"], &props["arm"], &props["undoSteps"]),
        (&json!("Kit <1>"), &json!(true), &json!(false), &json!(false), &json!(facts.rename_steps))
    );
    let notes = json!([
        { "pitch": 0, "startTime": 0, "duration": 1 },
        { "pitch": 127, "startTime": 1.5, "duration": 2, "velocity": 90 },
        { "pitch": 127, "startTime": 2.5, "duration": 0.5, "muted": true },
    ]);
    let wrote = client.ok("live_set_notes", json!({ "clipId": BEAT, "notes": notes })).await;
    assert_eq!((&wrote["count"], &wrote["removed"], &wrote["adjusted"]), (&json!(3), &json!(4), &json!(1)));
    let read = client.ok("live_get_notes", json!({ "clipId": BEAT })).await;
    assert_eq!(
        read["notes"],
        json!([
            { "pitch": 0, "startTime": 0, "duration": 1, "velocity": 100 },
            { "pitch": 127, "startTime": 1.5, "duration": 1, "velocity": 90 },
            { "pitch": 127, "startTime": 2.5, "duration": 0.5, "velocity": 100, "muted": true },
        ]),
        "wrong notes: the lowest or highest key is missing, or the overlap was not cut"
    );
    let window = json!({ "fromBeat": 1, "toBeat": 2, "fromPitch": 100 });
    let inside = json!([{ "pitch": 101, "startTime": 1.25, "duration": 0.25 }]);
    let wrote = client.ok("live_set_notes", json!({ "clipId": BEAT, "notes": inside, "window": window })).await;
    assert_eq!(
        (&wrote["count"], &wrote["removed"]),
        (&json!(3), &json!(1)),
        "not exactly the notes that start inside the window were replaced"
    );
    let track = client.ok("live_create_track", json!({ "kind": "midi" })).await;
    assert_eq!((&track["id"], &track["kind"], &track["clipSlotCount"]), (&json!("track:3"), &json!("midi"), &json!(2)));
    assert_eq!(
        (&track["mutedViaSolo"], &track["arrangementClipCount"], &track["deviceCount"], &track["mixer"]["sendCount"]),
        (&json!(false), &json!(0), &json!(0), &json!(2)),
        "wrong counts"
    );
    let slot = json!({ "slotId": "track:3/clipslot:1", "lengthBeats": 8 });
    let clip = client.ok("live_create_midi_clip", slot.clone()).await;
    assert_eq!((&clip["clipId"], &clip["lengthBeats"]), (&json!("track:3/clipslot:1/clip"), &json!(8)));
    assert_eq!(
        client.code("live_create_midi_clip", slot).await,
        "SDK_REJECTED",
        "a clip was created in a slot that is in use"
    );
    let louder = client.ok("live_set_param", json!({ "paramId": "track:0/mixer/volume", "value": 0.5 })).await;
    assert_eq!((&louder["value"], &louder["unit"]), (&json!(0.5), &json!(facts.unit)));
    assert_eq!(
        client.code("live_set_param", json!({ "paramId": "track:0/mixer/volume", "value": 9 })).await,
        "BAD_INPUT"
    );
    let devices = client.ok("live_list_devices", json!({ "trackId": "track:2" })).await;
    let param = devices["devices"][1]["params"][1].clone();
    let set = client.ok("live_set_param", json!({ "paramId": param["id"], "value": param["min"] })).await;
    assert_eq!((&set["value"], &set["previous"]), (&param["min"], &param["value"]));
    assert_eq!(devices["mixer"].as_array().map(Vec::len), Some(4), "not volume, panning and two sends");
    let insert = json!({ "trackId": "track:3", "deviceName": "Reverb", "index": 99 });
    match facts.inserts {
        Ok(()) => assert_eq!(client.ok("live_insert_device", insert).await["device"]["id"], "track:3/device:0"),
        Err(code) => assert_eq!(client.code("live_insert_device", insert).await, code),
    }
    let render = json!({ "trackId": "track:2", "startBeat": 0, "endBeat": 8 });
    match facts.renders {
        Ok(()) => assert_eq!(client.ok("live_render_track", render).await["track"], "Vocals"),
        Err(code) => assert_eq!(client.code("live_render_track", render).await, code),
    }
    // Undo everything.
    let undone = client.ok("live_undo", json!({ "steps": 100 })).await;
    assert_eq!((&undone["canUndo"], &undone["canRedo"]), (&json!(false), &json!(true)));
    let before = client.ok("live_get_song_overview", json!({})).await;
    assert_eq!(
        (&before["tempo"], &before["trackCount"], &before["revision"]),
        (&json!(124), &json!(3), &song["revision"])
    );
    assert_eq!(client.ok("live_get_notes", json!({ "clipId": BEAT })).await["count"], 4);
    let redone = client.ok("live_redo", json!({ "steps": 100 })).await;
    assert_eq!(redone["redone"], undone["undone"]);
    assert_eq!(client.ok("live_get_song_overview", json!({})).await["tempo"], 90.5);
    // Resources mirror the tools on every host.
    assert_eq!(client.read("ableton://clip/track%3A0%2Fclipslot%3A0%2Fclip/notes").await["count"], 3);
    let track = client.read("ableton://track/0").await;
    assert_eq!((&track["clips"][0]["name"], &track["clips"][1]["kind"]), (&json!("Beat"), &json!("empty")));
    // Set clip properties, delete items, and draw a picture.
    let props = json!({ "clipId": BEAT, "props": { "name": "Break", "muted": true, "loopStart": 1, "loopEnd": 3 } });
    let clip = client.ok("live_set_clip_props", props).await;
    assert_eq!(
        (&clip["name"], &clip["muted"], &clip["loopStart"], &clip["loopEnd"]),
        (&json!("Break"), &json!(true), &json!(1), &json!(3))
    );
    let drawn = client.call("live_render_clip", json!({ "clipId": BEAT, "format": "svg" })).await;
    assert_eq!((&drawn["isError"], &drawn["structuredContent"]["count"]), (&json!(false), &json!(3)), "{drawn}");
    let gone = delete(stage, client, facts.host, "live_delete_clip", json!({ "clipId": BEAT })).await;
    assert_eq!(gone["deleted"], json!([BEAT]));
    assert_eq!(client.code("live_get_notes", json!({ "clipId": BEAT })).await, "STALE_REFERENCE");
    let gone = delete(stage, client, facts.host, "live_delete_track", json!({ "trackId": "track:3" })).await;
    assert_eq!((&gone["deleted"], &gone["shifted"]), (&json!(["track:3"]), &json!(true)));
    // Codes are the same on every host.
    for (tool, arguments, code) in [
        ("live_list_clips", json!({ "trackId": "track:9" }), "STALE_REFERENCE"),
        ("live_list_clips", json!({ "trackId": "scene:0" }), "WRONG_TYPE"),
        ("live_list_clips", json!({ "trackId": "track:01" }), "BAD_INPUT"),
        ("live_get_notes", json!({ "clipId": "track:0" }), "WRONG_TYPE"),
        ("live_get_notes", json!({ "clipId": "track:0/clipslot:9/clip" }), "STALE_REFERENCE"),
        ("live_create_midi_clip", json!({ "slotId": "track:2/clipslot:0", "lengthBeats": 4 }), "WRONG_TYPE"),
        ("live_set_param", json!({ "paramId": "track:2/device:0", "value": 0 }), "WRONG_TYPE"),
        ("live_set_param", json!({ "paramId": "track:2/device:9/param:0", "value": 0 }), "STALE_REFERENCE"),
        ("live_set_tempo", json!({ "bpm": 5 }), "BAD_INPUT"),
        ("live_set_tempo", json!({ "bpm": 99, "expectRevision": "0" }), "STALE_REFERENCE"),
    ] {
        assert_eq!(client.code(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
}

#[tokio::test]
async fn the_story_on_a_document() {
    let stage = Stage::new();
    write_wav(&stage, "vox_take.wav");
    let mut client = stage.opened().await;
    let facts =
        HostFacts { host: "document", unknown: &[], unit: "gain", rename_steps: 1, inserts: Ok(()), renders: Ok(()) };
    play_story(&stage, &mut client, &facts).await;
}

#[tokio::test]
async fn the_story_over_abletonosc() {
    let mut on = require!(osc_stage(Duration::from_secs(5)).await);
    let mut client = attached(&on.stage, "abletonosc").await;
    let facts = HostFacts {
        host: "abletonosc",
        unknown: &["scaleMode", "gridQuantization", "gridIsTriplet", "returnTrackCount"],
        unit: "live",
        rename_steps: 2,
        inserts: Err("UNSUPPORTED"),
        renders: Err("UNSUPPORTED"),
    };
    play_story(&on.stage, &mut client, &facts).await;
    assert_eq!(on.live.look("[it.name for it in song.tracks]"), json!(["Kit <1>", "Bass", "Vocals"]));
    plays(&on.stage, &mut client, &mut on.live).await;
}

#[tokio::test]
async fn the_story_through_our_script() {
    let (mut live, stage) = require!(script_stage("12.3.0"));
    let mut client = attached(&stage, "script").await;
    let facts = HostFacts {
        host: "script",
        unknown: &["gridQuantization", "gridIsTriplet"],
        unit: "live",
        rename_steps: 2,
        inserts: Ok(()),
        renders: Err("UNSUPPORTED"),
    };
    play_story(&stage, &mut client, &facts).await;
    assert_eq!(live.look("[it.name for it in song.tracks]"), json!(["Kit <1>", "Bass", "Vocals"]));
    plays(&stage, &mut client, &mut live).await;
}

/// The part for a running Live only: launch, transport, group tracks and unsupported tools.
async fn plays(stage: &Stage, client: &mut Client, live: &mut Running) {
    let clip = "track:1/clipslot:0/clip";
    assert_eq!(client.ok("live_fire_clip", json!({ "clipId": clip })).await, json!({ "id": clip, "state": "fired" }));
    assert_eq!(live.look("song.tracks[1].clip_slots[0].clip.is_playing"), true);
    client.ok("live_fire_scene", json!({ "sceneId": "scene:1" })).await;
    assert_eq!(live.look("song.scenes[1].fired"), 1);
    let now = client.ok("live_transport", json!({ "action": "play", "beat": 8 })).await;
    assert_eq!(now, json!({ "isPlaying": true, "beat": 8, "tempo": 90.5 }));
    client.ok("live_transport", json!({ "action": "record_on" })).await;
    assert_eq!(live.look("song.record_mode"), true);
    assert_eq!(client.ok("live_transport", json!({ "action": "stop" })).await["isPlaying"], false);
    for (tool, arguments, code) in [
        ("live_fire_scene", json!({ "sceneId": "scene:9" }), "STALE_REFERENCE"),
        ("live_fire_clip", json!({ "clipId": "track:2/clipslot:0/clip" }), "STALE_REFERENCE"),
        ("live_save_set", json!({}), "UNSUPPORTED"),
        ("live_diff_set", json!({}), "UNSUPPORTED"),
        ("live_set_tempo", json!({ "bpm": 99, "dryRun": true }), "UNSUPPORTED"),
    ] {
        assert_eq!(client.code(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
    // A group track has no clips, cannot be armed, and is deleted together with its tracks.
    live.run(
        "g = song.add('Band', 'group'); song.tracks = lom.Tup(song.tracks[:1] + (g,) + song.tracks[1:3]); \
              song.tracks[2].group_track = g; song.tracks[3].group_track = g",
    );
    let song = client.ok("live_get_song_overview", json!({})).await;
    assert_eq!(song["tracks"][1], json!({ "id": "track:1", "name": "Band", "type": "group" }));
    let arm = json!({ "trackId": "track:1", "props": { "arm": true } });
    assert_eq!(client.code("live_set_track_props", arm).await, "WRONG_TYPE");
    let create = json!({ "slotId": "track:1/clipslot:0", "lengthBeats": 4 });
    assert_eq!(client.code("live_create_midi_clip", create).await, "WRONG_TYPE");
    let gone = agreed(stage, client, "live_delete_track", json!({ "trackId": "track:1" })).await;
    assert_eq!(gone["deleted"], json!(["track:1", "track:2", "track:3"]));
    assert_eq!(client.ok("live_get_song_overview", json!({})).await["trackCount"], 1);
}

#[tokio::test]
async fn four_hundred_notes_are_listed_and_more_are_summed_up_on_every_host() {
    let on = require!(osc_stage(Duration::from_secs(5)).await);
    let (_live, scripted) = require!(script_stage("12.2.0"));
    let stage = Stage::new();
    let notes = |count: usize| -> Value {
        (0..count).map(|n| json!({ "pitch": n % 128, "startTime": n as f64 * 0.25, "duration": 0.25 })).collect()
    };
    for mut client in
        [stage.opened().await, attached(&on.stage, "abletonosc").await, attached(&scripted, "script").await]
    {
        for count in [400, 401] {
            let wrote = client.ok("live_set_notes", json!({ "clipId": BEAT, "notes": notes(count) })).await;
            assert_eq!(wrote["count"], count);
            let read = client.ok("live_get_notes", json!({ "clipId": BEAT })).await;
            // The client parses the resource, so it must be valid JSON at any size.
            assert_eq!(client.read("ableton://clip/track%3A0%2Fclipslot%3A0%2Fclip/notes").await, read);
            if count == 400 {
                assert_eq!(read["notes"].as_array().map(Vec::len), Some(400));
            } else {
                assert_eq!((&read["truncated"], read["firstNotes"].as_array().map(Vec::len)), (&json!(true), Some(50)));
                assert_eq!(read["summary"], json!({ "pitchRange": [0, 127], "spanBeats": 100.25 }));
                let page = client.ok("live_get_notes", json!({ "clipId": BEAT, "offset": 400 })).await;
                assert_eq!((page["notes"].as_array().map(Vec::len), page.get("nextOffset")), (Some(1), None));
            }
        }
    }
}
