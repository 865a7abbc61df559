//! `.als` files, as XML: an unedited Set is written back with the same bytes. An edited Set that is
//! opened again has the same content and passes the same checks. Undo restores the bytes.

use crate::SEEDED;
use arbitrary::Unstructured;
use conductor_set::{
    DEFAULT_XML_LIMIT, Document, Guard, LiveEdit, Note, OpenSet, TrackKind, TrackProps, check as faults,
};

fn written(document: &Document) -> String {
    let mut xml = document.to_xml();
    // The seeded mistake: an empty name is written as a missing attribute.
    if SEEDED && xml.contains(r#"UserName Value="""#) {
        xml = xml.replacen(r#"UserName Value="""#, "UserName", 1);
    }
    xml
}

fn edit(u: &mut Unstructured<'_>) -> arbitrary::Result<Option<LiveEdit>> {
    let track = u.int_in_range(0..=3)?;
    let text: String = u.arbitrary::<&str>()?.chars().take(12).collect();
    let id = |text: String| text.parse().ok();
    let clip = format!("track:{track}/clipslot:{}/clip", u.int_in_range(0..=1)?);
    Ok(match u.int_in_range(0..=6)? {
        0 => Some(LiveEdit::SetTempo { bpm: f64::from(u.arbitrary::<u16>()?) / 64.0 }),
        1 => id(format!("track:{track}")).map(|track_id| LiveEdit::SetTrackProps {
            track_id,
            props: TrackProps { name: Some(text), ..TrackProps::default() },
        }),
        2 => Some(LiveEdit::CreateTrack { kind: if track % 2 == 0 { TrackKind::Midi } else { TrackKind::Audio } }),
        3 => id(clip.trim_end_matches("/clip").to_owned())
            .map(|slot_id| LiveEdit::CreateMidiClip { slot_id, length_beats: 4.0 }),
        4 => {
            let notes = vec![Note::new(u.int_in_range(0..=127)?, f64::from(u.arbitrary::<u8>()?) / 16.0, 0.5)];
            id(clip).map(|clip_id| LiveEdit::ReplaceNotes { clip_id, notes, window: None })
        }
        5 => id(clip).map(|clip_id| LiveEdit::DeleteClip { clip_id }),
        _ => id(format!("track:{track}")).map(|track_id| LiveEdit::DeleteTrack { track_id }),
    })
}

/// If the bytes are a Set, their second half selects its edits. Otherwise all bytes select the
/// edits of a new Set.
pub fn check(data: &[u8]) {
    let own = std::str::from_utf8(data).ok().and_then(|text| Document::from_xml(text.to_owned()).ok());
    let choices = if own.is_some() { &data[data.len() / 2..] } else { data };
    let is_own = own.is_some();
    let document = own.unwrap_or_else(|| Document::new_set().expect("a new Set cannot be created"));
    let text = &document.to_xml();
    if is_own {
        assert_eq!(written(&document).as_bytes(), data, "an unedited Set was written with other bytes");
    }
    let zipped = Document::open(&document.to_als(), DEFAULT_XML_LIMIT).expect("a written Set cannot be opened");
    assert_eq!(zipped.to_xml(), *text);
    let before = faults(&document).len();
    let mut set = OpenSet::new(document);
    let mut choices = Unstructured::new(choices);
    let mut applied = 0;
    for _ in 0..4 {
        let Ok(Some(edit)) = edit(&mut choices) else { continue };
        if set.apply(&[edit], &Guard::default()).is_err() {
            continue;
        }
        applied += 1;
        let xml = set.document().to_xml();
        let again = Document::from_xml(xml.clone()).expect("an edited Set cannot be opened");
        assert_eq!(again.to_xml(), xml);
        assert_eq!(faults(&again), faults(set.document()), "opening the edited Set again changed its faults");
        assert!(before > 0 || faults(&again).is_empty(), "an edit made the Set inconsistent: {:?}", faults(&again));
    }
    if applied > 0 {
        set.undo(applied, &Guard::default()).expect("the edits cannot be undone");
    }
    assert_eq!(set.document().to_xml(), *text, "undo did not restore the text");
}
