//! `list_active_patches`: lists every open patch.

use super::answer::Listed;
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Only patches of exactly this group.
    group: Option<Name>,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The open patches.
    patches: Vec<PatchAnswer<Listed>>,
    /// Number of patches.
    count: usize,
    /// The requested group.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    /// Patches that are open in a running program only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    host_windows: Vec<Window>,
}

#[derive(Serialize, JsonSchema)]
struct Window {
    /// The program: pd or max.
    host: &'static str,
    /// Name of the patcher.
    patcher_name: String,
    /// File of the patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<String>,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("list_active_patches", patches, run).text(
        "List open patches",
        "Lists every open patch with its id, which all other patch tools need. host_windows lists patches that the person has open in a \
         running Max but that are not open here. They have no id; open one with open_patch, its file_path and host max.",
    )
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let group = asked.args.group.as_deref();
    let open = asked.patches.list();
    let chosen = open.iter().filter(|it| group.is_none_or(|group| it.group() == Some(group)));
    // Skip a patch that was closed since the list was made.
    let listed = chosen.filter_map(|it| asked.look(it.id(), |scene| Ok(Listed::new(scene))).ok());
    let patches: Vec<_> = listed.collect();
    let mut host_windows = Vec::new();
    for (host, shown) in asked.patches.windows() {
        host_windows.extend(shown.into_iter().filter(|it| it.root.is_none()).map(|it| Window {
            host: host.as_str(),
            patcher_name: it.name,
            file_path: it.path.map(|path| path.display().to_string()),
        }));
    }
    Ok(Answer { count: patches.len(), patches, filter: group.map(str::to_owned), host_windows })
}
