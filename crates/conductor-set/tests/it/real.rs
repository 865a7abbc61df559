//! Tests with real Sets: opening and saving, undo, edits of most kinds, and a comparison with the
//! built-in Set.

use crate::fixtures::{free, path, real_sets};
use conductor_set::{ClipProps, Document, LiveEdit, Note, NoteQuery, OpenSet, TrackKind, TrackProps, check};
use quick_xml::events::Event;
use std::collections::BTreeSet;
use std::io::Read;

fn inflate(als: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(als).read_to_string(&mut text).expect("inflates");
    text
}

/// Edits of most kinds, to be applied in this order. Some are refused in some Sets.
pub fn edits_for(doc: &Document) -> Vec<LiveEdit> {
    let mut edits =
        vec![LiveEdit::CreateTrack { kind: TrackKind::Midi }, LiveEdit::CreateTrack { kind: TrackKind::Audio }];
    let rows = doc.track_rows();
    for row in &rows {
        edits.push(LiveEdit::SetTrackProps {
            track_id: row.id,
            props: TrackProps { name: Some("A & B <\"x\">".into()), solo: Some(true), ..TrackProps::default() },
        });
        edits.push(LiveEdit::InsertDevice { track_id: row.id, device_name: "Reverb".into(), index: 99 });
        edits.push(LiveEdit::SetParam {
            param_id: format!("{}/mixer/panning", row.id).parse().expect("path"),
            value: -0.5,
        });
        for clip in doc.clips(row.id, 0).expect("clips").arrangement {
            edits.push(LiveEdit::SetClipProps {
                clip_id: clip.clip_id,
                props: ClipProps {
                    name: Some("renamed".into()),
                    muted: Some(true),
                    color: Some(3),
                    ..ClipProps::default()
                },
            });
        }
    }
    for clip_id in doc.midi_clip_ids() {
        edits.push(LiveEdit::ReplaceNotes {
            clip_id,
            notes: vec![Note::new(127, 0.5, 0.25), Note::new(0, 0.0, 1.0)],
            window: None,
        });
    }
    let first_new = rows.len();
    edits.push(LiveEdit::CreateMidiClip { slot_id: path(&format!("track:{first_new}/clipslot:1")), length_beats: 8.0 });
    edits.push(LiveEdit::DeleteTrack { track_id: path("track:0") });
    edits
}

#[test]
fn open_and_save_is_identical() {
    for (name, als) in real_sets() {
        let set = OpenSet::open(&als, 1 << 28).expect(&name);
        assert_eq!(&*set.save(), &als[..], "{name}: a save without edits changed the file");
        assert_eq!(set.document().to_xml(), inflate(&als), "{name}: the text differs");
        assert_eq!(inflate(&set.document().to_als()), inflate(&als), "{name}: the text differs after compression");
        assert_eq!(check(set.document()), [], "{name}: the check found faults");
    }
}

#[test]
fn edit_then_undo_is_identical() {
    for (name, als) in real_sets() {
        let mut set = OpenSet::open(&als, 1 << 28).expect(&name);
        let (first, first_revision) = (inflate(&als), set.document().revision());
        let mut made = 0;
        for edit in edits_for(&set.document().clone()) {
            let before = (set.document().to_xml(), set.document().revision());
            match set.apply(std::slice::from_ref(&edit), &free()) {
                Ok(applied) => {
                    assert_eq!(applied.undo_steps, 1, "{name}: {edit:?}");
                    assert_eq!(check(set.document()), [], "{name}: after {edit:?}");
                    made += 1;
                    let after = set.document().to_xml();
                    assert_ne!(after, before.0);
                    set.undo(1, &free()).expect("undo");
                    assert_eq!((set.document().to_xml(), set.document().revision()), before, "{name}: {edit:?}");
                    set.redo(1, &free()).expect("redo");
                    assert_eq!(set.document().to_xml(), after);
                }
                Err(refused) => {
                    assert_eq!(refused.code().as_str(), "UNSUPPORTED", "{name}: {edit:?}: {refused}");
                    assert_eq!((set.document().to_xml(), set.document().revision()), before);
                }
            }
        }
        assert!(made >= 6, "{name}: only {made} edits applied");
        let last = set.document().to_xml();
        assert!(set.is_dirty());
        let undone = set.undo(1_000, &free()).expect("undo all");
        assert_eq!(undone.count, made, "{name}");
        assert_eq!(set.document().to_xml(), first, "{name}: undo did not restore the text");
        assert_eq!(set.document().revision(), first_revision);
        assert_eq!(&*set.save(), &als[..], "{name}: undo did not restore the file");
        set.redo(1_000, &free()).expect("redo all");
        assert_eq!(set.document().to_xml(), last, "{name}: redo did not restore the edits");
    }
}

