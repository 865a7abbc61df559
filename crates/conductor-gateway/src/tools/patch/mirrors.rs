//! Resources and prompts of patches. A resource mirrors a read tool; a prompt is text for the
//! model.

use super::TOOLSET;
use crate::tools::catalog::{Catalog, CatalogError};
use crate::tools::prompt::{Argument, Message, Prompt};
use crate::tools::resource::{Completer, Resource};
use conductor_hosts::patch::Patches;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn add_resources(catalog: &mut Catalog, patches: &Arc<Patches>) -> Result<(), CatalogError> {
    let entry = |uri: &'static str, name: &'static str, description: &'static str, tool: &'static str| Resource {
        uri: uri.into(),
        name: name.into(),
        title: name.into(),
        description: description.into(),
        mime: "application/json".into(),
        toolset: TOOLSET.into(),
        tool: tool.into(),
        arguments: Arc::new(|variables| match variables.get("id") {
            Some(id) => json!({ "patch_id": id }),
            None => json!({}),
        }),
        complete: if uri.contains("{id}") { BTreeMap::from([("id", ids(patches))]) } else { BTreeMap::new() },
    };
    catalog.add_resource(entry(
        "patch://console",
        "console",
        "The newest lines that hosts had to say",
        "get_console_log",
    ))?;
    catalog.add_resource(entry("patch://{id}", "patch", "What a patch is", "get_patch_info"))?;
    let objects = "The first page of a patch's objects";
    catalog.add_resource(entry("patch://{id}/objects", "objects", objects, "get_objects_in_patch"))
}

pub fn add_prompts(catalog: &mut Catalog, patches: &Arc<Patches>) -> Result<(), CatalogError> {
    let patch = || Argument {
        name: "patch_id",
        description: "As in list_active_patches",
        required: true,
        complete: Some(ids(patches)),
        source: Some("list_active_patches"),
    };
    catalog.add_prompt(Prompt {
        name: "build_patch".into(),
        title: "Build a patch".into(),
        description: "Build a patch from a goal, and look at it".into(),
        toolset: TOOLSET.into(),
        arguments: vec![
            Argument { name: "goal", description: "What the patch shall do", required: true, complete: None, source: None },
            Argument {
                name: "format",
                description: "maxpat or pd",
                required: false,
                complete: Some(Arc::new(|_, _| vec!["maxpat".to_owned(), "pd".to_owned()])),
                source: Some("list_active_patches"),
            },
        ],
        render: Arc::new(|given| {
            let goal = word(given, "goal");
            let format = given.get("format").map_or("maxpat", String::as_str);
            vec![Message::text(format!(
                "Build a patch that does this: {goal}\n\
                 1. Call create_patch with format \"{format}\".\n\
                 2. Check every class you want with describe_object before you use it: its inlets, outlets and arguments.\n\
                 3. Make all objects and cords in one edit_patch call with dry_run, read the diff, then make it without dry_run and with \
                 expected_revision. Sound must pass through a gain of at most 0.2 before it reaches the output.\n\
                 4. Call validate_layout and mend what it finds with move items.\n\
                 5. Call render_patch and look at the picture. Tell me in a few words what you built and ask whether to save it."
            ))]
        }),
    })?;
    catalog.add_prompt(Prompt {
        name: "explain_patch".into(),
        title: "Explain a patch".into(),
        description: "Say what a patch does".into(),
        toolset: TOOLSET.into(),
        arguments: vec![patch()],
        render: Arc::new(|given| {
            let id = word(given, "patch_id");
            vec![Message::text(format!(
                "Explain the patch \"{id}\" to me.\n\
                 1. Call get_patch_info, then get_objects_in_patch and get_patchlines; for each embedded subpatcher of get_subpatchers do \
                 the same with its patch_id.\n\
                 2. Call render_patch and look at the picture.\n\
                 3. Follow the cords from what a person plays to what is heard or sent. Say what the patch does in one sentence, then its \
                 parts in order, with the names of the objects.\n\
                 4. Name what looks broken: unconnected objects (find_objects with unconnected), dangling cords, unknown classes. Change \
                 nothing."
            ))]
        }),
    })?;
    catalog.add_prompt(Prompt {
        name: "tidy_patch".into(),
        title: "Tidy a patch".into(),
        description: "Lay a patch out so that it can be read".into(),
        toolset: TOOLSET.into(),
        arguments: vec![patch()],
        render: Arc::new(|given| {
            let id = word(given, "patch_id");
            vec![Message::text(format!(
                "Tidy the layout of the patch \"{id}\" without changing what it does.\n\
                 1. Call validate_layout and render_patch.\n\
                 2. Plan moves only: cords run downwards, nothing overlaps, columns are aligned (align_objects and suggest_alignment propose \
                 places). Keep groups that belong together.\n\
                 3. Make the moves in one edit_patch call, first with dry_run, then with expected_revision.\n\
                 4. Call validate_layout again and show me the picture of render_patch. undo_patch takes it back if I do not like it."
            ))]
        }),
    })
}

fn word(given: &BTreeMap<String, String>, name: &str) -> String {
    given.get(name).cloned().unwrap_or_default()
}

fn ids(patches: &Arc<Patches>) -> Completer {
    let patches = Arc::clone(patches);
    Arc::new(move |_studio, _typed| patches.ids())
}
