//! Tests of surprising features of real Sets.

use crate::fixtures::{
    as_family, audio_clip, device, edited, free, golden, in_track, next_id, path, real_set, replace_notes, small,
    with_ids,
};
use conductor_set::{
    ClipProps, Document, Family, LiveEdit, LiveError, Note, NoteQuery, NoteWindow, Notes, OpenSet, Outcome,
    RangeSource, TrackKind, TrackProps, Unit, check,
};

const BEAT: &str = "track:0/clipslot:0/clip";

fn refused(doc: &Document, edit: LiveEdit) -> LiveError {
    let mut set = OpenSet::new(doc.clone());
    let before = (set.document().to_xml(), set.document().revision());
    let error = set.apply(&[edit], &free()).expect_err("the edit was not refused");
    assert_eq!((set.document().to_xml(), set.document().revision()), before, "a refused edit changed the document");
    assert!(!set.undo(1, &free()).expect("undo").can_redo, "a refused edit added an undo entry");
    error
}

fn code(doc: &Document, edit: LiveEdit) -> &'static str {
    refused(doc, edit).code().as_str()
}

fn notes_of(doc: &Document, clip: &str) -> Vec<Note> {
    doc.all_notes(path(clip)).expect(clip)
}

fn tempo(bpm: f64) -> LiveEdit {
    LiveEdit::SetTempo { bpm }
}

fn param(id: &str, value: f64) -> LiveEdit {
    LiveEdit::SetParam { param_id: path(id), value }
}

#[test]
fn pitch_0_and_127_and_every_attribute_survive() {
    let notes = [
        Note {
            velocity: 1.5,
            muted: true,
            probability: 0.25,
            velocity_deviation: -12.0,
            release_velocity: 0.0,
            ..Note::new(0, 0.0, 0.001)
        },
        Note {
            velocity: 127.0,
            velocity_deviation: 127.0,
            release_velocity: 127.0,
            probability: 0.0,
            ..Note::new(127, 1.0 / 3.0, 2.5)
        },
    ];
    let doc = edited(&small(), &[replace_notes(BEAT, &notes)]);
    assert_eq!(notes_of(&doc, BEAT), notes);
    let again = Document::open(&doc.to_als(), 1 << 28).expect("opens");
    assert_eq!(notes_of(&again, BEAT), notes);
}

#[test]
fn omitted_attributes_read_as_defaults_and_are_written_alike() {
    let doc = as_family(&small(), "12.0_12300");
    assert_eq!(doc.schema().family, Family::Live12_3);
    let xml =
        doc.to_xml().replace(" VelocityDeviation=\"0\" OffVelocity=\"64\" Probability=\"1\" IsEnabled=\"true\"", "");
    let doc = Document::from_xml(xml).expect("12.3");
    let read = notes_of(&doc, BEAT);
    assert_eq!(read[0], Note::new(36, 0.0, 0.25));
    let mut more = read.clone();
    more.push(Note { muted: true, probability: 0.5, ..Note::new(50, 3.5, 0.5) });
    let after = edited(&doc, &[replace_notes(BEAT, &more)]);
    let xml = after.to_xml();
    assert!(xml.contains("<MidiNoteEvent Time=\"0\" Duration=\"0.25\" Velocity=\"100\" NoteId=\"1\" />"));
    assert!(xml.contains("<MidiNoteEvent Time=\"3.5\" Duration=\"0.5\" Velocity=\"100\" Probability=\"0.5\" IsEnabled=\"false\" NoteId=\"5\" />"));
    assert_eq!(notes_of(&after, BEAT).len(), 5);
    // In an empty clip, new notes have the same form as the other notes of the Set.
    let slot = LiveEdit::CreateMidiClip { slot_id: path("track:0/clipslot:1"), length_beats: 1.0 };
    let after = edited(&doc, &[slot.clone(), replace_notes("track:0/clipslot:1/clip", &[Note::new(61, 0.0, 1.0)])]);
    assert!(after.to_xml().contains("<MidiNoteEvent Time=\"0\" Duration=\"1\" Velocity=\"100\" NoteId=\"1\" />"));
    // Before 12.3 all attributes are written.
    let older = edited(&small(), &[slot, replace_notes("track:0/clipslot:1/clip", &[Note::new(61, 0.0, 1.0)])]);
    assert!(older.to_xml().contains(
        "<MidiNoteEvent Time=\"0\" Duration=\"1\" Velocity=\"100\" VelocityDeviation=\"0\" OffVelocity=\"64\" Probability=\"1\" IsEnabled=\"true\" NoteId=\"1\" />"
    ));
}

