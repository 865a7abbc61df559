//! `conductor_delete_mapping`: plans the removal of one mapping.

use super::prelude::*;
use super::{Row, read_change};

pub fn definition() -> Definition {
    let mut definition = tool("conductor_delete_mapping", Tier::ConfigChange, TOOLSET, &(), run)
        .text(
            "Delete mapping",
            "Plans the removal of one mapping, named by id or by index (exactly one of the two). Nothing changes until a person applies the \
             plan, and it can be undone.",
        )
        .summary(with_args(|row: &Row| format!("plan to delete mapping {row}")));
    definition.destructive = Some(true);
    definition
}

async fn run((): (), cx: Context, _row: Row) -> Result<ConfigPlan, ToolError> {
    let change = read_change("DeleteMapping", &cx.arguments).map_err(plans::bad_change)?;
    plans::make(&cx, &[change], None).await
}
