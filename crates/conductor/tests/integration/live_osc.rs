//! A running Live over AbletonOSC: the tools on a strict stand-in, the faults of a lossy peer, and recorded datagrams.
//!
//! The stand-in proves wiring and protocol, never what Live does.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conductor::hosts::live::Refusal;
use conductor::hosts::live::abletonosc::wire::{Settings, Wire, get_with, tell};
use rosc::{OscMessage, OscPacket, OscType};
use serde_json::{Value, json};
use tokio::net::UdpSocket;

use crate::live::{Client, Stage};

#[derive(Clone)]
struct Track {
    name: String,
    midi: bool,
    mute: bool,
    volume: f32,
    slots: Vec<Option<Vec<OscType>>>,
}

/// What goes wrong on the way.
#[derive(Default)]
struct Faults {
    /// Replies at this address are lost.
    lose: Option<&'static str>,
    /// Writes at this address do nothing.
    ignore: Option<&'static str>,
    /// Errors that belong to nothing come first.
    stray_error: bool,
    silent: bool,
}

struct Model {
    tempo: f32,
    tracks: Vec<Track>,
    undo: Vec<Vec<Track>>,
    unknown: Vec<String>,
    faults: Faults,
}

#[derive(Clone)]
struct Peer {
    address: SocketAddr,
    model: Arc<Mutex<Model>>,
}

fn track(name: &str, midi: bool) -> Track {
    Track { name: name.into(), midi, mute: false, volume: 0.85, slots: vec![None, None] }
}

fn int(value: &OscType) -> usize {
    value.clone().int().and_then(|it| usize::try_from(it).ok()).unwrap_or(usize::MAX)
}

const OUT: &str = "Error handling OSC message: Index out of range";

impl Model {
    /// The answer of one message: values, nothing for a write, or the text of an error.
    fn answer(&mut self, address: &str, args: &[OscType]) -> Result<Option<Vec<OscType>>, String> {
        let at = |n: usize| args.get(n).map(int).unwrap_or(usize::MAX);
        let plain = |value: OscType| Ok(Some(vec![value]));
        if self.faults.ignore == Some(Box::leak(address.to_owned().into_boxed_str())) {
            return Ok(None);
        }
        match address {
            "/live/song/get/tempo" => plain(OscType::Float(self.tempo)),
            "/live/song/get/root_note" => plain(OscType::Int(0)),
            "/live/song/get/scale_name" => plain("Minor".into()),
            "/live/song/get/num_scenes" => plain(OscType::Int(2)),
            "/live/song/get/num_tracks" => plain(OscType::Int(self.tracks.len() as i32)),
            "/live/song/get/cue_points" => Ok(Some(Vec::new())),
            "/live/song/get/signature_numerator" | "/live/song/get/signature_denominator" => plain(OscType::Int(4)),
            "/live/song/get/can_undo" => plain(OscType::Bool(!self.undo.is_empty())),
            "/live/song/get/can_redo" => plain(OscType::Bool(false)),
            "/live/song/undo" => {
                if let Some(old) = self.undo.pop() {
                    self.tracks = old;
                }
                Ok(None)
            }
            "/live/song/set/tempo" => {
                self.tempo = args[0].clone().float().ok_or("tempo must be a float")?;
                Ok(None)
            }
            "/live/song/get/track_data" => {
                let words: Vec<String> = args.iter().skip(2).filter_map(|it| it.clone().string()).collect();
                let (from, to) = (at(0), if args[1] == OscType::Int(-1) { self.tracks.len() } else { at(1) });
                let mut out = Vec::new();
                for track in self.tracks.get(from..to).ok_or(OUT)? {
                    for word in &words {
                        match word.as_str() {
                            "track.name" => out.push(track.name.as_str().into()),
                            "track.has_midi_input" => out.push(OscType::Bool(track.midi)),
                            "track.is_foldable" => out.push(OscType::Bool(false)),
                            "clip.name" => out.extend(
                                track.slots.iter().map(|it| if it.is_some() { "".into() } else { OscType::Nil }),
                            ),
                            "device.name" => {}
                            other => return Err(format!("no property {other}")),
                        }
                    }
                }
                Ok(Some(out))
            }
            "/live/song/create_midi_track" | "/live/song/create_audio_track" => {
                self.undo.push(self.tracks.clone());
                self.tracks.push(track("new", address.contains("midi")));
                Ok(None)
            }
            "/live/song/delete_track" => {
                if at(0) >= self.tracks.len() {
                    return Err(OUT.into());
                }
                self.undo.push(self.tracks.clone());
                self.tracks.remove(at(0));
                Ok(None)
            }
            _ => self.of_track(address, args),
        }
    }