#[test]
fn numeric_scales_have_names_where_they_are_certain() {
    let with = |number: &str| {
        let xml = Document::new_set().expect("skeleton").to_xml().replacen("12.0_12049", "12.0_12117", 1);
        let xml = xml.replacen("<RootNote Value=\"0\" />", "<Root Value=\"9\" />", 1);
        Document::from_xml(xml.replacen("<Name Value=\"Major\" />", &format!("<Name Value=\"{number}\" />"), 1))
            .expect("12.1")
            .overview()
    };
    let minor = with("1");
    assert_eq!((minor.scale_name.as_deref(), minor.root_note), (Some("Minor"), Some(9)));
    assert_eq!(minor.scale_intervals, [0, 2, 3, 5, 7, 8, 10]);
    for number in ["21", "22", "23", "99"] {
        let unsure = with(number);
        assert_eq!(unsure.scale_name, Some(format!("Scale {number}")));
        assert!(unsure.scale_intervals.is_empty() && unsure.warnings.len() == 1);
        assert!(unsure.unknown.contains(&"scaleIntervals"));
    }
}

#[test]
fn tempo_is_written_in_both_places() {
    let doc = edited(&small(), &[tempo(93.5)]);
    let xml = doc.to_xml();
    assert!(xml.contains("<Manual Value=\"93.5\" />"));
    assert!(xml.contains("<FloatEvent Id=\"0\" Time=\"-63072000\" Value=\"93.5\" />"));
    assert_eq!(doc.tempo(), Some(93.5));
    // If the value of the event and the stored value differ, the value of the event counts.
    let torn =
        Document::from_xml(xml.replacen("<Manual Value=\"93.5\" />", "<Manual Value=\"60\" />", 1)).expect("torn");
    assert_eq!(torn.tempo(), Some(93.5));
    // Without an envelope only the parameter is written.
    let bare = small().to_xml();
    let (from, to) = (
        bare.rfind("<AutomationEnvelope Id=\"1\">").expect("envelope"),
        bare.rfind("</AutomationEnvelope>").expect("end") + 21,
    );
    let bare = Document::from_xml(format!("{}{}", &bare[..from], &bare[to..])).expect("bare");
    assert_eq!(edited(&bare, &[tempo(77.0)]).tempo(), Some(77.0));
    for bpm in [19.99, 1000.0, f64::NAN, f64::INFINITY] {
        assert_eq!(code(&small(), tempo(bpm)), "BAD_INPUT");
    }
    assert_eq!(edited(&small(), &[tempo(20.0)]).tempo(), Some(20.0));
    assert_eq!(edited(&small(), &[tempo(999.0)]).tempo(), Some(999.0));
}

#[test]
fn an_automated_tempo_is_refused() {
    let event = "<FloatEvent Id=\"0\" Time=\"-63072000\" Value=\"120\" />";
    let xml = small().to_xml().replacen(event, &format!("{event}<FloatEvent Id=\"1\" Time=\"8\" Value=\"140\" />"), 1);
    let error = refused(&Document::from_xml(xml).expect("automated"), tempo(100.0));
    assert_eq!(error.code().as_str(), "UNSUPPORTED");
    assert!(error.to_string().contains("automated"));
    if let Some(real) = real_set("tempo_automation.als") {
        assert_eq!(code(&real, tempo(100.0)), "UNSUPPORTED");
    }
}

#[test]
fn volume_is_linear_gain_with_decibels_beside_it() {
    let doc = edited(&small(), &[param("track:0/mixer/volume", 0.5)]);
    let volume = doc.param(path("track:0/mixer/volume")).expect("volume");
    assert_eq!((volume.value, volume.unit, volume.display.as_str()), (0.5, Unit::Gain, "-6.0 dB"));
    assert_eq!((volume.min, volume.max), (0.000_316_227_757_1, 1.995_262_38));
    assert_eq!(doc.param(path("track:0/mixer/send:1")).expect("send").display, "-inf dB");
    let pan = edited(&doc, &[param("main/mixer/panning", -1.0)]).param(path("main/mixer/panning")).expect("pan");
    assert_eq!((pan.value, pan.display.as_str()), (-1.0, "50L"));
    assert_eq!(code(&doc, param("track:0/mixer/volume", 2.0)), "BAD_INPUT");
    assert_eq!(code(&doc, param("returntrack:0/mixer/panning", 1.1)), "BAD_INPUT");
}

fn with_device(range: (f64, f64), value: f64) -> Document {
    let xml = small().to_xml();
    let id = next_id(&xml);
    let put = format!("<Devices>\n{}\n</Devices>", device("Eq8", "Freq", value, range, id));
    let xml = in_track(&xml, 0, |t| t.replacen("<Devices />", &put, 1));
    Document::from_xml(with_ids(&xml, id, 3)).expect("with device")
}

