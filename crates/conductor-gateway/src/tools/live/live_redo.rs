//! `live_redo`: makes undone edits again.

use super::{schema, stepping};
use crate::tools::catalog::Definition;
use conductor_hosts::live::{Live, Way};
use std::sync::Arc;

pub fn definition(live: &Arc<Live>) -> Definition {
    stepping(live, "live_redo", Way::Redo)
        .text("Redo", "Makes edits again that live_undo took back. Any new edit clears them.")
        .input(schema::steps())
        .output(schema::stepped("redone"))
}
