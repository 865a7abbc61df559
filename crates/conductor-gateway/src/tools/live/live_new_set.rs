//! `live_new_set`: creates a file from a given or the built-in template.

use super::prelude::*;
use super::{HOST, overview};
use std::path::PathBuf;

const UNTESTED: &str = "created from the built-in template, which has not been tested in a running Live; a template saved by Live is safer";

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
        "Creates a new .als file and opens it as your current Set: a copy of `template`, or by default a Set with one MIDI and one audio \
         track, two returns, eight scenes and 120 BPM. Refuses a path that exists.",
    )
    .input(schema::object(json!({
        "path": schema::id("Path of the new file; ends in .als; absolute, or relative to the home's sets folder"),
        "template?": schema::id("Path of a .als file to copy"),
    })))
    .output(schema::overview())
}
