//! Runs one path in a function named `measured`, so that callgrind counts nothing else.
//!
//! `instructions NAME` runs the path; without a name, prints all names. `guard` counts the
//! instructions and compares them with the committed numbers.

use conductor_core::audit::line::Chain;
use conductor_core::audit::record::{Entry, EventName, Stamp};
use conductor_core::config::{Config, load};
use conductor_core::engine::{Effect, Engine};
use conductor_core::event::midi::{Decoder, Heard};
use conductor_core::event::{DeviceSlot, Event, Micros, Taint};
use conductor_core::mapping::table::{Slots, Tables};
use conductor_core::policy::{AskFloor, Policy, Subject, Tier};
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use conductor_patch::{CanvasId, Document, Edit, Format, JournalLimits, Limits, NewBox, Op, Patch, Point};
use conductor_set::{Guard, LiveEdit, OpenSet};
use serde_json::json;
use std::hint::black_box;
use uuid::Uuid;

#[path = "../../../conductor-gateway/src/catalog/schema.rs"]
#[allow(dead_code, reason = "only the validator is used")]
mod schema;

/// Callgrind counts only inside this function. `main` first calls the path once outside of it, to
/// fill caches and lazy values.
#[inline(never)]
fn measured(path: &mut dyn FnMut()) {
    path();
}

const PADS: &str = r#"
schema = 1
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[global_mappings]]
id = "press"
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 20, value = 1 }
[[global_mappings]]
id = "chord"
trigger = { type = "NoteChord", notes = [40, 44, 47], device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 21, value = 2 }
[[global_continuous]]
id = "curve"
source = { type = "CC", cc = 7, device = "pads" }
glue = { curve = "exponential", intensity = 0.5, throttle_ms = 0 }
targets = [{ type = "CC", port = "synth", channel = 0, controller = 22 }]
"#;

struct Pads {
    engine: Engine,
    device: DeviceSlot,
    decoder: Decoder,
    effects: Vec<Effect>,
    now: u64,
}

impl Pads {
    fn new() -> Self {
        let loaded = load(PADS);
        assert!(loaded.valid(), "{:?}", loaded.diagnostics);
        let mut slots = Slots::default();
        let engine = Engine::new(&loaded.config.expect("a configuration"), &mut slots, Micros(0));
        Pads { engine, device: slots.slot("pads"), decoder: Decoder::default(), effects: Vec::with_capacity(64), now: 0 }
    }

    /// Decodes the bytes and passes every event to the engine. Returns the number of effects.
    fn play(&mut self, bytes: &[u8]) -> usize {
        self.effects.clear();
        self.now += 100_000;
        let Pads { engine, device, decoder, effects, now } = self;
        decoder.decode(bytes, |heard| {
            if let Heard::Message(body) = heard {
                let event = Event { at: Micros(*now), device: *device, taint: Taint::Clean, hops: 0, body };
                engine.feed(&event, effects);
            }
        });
        self.effects.len()
    }
}

fn pads(bytes: &'static [u8], effects: usize) -> Box<dyn FnMut()> {
    let mut pads = Pads::new();
    Box::new(move || {
        for _ in 0..100 {
            let made = pads.play(black_box(bytes));
            assert!(made >= effects, "{made} effects");
        }
    })
}

fn table() -> Box<dyn FnMut()> {
    let mut text = String::from("schema = 1\n");
    for mode in 0..10 {
        text.push_str(&format!("[[modes]]\nname = \"M{mode}\"\n"));
        for row in 0..1000 {
            text.push_str(&format!(
                "[[modes.mappings]]\ntrigger = {{ type = \"Note\", note = {}, channel = {} }}\n\
                 action = {{ type = \"Delay\", ms = 1 }}\n",
                row % 128,
                row / 128
            ));
        }
    }
    let config: Config = load(&text).config.expect("a configuration");
    Box::new(move || drop(black_box(Tables::compile(&config, &mut Slots::default()))))
}