#[test]
fn inverted_and_exceeded_ranges_take_any_value_of_the_hull() {
    let inverted = with_device((1.0, -1.0), 0.25);
    let freq = inverted.param(path("track:0/device:0/param:0")).expect("param");
    assert_eq!((freq.min, freq.max, freq.range_source, freq.default_value), (-1.0, 1.0, RangeSource::Mapping, None));
    assert_eq!(
        edited(&inverted, &[param("track:0/device:0/param:0", -1.0)]).param(freq.id).expect("param").value,
        -1.0
    );
    let exceeded = with_device((0.0, 1.0), 4.0);
    for good in [0.0, 1.0, 3.5, 4.0] {
        OpenSet::new(exceeded.clone())
            .apply(&[param("track:0/device:0/param:0", good)], &free())
            .expect("a value inside the extended range was refused");
    }
    for bad in [-0.1, 4.1, f64::NAN] {
        assert_eq!(code(&exceeded, param("track:0/device:0/param:0", bad)), "BAD_INPUT");
    }
}

#[test]
fn switches_take_0_and_1_and_enumerations_nothing_new() {
    let doc = with_device((0.0, 1.0), 0.5);
    let on = doc.param(path("track:0/device:0/param:1")).expect("On");
    assert_eq!((on.min, on.max, on.is_quantized, on.unit, on.value), (0.0, 1.0, true, Unit::Bool, 1.0));
    let off = edited(&doc, &[param("track:0/device:0/param:1", 0.0)]);
    assert_eq!(off.devices(path("track:0")).expect("devices").devices[0].is_on, Some(false));
    assert_eq!(code(&doc, param("track:0/device:0/param:1", 0.5)), "BAD_INPUT");
    let mode = doc.param(path("track:0/device:0/param:2")).expect("Mode");
    assert_eq!((mode.min, mode.max, mode.value, mode.range_source), (2.0, 2.0, 2.0, RangeSource::Unknown));
    assert_eq!(code(&doc, param("track:0/device:0/param:2", 1.0)), "UNSUPPORTED");
    let same = OpenSet::new(doc)
        .apply(&[param("track:0/device:0/param:2", 2.0)], &free())
        .expect("the stored value was refused");
    assert_eq!(same.undo_steps, 0, "an edit without effect added an undo step");
}

fn with_group() -> Document {
    // The third track becomes a group that contains the audio track after it.
    let doc = edited(&small(), &[LiveEdit::CreateTrack { kind: TrackKind::Audio }]);
    let xml =
        in_track(&doc.to_xml(), 2, |t| t.replacen("MidiTrack ", "GroupTrack ", 1).replace("MainSequencer>", "Unused>"));
    let at = xml.find("<GroupTrack ").expect("group");
    let end = at + xml[at..].find("</MidiTrack>").expect("end");
    let xml = format!("{}</GroupTrack>{}", &xml[..end], &xml[end + 12..]);
    let id = xml[at..].split('"').nth(1).expect("id").to_owned();
    let xml =
        in_track(&xml, 3, |t| t.replacen("TrackGroupId Value=\"-1\"", &format!("TrackGroupId Value=\"{id}\""), 1));
    Document::from_xml(xml).expect("group")
}

#[test]
fn groups_count_as_tracks_and_hold_no_clips() {
    let doc = with_group();
    let kinds: Vec<_> = doc.track_rows().iter().map(|t| t.kind).collect();
    assert_eq!(kinds, [TrackKind::Midi, TrackKind::Audio, TrackKind::Group, TrackKind::Audio]);
    let arm = LiveEdit::SetTrackProps {
        track_id: path("track:2"),
        props: TrackProps { arm: Some(true), ..TrackProps::default() },
    };
    assert_eq!(code(&doc, arm), "WRONG_TYPE");
    let clip = LiveEdit::CreateMidiClip { slot_id: path("track:2/clipslot:0"), length_beats: 4.0 };
    assert_eq!(code(&doc, clip), "WRONG_TYPE");
    assert_eq!(
        doc.notes(path("track:2/clip:0"), NoteQuery::default()).expect_err("group").code().as_str(),
        "WRONG_TYPE"
    );
    assert!(doc.clips(path("track:2"), 0).expect("lists").session.is_empty());
    // Deleting the group also deletes its child. Return tracks are not counted.
    let mut set = OpenSet::new(doc);
    let applied = set.apply(&[LiveEdit::DeleteTrack { track_id: path("track:2") }], &free()).expect("delete");
    let Outcome::Deleted(gone) = &applied.outcomes[0] else { panic!("{applied:?}") };
    assert_eq!(gone.deleted, [path("track:2"), path("track:3")]);
    assert!(applied.shifted);
    assert_eq!(set.document().overview().track_count, 2);
    assert_eq!(set.document().overview().return_track_count, Some(2));
    if let Some(real) = real_set("group.als") {
        let after = edited(&real, &[LiveEdit::DeleteTrack { track_id: path("track:2") }]);
        assert_eq!(
            after.track_rows().iter().map(|t| t.name.as_str()).collect::<Vec<_>>(),
            ["1-808 Core Kit", "2-808 Oracle 2"]
        );
    }
}

