//! `create_patch`: makes an empty patch.

use super::answer::Opened;
use super::argument::{FilePath, Host, Opening};
use super::prelude::*;
use conductor_patch::Format;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Format of the file. On host pd the default is pd.
    #[schemars(extend("default" = "maxpat"))]
    format: Option<NewFormat>,
    path: Option<FilePath>,
    /// Name of a patch without a file.
    name: Option<Name>,
    #[serde(flatten)]
    opening: Opening,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum NewFormat {
    Maxpat,
    Maxhelp,
    Pd,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    change("create_patch", patches, run).text(
        "New patch",
        "Creates an empty patch. Nothing is written until save_patch, which uses `path` if it is given here.",
    )
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Opened>, ToolError> {
    let Args { format, path, name, opening } = &asked.args;
    let format = match (format, opening.host) {
        (Some(NewFormat::Pd), _) | (None, Host::Pd) => Format::Pd,
        (Some(NewFormat::Maxhelp), _) => Format::Maxhelp,
        (Some(NewFormat::Maxpat), _) | (None, Host::Document | Host::Max) => Format::Maxpat,
    };
    let (host, naming) = (opening.host.into(), opening.naming());
    let open = asked.patches.create(format, path.as_deref(), name.as_deref(), host, naming)?;
    asked.look(open.id(), |scene| Ok(Opened::new(scene)))
}