    fn of_track(&mut self, address: &str, args: &[OscType]) -> Result<Option<Vec<OscType>>, String> {
        let n = args.first().map(int).unwrap_or(usize::MAX);
        let track = self.tracks.get_mut(n).ok_or(OUT)?;
        let echo = |value: OscType| Ok(Some(vec![OscType::Int(n as i32), value]));
        match address {
            "/live/track/get/name" => echo(track.name.as_str().into()),
            "/live/track/get/mute" => echo(OscType::Int(i32::from(track.mute))),
            "/live/track/get/solo" | "/live/track/get/can_be_armed" => echo(OscType::Bool(false)),
            "/live/track/get/num_devices" => echo(OscType::Int(0)),
            "/live/track/get/panning" => echo(OscType::Float(0.0)),
            "/live/track/get/volume" => echo(OscType::Float(track.volume)),
            "/live/track/get/devices/name"
            | "/live/track/get/devices/class_name"
            | "/live/track/get/arrangement_clips/name"
            | "/live/track/get/arrangement_clips/start_time"
            | "/live/track/get/arrangement_clips/length" => Ok(Some(vec![OscType::Int(n as i32)])),
            "/live/track/set/name" => {
                track.name = args[1].clone().string().ok_or("a name is a string")?;
                Ok(None)
            }
            "/live/track/set/mute" => {
                track.mute = args[1].clone().int().ok_or("mute is an integer")? != 0;
                Ok(None)
            }
            "/live/track/set/volume" => {
                track.volume = args[1].clone().float().ok_or("volume is a float")?;
                Ok(None)
            }
            _ => {
                let slot = args.get(1).map(int).unwrap_or(usize::MAX);
                let midi = track.midi;
                let slot_ref = track.slots.get_mut(slot).ok_or(OUT)?;
                let head = [OscType::Int(n as i32), OscType::Int(slot as i32)];
                match address {
                    "/live/clip_slot/get/has_clip" => {
                        Ok(Some(vec![head[0].clone(), head[1].clone(), OscType::Bool(slot_ref.is_some())]))
                    }
                    "/live/clip_slot/create_clip" if slot_ref.is_some() => {
                        Err("Error handling OSC message: Clip slot already has a clip".into())
                    }
                    "/live/clip_slot/create_clip" if !midi => {
                        Err("Error handling OSC message: Can only create clips in MIDI tracks".into())
                    }
                    "/live/clip_slot/create_clip" => {
                        *slot_ref = Some(Vec::new());
                        Ok(None)
                    }
                    "/live/clip_slot/delete_clip" => {
                        *slot_ref = None;
                        Ok(None)
                    }
                    "/live/clip_slot/fire" => Ok(None),
                    _ => {
                        let notes = slot_ref
                            .as_mut()
                            .ok_or("Error handling OSC message: 'NoneType' object has no attribute 'x'")?;
                        match address {
                            "/live/clip/get/name" => Ok(Some(vec![head[0].clone(), head[1].clone(), "Beat".into()])),
                            "/live/clip/get/notes" if args.len() == 6 => {
                                Ok(Some(head.into_iter().chain(notes.iter().cloned()).collect()))
                            }
                            "/live/clip/remove/notes" if args.len() == 6 => {
                                notes.clear();
                                Ok(None)
                            }
                            "/live/clip/add/notes" if args.len() % 5 == 2 => {
                                notes.extend_from_slice(&args[2..]);
                                Ok(None)
                            }
                            other => {
                                self.unknown.push(other.to_owned());
                                Err(format!("Unknown OSC address: {other}"))
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Peer {
    async fn start() -> Peer {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = socket.local_addr().expect("an address");
        let tracks = vec![track("Drums", true), track("Bass", true), track("Vocals", false)];
        let model = Model { tempo: 124.0, tracks, undo: Vec::new(), unknown: Vec::new(), faults: Faults::default() };
        let peer = Peer { address, model: Arc::new(Mutex::new(model)) };
        let known: BTreeSet<&str> = ADDRESSES.lines().collect();
        let serving = peer.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 65_536];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let Ok((_, OscPacket::Message(message))) = rosc::decoder::decode_udp(&buffer[..length]) else {
                    continue;
                };
                assert!(known.contains(message.addr.as_str()), "{} is no address of AbletonOSC", message.addr);
                for reply in serving.replies(&message) {
                    let bytes = rosc::encoder::encode(&OscPacket::Message(reply)).expect("encodes");
                    let _ = socket.send_to(&bytes, from).await;
                }
            }
        });
        peer
    }

    fn model<T>(&self, look: impl FnOnce(&mut Model) -> T) -> T {
        look(&mut self.model.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn replies(&self, message: &OscMessage) -> Vec<OscMessage> {
        let say = |addr: &str, args: Vec<OscType>| OscMessage { addr: addr.into(), args };
        self.model(|model| {
            if model.faults.silent {
                return Vec::new();
            }
            if message.addr == "/live/test" {
                return vec![say("/live/test", vec!["ok".into()])];
            }
            let mut out = Vec::new();
            if model.faults.stray_error {
                out.push(say("/live/error", vec!["an old grievance".into()]));
            }
            match model.answer(&message.addr, &message.args) {
                Ok(Some(_)) if model.faults.lose.is_some_and(|it| it == message.addr) => {}
                Ok(Some(values)) => out.push(say(&message.addr, values)),
                Ok(None) => {}
                Err(text) => out.push(say("/live/error", vec![text.into()])),
            }
            out
        })
    }

    fn settings(&self) -> Settings {
        // The answers go back to where the question came from, so any free port will do.
        Settings { peer: self.address, reply_port: 0, timeout: Duration::from_millis(300) }
    }
}

const ADDRESSES: &str = include_str!("abletonosc-addresses.txt");

async fn attached() -> (Peer, Stage, Client) {
    let peer = Peer::start().await;
    let osc = peer.settings();
    let stage = Stage::with(|settings| settings.osc = osc);
    let mut client = stage.client().await;
    let song = client.ok("live_open_set", json!({ "host": "abletonosc" })).await;
    assert_eq!((&song["setId"], &song["host"]), (&json!("live_osc"), &json!("abletonosc")));
    (peer, stage, client)
}

const CLIP: &str = "track:0/clipslot:0/clip";

#[tokio::test]
async fn the_tools_work_on_a_running_live() {
    let (peer, _stage, mut client) = attached().await;
    let song = client.ok("live_get_song_overview", json!({})).await;
    assert_eq!(
        (&song["tempo"], &song["scaleIntervals"], &song["trackCount"]),
        (&json!(124), &json!([0, 2, 3, 5, 7, 8, 10]), &json!(3))
    );
    assert_eq!(
        (&song["returnTrackCount"], &song["path"]),
        (&Value::Null, &Value::Null),
        "what is not known is not made up"
    );
    assert!(song["unknown"].as_array().is_some_and(|it| it.contains(&json!("returnTrackCount"))));
    assert_eq!(client.ok("live_find_track", json!({ "query": "voc" })).await["matches"][0]["id"], "track:2");
    assert_eq!(client.ok("live_set_tempo", json!({ "bpm": 90.5 })).await["tempo"], 90.5);
    assert_eq!(peer.model(|it| it.tempo), 90.5);
    let named = client
        .ok("live_set_track_props", json!({ "trackId": "track:1", "props": { "name": "Sub", "mute": true } }))
        .await;
    assert_eq!((&named["name"], &named["mute"], &named["undoSteps"]), (&json!("Sub"), &json!(true), &json!(2)));
    client.ok("live_create_midi_clip", json!({ "slotId": "track:0/clipslot:0", "lengthBeats": 4 })).await;
    let notes: Value =
        (0..=400).map(|n| json!({ "pitch": n % 128, "startTime": n as f64 * 0.25, "duration": 0.25 })).collect();
    let wrote = client.ok("live_set_notes", json!({ "clipId": CLIP, "notes": notes })).await;
    assert_eq!(
        (&wrote["count"], &wrote["undoSteps"]),
        (&json!(401), &json!(3)),
        "one removal and two datagrams of notes"
    );
    let read = client.ok("live_get_notes", json!({ "clipId": CLIP, "offset": 0 })).await;
    assert_eq!((&read["notes"][127]["pitch"], &read["nextOffset"]), (&json!(127), &json!(400)), "pitch 127 comes back");
    assert_eq!(client.ok("live_list_clips", json!({ "trackId": "track:0" })).await["session"][0]["kind"], "midi");
    let set = client.ok("live_set_param", json!({ "paramId": "track:2/mixer/volume", "value": 0.5 })).await;
    assert_eq!((&set["unit"], &set["rangeSource"]), (&json!("live"), &json!("host")));
    assert_eq!(client.ok("live_create_track", json!({ "kind": "audio" })).await["id"], "track:3");
    let undone = client.ok("live_undo", json!({})).await;
    assert!(
        undone["undone"] == 1 && undone["warnings"][0].as_str().is_some_and(|it| it.contains("Live's own")),
        "{undone}"
    );
    assert_eq!(peer.model(|it| it.tracks.len()), 3);
    assert_eq!(client.ok("live_fire_clip", json!({ "clipId": CLIP })).await["state"], "fired");
    assert_eq!(client.ok("live_delete_clip", json!({ "clipId": CLIP })).await["deleted"], json!([CLIP]));
    assert_eq!(peer.model(|it| it.unknown.clone()), Vec::<String>::new());
}

#[tokio::test]
async fn what_the_peer_cannot_do_is_refused_with_the_right_code() {
    let (_peer, _stage, mut client) = attached().await;
    client.ok("live_create_midi_clip", json!({ "slotId": "track:0/clipslot:0", "lengthBeats": 4 })).await;
    let loud = json!([{ "pitch": 60, "startTime": 0, "duration": 1, "probability": 0.5 }]);
    for (tool, arguments, code) in [
        ("live_get_notes", json!({ "clipId": "track:0/clipslot:1/clip" }), "STALE_REFERENCE"),
        ("live_get_notes", json!({ "clipId": "track:9/clipslot:0/clip" }), "STALE_REFERENCE"),
        ("live_get_notes", json!({ "clipId": "track:0/clip:0" }), "UNSUPPORTED"),
        ("live_get_notes", json!({ "clipId": "track:0" }), "WRONG_TYPE"),
        ("live_set_notes", json!({ "clipId": CLIP, "notes": loud }), "UNSUPPORTED"),
        ("live_create_midi_clip", json!({ "slotId": "track:0/clipslot:0", "lengthBeats": 4 }), "SDK_REJECTED"),
        ("live_create_midi_clip", json!({ "slotId": "track:2/clipslot:0", "lengthBeats": 4 }), "WRONG_TYPE"),
        ("live_set_param", json!({ "paramId": "track:0/mixer/volume", "value": 9 }), "BAD_INPUT"),
        ("live_insert_device", json!({ "trackId": "track:0", "deviceName": "Reverb", "index": 0 }), "UNSUPPORTED"),
        ("live_save_set", json!({}), "UNSUPPORTED"),
        ("live_diff_set", json!({}), "UNSUPPORTED"),
        ("live_render_track", json!({ "trackId": "track:2", "startBeat": 0, "endBeat": 1 }), "UNSUPPORTED"),
        ("live_set_tempo", json!({ "bpm": 99, "dryRun": true }), "UNSUPPORTED"),
        ("live_set_tempo", json!({ "bpm": 99, "expectRevision": "0" }), "STALE_REFERENCE"),
    ] {
        assert_eq!(client.code(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
}

#[tokio::test]
async fn silence_is_never_success() {
    let (peer, _stage, mut client) = attached().await;
    peer.model(|it| it.faults.ignore = Some("/live/track/set/mute"));
    let mute = json!({ "trackId": "track:1", "props": { "mute": true } });
    assert_eq!(
        client.code("live_set_track_props", mute.clone()).await,
        "SDK_REJECTED",
        "the value read is not the one sent"
    );
    peer.model(|it| it.faults = Faults { lose: Some("/live/track/get/mute"), ..Faults::default() });
    assert_eq!(client.code("live_set_track_props", mute.clone()).await, "TIMEOUT", "the read-back was lost");
    // An error that belongs to nothing does not make a good write bad: the value read decides.
    peer.model(|it| it.faults = Faults { stray_error: true, ..Faults::default() });
    client.ok("live_set_track_props", mute).await;
    peer.model(|it| it.faults = Faults::default());
    let gone = json!({ "trackId": "track:7", "props": { "mute": true } });
    assert_eq!(client.code("live_set_track_props", gone).await, "STALE_REFERENCE");
}

#[tokio::test]
async fn a_track_that_the_person_moved_is_not_written_to() {
    let (peer, _stage, mut client) = attached().await;
    peer.model(|it| it.tracks.swap(0, 1));
    let mute = json!({ "trackId": "track:0", "props": { "mute": true } });
    assert_eq!(client.code("live_set_track_props", mute.clone()).await, "STALE_REFERENCE");
    assert!(peer.model(|it| it.tracks.iter().all(|it| !it.mute)));
    client.ok("live_get_song_overview", json!({})).await;
    client.ok("live_set_track_props", mute).await;
    assert!(peer.model(|it| it.tracks[0].mute && it.tracks[0].name == "Bass"));
}

#[tokio::test]
async fn a_silent_peer_and_a_taken_port_are_told_apart() {
    let peer = Peer::start().await;
    peer.model(|it| it.faults.silent = true);
    let wire = Wire::open(peer.settings()).await.expect("a port");
    let tempo = || [get_with("/live/song/get/tempo", Vec::new(), 0)];
    assert!(matches!(wire.read(&tempo()).await, Err(Refusal::NoAnswer { .. })));
    // Two fences of the silence are out; their answers never come, and the next batch is not confused by waiting for them.
    peer.model(|it| it.faults.silent = false);
    let batch = wire.read(&tempo()).await.expect("an answer");
    assert_eq!(batch.replies, [Some(vec![OscType::Float(124.0)])]);
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let refused = Wire::open(Settings { reply_port: port, ..peer.settings() }).await;
    assert!(
        matches!(refused, Err(Refusal::Offline { reason, .. }) if reason.contains("one AbletonOSC client per machine"))
    );
}

/// Every address in the source is one that AbletonOSC registers.
#[test]
fn no_address_is_misspelt() {
    let known: BTreeSet<&str> = ADDRESSES.lines().collect();
    let source = include_str!("../../src/hosts/live/abletonosc.rs");
    let used: Vec<&str> = source.split('"').filter(|it| it.starts_with("/live/")).collect();
    assert!(used.len() > 40, "{}", used.len());
    for address in used {
        assert!(known.contains(address), "{address}");
    }
    assert!(!known.contains("/live/song/get/scale_intervals"), "the list knows what is not there");
}

#[expect(clippy::print_stderr, reason = "a skipped test says why")]
#[expect(clippy::disallowed_methods, reason = "where the recordings lie is told by the environment")]
fn pairs() -> Option<Vec<Value>> {
    let Some(folder) = std::env::var_os("CONDUCTOR_LIVE_DATA") else {
        eprintln!("SKIP recorded datagrams: CONDUCTOR_LIVE_DATA is not set");
        return None;
    };
    let text = std::fs::read(std::path::PathBuf::from(folder).join("osc-pairs.json")).expect("the recording");
    Some(serde_json::from_slice(&text).expect("JSON"))
}

fn osc(values: &Value) -> Vec<OscType> {
    let of = |it: &Value| match it {
        Value::Null => OscType::Nil,
        Value::Bool(it) => OscType::Bool(*it),
        Value::Number(it) if it.is_i64() => OscType::Int(it.as_i64().unwrap_or(0) as i32),
        Value::Number(it) => OscType::Float(it.as_f64().unwrap_or(0.0) as f32),
        Value::String(it) => it.as_str().into(),
        Value::Array(_) | Value::Object(_) => OscType::Nil,
    };
    values.as_array().map(|it| it.iter().map(of).collect()).unwrap_or_default()
}

#[tokio::test]
async fn recorded_datagrams_are_understood() {
    let Some(pairs) = pairs() else { return };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = socket.local_addr().expect("an address");
    let script: Arc<Mutex<Vec<Value>>> = Arc::default();
    let next = Arc::clone(&script);
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let Ok((_, OscPacket::Message(message))) = rosc::decoder::decode_udp(&buffer[..length]) else { continue };
            let recorded = if message.addr == "/live/test" {
                vec![json!(["/live/test", ["ok"]])]
            } else {
                next.lock().unwrap_or_else(PoisonError::into_inner).clone()
            };
            for reply in recorded {
                let reply = OscMessage { addr: reply[0].as_str().unwrap_or_default().into(), args: osc(&reply[1]) };
                let _ =
                    socket.send_to(&rosc::encoder::encode(&OscPacket::Message(reply)).expect("encodes"), from).await;
            }
        }
    });
    let wire =
        Wire::open(Settings { peer: address, reply_port: 0, timeout: Duration::from_secs(5) }).await.expect("a port");
    let mut compared = 0;
    for pair in pairs.iter().filter(|it| it["send"][0] != "/live/test") {
        let address: &'static str = Box::leak(pair["send"][0].as_str().unwrap_or_default().to_owned().into_boxed_str());
        let (arguments, came) = (osc(&pair["send"][1]), pair["recv"].as_array().cloned().unwrap_or_default());
        *script.lock().unwrap_or_else(PoisonError::into_inner) = came.clone();
        let answer = came.iter().find(|it| it[0] == address).map(|it| osc(&it[1]));
        let error = came.iter().find(|it| it[0] == "/live/error").and_then(|it| it[1][0].as_str().map(str::to_owned));
        // Indices are echoed by everything that is not the song's or the application's own.
        let echo = arguments
            .iter()
            .take_while(|it| matches!(it, OscType::Int(_)))
            .count()
            .min(answer.as_ref().map_or(0, Vec::len));
        let echo = if address.starts_with("/live/song") || address.starts_with("/live/application") {
            0
        } else {
            echo.min(if address.contains("/notes") { 2 } else { 3 })
        };
        let question = answer.is_some() || error.is_some();
        let ask = if question { get_with(address, arguments, echo) } else { tell(address, arguments) };
        let batch = wire.batch(&[ask]).await.expect("the fence closes every batch");
        assert_eq!(batch.error, error, "{pair}");
        let wanted = answer.map(|it| it.into_iter().skip(echo).collect::<Vec<_>>());
        assert_eq!(batch.replies, [wanted], "{}", pair["send"]);
        compared += 1;
    }
    assert!(compared >= 60, "{compared}");
}