#[test]
fn a_track_made_from_a_grouped_donor_stands_outside() {
    let xml = in_track(&small().to_xml(), 1, |t| {
        t.replacen("AudioOut/Main", "AudioOut/GroupTrack", 1).replacen(
            "TrackGroupId Value=\"-1\"",
            "TrackGroupId Value=\"0\"",
            1,
        )
    });
    let doc = edited(&Document::from_xml(xml).expect("grouped"), &[LiveEdit::CreateTrack { kind: TrackKind::Audio }]);
    let xml = doc.to_xml();
    assert_eq!(xml.matches("AudioOut/GroupTrack").count(), 1, "the new track belongs to the group of the cloned track");
    assert_eq!(
        xml.matches("TrackGroupId Value=\"0\"").count(),
        1,
        "the new track belongs to the group of the cloned track"
    );
}

#[test]
fn the_boundary_is_400_notes() {
    let note = |n: usize| Note {
        probability: 0.5,
        ..Note::new(u8::try_from(36 + n % 24).expect("pitch"), n as f64 * 0.25, 0.25)
    };
    let notes: Vec<Note> = (0..401).map(note).collect();
    let full = edited(&small(), &[replace_notes(BEAT, &notes[..400])]);
    let Notes::Listed { count: 400, notes: listed, next_offset: None, .. } =
        full.notes(path(BEAT), NoteQuery::default()).expect("400")
    else {
        panic!("400 notes were not listed");
    };
    assert_eq!(listed.len(), 400);
    let long = edited(&small(), &[replace_notes(BEAT, &notes)]);
    let Notes::Summary { count: 401, summary, first_notes, truncated: true, .. } =
        long.notes(path(BEAT), NoteQuery::default()).expect("401")
    else {
        panic!("401 notes were not summarized");
    };
    assert_eq!((summary.pitch_range, summary.span_beats, first_notes.len()), ([36, 59], 100.25, 50));
    let (mut walked, mut offset) = (Vec::new(), Some(0));
    while let Some(at) = offset {
        let query = NoteQuery { offset: Some(at), ..NoteQuery::default() };
        let Notes::Listed { notes, next_offset, count: 401, .. } = long.notes(path(BEAT), query).expect("page") else {
            panic!("the reply is not a page")
        };
        walked.extend(notes);
        offset = next_offset;
    }
    assert_eq!(walked, notes);
    let window = NoteQuery { from_beat: Some(1.0), to_beat: Some(2.0), offset: None };
    let Notes::Listed { count: 4, .. } = long.notes(path(BEAT), window).expect("window") else {
        panic!("the reply does not list four notes")
    };
}

#[test]
fn equal_notes_keep_their_ids_and_orphaned_expression_goes() {
    let list = |id: u32| {
        format!(
            "<PerNoteEventList Id=\"{id}\" NoteId=\"{id}\" CC=\"-2\"><Events><PerNoteEvent TimeOffset=\"0\" Value=\"9\" /></Events></PerNoteEventList>"
        )
    };
    let xml =
        small().to_xml().replacen("<EventLists />", &format!("<EventLists>{}{}</EventLists>", list(1), list(3)), 1);
    let doc = Document::from_xml(xml).expect("mpe");
    let mut notes = notes_of(&doc, BEAT);
    // Note ids are assigned in pitch order: the notes 36 at beats 0 and 2 have ids 1 and 2, the
    // notes 38 at beats 1 and 3 have ids 3 and 4.
    notes.retain(|n| !(n.pitch == 38 && n.start_time == 1.0));
    notes.push(Note::new(40, 1.0, 0.5));
    let after = edited(&doc, &[replace_notes(BEAT, &notes)]).to_xml();
    assert!(after.contains("NoteId=\"1\" CC="), "the kept note lost its expression");
    assert!(!after.contains("NoteId=\"3\""), "a reference to the removed note is left");
    assert!(after.contains(
        "Velocity=\"100\" VelocityDeviation=\"0\" OffVelocity=\"64\" Probability=\"1\" IsEnabled=\"true\" NoteId=\"5\""
    ));
    assert!(after.contains("<NextId Value=\"6\" />"));
    let none = edited(&doc, &[replace_notes(BEAT, &[])]).to_xml();
    assert!(none.contains("<KeyTracks />") && none.contains("<EventLists />"));
}

