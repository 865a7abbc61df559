//! A small catalog of test tools that succeed, fail or wait on request, and count every run.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use conductor_core::error::{Code, Effect, Subject, ToolError};
use conductor_core::policy::Tier;
use conductor_gateway::catalog::prompt::{Argument, Message, Prompt};
use conductor_gateway::catalog::resource::Resource;
use conductor_gateway::catalog::{Availability, Catalog, Definition, Tool};
use conductor_gateway::pipeline::call::{Content, Output};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Every run of a handler with its arguments, and the signal that slow handlers wait for.
#[derive(Default)]
pub struct Runs {
    entered: Mutex<Vec<(String, Value)>>,
    pub release: Notify,
}

impl Runs {
    pub fn note(&self, tool: &str, arguments: &Value) {
        self.entered.lock().push((tool.to_owned(), arguments.clone()));
    }

    pub fn of(&self, tool: &str) -> usize {
        self.entered.lock().iter().filter(|it| it.0 == tool).count()
    }

    /// Lets other tasks run until the handler was called `times` times.
    pub async fn until(&self, tool: &str, times: usize) {
        while self.of(tool) < times {
            tokio::task::yield_now().await;
        }
    }

    pub fn all(&self) -> Vec<(String, Value)> {
        self.entered.lock().clone()
    }
}

pub const ECHO: &str = "test.echo";
pub const SET: &str = "test.set";
pub const PLAN: &str = "test.plan";
pub const DANGER: &str = "test.danger";
pub const ASK: &str = "test.ask";
pub const SLOW: &str = "test.slow";
pub const SLOW_EFFECT: &str = "test.slow_effect";
pub const FAIL: &str = "test.fail";
pub const FAIL_EFFECT: &str = "test.fail_effect";
pub const PANIC: &str = "test.panic";
pub const PICTURE: &str = "test.picture";
pub const ALWAYS: &str = "test.always";
pub const HIDDEN: &str = "test.hidden";

fn closed(properties: Value, required: Value) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn text_input() -> Value {
    closed(json!({ "text": { "type": "string", "maxLength": 100_000 } }), json!(["text"]))
}

