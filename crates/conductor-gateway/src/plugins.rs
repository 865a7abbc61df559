//! Tools of plugins. Converts the declarations in a plugin file to catalog entries, and a call to a
//! message for the plugin's process.
//!
//! Calls to plugin tools pass through the same pipeline as all other calls. Not here: the process
//! (`hosts::plugin`), and which plugins are enabled (`gateway::plugins` of the daemon).

pub mod reach;

use crate::catalog::lint;
use crate::catalog::schema::Validator;
use crate::catalog::{CatalogError, Definition, Source, Target, Tool};
use crate::pipeline::call::{Content, Output};
use conductor_core::config::{Plugin, PluginRetry};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::policy::Tier;
use conductor_core::text::escape;
use conductor_hosts::plugin::manifest::{Manifest, ToolText};
use conductor_hosts::plugin::process::{Launch, Over, PluginError, Process};
use conductor_hosts::plugin::runner::{QUEUE, Runner};
use serde_json::{Value, json};
use std::sync::Arc;

pub const TOOLSET: &str = "plugins";

/// Loads a file in the sandbox, without any access, and checks its manifest.
pub async fn look(launch: &Launch) -> Result<Manifest, Vec<String>> {
    let (_process, declared) = Process::start(launch).await.map_err(|fault| vec![fault.to_string()])?;
    let manifest = Manifest::check(&declared, Digest::of(&launch.source))?;
    check(&manifest)?;
    Ok(manifest)
}

