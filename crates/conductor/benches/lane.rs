//! Measures the decoder of MIDI bytes and the ring of a device callback, and compares them with a
//! plain ring in the same run. The time stamps of the events increase.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]

use conductor_core::event::midi::{Decoder, Heard};
use conductor_core::event::{Body, DeviceSlot, Micros, Taint};
use conductor_hosts::midi::ring::{Bell, event_ring};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

const MESSAGES: usize = 1000;

fn bytes() -> Vec<u8> {
    (0..MESSAGES)
        .flat_map(|i| {
            let (note, value) = ((i % 128) as u8, (i / 7 % 127 + 1) as u8);
            [[0x90, note, value], [0xB0, note, value], [0xE0, value, note], [0x80, note, value]][i % 4]
        })
        .collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("lane");
    group.throughput(Throughput::Elements(MESSAGES as u64));
    let bytes = bytes();

    let mut decoder = Decoder::default();
    group.bench_function("decode", |b| {
        b.iter(|| {
            let mut heard = 0;
            decoder.decode(black_box(&bytes), |it| heard += usize::from(matches!(it, Heard::Message(_))));
            assert_eq!(heard, MESSAGES);
        });
    });

    let (mut sender, mut receiver) = event_ring(DeviceSlot(0), u32::MAX, Bell::silent());
    let mut now = 0;
    group.bench_function("decode, push and pop", |b| {
        b.iter(|| {
            decoder.decode(black_box(&bytes), |it| {
                now += 50;
                if let Heard::Message(body) = it {
                    sender.push(Micros(now), Taint::Clean, body);
                }
            });
            while let Some(event) = receiver.pop() {
                black_box(&event);
            }
        });
    });

    let (mut producer, mut consumer) = rtrb::RingBuffer::new(4096);
    group.bench_function("bare ring, push and pop", |b| {
        b.iter(|| {
            for i in 0..MESSAGES {
                let note = (i % 128) as u8;
                let _ = producer.push((Micros(i as u64), Taint::Clean, Body::NoteOn { channel: 0, note, velocity: 1 }));
            }
            while let Ok(event) = consumer.pop() {
                black_box(&event);
            }
        });
    });
    group.finish();
}

criterion_group!(lane_benches, benches);
criterion_main!(lane_benches);
