//! Reads edited Sets with `bravoh-daw` (tempo, tracks, note counts), with `roxmltree` (every note
//! attribute, ids, slots), and with Python's XML reader (`read_set.py`).

#[allow(dead_code)]
#[path = "../../tests/it/fixtures.rs"]
mod fixtures;

use conductor_set::{ClipProps, Document, LiveEdit, Note, PathId, TrackKind, TrackProps};
use fixtures::{edited, golden, path, real_sets_if_any, skips};
use roxmltree::Node;
use std::collections::BTreeSet;

/// Edits of most kinds; `worked` leaves out those that a Set does not support.
fn edits(doc: &Document) -> Vec<LiveEdit> {
    let count = doc.track_rows().len();
    let new = format!("track:{count}");
    let notes = vec![
        Note {
            velocity: 99.5,
            muted: true,
            probability: 0.25,
            velocity_deviation: -12.0,
            release_velocity: 3.0,
            ..Note::new(127, 0.5, 0.25)
        },
        Note::new(0, 0.0, 1.0 / 3.0),
        Note::new(60, 1.0, 1.0),
    ];
    let mut list = vec![
        LiveEdit::CreateTrack {
            kind: TrackKind::Midi,
        },
        LiveEdit::CreateTrack {
            kind: TrackKind::Audio,
        },
        LiveEdit::SetTrackProps {
            track_id: path(&new),
            props: TrackProps {
                name: Some("Keys & <Pads>".into()),
                solo: Some(true),
                arm: Some(true),
                mute: Some(true),
            },
        },
        LiveEdit::CreateMidiClip {
            slot_id: path(&format!("{new}/clipslot:1")),
            length_beats: 6.0,
        },
        LiveEdit::ReplaceNotes {
            clip_id: path(&format!("{new}/clipslot:1/clip")),
            notes,
            window: None,
        },
        LiveEdit::SetClipProps {
            clip_id: path(&format!("{new}/clipslot:1/clip")),
            props: ClipProps {
                name: Some("Verse \"A\"".into()),
                color: Some(5),
                ..ClipProps::default()
            },
        },
        LiveEdit::SetParam {
            param_id: path(&format!("{new}/mixer/volume")),
            value: 0.5,
        },
        LiveEdit::InsertDevice {
            track_id: path(&new),
            device_name: "Reverb".into(),
            index: 0,
        },
    ];
    for clip_id in doc.midi_clip_ids() {
        let mut kept = doc.all_notes(clip_id).expect("notes");
        kept.retain(|n| n.pitch % 2 == 0);
        kept.push(Note::new(1, 0.0, 0.5));
        list.push(LiveEdit::ReplaceNotes {
            clip_id,
            notes: kept,
            window: None,
        });
    }
    list
}

fn sets() -> Vec<(String, Document)> {
    let real = real_sets_if_any()
        .into_iter()
        .map(|(name, als)| (name.clone(), Document::open(&als, 1 << 28).expect(&name)));
    [("golden".to_owned(), golden())]
        .into_iter()
        .chain(real)
        .collect()
}

/// The Set after all edits that it supports. An automated tempo is not changed.
fn worked(doc: &Document) -> Document {
    let after = edited(doc, &edits(doc));
    match after.plan(&[LiveEdit::SetTempo { bpm: 97.25 }]) {
        Ok(plan) => plan.after,
        Err(refused) => {
            assert_eq!(refused.code().as_str(), "UNSUPPORTED");
            after
        }
    }
}

fn as_file(doc: &Document) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new()
        .suffix(".als")
        .tempfile()
        .expect("file");
    std::fs::write(file.path(), doc.to_als()).expect("write");
    file
}

