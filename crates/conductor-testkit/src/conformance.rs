//! Fixtures of the public MCP conformance suite: tools, resources and prompts for every part of the
//! protocol.
//!
//! Most fixtures use the catalog, the pipeline and the doors like all tools. Fixtures that send
//! requests to their client, or answer with a question, are listed in the catalog and answered by
//! [`Suite`]. Some fixtures break rules of `lint` on purpose.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use conductor_core::error::{Code, ToolError};
use conductor_core::policy::Tier;
use conductor_daemon::doors::mcp::fixtures::{Fixtures, Link};
use conductor_daemon::doors::mcp::methods::Answer;
use conductor_daemon::doors::mcp::render;
use conductor_gateway::catalog::prompt::{Argument, Message, Prompt};
use conductor_gateway::catalog::resource::Resource;
use conductor_gateway::catalog::{Catalog, CatalogError, Definition, Tool};
use conductor_gateway::pipeline::call::{Content, LogLevel, Output};
use conductor_gateway::pipeline::gate::Clearance;
use conductor_gateway::studio::Studio;
use futures_util::future::BoxFuture;
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, InputRequiredResult, ServerResult};
use serde_json::{Value, json};

const SET: &str = "conformance";
const ASKING_PROMPT: &str = "test_input_required_result_prompt";
/// A picture with one red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A sound file with one silent sample.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==";
const BEAT: Duration = Duration::from_millis(50);

fn text(text: impl Into<String>) -> Output {
    Output::blocks(vec![Content::Text(text.into())])
}

fn picture() -> Content {
    Content::Image { mime: "image/png".into(), base64: PNG.into() }
}

fn open_object() -> Value {
    json!({ "type": "object", "properties": {} })
}

fn needs(name: &str, kind: Value) -> Value {
    json!({ "type": "object", "properties": { name: kind }, "required": [name] })
}

/// One question in the format of protocol version 2026-07-28.
fn form(key: &str, message: &str, field: &str, kind: &str) -> Value {
    json!({ key: { "method": "elicitation/create", "params": {
        "mode": "form", "message": message,
        "requestedSchema": { "type": "object", "properties": { field: { "type": kind } }, "required": [field] }
    } } })
}

fn sampling(key: &str, question: &str, tokens: u32) -> Value {
    json!({ key: { "method": "sampling/createMessage", "params": {
        "messages": [{ "role": "user", "content": { "type": "text", "text": question } }], "maxTokens": tokens
    } } })
}

fn roots(key: &str) -> Value {
    json!({ key: { "method": "roots/list", "params": {} } })
}

fn all(parts: impl IntoIterator<Item = Value>) -> Value {
    let mut whole = serde_json::Map::new();
    for part in parts {
        if let Value::Object(part) = part {
            whole.extend(part);
        }
    }
    Value::Object(whole)
}

