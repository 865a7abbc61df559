//! The views: which tools a client lists. A short list leaves more of the model's context free. The
//! view is fixed when the client connects. Tools outside the view can still be called.
//!
//! Not here: toolsets, which make tools unavailable (`names`).

use super::Tool;
use conductor_core::config::ToolView;

/// The tools that find and call the tools outside a view.
const FIND_AND_CALL: [&str; 2] = ["conductor_find_tools", "conductor_call_tool"];

const CORE: [&str; 22] = [
    "conductor_create_mapping",
    "conductor_explain",
    "conductor_get_mappings",
    "conductor_get_status",
    "conductor_list_devices",
    "conductor_list_modes",
    "conductor_panic",
    "conductor_plan_changes",
    "conductor_send_midi",
    "conductor_simulate",
    "conductor_start_midi_learn",
    "conductor_stop_midi_learn",
    "conductor_switch_mode",
    "edit_patch",
    "list_active_patches",
    "live_fire_scene",
    "live_get_notes",
    "live_get_song_overview",
    "live_set_notes",
    "live_set_param",
    "open_patch",
    "render_patch",
];

const STAGE: [&str; 6] = [
    "conductor_explain",
    "conductor_get_status",
    "conductor_get_trace",
    "conductor_list_modes",
    "conductor_panic",
    "conductor_switch_mode",
];

/// The tools that the five original specification documents of the product name.
const SEED: [&str; 47] = [
    "add_max_object",
    "assign_varnames",
    "conductor_create_device_identity",
    "conductor_create_mapping",
    "conductor_delete_mapping",
    "conductor_get_config",
    "conductor_get_mappings",
    "conductor_get_status",
    "conductor_list_device_bindings",
    "conductor_list_devices",
    "conductor_list_modes",
    "conductor_scan_ports",
    "conductor_send_midi",
    "conductor_send_sysex",
    "conductor_set_device_enabled",
    "conductor_start_midi_learn",
    "conductor_stop_midi_learn",
    "conductor_switch_mode",
    "conductor_update_mapping",
    "conductor_validate_config",
    "connect_max_objects",
    "disconnect_max_objects",
    "filesystem.read",
    "get_avoid_rect_position",
    "get_console_log",
    "get_frontmost_patch",
    "get_object_hidden",
    "get_object_io_info",
    "get_objects_in_patch",
    "get_parent_patcher",
    "get_patch_dirty",
    "get_patch_info",
    "get_patch_lock_state",
    "get_patchlines",
    "get_subpatchers",
    "list_active_patches",
    "live_find_track",
    "live_get_notes",
    "live_get_song_overview",
    "live_set_track_props",
    "redraw_object",
    "remove_max_object",
    "replace_object_text",
    "set_object_attribute",
    "set_object_hidden",
    "set_patch_lock_state",
    "set_patchline_midpoints",
];

/// Whether clients with this view list the tool.
pub fn lists(view: ToolView, tool: &Tool) -> bool {
    let name = tool.name.as_ref();
    match view {
        ToolView::Core => CORE.contains(&name) || FIND_AND_CALL.contains(&name),
        ToolView::Live => tool.toolset == "live" || FIND_AND_CALL.contains(&name),
        ToolView::Patch => tool.toolset == "patch" || FIND_AND_CALL.contains(&name),
        ToolView::Stage => STAGE.contains(&name) || FIND_AND_CALL.contains(&name),
        ToolView::Seed => SEED.contains(&name),
        ToolView::All => true,
    }
}

/// The description of a tool in the list of all tools: complete for the tools of the view `core`,
/// the first sentence for the others. conductor_find_tools returns the rest.
pub fn brief(tool: &Tool) -> &str {
    let description = tool.description.as_ref();
    if lists(ToolView::Core, tool) {
        return description;
    }
    description.find(". ").and_then(|end| description.get(..=end)).unwrap_or(description)
}

/// All names in the lists above, so that a test can compare them with the catalog.
pub fn names() -> impl Iterator<Item = &'static str> {
    CORE.into_iter().chain(STAGE).chain(SEED).chain(FIND_AND_CALL)
}
