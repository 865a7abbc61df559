//! Plugins: JavaScript files of a person, each in a child process of this binary that can only
//! compute.
//!
//! [`child`] is that process, [`process`] is the daemon's view of it, [`runner`] keeps one process
//! per plugin and serializes its calls, [`manifest`] checks what a plugin declares.
//!
//! Not here: which plugins exist and who enabled them (`gateway::plugins`), what they may reach
//! (`tools::plugins`), and the catalog.

pub mod child;
mod engine;
pub mod frame;
pub mod manifest;
pub mod process;
pub mod runner;
pub mod sandbox;

use serde::{Deserialize, Serialize};

/// Limits of one process.
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

/// An error of plugin code, for the plugin's author.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thrown {
    pub message: String,
    /// The code that the plugin set; used if it is one of ours.
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
