//! `disconnect_max_objects`: removes a cord.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("disconnect_max_objects", patches, run)
        .text("Disconnect", "Removes a cord.")
        .input(cord(json!({})))
        .output(edit_body(json!({ "src_varname": "text", "outlet": "int", "dst_varname": "text", "inlet": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.edit(
        |it| Ok(it.disconnect()),
        |_, outcome| matches!(outcome, Outcome::Disconnected).then(|| asked.arguments().cord()),
    )
}
