//! Methods of the human door about plugins. Enabling writes what a person was shown: the pin says
//! which bytes and which words.

use super::methods::{read, refuse};
use super::{Caller, Control, decisions};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::principal::Principal;
use conductor_gateway::pipeline::Call;
use conductor_gateway::tools::plugins;
use conductor_hosts::plugin::Limits;
use conductor_hosts::plugin::manifest::is_name;
use conductor_hosts::plugin::process::Launch;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfFile {
    file: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfName {
    name: String,
}

/// What is left out stays as the row has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Enable {
    name: String,
    file: String,
    pin: Digest,
    #[serde(default)]
    row: Map<String, Value>,
}

pub fn list(control: &Control, params: Value) -> Result<Value, ToolError> {
    let Nothing {} = read(params)?;
    let plugins = &control.gateway.plugins;
    Ok(json!({ "folder": plugins.folder(), "plugins": plugins.reports() }))
}

/// Loads a file of the folder in the sandbox and tells what it says about itself. Enables nothing.
pub async fn check(control: &Control, params: Value) -> Result<Value, ToolError> {
    let OfFile { file } = read(params)?;
    let plugins = &control.gateway.plugins;
    // A name of the folder and nothing else; the row's reader refuses the rest too.
    let missing =
        || ToolError::new(Code::NotFound, format!("there is no plugins/{file}")).subject(Subject::Other(file.clone()));
    if file.contains(['/', '\\', '\0']) || file.starts_with('.') {
        return Err(missing());
    }
    let source = std::fs::read(plugins.folder().join(&file)).map_err(|_| missing())?;
    let launch =
        Launch { program: plugins.program(), limits: Limits::default(), file: file.clone(), source: source.into() };
    let manifest = plugins::look(&launch).await.map_err(|faults| {
        ToolError::new(Code::BadInput, format!("plugins/{file}: {}", faults.join("; ")))
            .subject(Subject::Other(file.clone()))
    })?;
    let row = control.handle.serving().config.plugins.get(&manifest.name).cloned();
    plugins.show(&manifest);
    Ok(manifest.shown(row.as_ref()))
}

pub async fn enable(control: &Control, caller: Caller, params: Value) -> Result<Value, ToolError> {
    let Enable { name, file, pin, mut row } = read(params)?;
    if !is_name(&name) {
        return Err(ToolError::new(Code::BadInput, format!("{name:?} is no name of a plugin")));
    }
    row.insert("enabled".into(), json!(true));
    row.insert("file".into(), json!(file));
    row.insert("pin".into(), json!(pin));
    set(control, caller, &name, row).await
}

pub async fn disable(control: &Control, caller: Caller, params: Value) -> Result<Value, ToolError> {
    let OfName { name } = read(params)?;
    if !control.handle.serving().config.plugins.contains_key(&name) {
        return Err(ToolError::new(Code::NotFound, format!("there is no [plugins.{name}] in config.toml"))
            .subject(Subject::Other(name))
            .hint("`conductor plugins list` has the plugins there are."));
    }
    set(control, caller, &name, Map::from_iter([("enabled".to_owned(), json!(false))])).await
}

/// Writes the row and waits until it is acted upon, so that the answer is how it is now.
async fn set(control: &Control, caller: Caller, name: &str, row: Map<String, Value>) -> Result<Value, ToolError> {
    let person = control.recognise(caller.peer).map_err(refuse)?;
    let call = Call::new(Principal::Person { uid: person.uid }, "plugin.set", json!({ "name": name, "row": row }));
    decisions::run(control, call).await?;
    // A question to the owner behind the reload is answered when it is in force.
    control.handle.status().await?;
    let plugins = &control.gateway.plugins;
    plugins.set_rows(&control.handle.serving().config.plugins);
    plugins.look().await;
    let report = plugins.reports().into_iter().find(|it| it.name == name);
    report.map(|it| json!(it)).ok_or_else(|| ToolError::new(Code::Internal, format!("plugin {name} is not known")))
}
