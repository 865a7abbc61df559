//! Resources of the studio. Each resource returns the result of a read tool.

use super::TOOLSET;
use conductor_gateway::catalog::resource::{Completer, Resource, variable};
use conductor_gateway::catalog::{Catalog, CatalogError};
use conductor_gateway::owner_handle::OwnerHandle;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn add_resources(catalog: &mut Catalog, owner: &OwnerHandle) -> Result<(), CatalogError> {
    let fixed = [
        ("conductor://status", "status", "Daemon, device and configuration state", "conductor_get_status"),
        (
            "conductor://config",
            "config",
            "config.toml on disk, and its parts that are not in force",
            "conductor_get_config",
        ),
        ("conductor://devices", "devices", "Ports, gamepads and listeners of the last scan", "conductor_list_devices"),
        ("conductor://trace", "trace", "The last events and their outcomes", "conductor_get_trace"),
        ("conductor://plans", "plans", "Plans with their diff and status", "conductor_list_plans"),
    ];
    for (uri, name, description, tool) in fixed {
        catalog.add_resource(Resource::json((TOOLSET, tool), uri, name, description))?;
    }
    let mappings = "Mappings and continuous bindings of one mode";
    catalog.add_resource(Resource {
        title: "Mappings of a mode".into(),
        arguments: Arc::new(|variables| json!({ "mode": variable(variables, "mode") })),
        complete: BTreeMap::from([("mode", modes(owner))]),
        ..Resource::json((TOOLSET, "conductor_get_mappings"), "conductor://modes/{mode}", "mode", mappings)
    })
}

fn modes(owner: &OwnerHandle) -> Completer {
    let owner = owner.clone();
    Arc::new(move |_studio, _typed| owner.serving().config.modes.iter().map(|it| it.name.clone()).collect())
}
