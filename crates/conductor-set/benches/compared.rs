//! Opens a Set of 10 MB of XML, edits one note and saves it. Alternates with a Python program (gzip
//! and lxml) that does the same. Each round is a separate process, so that its peak memory can be
//! measured.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::print_stdout, reason = "a bench prints its results")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock")]

#[path = "../tests/it/large.rs"]
mod large;

use conductor_set::{DEFAULT_XML_LIMIT, Document, Guard, LiveEdit, Note, NoteWindow, OpenSet};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Instant;

const XML_BYTES: usize = 10_000_000;
const ROUNDS: usize = 7;

/// Peak memory of this process so far, in kilobytes.
fn peak_kb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(f64::NAN)
}

/// Runs one round in this process; returns milliseconds and memory.
fn once(path: &str) -> Value {
    let als = std::fs::read(path).expect("the Set");
    let ms = |from: Instant| from.elapsed().as_secs_f64() * 1e3;
    let before = peak_kb();
    let start = Instant::now();
    let mut set = OpenSet::open(&als, DEFAULT_XML_LIMIT).expect("opens");
    let open_ms = ms(start);
    let held = peak_kb() - before;
    let start = Instant::now();
    let edit = LiveEdit::ReplaceNotes {
        clip_id: "track:0/clipslot:0/clip".parse().expect("path"),
        notes: vec![Note::new(61, 0.125, 0.1)],
        window: Some(NoteWindow { from_beat: 0.0, to_beat: 0.25, from_pitch: None, to_pitch: None }),
    };
    set.apply(&[edit], &Guard::default()).expect("edit");
    let edit_ms = ms(start);
    let start = Instant::now();
    let bytes = set.save().len();
    let save_ms = ms(start);
    json!({ "open_ms": open_ms, "edit_ms": edit_ms, "save_ms": save_ms, "peak_kb": peak_kb(), "held_kb": held, "bytes": bytes })
}

fn run(command: &mut Command) -> Option<Value> {
    let output = command.output().ok().filter(|it| it.status.success())?;
    serde_json::from_slice(&output.stdout).ok()
}

/// Lowest, median and highest value.
fn spread(rounds: &[Value], key: &str) -> [f64; 3] {
    let mut all: Vec<f64> = rounds.iter().filter_map(|it| it[key].as_f64()).collect();
    all.sort_by(f64::total_cmp);
    [all.first(), all.get(all.len() / 2), all.last()].map(|it| it.copied().unwrap_or(f64::NAN))
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|it| it == "--once") {
        println!("{}", once(arguments.get(at + 1).expect("a path")));
        return;
    }
    let xml = large::large(XML_BYTES);
    let megabytes = xml.len() as f64 / 1e6;
    let als = Document::from_xml(xml).expect("a Set").to_als();
    let path = std::env::temp_dir().join(format!("conductor-bench-{}.als", std::process::id()));
    std::fs::write(&path, &als).expect("a file");
    let own = std::env::current_exe().expect("this program");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/compared.py");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.extend(run(Command::new(&own).arg("--once").arg(&path)));
        // Prefer the system's Python: it uses lxml from the system package.
        let of_system = run(Command::new("/usr/bin/python3").arg(script).arg(&path));
        theirs.extend(of_system.or_else(|| run(Command::new("python3").arg(script).arg(&path))));
    }
    let _ = std::fs::remove_file(&path);
    println!("a Set of {megabytes:.1} MB of XML, {} rounds each, alternating: lowest / median / highest", ours.len());
    if theirs.is_empty() {
        println!("skipped the comparison: no Python with lxml found (Debian package python3-lxml)");
    }
    for (what, key) in [
        ("open, ms", "open_ms"),
        ("one note edit, ms", "edit_ms"),
        ("save, ms", "save_ms"),
        ("peak memory, KB", "peak_kb"),
    ] {
        let (a, b) = (spread(&ours, key), spread(&theirs, key));
        println!(
            "{what:<20} ours {:>9.1} {:>9.1} {:>9.1}   gzip + lxml {:>9.1} {:>9.1} {:>9.1}   ratio {:.2}",
            a[0],
            a[1],
            a[2],
            b[0],
            b[1],
            b[2],
            a[1] / b[1]
        );
    }
    let held = spread(&ours, "held_kb")[1] * 1024.0 / 1e6;
    println!("memory used by opening: {held:.1} MB, {:.2} times the size of the XML", held / megabytes);
}
