//! `live_new_set`: a new file from a template or the built-in skeleton.

use super::prelude::*;
use super::{HOST, overview};
use std::path::PathBuf;

const UNTESTED: &str =
    "made from the built-in skeleton, which has not been tested in a running Live; a template saved by Live is safer";

pub fn definition(live: &Arc<Live>) -> Definition {
    on_files(live, "live_new_set", |mut ask| async move {
        let (path, template): (PathBuf, Option<PathBuf>) = (ask.need("path")?, ask.take("template")?);
        let skeleton = template.is_none() && ask.live.settings().template_set.is_none();
        let set = ask.live.create(&ask.key, &path, template.as_deref()).await.map_err(refused)?;
        ask.studio.events.uri_changed("ableton://sets");
        ask.studio.circuits.reset_host(&ask.studio.catalog(), HOST);
        let mut value = overview(&set).await?;
        if skeleton {
            let mut warnings: Vec<Value> = value.get("warnings").and_then(Value::as_array).cloned().unwrap_or_default();
            warnings.push(Value::from(UNTESTED));
            value.insert("warnings".into(), Value::Array(warnings));
        }
        Ok(Output::new(Value::Object(value)))
    })
    .text(
        "New Set",
        "Makes a new .als file and opens it as your current Set: a copy of the template, else a Set with one MIDI and one audio track, two \
         returns, eight scenes and 120 BPM. Refuses a file that exists.",
    )
    .input(schema::object(json!({
        "path": schema::id("Path of the new file; ends in .als; absolute, or relative to the home's sets folder"),
        "template?": schema::id("A .als file to copy"),
    })))
    .output(schema::overview())
}
