//! Tests of revisions, guards, undo, and changes as values.

use crate::fixtures::{free, golden, path, replace_notes, small};
use conductor_set::{Author, Guard, LiveEdit, LiveError, Note, OpenSet, TrackKind, diff};

const BEAT: &str = "track:0/clipslot:0/clip";

fn delete(track: &str) -> LiveEdit {
    LiveEdit::DeleteTrack { track_id: path(track) }
}

fn tempo(bpm: f64) -> LiveEdit {
    LiveEdit::SetTempo { bpm }
}

#[test]
fn a_shifted_index_is_stale_until_the_session_looks_again() {
    let (a, b) = (Author(1), Author(2));
    let mut set = OpenSet::new(golden());
    let seen = set.structure();
    let guard = |who, seen| Guard { expect_revision: None, seen: Some((who, seen)) };
    set.apply(&[delete("track:0")], &guard(b, seen)).expect("the delete by B failed");
    let before = (set.document().to_xml(), set.document().revision());
    let write = [replace_notes("track:0/clipslot:0/clip", &[])];
    let refused = set.apply(&write, &guard(a, seen)).expect_err("a caller with stale ids was accepted");
    assert_eq!((refused.code().as_str(), &refused), ("STALE_REFERENCE", &LiveError::StructureShifted));
    assert_eq!((set.document().to_xml(), set.document().revision()), before, "a refused write changed the document");
    assert!(set.preview(&write, &guard(a, seen)).is_err());
    // B made the shift and is not refused. A must read the ids again.
    set.apply(&[tempo(99.0)], &guard(b, seen)).expect("B was refused after its own shift");
    set.apply(&write, &guard(a, set.structure())).expect("A was refused after it read the ids again");
    // A caller without `seen` is never refused because of a shift.
    set.apply(&[tempo(98.0)], &free()).expect("a caller without `seen` was refused");
    // The undo of a shift is also a shift.
    let seen = set.structure();
    let undone = set.undo(4, &guard(b, seen)).expect("undo");
    assert!(undone.shifted && set.structure() > seen);
    assert!(set.apply(&write, &guard(a, seen)).is_err());
    set.apply(&[tempo(97.0)], &guard(a, seen)).expect("an edit without a position was refused");
    // A reload may have shifted all ids of all callers, and it clears the history. A bad file
    // changes nothing.
    let (seen, bytes) = (set.structure(), small().to_als());
    assert!(set.reload(b"nonsense", 1 << 28).is_err());
    set.apply(&[tempo(96.0)], &guard(b, seen)).expect("an edit was refused after a failed reload");
    set.reload(&bytes, 1 << 28).expect("reload");
    assert!(!set.is_dirty() && set.undo(1, &free()).expect("undo").count == 0);
    assert!(set.apply(&[delete("track:0")], &guard(b, seen)).is_err());
}

#[test]
fn an_expected_revision_that_differs_writes_nothing() {
    let mut set = OpenSet::new(small());
    let expect = |r: &str| Guard { expect_revision: Some(r.into()), seen: None };
    let first = set.document().revision().to_string();
    assert_eq!(first.len(), 16);
    set.apply(&[tempo(90.0)], &expect(&first)).expect("the current revision was refused");
    let refused = set.apply(&[tempo(91.0)], &expect(&first)).expect_err("an old revision was accepted");
    assert_eq!(refused.code().as_str(), "STALE_REFERENCE");
    assert!(refused.hint().contains(&set.document().revision().to_string()));
    set.undo(1, &free()).expect("undo");
    assert_eq!(set.document().revision().to_string(), first, "undo did not restore the revision");
    set.apply(&[tempo(91.0)], &expect(&first)).expect("the restored revision was refused");
}

#[test]
fn equal_edits_give_equal_revisions_and_bytes() {
    let make = || {
        let mut set = OpenSet::new(small());
        set.apply(&[tempo(90.0), LiveEdit::CreateTrack { kind: TrackKind::Audio }], &free()).expect("edits");
        (set.document().revision(), set.save())
    };
    assert_eq!(make(), make());
    let mut other = OpenSet::new(small());
    other.apply(&[tempo(90.5)], &free()).expect("edit");
    assert_ne!(other.document().revision(), make().0);
}

