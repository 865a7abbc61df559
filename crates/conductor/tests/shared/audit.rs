//! What the tests of the audit log on real files share: the real clock, ids that can be repeated, a record to write, and the verdict.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use conductor::audit_log::files::Disk;
use conductor::audit_log::layout::Layout;
use conductor::audit_log::outside::{Clock, Ids};
use conductor::audit_log::{keys, memory, walk};
use conductor_core::audit::{CallFacts, InputHasher, OutcomeFacts, Verdict};
use conductor_core::error::AuditResult;
use conductor_core::policy::Tier;
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use serde_json::json;

#[derive(Debug)]
pub struct RealTime;

#[expect(clippy::disallowed_methods, reason = "the writer under test runs on the real clock")]
impl Clock for RealTime {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic_ms(&self) -> u64 {
        self.now().as_millis()
    }
}

/// splitmix64: a failing run can be repeated from its seed.
#[derive(Debug)]
pub struct Seeded(AtomicU64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Seeded(AtomicU64::new(seed))
    }

    pub fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Ids for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
    }
}

pub fn facts(call: uuid::Uuid, tier: Tier) -> CallFacts {
    CallFacts {
        call,
        principal: Principal::socket(1000, "writer"),
        conn: None,
        tool: "test.write".into(),
        tier: Some(tier),
        pin: None,
        input_hash: InputHasher::new(&[0; 32]).hash(&json!({})),
        input: None,
        via: None,
        approval: None,
    }
}

pub fn good() -> OutcomeFacts {
    OutcomeFacts { result: AuditResult::Ok, code: None, effect: None, attempts: 1, duration_ms: 0, output_bytes: 0 }
}

pub fn verdict(home: &Path) -> (Verdict, String) {
    let layout = Layout::of(home);
    let key = keys::public_key(&Disk, &layout).expect("readable").expect("a key");
    let remembered = memory::recall(&Disk, &layout, None).expect("readable");
    let report = walk::verify(&Disk, &layout, Some(&key), None, &remembered, &mut |_| {}).expect("readable");
    (report.verdict, format!("{:?}", report.faults))
}
