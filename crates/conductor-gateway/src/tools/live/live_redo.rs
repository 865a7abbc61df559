//! `live_redo`: redoes undone edits.

use super::prelude::*;
use super::stepping;
use conductor_hosts::live::Way;

pub fn definition(live: &Arc<Live>) -> Definition {
    stepping(live, "live_redo", Way::Redo)
        .text("Redo", "Makes edits again that live_undo took back. Any new edit clears them.")
        .input(schema::steps())
        .output(schema::stepped("redone"))
}
