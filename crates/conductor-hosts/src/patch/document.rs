//! The host of patches without a running program. Nothing in a patch is executed; a program shows
//! the edits when it loads the saved file.

use super::{Ability, Capabilities, HostKind, PatchHost};
use conductor_core::error::ToolError;
use conductor_patch::{BoxView, Document, Format, Value, Warning};
use std::path::Path;

pub struct DocumentHost;

const PD_HAS_NONE: Ability = Ability::No("not available in Pure Data files");

impl PatchHost for DocumentHost {
    fn kind(&self) -> HostKind {
        HostKind::Document
    }

    fn capabilities(&self, format: Format) -> Capabilities {
        let max_only = if format.is_pd() { PD_HAS_NONE } else { Ability::Yes };
        vec![
            ("edit", Ability::Yes),
            ("attributes", Ability::Yes),
            ("ports", Ability::Degraded("no program is running, so ports are computed from the file")),
            ("hidden", max_only),
            ("midpoints", max_only),
            ("presentation", max_only),
            ("value", Ability::Degraded("only values stored in the file are known")),
            ("lock", Ability::Degraded("the lock is kept in memory, not in the file")),
            ("dirty", Ability::Yes),
            ("console", Ability::Degraded("no program is running, so only messages of Conductor are shown")),
            ("frontmost", Ability::Degraded("returns the patch that was used last")),
            ("redraw", Ability::No("nothing is drawn")),
        ]
    }

    fn open(&self, _: &str, _: &Document, _: Option<&Path>) -> Result<(), ToolError> {
        Ok(())
    }

    fn close(&self, _: &str) {}

    fn confinement(&self) -> String {
        "nothing in a document runs".to_owned()
    }

    fn carry(&self, _: &str, _: &Document, _: &Document) -> Result<Vec<Warning>, ToolError> {
        Ok(Vec::new())
    }

    fn value(&self, _: &str, object: &BoxView<'_>) -> Result<Option<Value>, ToolError> {
        Ok(object.stored_value())
    }

    fn set_locked(&self, _: &str, _: bool) -> Result<(), ToolError> {
        Ok(())
    }

    fn redraw(&self, _: &str, _: &BoxView<'_>) -> Result<bool, ToolError> {
        Ok(false)
    }
}
