//! Converts configuration sections into the settings of the gateway's parts.
//!
//! Not here: reading the sections (`conductor_core::config`), and putting them in force
//! (`gateway`).

use crate::doors::http::Token;
use conductor_core::config::{self, Config, PdMode};
use conductor_core::policy::{Decision, Pattern, Policy, Rule, Tier};
use conductor_core::principal::Principal;
use conductor_gateway::catalog::Catalog;
use conductor_gateway::catalog::names::Toolset;
use conductor_gateway::studio::PolicyInForce;
use conductor_hosts::pd;
use serde_json::{Map, Value, json};

/// The settings of the Pd that the daemon starts, if the configuration enables it.
pub(crate) fn pd(section: &config::Pd) -> Option<pd::Settings> {
    match section.mode {
        PdMode::Spawn => Some(section.into()),
        PdMode::Off | PdMode::Attach => None,
    }
}

/// The policy with its version. The version also covers `[tools]` and `[plugins]`: a change to
/// these sections voids approvals, like a change to `[policy]`.
pub(crate) fn in_force(policy: Policy, config: &Config) -> PolicyInForce {
    let tools = if config.tools.written.is_null() { json!({}) } else { config.tools.written.clone() };
    let plugins: Map<String, Value> = config.plugins.iter().map(|(name, row)| (name.clone(), row.to_json())).collect();
    let version = policy.version(&tools, &Value::Object(plugins));
    PolicyInForce { policy, version }
}

/// The policy of a daemon that starts with an invalid `[policy]`. There is no earlier policy to
/// keep, and an unreadable rule may have been a `deny`, so a person must approve every effect.
pub(crate) fn cautious() -> Policy {
    let ask = |tier| Rule { tier: Some(tier), decision: Some(Decision::Ask), ..Rule::default() };
    let mut policy = Policy { rules: vec![ask(Tier::Stateful), ask(Tier::HardwareIo)], ..Policy::default() };
    policy.approval.client_tiers = Vec::new();
    policy
}

pub(crate) fn tokens(http: &config::Http) -> impl Iterator<Item = Token> {
    http.tokens.iter().map(|token| Token {
        name: token.name.clone(),
        hash: *token.hash.as_bytes(),
        scopes: token.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        tools: token.tools.clone(),
        views: token.views.clone(),
        expires: token.expires,
        principal: Principal::Http { token: token.name.clone() },
        session: token.name.clone(),
    })
}

/// One line for each tool or toolset that does not exist. Names are checked here because the file
/// is read before the catalog exists.
pub(crate) fn unknown_names(config: &Config, catalog: &Catalog) -> Vec<String> {
    let is_tool = |name: &str| catalog.get(name).is_some();
    let mut lines = Vec::new();
    for (index, rule) in config.policy.iter().flat_map(|it| &it.rules).enumerate() {
        match &rule.tool {
            // A rule must use the dotted name of a tool.
            Some(Pattern::Exact(name)) if catalog.get(name).is_none_or(|it| it.name != *name) => {
                lines.push(format!("[policy] rule {index}: there is no tool \"{name}\""));
            }
            Some(Pattern::Exact(_) | Pattern::Prefix(_)) | None => {}
        }
    }
    let built_in = config::Circuit::default();
    for name in config.circuit.tools.keys().filter(|it| !built_in.tools.contains_key(*it)) {
        if catalog.get(name).is_none_or(|it| it.name != *name) {
            lines.push(format!("[circuit.tools]: there is no tool \"{name}\""));
        }
    }
    let lists = config.http.tokens.iter().map(|it| (format!("[[http.tokens]] {}", it.name), &it.tools));
    let scopes = config.http.oauth.iter().flat_map(|it| &it.scopes);
    let lists = lists.chain(scopes.map(|it| (format!("[[http.oauth.scopes]] {}", it.name), &it.tools)));
    for (place, words) in lists.chain(std::iter::once(("[mcp]".to_owned(), &config.mcp.tools))) {
        for word in words {
            if let Err(fault) = Toolset::parse(std::slice::from_ref(word), is_tool) {
                lines.push(format!("{place} tools: {fault}"));
            }
        }
    }
    for hook in &config.http.hooks {
        if catalog.get(&hook.tool).is_none_or(|it| it.hidden) {
            lines.push(format!("[[http.hooks]] {}: there is no tool \"{}\"", hook.name, hook.tool));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cautious_policy_has_no_faults() {
        assert_eq!(cautious().faults(), []);
    }
}
