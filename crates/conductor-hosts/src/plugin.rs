//! Plugins: JavaScript of a person's own, each in a child process of this binary that can do
//! nothing but compute.
//!
//! [`child`] is that process, [`process`] is one of them seen from the daemon, [`runner`] keeps one
//! per plugin alive and lets calls through one after the other, [`manifest`] judges what a plugin
//! says about itself.
//!
//! Not here: which plugins there are and who enabled them (`daemon::plugins`), what they may reach
//! (`tools::plugins`), and the catalog.

pub mod child;
mod engine;
pub mod frame;
pub mod manifest;
pub mod process;
pub mod runner;
pub mod sandbox;

use serde::{Deserialize, Serialize};

/// What one process may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processor time of one call.
    pub cpu_ms: u32,
    pub heap_mb: u32,
    pub stack_kb: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { cpu_ms: 1000, heap_mb: 32, stack_kb: 256 }
    }
}

/// Why a plugin could not do what it was asked, in words for its author.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thrown {
    pub message: String,
    /// As the plugin gave it; a known code of ours is honoured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// `file.js:12:5`, the innermost line of the plugin's own.
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
