//! The version of a policy: a hash that approvals are bound to.
//!
//! Computed from the parsed policy, not from its text, so that comments and the order of keys do
//! not change it.

use super::{ApprovalSettings, PadSettings, Pattern, Policy, Rule, TierDefaults, policy_version};
use crate::digest::Digest;
use serde_json::{Value, json};

impl Policy {
    /// Everything the policy says. Two policies that differ differ here.
    pub fn to_json(&self) -> Value {
        let Policy { default, rules, approval } = self;
        let TierDefaults { read_only, stateful, config_change, hardware_io } = default;
        let ApprovalSettings { wait_ms, ttl_ms, client_tiers, cooldown_ms, refuse_descendants, pad } = approval;
        json!({
            "default": {
                "ReadOnly": read_only,
                "Stateful": stateful,
                "ConfigChange": config_change,
                "HardwareIO": hardware_io,
            },
            "rules": rules.iter().map(rule).collect::<Vec<_>>(),
            "approval": {
                "wait_ms": wait_ms,
                "ttl_ms": ttl_ms,
                "client_tiers": client_tiers,
                "cooldown_ms": cooldown_ms,
                "refuse_descendants": refuse_descendants,
                "pad": pad.as_ref().map(|PadSettings { device, note, hold_ms, tiers }| {
                    json!({ "device": device, "note": note, "hold_ms": hold_ms, "tiers": tiers })
                }),
            },
        })
    }

    /// With the `tools` and `plugins` sections, which an approval depends on as much.
    pub fn version(&self, tools: &Value, plugins: &Value) -> Digest {
        // Only a number beyond 2^53 in a rule could fail, and reading the file refuses those. A
        // policy made otherwise gets a version of its own kind, under which no earlier yes counts.
        policy_version(&self.to_json(), tools, plugins).unwrap_or_else(|fault| Digest::of(fault.to_string().as_bytes()))
    }
}

fn rule(rule: &Rule) -> Value {
    let Rule { tool, principal, tier, args, decision, channel } = rule;
    json!({
        "tool": tool.as_ref().map(pattern),
        "principal": principal.as_ref().map(pattern),
        "tier": tier,
        "args": args,
        "decision": decision,
        "channel": channel,
    })
}

fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Exact(name) => name.clone(),
        Pattern::Prefix(start) => format!("{start}*"),
    }
}
