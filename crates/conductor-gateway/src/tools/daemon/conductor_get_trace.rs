//! `conductor_get_trace`: recent events and their results.

use super::prelude::*;
use crate::owner_handle::Wanted;
use conductor_core::engine::Outcome;

#[derive(Deserialize)]
struct Arguments {
    limit: Option<usize>,
    since_seq: Option<u64>,
    device: Option<String>,
    mapping_id: Option<String>,
    outcome: Option<String>,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_get_trace", Tier::ReadOnly, owner, |owner, _studio, _clearance, arguments| async move {
        let Arguments { limit, since_seq, device, mapping_id, outcome } = parse_arguments(arguments)?;
        let wanted = Wanted { limit: Some(limit.unwrap_or(50)), since_seq, device, mapping_id, outcome };
        let traced = owner.trace(wanted).await?;
        let records: Vec<Value> = traced.records.iter().map(|it| it.to_json()).collect();
        Ok(Output::new(json!({ "records": records, "next_seq": traced.next_seq, "lost": traced.lost })))
    })
    .text(
        "Get trace",
        "Returns the last events and their outcomes: which mapping fired, what it did, or why nothing happened. To read only newer records, \
         call again with since_seq = next_seq; `lost` counts records that were dropped in between.",
    )
    .input(object(json!({
        "limit?": { "type": "integer", "minimum": 1, "maximum": 200, "default": 50 },
        "since_seq?": { "type": "integer", "minimum": 0 },
        "device?": { "type": "string", "minLength": 1, "maxLength": 256 },
        "mapping_id?": { "type": "string", "minLength": 1, "maxLength": 64 },
        "outcome?": { "enum": Outcome::NAMES },
    })))
    .output(object(json!({
        "records": list(object(json!({
            "seq": integer(), "at_us": integer(), "device": text(), "event": text(), "gesture": text(), "mode": text(),
            "mapping_id": nullable(text()), "outcome": text(), "action": nullable(text()), "latency_us": nullable(integer()), "reason": text(),
        }))),
        "next_seq": integer(), "lost": integer(),
    })))
}
