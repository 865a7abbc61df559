//! `get_frontmost_patch`: the patch in the front window if the program reports it, otherwise the
//! patch that was used last.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_frontmost_patch", patches, run)
        .text(
            "Frontmost patch",
            "Returns the patch in the front window of a running Max (basis host_window). Otherwise returns the patch that was opened, created \
             or edited last (basis last_used), because documents and Pure Data have no windows to query. If the patch in front in Max is not \
             open here, host_front names it.",
        )
        .input(input(json!({})))
        .output(body(json!({ "display_name": "text", "patcher_name": "text", "group?": "text", "host_front?": "text", "basis": { "enum": ["host_window", "last_used"] } })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let front = asked.patches.windows().into_iter().find_map(|(_, windows)| windows.into_iter().next());
    let root = front.as_ref().and_then(|it| it.root.clone());
    let basis = if root.is_some() { "host_window" } else { "last_used" };
    let id = root.or_else(|| asked.patches.last_used().map(|it| it.id().to_owned())).ok_or_else(|| {
        ToolError::new(Code::NotFound, "No active patches")
            .hint("Open a patch with open_patch or create one with create_patch.")
    })?;
    let elsewhere = front.filter(|it| it.root.is_none());
    let elsewhere = elsewhere.map(|it| it.path.map_or(it.name, |path| path.display().to_string()));
    asked.patches.look(&id, |scene| {
        let name = scene.patcher_name();
        let members = answer::object(json!({
            "display_name": answer::display_name(&name), "patcher_name": name, "group": scene.open.group(),
            "host_front": elsewhere, "basis": basis,
        }));
        Ok(Output::new(answer::of(scene, members)))
    })
}