#[test]
fn a_list_of_edits_is_one_entry_and_all_or_nothing() {
    let mut set = OpenSet::new(small());
    let before = set.document().to_xml();
    let bad = [tempo(90.0), replace_notes("track:9/clip:0", &[])];
    assert_eq!(
        set.apply(&bad, &free()).expect_err("a list with a bad second edit was accepted").code().as_str(),
        "STALE_REFERENCE"
    );
    assert_eq!(set.document().to_xml(), before);
    set.apply(&[tempo(90.0), replace_notes(BEAT, &[]), delete("track:1")], &free()).expect("three edits");
    let undone = set.undo(1, &free()).expect("undo");
    assert_eq!((undone.count, undone.can_undo, undone.can_redo), (1, false, true));
    assert_eq!(set.document().to_xml(), before);
}

#[test]
fn a_preview_changes_nothing_and_shows_what_apply_does() {
    let mut set = OpenSet::new(golden());
    let edits = [
        tempo(90.0),
        delete("track:0"),
        LiveEdit::SetParam { param_id: path("track:0/mixer/volume"), value: 0.5 },
        replace_notes("track:0/clipslot:0/clip", &[Note::new(60, 0.0, 1.0)]),
    ];
    let before = (set.document().to_xml(), set.document().revision(), set.structure());
    let shown = set.preview(&edits, &free()).expect("preview");
    assert_eq!(shown.undo_steps, 0);
    assert_eq!((set.document().to_xml(), set.document().revision(), set.structure()), before);
    assert_eq!(set.undo(1, &free()).expect("undo").count, 0);
    let made = set.apply(&edits, &free()).expect("apply");
    assert_eq!((&made.diff, made.revision, &made.outcomes), (&shown.diff, shown.revision, &shown.outcomes));
    let ops: Vec<_> = made.diff.changes.iter().map(|c| (c.op, c.subject.as_str())).collect();
    assert_eq!(
        ops,
        [
            ("set_tempo", "tempo"),
            ("delete_track", "track:0"),
            ("set_param", "track:0/mixer/volume"),
            ("replace_notes", "track:0/clipslot:0/clip"),
        ]
    );
    assert_eq!(made.diff.text.lines().count(), made.diff.count);
    assert_eq!(set.diff_to_saved(), made.diff);
}

#[test]
fn a_turning_knob_is_one_undo_entry() {
    let mut set = OpenSet::new(small());
    let turn = |value| LiveEdit::SetParam { param_id: path("track:0/mixer/volume"), value };
    let before = set.document().to_xml();
    set.apply(&[turn(0.5)], &free()).expect("first");
    for step in 1..10 {
        set.extend(&[turn(0.5 + f64::from(step) / 100.0)], &free()).expect("more");
    }
    assert_eq!(set.undo(9, &free()).expect("undo").count, 1);
    assert_eq!(set.document().to_xml(), before);
    set.redo(1, &free()).expect("redo");
    assert_eq!(set.document().param(path("track:0/mixer/volume")).expect("volume").value, 0.59);
}

#[test]
fn undo_keeps_to_its_depth_and_a_new_edit_ends_redo() {
    let mut set = OpenSet::new(small()).with_undo_depth(3);
    for bpm in [81.0, 82.0, 83.0, 84.0, 85.0] {
        set.apply(&[tempo(bpm)], &free()).expect("edit");
    }
    let undone = set.undo(100, &free()).expect("undo");
    assert_eq!((undone.count, set.document().tempo()), (3, Some(82.0)));
    assert_eq!(undone.labels, ["set tempo 85", "set tempo 84", "set tempo 83"]);
    set.redo(1, &free()).expect("redo");
    set.apply(&[tempo(60.0)], &free()).expect("edit");
    assert_eq!(set.redo(1, &free()).expect("nothing").count, 0);
}

#[test]
fn changes_apply_invert_and_compose() {
    let doc = small();
    let one = doc.plan(&[delete("track:0")]).expect("one");
    let two = one.after.plan(&[tempo(77.0), LiveEdit::CreateTrack { kind: TrackKind::Midi }]).expect("two");
    let both = one.change.clone().then(two.change.clone()).expect("compose");
    let after = both.apply(&doc).expect("apply");
    assert_eq!((after.to_xml(), after.revision()), (two.after.to_xml(), two.after.revision()));
    let back = both.invert().apply(&after).expect("invert");
    assert_eq!((back.to_xml(), back.revision()), (doc.to_xml(), doc.revision()));
    assert_eq!(both.invert().invert(), both);
    assert!(two.change.apply(&doc).is_err(), "a change was applied to another revision");
    assert!(two.change.then(one.change).is_err(), "changes that are not consecutive were combined");
}