/// Decodes the XML escapes in a name, because `bravoh-daw` does not decode them.
fn unescape(name: &str) -> String {
    name.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

fn ids_on(doc: &Document, track: PathId) -> Vec<PathId> {
    doc.midi_clip_ids()
        .into_iter()
        .filter(|c| c.to_string().starts_with(&format!("{track}/")))
        .collect()
}

#[test]
fn bravoh_daw_reads_what_was_written() {
    for (name, doc) in sets() {
        let after = worked(&doc);
        let file = as_file(&after);
        let seen = bravoh_daw::parse(file.path()).expect(&name);
        assert!(seen.daw.contains("Ableton"), "{name}: {}", seen.daw);
        // The reader returns the stored tempo and ignores the envelope. The stored tempo is the
        // real tempo unless the tempo is automated.
        if doc.plan(&[LiveEdit::SetTempo { bpm: 97.25 }]).is_ok() {
            assert_eq!(seen.bpm, Some(97.25), "{name}");
        }
        let ours: Vec<(String, String)> = after
            .track_rows()
            .into_iter()
            .map(|t| (t.name, t.kind.as_str().to_owned()))
            .collect();
        let theirs: Vec<(String, String)> = seen
            .tracks
            .iter()
            .filter(|t| ["midi", "audio", "group"].contains(&t.track_type.as_str()))
            .map(|t| (unescape(&t.name), t.track_type.clone()))
            .collect();
        assert_eq!(theirs, ours, "{name}");
        assert_eq!(
            Some(seen.mixer.return_tracks as usize),
            after.overview().return_track_count,
            "{name}"
        );
        // The reader also counts the clips of the groove pool, which are not on any track.
        let ours: u32 = after
            .track_rows()
            .iter()
            .flat_map(|t| ids_on(&after, t.id))
            .map(|c| after.all_notes(c).expect("notes").len() as u32)
            .sum();
        let pool: u32 = if name == "DefaultLiveSet.als" { 16 } else { 0 };
        assert_eq!(
            seen.midi_tracks.iter().map(|m| m.note_count).sum::<u32>(),
            ours + pool,
            "{name}"
        );
    }
}

fn child<'a>(node: Node<'a, 'a>, path: &str) -> Option<Node<'a, 'a>> {
    path.split('/')
        .try_fold(node, |n, name| n.children().find(|c| c.has_tag_name(name)))
}

fn value<'a>(node: Node<'a, 'a>, path: &str) -> Option<&'a str> {
    child(node, path)?.attribute("Value")
}

#[test]
fn a_plain_xml_reader_finds_every_attribute() {
    for (name, doc) in sets() {
        let after = worked(&doc);
        let xml = after.to_xml();
        let tree = roxmltree::Document::parse(&xml).expect(&name);
        let set = child(tree.root_element(), "LiveSet").expect("LiveSet");
        let scenes = child(set, "Scenes")
            .expect("Scenes")
            .children()
            .filter(Node::is_element)
            .count();
        let tracks: Vec<_> = child(set, "Tracks")
            .expect("Tracks")
            .children()
            .filter(Node::is_element)
            .collect();
        let new = tracks[doc.track_rows().len()];
        assert_eq!(
            value(new, "Name/EffectiveName"),
            Some("Keys & <Pads>"),
            "{name}"
        );
        assert_eq!(value(new, "DeviceChain/Mixer/Volume/Manual"), Some("0.5"));
        assert_eq!(
            value(new, "DeviceChain/Mixer/Speaker/Manual"),
            Some("false")
        );
        assert_eq!(value(new, "DeviceChain/Mixer/SoloSink"), Some("true"));
        assert_eq!(
            value(new, "DeviceChain/MainSequencer/Recorder/IsArmed"),
            Some("true")
        );
        assert!(child(new, "DeviceChain/DeviceChain/Devices/Reverb").is_some());
        for list in ["MainSequencer", "FreezeSequencer"] {
            let slots = child(new, &format!("DeviceChain/{list}/ClipSlotList")).expect("slots");
            assert_eq!(
                slots.children().filter(Node::is_element).count(),
                scenes,
                "{name}: {list}"
            );
        }
        let clip = new
            .descendants()
            .find(|n| n.has_tag_name("MidiClip"))
            .expect("clip");
        assert_eq!(
            (
                value(clip, "Name"),
                value(clip, "Color"),
                value(clip, "Loop/LoopEnd")
            ),
            (Some("Verse \"A\""), Some("5"), Some("6"))
        );
        let stored: Vec<(u8, Vec<(String, String)>)> = clip
            .descendants()
            .filter(|n| n.has_tag_name("KeyTrack"))
            .flat_map(|key| {
                let pitch = value(key, "MidiKey")
                    .and_then(|p| p.parse().ok())
                    .expect("pitch");
                key.descendants()
                    .filter(|n| n.has_tag_name("MidiNoteEvent"))
                    .map(move |n| {
                        (
                            pitch,
                            n.attributes()
                                .map(|a| (a.name().to_owned(), a.value().to_owned()))
                                .collect(),
                        )
                    })
            })
            .collect();
        let row =
            |pairs: [(&str, &str); 8]| pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
        let attributes = |time, duration, velocity, deviation, off, probability, enabled, id| {
            row([
                ("Time", time),
                ("Duration", duration),
                ("Velocity", velocity),
                ("VelocityDeviation", deviation),
                ("OffVelocity", off),
                ("Probability", probability),
                ("IsEnabled", enabled),
                ("NoteId", id),
            ])
        };
        assert_eq!(
            stored,
            [
                (
                    0,
                    attributes(
                        "0",
                        "0.3333333333333333",
                        "100",
                        "0",
                        "64",
                        "1",
                        "true",
                        "1"
                    )
                ),
                (60, attributes("1", "1", "100", "0", "64", "1", "true", "2")),
                (
                    127,
                    attributes("0.5", "0.25", "99.5", "-12", "3", "0.25", "false", "3")
                ),
            ],
            "{name}"
        );
        let next: u32 = value(set, "NextPointeeId")
            .and_then(|v| v.parse().ok())
            .expect("next");
        let mut seen = BTreeSet::new();
        for node in tree.descendants() {
            let tag = node.tag_name().name();
            let shared = tag == "AutomationTarget"
                || tag == "Pointee"
                || tag.ends_with("ModulationTarget")
                || tag.starts_with("ControllerTargets.");
            if let Some(id) = node.attribute("Id").filter(|_| shared) {
                let id: u32 = id.parse().expect("id");
                assert!(id < next && seen.insert(id), "{name}: {tag} {id}");
            }
        }
        for node in tree.descendants().filter(|n| n.has_tag_name("PointeeId")) {
            let id: u32 = node
                .attribute("Value")
                .and_then(|v| v.parse().ok())
                .expect("pointee");
            assert!(
                seen.contains(&id),
                "{name}: an envelope points at {id}, which does not exist"
            );
        }
    }
}

