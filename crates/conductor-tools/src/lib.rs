//! The built-in tools: one file per tool, one module per set.
//!
//! Not here: the catalog and the schemas of tools (`catalog` in `conductor-gateway`), permissions
//! and limits (`pipeline` in `conductor-gateway`), and how a call arrives (`doors` in
//! `conductor-daemon`). Only the binary and the tests depend on this crate.

pub mod daemon;
pub mod database;
pub mod filesystem;
pub mod live;
pub mod patch;
mod prelude;
pub mod shell;
mod truncate;
pub mod web;

use conductor_gateway::builtin::BuiltinTools;

/// The tools of all sets.
pub const BUILTIN: BuiltinTools = BuiltinTools {
    daemon: daemon::add,
    scripts: daemon::add_run_script,
    patch: patch::add,
    live: live::add,
    filesystem: filesystem::add,
    shell: shell::add,
    database: database::add,
    web: web::add,
    dry_run: |patches, live, owner| {
        let mut tools = patch::definitions(patches);
        tools.extend(live::definitions(live));
        tools.extend(daemon::simulated(owner));
        tools
    },
};
