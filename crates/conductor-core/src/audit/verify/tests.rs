//! Tests each kind of damage to a log and its verdict.

use ed25519_dalek::SigningKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::audit::record::tests::{call, stamp};
use crate::audit::record::{Entry, Recovery};

fn key(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32])
}

/// A log in memory: segments by number, and the checkpoint file.
#[derive(Clone)]
struct Log {
    segments: Vec<(u32, Vec<u8>)>,
    checkpoints: String,
    chain: Chain,
    head: Option<Head>,
}

const LOG_ID: Uuid = Uuid::from_u128(0x5e0c_8b1e_0000_4000_8000_0000_0000_0001);

impl Log {
    fn new() -> Self {
        let mut log = Self { segments: Vec::new(), checkpoints: String::new(), chain: Chain::start(), head: None };
        log.rotate();
        log
    }

    fn append(&mut self, entry: &Entry) -> &mut Self {
        let seq = self.chain.next_seq();
        let (_, bytes) = self.segments.last_mut().expect("a segment");
        self.chain.append(&stamp(seq), entry, bytes);
        self
    }

    fn records(&mut self, count: u64) -> &mut Self {
        for n in 0..count {
            self.append(&Entry::Intent(call(&format!("tool.{n}"))));
        }
        self
    }

    fn rotate(&mut self) -> &mut Self {
        let before = self.segments.last().map(|(number, _)| *number);
        self.segment(before.map_or(1, |number| number + 1), before)
    }

    fn segment(&mut self, segment: u32, prev_segment: Option<u32>) -> &mut Self {
        self.segments.push((segment, Vec::new()));
        self.append(&Entry::Segment { log_id: LOG_ID, segment, prev_segment })
    }

    fn event(&mut self, event: EventName, detail: Value) -> &mut Self {
        self.append(&Entry::Event { principal: None, conn: None, event, detail })
    }

    fn last(&self) -> Head {
        let (seq, hash) = self.chain.last().expect("a record");
        Head { log_id: LOG_ID, seq, hash }
    }

    fn checkpoint(&mut self) -> &mut Self {
        self.checkpoint_by(1)
    }

    fn checkpoint_by(&mut self, signer: u8) -> &mut Self {
        let line = Checkpoint::at(self.last(), stamp(0).ts).sign(&key(signer));
        self.checkpoints.push_str(&line);
        self
    }

    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.segments.last_mut().expect("a segment").1
    }

    fn lines(&self) -> Vec<Vec<u8>> {
        self.segments.last().expect("a segment").1.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    fn set_lines(&mut self, lines: Vec<Vec<u8>>) {
        *self.bytes() = lines.concat();
    }

    fn verify_in(&self, piece: usize) -> Report {
        self.verify_with(self.anchors(), piece)
    }

    fn anchors(&self) -> Anchors {
        Anchors::read(self.checkpoints.as_bytes(), &key(1).verifying_key())
    }

    fn verify_with(&self, anchors: Anchors, piece: usize) -> Report {
        let mut verifier = Verifier::new(anchors.with_head(self.head));
        for (number, bytes) in &self.segments {
            verifier.begin_segment(*number);
            bytes.chunks(piece.max(1)).for_each(|chunk| verifier.feed(chunk, &mut |_| {}));
        }
        verifier.finish()
    }

    fn verify(&self) -> Report {
        self.verify_in(1000)
    }

    fn verdict(&self) -> Verdict {
        self.verify().verdict
    }
}

/// A log of 20 records, with a checkpoint at seq 12 and 7 records after it.
fn twenty() -> Log {
    let mut log = Log::new();
    log.records(12).checkpoint().records(7);
    log
}

#[test]
fn an_untouched_log_is_intact() {
    let report = twenty().verify();
    assert_eq!(report.verdict, Verdict::Intact, "{:?}", report.faults);
    assert_eq!((report.records, report.anchored_through, report.unanchored), (20, Some(12), 7));
    let mut rotated = twenty();
    rotated.checkpoint().rotate().records(3).checkpoint().rotate();
    assert_eq!(rotated.verdict(), Verdict::Intact);
    assert_eq!(rotated.verify().segments, 3);
}

#[test]
fn every_flipped_byte_is_found_and_its_seq_named() {
    let log = twenty();
    let anchors = log.anchors();
    let mut at = 0;
    for (seq, line) in log.lines().iter().enumerate() {
        for (offset, byte) in line.iter().enumerate() {
            // Flip a different bit at each place, and sometimes write a NUL, as after a crash.
            let flip = if offset % 9 == 8 { *byte } else { 1 << (offset % 9) };
            let mut bad = log.clone();
            bad.bytes()[at + offset] ^= flip;
            let report = bad.verify_with(anchors.clone(), usize::MAX);
            assert_ne!(report.verdict, Verdict::Intact, "line {seq} byte {offset} ^ {flip:#x}");
            assert_eq!(report.faults[0].seq, seq as u64, "line {seq} byte {offset}: {:?}", report.faults);
        }
        at += line.len();
    }
}

