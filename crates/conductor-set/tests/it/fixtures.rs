//! Sets for the tests: Sets that this module builds, and real Sets when `CONDUCTOR_LIVE_DATA` names
//! their folder.

// Counts skipped tests. The file is included because a dependency on the testkit would pull in the
// whole product.
#[path = "../../../conductor-testkit/src/skips.rs"]
pub mod skips;

use conductor_set::{Document, Guard, LiveEdit, Note, OpenSet, PathId, TrackKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub fn path(text: &str) -> PathId {
    text.parse().expect(text)
}

pub fn free() -> Guard {
    Guard::default()
}

#[expect(clippy::disallowed_methods, reason = "an environment variable names the folder of optional data")]
fn live_data() -> Option<PathBuf> {
    std::env::var_os("CONDUCTOR_LIVE_DATA").map(PathBuf::from)
}

/// The folder of recorded exchanges: the complete folder if available, else the part in this
/// repository.
pub fn recorded() -> PathBuf {
    live_data().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../conductor/tests/recorded"))
}

/// All real Sets with their names, for a test that requires them. Without real Sets the test counts
/// as skipped.
pub fn real_sets() -> Vec<(String, Vec<u8>)> {
    if live_data().is_none() {
        skips::note("real Sets: CONDUCTOR_LIVE_DATA is not set");
    }
    real_sets_if_any()
}

/// Like [`real_sets`], for tests that also use built Sets. Fails when the folder is named but
/// contains no Sets.
pub fn real_sets_if_any() -> Vec<(String, Vec<u8>)> {
    fn walk(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
        for entry in std::fs::read_dir(folder).expect("read folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "als") {
                let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                found.push((name, std::fs::read(&path).expect("read Set")));
            }
        }
    }
    let Some(folder) = live_data() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    walk(&folder.join("als"), &mut found);
    found.sort();
    assert!(!found.is_empty(), "no .als under {}", folder.display());
    found
}

pub fn real_set(name: &str) -> Option<Document> {
    let (_, als) = real_sets_if_any().into_iter().find(|(n, _)| n == name)?;
    Some(Document::open(&als, 1 << 28).expect(name))
}

/// Applies edits that must succeed.
pub fn edited(doc: &Document, edits: &[LiveEdit]) -> Document {
    let mut set = OpenSet::new(doc.clone());
    set.apply(edits, &free()).expect("an edit failed");
    set.document().clone()
}

pub fn replace_notes(clip: &str, notes: &[Note]) -> LiveEdit {
    LiveEdit::ReplaceNotes { clip_id: path(clip), notes: notes.to_vec(), window: None }
}

/// The built-in Set with a clip of four notes in its first slot, and with a third track.
pub fn small() -> Document {
    static MADE: OnceLock<Document> = OnceLock::new();
    MADE.get_or_init(make_small).clone()
}

fn make_small() -> Document {
    let doc = Document::new_set().expect("skeleton");
    let notes =
        [Note::new(36, 0.0, 0.25), Note::new(38, 1.0, 0.25), Note::new(36, 2.0, 0.25), Note::new(38, 3.0, 0.25)];
    edited(
        &doc,
        &[
            LiveEdit::CreateMidiClip { slot_id: path("track:0/clipslot:0"), length_beats: 4.0 },
            replace_notes("track:0/clipslot:0/clip", &notes),
            LiveEdit::CreateTrack { kind: TrackKind::Midi },
        ],
    )
}

/// The same text with the version of another Live generation.
pub fn as_family(doc: &Document, minor: &str) -> Document {
    let xml = doc.to_xml().replacen("12.0_12049", minor, 1);
    Document::from_xml(xml).expect(minor)
}

/// Rewrites the text of the ordinary track with index `n`.
pub fn in_track(xml: &str, n: usize, rewrite: impl Fn(&str) -> String) -> String {
    let opens = ["\n\t\t\t<MidiTrack ", "\n\t\t\t<AudioTrack ", "\n\t\t\t<GroupTrack "];
    let mut starts: Vec<usize> = opens.iter().flat_map(|tag| xml.match_indices(tag).map(|(at, _)| at)).collect();
    starts.sort_unstable();
    let start = starts[n];
    let close = xml[start + 1..].find("\n\t\t\t</").expect("a track has no end tag") + start + 1;
    format!("{}{}{}", &xml[..start], rewrite(&xml[start..close]), &xml[close..])
}

