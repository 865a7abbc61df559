//! Sets for the tests: our own, made here, and the real ones when `CONDUCTOR_LIVE_DATA` names their folder.

use conductor_set::{Document, Guard, LiveEdit, Note, OpenSet, PathId, TrackKind};
use std::path::{Path, PathBuf};

pub fn path(text: &str) -> PathId {
    text.parse().expect(text)
}

pub fn free() -> Guard {
    Guard::default()
}

/// The folder of recorded data, or `None` with a printed reason.
#[expect(
    clippy::disallowed_methods,
    reason = "tests find optional data through the environment, as the spec names it"
)]
pub fn live_data() -> Option<PathBuf> {
    let folder = std::env::var_os("CONDUCTOR_LIVE_DATA").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: CONDUCTOR_LIVE_DATA is not set");
    }
    folder
}

/// Every real Set, by name. Fails when the folder is named and holds none: a test that runs on nothing proves nothing.
pub fn real_sets() -> Vec<(String, Vec<u8>)> {
    fn walk(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
        for entry in std::fs::read_dir(folder).expect("read folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "als") {
                let name = path
                    .file_name()
                    .map(|n| n.to_string_lossy().into_owned())
                    .unwrap_or_default();
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
    let (_, als) = real_sets().into_iter().find(|(n, _)| n == name)?;
    Some(Document::open(&als, 1 << 28).expect(name))
}

/// Applies edits to a document that must take them.
pub fn edited(doc: &Document, edits: &[LiveEdit]) -> Document {
    let mut set = OpenSet::new(doc.clone());
    set.apply(edits, &free()).expect("edits apply");
    set.document().clone()
}

pub fn replace_notes(clip: &str, notes: &[Note]) -> LiveEdit {
    LiveEdit::ReplaceNotes {
        clip_id: path(clip),
        notes: notes.to_vec(),
        window: None,
    }
}

/// The built-in Set with a clip of four notes in its first slot.
pub fn small() -> Document {
    let doc = Document::new_set().expect("skeleton");
    let notes = [
        Note::new(36, 0.0, 0.25),
        Note::new(38, 1.0, 0.25),
        Note::new(36, 2.0, 0.25),
        Note::new(38, 3.0, 0.25),
    ];
    edited(
        &doc,
        &[
            LiveEdit::CreateMidiClip {
                slot_id: path("track:0/clipslot:0"),
                length_beats: 4.0,
            },
            replace_notes("track:0/clipslot:0/clip", &notes),
            LiveEdit::CreateTrack {
                kind: TrackKind::Midi,
            },
        ],
    )
}

/// The same text as another generation of Live would have it, as far as the readers care.
pub fn as_family(doc: &Document, minor: &str) -> Document {
    let xml = doc.to_xml().replacen("12.0_12049", minor, 1);
    Document::from_xml(xml).expect(minor)
}
