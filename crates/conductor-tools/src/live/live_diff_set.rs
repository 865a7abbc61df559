//! `live_diff_set`: lists the differences between two states or two Sets.

use super::prelude::*;
use conductor_set::Diff;
use std::path::PathBuf;

/// Maximum number of changes in one answer; `count` is the total number.
const MAX_CHANGES: usize = 400;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// saved, a setId, or a path; default saved.
    #[schemars(length(min = 1))]
    against: Option<String>,
}

/// The differences between two Sets.
#[derive(Serialize, JsonSchema)]
struct Differences {
    #[serde(flatten)]
    diff: Diff,
    /// Present when changes were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_diff_set", Tier::ReadOnly, run).text(
        "Compare Sets",
        "Compares the current Set with its saved file (default), with another open Set (its setId) or with a file (its path). \
         Returns a list of edits with subject, before and after, and one line of text for each. At most 400 changes; `count` is the \
         total number.",
    )
}

async fn run(ask: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<Differences, ToolError> {
    let document = set.file().map_err(refused)?;
    let against = args.against.filter(|it| it != "saved");
    let other = ask.live.sets().into_iter().find(|it| against.as_ref() == Some(&it.id));
    let (roots, limit) = (ask.live.roots().clone(), ask.live.settings().max_xml_bytes);
    let mut diff = blocking(move || {
        let Some(against) = against else { return Ok(document.diff_to_saved()) };
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
    let truncated = (diff.count > MAX_CHANGES).then(|| {
        diff.changes.truncate(MAX_CHANGES);
        diff.text = diff.text.lines().take(MAX_CHANGES).collect::<Vec<_>>().join("\n");
        true
    });
    Ok(Differences { diff, truncated })
}