#[test]
fn python_reads_the_same_notes() {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("read_set.py");
    if std::process::Command::new("python3")
        .arg("--version")
        .output()
        .is_err()
    {
        skips::note("python3 is not installed");
        return;
    }
    for (name, doc) in sets() {
        let after = worked(&doc);
        let file = as_file(&after);
        let out = std::process::Command::new("python3")
            .arg(&script)
            .arg(file.path())
            .output()
            .expect("python3 did not start");
        assert!(
            out.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        let seen: serde_json::Value = serde_json::from_slice(&out.stdout).expect("json");
        assert_eq!(seen["tempo"].as_f64(), after.tempo(), "{name}");
        let tracks = seen["tracks"].as_array().expect("tracks");
        assert_eq!(tracks.len(), after.track_rows().len());
        for (row, track) in after.track_rows().iter().zip(tracks) {
            assert_eq!(track["name"], row.name.as_str(), "{name}");
            let clips = track["clips"].as_array().expect("clips");
            let ids = ids_on(&after, row.id);
            assert_eq!(clips.len(), ids.len(), "{name}: {}", row.name);
            for (id, clip) in ids.iter().zip(clips) {
                let ours: Vec<(f64, f64, f64)> = after
                    .all_notes(*id)
                    .expect("notes")
                    .iter()
                    .map(|n| (f64::from(n.pitch), n.start_time, n.velocity))
                    .collect();
                let theirs: Vec<(f64, f64, f64)> =
                    serde_json::from_value(clip["notes"].clone()).expect("notes");
                assert_eq!(theirs, ours, "{name}: {id}");
            }
        }
    }
}

#[test]
fn the_readers_notice_a_wrong_file() {
    let wrong = golden()
        .to_xml()
        .replacen("Velocity=\"100\"", "Velocity=\"55\"", 1);
    let wrong = Document::from_xml(wrong).expect("opens");
    assert_ne!(
        wrong.all_notes(path("track:0/clipslot:0/clip")).ok(),
        golden().all_notes(path("track:0/clipslot:0/clip")).ok()
    );
    let file = as_file(&edited(&golden(), &[LiveEdit::SetTempo { bpm: 61.0 }]));
    assert_ne!(
        bravoh_daw::parse(file.path()).expect("reads").bpm,
        Some(97.25)
    );
}
