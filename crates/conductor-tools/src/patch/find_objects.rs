//! `find_objects`: searches a patch.

use super::answer::{Detail, Object};
use super::argument::{AttributeValue, LongText};
use super::prelude::*;
use conductor_patch::Query;

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// Part of the text; case is ignored.
    text: Option<LongText>,
    /// Class; an alias matches its class.
    class: Option<Name>,
    /// Part of the scripting name; case is ignored.
    varname: Option<LongText>,
    /// Name of an attribute that must be set.
    attribute: Option<Name>,
    /// Value of `attribute`; without `attribute`, the value of any attribute.
    value: Option<AttributeValue>,
    /// If true, only objects without cords; if false, only objects with cords.
    unconnected: Option<bool>,
    /// Whether to search inside subpatchers too.
    #[serde(default = "recursive")]
    recursive: bool,
    /// Maximum number of matches.
    #[serde(default = "argument::count::<100>")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
}

fn recursive() -> bool {
    true
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Number of matches.
    count: usize,
    /// The objects.
    matches: Vec<Object>,
    /// Whether there are more matches.
    truncated: bool,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("find_objects", patches, run)
        .text("Find objects", "Finds objects that match all given conditions, including those inside subpatchers.")
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let it = &asked.args;
    asked.look(&it.patch_id, |scene| {
        let query = Query {
            text: it.text.as_deref().map(str::to_owned),
            class: it.class.as_deref().map(str::to_owned),
            varname: it.varname.as_deref().map(str::to_owned),
            attribute: it.attribute.as_deref().map(str::to_owned),
            value: it.value.as_ref().map(Into::into),
            unconnected: it.unconnected,
        };
        let (found, more) = conductor_patch::find(&scene.view, &query, it.recursive, it.limit);
        let all = found
            .iter()
            .map(|it| Object::new(scene, it, it.index(), Detail::Full).inside(scene.id_of(it.canvas().id())));
        let (matches, cut) = answer::page(all, 0, usize::MAX);
        Ok(Answer { count: matches.len(), matches, truncated: more || cut.is_some() })
    })
}