#[test]
fn line_ends_stay_as_they_are() {
    for (name, als) in real_sets() {
        let mut set = OpenSet::open(&als, 1 << 28).expect(&name);
        let crlf = set.document().to_xml().contains("\r\n");
        for edit in edits_for(&set.document().clone()) {
            let _ = set.apply(&[edit], &free());
        }
        let text = set.document().to_xml();
        if crlf {
            assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{name}: the text contains a bare LF");
        } else {
            assert!(!text.contains('\r'), "{name}: the text contains a CR");
        }
    }
}

#[test]
fn clips_outside_tracks_are_never_listed() {
    for (name, als) in real_sets().into_iter().filter(|(n, _)| n == "DefaultLiveSet.als") {
        let doc = Document::open(&als, 1 << 28).expect(&name);
        assert!(doc.to_xml().contains("<MidiClip "), "the Set contains no MIDI clip");
        assert!(doc.midi_clip_ids().is_empty());
        for row in doc.track_rows() {
            let clips = doc.clips(row.id, 0).expect("clips");
            assert!(clips.arrangement.is_empty());
            assert!(clips.session.iter().all(|s| s.clip_id.is_none()));
        }
    }
}

#[test]
fn notes_of_the_drum_clips_are_all_read() {
    for (name, als) in real_sets().into_iter().filter(|(n, _)| n == "midi.als") {
        let doc = Document::open(&als, 1 << 28).expect(&name);
        let ids = doc.midi_clip_ids();
        let count: usize = ids.iter().map(|id| doc.all_notes(*id).expect("notes").len()).sum();
        assert_eq!(count, 331);
        let first = doc.notes(ids[0], NoteQuery::default()).expect("notes");
        assert!(serde_json::to_value(first).expect("json")["notes"].is_array());
    }
}

/// For every element named `root`, the set of tag paths below it.
fn tag_paths(xml: &str, root: &str) -> Vec<BTreeSet<String>> {
    let mut reader = quick_xml::Reader::from_str(xml);
    let (mut stack, mut found): (Vec<String>, Vec<BTreeSet<String>>) = (Vec::new(), Vec::new());
    let mut inside: Option<usize> = None;
    loop {
        let event = reader.read_event().expect("not well formed");
        if matches!(event, Event::Eof) {
            return found;
        }
        if let Event::Start(ref tag) | Event::Empty(ref tag) = event {
            let name = String::from_utf8_lossy(tag.name().as_ref()).into_owned();
            match inside {
                None if name == root => {
                    found.push(BTreeSet::new());
                    if matches!(event, Event::Start(_)) {
                        inside = Some(stack.len());
                    }
                }
                Some(depth) => {
                    let path = format!("{}/{name}", stack[depth + 1..].join("/"));
                    found.last_mut().expect("inside").insert(path);
                }
                None => {}
            }
            if matches!(event, Event::Start(_)) {
                stack.push(name);
            }
        } else if matches!(event, Event::End(_)) {
            stack.pop();
            if inside.is_some_and(|depth| stack.len() <= depth) {
                inside = None;
            }
        }
    }
}

/// Whether a path belongs to the content of a Set and not to its fixed structure.
fn is_content(path: &str) -> bool {
    [
        "Devices/",
        "Events/",
        "Envelopes/",
        "/Clip/",
        "Grooves/",
        "Value/",
        "Sequence/",
        "KeyTracks/",
        "RemoteableTimeSignature/",
    ]
    .iter()
    .any(|c| path.contains(c))
}

/// The paths that all sets contain, and the paths that at least one set contains.
fn shared_and_any(sets: &[BTreeSet<String>]) -> (BTreeSet<String>, BTreeSet<String>) {
    let clean = |s: &BTreeSet<String>| s.iter().filter(|p| !is_content(p)).cloned().collect::<BTreeSet<_>>();
    let mut all = sets.iter().map(clean);
    let first = all.next().unwrap_or_default();
    let shared = all.clone().fold(first.clone(), |a, b| a.intersection(&b).cloned().collect());
    (shared, all.fold(first, |a, b| a.union(&b).cloned().collect()))
}