#[test]
fn results_have_the_keys_of_every_write() {
    let mut set = OpenSet::new(golden());
    let mut keys = |edit: LiveEdit| {
        let applied = set.apply(&[edit], &free()).expect("edit");
        let text = serde_json::to_string(&applied.result(false)).expect("json");
        let value: serde_json::Value = serde_json::from_str(&text).expect("json");
        let object = value.as_object().expect("object").clone();
        assert_eq!(text.matches("\"revision\":").count(), 1, "{text}");
        assert_eq!(object["revision"], applied.revision.to_string());
        assert_eq!(object["undoSteps"], 1);
        object
    };
    assert_eq!(keys(tempo(90.0))["tempo"], 90);
    assert_eq!(keys(replace_notes(BEAT, &[]))["removed"], 4);
    assert_eq!(keys(LiveEdit::SetParam { param_id: path("track:0/mixer/volume"), value: 0.5 })["previous"], 1);
    let insert = LiveEdit::InsertDevice { track_id: path("track:2"), device_name: "Reverb".into(), index: 0 };
    let inserted = keys(insert);
    assert_eq!((&inserted["shifted"], inserted["warnings"].as_array().map(Vec::len)), (&true.into(), Some(1)));
    let gone = keys(delete("track:0"));
    assert_eq!((&gone["shifted"], &gone["deleted"]), (&true.into(), &serde_json::json!(["track:0"])));
    let dry = set.preview(&[tempo(80.0)], &free()).expect("preview");
    let dry = serde_json::to_value(dry.result(true)).expect("json");
    assert_eq!((&dry["undoSteps"], &dry["diff"]["count"]), (&0.into(), &1.into()));
}

#[test]
fn saving_settles_what_is_dirty() {
    let mut set = OpenSet::new(small());
    set.apply(&[tempo(90.0)], &free()).expect("edit");
    assert!(set.is_dirty());
    let bytes = set.save();
    let revision = set.document().revision();
    set.saved(bytes.clone());
    assert!(!set.is_dirty());
    assert_eq!((set.document().revision(), set.save()), (revision, bytes), "saving changed the revision or the bytes");
    assert_eq!(set.diff_to_saved().count, 0);
    set.undo(1, &free()).expect("undo failed after a save");
    assert!(set.is_dirty());
}

#[test]
fn a_diff_names_every_kind_of_difference() {
    let old = golden();
    let xml = old.to_xml().replacen("<Name Value=\"Minor\" />", "<Name Value=\"Dorian\" />", 1);
    let xml = xml.replacen("<Annotation Value=\"\" />", "<Annotation Value=\"note to self\" />", 1);
    let new = conductor_set::Document::from_xml(xml).expect("new");
    let mut set = OpenSet::new(new);
    set.apply(
        &[
            LiveEdit::CreateTrack { kind: TrackKind::Midi },
            LiveEdit::CreateMidiClip { slot_id: path("track:1/clipslot:1"), length_beats: 4.0 },
            LiveEdit::DeleteClip { clip_id: path("track:1/clip:0") },
            LiveEdit::InsertDevice { track_id: path("track:2"), device_name: "Reverb".into(), index: 0 },
        ],
        &free(),
    )
    .expect("edits");
    let found = diff(&old, set.document());
    let ops: Vec<_> = found.changes.iter().map(|c| (c.op, c.subject.as_str())).collect();
    for wanted in [
        ("other", "scaleName"),
        ("other", "track:0"),
        ("create_track", "track:3"),
        ("create_midi_clip", "track:1/clipslot:1/clip"),
        ("delete_clip", "track:1/clip:0"),
        ("insert_device", "track:2/device:0"),
    ] {
        assert!(ops.contains(&wanted), "{wanted:?} is missing from {ops:?}");
    }
    assert_eq!(found.count, 6, "{}", found.text);
    assert_eq!(diff(&old, &old).count, 0);
    // In the reverse diff, the created objects are deleted.
    let back = diff(set.document(), &old);
    assert!(back.changes.iter().any(|c| c.op == "delete_track" && c.subject == "track:3"));
}

#[test]
fn a_revision_tells_where_it_came_from() {
    let one = small();
    let other = conductor_set::Document::from_xml(one.to_xml().replacen(
        "CrossfadeCurve Value=\"2\"",
        "CrossfadeCurve Value=\"3\"",
        1,
    ))
    .expect("other");
    let after = |doc: &conductor_set::Document| doc.plan(&[tempo(90.0)]).expect("plan").revision();
    assert_ne!(one.revision(), other.revision());
    assert_ne!(after(&one), after(&other), "the same edit of two Sets gave the same revision");
}
