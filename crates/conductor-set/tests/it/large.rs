//! Sets of any size, for measuring.

use conductor_set::{Document, LiveEdit, Note, OpenSet};

/// A Set whose text has at least `bytes` bytes: one MIDI track with a clip of 400 notes, repeated.
/// Target ids repeat too, so the Set is only for measuring and cannot be opened in Live.
pub fn large(bytes: usize) -> String {
    let mut set = OpenSet::new(Document::new_set().expect("skeleton"));
    let notes = (0..400).map(|n| Note::new(36 + (n % 24) as u8, f64::from(n) / 4.0, 0.25)).collect();
    let clip_id = "track:0/clipslot:0/clip".parse().expect("path");
    set.apply(
        &[
            LiveEdit::CreateMidiClip { slot_id: "track:0/clipslot:0".parse().expect("path"), length_beats: 100.0 },
            LiveEdit::ReplaceNotes { clip_id, notes, window: None },
        ],
        &conductor_set::Guard::default(),
    )
    .expect("edits");
    let xml = set.document().to_xml();
    let (from, to) =
        (xml.find("\n\t\t\t<MidiTrack").expect("track"), xml.find("\n\t\t\t</MidiTrack>").expect("track") + 16);
    let mut out = xml[..to].to_owned();
    let (mut id, mut seed) = (1_000, 1_u32);
    while out.len() < bytes {
        // Vary the velocities: repeated text would compress much better than a real Set.
        for (n, part) in xml[from..to].split("Velocity=\"100\"").enumerate() {
            if n > 0 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                out.push_str(&format!("Velocity=\"{}\"", f64::from(seed >> 8) / 132_104.0));
            }
            out.push_str(&part.replacen("MidiTrack Id=\"8\"", &format!("MidiTrack Id=\"{id}\""), 1));
        }
        id += 1;
    }
    out.push_str(&xml[to..]);
    out
}
