//! `conductor_delete_mapping`: plans the removal of one mapping.

use super::conductor_update_mapping::which;
use super::prelude::*;
use super::{row_input, row_of};
use conductor_core::plan::Change;

pub fn definition() -> Definition {
    let mut definition = Definition::new("conductor_delete_mapping", Tier::ConfigChange, TOOLSET, |studio, clearance, arguments| async move {
        let change = Change::read(&row_of("DeleteMapping", &arguments), "").map_err(plans::bad_change)?;
        Ok(Output::new(plans::make(&studio, &clearance, &arguments, &[change], None).await?))
    })
    .text(
        "Delete mapping",
        "Plans the removal of one mapping, named by id or by index (exactly one of the two). Nothing changes until a person applies the plan, \
         and it can be undone.",
    )
    .input(row_input(json!({})))
    .output(config_plan())
    .summary(|arguments| format!("plan to delete mapping {} of {}", which(arguments), arguments["mode"]));
    definition.destructive = Some(true);
    definition
}
