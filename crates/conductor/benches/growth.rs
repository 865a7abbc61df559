//! Measures how cost grows with the size of a studio. Prints one line of JSON for each point, which
//! `make bench` turns into the plots of `docs/benchmarks.md`; asserts nothing.
//!
//! Each round measures every size of a curve once, so that a change of the machine's load affects
//! all sizes. With the argument `quick`, the largest sizes are left out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its points")]

use conductor_core::audit::checkpoint::Checkpoint;
use conductor_core::audit::line::Chain;
use conductor_core::audit::record::{Entry, EventName, Stamp};
use conductor_core::audit::verify::{Anchors, Verdict, Verifier};
use conductor_core::config::load;
use conductor_core::engine::Engine;
use conductor_core::event::{Body, Event, Micros, Taint};
use conductor_core::mapping::table::Slots;
use conductor_core::timestamp::Timestamp;
use conductor_core::tool_search::{ToolText, rank};
use conductor_patch::{CanvasId, Document, Edit, Format, JournalLimits, Limits, NewBox, Op, Patch, Point};
use conductor_set::{Guard, LiveEdit, OpenSet, TrackKind};
use ed25519_dalek::SigningKey;
use serde_json::json;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use uuid::Uuid;

const ROUNDS: usize = 5;

/// An operation on a studio of a given size, possibly repeated.
type Work = Box<dyn FnMut()>;

struct Curve {
    name: &'static str,
    /// The unit of the sizes.
    of: &'static str,
    /// Number of operations in one call of [`Work`].
    operations: u64,
    sizes: &'static [usize],
    prepare: fn(usize) -> Work,
}

const CURVES: [Curve; 8] = [
    Curve {
        name: "a press",
        of: "mappings",
        operations: 1000,
        sizes: &[10, 100, 1000, 10_000, 100_000],
        prepare: press,
    },
    Curve { name: "an event", of: "devices", operations: 1000, sizes: &[1, 4, 16, 64], prepare: devices },
    Curve {
        name: "a batch of events",
        of: "events at once",
        operations: 1,
        sizes: &[1, 10, 100, 1000, 10_000],
        prepare: batch,
    },
    Curve { name: "a search for tools", of: "tools", operations: 1, sizes: &[10, 100, 1000, 10_000], prepare: tools },
    Curve { name: "a call", of: "connected clients", operations: 20, sizes: &[1, 10, 100, 500], prepare: clients },
    Curve {
        name: "verifying the audit log",
        of: "records",
        operations: 1,
        sizes: &[1000, 10_000, 100_000, 1_000_000],
        prepare: audit,
    },
    Curve {
        name: "open, edit and write a patch",
        of: "boxes",
        operations: 1,
        sizes: &[10, 100, 1000, 10_000],
        prepare: patch,
    },
    Curve { name: "an edit of an open Set", of: "MB of XML", operations: 1, sizes: &[1, 5, 20, 50], prepare: set },
];

fn main() {
    let quick = std::env::args().any(|it| it == "quick");
    for curve in CURVES {
        let count = if quick { curve.sizes.len() - 1 } else { curve.sizes.len() };
        let mut works: Vec<(usize, Work, Vec<f64>)> =
            curve.sizes[..count].iter().map(|size| (*size, (curve.prepare)(*size), Vec::new())).collect();
        for _ in 0..ROUNDS {
            for (_, work, times) in &mut works {
                let start = Instant::now();
                work();
                times.push(start.elapsed().as_nanos() as f64 / 1000.0 / curve.operations as f64);
            }
        }
        for (size, _, mut times) in works {
            times.sort_by(f64::total_cmp);
            let point = json!({
                "curve": curve.name, "of": curve.of, "size": size, "unit": "us", "rounds": ROUNDS,
                "median": times[ROUNDS / 2], "low": times[0], "high": times[ROUNDS - 1],
            });
            println!("BENCH {point}");
        }
    }
}

fn engine(config: &str) -> (Engine, Slots) {
    let mut slots = Slots::default();
    let config = load(config).config.expect("a configuration");
    (Engine::new(&config, &mut slots, Micros(0)), slots)
}

fn feed(mut engine: Engine, mut slots: Slots, device: &str, events: usize) -> Work {
    let device = slots.slot(device);
    let (mut now, mut out) = (0, Vec::new());
    Box::new(move || {
        for n in 0..events {
            now += 1000;
            let body = Body::NoteOn { channel: 0, note: (n % 128) as u8, velocity: 100 };
            engine.feed(&Event { at: Micros(now), device, taint: Taint::Clean, hops: 0, body }, &mut out);
            black_box(&out);
            out.clear();
        }
    })
}

fn press(mappings: usize) -> Work {
    let mut text = String::from("schema = 1\n");
    for at in 0..mappings {
        if at % 2000 == 0 {
            text.push_str(&format!("[[modes]]\nname = \"M{}\"\n", at / 2000));
        }
        text.push_str(&format!(
            "[[modes.mappings]]\ntrigger = {{ type = \"Note\", note = {}, channel = {} }}\n\
             action = {{ type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"CC\", controller = 1, value = 1 }}\n",
            at % 128,
            at / 128 % 16
        ));
    }
    let (engine, slots) = engine(&text);
    feed(engine, slots, "pads", 1000)
}

