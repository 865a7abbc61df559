//! The two spellings of a tool's name, and which tools a connection sees.
//!
//! Not here: permission. A toolset saves context; policy is what refuses.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::catalog::{Source, Tool};

/// How names are listed. Both are accepted on call: several clients reject a whole list over one
/// dot, while documents and the command line write the dotted form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameForm {
    #[default]
    Safe,
    Dotted,
}

impl NameForm {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "safe" => Some(Self::Safe),
            "dotted" => Some(Self::Dotted),
            _ => None,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Dotted => "dotted",
        }
    }

    pub fn of(self, tool: &Tool) -> &str {
        match self {
            Self::Safe => tool.safe_name(),
            Self::Dotted => &tool.name,
        }
    }
}

pub fn safe_form(name: &str) -> Cow<'_, str> {
    if name.contains('.') { Cow::Owned(name.replace('.', "_")) } else { Cow::Borrowed(name) }
}

/// The toolsets that exist whether or not a tool is in them.
pub const TOOLSETS: [&str; 8] = ["daemon", "live", "patch", "filesystem", "shell", "database", "web", "plugins"];

/// Which tools, resources and prompts one server process shows.
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
    /// `is_tool` answers for a safe name. Plugins come and go, so `plugin:<name>` is taken unseen.
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
