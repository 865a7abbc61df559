//! Parsers and checks for the values of `[policy]`.
//!
//! Not here: the list of its keys, and how a policy decides (`crate::policy`).

use super::form::{Form, opaque};
use super::reader::{Fields, Reader, nearest};
use super::section::table;
use super::tree::{Node, Place};
use crate::digest;
use crate::policy::{Pattern, Policy, PolicyError, Rule, Tier};
use crate::principal::Principal;
use serde_json::Value;

/// The kinds of principals, which are the callers of tools.
const KINDS: [&str; 9] = ["person", "phone", "cli", "socket", "http", "oauth", "mapping", "plugin", "webhook"];

/// Maximum number of rules, because a person cannot review more.
const MOST_RULES: usize = 256;

/// The built-in policy, for a file without a `[policy]` section. `None` if the file has a section
/// whose name looks like a misspelt `policy`.
pub(crate) fn without_section(tree: &Node) -> Option<Policy> {
    let misspelt = |key: &str| nearest("policy", std::iter::once(key)).is_some();
    let entries = tree.entries().unwrap_or_default();
    (!entries.iter().any(|entry| misspelt(&entry.key))).then(Policy::default)
}

/// Reports a fault that [`Policy::faults`] found, at the value that causes the fault.
fn report(r: &mut Reader<'_>, f: &Fields<'_>, fault: &PolicyError) {
    let of_rule = |index: &usize, key: &str| {
        let rules = f.peek("rules").and_then(Node::items).unwrap_or_default();
        rules.get(*index).and_then(|it| it.get(key)).and_then(|it| it.place.clone())
    };
    let of_tier = |tier: Tier| f.peek("default").and_then(|it| it.get(tier.as_str())).and_then(|it| it.place.clone());
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

/// The rules in the order of the file. A rule that is not a table becomes an empty rule, so that
/// the indexes of the other rules do not change.
pub(crate) fn rules() -> impl Form<Out = Vec<Rule>> {
    opaque(|r, node| r.list_of(node, 0, MOST_RULES, |r, item| Some(table().read(r, item).unwrap_or_default())))
}

/// Refuses a rule that has neither a decision nor a channel, unless it has an unknown key, which
/// may be misspelt.
pub(crate) fn decides_something(rule: Rule, r: &mut Reader<'_>, f: &Fields<'_>) -> Rule {
    if !f.has("decision") && !f.has("channel") && f.unknown().next().is_none() {
        let help = "add decision = \"allow\", \"ask\" or \"deny\"".to_owned();
        r.rule_help(&f.place, "this rule has no decision".to_owned(), help);
    }
    rule
}

/// Reports the faults that [`Policy::faults`] finds.
pub(crate) fn report_faults(policy: Policy, r: &mut Reader<'_>, f: &Fields<'_>) -> Policy {
    for fault in policy.faults() {
        report(r, f, &fault);
    }
    policy
}

/// A tool name, or a prefix of tool names that ends in `*`.
pub(crate) fn tool_pattern() -> impl Form<Out = Pattern> {
    opaque(|r, node| pattern(r, node, 128))
}

/// A principal, or a prefix of principals that ends in `*`.
pub(crate) fn principal_pattern() -> impl Form<Out = Pattern> {
    opaque(principal)
}

/// Pairs of a JSON pointer into the arguments and the exact value that must be there.
pub(crate) fn arguments() -> impl Form<Out = Vec<(String, Value)>> {
    opaque(args)
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

/// Refuses a principal that cannot exist. A rule with such a principal would never match, so a
/// `deny` rule would have no effect.
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
    r.reject(node, format!("no caller can have the name \"{text}\""), help)
}

fn args<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Vec<(String, Value)>> {
    let map = r.object(node)?;
    // Refuse values that have no canonical form. A rule with such a value would never match,
    // because calls with the value are refused before the rules are checked.
    if let Err(fault) = digest::check(&Value::Object(map.clone())) {
        r.rule(&node.place, fault.to_string());
        return None;
    }
    Some(map.into_iter().collect())
}
