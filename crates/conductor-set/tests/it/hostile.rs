//! Tests of hostile files and ids, and of faults that `check` must find.

use crate::fixtures::{as_family, edited, golden, in_track, path, replace_notes, small};
use conductor_set::{Document, Fault, LiveEdit, Note, PathId, check};
use std::io::Write;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("write");
    out.finish().expect("finish")
}

fn reason(als: &[u8], limit: usize) -> String {
    let error = Document::open(als, limit).expect_err("the file was not refused");
    assert_eq!(error.code().as_str(), "BAD_INPUT");
    assert!(!error.hint().is_empty());
    error.to_string()
}

#[test]
fn bad_files_are_refused_with_the_reason() {
    let whole = small().to_als();
    let bomb = gzip(&vec![b' '; 40_000_000]);
    let deep = format!("<Ableton>{}", "<a>".repeat(100_000));
    for (als, limit, wanted) in [
        (Vec::new(), 1 << 20, "not compressed with gzip"),
        (b"<Ableton/>".to_vec(), 1 << 20, "not compressed with gzip"),
        (whole[..whole.len() / 2].to_vec(), 1 << 28, "cannot be decompressed"),
        (bomb, 1 << 20, "larger than the limit"),
        (gzip(b""), 1 << 20, "empty"),
        (gzip(&[0xff, 0xfe, 0x00]), 1 << 20, "not UTF-8"),
        (gzip(b"<?xml version=\"1.0\"?><Other><LiveSet/></Other>"), 1 << 20, "root element is <Other>"),
        (gzip(b"<Ableton><X/></Ableton>"), 1 << 20, "no <LiveSet>"),
        (gzip(b"<Ableton><LiveSet/></Ableton>"), 1 << 20, "no <Tracks>"),
        (gzip(b"<Ableton><LiveSet><Tracks></LiveSet></Ableton>"), 1 << 20, "belongs to another"),
        (gzip(b"<Ableton><LiveSet><Tracks/></LiveSet>"), 1 << 20, "ends inside"),
        (
            gzip(b"<!DOCTYPE x [<!ENTITY a \"b\">]><Ableton><LiveSet><Tracks/></LiveSet></Ableton>"),
            1 << 20,
            "declarations",
        ),
        (gzip(deep.as_bytes()), 1 << 20, "nested too deep"),
    ] {
        let said = reason(&als, limit);
        assert!(said.contains(wanted), "{said:?} does not contain {wanted:?}");
    }
}

#[test]
fn every_flipped_or_missing_part_is_read_or_refused_but_never_a_panic() {
    let xml = small().to_xml();
    let step = xml.len() / 150;
    for at in (0..xml.len()).step_by(step.max(1)) {
        for broken in [
            format!("{}{}", &xml[..at], &xml[at + 1..]),
            format!("{}<{}", &xml[..at], &xml[at..]),
            xml[..at].to_owned(),
        ] {
            if let Ok(doc) = Document::from_xml(broken) {
                let _ = (doc.overview(), doc.scenes(), check(&doc), doc.session());
                for row in doc.track_rows() {
                    let _ = (doc.track_detail(row.id), doc.devices(row.id));
                }
                let _ = doc.plan(&[
                    LiveEdit::SetTempo { bpm: 90.0 },
                    replace_notes("track:0/clipslot:0/clip", &[Note::new(1, 0.0, 1.0)]),
                ]);
            }
        }
    }
}

#[test]
fn a_set_with_nothing_in_it_answers_with_what_is_unknown() {
    let doc = Document::from_xml(
        "<Ableton MajorVersion=\"5\" MinorVersion=\"12.0_12049\"><LiveSet><Tracks /></LiveSet></Ableton>".into(),
    )
    .expect("bare");
    let seen = doc.overview();
    assert_eq!((seen.tempo, seen.track_count), (None, 0));
    for name in ["tempo", "rootNote", "scaleName", "scaleMode", "gridQuantization", "gridIsTriplet", "timeSignature"] {
        assert!(seen.unknown.contains(&name), "{name} is not listed as unknown");
    }
    let json = serde_json::to_value(&seen).expect("json");
    assert!(json["tempo"].is_null());
    for edit in [LiveEdit::SetTempo { bpm: 90.0 }, LiveEdit::CreateTrack { kind: conductor_set::TrackKind::Midi }] {
        assert_eq!(
            doc.plan(&[edit]).expect_err("an edit of a Set without tracks was accepted").code().as_str(),
            "UNSUPPORTED"
        );
    }
}

