//! Requests on the human door about plugins. Enabling a plugin pins the file's bytes and the
//! manifest that the person was shown.

use super::{Caller, Control, call};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_gateway::pipeline::Call;
use conductor_gateway::plugins;
use conductor_hosts::plugin::Limits;
use conductor_hosts::plugin::manifest::is_name;
use conductor_hosts::plugin::process::Launch;
use serde_json::{Map, Value, json};

/// Loads a file of the plugin folder in the sandbox and returns its manifest. Enables nothing.
pub async fn check(control: &Control, file: &str) -> Result<Value, ToolError> {
    let plugins = &control.gateway.plugins;
    let subject = || Subject::Other(file.to_owned());
    let missing = || ToolError::new(Code::NotFound, format!("there is no plugins/{file}")).subject(subject());
    // Accept only a file name, never a path. The configuration reader refuses paths too.
    if file.contains(['/', '\\', '\0']) || file.starts_with('.') {
        return Err(missing());
    }
    let source = std::fs::read(plugins.folder().join(file)).map_err(|_| missing())?;
    let launch =
        Launch { program: plugins.program(), limits: Limits::default(), file: file.to_owned(), source: source.into() };
    let manifest = plugins::look(&launch).await.map_err(|faults| {
        ToolError::new(Code::BadInput, format!("plugins/{file}: {}", faults.join("; "))).subject(subject())
    })?;
    let row = control.handle.serving().config.plugins.get(&manifest.name).cloned();
    plugins.show(&manifest);
    Ok(manifest.shown(row.as_ref()))
}

pub async fn enable(
    control: &Control,
    caller: Caller,
    name: &str,
    file: &str,
    pin: Digest,
    mut row: Map<String, Value>,
) -> Result<Value, ToolError> {
    if !is_name(name) {
        return Err(ToolError::new(Code::BadInput, format!("{name:?} is not a valid plugin name")));
    }
    row.insert("enabled".into(), json!(true));
    row.insert("file".into(), json!(file));
    row.insert("pin".into(), json!(pin));
    set(control, caller, name, row).await
}

pub async fn disable(control: &Control, caller: Caller, name: String) -> Result<Value, ToolError> {
    if !control.handle.serving().config.plugins.contains_key(&name) {
        return Err(ToolError::new(Code::NotFound, format!("there is no [plugins.{name}] in config.toml"))
            .subject(Subject::Other(name))
            .hint("`conductor plugins list` shows the plugins."));
    }
    set(control, caller, &name, Map::from_iter([("enabled".to_owned(), json!(false))])).await
}

/// Writes the row and waits until it is in force, so that the answer shows the new state.
async fn set(control: &Control, caller: Caller, name: &str, row: Map<String, Value>) -> Result<Value, ToolError> {
    let set = Call::new(control.person(caller)?, "plugin.set", json!({ "name": name, "row": row }));
    call::run(control, set).await?;
    // The owner answers in order, so this returns after the reload that the change caused.
    control.handle.status().await?;
    let plugins = &control.gateway.plugins;
    plugins.set_rows(&control.handle.serving().config.plugins);
    plugins.look().await;
    let report = plugins.reports().into_iter().find(|it| it.name == name);
    report.map(|it| json!(it)).ok_or_else(|| ToolError::new(Code::Internal, format!("plugin {name} is unknown")))
}
