//! Resources of patches. Each resource returns the result of a read tool.

use super::TOOLSET;
use conductor_gateway::catalog::resource::{Completer, Resource, variable};
use conductor_gateway::catalog::{Catalog, CatalogError};
use conductor_hosts::patch::Patches;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn add(catalog: &mut Catalog, patches: &Arc<Patches>) -> Result<(), CatalogError> {
    let console = "The newest console lines of the hosts";
    catalog.add_resource(Resource::json((TOOLSET, "get_console_log"), "patch://console", "console", console))?;
    let of_patch = |resource: Resource| Resource {
        arguments: Arc::new(|variables| json!({ "patch_id": variable(variables, "id") })),
        complete: BTreeMap::from([("id", ids(patches))]),
        ..resource
    };
    let patch = Resource::json((TOOLSET, "get_patch_info"), "patch://{id}", "patch", "Facts of a patch");
    catalog.add_resource(of_patch(patch))?;
    let objects = "The first page of a patch's objects";
    let tool = (TOOLSET, "get_objects_in_patch");
    catalog.add_resource(of_patch(Resource::json(tool, "patch://{id}/objects", "objects", objects)))
}

pub(super) fn ids(patches: &Arc<Patches>) -> Completer {
    let patches = Arc::clone(patches);
    Arc::new(move |_studio, _typed| patches.ids())
}