#[test]
fn sets_of_live_8_to_10_are_read() {
    let live8 = r#"<?xml version="1.0" encoding="UTF-8"?>
<Ableton MajorVersion="4" MinorVersion="8.1_226" Creator="Ableton Live 8.1.3">
	<LiveSet>
		<Tracks>
			<MidiTrack Id="0">
				<Name><UserName Value="Keys" /></Name>
				<ColorIndex Value="3" />
				<DeviceChain>
					<Mixer>
						<Speaker><ArrangerAutomation><Events><BoolEvent Time="-63072000" Value="false" /></Events></ArrangerAutomation></Speaker>
						<SoloSink Value="true" />
						<Volume><ArrangerAutomation><Events><FloatEvent Time="-63072000" Value="0.5" /></Events></ArrangerAutomation></Volume>
					</Mixer>
					<MainSequencer>
						<ClipSlotList><ClipSlot Id="0"><ClipSlot><Value><MidiClip Time="0">
							<CurrentStart Value="0" /><CurrentEnd Value="4" /><Name Value="Riff" />
							<Notes><KeyTracks><KeyTrack Id="0"><Notes>
								<MidiNoteEvent Time="1" Duration="0.5" Velocity="90" OffVelocity="64" IsEnabled="false" />
							</Notes><MidiKey Value="127" /></KeyTrack></KeyTracks></Notes>
						</MidiClip></Value></ClipSlot></ClipSlot></ClipSlotList>
						<Recorder><IsArmed Value="true" /></Recorder>
					</MainSequencer>
				</DeviceChain>
			</MidiTrack>
			<AudioTrack Id="1">
				<DeviceChain><MainSequencer><Sample><ArrangerAutomation><Events><AudioClip Time="8"><CurrentEnd Value="12" /><Name Value="Loop" />
					<SampleRef><FileRef><RelativePath><RelativePathElement Dir="Samples" /><RelativePathElement Dir="Drums" /></RelativePath><Name Value="loop.aif" /></FileRef></SampleRef>
				</AudioClip></Events></ArrangerAutomation></Sample></MainSequencer></DeviceChain>
			</AudioTrack>
		</Tracks>
		<MasterTrack>
			<MasterChain><Mixer><Tempo><ArrangerAutomation><Events><FloatEvent Time="-63072000" Value="133.5" /></Events></ArrangerAutomation></Tempo></Mixer></MasterChain>
		</MasterTrack>
		<SceneNames><Scene Value="Intro" /></SceneNames>
		<Locators><Locators><Locator><Time Value="16" /><Name Value="B" /></Locator><Locator><Time Value="4" /><Name Value="A" /></Locator></Locators></Locators>
	</LiveSet>
</Ableton>
"#;
    let doc = Document::from_xml(live8.into()).expect("Live 8");
    assert_eq!(doc.to_xml(), live8);
    assert_eq!(doc.tempo(), Some(133.5));
    let keys = doc.track_info(path("track:0")).expect("track");
    assert_eq!(
        (keys.name.as_str(), keys.mute, keys.solo, keys.arm, keys.mixer.volume),
        ("Keys", true, true, true, Some(0.5))
    );
    let notes = doc.all_notes(path("track:0/clipslot:0/clip")).expect("notes");
    assert_eq!(notes, [Note { muted: true, velocity: 90.0, ..Note::new(127, 1.0, 0.5) }]);
    assert_eq!(
        doc.clip_info(path("track:0/clipslot:0/clip")).expect("clip").color,
        0,
        "a Set of Live 8 reports a colour"
    );
    assert_eq!(
        doc.clip_info(path("track:1/clip:0")).expect("clip").file_path.as_deref(),
        Some("Samples/Drums/loop.aif")
    );
    let scenes = doc.scenes();
    assert_eq!((scenes.scenes[0].name.as_str(), scenes.scenes[0].is_empty), ("Intro", false));
    assert_eq!(
        scenes.cue_points.iter().map(|c| (c.name.as_str(), c.beat)).collect::<Vec<_>>(),
        [("A", 4.0), ("B", 16.0)]
    );
    assert_eq!(check(&doc), []);
    assert_eq!(
        doc.plan(&[LiveEdit::SetTempo { bpm: 90.0 }])
            .expect_err("an edit of a read-only Set was accepted")
            .code()
            .as_str(),
        "UNSUPPORTED"
    );
    assert_eq!(as_family(&small(), "10.0_377").overview().track_count, 3);
}

