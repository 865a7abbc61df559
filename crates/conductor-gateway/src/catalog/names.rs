//! The two forms of tool names (dotted and safe), and the toolsets of connections.
//!
//! Not here: permissions, which policy decides, and views, which only shorten lists (`views`).

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{Availability, Source, Tool};
use conductor_core::config::ToolNames;
use conductor_core::policy::Tier;

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

/// The tools, resources and prompts that exist for one connection. Other tools are unknown to it,
/// also through `conductor_call_tool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toolset {
    All,
    /// All tools except hidden ones.
    Listed,
    /// Toolset names, `plugin:<name>`, and exact tool names in their safe form.
    Some(BTreeSet<String>),
    /// Part of another toolset.
    Less(Box<Less>),
    /// The tools that are in both toolsets.
    Both(Box<(Toolset, Toolset)>),
}

/// A toolset without some of its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Less {
    of: Toolset,
    without: Toolset,
    read_only: Option<ReadOnly>,
}

/// Which tools with an effect stay in a read-only toolset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOnly {
    /// `conductor_panic`, which is never refused.
    Plain,
    /// For a running show: also `conductor_switch_mode`.
    Stage,
}

impl ReadOnly {
    fn has(self, tool: &Tool) -> bool {
        // A tool that runs other tools stays too, because it can run the tools of this toolset
        // only.
        tool.tier == Tier::ReadOnly
            || tool.availability == Availability::Always
            || tool.runs_tools()
            || (self == Self::Stage && tool.name == "conductor_switch_mode")
    }
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

    /// This toolset without the tools of `without`. With `read_only`, tools that have an effect are
    /// removed too.
    #[must_use]
    pub fn less(self, without: Option<Self>, read_only: Option<ReadOnly>) -> Self {
        if without.is_none() && read_only.is_none() {
            return self;
        }
        let without = without.unwrap_or(Self::Some(BTreeSet::new()));
        Self::Less(Box::new(Less { of: self, without, read_only }))
    }

    /// The tools of this toolset that are also in another one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match other {
            Self::All => self,
            Self::Listed | Self::Some(_) | Self::Less(_) | Self::Both(_) => Self::Both(Box::new((self, other))),
        }
    }

    pub fn has_set(&self, toolset: &str) -> bool {
        match self {
            Self::All | Self::Listed => true,
            Self::Some(chosen) => chosen.contains(toolset),
            Self::Less(less) => less.of.has_set(toolset) && !less.without.has_set(toolset),
            Self::Both(both) => both.0.has_set(toolset) && both.1.has_set(toolset),
        }
    }

    pub fn has(&self, tool: &Tool) -> bool {
        match self {
            Self::All => true,
            Self::Listed => !tool.hidden,
            Self::Some(chosen) => {
                chosen.contains(tool.toolset.as_ref())
                    || chosen.contains(tool.safe_name())
                    || match &tool.source {
                        Source::Builtin => false,
                        Source::Plugin { name, .. } => chosen.contains(&format!("plugin:{name}")),
                    }
            }
            Self::Less(less) => {
                less.of.has(tool) && !less.without.has(tool) && less.read_only.is_none_or(|it| it.has(tool))
            }
            Self::Both(both) => both.0.has(tool) && both.1.has(tool),
        }
    }
}
