//! Plugins and scripts. A plugin is a JavaScript file that a person installed; a script is code
//! that a caller sent. Each runs in a child process of this binary, in a [`sandbox`].
//!
//! [`child`] is the main function of that process, and [`process`] is the daemon's side of it.
//! [`runner`] keeps one process per plugin and runs its calls one after the other. [`manifest`]
//! checks the declarations of a plugin.
//!
//! Not here: the list of plugins and who enabled them (`gateway::plugins`), their permissions
//! (`plugins` of the gateway), and the catalog of tools.

pub mod child;
mod engine;
pub mod frame;
pub mod manifest;
pub mod process;
pub mod runner;
pub mod sandbox;

use conductor_core::config::Plugin;
use serde::{Deserialize, Serialize};

/// The kind of code that the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file of a plugin.
    Plugin,
    /// The code of one run of a script. The process ends when the run ends.
    Script,
}

/// Limits of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum processor time of one call, in milliseconds.
    pub cpu_ms: u32,
    pub heap_mb: u32,
    pub stack_kb: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let Plugin { cpu_ms, heap_mb, .. } = Plugin::default();
        Limits { cpu_ms, heap_mb, stack_kb: 256 }
    }
}

/// An error thrown by plugin code, for the plugin's author.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thrown {
    pub message: String,
    /// The error code that the plugin has set. It is used only if it is one of Conductor's codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The innermost line of the plugin's file, such as `file.js:12:5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl std::fmt::Display for Thrown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
