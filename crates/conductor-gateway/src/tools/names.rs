//! The two forms of tool names (dotted and safe), and the toolsets of connections.
//!
//! Not here: permissions. A toolset only saves context; policy decides about calls.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::catalog::{Source, Tool};
use conductor_core::config::ToolNames;

impl Tool {
    /// The name in lists; calls accept both forms. Several clients reject a list that has a dot in
    /// a name. Documentation and the command line use the dotted form.
    pub fn listed_name(&self, form: ToolNames) -> &str {
        match form {
            ToolNames::Safe => self.safe_name(),
            ToolNames::Dotted => &self.name,
        }
    }
}

pub fn safe_form(name: &str) -> Cow<'_, str> {
    if name.contains('.') { Cow::Owned(name.replace('.', "_")) } else { Cow::Borrowed(name) }
}

/// All toolsets, including empty ones.
pub const TOOLSETS: [&str; 8] = ["daemon", "live", "patch", "filesystem", "shell", "database", "web", "plugins"];

/// The tools, resources and prompts that one MCP server lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toolset {
    All,
    /// Toolset names, `plugin:<name>`, and exact tool names in their safe form.
    Some(BTreeSet<String>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown toolset or tool {name:?}; toolsets are all, {}, plugin:NAME", TOOLSETS.join(", "))]
pub struct UnknownToolset {
    pub name: String,
}

impl Toolset {
    /// `is_tool` checks a safe name. Plugins can be loaded later, so `plugin:<name>` is not
    /// checked.
    pub fn parse(words: &[String], is_tool: impl Fn(&str) -> bool) -> Result<Self, UnknownToolset> {
        let mut chosen = BTreeSet::new();
        for word in words {
            if word == "all" {
                return Ok(Self::All);
            }
            let safe = safe_form(word);
            if TOOLSETS.contains(&word.as_str()) || word.starts_with("plugin:") {
                chosen.insert(word.clone());
            } else if is_tool(&safe) {
                chosen.insert(safe.into_owned());
            } else {
                return Err(UnknownToolset { name: word.chars().take(64).collect() });
            }
        }
        Ok(Self::Some(chosen))
    }

    pub fn has_set(&self, toolset: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(chosen) => chosen.contains(toolset),
        }
    }

    pub fn has(&self, tool: &Tool) -> bool {
        match self {
            Self::All => true,
            Self::Some(chosen) => {
                chosen.contains(tool.toolset.as_ref())
                    || chosen.contains(tool.safe_name())
                    || match &tool.source {
                        Source::Builtin => false,
                        Source::Plugin { name, .. } => chosen.contains(&format!("plugin:{name}")),
                    }
            }
        }
    }
}