/// Removes every element with this tag whose `Id` is at least `keep`.
fn shorten(xml: &str, tag: &str, keep: usize) -> String {
    let mut out = String::new();
    let mut until: Option<String> = None;
    for line in xml.split_inclusive('\n') {
        let indent = &line[..line.len() - line.trim_start().len()];
        if let Some(close) = &until {
            if line.trim_end() == close {
                until = None;
            }
            continue;
        }
        let id = line
            .trim_start()
            .strip_prefix(&format!("<{tag} Id=\""))
            .and_then(|r| r.split('"').next()?.parse::<usize>().ok());
        if id.is_some_and(|id| id >= keep) {
            until = Some(format!("{indent}</{tag}>"));
            continue;
        }
        out.push_str(line);
    }
    out
}

/// A device with a parameter that has a range, a switch, and a parameter without a range. Its
/// target ids start at `id`.
pub fn device(class: &str, param: &str, value: f64, range: (f64, f64), id: u32) -> String {
    let (min, max) = range;
    format!(
        "<{class} Id=\"0\">\n<LomId Value=\"0\" />\n<UserName Value=\"\" />\n<{param}>\n<LomId Value=\"0\" />\n\
         <Manual Value=\"{value}\" />\n<MidiControllerRange>\n<Min Value=\"{min}\" />\n<Max Value=\"{max}\" />\n</MidiControllerRange>\n\
         <AutomationTarget Id=\"{id}\">\n<LockEnvelope Value=\"0\" />\n</AutomationTarget>\n</{param}>\n\
         <On>\n<LomId Value=\"0\" />\n<Manual Value=\"true\" />\n<AutomationTarget Id=\"{}\">\n<LockEnvelope Value=\"0\" />\n\
         </AutomationTarget>\n<MidiCCOnOffThresholds>\n<Min Value=\"64\" />\n<Max Value=\"127\" />\n</MidiCCOnOffThresholds>\n</On>\n\
         <Mode>\n<LomId Value=\"0\" />\n<Manual Value=\"2\" />\n<AutomationTarget Id=\"{}\">\n<LockEnvelope Value=\"0\" />\n\
         </AutomationTarget>\n</Mode>\n</{class}>",
        id + 1,
        id + 2
    )
}

/// An audio clip with the elements that the readers use.
pub fn audio_clip(name: &str, start: f64, end: f64, file: &str) -> String {
    format!(
        "<AudioClip Id=\"0\" Time=\"{start}\">\n<CurrentStart Value=\"{start}\" />\n<CurrentEnd Value=\"{end}\" />\n<Loop>\n\
         <LoopStart Value=\"0\" />\n<LoopEnd Value=\"{}\" />\n<StartRelative Value=\"0\" />\n<LoopOn Value=\"false\" />\n\
         <OutMarker Value=\"{}\" />\n<HiddenLoopStart Value=\"0\" />\n<HiddenLoopEnd Value=\"4\" />\n</Loop>\n<Name Value=\"{name}\" />\n\
         <Color Value=\"13\" />\n<Disabled Value=\"false\" />\n<IsWarped Value=\"false\" />\n<SampleRef>\n<FileRef>\n\
         <RelativePath Value=\"Samples/{name}.wav\" />\n<Path Value=\"{file}\" />\n</FileRef>\n</SampleRef>\n<Fade Value=\"false\" />\n\
         <PitchCoarse Value=\"0\" />\n<PitchFine Value=\"0\" />\n<SampleVolume Value=\"1\" />\n</AudioClip>",
        end - start,
        end - start
    )
}

/// Raises the next free id, so that the ids of manually added devices are below it.
pub fn with_ids(xml: &str, from: u32, count: u32) -> String {
    xml.replacen(&format!("NextPointeeId Value=\"{from}\""), &format!("NextPointeeId Value=\"{}\"", from + count), 1)
}

pub fn next_id(xml: &str) -> u32 {
    let at = xml.find("NextPointeeId Value=\"").expect("next id") + 21;
    xml[at..].split('"').next().and_then(|t| t.parse().ok()).expect("a number")
}

/// The Set that the recorded exchanges use: Drums, Bass, Vocals, two returns, two scenes, 124 beats
/// per minute, C Minor.
pub fn golden() -> Document {
    static MADE: OnceLock<Document> = OnceLock::new();
    MADE.get_or_init(make_golden).clone()
}

