//! Prompts for the studio: texts for the model.

use super::TOOLSET;
use conductor_gateway::catalog::prompt::{Argument, Prompt};
use conductor_gateway::catalog::resource::{Completer, Variables, variable};
use conductor_gateway::catalog::{Catalog, CatalogError};
use conductor_gateway::owner_handle::OwnerHandle;
use std::sync::Arc;

pub fn add_prompts(catalog: &mut Catalog, owner: &OwnerHandle) -> Result<(), CatalogError> {
    catalog.add_prompt(Prompt::new(
        TOOLSET,
        "map_control",
        ("Map a control", "Assign an action to a pad, key or knob"),
        vec![
            Argument::required("device", "Alias of the controller")
                .completed(devices(owner), Some("conductor_list_device_bindings")),
            Argument::required("control", "The pad, key or knob"),
        ],
        map_control,
    ))?;
    catalog.add_prompt(Prompt::new(
        TOOLSET,
        "why_did_it_not_fire",
        ("Why did it not fire", "Find out why a control did nothing"),
        vec![Argument::required("event", "The event that was played, such as on:36@100")],
        why_did_it_not_fire,
    ))
}

fn map_control(given: &Variables) -> String {
    let (device, control) = (variable(given, "device"), variable(given, "control"));
    format!(
        "I want to map the control \"{control}\" of my device \"{device}\".\n\
         1. Call conductor_list_device_bindings and check that the device is connected; if it is not, say so and stop.\n\
         2. If the control is not a number you know, call conductor_start_midi_learn, ask me to use the control once, then call \
         conductor_stop_midi_learn and use its first suggestion as the trigger.\n\
         3. Ask me what it should do, unless I have said so already.\n\
         4. Call conductor_create_mapping. Show me the diff of the plan and tell me that I apply it in the Conductor console or \
         terminal; you cannot.\n\
         5. When I have applied it, call conductor_explain with the event and tell me what will happen."
    )
}

fn why_did_it_not_fire(given: &Variables) -> String {
    let event = variable(given, "event");
    format!(
        "I played {event} and nothing happened, or the wrong thing did.\n\
         1. Call conductor_get_trace and look for the event: did it arrive, and what was its outcome?\n\
         2. Call conductor_explain with the event: which rules use this control, and which condition of each rule did not match?\n\
         3. Call conductor_get_status and conductor_list_device_bindings if the event did not arrive at all: is the device connected, \
         is it muted, is the mode the one I think it is, is the newest configuration in force?\n\
         4. Tell me the reason in one sentence. If a mapping must change, plan it with conductor_update_mapping and show me the diff."
    )
}

fn devices(owner: &OwnerHandle) -> Completer {
    let owner = owner.clone();
    Arc::new(move |_studio, _typed| owner.serving().config.devices.iter().map(|it| it.alias.clone()).collect())
}
