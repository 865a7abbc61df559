//! `list_object_types`: classes that are known.

use super::prelude::*;
use conductor_patch::{Format, objects};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("list_object_types", patches, run)
        .text("Object classes", "Lists the known classes of Max or Pure Data with their inlets and outlets.")
        .input(input(json!({ "host": "family", "query": "long", "family": "name", "offset": "offset", "limit": "limit" })))
        .output(plain(json!({ "types": [{ "class": "text", "family": "text", "inlets": "count", "outlets": "count" }], "count": "int", "total": "int", "next_offset?": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let format = if arguments.text("host") == Some("pd") { Format::Pd } else { Format::Maxpat };
    let found = objects::table(format).search(arguments.text("query").unwrap_or_default(), arguments.text("family"));
    let all = found
        .iter()
        .map(|it| json!({ "class": it.name, "family": it.family, "inlets": it.inlets, "outlets": it.outlets }));
    let (types, next) = answer::page(all, arguments.count("offset", 0), arguments.count("limit", 2000));
    Ok(Output::new(answer::object(
        json!({ "count": types.len(), "types": types, "total": found.len(), "next_offset": next }),
    )))
}
