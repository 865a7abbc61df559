//! `live_undo`: undoes edits.

use super::prelude::*;
use super::stepping;
use conductor_hosts::live::Way;

pub fn definition(live: &Arc<Live>) -> Definition {
    stepping(live, "live_undo", Way::Undo)
        .text(
            "Undo",
            "Takes the last edits of the Set back, whoever made them: one step unless told otherwise. labels names what was undone.",
        )
        .input(schema::steps())
        .output(schema::stepped("undone"))
}
