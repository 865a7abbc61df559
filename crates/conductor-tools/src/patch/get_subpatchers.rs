//! `get_subpatchers`: lists the subpatchers of a patch.

use super::prelude::*;
use conductor_patch::{Format, Subpatcher};

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// Whether to list subpatchers inside subpatchers too.
    #[serde(default)]
    recursive: bool,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Number of subpatchers.
    count: usize,
    /// The subpatchers.
    subpatchers: Vec<Inner>,
}

#[derive(Serialize, JsonSchema)]
struct Inner {
    /// Kind: patcher, bpatcher, poly~, pfft~, gen~, jit.gen, rnbo~, pd or abstraction.
    r#type: &'static str,
    /// Scripting name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    varname: Option<String>,
    /// Name or file name of the subpatcher.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Key of the object.
    id: String,
    /// Whether the subpatcher is stored in this file.
    embedded: bool,
    /// Id of the subpatcher, if it is embedded.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_id: Option<String>,
    /// File of an abstraction, if it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<String>,
    /// Depth below the patch; 1 is directly inside.
    depth: usize,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_subpatchers", patches, run).text(
        "Subpatchers",
        "Lists the subpatchers, bpatchers and abstractions inside a patch. Embedded ones have a patch_id and can be edited like a patch.",
    )
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let Args { patch_id, recursive } = &asked.args;
    asked.look(patch_id, |scene| {
        let outer = scene.view.id().depth();
        let one = |it: Subpatcher| {
            let file = it.name.as_deref().filter(|_| it.canvas.is_none()).and_then(|name| {
                let plain = Format::of_name(name).is_none();
                let file = if plain {
                    format!("{name}.{}", scene.patch.document().format().extension())
                } else {
                    name.to_owned()
                };
                asked.patches.folders().find_near(scene.place(), &file)
            });
            Inner {
                r#type: it.kind,
                varname: it.varname,
                name: it.name,
                id: it.key,
                embedded: it.canvas.is_some(),
                patch_id: it.canvas.as_ref().and_then(|canvas| scene.id_of(canvas)),
                file_path: file.map(|(place, _)| place.path().display().to_string()),
                depth: it.within.depth() - outer + 1,
            }
        };
        let subpatchers: Vec<_> = scene.view.subpatchers(*recursive).into_iter().map(one).collect();
        Ok(Answer { count: subpatchers.len(), subpatchers })
    })
}