#[test]
fn every_cut_is_told_by_the_checkpoint() {
    let log = twenty();
    let anchors = log.anchors();
    let whole = log.segments[0].1.len();
    let anchored: usize = log.lines()[..13].iter().map(Vec::len).sum();
    for cut in 0..whole {
        let mut bad = log.clone();
        bad.bytes().truncate(cut);
        let at_border = bad.bytes().last() == Some(&b'\n');
        let wanted = if cut < anchored {
            Verdict::Truncated
        } else if at_border {
            // The files alone cannot prove that records after the last checkpoint existed. Only a
            // second copy or the running daemon can.
            Verdict::Intact
        } else {
            Verdict::Torn
        };
        assert_eq!(bad.verify_with(anchors.clone(), usize::MAX).verdict, wanted, "cut at {cut}");
        bad.head = Some(log.last());
        if at_border || cut % 50 == 0 {
            let verdict = bad.verify_with(anchors.clone(), usize::MAX).verdict;
            assert_eq!(verdict, Verdict::Truncated, "cut at {cut}, with the daemon's head");
        }
    }
}

#[test]
fn the_eight_cases() {
    let whole = twenty();
    assert_eq!(whole.verdict(), Verdict::Intact);

    let mut emptied = twenty();
    emptied.bytes().clear();
    assert_eq!(emptied.verdict(), Verdict::Truncated);

    let mut deleted = twenty();
    deleted.segments.clear();
    assert_eq!(deleted.verdict(), Verdict::Missing);

    let mut garbage = twenty();
    garbage.bytes().extend_from_slice(b"garbage\n");
    assert_eq!(garbage.verdict(), Verdict::Broken);

    let mut restarted = twenty();
    restarted.append(&Entry::Recovery { event: Recovery::Unanswered, detail: json!({"call": "x"}) });
    restarted.event(EventName::DaemonStart, json!({}));
    assert_eq!(restarted.verdict(), Verdict::Intact);
}

#[test]
fn cut_and_appended_again_is_forked() {
    let mut log = Log::new();
    log.records(5);
    let kept = log.clone();
    log.records(7).checkpoint();
    let mut forged = kept;
    forged.records(3).event(EventName::DaemonStart, json!({})).records(3);
    assert_eq!(forged.chain.next_seq(), log.chain.next_seq());
    forged.checkpoints = log.checkpoints;
    let report = forged.verify();
    assert_eq!((report.verdict, report.faults[0].seq), (Verdict::Forked, 12));
}

#[test]
fn a_rewrite_without_the_key_is_forked_and_with_it_looks_whole() {
    let mut honest = Log::new();
    honest.records(12).checkpoint();
    let mut rewritten = Log::new();
    rewritten.records(5).event(EventName::DaemonStart, json!({})).records(6);
    let mut kept = rewritten.clone();
    kept.checkpoints = honest.checkpoints;
    assert_eq!(kept.verdict(), Verdict::Forked);
    assert_eq!(rewritten.clone().checkpoint_by(2).verdict(), Verdict::Forked);
    // The files of one machine alone do not reveal this change; a second copy does.
    assert_eq!(rewritten.checkpoint().verdict(), Verdict::Intact);
}

#[test]
fn removed_swapped_and_inserted_lines_are_broken() {
    let log = twenty();
    let lines = log.lines();
    for at in 1..lines.len() {
        let mut removed = log.clone();
        let mut left = lines.clone();
        left.remove(at);
        removed.set_lines(left);
        let wanted = if at == lines.len() - 1 { Verdict::Intact } else { Verdict::Broken };
        assert_eq!(removed.verdict(), wanted, "removed {at}");

        let mut doubled = log.clone();
        let mut more = lines.clone();
        more.insert(at, lines[at].clone());
        doubled.set_lines(more);
        let report = doubled.verify();
        assert_eq!((report.verdict, report.faults[0].seq), (Verdict::Broken, at as u64 + 1));

        if at + 1 < lines.len() {
            let mut swapped = log.clone();
            let mut order = lines.clone();
            order.swap(at, at + 1);
            swapped.set_lines(order);
            let report = swapped.verify();
            assert_eq!((report.verdict, report.faults[0].seq), (Verdict::Broken, at as u64), "swapped {at}");
        }
    }
}

