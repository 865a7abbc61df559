//! `live_diff_set`: the differences between two states or two Sets.

use super::prelude::*;
use super::to_object;
use std::path::PathBuf;

/// Maximum number of changes in one answer; `count` is the total number.
const MAX_CHANGES: usize = 400;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_diff_set", |mut ask, set| async move {
        let document = set.file().map_err(refused)?;
        let against: String = ask.take("against")?.unwrap_or_else(|| "saved".into());
        let other = ask.live.sets().into_iter().find(|it| it.id == against);
        let (roots, limit) = (ask.live.roots().clone(), ask.live.settings().max_xml_bytes);
        let found = blocking(move || {
            if against == "saved" {
                return Ok(document.diff_to_saved());
            }
            let old = match other {
                Some(other) => other.file()?.snapshot(),
                None => {
                    let (als, _) = roots.find(&PathBuf::from(&against))?.read(limit)?;
                    conductor_set::Document::open(&als, limit)?
                }
            };
            Ok(conductor_set::diff(&old, &document.snapshot()))
        })
        .await
        .map_err(refused)?;
        let mut value = to_object(&found)?;
        if found.count > MAX_CHANGES {
            if let Some(Value::Array(changes)) = value.get_mut("changes") {
                changes.truncate(MAX_CHANGES);
            }
            let lines: Vec<&str> = found.text.lines().take(MAX_CHANGES).collect();
            value.insert("text".into(), Value::from(lines.join("\n")));
            value.insert("truncated".into(), Value::Bool(true));
        }
        Ok(Output::new(Value::Object(value)))
    })
    .text(
        "Compare Sets",
        "Compares the current Set with its saved file (default), with another open Set (its setId) or with a file (its path). Returns a list \
         of edits with subject, before and after, and one line of text for each. At most 400 changes; `count` is the total number.",
    )
    .input(schema::look(json!({ "against?": schema::id("saved, a setId, or a path; default saved") })))
    .output({
        let mut members = schema::diff_members();
        members["truncated?"] = schema::boolean();
        schema::object(members)
    })
}