/// Checks that every tool could be added to a catalog.
fn check(manifest: &Manifest) -> Result<(), Vec<String>> {
    let row = Plugin::of_file("");
    let mut faults = Vec::new();
    if let Some(Err(fault)) = manifest.config_schema.clone().map(|it| Validator::compile(&it.into())) {
        faults.push(format!("configSchema: {fault}"));
    }
    for text in &manifest.tools {
        let definition = define(manifest, text, &row, |_| Box::pin(async { Ok(Output::new(json!({}))) }));
        match Tool::new(definition) {
            Ok(tool) => {
                faults.extend(
                    lint::lint(&tool)
                        .into_iter()
                        .map(|(rule, place)| format!("{}: {place}: {}", text.name, rule.advice())),
                );
            }
            Err(fault) => faults.push(fault.to_string()),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// The tools of an enabled plugin. Without a runner, every call is refused.
pub fn tools(manifest: &Manifest, row: &Plugin, runner: Option<&Arc<Runner>>) -> Result<Vec<Tool>, CatalogError> {
    let tool = |text: &ToolText| {
        let (runner, name) = (runner.cloned(), text.name.clone());
        Tool::new(define(manifest, text, row, move |arguments| {
            let (runner, name) = (runner.clone(), name.clone());
            Box::pin(async move {
                let Some(runner) = runner else {
                    return Err(ToolError::new(
                        Code::PinMismatch,
                        format!("{name}: the plugin's code is not the code that a person enabled"),
                    ));
                };
                match runner.call(&name, &arguments).await {
                    Ok(value) => result(&name, value),
                    Err(fault) => Err(failure(&name, fault)),
                }
            })
        }))
    };
    manifest.tools.iter().map(tool).collect()
}

fn define(
    manifest: &Manifest,
    text: &ToolText,
    row: &Plugin,
    run: impl Fn(Value) -> futures_util::future::BoxFuture<'static, Result<Output, ToolError>> + Send + Sync + 'static,
) -> Definition {
    let settings = row.tools.get(&text.name).copied().unwrap_or_default();
    let asks = settings.requires_approval.unwrap_or(text.requires_approval);
    // A tool that needs approval, by the person's settings or by its own manifest, has an effect
    // outside the plugin.
    let effect = asks || text.requires_approval;
    let tier = settings.tier.unwrap_or(if effect { Tier::HardwareIo } else { Tier::Stateful });
    let mut definition = Definition::new(text.name.clone(), tier, TOOLSET, move |_, _, arguments| run(arguments))
        .text(text.title.clone().unwrap_or_else(|| text.name.clone()), text.description.clone())
        .input(text.input_schema.clone())
        .output(Value::Null);
    definition.requires_approval = Some(asks);
    definition.idempotent = match row.retry {
        PluginRetry::Declared => text.idempotent,
        PluginRetry::Always => true,
        PluginRetry::Never => false,
    };
    definition.timeout_ms = row.timeout_ms.into();
    definition.source = Source::Plugin { name: manifest.name.clone(), code: manifest.code };
    let shown = format!("{} (plugin {} {})", text.name, manifest.name, manifest.version);
    let target = Target { shown: vec![("plugin", shown.clone())], ..Target::keyed(manifest.name.clone()) };
    definition.target(move |_, _| target.clone()).summary(move |_| shown.clone())
}

/// Converts a handler's value (a `CallToolResult`, a text, or any other value) to a result.
fn result(tool: &str, value: Value) -> Result<Output, ToolError> {
    match value {
        Value::String(text) => Ok(Output::blocks(vec![Content::Text(text)])),
        Value::Object(mut members) if members.get("content").is_some_and(Value::is_array) => {
            let blocks = members.remove("content").unwrap_or_default();
            let blocks = blocks.as_array().map_or(&[][..], Vec::as_slice).iter();
            let blocks = blocks.map(|it| block(tool, it)).collect::<Result<Vec<Content>, _>>()?;
            let structured = members.remove("structuredContent").filter(Value::is_object);
            let is_error = members.get("isError") == Some(&Value::Bool(true));
            let Some(mut structured) = structured else { return Ok(Output::blocks(blocks).as_error(is_error)) };
            if is_error {
                replace_reserved_code(&mut structured);
            }
            // The pipeline sends the value as text, so remove a text block that repeats the value.
            let written = structured.to_string();
            let same = |it: &Content| {
                matches!(it, Content::Text(text) if *text == written
                    || serde_json::from_str::<Value>(text).is_ok_and(|it| it == structured))
            };
            let blocks: Vec<Content> = blocks.into_iter().filter(|it| !same(it)).collect();
            Ok(blocks.into_iter().fold(Output::new(structured).as_error(is_error), Output::with))
        }
        object @ Value::Object(_) => Ok(Output::new(object)),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            Ok(Output::new(json!({ "result": other })))
        }
    }
}

fn block(tool: &str, block: &Value) -> Result<Content, ToolError> {
    let text = |of: &Value, key: &str| of[key].as_str().map(str::to_owned);
    let mime = |of: &Value| text(of, "mimeType").unwrap_or_else(|| "application/octet-stream".to_owned());
    let found = match block["type"].as_str() {
        Some("text") => text(block, "text").map(Content::Text),
        Some("image") => text(block, "data").map(|base64| Content::Image { mime: mime(block), base64 }),
        Some("audio") => text(block, "data").map(|base64| Content::Audio { mime: mime(block), base64 }),
        Some("resource") => {
            let inner = &block["resource"];
            text(inner, "uri").and_then(|uri| match (text(inner, "text"), text(inner, "blob")) {
                (Some(text), _) => Some(Content::Resource { uri, mime: mime(inner), text }),
                (None, Some(base64)) => Some(Content::Blob { uri, mime: mime(inner), base64 }),
                (None, None) => None,
            })
        }
        Some(_) | None => None,
    };
    found.ok_or_else(|| {
        let message = format!("{tool} returned a content block that is neither text, image, audio nor resource");
        ToolError::new(Code::Internal, message).subject(Subject::Tool(tool.to_owned()))
    })
}

/// Replaces an error code that a plugin must not use.
fn replace_reserved_code(structured: &mut Value) {
    let Some(code) = structured.get_mut("code") else { return };
    let is_ours =
        code.as_str().and_then(|it| it.parse::<Code>().ok()).is_some_and(|it| claimed(Some(it.as_str())) != it);
    if is_ours {
        *code = Value::from(Code::Internal.as_str());
    }
}

/// The plugin's error code if it describes the plugin's own work; otherwise `Internal`. Codes about
/// approval, limits and pins are reserved for the pipeline.
fn claimed(code: Option<&str>) -> Code {
    let code = code.and_then(|it| it.parse().ok()).unwrap_or(Code::Internal);
    let own_work = matches!(
        code,
        Code::BadInput
            | Code::NotFound
            | Code::StaleReference
            | Code::WrongType
            | Code::Unsupported
            | Code::SdkRejected
            | Code::HostOffline
            | Code::Timeout
            | Code::Denied
    );
    if own_work { code } else { Code::Internal }
}

fn failure(tool: &str, fault: PluginError) -> ToolError {
    let text = format!("{tool}: {}", escape(&fault.to_string()));
    let error = match fault {
        PluginError::Threw(thrown) => ToolError::new(claimed(thrown.code.as_deref()), text),
        PluginError::Over(Over::Time, _) => ToolError::new(Code::Timeout, text)
            .hint("Read the state before repeating. A person can raise cpu_ms of this plugin."),
        PluginError::Over(Over::Memory, _) => ToolError::new(Code::Internal, text)
            .hint("Request less in one call. A person can raise heap_mb of this plugin."),
        PluginError::Died(_) => ToolError::new(Code::Internal, text)
            .hint("The next call restarts the plugin's process. Read the state before repeating."),
        PluginError::NotLoaded(_) | PluginError::NotStarted(_) => {
            ToolError::new(Code::HostOffline, text).hint("A person should run `conductor plugins list`.")
        }
        PluginError::Busy(_) => ToolError::new(Code::Busy, text)
            .hint(format!("Wait until other calls to this plugin have ended; at most {QUEUE} calls can wait."))
            .retry_after_ms(1000),
        PluginError::Changed(_) => ToolError::new(Code::PinMismatch, text),
    };
    error.subject(Subject::Tool(tool.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_hosts::plugin::Thrown;

    #[test]
    fn results_of_every_shape() {
        assert_eq!(result("t", json!("hi")).unwrap(), Output::blocks(vec![Content::Text("hi".into())]));
        assert_eq!(result("t", json!({ "a": 1 })).unwrap(), Output::new(json!({ "a": 1 })));
        assert_eq!(result("t", json!([1])).unwrap(), Output::new(json!({ "result": [1] })));
        let both = json!({ "content": [{ "type": "text", "text": "{\"a\": 1}" }, { "type": "text", "text": "more" }], "structuredContent": { "a": 1 } });
        assert_eq!(result("t", both).unwrap(), Output::new(json!({ "a": 1 })).with(Content::Text("more".into())));
        let picture = json!({ "content": [{ "type": "image", "data": "AAAA", "mimeType": "image/png" }] });
        let wanted = Output::blocks(vec![Content::Image { mime: "image/png".into(), base64: "AAAA".into() }]);
        assert_eq!(result("t", picture).unwrap(), wanted);
        assert_eq!(result("t", json!({ "content": [{ "type": "script" }] })).unwrap_err().code, Code::Internal);
    }

    #[test]
    fn a_plugin_may_say_what_went_wrong_but_not_what_the_pipeline_says() {
        let failed = |code: &str| json!({ "isError": true, "content": [{ "type": "text", "text": "no" }], "structuredContent": { "code": code, "more": [1] } });
        for (given, shown) in [
            ("NOT_FOUND", "NOT_FOUND"),
            ("its own", "its own"),
            ("APPROVAL_REQUIRED", "INTERNAL"),
            ("CIRCUIT_OPEN", "INTERNAL"),
            ("PIN_MISMATCH", "INTERNAL"),
            ("RATE_LIMITED", "INTERNAL"),
        ] {
            let output = result("t", failed(given)).unwrap();
            assert!(output.is_error, "{given}");
            assert_eq!(output.value, json!({ "code": shown, "more": [1] }), "{given}");
            assert_eq!(output.content, [Content::Text("no".into())], "{given}");
        }
        let bare = result(
            "t",
            json!({ "isError": true, "content": [{ "type": "image", "data": "AAAA", "mimeType": "image/png" }] }),
        );
        let bare = bare.unwrap();
        assert!(bare.is_error && !bare.is_structured() && bare.content.len() == 1);
        let thrown = Thrown { message: "m".into(), code: Some("WRONG_TYPE".into()), place: Some("x.js:1:2".into()) };
        let error = failure("t", PluginError::Threw(thrown));
        assert_eq!((error.code, error.message.as_str()), (Code::WrongType, "t: x.js:1:2: m"));
    }
}