#[test]
fn a_torn_tail_is_no_tampering_and_tampering_is_no_torn_tail() {
    let tail = |bytes: &[u8]| {
        let mut log = twenty();
        log.bytes().extend_from_slice(bytes);
        log.verdict()
    };
    assert_eq!(tail(b"{\"v\":1,\"seq\""), Verdict::Torn);
    assert_eq!(tail(&[0; 4096]), Verdict::Torn);
    assert_eq!(tail(b"\0\0\0\n\0\0{\"v\":1}\n"), Verdict::Torn);
    assert_eq!(tail(b"{\"v\":1}\n"), Verdict::Broken);
    let report = {
        let mut log = twenty();
        log.bytes().extend_from_slice(b"half");
        log.verify()
    };
    let good: usize = twenty().segments[0].1.len();
    assert_eq!((report.last_segment, report.tail_bytes), (Some((1, good as u64)), 4));

    // Zeros in records that a checkpoint covers are an edit. A torn end of any segment except the
    // last is an edit too.
    let mut zeroed = twenty();
    zeroed.bytes()[2000] = 0;
    assert_eq!(zeroed.verdict(), Verdict::Broken);
    let mut inner = twenty();
    inner.bytes().extend_from_slice(b"half");
    inner.rotate();
    assert_eq!(inner.verdict(), Verdict::Broken);
}

#[test]
fn a_segment_that_never_got_its_first_line_is_torn() {
    let mut log = twenty();
    log.segments.push((2, Vec::new()));
    assert_eq!(log.verdict(), Verdict::Torn);
    let mut first = Log::new();
    first.bytes().clear();
    assert_eq!(first.verdict(), Verdict::Torn);
}

#[test]
fn missing_segments() {
    let mut log = Log::new();
    for _ in 0..3 {
        log.records(4).checkpoint().rotate();
    }
    log.records(2).checkpoint();
    assert_eq!(log.verdict(), Verdict::Intact);
    for gone in 0..3 {
        let mut bad = log.clone();
        bad.segments.remove(gone);
        assert_eq!(bad.verdict(), Verdict::Missing, "segment {}", gone + 1);
    }
    let mut last = log.clone();
    last.segments.pop();
    assert_eq!(last.verdict(), Verdict::Truncated);

    // The first segment is missing, but retention recorded its removal, and a checkpoint covers its
    // last record.
    log.event(EventName::AuditRotated, json!({"removed_through": 1})).checkpoint();
    log.segments.remove(0);
    let report = log.verify();
    assert_eq!(report.verdict, Verdict::Intact, "{:?}", report.faults);
    assert_eq!(report.begins_at, Some((2, 5)));
    log.segments.remove(0);
    assert_eq!(log.verdict(), Verdict::Missing, "a missing segment was not detected");
}

#[test]
fn checkpoints_that_lag_were_removed() {
    let mut log = Log::new();
    assert_eq!(log.verdict(), Verdict::Intact, "one record without a checkpoint was refused");
    log.records(1);
    assert_eq!(log.verdict(), Verdict::Missing, "two records without a checkpoint were accepted");
    log.checkpoint().records(512);
    assert_eq!(log.verdict(), Verdict::Intact);
    log.records(1);
    assert_eq!(log.verdict(), Verdict::Missing);
}

#[test]
fn hurt_checkpoints_are_forked_and_a_torn_one_says_nothing() {
    let log = twenty();
    let whole = log.checkpoints.len() - 1;
    for at in 0..whole {
        let mut bad = log.clone();
        let mut bytes = bad.checkpoints.into_bytes();
        bytes[at] ^= 1;
        bad.checkpoints = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(bad.verdict(), Verdict::Forked, "byte {at}");
    }
    let mut torn = log.clone();
    torn.checkpoints.push_str("{\"v\":1,");
    assert_eq!(torn.verdict(), Verdict::Intact);
    let mut other = log;
    other.checkpoints = other.checkpoints.replace("\"seq\":12", "\"seq\":11");
    assert_eq!(other.verdict(), Verdict::Forked);
}

#[test]
fn a_head_that_differs_is_a_fork() {
    let mut log = twenty();
    log.head = Some(log.last());
    assert_eq!(log.verdict(), Verdict::Intact);
    log.head = Some(Head { hash: Digest::of(b"other"), ..log.last() });
    assert_eq!(log.verdict(), Verdict::Forked);
    log.head = Some(Head { log_id: Uuid::nil(), ..log.last() });
    assert_eq!(log.verdict(), Verdict::Forked);
}

#[test]
fn precedence_when_several_apply() {
    let mut log = Log::new();
    log.records(4).checkpoint().rotate().records(4).checkpoint().rotate().records(4).checkpoint();
    let mut all = log.clone();
    all.segments[0].1[100] ^= 1;
    assert_eq!(all.verdict(), Verdict::Broken);
    all.segments.remove(1);
    assert_eq!(all.verdict(), Verdict::Missing);
    let mut forked_and_cut = log;
    forked_and_cut.bytes().truncate(50);
    forked_and_cut.checkpoints.insert_str(0, "{}\n");
    assert_eq!(forked_and_cut.verdict(), Verdict::Forked);
}

