//! Everything that touches the outside: the programs and devices we drive, and the system below
//! them.
//!
//! Not here: who may use a host. A host does what it is asked; the gateway decides before it asks.

pub mod apps;
pub mod atomic_file;
pub mod bridges;
#[cfg(target_os = "linux")]
pub mod confine;
pub mod connection_limits;
pub mod database;
pub mod desktop;
pub mod files;
#[cfg(feature = "desktop")]
pub mod focus;
#[cfg(feature = "gamepad")]
pub mod gamepad;
pub mod latest_value_worker;
pub mod live;
pub mod max;
pub mod midi;
pub mod osc;
pub mod paint;
pub mod patch;
pub mod pd;
pub mod plugin;
pub mod shell;
pub mod system;
pub mod web;

use std::path::{Component, Path, PathBuf};

/// Whether a folder lies in the Conductor home or contains it: granted, it would open secrets,
/// tokens, the audit log and the configuration.
pub fn touches_home(home: &Path, folder: &Path) -> bool {
    let whole = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| lexical(path));
    let (home, folder) = (whole(home), whole(folder));
    folder.starts_with(&home) || home.starts_with(&folder)
}

/// A path without `.` and `..`, as the kernel would go where there are no links.
pub fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out
}