/// The definitions of the test tools.
pub fn definitions(runs: &Arc<Runs>) -> Vec<Definition> {
    let simple = |name: &'static str, tier: Tier| {
        let runs = Arc::clone(runs);
        Definition::new(name, tier, "daemon", move |_studio, _leave, arguments| {
            runs.note(name, &arguments);
            async move { Ok(Output::new(json!({ "echo": arguments.get("text").cloned().unwrap_or(Value::Null) }))) }
        })
        .text(name, "Returns its text. For tests.")
        .input(text_input())
        .output(json!({ "type": "object", "properties": { "echo": { "anyOf": [{ "type": "string" }, { "type": "null" }] } }, "required": ["echo"] }))
    };
    let failing = |name: &'static str, tier: Tier| {
        let runs = Arc::clone(runs);
        Definition::new(name, tier, "daemon", move |_studio, leave, arguments: Value| {
            runs.note(name, &arguments);
            let code =
                arguments.get("code").and_then(Value::as_str).unwrap_or("INTERNAL").parse().unwrap_or(Code::Internal);
            let good_from = arguments.get("good_from").and_then(Value::as_u64).unwrap_or(u64::MAX);
            async move {
                if u64::from(leave.attempt()) >= good_from {
                    return Ok(Output::new(json!({ "attempt": leave.attempt() })));
                }
                Err(ToolError::new(code, format!("{name} fails on request")).subject(Subject::Other("the test".into())))
            }
        })
        .text(name, "Fails with the given code. For tests.")
        .input(closed(
            json!({ "code": { "type": "string" }, "good_from": { "type": "integer", "minimum": 1 } }),
            json!([]),
        ))
    };
    let waiting = |name: &'static str, tier: Tier| {
        let runs = Arc::clone(runs);
        Definition::new(name, tier, "daemon", move |_studio, leave, arguments: Value| {
            let runs = Arc::clone(&runs);
            runs.note(name, &arguments);
            async move {
                let stubborn = arguments.get("stubborn") == Some(&Value::Bool(true));
                let done = leave.principal().to_string();
                leave.report(0.0, Some(2.0), "waiting");
                tokio::select! {
                    () = runs.release.notified() => {
                        leave.report(2.0, Some(2.0), "released");
                        Ok(Output::new(json!({ "released": done })))
                    }
                    () = leave.cancel().cancelled(), if !stubborn => {
                        Err(ToolError::new(Code::Timeout, "stopped before any change").effect(Effect::None))
                    }
                }
            }
        })
        .text(name, "Waits until it is released. For tests.")
        .input(closed(json!({ "stubborn": { "type": "boolean" } }), json!([])))
    };
    let mut asks = simple(ASK, Tier::Stateful);
    asks.requires_approval = Some(true);
    let mut danger = simple(DANGER, Tier::HardwareIo).summary(|arguments| {
        format!("send {:?} to the machine", arguments.get("text").and_then(Value::as_str).unwrap_or_default())
    });
    danger.grantable = true;
    let mut fail_effect = failing(FAIL_EFFECT, Tier::HardwareIo);
    fail_effect.requires_approval = Some(false);
    let mut always = simple(ALWAYS, Tier::Stateful);
    always.availability = Availability::Always;
    let mut hidden = simple(HIDDEN, Tier::Stateful);
    hidden.hidden = true;
    let panicking = {
        let runs = Arc::clone(runs);
        Definition::new(PANIC, Tier::Stateful, "daemon", move |_studio, _leave, arguments| {
            runs.note(PANIC, &arguments);
            async move {
                // Never true; this return gives the async block its type.
                if std::hint::black_box(false) {
                    return Ok(Output::new(json!({})));
                }
                panic!("panic on request")
            }
        })
        .text("Panic", "Panics. For tests.")
    };
    let picture = {
        let runs = Arc::clone(runs);
        Definition::new(PICTURE, Tier::ReadOnly, "patch", move |_studio, _leave, arguments| {
            runs.note(PICTURE, &arguments);
            async move {
                Ok(Output::new(json!({ "width": 1 }))
                    .with(Content::Image { mime: "image/png".into(), base64: "AAAA".into() }))
            }
        })
        .text("Picture", "Returns a picture and a value. For tests.")
    };
    vec![
        simple(ECHO, Tier::ReadOnly),
        simple(SET, Tier::Stateful),
        simple(PLAN, Tier::ConfigChange),
        danger,
        asks,
        always,
        hidden,
        waiting(SLOW, Tier::ReadOnly),
        waiting(SLOW_EFFECT, Tier::Stateful),
        failing(FAIL, Tier::ReadOnly),
        fail_effect,
        panicking,
        picture,
    ]
}

pub fn catalog(runs: &Arc<Runs>) -> Catalog {
    let tools = definitions(runs).into_iter().map(|definition| Tool::new(definition).expect("a valid definition"));
    let mut catalog = Catalog::new(tools).expect("unique names");
    let resource = |uri: &'static str, template: bool| Resource {
        uri: uri.into(),
        name: uri.into(),
        title: "A mirror of test.echo".into(),
        description: "The result of test.echo.".into(),
        mime: "application/json".into(),
        toolset: "daemon".into(),
        tool: ECHO.into(),
        arguments: Arc::new(move |variables| match variables.get("text") {
            Some(text) if template => json!({ "text": text }),
            Some(_) | None => json!({ "text": "fixed" }),
        }),
        complete: if template {
            BTreeMap::from([(
                "text",
                Arc::new(|_: &_, _: &str| vec!["Alpha".to_owned(), "alphabet".to_owned(), "beta".to_owned()]) as _,
            )])
        } else {
            BTreeMap::new()
        },
    };
    catalog.add_resource(resource("test://echo", false)).expect("a unique name");
    catalog.add_resource(resource("test://echo/{text}", true)).expect("a unique name");
    catalog
        .add_prompt(Prompt {
            name: "say".into(),
            title: "Say it".into(),
            description: "Asks for a text to be echoed.".into(),
            toolset: "daemon".into(),
            arguments: vec![Argument {
                name: "text",
                description: "What to say",
                required: true,
                complete: Some(Arc::new(|_, _| vec!["hello".into(), "help".into(), "shell".into()])),
                source: Some(ECHO),
            }],
            render: Arc::new(|arguments| {
                vec![Message::text(format!(
                    "Call test.echo with {:?}.",
                    arguments.get("text").map_or("", String::as_str)
                ))]
            }),
        })
        .expect("a unique name");
    catalog
}
