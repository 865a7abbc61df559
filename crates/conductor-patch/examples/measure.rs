//! Compares the cost of opening, editing and saving with simple baselines, in one run: `cargo run
//! --release --example measure [FILE]`.
//!
//! Every line except the last contains a ratio, so the speed of the machine does not matter. The
//! last line contains the times of `validate` for patches of five sizes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use conductor_patch::validate::{Options, validate};
use conductor_patch::{CanvasId, Document, Edit, Format, JournalLimits, Limits, NewBox, Op, Patch, Point};

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn best(rounds: usize, mut run: impl FnMut()) -> Duration {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn grown(n: usize) -> Document {
    let mut document = Document::create(Format::Maxpat);
    let columns = (n as f64).sqrt().ceil() as usize;
    let place = |i: usize| Point::new((i % columns) as f64 * 90.0, (i / columns) as f64 * 50.0);
    let edits: Vec<Edit> = (0..n)
        .map(|i| {
            let new = NewBox {
                class: "metro 500".into(),
                position: place(i),
                varname: Some(format!("box{i}")),
                ..NewBox::default()
            };
            Edit { canvas: CanvasId::ROOT, op: Op::Add(new) }
        })
        .collect();
    let _ = document.apply(&edits);
    let bytes = document.to_bytes();
    Document::open(bytes, Format::Maxpat, &Limits::default()).unwrap_or(document)
}

fn one_edit(patch: &mut Patch, n: usize) {
    let new = NewBox { class: "metro 100".into(), position: Point::new(-500.0, -500.0), ..NewBox::default() };
    let _ = black_box(patch.apply(&[Edit { canvas: CanvasId::ROOT, op: Op::Add(new) }], "add", None));
    let moved =
        Op::SetRect { target: format!("box{}", n / 2).as_str().into(), position: Point::new(-900.0, 7.0), size: None };
    let _ = black_box(patch.apply(&[Edit { canvas: CanvasId::ROOT, op: moved }], "move", None));
    let _ = black_box(patch.undo(2));
}

#[expect(clippy::print_stdout, reason = "the figures are the program's output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = std::env::args().nth(1) {
        let bytes = std::fs::read(&path)?;
        let format = Format::of_name(&path).ok_or("not a patch file")?;
        let ours = best(30, || drop(black_box(Document::open(bytes.clone(), format, &Limits::default()))));
        let theirs = best(30, || drop(black_box(serde_json::from_slice::<serde_json::Value>(&bytes))));
        println!(
            "open {path}: {:.2} x the time of serde_json ({ours:?} and {theirs:?})",
            ours.as_secs_f64() / theirs.as_secs_f64()
        );
    }
    for n in [1_000, 10_000] {
        let mut document = grown(n);
        let bytes = document.to_bytes();
        let _ =
            document.apply(&[Edit { canvas: CanvasId::ROOT, op: Op::Remove(format!("box{}", n / 2).as_str().into()) }]);
        let save = best(30, || drop(black_box(document.to_bytes())));
        let copy = best(30, || drop(black_box(bytes.clone())));
        println!(
            "save after one edit, {n} boxes: {:.2} x the time of a copy ({save:?} and {copy:?})",
            save.as_secs_f64() / copy.as_secs_f64()
        );
    }
    let edit = |n: usize| {
        let mut patch = Patch::new(grown(n), JournalLimits::default());
        one_edit(&mut patch, n);
        best(300, || one_edit(&mut patch, n))
    };
    let (few, many) = (edit(100), edit(10_000));
    println!(
        "add, move and undo both: {:.2} x the time at 10,000 boxes compared with 100 ({many:?} and {few:?})",
        many.as_secs_f64() / few.as_secs_f64()
    );
    let lookup = |n: usize| {
        let patch = Patch::new(grown(n), JournalLimits::default());
        let name = format!("box{}", n / 2);
        best(300, || {
            for _ in 0..100 {
                let _ = black_box(patch.object(&CanvasId::ROOT, &name));
            }
        })
    };
    println!(
        "lookup by varname: {:.2} x the time at 10,000 boxes compared with 100",
        lookup(10_000).as_secs_f64() / lookup(100).as_secs_f64()
    );
    let check = |n: usize| {
        let document = grown(n);
        best(10, || drop(black_box(validate(&document.root(), &Options::default()))))
    };
    let times: Vec<Duration> = [100, 500, 1_000, 2_000, 10_000].into_iter().map(check).collect();
    println!("validate at 100, 500, 1,000, 2,000, 10,000 boxes: {times:?}");
    Ok(())
}
