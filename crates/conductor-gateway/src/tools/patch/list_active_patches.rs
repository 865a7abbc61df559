//! `list_active_patches`: every open patch.

use super::prelude::*;

const LISTED: [&str; 9] =
    ["patch_id", "display_name", "patcher_name", "group", "host", "file_path", "dirty", "revision", "object_count"];

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("list_active_patches", patches, run)
        .text(
            "List open patches",
            "Lists every open patch with its id, which all other patch tools need. host_windows lists patches that the person has open in a \
             running Max but that are not open here. They have no id; open one with open_patch, its file_path and host max.",
        )
        .input(input(json!({ "group": "name" })))
        .output(plain(json!({
            "patches": [{ "patch_id": "text", "display_name": "text", "patcher_name": "text", "group?": "text", "host": "text",
                "file_path?": "text", "dirty": "bool", "revision": "int", "object_count": "int" }],
            "count": "int", "filter?": "text",
            "host_windows?": [{ "host": "text", "patcher_name": "text", "file_path?": "text" }],
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let group = asked.arguments().text("group");
    let open = asked.patches.list();
    let chosen = open.iter().filter(|it| group.is_none_or(|group| it.group() == Some(group)));
    let mut patches = Vec::new();
    for open in chosen {
        // Skip a patch that was closed after the list was made.
        let info = asked.patches.look(open.id(), |scene| {
            let mut info = answer::info(scene);
            info.retain(|name, _| LISTED.contains(&name.as_str()));
            Ok(info)
        });
        patches.extend(info.ok());
    }
    let count = patches.len();
    let mut windows = Vec::new();
    for (host, shown) in asked.patches.windows() {
        windows.extend(
            shown.into_iter().filter(|it| it.root.is_none()).map(|it| {
                answer::object(json!({ "host": host.as_str(), "patcher_name": it.name, "file_path": it.path }))
            }),
        );
    }
    let windows = (!windows.is_empty()).then_some(windows);
    let members = json!({ "patches": patches, "count": count, "filter": group, "host_windows": windows });
    Ok(Output::new(answer::object(members)))
}
