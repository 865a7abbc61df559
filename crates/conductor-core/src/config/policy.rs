//! Reads `[policy]`: the defaults per tier, the rules, the approval settings and the approval pad.
//!
//! A section with any fault is not used at all, because a part of a policy could allow calls that
//! another part refuses. The daemon then keeps the old policy. Not here: the decisions of a policy
//! (`crate::policy`).

use super::reader::{Reader, nearest};
use super::tree::{Node, Place};
use crate::digest;
use crate::policy::{ApprovalSettings, PadSettings, Pattern, Policy, PolicyError, Rule, Tier, TierDefaults};
use crate::principal::Principal;
use serde_json::Value;

/// The kinds of principals.
const KINDS: [&str; 7] = ["person", "cli", "socket", "http", "mapping", "plugin", "webhook"];

/// Upper limit of rules: a person cannot review more.
const MOST_RULES: usize = 256;

pub(crate) fn policy<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Policy> {
    let before = r.errors();
    let mut f = r.table(node)?;
    let default = f.or_default(r, "default", defaults);
    let rules_node = f.node("rules");
    let rules = rules_node.map(|it| r.under("rules", |r| rules(r, it))).unwrap_or_default();
    let approval = f.or_default(r, "approval", approval);
    f.finish(r);
    let policy = Policy { default, rules, approval };
    for fault in policy.faults() {
        report(r, node, &fault);
    }
    (r.errors() == before).then_some(policy)
}

/// The built-in policy, for a file without a `[policy]` section. `None` if a misspelt section looks
/// like `policy`.
pub(crate) fn without_section(tree: &Node) -> Option<Policy> {
    let misspelt = |key: &str| nearest("policy", std::iter::once(key)).is_some();
    let entries = tree.entries().unwrap_or_default();
    (!entries.iter().any(|entry| misspelt(&entry.key))).then(Policy::default)
}

/// Reports a fault of the whole policy at the value that causes it.
fn report<'t>(r: &mut Reader<'t>, node: &'t Node, fault: &PolicyError) {
    let of_rule = |index: &usize, key: &str| {
        let rules = node.get("rules").and_then(Node::items).unwrap_or_default();
        rules.get(*index).and_then(|it| it.get(key)).and_then(|it| it.place.clone())
    };
    let of_tier = |tier: Tier| node.get("default").and_then(|it| it.get(tier.as_str())).and_then(|it| it.place.clone());
    let (place, path): (Place, (&'static str, Option<usize>, &'static str)) = match fault {
        PolicyError::ClientIsOnlyAClaim { rule, .. } => {
            (of_rule(rule, "principal"), ("rules", Some(*rule), "principal"))
        }
        PolicyError::PlanElsewhere { rule } => (of_rule(rule, "decision"), ("rules", Some(*rule), "decision")),
        PolicyError::NoPointer { rule, .. } => (of_rule(rule, "args"), ("rules", Some(*rule), "args")),
        PolicyError::DefaultPlanElsewhere { tier } => (of_tier(*tier), ("default", None, tier.as_str())),
        PolicyError::DefaultWithoutPlan => {
            (of_tier(Tier::ConfigChange), ("default", None, Tier::ConfigChange.as_str()))
        }
    };
    let (list, index, key) = path;
    let message = fault.to_string();
    r.under(list, |r| match index {
        Some(index) => r.at_index(index, |r| r.under(key, |r| r.rule(&place, message))),
        None => r.under(key, |r| r.rule(&place, message)),
    });
}

fn defaults<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<TierDefaults> {
    let mut f = r.table(node)?;
    let d = TierDefaults::default();
    let mut of = |tier: Tier, default| f.or(r, tier.as_str(), default, Reader::named);
    let defaults = TierDefaults {
        read_only: of(Tier::ReadOnly, d.read_only),
        stateful: of(Tier::Stateful, d.stateful),
        config_change: of(Tier::ConfigChange, d.config_change),
        hardware_io: of(Tier::HardwareIo, d.hardware_io),
    };
    f.finish(r);
    Some(defaults)
}

/// A rule with a fault becomes an empty rule, so that the indexes of the other rules do not change.
fn rules<'t>(r: &mut Reader<'t>, node: &'t Node) -> Vec<Rule> {
    let Some(items) = r.list(node, 0, MOST_RULES) else { return Vec::new() };
    r.each(items, |r, item| Some(rule(r, item).unwrap_or_default()))
}