#[test]
fn values_that_do_not_change_keep_their_text() {
    let xml =
        small().to_xml().replacen("Time=\"1\" Duration=\"0.25\"", "Time=\"0.333333333333333315\" Duration=\"0.25\"", 1);
    let doc = Document::from_xml(xml).expect("long digits");
    let mut notes = notes_of(&doc, BEAT);
    notes[0].velocity = 5.0;
    let after = edited(&doc, &[replace_notes(BEAT, &notes)]).to_xml();
    assert!(after.contains("Time=\"0.333333333333333315\""));
    let same =
        OpenSet::new(doc.clone()).apply(&[replace_notes(BEAT, &notes_of(&doc, BEAT))], &free()).expect("same notes");
    assert_eq!((same.undo_steps, same.revision), (0, doc.revision()));
}

#[test]
fn overlaps_follow_live() {
    let notes = [
        Note::new(60, 0.0, 4.0),
        Note::new(60, 1.0, 1.0),
        Note { velocity: 7.0, ..Note::new(60, 1.0, 0.5) },
        Note::new(61, 0.5, 9.0),
    ];
    let mut set = OpenSet::new(small());
    let applied = set.apply(&[replace_notes(BEAT, &notes)], &free()).expect("notes");
    let Outcome::Notes(written) = &applied.outcomes[0] else { panic!("{applied:?}") };
    assert_eq!((written.count, written.adjusted, written.removed), (3, 2, 4));
    let stored = notes_of(set.document(), BEAT);
    assert_eq!((stored[0].duration, stored[2].velocity, stored[2].duration), (1.0, 7.0, 0.5));
}

#[test]
fn a_window_replaces_only_what_starts_inside() {
    let window =
        |from_beat, to_beat, from_pitch, to_pitch| Some(NoteWindow { from_beat, to_beat, from_pitch, to_pitch });
    let edit = |notes: &[Note], window| LiveEdit::ReplaceNotes { clip_id: path(BEAT), notes: notes.to_vec(), window };
    let after = edited(&small(), &[edit(&[Note::new(36, 1.5, 4.0)], window(1.0, 3.0, None, None))]);
    let stored = notes_of(&after, BEAT);
    assert_eq!(stored.iter().map(|n| (n.pitch, n.start_time)).collect::<Vec<_>>(), [(36, 0.0), (36, 1.5), (38, 3.0)]);
    let after = edited(&small(), &[edit(&[], window(0.0, 4.0, Some(37), Some(38)))]);
    assert_eq!(notes_of(&after, BEAT).len(), 2);
    assert_eq!(code(&small(), edit(&[Note::new(36, 3.0, 1.0)], window(1.0, 3.0, None, None))), "BAD_INPUT");
    assert_eq!(code(&small(), edit(&[], window(3.0, 3.0, None, None))), "BAD_INPUT");
    assert_eq!(code(&small(), edit(&[], window(0.0, 3.0, Some(9), Some(8)))), "BAD_INPUT");
}

#[test]
fn bad_notes_are_named_by_their_index() {
    let good = Note::new(60, 0.0, 1.0);
    for bad in [
        Note { duration: 0.0, ..good },
        Note { duration: f64::NAN, ..good },
        Note { start_time: -1.0, ..good },
        Note { start_time: f64::INFINITY, ..good },
        Note { pitch: 128, ..good },
        Note { velocity: 127.5, ..good },
        Note { probability: 1.5, ..good },
        Note { velocity_deviation: -128.0, ..good },
        Note { release_velocity: 128.0, ..good },
    ] {
        let error = refused(&small(), replace_notes(BEAT, &[good, bad]));
        assert_eq!((error.code().as_str(), error.subject().as_deref()), ("BAD_INPUT", Some("notes[1]")), "{bad:?}");
    }
    let selected = Note { selected: Some(true), ..good };
    let applied = OpenSet::new(small())
        .apply(&[replace_notes(BEAT, &[selected])], &free())
        .expect("a note with `selected` was refused");
    assert_eq!(applied.warnings.len(), 1);
}