fn read_call() -> Box<dyn FnMut()> {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["mode"],
        "properties": {
            "mode": { "type": "string", "minLength": 1, "maxLength": 64 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 500 },
        },
    });
    let validator = schema::Validator::compile(&schema.into()).expect("a schema");
    let policy = Policy::default();
    let principal = Principal::socket(1000, "client");
    let args = json!({ "mode": "Default", "limit": 50 });
    Box::new(move || {
        for _ in 0..100 {
            assert!(validator.violations(black_box(&args)).is_empty());
            black_box(policy.decide(&Subject {
                tool: "conductor_get_mappings",
                tier: Tier::ReadOnly,
                principal: &principal,
                args: &args,
                forms: &[],
                requires_approval: None,
                by_args: None,
                ask_floor: AskFloor::None,
            }));
        }
    })
}

fn audit() -> Box<dyn FnMut()> {
    let mut chain = Chain::start();
    let mut bytes = Vec::with_capacity(1 << 20);
    let detail = json!({ "hash": "sha256:0123456789abcdef", "faults": 0 });
    let entry = Entry::Event { principal: None, conn: None, event: EventName::ConfigLoaded, detail };
    Box::new(move || {
        bytes.clear();
        for seq in 0..100 {
            let stamp = Stamp { id: Uuid::from_u128(seq), ts: Timestamp::from_millis(1_767_323_045_000 + seq as u64) };
            chain.append(&stamp, &entry, &mut bytes);
        }
        black_box(&bytes);
    })
}

fn patch() -> Box<dyn FnMut()> {
    let mut text = String::from("#N canvas 0 0 450 300 12;\n");
    for row in 0..500 {
        text.push_str(&format!("#X obj {} {} osc~ {row};\n", row % 20 * 40, row / 20 * 30));
    }
    for row in 0..499 {
        text.push_str(&format!("#X connect {row} 0 {} 0;\n", row + 1));
    }
    Box::new(move || {
        let document = Document::open(text.clone().into_bytes(), Format::Pd, &Limits::default()).expect("a patch");
        let mut patch = Patch::new(document, JournalLimits::default());
        let new = NewBox { class: "print".into(), position: Point::new(10.0, 900.0), ..NewBox::default() };
        patch.apply(&[Edit { canvas: CanvasId::ROOT, op: Op::Add(new) }], "add", None).expect("an edit");
        black_box(patch.document().to_bytes());
    })
}

fn splice() -> Box<dyn FnMut()> {
    let mut set = OpenSet::new(conductor_set::Document::new_set().expect("a Set"));
    let mut bpm = 100.0;
    Box::new(move || {
        for _ in 0..10 {
            bpm += 1.0;
            set.apply(&[LiveEdit::SetTempo { bpm }], &Guard::default()).expect("an edit");
            black_box(set.document().revision());
        }
    })
}

type Path = (&'static str, fn() -> Box<dyn FnMut()>);

const PATHS: [Path; 8] = [
    ("press", || pads(&[0x90, 36, 100, 0x80, 36, 0], 1)),
    ("curve", || pads(&[0xB0, 7, 20, 0xB0, 7, 90], 2)),
    ("chord", || pads(&[0x90, 40, 100, 0x90, 44, 100, 0x90, 47, 100, 0x80, 40, 0, 0x80, 44, 0, 0x80, 47, 0], 1)),
    ("table", table),
    ("read_call", read_call),
    ("audit", audit),
    ("patch", patch),
    ("set_splice", splice),
];

fn main() {
    let Some(name) = std::env::args().nth(1) else {
        return PATHS.iter().for_each(|(name, _)| println!("{name}"));
    };
    let (_, new) = PATHS.iter().find(|(it, _)| *it == name).expect("no path has this name");
    let mut path = new();
    path();
    measured(&mut *path);
    if cfg!(feature = "slowed") && name == "press" {
        // Extra work, more than the 3 % that the guard tolerates.
        let mut again = pads(&[0x90, 36, 100], 0);
        again();
        measured(&mut || (0..1).for_each(|_| again()));
    }
}
