//! Calls every listed tool with arguments that are generated from its schema and filled with attack
//! strings.

use crate::rig::{Rig, settle};
use serde_json::{Map, Value, json};

/// Paths, commands and addresses that a tool must not access.
fn payloads(rig: &Rig) -> Vec<String> {
    let home = rig.studio.home().display().to_string();
    vec![
        rig.approval.clone(),
        rig.plan.clone(),
        format!("{home}/config.toml"),
        "../config.toml".to_owned(),
        "../../../../../../../../etc/passwd".to_owned(),
        rig.outside.path().join("new.txt").display().to_string(),
        rig.secret(),
        rig.mark(),
        format!("http://127.0.0.1:{}/x", rig.trap.tcp),
        format!("http://127.0.0.1:{}/console/state", rig.http_port()),
        format!("; {} ;", rig.mark()),
        "ATTACH DATABASE '/tmp/x' AS y".to_owned(),
        "Default".to_owned(),
        "pads hand".to_owned(),
        "synth".to_owned(),
        "work".to_owned(),
        "pd".to_owned(),
    ]
}

/// A value that matches the schema, with the payload in every string.
fn fill(schema: &Value, payload: &str, depth: usize) -> Value {
    if let Some(fixed) = schema.get("const") {
        return fixed.clone();
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices.first().cloned().unwrap_or(Value::Null);
    }
    for either in ["anyOf", "oneOf"] {
        if let Some(first) = schema[either].as_array().and_then(|it| it.first()) {
            return fill(first, payload, depth);
        }
    }
    let kind = schema["type"].as_array().and_then(|it| it.first()).unwrap_or(&schema["type"]);
    match kind.as_str().unwrap_or("string") {
        "object" if depth < 4 => {
            let members = schema["properties"].as_object();
            let filled: Map<String, Value> = members
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), fill(schema, payload, depth + 1)))
                .collect();
            Value::Object(filled)
        }
        "array" if depth < 4 => json!([fill(&schema["items"], payload, depth + 1)]),
        "object" => json!({}),
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => Value::String(payload.to_owned()),
    }
}

/// Only the required members of the schema.
fn required(schema: &Value, payload: &str) -> Value {
    let names: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let members = names.iter().map(|it| ((*it).to_owned(), fill(&schema["properties"][*it], payload, 1)));
    Value::Object(members.collect())
}

#[test]
fn every_tool_with_every_payload_changes_nothing_that_a_person_guards() {
    let rig = Rig::start("");
    let mut model = rig.model();
    let tools = model.tools();
    assert!(tools.len() > 100, "the model lists only {} tools", tools.len());
    let mut ran = 0;
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        for payload in payloads(&rig) {
            for arguments in [fill(&tool["inputSchema"], &payload, 0), required(&tool["inputSchema"], &payload)] {
                let answer = model.call(name, arguments);
                ran += usize::from(answer["code"].is_null());
                assert_ne!(answer["code"], "INTERNAL", "{name} {payload}: {answer}");
            }
        }
    }
    assert!(ran > 100, "only {ran} calls ran");
    settle(&rig);
    rig.assert_unharmed();
}

/// Calls the methods of the human door on the socket for AI clients.
#[test]
fn no_method_of_the_human_door_answers_a_model() {
    let rig = Rig::start("");
    let mut model = rig.model();
    for method in [
        "approvals.allow",
        "approvals.deny",
        "plans.apply",
        "plans.undo",
        "plan.apply",
        "llm_apply_plan",
        "config.accept",
        "plugins.enable",
        "secrets.set",
        "circuit.reset",
        "performance.set",
        "audit.accept",
        "http.open",
        "play",
        "config.reload",
        "conductor/approvals.allow",
    ] {
        let arguments = json!({
            "id": rig.approval, "approval_id": rig.approval, "plan_id": rig.plan, "planId": rig.plan, "yes": true, "confirm": true,
        });
        let by_method = model.request(method, arguments.clone());
        assert!(by_method["error"].is_object(), "{method}: {by_method}");
        let by_tool = model.request("tools/call", json!({ "name": method, "arguments": arguments }));
        let failed = by_tool["error"].is_object() || by_tool["result"]["isError"] == true;
        assert!(failed, "{method} as a tool: {by_tool}");
    }
    rig.assert_unharmed();
}