#[test]
fn names_with_markup_round_trip_and_control_characters_do_not() {
    let name = |n: &str| LiveEdit::SetTrackProps {
        track_id: path("track:0"),
        props: TrackProps { name: Some(n.into()), ..TrackProps::default() },
    };
    for good in ["R&B <\"live\"> 'x'", "\u{97f3}\u{4e50} \u{1f941}", "a\tb", " "] {
        let doc = Document::open(&edited(&small(), &[name(good)]).to_als(), 1 << 28).expect("opens");
        assert_eq!(doc.track_rows()[0].name, good);
    }
    for bad in ["", "a\nb", "\u{0}", "\u{1b}[0m"] {
        assert_eq!(code(&small(), name(bad)), "BAD_INPUT", "{bad:?}");
    }
}

#[test]
fn line_ends_and_indent_follow_the_file() {
    let crlf = Document::from_xml(small().to_xml().replace('\n', "\r\n")).expect("crlf");
    let edits = [
        LiveEdit::CreateTrack { kind: TrackKind::Midi },
        LiveEdit::CreateMidiClip { slot_id: path("track:3/clipslot:7"), length_beats: 2.0 },
        replace_notes("track:3/clipslot:7/clip", &[Note::new(1, 0.0, 1.0)]),
        replace_notes(BEAT, &[]),
    ];
    let after = edited(&crlf, &edits);
    let text = after.to_xml();
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "the text contains a bare LF");
    let plain = edited(&small(), &edits).to_xml();
    assert_eq!(text.replace("\r\n", "\n"), plain, "the same edits gave different text");
    assert!(plain.lines().all(|l| l.trim_start_matches('\t') == l.trim_start()), "a line is not indented with tabs");
}

#[test]
fn old_and_newer_generations_are_read_only() {
    for (minor, family) in
        [("10.0_377", Family::Before11), ("12.0_12402", Family::Newer), ("13.0_13000", Family::Newer)]
    {
        let doc = as_family(&small(), minor);
        assert_eq!(doc.schema().family, family, "{minor}");
        assert_eq!(doc.overview().track_count, 3);
        assert!(!doc.overview().editable);
        assert_eq!(code(&doc, tempo(100.0)), "UNSUPPORTED");
    }
    for minor in ["11.0_433", "11.0_11300", "12.0_12203", "12.0_12300"] {
        assert!(as_family(&small(), minor).schema().is_editable(), "{minor}");
    }
}

#[test]
fn live_11_is_written_with_what_it_has() {
    let xml = small().to_xml().replace("MainTrack>", "MasterTrack>");
    let start = xml.find("<NoteProbabilityGroups />").expect("groups");
    let end = xml[start..].find("<NoteIdGenerator>").expect("generator") + start;
    let xml = format!("{}{}", &xml[..start], &xml[end..]);
    let doc = as_family(&Document::from_xml(xml).expect("11"), "11.0_11300");
    let after = edited(
        &doc,
        &[
            tempo(101.0),
            replace_notes(BEAT, &[Note::new(60, 0.0, 1.0)]),
            LiveEdit::CreateMidiClip { slot_id: path("track:2/clipslot:0"), length_beats: 4.0 },
            LiveEdit::CreateTrack { kind: TrackKind::Audio },
        ],
    );
    assert_eq!(after.tempo(), Some(101.0));
    assert!(!after.to_xml().contains("NoteProbabilityGroups"), "a missing element was added to a clip");
    assert_eq!(check(&after), []);
}

#[test]
fn frozen_tracks_keep_their_content() {
    let doc = Document::from_xml(in_track(&small().to_xml(), 0, |t| {
        t.replacen("<Freeze Value=\"false\" />", "<Freeze Value=\"true\" />", 1)
    }))
    .expect("frozen");
    assert_eq!(code(&doc, replace_notes(BEAT, &[])), "UNSUPPORTED");
    assert_eq!(code(&doc, LiveEdit::DeleteClip { clip_id: path(BEAT) }), "UNSUPPORTED");
    assert_eq!(
        code(&doc, LiveEdit::CreateMidiClip { slot_id: path("track:0/clipslot:3"), length_beats: 4.0 }),
        "UNSUPPORTED"
    );
    // A frozen track is not used as the template; the other MIDI track is cloned.
    let after = edited(&doc, &[LiveEdit::CreateTrack { kind: TrackKind::Midi }]);
    assert_eq!(after.to_xml().matches("<Freeze Value=\"true\" />").count(), 1);
}