/// The answer of a fixture to its client.
enum Said {
    Result(Output),
    InputRequired { requests: Value, state: Option<String> },
    ProtocolError { code: i32, message: &'static str, data: Value },
}

/// One call of a fixture that sends requests to its client.
struct Talk {
    link: Link,
    arguments: Value,
    responses: Option<Value>,
    state: Option<String>,
}

type Run = Box<dyn Fn(Talk) -> BoxFuture<'static, Result<Said, ToolError>> + Send + Sync>;

/// Answers the fixtures that send requests to their client.
pub struct Suite(HashMap<&'static str, Run>);

impl Suite {
    #[expect(clippy::new_without_default, reason = "a test server creates exactly one suite")]
    pub fn new() -> Self {
        Self(asking().into_iter().map(|it| (it.name, it.run)).collect())
    }
}

impl Fixtures for Suite {
    #[expect(clippy::wildcard_enum_match_arm, reason = "an enum of the SDK; other requests have no fixtures")]
    fn answer(&self, request: &ClientRequest, link: Link) -> Option<BoxFuture<'static, Answer>> {
        match request {
            ClientRequest::CallToolRequest(it) => {
                let run = self.0.get(&*it.params.name)?;
                let arguments = it.params.arguments.clone().map_or(Value::Null, Value::Object);
                let responses = it.params.input_responses.as_ref().map(|it| json!(it));
                let meta = link.meta.clone();
                let talk = Talk { link, arguments, responses, state: it.params.request_state.clone() };
                let said = run(talk);
                Some(Box::pin(async move {
                    let mut result = match said.await {
                        Ok(Said::Result(output)) => render::success(output),
                        Ok(Said::InputRequired { requests, state }) => {
                            return input_required(requests, state, meta).map(ServerResult::InputRequiredResult);
                        }
                        Ok(Said::ProtocolError { code, message, data }) => {
                            return Err(ErrorData::new(ErrorCode(code), message, Some(data)));
                        }
                        Err(error) => render::failure(&error),
                    };
                    result.meta = meta;
                    Ok(ServerResult::CallToolResult(result))
                }))
            }
            ClientRequest::GetPromptRequest(it)
                if it.params.name == ASKING_PROMPT && it.params.input_responses.is_none() =>
            {
                let requests = form("user_context", "What context should the prompt use?", "context", "string");
                let asked = input_required(requests, None, link.meta).map(ServerResult::InputRequiredResult);
                Some(Box::pin(std::future::ready(asked)))
            }
            _ => None,
        }
    }
}

fn input_required(
    requests: Value,
    state: Option<String>,
    meta: Option<rmcp::model::MetaObject>,
) -> Result<InputRequiredResult, ErrorData> {
    let requests =
        serde_json::from_value(requests).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let mut result = InputRequiredResult::new(Some(requests), state);
    result.meta = meta;
    Ok(result)
}

/// A fixture that sends requests to its client.
struct Asking {
    name: &'static str,
    input: Value,
    run: Run,
}

fn asks<F, R>(name: &'static str, run: F) -> Asking
where
    F: Fn(Talk) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Said, ToolError>> + Send + 'static,
{
    Asking { name, input: open_object(), run: Box::new(move |talk| Box::pin(run(talk))) }
}

fn says(words: impl Into<String>) -> Said {
    Said::Result(text(words))
}

fn ask(requests: Value, state: Option<String>) -> Said {
    Said::InputRequired { requests, state }
}

fn tool<F, R>(name: &'static str, run: F) -> Definition
where
    F: Fn(Arc<Studio>, Clearance, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Output, ToolError>> + Send + 'static,
{
    let mut definition = Definition::new(name, Tier::Stateful, SET, run)
        .text(name, "A fixture of the public suite.")
        .input(open_object());
    definition.output_schema = Value::Null.into();
    definition.verbatim = true;
    definition
}

fn fixed(name: &'static str, content: Vec<Content>) -> Definition {
    tool(name, move |_, _, _| {
        let content = content.clone();
        async move { Ok(Output::blocks(content)) }
    })
}

fn log(clearance: &Clearance, line: &str) {
    if let Some(progress) = clearance.progress() {
        progress.log(LogLevel::Info, line);
    }
}

async fn beat() {
    tokio::time::sleep(BEAT).await;
}

/// Sends a question to a client with a protocol version before 2026-07-28. Returns the client's
/// answer as text.
async fn elicit(link: &Link, message: &str, schema: Value, label: &str) -> Result<Said, ToolError> {
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    let answer =
        link.request("elicitation/create", params).await.map_err(|it| ToolError::new(Code::Unsupported, it))?;
    let action = answer.get("action").and_then(Value::as_str).unwrap_or("cancel");
    let content = answer.get("content").cloned().unwrap_or(Value::Null);
    Ok(says(match label {
        "User response" => format!("User response: <action: {action}, content: {content}>"),
        _ => format!("{label}: action={action}, content={content}"),
    }))
}

/// The text that the client's model returned.
fn said(answer: &Value) -> String {
    let content = answer.get("content").cloned().unwrap_or_default();
    let one = |it: &Value| it.get("text").and_then(Value::as_str).map(str::to_owned);
    one(&content).or_else(|| content.as_array().and_then(|it| it.first()).and_then(one)).unwrap_or_default()
}

fn field<'a>(responses: &'a Value, key: &str, name: &str) -> Option<&'a Value> {
    responses.get(key)?.get("content")?.get(name)
}

fn talking() -> Vec<Definition> {
    vec![
        tool("test_tool_with_logging", |_, clearance, _| async move {
            log(&clearance, "Tool execution started");
            beat().await;
            log(&clearance, "Tool processing data");
            beat().await;
            log(&clearance, "Tool execution completed");
            Ok(text("Logged three lines."))
        }),
        tool("test_logging_tool", |_, clearance, _| async move {
            log(&clearance, "One line about this call");
            Ok(text("Logged one line."))
        }),
        tool("test_error_handling", |_, _, _| async {
            Err(ToolError::new(Code::Unsupported, "This tool intentionally returns an error for testing"))
        }),
        tool("test_tool_with_progress", |_, clearance, _| async move {
            clearance.report(0.0, Some(100.0), "started");
            beat().await;
            clearance.report(50.0, Some(100.0), "half");
            beat().await;
            clearance.report(100.0, Some(100.0), "done");
            Ok(text("Reported progress."))
        }),
        tool("test_streaming_elicitation", |_, clearance, _| async move {
            clearance.report(1.0, Some(2.0), "working");
            beat().await;
            clearance.report(2.0, Some(2.0), "done");
            Ok(text("Streamed."))
        }),
        tool("test_reconnection", |_, clearance, _| async move {
            clearance.report(1.0, None, "working");
            beat().await;
            Ok(text("Reconnection test completed."))
        }),
        tool("test_trigger_tool_change", |studio, _, _| async move {
            studio.edit_catalog(|catalog| {
                if !catalog.remove("test_passing_tool") {
                    let _ = Tool::new(fixed("test_passing_tool", vec![Content::Text("here now".into())]))
                        .map(|it| catalog.add(it));
                }
            });
            Ok(text("The tool list changed."))
        }),
        tool("test_trigger_prompt_change", |studio, _, _| async move {
            studio.edit_catalog(|catalog| {
                if !catalog.remove_prompt("test_passing_prompt") {
                    let _ = catalog.add_prompt(prompt("test_passing_prompt", &[], |_| vec![Message::text("here now")]));
                }
            });
            Ok(text("The prompt list changed."))
        }),
    ]
}

/// The tools that [`Suite`] answers. `test_input_required_*` ask their question in the result, as
/// protocol version 2026-07-28 does; the other questions are requests, as in earlier versions.
fn asking() -> Vec<Asking> {
    vec![
        Asking {
            input: needs("prompt", json!({ "type": "string" })),
            ..asks("test_sampling", async |it: Talk| {
                let prompt = it.arguments.get("prompt").cloned().unwrap_or_default();
                let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
                let params = json!({ "messages": [message], "maxTokens": 100 });
                let answer = it.link.request("sampling/createMessage", params).await;
                let answer = answer.map_err(|it| ToolError::new(Code::Unsupported, it))?;
                Ok(says(format!("LLM response: {}", said(&answer))))
            })
        },
        Asking {
            input: needs("message", json!({ "type": "string" })),
            ..asks("test_elicitation", async |it: Talk| {
                let message = it.arguments.get("message").and_then(Value::as_str).unwrap_or_default();
                let schema = json!({ "type": "object", "required": ["username", "email"], "properties": {
                    "username": { "type": "string", "description": "User's response" },
                    "email": { "type": "string", "description": "User's email address" } } });
                elicit(&it.link, message, schema, "User response").await
            })
        },
        asks("test_elicitation_sep1034_defaults", async |it: Talk| {
            let schema = json!({ "type": "object", "properties": {
                "name": { "type": "string", "default": "John Doe" }, "age": { "type": "integer", "default": 30 },
                "score": { "type": "number", "default": 95.5 },
                "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
                "verified": { "type": "boolean", "default": true } } });
            elicit(&it.link, "Please review the defaults", schema, "Elicitation completed").await
        }),
        asks("test_elicitation_sep1330_enums", async |it: Talk| {
            let titled = |word: &str| {
                let options = (1..=3).zip(["First", "Second", "Third"]);
                let option = |(n, title)| json!({ "const": format!("value{n}"), "title": format!("{title} {word}") });
                options.map(option).collect::<Vec<_>>()
            };
            let options = ["option1", "option2", "option3"];
            let schema = json!({ "type": "object", "properties": {
                "untitledSingle": { "type": "string", "enum": options },
                "titledSingle": { "type": "string", "oneOf": titled("Option") },
                "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"] },
                "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
                "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } } } });
            elicit(&it.link, "Please choose", schema, "Elicitation completed").await
        }),
        asks("test_missing_capability", async |it: Talk| {
            if it.link.capabilities.get("sampling").is_some() {
                return Ok(says("Sampling is declared."));
            }
            let data = json!({ "requiredCapabilities": { "sampling": {} } });
            Ok(Said::ProtocolError { code: -32021, message: "Missing required client capability", data })
        }),
        asks("test_input_required_result_elicitation", async |it: Talk| {
            let responses = it.responses.unwrap_or_default();
            Ok(match field(&responses, "user_name", "name").and_then(Value::as_str) {
                Some(name) => says(format!("Hello, {name}!")),
                None => ask(form("user_name", "What is your name?", "name", "string"), None),
            })
        }),
        asks("test_input_required_result_sampling", async |it: Talk| {
            let responses = it.responses.unwrap_or_default();
            Ok(match responses.get("capital_question") {
                Some(answer) => says(said(answer)),
                None => ask(sampling("capital_question", "What is the capital of France?", 100), None),
            })
        }),
        asks("test_input_required_result_list_roots", async |it: Talk| {
            let responses = it.responses.unwrap_or_default();
            Ok(match responses.get("client_roots").and_then(|it| it.get("roots")) {
                Some(roots) => says(format!("Roots: {roots}")),
                None => ask(roots("client_roots"), None),
            })
        }),
        sealed("test_input_required_result_request_state"),
        sealed("test_input_required_result_tampered_state"),
        asks("test_input_required_result_multiple_inputs", async |it: Talk| {
            let responses = it.responses.unwrap_or_default();
            let answered = ["user_name", "greeting", "client_roots"].iter().all(|key| responses.get(key).is_some());
            if answered && it.state.is_some_and(|state| it.link.open(&state).as_deref() == Some("multiple")) {
                return Ok(says("All three answers arrived."));
            }
            let requests = all([
                form("user_name", "What is your name?", "name", "string"),
                sampling("greeting", "Generate a greeting", 50),
                roots("client_roots"),
            ]);
            Ok(ask(requests, Some(it.link.seal("multiple"))))
        }),
        asks("test_input_required_result_multi_round", async |it: Talk| {
            let responses = it.responses.unwrap_or_default();
            let state = it.state.and_then(|state| it.link.open(&state)).unwrap_or_default();
            let name = field(&responses, "step1", "name").and_then(Value::as_str);
            let color = field(&responses, "step2", "color").and_then(Value::as_str);
            Ok(match (state.as_str(), name, color) {
                ("round-2", _, Some(color)) => says(format!("Both steps are done; {color} it is.")),
                ("round-1", Some(_), _) => ask(
                    form("step2", "Step 2: What is your favorite color?", "color", "string"),
                    Some(it.link.seal("round-2")),
                ),
                _ => ask(form("step1", "Step 1: What is your name?", "name", "string"), Some(it.link.seal("round-1"))),
            })
        }),
        asks("test_input_required_result_capabilities", async |it: Talk| {
            if it.responses.is_some() {
                return Ok(says("Answered."));
            }
            let declared = |name: &str| it.link.capabilities.get(name).is_some();
            let mut parts = Vec::new();
            if declared("elicitation") {
                parts.push(form("user_name", "What is your name?", "name", "string"));
            }
            if declared("sampling") {
                parts.push(sampling("greeting", "Generate a greeting", 50));
            }
            if declared("roots") {
                parts.push(roots("client_roots"));
            }
            Ok(if parts.is_empty() { says("The client supports no kind of question.") } else { ask(all(parts), None) })
        }),
    ]
}

/// A question whose state is sealed; a changed seal is a protocol error.
fn sealed(name: &'static str) -> Asking {
    asks(name, async |it: Talk| {
        let question = || form("confirm", "Please confirm", "ok", "boolean");
        let Some(state) = it.state else {
            return Ok(ask(question(), Some(it.link.seal("confirm"))));
        };
        if it.link.open(&state).as_deref() != Some("confirm") {
            return Ok(Said::ProtocolError { code: -32602, message: "Invalid requestState", data: Value::Null });
        }
        let responses = it.responses.unwrap_or_default();
        Ok(match responses.get("confirm") {
            Some(_) => says("state-ok"),
            None => ask(question(), Some(state)),
        })
    })
}

fn shapes() -> Vec<Definition> {
    let embedded =
        |uri: &str, mime: &str, text: &str| Content::Resource { uri: uri.into(), mime: mime.into(), text: text.into() };
    vec![
        fixed("test_simple_text", vec![Content::Text("This is a simple text response for testing.".into())]),
        fixed("test_image_content", vec![picture()]),
        fixed("test_audio_content", vec![Content::Audio { mime: "audio/wav".into(), base64: WAV.into() }]),
        fixed(
            "test_embedded_resource",
            vec![embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
        ),
        fixed(
            "test_multiple_content_types",
            vec![
                Content::Text("Multiple content types test:".into()),
                picture(),
                embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
            ],
        ),
        fixed("json_schema_2020_12_tool", vec![Content::Text("ok".into())]).input(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": { "address": { "$anchor": "addressDef", "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } } } },
            "properties": {
                "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" }, "email": { "type": "string" }
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false
        })),
        fixed("test_header_tool", vec![Content::Text("ok".into())]).input(json!({
            "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } }
        })),
        fixed(
            "test_read_static_text",
            vec![embedded("test://static-text", "text/plain", "This is the content of the static text resource.")],
        ),
        fixed("test_read_static_binary", vec![picture()]),
        fixed("test_read_watched", vec![embedded("test://watched-resource", "text/plain", "Watched.")]),
        tool("test_read_template", |_, _, arguments| async move {
            let id = arguments.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            let body = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string();
            Ok(Output::blocks(vec![Content::Resource {
                uri: String::new(),
                mime: "application/json".into(),
                text: body,
            }]))
        }),
    ]
}

