//! Resources and prompts of the studio. A resource mirrors a read tool; a prompt is text for the
//! model.

use crate::owner_handle::OwnerHandle;
use crate::tools::catalog::{Catalog, CatalogError};
use crate::tools::prompt::{Argument, Message, Prompt};
use crate::tools::resource::{Completer, Resource};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::TOOLSET;

pub fn add_resources(catalog: &mut Catalog, owner: &OwnerHandle) -> Result<(), CatalogError> {
    let fixed = [
        ("conductor://status", "status", "Daemon, device and configuration state", "conductor_get_status"),
        ("conductor://config", "config", "config.toml as it is in force", "conductor_get_config"),
        ("conductor://devices", "devices", "Ports, gamepads and listeners of the last scan", "conductor_list_devices"),
        ("conductor://trace", "trace", "The last events and what became of them", "conductor_get_trace"),
        ("conductor://plans", "plans", "Plans with their diff and status", "conductor_list_plans"),
    ];
    for (uri, name, description, tool) in fixed {
        catalog.add_resource(Resource {
            uri: uri.into(),
            name: name.into(),
            title: name.into(),
            description: description.into(),
            mime: "application/json".into(),
            toolset: TOOLSET.into(),
            tool: tool.into(),
            arguments: Arc::new(|_| json!({})),
            complete: BTreeMap::new(),
        })?;
    }
    catalog.add_resource(Resource {
        uri: "conductor://modes/{mode}".into(),
        name: "mode".into(),
        title: "Mappings of a mode".into(),
        description: "Mappings and continuous bindings of one mode".into(),
        mime: "application/json".into(),
        toolset: TOOLSET.into(),
        tool: "conductor_get_mappings".into(),
        arguments: Arc::new(|variables| json!({ "mode": variables.get("mode").cloned().unwrap_or_default() })),
        complete: BTreeMap::from([("mode", modes(owner))]),
    })
}

pub fn add_prompts(catalog: &mut Catalog, owner: &OwnerHandle) -> Result<(), CatalogError> {
    catalog.add_prompt(Prompt {
        name: "map_control".into(),
        title: "Map a control".into(),
        description: "Put something useful under a pad, key or knob".into(),
        toolset: TOOLSET.into(),
        arguments: vec![
            Argument {
                name: "device",
                description: "Alias of the controller",
                required: true,
                complete: Some(devices(owner)),
                source: Some("conductor_list_device_bindings"),
            },
            Argument { name: "control", description: "Which pad, key or knob", required: true, complete: None, source: None },
        ],
        render: Arc::new(|given| {
            let (device, control) = (word(given, "device"), word(given, "control"));
            vec![Message::text(format!(
                "I want to map the control \"{control}\" of my device \"{device}\".\n\
                 1. Call conductor_list_device_bindings and check that the device is connected; if it is not, say so and stop.\n\
                 2. If the control is not a number you know, call conductor_start_midi_learn, ask me to use the control once, then call \
                 conductor_stop_midi_learn and take its first suggestion as the trigger.\n\
                 3. Ask me what it should do, unless I have said so already.\n\
                 4. Call conductor_create_mapping. Show me the diff of the plan and tell me that I apply it in the Conductor console or \
                 terminal; you cannot.\n\
                 5. When I have applied it, call conductor_explain with the event and tell me what will happen."
            ))]
        }),
    })?;
    catalog.add_prompt(Prompt {
        name: "why_did_it_not_fire".into(),
        title: "Why did it not fire".into(),
        description: "Find out why a control did nothing".into(),
        toolset: TOOLSET.into(),
        arguments: vec![Argument {
            name: "event",
            description: "What was played, such as on:36@100",
            required: true,
            complete: None,
            source: None,
        }],
        render: Arc::new(|given| {
            let event = word(given, "event");
            vec![Message::text(format!(
                "I played {event} and nothing happened, or the wrong thing did.\n\
                 1. Call conductor_get_trace and look for the event: did it arrive, and what was its outcome?\n\
                 2. Call conductor_explain with the event: which rules looked at it, and what did each want that it did not get?\n\
                 3. Call conductor_get_status and conductor_list_device_bindings if the event did not arrive at all: is the device connected, \
                 is it muted, is the mode the one I think it is, is the newest configuration in force?\n\
                 4. Tell me the reason in one sentence. If a mapping must change, plan it with conductor_update_mapping and show me the diff."
            ))]
        }),
    })
}

fn word(given: &BTreeMap<String, String>, name: &str) -> String {
    given.get(name).cloned().unwrap_or_default()
}

fn modes(owner: &OwnerHandle) -> Completer {
    let owner = owner.clone();
    Arc::new(move |_studio, _typed| owner.serving().config.modes.iter().map(|it| it.name.clone()).collect())
}

fn devices(owner: &OwnerHandle) -> Completer {
    let owner = owner.clone();
    Arc::new(move |_studio, _typed| owner.serving().config.devices.iter().map(|it| it.alias.clone()).collect())
}
