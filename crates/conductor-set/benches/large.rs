//! Measures operations on a Set of 10 MB and compares them with their lower bounds: only inflating,
//! only compressing, and the same edit in a small Set.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]

#[path = "../tests/it/large.rs"]
mod large;

use conductor_set::{DEFAULT_XML_LIMIT, Document, Guard, LiveEdit, Note, NoteWindow, OpenSet};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::io::{Read, Write};

const LARGE: usize = 10_000_000;
const SMALL: usize = 100_000;

fn note_edit() -> LiveEdit {
    LiveEdit::ReplaceNotes {
        clip_id: "track:0/clipslot:0/clip".parse().expect("path"),
        notes: vec![Note::new(61, 0.0, 0.25)],
        window: Some(NoteWindow { from_beat: 0.0, to_beat: 0.25, from_pitch: None, to_pitch: None }),
    }
}

fn measure(c: &mut Criterion) {
    let xml = large::large(LARGE);
    let doc = Document::from_xml(xml.clone()).expect("large");
    let als = doc.to_als();
    let mut group = c.benchmark_group("10 MB");
    group.sample_size(10);
    group.bench_function("inflate alone", |b| {
        b.iter(|| {
            let mut text = String::with_capacity(xml.len());
            flate2::read::GzDecoder::new(&als[..]).read_to_string(&mut text).expect("inflates");
            black_box(text.len())
        });
    });
    group.bench_function("open", |b| b.iter(|| Document::open(black_box(&als), DEFAULT_XML_LIMIT).expect("opens")));
    group.bench_function("deflate alone", |b| {
        b.iter(|| {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            out.write_all(xml.as_bytes()).expect("write");
            black_box(out.finish().expect("finish").len())
        });
    });
    group.bench_function("save after one note edit", |b| {
        let mut set = OpenSet::open(&als, DEFAULT_XML_LIMIT).expect("opens");
        set.apply(&[note_edit()], &Guard::default()).expect("edit");
        b.iter(|| black_box(set.save().len()));
    });
    group.bench_function("overview", |b| b.iter(|| black_box(doc.overview())));
    group.finish();

    let mut group = c.benchmark_group("one note edit and its undo");
    for (name, bytes) in [("100 KB", SMALL), ("10 MB", LARGE)] {
        let set = OpenSet::new(Document::from_xml(large::large(bytes)).expect("set"));
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || set.clone(),
                |set| {
                    set.apply(&[note_edit()], &Guard::default()).expect("edit");
                    set.undo(1, &Guard::default()).expect("undo");
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, measure);
criterion_main!(benches);
