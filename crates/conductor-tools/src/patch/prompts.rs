//! Prompts for patches: texts for the model.

use super::TOOLSET;
use super::resources::ids;
use conductor_gateway::catalog::prompt::{Argument, Prompt};
use conductor_gateway::catalog::resource::{Variables, variable};
use conductor_gateway::catalog::{Catalog, CatalogError};
use conductor_hosts::patch::Patches;
use std::sync::Arc;

pub fn add(catalog: &mut Catalog, patches: &Arc<Patches>) -> Result<(), CatalogError> {
    let patch = || {
        Argument::required("patch_id", "As in list_active_patches").completed(ids(patches), Some("list_active_patches"))
    };
    catalog.add_prompt(Prompt::new(
        TOOLSET,
        "build_patch",
        ("Build a patch", "Build a patch from a goal, and check its picture"),
        vec![
            Argument::required("goal", "What the patch should do"),
            Argument::optional("format", "maxpat or pd")
                .completed(Arc::new(|_, _| vec!["maxpat".to_owned(), "pd".to_owned()]), Some("list_active_patches")),
        ],
        build_patch,
    ))?;
    catalog.add_prompt(Prompt::new(
        TOOLSET,
        "explain_patch",
        ("Explain a patch", "Explain what a patch does"),
        vec![patch()],
        explain_patch,
    ))?;
    catalog.add_prompt(Prompt::new(
        TOOLSET,
        "tidy_patch",
        ("Tidy a patch", "Make the layout of a patch readable"),
        vec![patch()],
        tidy_patch,
    ))
}

fn build_patch(given: &Variables) -> String {
    let goal = variable(given, "goal");
    let format = given.get("format").map_or("maxpat", String::as_str);
    format!(
        "Build a patch that does this: {goal}\n\
         1. Call create_patch with format \"{format}\".\n\
         2. Check every class you want with describe_object before you use it: its inlets, outlets and arguments.\n\
         3. Make all objects and cords in one edit_patch call with dry_run, read the diff, then make it without dry_run and with \
         expected_revision. Sound must pass through a gain of at most 0.2 before it reaches the output.\n\
         4. Call validate_layout and fix the problems it finds with move items.\n\
         5. Call render_patch and look at the picture. Tell me in a few words what you built and ask whether to save it."
    )
}

fn explain_patch(given: &Variables) -> String {
    let id = variable(given, "patch_id");
    format!(
        "Explain the patch \"{id}\" to me.\n\
         1. Call get_patch_info, then get_objects_in_patch and get_patchlines; for each embedded subpatcher of get_subpatchers do \
         the same with its patch_id.\n\
         2. Call render_patch and look at the picture.\n\
         3. Follow the cords from what a person plays to what is heard or sent. Say what the patch does in one sentence, then its \
         parts in order, with the names of the objects.\n\
         4. Name what looks broken: unconnected objects (find_objects with unconnected), dangling cords, unknown classes. Change \
         nothing."
    )
}

fn tidy_patch(given: &Variables) -> String {
    let id = variable(given, "patch_id");
    format!(
        "Tidy the layout of the patch \"{id}\" without changing what it does.\n\
         1. Call validate_layout and render_patch.\n\
         2. Plan moves only: cords run downwards, nothing overlaps, columns are aligned (align_objects and suggest_alignment propose \
         places). Keep groups that belong together.\n\
         3. Make the moves in one edit_patch call, first with dry_run, then with expected_revision.\n\
         4. Call validate_layout again and show me the picture of render_patch. undo_patch undoes the moves if I do not like them."
    )
}