fn devices(count: usize) -> Work {
    let mut text = String::from("schema = 1\n");
    for at in 0..count {
        text.push_str(&format!("[[devices]]\nalias = \"d{at}\"\ndirection = \"Input\"\nloopback = true\n"));
    }
    for at in 0..count {
        text.push_str(&format!(
            "[[global_mappings]]\ntrigger = {{ type = \"Note\", note = 1, device = \"d{at}\" }}\naction = {{ type = \"Delay\", ms = 1 }}\n"
        ));
    }
    let (engine, slots) = engine(&text);
    feed(engine, slots, "d0", 1000)
}

fn batch(events: usize) -> Work {
    let (engine, slots) = engine(
        "schema = 1\n[[global_mappings]]\ntrigger = { type = \"Note\", note = 1 }\naction = { type = \"Delay\", ms = 1 }\n",
    );
    feed(engine, slots, "pads", events)
}

fn tools(count: usize) -> Work {
    let names: Vec<String> = (0..count).map(|it| format!("plugin_{it}.convert_{}", it % 97)).collect();
    let description = "Converts a sound file to another format and writes the result next to the file.";
    Box::new(move || {
        let texts: Vec<ToolText<'_>> = names
            .iter()
            .map(|name| ToolText { name, title: "Convert", description, arguments: &[], toolset: "plugins" })
            .collect();
        black_box(rank("change the format of a sound file", &texts));
    })
}

/// A daemon that is started for one measurement and ends with it.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn clients(count: usize) -> Work {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_conductor"))
        .args(["--json", "up", "--http", "127.0.0.1:0"])
        .env("CONDUCTOR_HOME", home.path())
        .env_remove("DISPLAY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let daemon = Daemon(child);
    let connect = || UnixStream::connect(home.path().join("mcp.sock")).unwrap();
    let idle: Vec<UnixStream> = (1..count).map(|_| connect()).collect();
    let mut client = BufReader::new(connect());
    Box::new(move || {
        black_box((&daemon, &home, &idle));
        let mut line = String::new();
        for _ in 0..20 {
            client
                .get_mut()
                .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"conductor_list_devices\",\"params\":{}}\n")
                .unwrap();
            line.clear();
            client.read_line(&mut line).unwrap();
        }
    })
}

fn audit(records: usize) -> Work {
    let mut chain = Chain::start();
    let mut bytes = Vec::new();
    let stamp =
        |seq: u64| Stamp { id: Uuid::from_u128(seq.into()), ts: Timestamp::from_millis(1_767_323_045_000 + seq) };
    chain.append(&stamp(0), &Entry::Segment { log_id: Uuid::from_u128(1), segment: 1, prev_segment: None }, &mut bytes);
    let detail = json!({ "hash": "sha256:0123456789abcdef" });
    let entry = Entry::Event { principal: None, conn: None, event: EventName::ConfigLoaded, detail };
    for seq in 1..records as u64 {
        chain.append(&stamp(seq), &entry, &mut bytes);
    }
    let key = SigningKey::from_bytes(&[7; 32]);
    let (seq, hash) = chain.last().unwrap();
    let checkpoint = Checkpoint { log_id: Uuid::from_u128(1), seq, hash, ts: stamp(seq).ts }.sign(&key);
    let key = key.verifying_key();
    Box::new(move || {
        let mut verifier = Verifier::new(Anchors::read(checkpoint.as_bytes(), &key));
        verifier.begin_segment(1);
        verifier.feed(&bytes, &mut |_| {});
        assert_eq!(verifier.finish().verdict, Verdict::Intact);
    })
}

fn patch(boxes: usize) -> Work {
    let mut text = String::from("#N canvas 0 0 450 300 12;\n");
    for row in 0..boxes {
        text.push_str(&format!("#X obj {} {} osc~ {row};\n", row % 20 * 40, row / 20 * 30));
    }
    for row in 1..boxes {
        text.push_str(&format!("#X connect {} 0 {row} 0;\n", row - 1));
    }
    Box::new(move || {
        let document = Document::open(text.clone().into_bytes(), Format::Pd, &Limits::default()).unwrap();
        let mut patch = Patch::new(document, JournalLimits::default());
        let new = NewBox { class: "print".into(), position: Point::new(10.0, 900.0), ..NewBox::default() };
        patch.apply(&[Edit { canvas: CanvasId::ROOT, op: Op::Add(new) }], "add", None).unwrap();
        black_box(patch.document().to_bytes());
    })
}

fn set(megabytes: usize) -> Work {
    let mut set = OpenSet::new(conductor_set::Document::new_set().unwrap());
    let many = vec![LiveEdit::CreateTrack { kind: TrackKind::Midi }; 20];
    while set.document().xml_len() < megabytes << 20 {
        set.apply(&many, &Guard::default()).unwrap();
    }
    let mut bpm = 100.0;
    Box::new(move || {
        bpm += 1.0;
        set.apply(&[LiveEdit::SetTempo { bpm }], &Guard::default()).unwrap();
        black_box(set.document().revision());
    })
}