fn resource(uri: &'static str, tool: &'static str, mime: &'static str) -> Resource {
    Resource {
        uri: uri.into(),
        name: uri.into(),
        title: uri.into(),
        description: "A fixture of the public suite.".into(),
        mime: mime.into(),
        toolset: SET.into(),
        tool: tool.into(),
        arguments: Arc::new(|variables| json!(variables)),
        complete: BTreeMap::new(),
    }
}

fn prompt(
    name: &'static str,
    arguments: &[(&'static str, &'static str)],
    render: impl Fn(&BTreeMap<String, String>) -> Vec<Message> + Send + Sync + 'static,
) -> Prompt {
    let arguments = arguments
        .iter()
        .map(|(name, description)| Argument {
            name,
            description,
            required: true,
            complete: Some(Arc::new(|_, _| ["paris", "park", "party"].map(str::to_owned).to_vec())),
            source: None,
        })
        .collect();
    Prompt {
        name: name.into(),
        title: name.into(),
        description: "A fixture of the public suite.".into(),
        toolset: SET.into(),
        arguments,
        render: Arc::new(render),
    }
}

/// Adds all fixtures to a catalog.
pub fn register(catalog: &mut Catalog) -> Result<(), CatalogError> {
    // These fixtures are listed like all tools, but `Suite` answers their calls.
    let listed = asking().into_iter().map(|it| fixed(it.name, Vec::new()).input(it.input));
    for definition in shapes().into_iter().chain(talking()).chain(listed) {
        catalog.add(Tool::new(definition)?)?;
    }
    catalog.add_resource(resource("test://static-text", "test_read_static_text", "text/plain"))?;
    catalog.add_resource(resource("test://static-binary", "test_read_static_binary", "image/png"))?;
    catalog.add_resource(resource("test://watched-resource", "test_read_watched", "text/plain"))?;
    catalog.add_resource(resource("test://template/{id}/data", "test_read_template", "application/json"))?;
    catalog.add_prompt(prompt("test_simple_prompt", &[], |_| {
        vec![Message::text("This is a simple prompt for testing.")]
    }))?;
    catalog.add_prompt(prompt(
        "test_prompt_with_arguments",
        &[("arg1", "First test argument"), ("arg2", "Second test argument")],
        |given| {
            let word = |name: &str| given.get(name).cloned().unwrap_or_default();
            vec![Message::text(format!("Prompt with arguments: arg1='{}', arg2='{}'", word("arg1"), word("arg2")))]
        },
    ))?;
    catalog.add_prompt(prompt(
        "test_prompt_with_embedded_resource",
        &[("resourceUri", "URI of the resource to embed")],
        |given| {
            let uri = given.get("resourceUri").cloned().unwrap_or_default();
            let text = "Embedded resource content for testing.".to_owned();
            vec![
                Message { content: Content::Resource { uri, mime: "text/plain".into(), text } },
                Message::text("Please process the embedded resource above."),
            ]
        },
    ))?;
    catalog.add_prompt(prompt("test_prompt_with_image", &[], |_| {
        vec![Message { content: picture() }, Message::text("Please analyze the image above.")]
    }))?;
    catalog.add_prompt(prompt(ASKING_PROMPT, &[], |_| vec![Message::text("With the context given.")]))
}
