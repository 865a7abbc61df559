//! The tools of a dry run: they work on copies of the open documents and on the simulator. Tools
//! that act on a device, a program or a file, or outside the studio, end the dry run.

use std::sync::Arc;

use conductor_core::error::{Code, ToolError};
use conductor_core::policy::Tier;
use conductor_hosts::live::Live;
use conductor_hosts::patch::Patches;
use serde_json::Value;

use crate::builtin::BuiltinTools;
use crate::catalog::{Catalog, CatalogError, Tool};
use crate::owner_handle::OwnerHandle;

/// Document tools that write a file.
const WRITES_FILES: [&str; 4] = ["save_patch", "live_save_set", "live_new_set", "live_render_track"];

/// The patches, Sets and engine whose copies a dry run uses, and the tools for the copies.
pub struct Originals {
    pub patches: Arc<Patches>,
    pub live: Arc<Live>,
    pub owner: OwnerHandle,
    pub tools: BuiltinTools,
}

impl Originals {
    /// A catalog whose document tools work on copies.
    pub fn copy(&self, catalog: &Catalog) -> Result<Catalog, ToolError> {
        let make = || -> Result<Catalog, CatalogError> {
            let mut copy = catalog.copy();
            for definition in (self.tools.dry_run)(&self.patches.copies(), &self.live.copies(), &self.owner) {
                // A tool that the catalog does not have stays unknown.
                if copy.remove(&definition.name) {
                    copy.add(Tool::new(definition)?)?;
                }
            }
            Ok(copy)
        };
        make().map_err(|fault| ToolError::new(Code::Internal, format!("no dry run is possible: {fault}")))
    }

    /// Why a dry run ends before this call; `None` if the tool works on copies or only reads the
    /// studio.
    pub fn ends(&self, tool: &Tool, arguments: &Value) -> Option<&'static str> {
        const RUNNING: &str = "the tool acts on a running program";
        if WRITES_FILES.contains(&tool.safe_name()) {
            return Some("the tool writes a file");
        }
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        match (tool.toolset.as_ref(), tool.tier) {
            ("web" | "shell" | "database" | "plugins", _) => Some("the tool acts outside the studio"),
            ("patch", _) => {
                let runs = text("patch_id").is_some_and(|it| self.patches.runs(it));
                (runs || text("host").is_some_and(|it| it != "document")).then_some(RUNNING)
            }
            ("live", _) => {
                let attaches = text("host").is_some_and(|it| it != "document");
                (attaches || self.live.may_be_running(text("setId"))).then_some(RUNNING)
            }
            (_, Tier::ReadOnly | Tier::ConfigChange) => None,
            _ if tool.safe_name() == "conductor_switch_mode" => None,
            (_, Tier::Stateful | Tier::HardwareIo) => Some("the tool acts on a device, a file or the running engine"),
        }
    }
}
