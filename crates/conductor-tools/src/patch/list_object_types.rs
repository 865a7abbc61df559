//! `list_object_types`: lists the known classes.

use super::argument::{LongText, Page, Program};
use super::prelude::*;
use conductor_patch::objects;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(default)]
    host: Program,
    /// Part of the name; case is ignored.
    query: Option<LongText>,
    /// Only classes of this family, such as msp or signal.
    family: Option<Name>,
    #[serde(flatten)]
    page: Page,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Number of classes in this page.
    count: usize,
    /// The classes.
    types: Vec<Class>,
    /// Number of classes that match.
    total: usize,
    /// Offset of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Class {
    /// Name of the class.
    class: &'static str,
    /// Family of the class.
    family: &'static str,
    /// Number of inlets without arguments; null if it is unknown.
    inlets: Option<u32>,
    /// Number of outlets without arguments; null if it is unknown.
    outlets: Option<u32>,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("list_object_types", patches, run)
        .text("Object classes", "Lists the known classes of Max or Pure Data with their inlets and outlets.")
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let Args { host, query, family, page } = &asked.args;
    let found = objects::table((*host).into()).search(query.as_deref().unwrap_or_default(), family.as_deref());
    let all =
        found.iter().map(|it| Class { class: it.name, family: it.family, inlets: it.inlets, outlets: it.outlets });
    let (types, next_offset) = answer::page(all, page.offset, page.limit);
    Ok(Answer { count: types.len(), types, total: found.len(), next_offset })
}
