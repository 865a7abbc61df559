//! Measures the engine and compares it with a simple implementation. Prints medians over several
//! rounds with their range; asserts nothing.
//!
//! The lookups go through the rules in a scattered order, because a repeated lookup would only
//! measure the processor cache. Time stamps advance with every event, except in the flood.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use conductor_core::config::{Config, Mapping, Mode, Rows, Rule, Written};
use conductor_core::engine::{Effect, Engine};
use conductor_core::event::{Body, DeviceSlot, Event, Micros, Taint};
use conductor_core::mapping::table::{Kind, ModeIndex, Slots, Tables};
use conductor_core::mapping::{On, Trigger, TriggerKind, Window};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 15;

/// `count` note mappings spread over modes, notes, channels and velocity windows. A small
/// configuration has one mode. A large configuration has more modes, because one mode has only
/// 4,096 combinations: 16 channels, 128 notes and two velocity windows.
fn studio(count: usize) -> Config {
    let per_mode = 4096;
    let modes = count.div_ceil(per_mode).max(1);
    let mut config = Config::default();
    config.modes.clear();
    for mode in 0..modes {
        let rows = (0..per_mode.min(count - mode * per_mode)).map(mapping).collect();
        config.modes.push(Mode {
            name: format!("M{mode}"),
            color: None,
            rows: Rows { mappings: rows, continuous: vec![] },
        });
    }
    config.default_mode = "M0".into();
    config
}

fn mapping(n: usize) -> Mapping {
    let half = (n / 2048) % 2;
    Mapping {
        id: format!("m{n}"),
        id_is_written: true,
        description: None,
        enabled: true,
        let_through: false,
        written: Written { trigger: serde_json::Value::Null, action: serde_json::Value::Null },
        rule: Some(Rule {
            trigger: Trigger {
                device: None,
                channel: Some((n / 128 % 16) as u8),
                kind: TriggerKind::Note {
                    note: (n % 128) as u8,
                    velocity: if half == 0 { Window { min: 1, max: 63 } } else { Window { min: 64, max: 127 } },
                    on: On::Press,
                    eager: false,
                },
            },
            action: conductor_core::action::Action::SendMidi(conductor_core::action::SendMidi {
                port: "daw".into(),
                channel: 0,
                message: conductor_core::action::MidiOut::Cc { controller: 7, value: (n % 128) as u8 },
            }),
        }),
    }
}

struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

fn spread(mut samples: Vec<f64>) -> Spread {
    samples.sort_by(f64::total_cmp);
    Spread { median: samples[samples.len() / 2], low: samples[0], high: samples[samples.len() - 1] }
}

fn per_op(ops: usize, mut round: impl FnMut()) -> Spread {
    round();
    spread(
        (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                round();
                start.elapsed().as_nanos() as f64 / ops as f64
            })
            .collect(),
    )
}

fn main() {
    lookups();
    events();
    floods();
    builds();
}

