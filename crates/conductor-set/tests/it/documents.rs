//! Tests of the built-in Set, from creation to saving.

use crate::fixtures::small;
use crate::large::large;
use conductor_set::{Document, OpenSet, check};

#[test]
fn the_new_set_is_sound_and_as_specified() {
    let doc = Document::new_set().expect("skeleton");
    assert_eq!(check(&doc), []);
    let seen = doc.overview();
    assert_eq!((seen.tempo, seen.track_count, seen.return_track_count, seen.scene_count), (Some(120.0), 2, Some(2), 8));
    assert_eq!(seen.time_signature.as_deref(), Some("4/4"));
    assert_eq!(seen.unknown, [""; 0]);
    assert!(seen.editable);
}

#[test]
fn a_document_survives_its_own_bytes() {
    let doc = small();
    let again = Document::open(&doc.to_als(), 1 << 28).expect("opens");
    assert_eq!(again.to_xml(), doc.to_xml());
    assert_eq!(again.to_als(), doc.to_als(), "equal text gave different bytes");
    assert_eq!(check(&doc), []);
    let set = OpenSet::open(&doc.to_als(), 1 << 28).expect("opens");
    assert!(!set.is_dirty());
    assert_eq!(&*set.save(), &doc.to_als()[..]);
}

#[test]
fn memory_stays_below_two_and_a_half_times_the_text() {
    let doc = Document::from_xml(large(10_000_000)).expect("large");
    let (held, text) = (doc.memory(), doc.xml_len());
    assert!(text >= 10_000_000);
    assert!(held * 2 < text * 5, "{held} bytes of memory for {text} bytes of text");
    println!("{:.2} bytes of memory per byte of text", held as f64 / text as f64);
}
