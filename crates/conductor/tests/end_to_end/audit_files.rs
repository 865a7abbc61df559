//! Shared by the tests of the audit log on real files: a record to write, and the verdict.

use std::path::Path;

use conductor_core::audit::{CallFacts, InputHasher, OutcomeFacts, Verdict};
use conductor_core::error::AuditResult;
use conductor_core::policy::Tier;
use conductor_core::principal::Principal;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::audit_log::layout::Layout;
use conductor_gateway::audit_log::{keys, memory, walk};
use serde_json::json;

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
        script: None,
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
