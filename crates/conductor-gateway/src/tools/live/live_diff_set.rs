//! `live_diff_set`: what differs between two states or two Sets.

use super::prelude::*;
use super::to_object;
use std::path::PathBuf;

/// Most changes in one answer; `count` has the total.
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
        "What the current Set has that differs from its saved file (default), from another open Set (its setId) or from a file (its path), as a \
         list of edits with subject, before and after, and as one line of text each. At most 400 changes; count tells how many there are.",
    )
    .input(schema::look(json!({ "against?": schema::id("saved, a setId, or a path; default saved") })))
    .output({
        let mut members = schema::diff_members();
        members["truncated?"] = schema::boolean();
        schema::object(members)
    })
}
