//! `get_frontmost_patch`: returns the patch in the front window if the program reports it,
//! otherwise the patch that was used last.

use super::prelude::*;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Name of the patcher without an extension.
    display_name: String,
    /// Name of the patcher.
    patcher_name: String,
    /// Group of the patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// File or name of the patch in front in Max, if it is not open here.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_front: Option<String>,
    /// How the patch was chosen.
    basis: Basis,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Basis {
    HostWindow,
    LastUsed,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_frontmost_patch", patches, run).text(
        "Frontmost patch",
        "Returns the patch in the front window of a running Max (basis host_window). Otherwise returns the patch that was opened, created \
         or edited last (basis last_used), because documents and Pure Data have no windows to query. If the patch in front in Max is not \
         open here, host_front names it.",
    )
}

fn run(asked: &Asked<NoArgs>) -> Result<PatchAnswer<Answer>, ToolError> {
    let front = asked.patches.windows().into_iter().find_map(|(_, windows)| windows.into_iter().next());
    let root = front.as_ref().and_then(|it| it.root.clone());
    let basis = if root.is_some() { Basis::HostWindow } else { Basis::LastUsed };
    let id = root.or_else(|| asked.patches.last_used().map(|it| it.id().to_owned())).ok_or_else(|| {
        ToolError::new(Code::NotFound, "No active patches")
            .hint("Open a patch with open_patch or create one with create_patch.")
    })?;
    let elsewhere = front.filter(|it| it.root.is_none());
    let host_front = elsewhere.map(|it| it.path.map_or(it.name, |path| path.display().to_string()));
    asked.look(&id, |scene| {
        let patcher_name = scene.patcher_name();
        Ok(Answer {
            display_name: answer::display_name(&patcher_name).to_owned(),
            patcher_name,
            group: scene.open.group().map(str::to_owned),
            host_front,
            basis,
        })
    })
}