fn make_golden() -> Document {
    let base = Document::new_set().expect("skeleton").to_xml();
    let base = shorten(&shorten(&base, "ClipSlot", 2), "Scene", 2);
    let base = base.replacen("<Name Value=\"Major\" />", "<Name Value=\"Minor\" />", 1);
    let base = base.replacen("<InKey Value=\"false\" />", "<InKey Value=\"true\" />", 1);
    let doc = Document::from_xml(base).expect("base");
    let name = |track: &str, name: &str| LiveEdit::SetTrackProps {
        track_id: path(track),
        props: conductor_set::TrackProps { name: Some(name.into()), ..Default::default() },
    };
    let clip_name = |clip: &str, name: &str| LiveEdit::SetClipProps {
        clip_id: path(clip),
        props: conductor_set::ClipProps { name: Some(name.into()), ..Default::default() },
    };
    let hit = |pitch, start, velocity| Note { velocity, ..Note::new(pitch, start, 0.25) };
    let doc = edited(
        &doc,
        &[
            LiveEdit::CreateTrack { kind: TrackKind::Midi },
            LiveEdit::CreateTrack { kind: TrackKind::Audio },
            LiveEdit::DeleteTrack { track_id: path("track:1") },
            LiveEdit::SetTempo { bpm: 124.0 },
            name("track:0", "Drums"),
            name("track:1", "Bass"),
            name("track:2", "Vocals"),
            LiveEdit::CreateMidiClip { slot_id: path("track:0/clipslot:0"), length_beats: 4.0 },
            clip_name("track:0/clipslot:0/clip", "Beat"),
            replace_notes(
                "track:0/clipslot:0/clip",
                &[hit(36, 0.0, 100.0), hit(38, 1.0, 90.0), hit(36, 2.0, 100.0), hit(38, 3.0, 90.0)],
            ),
            LiveEdit::CreateMidiClip { slot_id: path("track:1/clipslot:0"), length_beats: 8.0 },
            clip_name("track:1/clipslot:0/clip", "Bass (arr)"),
            replace_notes("track:1/clipslot:0/clip", &[Note::new(36, 0.0, 4.0)]),
        ],
    );
    // Move the clip of the second track to the arrangement. The last edits put a new clip into the
    // empty slot.
    let xml = in_track(&doc.to_xml(), 1, |track| {
        let (from, to) = (track.find("<MidiClip ").expect("clip"), track.find("</MidiClip>").expect("clip") + 11);
        let clip = track[from..to].replace("<LoopOn Value=\"true\" />", "<LoopOn Value=\"false\" />");
        let value =
            (track[..from].rfind("<Value>").expect("slot"), track[to..].find("</Value>").expect("slot") + to + 8);
        let emptied = format!("{}<Value />{}", &track[..value.0], &track[value.1..]);
        emptied.replacen("<Events />", &format!("<Events>\n{clip}\n</Events>"), 1)
    });
    let ids = next_id(&xml);
    let xml = in_track(&xml, 0, |t| {
        let rack = device("InstrumentGroupDevice", "MacroControls.0", 0.0, (0.0, 127.0), ids);
        t.replacen("<Devices />", &format!("<Devices>\n{rack}\n</Devices>"), 1)
    });
    let xml = in_track(&xml, 2, |t| {
        let eq = device("Eq8", "Bands.0", 1000.0, (20.0, 20000.0), ids + 3);
        let compressor =
            device("Compressor2", "Threshold", -12.0, (-60.0, 0.0), ids + 6).replacen("Id=\"0\"", "Id=\"1\"", 1);
        let clip = audio_clip("Vox Take", 0.0, 8.0, "/audio/vox_take.wav");
        t.replacen("<Devices />", &format!("<Devices>\n{eq}\n{compressor}\n</Devices>"), 1).replacen(
            "<Events />",
            &format!("<Events>\n{clip}\n</Events>"),
            1,
        )
    });
    // Add the Reverb that insert_device clones to a return track.
    let at = xml.find("<ReturnTrack ").expect("return");
    let reverb = device("Reverb", "DryWet", 0.5, (0.0, 1.0), ids + 9);
    let tail = xml[at..].replacen("<Devices />", &format!("<Devices>\n{reverb}\n</Devices>"), 1);
    let xml = with_ids(&format!("{}{tail}", &xml[..at]), ids, 12);
    let doc = Document::from_xml(xml).expect("golden");
    let doc = edited(
        &doc,
        &[
            LiveEdit::CreateMidiClip { slot_id: path("track:1/clipslot:0"), length_beats: 4.0 },
            clip_name("track:1/clipslot:0/clip", "Bassline"),
        ],
    );
    assert_eq!(conductor_set::check(&doc), []);
    doc
}
