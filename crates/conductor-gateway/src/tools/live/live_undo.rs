//! `live_undo`: undoes edits.

use super::prelude::*;
use super::stepping;
use conductor_hosts::live::Way;

pub fn definition(live: &Arc<Live>) -> Definition {
    stepping(live, "live_undo", Way::Undo)
        .text(
            "Undo",
            "Undoes the last edits of the Set, including edits made by others. One step by default. `labels` names the undone edits.",
        )
        .input(schema::steps())
        .output(schema::stepped("undone"))
}
