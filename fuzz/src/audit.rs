//! The audit log: a written log is intact, and a log with one changed byte is not. For all bytes,
//! the report does not depend on how they are split into chunks.

use crate::{SEEDED, split};
use arbitrary::Unstructured;
use conductor_core::audit::checkpoint::Checkpoint;
use conductor_core::audit::line::Chain;
use conductor_core::audit::record::{Entry, EventName, Stamp};
use conductor_core::audit::verify::{Anchors, Report, Verdict, Verifier};
use conductor_core::timestamp::Timestamp;
use ed25519_dalek::SigningKey;
use serde_json::json;
use uuid::Uuid;

/// Verifies a log in chunks, with these lines of `checkpoints.jsonl`.
fn verify(chunks: &[&[u8]], checkpoints: &str) -> Report {
    let mut verifier = Verifier::new(Anchors::read(checkpoints.as_bytes(), &key().verifying_key()));
    verifier.begin_segment(1);
    for chunk in chunks {
        verifier.feed(chunk, &mut |_| {});
    }
    verifier.finish()
}

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// A log whose records contain these texts, and a checkpoint of its last record.
fn log(texts: &[&str]) -> (Vec<u8>, String) {
    let mut chain = Chain::start();
    let mut bytes = Vec::new();
    let log_id = Uuid::from_u128(1);
    let stamp =
        |seq| Stamp { id: Uuid::from_u128(u128::from(seq)), ts: Timestamp::from_millis(1_767_323_045_000 + seq) };
    chain.append(&stamp(0), &Entry::Segment { log_id, segment: 1, prev_segment: None }, &mut bytes);
    for text in texts {
        let seq = chain.next_seq();
        let detail = json!({ "text": text });
        let entry = Entry::Event { principal: None, conn: None, event: EventName::ConfigLoaded, detail };
        chain.append(&stamp(seq), &entry, &mut bytes);
    }
    let (seq, hash) = chain.last().expect("the log has no records");
    let checkpoint = Checkpoint { log_id, seq, hash, ts: stamp(seq).ts };
    (bytes, checkpoint.sign(&key()))
}

pub fn check(data: &[u8]) {
    let (first, second) = split(data);
    assert_eq!(
        verify(&[&[first, second].concat()], ""),
        verify(&[first, second], ""),
        "the report depends on the chunks"
    );
    let mut u = Unstructured::new(data);
    let (Ok(place), Ok(flip)) = (u.arbitrary::<u16>(), u.int_in_range(1..=255u8)) else { return };
    let Ok(text) = std::str::from_utf8(u.take_rest()) else { return };
    let texts: Vec<&str> = text.split('\n').take(6).collect();
    let (mut bytes, checkpoint) = log(&texts);
    let report = verify(&[&bytes], &checkpoint);
    assert_eq!((report.verdict, report.records), (Verdict::Intact, texts.len() as u64 + 1), "{:?}", report.faults);
    let place = usize::from(place) % bytes.len();
    bytes[place] ^= flip;
    // The seeded mistake: a change of the case of a letter (bit 0x20) is ignored.
    if SEEDED && flip == 0x20 {
        bytes[place] ^= flip;
    }
    let report = verify(&[&bytes], &checkpoint);
    assert_ne!(report.verdict, Verdict::Intact, "the changed byte at {place} was not detected");
}
