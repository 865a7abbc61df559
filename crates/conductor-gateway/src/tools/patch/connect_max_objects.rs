//! `connect_max_objects`: draws a cord.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("connect_max_objects", patches, run)
        .text(
            "Connect",
            "Draws a cord. A port that cannot exist is refused with the number of ports. Connecting twice is not an error; the result then \
             contains `already`.",
        )
        .input(cord(json!({ "hidden": "bool" })))
        .output(edit_body(json!({ "src_varname": "text", "outlet": "int", "dst_varname": "text", "inlet": "int", "already?": "bool" })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.edit(
        |it| Ok(it.connect()),
        |_, outcome| {
            let Outcome::Connected { already } = outcome else { return None };
            let mut members = asked.arguments().cord();
            if *already {
                members["already"] = json!(true);
            }
            Some(members)
        },
    )
}
