//! `live_redo`: redoes undone edits.

use super::prelude::*;
use super::stepping;
use conductor_hosts::live::Way;

pub fn definition(live: &Arc<Live>) -> Definition {
    stepping(live, "live_redo", Way::Redo)
        .text("Redo", "Redoes edits that live_undo has undone. Any new edit clears them.")
        .input(schema::steps())
        .output(schema::stepped("redone"))
}
