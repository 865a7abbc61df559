//! The version of a policy is a hash. An approval is valid only for one version.
//!
//! The hash is computed from the parsed policy, not from its text, so comments and the order of
//! keys do not change it.

use super::{ApprovalSettings, PadSettings, Pattern, Policy, Rule, TierDefaults, policy_version};
use crate::digest::Digest;
use serde_json::{Value, json};

impl Policy {
    /// The whole policy as JSON. Different policies have different JSON.
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

    /// The version of the policy together with the `tools` and `plugins` sections, because
    /// approvals depend on those too.
    pub fn version(&self, tools: &Value, plugins: &Value) -> Digest {
        // This can fail only for a number above 2^53 in a rule, which the file reader refuses. A
        // policy with such a number gets another version, so that earlier approvals are stale.
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