fn lookups() {
    println!("rule lookup, ns (median, lowest-highest of {ROUNDS} rounds; hit and miss with varied rules)");
    println!("{:>9} {:>24} {:>24} {:>30}", "mappings", "hit", "miss", "linear first-match scan, hit");
    for count in [10, 1_000, 10_000, 100_000] {
        let config = studio(count);
        let tables = Tables::compile(&config, &mut Slots::default());
        let device = DeviceSlot(0);
        // Each hit looks up an existing rule. Each miss looks up the same key with velocity 0.
        let probes: Vec<(ModeIndex, u16, u8, u16)> = (0..4096)
            .map(|i| {
                let at = i * 7919 % count;
                let row = &tables.rows[at];
                let TriggerKind::Note { note, .. } = row.trigger.kind else { unreachable!("only notes here") };
                (row.mode.unwrap_or_default(), row.channels, note, row.window.min)
            })
            .collect();
        let hit = per_op(probes.len(), || {
            for (mode, channels, note, velocity) in &probes {
                let found = tables.device(*mode, device).first(Kind::Press, usize::from(*note), *channels, *velocity);
                assert!(black_box(found).is_some());
            }
        });
        let miss = per_op(probes.len(), || {
            for (mode, channels, note, _) in &probes {
                let found = tables.device(*mode, device).first(Kind::Press, usize::from(*note), *channels, 0);
                assert!(black_box(found).is_none());
            }
        });
        let scans = (200_000 / count).clamp(4, 4096);
        let scan = per_op(scans, || {
            for (mode, channels, note, velocity) in &probes[..scans] {
                let found = tables.rows.iter().position(|row| {
                    row.mode == Some(*mode)
                        && row.channels & channels != 0
                        && row.window.contains(*velocity)
                        && matches!(row.trigger.kind, TriggerKind::Note { note: own, .. } if own == *note)
                });
                black_box(found);
            }
        });
        println!("{count:>9} {} {} {:>30}", show(&hit), show(&miss), show(&scan));
    }
}

fn show(it: &Spread) -> String {
    format!("{:>8.1} ({:.1}-{:.1})", it.median, it.low, it.high).chars().collect::<String>() + &" ".repeat(2)
}

/// Measures each event through the whole engine separately.
fn events() {
    println!(
        "\nengine, from event to action, ns per event (p50, p99, p99.9 of 200,000 note-ons with increasing time stamps)"
    );
    for count in [10, 1_000, 100_000] {
        let mut slots = Slots::default();
        let mut engine = Engine::new(&studio(count), &mut slots, Micros(0));
        let device = slots.slot("pads");
        let mut out: Vec<Effect> = Vec::with_capacity(16);
        let mut times: Vec<u64> = Vec::with_capacity(200_000);
        for n in 0..200_000usize {
            let key = n * 31 % count.min(2048);
            let (channel, note) = ((key / 128) as u8, (key % 128) as u8);
            let at = Micros(n as u64 * 200);
            let press =
                Event { at, device, taint: Taint::Clean, hops: 0, body: Body::NoteOn { channel, note, velocity: 30 } };
            let start = Instant::now();
            engine.feed(&press, &mut out);
            times.push(start.elapsed().as_nanos() as u64);
            assert!(!black_box(&out).is_empty());
            out.clear();
            let body = Body::NoteOff { channel, note, velocity: 0 };
            engine.feed(&Event { at: Micros(at.0 + 100), device, taint: Taint::Clean, hops: 0, body }, &mut out);
            out.clear();
        }
        times.sort_unstable();
        let at = |part: f64| times[(times.len() as f64 * part) as usize];
        println!("{count:>9} mappings: p50 {} p99 {} p99.9 {}", at(0.5), at(0.99), at(0.999));
    }
}

fn floods() {
    println!("\nnote flood at one time stamp, ns per note");
    for notes in [1_000u32, 100_000] {
        let result = per_op(notes as usize, || {
            let mut slots = Slots::default();
            let mut engine = Engine::new(&studio(1_000), &mut slots, Micros(0));
            let device = slots.slot("pads");
            let mut out = Vec::new();
            for n in 0..notes {
                let body = Body::NoteOn { channel: 0, note: (n % 128) as u8, velocity: 30 };
                engine.feed(&Event { at: Micros(5), device, taint: Taint::Clean, hops: 0, body }, &mut out);
                out.clear();
            }
            black_box(&engine);
        });
        println!("{notes:>9} notes: {}", show(&result));
    }
}

fn builds() {
    println!("\ntable build, us");
    for count in [100, 10_000, 100_000] {
        let config = studio(count);
        let result = per_op(1, || {
            black_box(Tables::compile(&config, &mut Slots::default()));
        });
        println!("{count:>9} mappings: {:.0} ({:.0}-{:.0})", result.median / 1e3, result.low / 1e3, result.high / 1e3);
    }
}