/// After a person has accepted the damage, verification succeeds again and lists the accepted
/// faults. Without the signing key, damage cannot be accepted.
#[test]
fn an_accepted_fault_is_kept_and_only_under_a_checkpoint() {
    type Hurt = fn(&mut Log);
    let hurt: [(&str, Hurt); 4] = [
        ("edited", |log| log.bytes()[700] ^= 1),
        ("cut", |log| log.bytes().truncate(900)),
        ("garbage", |log| log.bytes().extend_from_slice(b"garbage\n")),
        ("emptied", |log| log.bytes().clear()),
    ];
    for (name, hurt) in hurt {
        let mut log = Log::new();
        log.records(12).checkpoint();
        hurt(&mut log);
        let before = log.verdict();
        assert_ne!(before, Verdict::Intact, "{name}");
        // Only records up to the checkpoint are proven, so the new segment continues there.
        log.segment(2, Some(1));
        log.event(EventName::AuditAccepted, json!({"verdict": before.as_str()}));
        assert_ne!(log.verdict(), Verdict::Intact, "{name}: an acceptance without a checkpoint had an effect");
        log.checkpoint().records(3);
        let report = log.verify();
        assert_eq!(report.verdict, Verdict::Intact, "{name}: {:?}", report.faults);
        assert_eq!(report.accepted.len(), 1);
        assert_eq!(report.accepted[0].seq, 14, "{name}");
        // Damage after the acceptance is reported again.
        let end = log.bytes().len();
        log.bytes()[end - 200] ^= 1;
        assert_eq!(log.verdict(), Verdict::Broken, "{name}");
    }
}

#[test]
fn a_start_sees_the_last_checkpoint_even_when_it_lies_in_an_earlier_segment() {
    let mut log = Log::new();
    log.records(4).checkpoint().records(3).checkpoint().rotate().records(2);
    let read = |first| {
        let key = key(1).verifying_key();
        Anchors::read_from(log.checkpoints.as_bytes(), &key, first)
    };
    assert_eq!(read(0).good.len(), 2);
    assert_eq!(read(7).latest().map(|checkpoint| checkpoint.seq), Some(7));
    assert_eq!(read(8).latest().map(|checkpoint| checkpoint.seq), Some(7));
    assert_eq!((read(7).good.len(), read(8).good.len()), (1, 1));
}

#[test]
fn resume_walks_the_last_segment_alone() {
    let mut log = Log::new();
    log.records(4).checkpoint().rotate();
    let first = log.chain.next_seq() - 1;
    log.records(4).checkpoint();
    let (number, bytes) = log.segments.last().expect("a segment");
    let line = log.lines()[0].clone();
    let (links, _) = line::read(line.trim_ascii_end()).expect("the line is invalid");
    let prev = links.prev.and_then(|text| Digest::from_text(text.as_bytes()));
    let anchors = Anchors::read(log.checkpoints.as_bytes(), &key(1).verifying_key());
    let mut verifier = Verifier::resume(anchors, number - 1, first, prev);
    verifier.begin_segment(*number);
    verifier.feed(bytes, &mut |_| {});
    let report = verifier.finish();
    assert_eq!(
        (report.verdict, report.records, report.last),
        (Verdict::Intact, 5, log.chain.last()),
        "{:?}",
        report.faults
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The verdict does not depend on how the bytes are split into pieces. Any damage to records
    /// that a checkpoint covers is found.
    #[test]
    fn any_damage_to_covered_bytes_is_found(
        parts in prop::collection::vec(1..12_u64, 1..5),
        piece in 1..700_usize,
        at in any::<prop::sample::Index>(),
        damage in 0..4_u8,
        byte in 1..=255_u8,
    ) {
        let mut log = Log::new();
        for (index, count) in parts.iter().enumerate() {
            if index > 0 {
                log.rotate();
            }
            log.records(*count).checkpoint();
        }
        let whole = log.verify();
        prop_assert_eq!(&whole, &log.verify_in(piece));
        prop_assert_eq!(whole.verdict, Verdict::Intact);

        let target = at.index(log.segments.len());
        let bytes = &mut log.segments[target].1;
        let place = at.index(bytes.len());
        match damage {
            0 => bytes[place] ^= byte,
            1 => { bytes.remove(place); }
            2 => bytes.insert(place, byte),
            _ => bytes.truncate(place),
        }
        let report = log.verify_in(piece);
        prop_assert_ne!(report.verdict, Verdict::Intact);
        prop_assert_eq!(report, log.verify());
    }

    #[test]
    fn nothing_panics(segments in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..3), checkpoints in ".{0,200}") {
        let segments = segments.into_iter().zip(1..).map(|(bytes, number)| (number, bytes)).collect();
        let log = Log { segments, checkpoints, chain: Chain::start(), head: None };
        let _ = log.verify();
    }
}