#[test]
fn clip_properties_keep_their_meaning() {
    let set = |props| LiveEdit::SetClipProps { clip_id: path(BEAT), props };
    let after = edited(
        &small(),
        &[set(ClipProps { loop_start: Some(1.0), loop_end: Some(3.0), end_marker: Some(3.5), ..ClipProps::default() })],
    );
    let info = after.clip_info(path(BEAT)).expect("clip");
    assert_eq!(
        (info.loop_start, info.loop_end, info.start_marker, info.end_marker),
        (1.0, 3.0, 0.0, 3.5),
        "the loop or a marker is wrong"
    );
    assert_eq!((info.start_time, info.end_time, info.duration), (1.0, 3.0, 2.0));
    let after = edited(
        &after,
        &[set(ClipProps {
            start_marker: Some(2.0),
            name: Some(String::new()),
            color: Some(69),
            ..ClipProps::default()
        })],
    );
    assert_eq!(after.clip_info(path(BEAT)).expect("clip").start_marker, 2.0);
    assert_eq!(after.clip_info(path(BEAT)).expect("clip").color, 0x003C_3C3C);
    assert_eq!(code(&small(), set(ClipProps { looping: Some(false), ..ClipProps::default() })), "UNSUPPORTED");
    assert_eq!(code(&small(), set(ClipProps { color: Some(70), ..ClipProps::default() })), "BAD_INPUT");
    assert_eq!(code(&small(), set(ClipProps { loop_end: Some(0.0), ..ClipProps::default() })), "BAD_INPUT");
    assert_eq!(code(&small(), set(ClipProps::default())), "BAD_INPUT");
}

#[test]
fn devices_are_cloned_from_donors_only() {
    let insert = |track: &str, name: &str, index| LiveEdit::InsertDevice {
        track_id: path(track),
        device_name: name.into(),
        index,
    };
    let doc = golden();
    let mut set = OpenSet::new(doc.clone());
    let applied = set.apply(&[insert("track:2", "Reverb", 1)], &free()).expect("donor");
    assert!(applied.shifted, "an inserted device did not shift the devices after it");
    assert_eq!(applied.warnings.len(), 1);
    let names: Vec<_> =
        set.document().devices(path("track:2")).expect("devices").devices.into_iter().map(|d| d.name).collect();
    assert_eq!(names, ["EQ Eight", "Reverb", "Compressor"]);
    assert_eq!(check(set.document()), []);
    assert_eq!(code(&doc, insert("track:0", "Serum", 0)), "SDK_REJECTED");
    assert_eq!(
        code(&doc, insert("track:2", "Instrument Rack", 0)),
        "SDK_REJECTED",
        "an audio track accepted an instrument"
    );
    let error = refused(&doc, insert("track:0", "Wavetable", 0));
    assert_eq!(error.code().as_str(), "UNSUPPORTED");
    assert!(error.hint().contains("EQ Eight"), "the hint does not list the devices of the Set: {}", error.hint());
    assert_eq!(code(&doc, insert("returntrack:0", "Reverb", 0)), "WRONG_TYPE");
}

#[test]
fn deleting_leaves_the_rest_as_it_was() {
    let doc = golden();
    let mut set = OpenSet::new(doc.clone());
    let session = set.apply(&[LiveEdit::DeleteClip { clip_id: path(BEAT) }], &free()).expect("session clip");
    assert!(!session.shifted);
    let gone = set.document().notes(path(BEAT), NoteQuery::default()).expect_err("empty");
    assert_eq!(gone.code().as_str(), "STALE_REFERENCE");
    assert!(gone.to_string().contains("empty"));
    let arranged =
        set.apply(&[LiveEdit::DeleteClip { clip_id: path("track:1/clip:0") }], &free()).expect("arrangement clip");
    assert!(arranged.shifted);
    assert!(set.document().clips(path("track:1"), 0).expect("clips").arrangement.is_empty());
    let xml = in_track(&doc.to_xml(), 0, |t| t.replacen("AudioIn/External/S0", "AudioIn/Track.10/PostFxOut", 1));
    let routed = Document::from_xml(xml).expect("routed");
    let warned = OpenSet::new(routed.clone())
        .apply(&[LiveEdit::DeleteTrack { track_id: path("track:1") }], &free())
        .expect("delete");
    assert_eq!(warned.warnings, ["routings of other tracks that still name a deleted track: 1"]);
    let two =
        [LiveEdit::DeleteTrack { track_id: path("track:0") }, LiveEdit::DeleteTrack { track_id: path("track:0") }];
    let one = edited(&doc, &two);
    assert_eq!(code(&one, LiveEdit::DeleteTrack { track_id: path("track:0") }), "SDK_REJECTED");
}