#[test]
fn check_finds_each_fault() {
    let sound = golden();
    assert_eq!(check(&sound), []);
    let xml = sound.to_xml();
    let faults = |xml: String| check(&Document::from_xml(xml).expect("not well formed"));
    let has = |found: &[Fault], test: fn(&Fault) -> bool| assert!(found.iter().any(test), "{found:?}");

    let second = xml.match_indices("<AutomationTarget Id=\"").nth(1).map(|(at, _)| at + 22).expect("target");
    let first = xml.find("<AutomationTarget Id=\"").expect("target") + 22;
    let id = xml[first..].split('"').next().expect("id");
    let end = xml[second..].find('"').expect("quote") + second;
    has(&faults(format!("{}{id}{}", &xml[..second], &xml[end..])), |f| matches!(f, Fault::DuplicateId { .. }));
    has(&faults(format!("{}999999{}", &xml[..second], &xml[end..])), |f| {
        matches!(f, Fault::IdNotBelowNext { id: 999_999, .. })
    });

    let short = in_track(&xml, 2, |t| {
        let from = t.find("<ClipSlot Id=\"1\">").expect("slot");
        let to = t[from..].find("<NeedRefreeze").expect("inside") + from;
        let to = t[to..].find("</ClipSlot>").expect("end") + to + 11;
        format!("{}{}", &t[..from], &t[to..])
    });
    has(&faults(short), |f| matches!(f, Fault::SlotCount { slots: 1, scenes: 2, list: "MainSequencer", .. }));
    has(&faults(xml.replacen("NoteId=\"2\"", "NoteId=\"1\"", 1)), |f| {
        matches!(f, Fault::DuplicateNoteId { id: 1, .. })
    });
    has(&faults(xml.replacen("NoteId=\"2\"", "NoteId=\"77\"", 1)), |f| {
        matches!(f, Fault::NoteIdNotBelowNext { id: 77, .. })
    });
    let at = xml.rfind("<PointeeId Value=\"").expect("pointee") + 18;
    has(&faults(format!("{}9{}", &xml[..at], &xml[at..])), |f| matches!(f, Fault::DanglingPointee { .. }));
    let grouped = in_track(&xml, 1, |t| t.replacen("TrackGroupId Value=\"-1\"", "TrackGroupId Value=\"55\"", 1));
    has(&faults(grouped.clone()), |f| matches!(f, Fault::DanglingGroup { group: 55, .. }));

    // A fault that the opened file already had does not prevent an edit.
    let faulty = Document::from_xml(grouped).expect("faulty");
    let renamed = edited(&faulty, &[replace_notes("track:1/clipslot:0/clip", &[Note::new(1, 0.0, 1.0)])]);
    assert_eq!(check(&renamed).len(), 1);
}

#[test]
fn malformed_ids_are_refused() {
    for bad in [
        "",
        "track",
        "track:",
        "track:-1",
        "track:01",
        "track:+1",
        "track: 1",
        "track:0/",
        "track:4294967296",
        "track:0/clipslot:0/clip/clip",
        "track:0/clip",
        "track:0/mixer/volume/x",
        "track:0/device:0/param:1/x",
        "scene:0/x",
        "main/clipslot:0",
        "main:0",
        "returntrack:0/clip:0",
        "returntrack:0/takelane:0",
        "Track:0",
        "track:0/mixer:0",
        "track:٣",
    ] {
        let error = bad.parse::<PathId>().expect_err(bad);
        assert_eq!(error.code().as_str(), "BAD_INPUT");
        assert!(error.hint().contains("track:0/clipslot:1/clip"), "the hint shows no example of a clip path");
    }
    for good in [
        "track:0",
        "track:4294967295",
        "track:3/takelane:0",
        "main",
        "main/mixer/panning",
        "returntrack:1/device:0/param:12",
        "scene:9",
        "cuepoint:0",
    ] {
        assert_eq!(path(good).to_string(), good);
    }
}