#[test]
fn the_new_set_holds_what_all_real_sets_share_and_nothing_none_has() {
    let of_12_0: Vec<String> =
        real_sets().into_iter().map(|(_, als)| inflate(&als)).filter(|x| x.contains("12.0_12049")).collect();
    if of_12_0.is_empty() {
        return;
    }
    let ours = Document::new_set().expect("skeleton").to_xml();
    for root in ["MidiTrack", "AudioTrack", "ReturnTrack", "MainTrack", "PreHearTrack", "Scene", "LiveSet"] {
        let theirs: Vec<_> = of_12_0.iter().flat_map(|xml| tag_paths(xml, root)).map(without_tracks).collect();
        let (shared, any) = shared_and_any(&theirs);
        assert!(!shared.is_empty(), "{root}");
        for set in tag_paths(&ours, root).into_iter().map(without_tracks) {
            let set: BTreeSet<_> = set.into_iter().filter(|p| !is_content(p)).collect();
            let missing: Vec<_> = shared.difference(&set).collect();
            let unknown: Vec<_> = set.difference(&any).collect();
            assert!(missing.is_empty() && unknown.is_empty(), "{root}: missing {missing:?}, unknown {unknown:?}");
        }
    }
}

/// Removes the tracks, which are compared separately.
fn without_tracks(set: BTreeSet<String>) -> BTreeSet<String> {
    set.into_iter().filter(|p| !p.starts_with("Tracks/")).collect()
}

#[test]
fn built_in_tracks_and_clips_have_the_shape_of_real_ones() {
    for (name, als) in real_sets() {
        let real = Document::open(&als, 1 << 28).expect(&name);
        let xml = real.to_xml();
        for (kind, tag) in [(TrackKind::Midi, "MidiTrack"), (TrackKind::Audio, "AudioTrack")] {
            let (shared, any) = shared_and_any(&tag_paths(&xml, tag));
            if shared.is_empty() {
                continue;
            }
            // Without a track of this kind to clone, the built-in track is used.
            let mut set = OpenSet::new(real.clone());
            let other = if kind == TrackKind::Midi { TrackKind::Audio } else { TrackKind::Midi };
            set.apply(&[LiveEdit::CreateTrack { kind: other }], &free()).expect("another");
            while let Some(row) = set.document().track_rows().into_iter().find(|t| t.kind == kind) {
                set.apply(&[LiveEdit::DeleteTrack { track_id: row.id }], &free()).expect("delete");
            }
            let made = set.apply(&[LiveEdit::CreateTrack { kind }], &free()).expect("built-in");
            assert_eq!(made.warnings.len(), 1, "{name}: not exactly one warning about the built-in track");
            assert_eq!(check(set.document()), []);
            let set: BTreeSet<_> =
                tag_paths(&set.document().to_xml(), tag).remove(0).into_iter().filter(|p| !is_content(p)).collect();
            let missing: Vec<_> = shared.difference(&set).collect();
            let unknown: Vec<_> = set.difference(&any).collect();
            assert!(missing.is_empty() && unknown.is_empty(), "{name} {tag}: missing {missing:?}, unknown {unknown:?}");
        }
        let (shared, any) = shared_and_any(&tag_paths(&xml, "MidiClip"));
        if let (false, Some(row)) =
            (shared.is_empty(), real.track_rows().into_iter().find(|t| t.kind == TrackKind::Midi))
        {
            let mut set = OpenSet::new(real.clone());
            for clip in real.midi_clip_ids().into_iter().rev() {
                set.apply(&[LiveEdit::DeleteClip { clip_id: clip }], &free()).expect("delete");
            }
            let slot_id = path(&format!("{}/clipslot:0", row.id));
            set.apply(&[LiveEdit::CreateMidiClip { slot_id, length_beats: 4.0 }], &free()).expect("built-in");
            let ours = tag_paths(&set.document().to_xml(), "MidiClip").remove(0);
            let ours: BTreeSet<_> = ours.into_iter().filter(|p| !is_content(p)).collect();
            let missing: Vec<_> = shared.difference(&ours).collect();
            let unknown: Vec<_> = ours.difference(&any).collect();
            assert!(missing.is_empty() && unknown.is_empty(), "{name} clip: missing {missing:?}, unknown {unknown:?}");
        }
    }
}