fn rule<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Rule> {
    let mut f = r.table(node)?;
    let tool = f.opt(r, "tool", |r, it| pattern(r, it, 128));
    let principal = f.opt(r, "principal", principal);
    let rule = Rule {
        tool,
        principal,
        tier: f.opt(r, "tier", Reader::named),
        args: f.or_default(r, "args", args),
        decision: f.opt(r, "decision", Reader::named),
        channel: f.opt(r, "channel", Reader::named),
    };
    let says_nothing = !f.has("decision") && !f.has("channel");
    let place = f.place.clone();
    let before = r.errors();
    f.finish(r);
    // A misspelt `decision` has been reported already.
    if says_nothing && r.errors() == before {
        r.rule_help(
            &place,
            "this rule decides nothing".to_owned(),
            "add decision = \"allow\", \"ask\" or \"deny\"".into(),
        );
    }
    Some(rule)
}

/// An exact name, or a prefix followed by `*`.
fn pattern<'t>(r: &mut Reader<'t>, node: &'t Node, longest: usize) -> Option<Pattern> {
    let text = r.text(node, 1, longest)?;
    let pattern = Pattern::parse(&text);
    let (Pattern::Exact(rest) | Pattern::Prefix(rest)) = &pattern;
    if rest.contains('*') {
        let help = "write the beginning and one `*`, such as \"shell.*\"";
        return r.reject(node, "`*` means any ending and is allowed only at the end".to_owned(), help.to_owned());
    }
    Some(pattern)
}

/// Refuses a principal that cannot exist: its rule would never match, and a `deny` rule would have
/// no effect.
fn principal<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Pattern> {
    let pattern = pattern(r, node, 256)?;
    let possible = match &pattern {
        Pattern::Exact(name) => name.parse::<Principal>().is_ok(),
        Pattern::Prefix(start) => match start.split_once(':') {
            Some((kind, _)) => KINDS.contains(&kind),
            None => KINDS.iter().any(|kind| kind.starts_with(start.as_str())),
        },
    };
    if possible {
        return Some(pattern);
    }
    let (Pattern::Exact(text) | Pattern::Prefix(text)) = &pattern;
    let kind = text.split(':').next().unwrap_or_default();
    let help = match nearest(kind, KINDS.into_iter()) {
        Some(near) => format!("did you mean \"{near}:…\"?"),
        None => "write for example \"socket:1000/*\", \"http:ci\", \"cli:1000\" or \"mapping:Default/copy\"".to_owned(),
    };
    r.reject(node, format!("no caller can be \"{text}\""), help)
}

/// Pairs of a JSON pointer and the exact value that must be there.
fn args<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Vec<(String, Value)>> {
    let map = r.object(node)?;
    // A rule with such a value would never match, because calls with it are refused before the
    // rules are checked.
    if let Err(fault) = digest::check(&Value::Object(map.clone())) {
        r.rule(&node.place, fault.to_string());
        return None;
    }
    Some(map.into_iter().collect())
}

fn approval<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<ApprovalSettings> {
    let mut f = r.table(node)?;
    let d = ApprovalSettings::default();
    let approval = ApprovalSettings {
        wait_ms: f.or(r, "wait_ms", d.wait_ms, |r, it| r.whole(it, 0, 600_000)),
        ttl_ms: f.or(r, "ttl_ms", d.ttl_ms, |r, it| r.whole(it, 1000, 86_400_000)),
        client_tiers: f.or(r, "client_tiers", d.client_tiers, tiers),
        cooldown_ms: f.or(r, "cooldown_ms", d.cooldown_ms, |r, it| r.whole(it, 0, 3_600_000)),
        refuse_descendants: f.or(r, "refuse_descendants", d.refuse_descendants, Reader::boolean),
        pad: f.opt(r, "pad", pad),
    };
    f.finish(r);
    Some(approval)
}

fn tiers<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Vec<Tier>> {
    r.set(node, 0, Tier::ALL.len(), Reader::named)
}

fn pad<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<PadSettings> {
    let mut f = r.table(node)?;
    let device = f.need(r, "device", Reader::heard_device);
    let note = f.need(r, "note", Reader::u7);
    let hold_ms = f.or(r, "hold_ms", 800, |r, it| r.whole(it, 1, 60_000));
    let tiers = f.or(r, "tiers", vec![Tier::ConfigChange, Tier::HardwareIo], tiers);
    f.finish(r);
    Some(PadSettings { device: device?, note: note?, hold_ms, tiers })
}