#[test]
fn a_render_is_planned_and_mixed_to_the_sample() {
    let xml = Document::new_set().expect("skeleton").to_xml();
    let clips = format!(
        "<Events>{}{}</Events>",
        audio_clip("one", 0.0, 2.0, "/a/one.wav"),
        audio_clip("two", 1.0, 3.0, "/a/two.wav").replacen("SampleVolume Value=\"1\"", "SampleVolume Value=\"0.5\"", 1)
    );
    let doc = Document::from_xml(in_track(&xml, 1, |t| t.replacen("<Events />", &clips, 1))).expect("audio");
    // At 120 beats per minute one beat is half a second.
    let plan = doc.plan_render(path("track:1"), 0.5, 4.0).expect("plan");
    assert_eq!((plan.seconds, plan.pieces.len(), plan.pieces[0].offset, plan.pieces[1].at), (1.75, 2, 0.25, 0.25));
    let ramp = |from: f32| conductor_set::Samples {
        sample_rate: 8,
        channels: vec![(0..16).map(|n| from + n as f32).collect()],
    };
    let mixed = conductor_set::mix(&plan, &[ramp(100.0), ramp(200.0)]).expect("mix");
    assert_eq!(
        mixed.channels[0],
        [102.0, 103.0, 100.0, 100.5, 101.0, 101.5, 102.0, 102.5, 103.0, 103.5, 0.0, 0.0, 0.0, 0.0]
    );
    let warped = Document::from_xml(doc.to_xml().replacen("IsWarped Value=\"false\"", "IsWarped Value=\"true\"", 1))
        .expect("warped");
    let error = warped.plan_render(path("track:1"), 0.0, 4.0).expect_err("warped");
    assert_eq!((error.code().as_str(), error.subject().as_deref()), ("UNSUPPORTED", Some("track:1/clip:0")));
    assert_eq!(doc.plan_render(path("track:0"), 0.0, 1.0).expect_err("MIDI").code().as_str(), "WRONG_TYPE");
    assert_eq!(doc.plan_render(path("track:1"), 1.0, 1.0).expect_err("empty").code().as_str(), "BAD_INPUT");
}

#[test]
fn arrangement_clips_are_counted_by_start_time() {
    let clips =
        [("late", 8.0), ("early", 0.0), ("middle", 4.0)].map(|(name, at)| audio_clip(name, at, at + 2.0, "/a/x.wav"));
    let xml = in_track(&small().to_xml(), 1, |t| {
        t.replacen("<Events />", &format!("<Events>\n{}\n</Events>", clips.join("\n")), 1)
    });
    let doc = Document::from_xml(xml).expect("clips");
    let names = |doc: &Document| {
        doc.clips(path("track:1"), 0).expect("clips").arrangement.into_iter().map(|c| c.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&doc), ["early", "middle", "late"]);
    let after = edited(&doc, &[LiveEdit::DeleteClip { clip_id: path("track:1/clip:1") }]);
    assert_eq!(names(&after), ["early", "late"]);
}

#[test]
fn a_group_in_a_group_goes_with_it() {
    let doc = with_group();
    // Add another group around the first one: the group of `with_group` becomes the child of a copy
    // of itself.
    let xml = doc.to_xml();
    let (from, to) = (xml.find("\n\t\t\t<GroupTrack ").expect("group"), xml.find("</GroupTrack>").expect("group") + 13);
    let inner = &xml[from..to];
    let id = inner.split('"').nth(1).expect("id");
    let child = inner.replacen("TrackGroupId Value=\"-1\"", "TrackGroupId Value=\"777\"", 1);
    let outer = inner.replacen(&format!("GroupTrack Id=\"{id}\""), "GroupTrack Id=\"777\"", 1);
    let doc = Document::from_xml(format!("{}{outer}{child}{}", &xml[..from], &xml[to..])).expect("nested");
    let applied =
        OpenSet::new(doc).apply(&[LiveEdit::DeleteTrack { track_id: path("track:2") }], &free()).expect("delete");
    let Outcome::Deleted(gone) = &applied.outcomes[0] else { panic!("{applied:?}") };
    assert_eq!(gone.deleted, [path("track:2"), path("track:3"), path("track:4")]);
}

#[test]
fn single_quoted_attributes_stay_single_quoted() {
    let xml =
        in_track(&small().to_xml(), 0, |t| t.replacen("<UserName Value=\"\" />", "<UserName Value='a \"b\"' />", 1));
    let name = "it's \"it\"";
    let props = TrackProps { name: Some(name.into()), ..TrackProps::default() };
    let doc = edited(
        &Document::from_xml(xml).expect("quotes"),
        &[LiveEdit::SetTrackProps { track_id: path("track:0"), props }],
    );
    assert!(doc.to_xml().contains("<UserName Value='it&apos;s &quot;it&quot;' />"));
    assert_eq!(Document::from_xml(doc.to_xml()).expect("not well formed").track_rows()[0].name, name);
}
