//! Random edits: checks invariants after each edit, and undoes all edits.

use crate::fixtures::{free, golden, path};
use conductor_set::{
    ClipProps, Document, LiveEdit, Note, NoteQuery, NoteWindow, OpenSet, PathId, TrackKind, TrackProps, check,
};
use proptest::prelude::*;

fn note() -> impl Strategy<Value = Note> {
    (0_u8..=127, 0_u32..64, 1_u32..16, 0_u32..=254, any::<bool>(), 0_u32..=4, -127_i32..=127, 0_u32..=127).prop_map(
        |(pitch, start, length, velocity, muted, probability, deviation, release)| Note {
            velocity: f64::from(velocity) / 2.0,
            muted,
            probability: f64::from(probability) / 4.0,
            velocity_deviation: f64::from(deviation),
            release_velocity: f64::from(release),
            ..Note::new(pitch, f64::from(start) / 8.0, f64::from(length) / 8.0)
        },
    )
}

fn track() -> impl Strategy<Value = PathId> {
    (0_u32..6).prop_map(PathId::Track)
}

fn clip() -> impl Strategy<Value = PathId> {
    prop_oneof![
        (0_u32..6, 0_u32..3).prop_map(|(t, s)| path(&format!("track:{t}/clipslot:{s}/clip"))),
        (0_u32..6, 0_u32..2).prop_map(|(t, c)| path(&format!("track:{t}/clip:{c}"))),
    ]
}

fn param() -> impl Strategy<Value = PathId> {
    let owner = prop_oneof![
        (0_u32..6).prop_map(|n| format!("track:{n}")),
        (0_u32..3).prop_map(|n| format!("returntrack:{n}")),
        Just("main".to_owned())
    ];
    let part = prop_oneof![
        Just("mixer/volume".to_owned()),
        Just("mixer/panning".to_owned()),
        (0_u32..3).prop_map(|n| format!("mixer/send:{n}")),
        (0_u32..3, 0_u32..4).prop_map(|(d, p)| format!("device:{d}/param:{p}")),
    ];
    (owner, part).prop_map(|(owner, part)| path(&format!("{owner}/{part}")))
}

/// Generates only numbers that are exact in binary, because JSON parsers may round the last digit
/// of other numbers.
fn edit() -> impl Strategy<Value = LiveEdit> {
    let window = prop::option::of((0_u32..8, 1_u32..8).prop_map(|(from, length)| NoteWindow {
        from_beat: f64::from(from),
        to_beat: f64::from(from + length),
        from_pitch: None,
        to_pitch: None,
    }));
    prop_oneof![
        (900_u32..65_000).prop_map(|n| LiveEdit::SetTempo { bpm: f64::from(n) / 64.0 }),
        (
            track(),
            prop::option::of("[ -~é<>&\"']{0,12}"),
            any::<Option<bool>>(),
            any::<Option<bool>>(),
            any::<Option<bool>>()
        )
            .prop_map(|(track_id, name, mute, solo, arm)| LiveEdit::SetTrackProps {
                track_id,
                props: TrackProps { name, mute, solo, arm }
            }),
        (clip(), prop::collection::vec(note(), 0..20), window)
            .prop_map(|(clip_id, notes, window)| LiveEdit::ReplaceNotes { clip_id, notes, window }),
        prop_oneof![Just(TrackKind::Midi), Just(TrackKind::Audio)].prop_map(|kind| LiveEdit::CreateTrack { kind }),
        (0_u32..6, 0_u32..3, 1_u32..64).prop_map(|(t, s, l)| LiveEdit::CreateMidiClip {
            slot_id: path(&format!("track:{t}/clipslot:{s}")),
            length_beats: f64::from(l) / 4.0
        }),
        (param(), -96_i32..160)
            .prop_map(|(param_id, n)| (param_id, f64::from(n) / 64.0))
            .prop_map(|(param_id, value)| LiveEdit::SetParam { param_id, value }),
        (track(), prop_oneof![Just("Reverb"), Just("EQ Eight"), Just("Instrument Rack"), Just("Nothing")], 0_u32..4)
            .prop_map(|(track_id, name, index)| LiveEdit::InsertDevice { track_id, device_name: name.into(), index }),
        (
            clip(),
            prop::option::of("[a-z&<]{0,6}"),
            any::<Option<bool>>(),
            prop::option::of(0_u32..72),
            prop::option::of((-16_i32..72).prop_map(|n| f64::from(n) / 8.0)),
            prop::option::of((-16_i32..72).prop_map(|n| f64::from(n) / 8.0))
        )
            .prop_map(|(clip_id, name, muted, color, loop_start, loop_end)| {
                LiveEdit::SetClipProps {
                    clip_id,
                    props: ClipProps { name, muted, color, loop_start, loop_end, ..ClipProps::default() },
                }
            }),
        clip().prop_map(|clip_id| LiveEdit::DeleteClip { clip_id }),
        track().prop_map(|track_id| LiveEdit::DeleteTrack { track_id }),
    ]
}

