//! `find_objects`: searches a patch.

use super::answer::Detail;
use super::arguments::given;
use super::prelude::*;
use conductor_patch::Query;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("find_objects", patches, run)
        .text("Find objects", "Finds objects that match all given conditions, including those inside subpatchers.")
        .input(input(json!({
            "patch_id*": "id", "text": "long", "class": "name", "varname": "long", "attribute": "name", "value": "value",
            "unconnected": "bool", "recursive": { "type": "boolean", "default": true },
            "limit": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 },
        })))
        .output(body(json!({ "matches": [object()], "count": "int", "truncated": "bool" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let arguments = asked.arguments();
        let word = |name: &str| arguments.text(name).map(str::to_owned);
        let query = Query {
            text: word("text"),
            class: word("class"),
            varname: word("varname"),
            attribute: word("attribute"),
            value: arguments.get("value").map(|it| given(it, "value")).transpose()?,
            unconnected: arguments.get("unconnected").and_then(Value::as_bool),
        };
        let recursive = arguments.get("recursive").and_then(Value::as_bool).unwrap_or(true);
        let (found, more) = conductor_patch::find(&scene.view, &query, recursive, arguments.count("limit", 100));
        let all = found.iter().map(|it| {
            let mut members = answer::box_of(scene, it, it.index(), Detail::Full);
            members["patch_id"] = json!(scene.id_of(it.canvas().id()));
            members
        });
        let (matches, cut) = answer::page(all, 0, usize::MAX);
        Ok(json!({ "count": matches.len(), "matches": matches, "truncated": more || cut.is_some() }))
    })
}