/// Checks that the document contains the result of an applied edit.
fn holds(doc: &Document, edit: &LiveEdit) {
    match edit {
        LiveEdit::SetTempo { bpm } => assert_eq!(doc.tempo(), Some(*bpm)),
        LiveEdit::SetTrackProps { track_id, props } => {
            let state = doc.track_state(*track_id).expect("track");
            assert!(props.name.as_ref().is_none_or(|n| *n == state.name));
            assert!(props.mute.is_none_or(|m| m == state.mute) && props.solo.is_none_or(|s| s == state.solo));
        }
        LiveEdit::ReplaceNotes { clip_id, notes, window } => {
            let stored = doc.all_notes(*clip_id).expect("notes");
            assert!(window.is_some() || stored.len() <= notes.len());
            assert!(stored.windows(2).all(|w| (w[0].start_time, w[0].pitch) <= (w[1].start_time, w[1].pitch)));
            for n in notes {
                assert!(
                    stored
                        .iter()
                        .any(|s| (s.pitch, s.start_time) == (n.pitch, n.start_time) && s.duration <= n.duration)
                );
            }
        }
        LiveEdit::SetParam { param_id, value } => {
            assert_eq!(doc.param(*param_id).expect("param").value, *value)
        }
        LiveEdit::CreateMidiClip { slot_id, length_beats } => {
            let id = path(&format!("{slot_id}/clip"));
            assert_eq!(doc.clip_info(id).expect("clip").duration, *length_beats);
            assert_eq!(doc.all_notes(id).expect("notes"), []);
        }
        LiveEdit::SetClipProps { clip_id, props } => {
            let info = doc.clip_info(*clip_id).expect("clip");
            assert!(props.name.as_ref().is_none_or(|n| *n == info.name));
            assert!(props.loop_end.is_none_or(|e| e == info.loop_end));
        }
        LiveEdit::CreateTrack { .. }
        | LiveEdit::InsertDevice { .. }
        | LiveEdit::DeleteClip { .. }
        | LiveEdit::DeleteTrack { .. } => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edits_hold_and_all_can_be_taken_back(edits in prop::collection::vec(edit(), 1..14)) {
        let mut set = OpenSet::new(golden());
        let first = (set.document().to_xml(), set.document().revision());
        let mut made = 0;
        for edit in &edits {
            let before = (set.document().to_xml(), set.document().revision());
            match set.apply(std::slice::from_ref(edit), &free()) {
                Ok(applied) => {
                    made += applied.undo_steps;
                    prop_assert_eq!(check(set.document()), []);
                    holds(set.document(), edit);
                    // The document is the same when its text is parsed again.
                    let again = Document::from_xml(set.document().to_xml()).expect("not well formed");
                    prop_assert_eq!(again.overview().tracks, set.document().overview().tracks);
                    prop_assert_eq!(applied.undo_steps == 0, set.document().to_xml() == before.0);
                    prop_assert_eq!(applied.diff.count == 0, applied.undo_steps == 0, "{}", applied.diff.text);
                }
                Err(refused) => {
                    prop_assert_ne!(refused.code().as_str(), "INTERNAL", "{}", refused);
                    prop_assert!(!refused.hint().is_empty());
                    prop_assert_eq!((set.document().to_xml(), set.document().revision()), before);
                }
            }
        }
        let last = (set.document().to_xml(), set.document().revision());
        prop_assert_eq!(set.undo(1_000, &free()).expect("undo").count, made);
        prop_assert_eq!((set.document().to_xml(), set.document().revision()), first);
        set.redo(1_000, &free()).expect("redo");
        prop_assert_eq!((set.document().to_xml(), set.document().revision()), last);
    }

    #[test]
    fn edits_survive_json(edit in edit()) {
        let text = serde_json::to_string(&edit).expect("json");
        prop_assert_eq!(serde_json::from_str::<LiveEdit>(&text).expect("edit"), edit);
    }

    #[test]
    fn any_text_is_a_path_or_a_refusal(text in "[a-z0-9:/ -]{0,40}|track:[0-9]{1,12}(/clipslot:[0-9]{1,3}(/clip)?)?(/[a-z]{0,6})?") {
        match text.parse::<PathId>() {
            Ok(path) => prop_assert_eq!(path.to_string(), text),
            Err(refused) => prop_assert_eq!(refused.code().as_str(), "BAD_INPUT"),
        }
    }

    #[test]
    fn paging_walks_every_note_once(count in 0_usize..900) {
        let clip = path("track:0/clipslot:0/clip");
        let notes: Vec<Note> = (0..count).map(|n| Note::new((n % 128) as u8, n as f64 / 16.0, 1.0 / 16.0)).collect();
        let mut set = OpenSet::new(golden());
        set.apply(&[LiveEdit::ReplaceNotes { clip_id: clip, notes: notes.clone(), window: None }], &free()).expect("notes");
        let (mut walked, mut offset) = (Vec::new(), Some(0));
        while let Some(at) = offset {
            let page = set.document().notes(clip, NoteQuery { offset: Some(at), ..NoteQuery::default() }).expect("page");
            let conductor_set::Notes::Listed { notes, next_offset, .. } = page else { panic!("the reply is not a page") };
            walked.extend(notes);
            offset = next_offset;
        }
        prop_assert_eq!(walked, notes);
    }
}
