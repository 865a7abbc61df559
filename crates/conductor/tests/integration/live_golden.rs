//! Replays the recorded exchanges on the document of a Set: names, schemas, annotations, keys,
//! values and codes must match, except for listed deviations with a reason. Descriptions are not
//! compared.

use std::path::{Path, PathBuf};

use conductor_testkit::golden::{Deviations, gaps};
use serde_json::{Map, Value, json};

use crate::live::{Client, Stage, write_wav};

fn deviations() -> Deviations {
    Deviations::with(&[
        ("14", "!broken", "the recorded notes resource was cut into invalid JSON"),
        ("20", "/clips/*/filePath", "the sample is next to the Set, so that it can be rendered"),
        ("22", "/path", "renders are stored in the home"),
        ("22", "/note", "the wording differs"),
        ("30", "/clips/*/filePath", "the sample is next to the Set, so that it can be rendered"),
    ])
}

fn recordings() -> PathBuf {
    recorded().join("live-golden")
}

/// The folder of the recordings: the one in `CONDUCTOR_LIVE_DATA` with the complete recordings, or
/// the one in the tree.
#[expect(clippy::disallowed_methods, reason = "a variable names the folder of the complete recordings")]
pub fn recorded() -> PathBuf {
    let whole = std::env::var_os("CONDUCTOR_LIVE_DATA").map(PathBuf::from);
    whole.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded"))
}

fn steps_of(path: &PathBuf) -> Vec<Value> {
    let recorded: Value = serde_json::from_slice(&std::fs::read(path).expect("a recording")).expect("JSON");
    if let Value::Array(steps) = recorded { steps } else { vec![recorded] }
}

/// A schema without descriptions, and without the top-level inputs named in `added`.
fn bare(schema: &Value, added: &[&str]) -> Value {
    match schema {
        Value::Object(members) => {
            let kept = members.iter().filter(|(key, _)| !["$schema", "description"].contains(&key.as_str()));
            let mut kept: Map<String, Value> = kept.map(|(key, value)| (key.clone(), bare(value, &[]))).collect();
            if let Some(Value::Object(properties)) = kept.get_mut("properties") {
                properties.retain(|name, _| !added.contains(&name.as_str()));
            }
            Value::Object(kept)
        }
        Value::Array(items) => items.iter().map(|it| bare(it, &[])).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

const ADDED: [&str; 7] = ["setId", "expectRevision", "dryRun", "offset", "fromBeat", "toBeat", "window"];

#[tokio::test]
async fn lists_hold_every_recorded_entry() {
    let folder = recordings();
    let stage = Stage::new();
    let mut client = stage.client().await;
    let mut compared = 0;
    for (file, method, key, name) in [
        ("01_tools_list", "tools/list", "tools", "name"),
        ("02_resources_list", "resources/list", "resources", "uri"),
        ("03_resource_templates_list", "resources/templates/list", "resourceTemplates", "uriTemplate"),
        ("04_prompts_list", "prompts/list", "prompts", "name"),
    ] {
        let recorded = &steps_of(&folder.join(format!("{file}.json")))[0]["response"]["result"][key];
        let ours = client.line.request(method, json!({})).await["result"][key].clone();
        let ours = ours.as_array().expect("a list");
        for wanted in recorded.as_array().expect("a list") {
            compared += 1;
            let found = ours
                .iter()
                .find(|it| it[name] == wanted[name])
                .unwrap_or_else(|| panic!("{file}: {} is missing", wanted[name]));
            match key {
                "tools" => {
                    assert_eq!(found["annotations"], wanted["annotations"], "{}", wanted[name]);
                    let (mine, theirs) = (bare(&found["inputSchema"], &ADDED), bare(&wanted["inputSchema"], &[]));
                    assert_eq!(mine, theirs, "{}", wanted[name]);
                    let required = found["inputSchema"]["required"].as_array().cloned().unwrap_or_default();
                    assert!(required.iter().all(|it| !ADDED.contains(&it.as_str().unwrap_or_default())));
                    assert!(found["outputSchema"].is_object());
                }
                "prompts" => {
                    let shape = |it: &Value| bare(&it["arguments"], &[]);
                    assert_eq!(shape(found), shape(wanted), "{}", wanted[name]);
                }
                _ => assert_eq!(found["mimeType"], wanted["mimeType"]),
            }
        }
    }
    // Twelve tools, three prompts, one resource and two templates.
    assert!(compared >= 18, "only {compared} entries were compared");
}

async fn step(client: &mut Client, params: &Value) -> Result<Value, String> {
    if let Some(uri) = params["uri"].as_str() {
        let reply = client.line.request("resources/read", json!({ "uri": uri })).await;
        return match reply["result"]["contents"][0]["text"].as_str() {
            Some(text) => Ok(serde_json::from_str(text).expect("the resource is not JSON")),
            None => {
                assert!(reply["error"]["data"]["hint"].as_str().is_some_and(|it| !it.is_empty()), "{reply}");
                Err(reply["error"]["data"]["code"].as_str().unwrap_or_default().to_owned())
            }
        };
    }
    let result = client.call(params["name"].as_str().expect("a name"), params["arguments"].clone()).await;
    let value = result["structuredContent"].clone();
    if result["isError"] == json!(true) {
        assert!(value["hint"].as_str().is_some_and(|it| !it.is_empty()), "{value}");
        return Err(value["code"].as_str().unwrap_or_default().to_owned());
    }
    Ok(value)
}

#[tokio::test]
async fn recorded_exchanges_hold() {
    let folder = recordings();
    let list = deviations();
    let (mut compared, mut failures) = (0, Vec::new());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).expect("a folder").flatten().map(|it| it.path()).collect();
    files.sort();
    for path in files {
        let file = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        // Files below 10 contain lists; 31 and 40 contain prompts and protocol messages.
        if !file.get(..2).and_then(|it| it.parse().ok()).is_some_and(|it: u32| (10..=30).contains(&it)) {
            continue;
        }
        let stage = Stage::new();
        write_wav(&stage, "vox_take.wav");
        let mut client = stage.opened().await;
        for recorded in steps_of(&path) {
            compared += 1;
            let params = &recorded["request"]["params"];
            let what = format!("{file}: {}", params.to_string().chars().take(160).collect::<String>());
            let result = &recorded["response"]["result"];
            let theirs = match (params["uri"].as_str(), result["contents"][0]["text"].as_str()) {
                (Some(_), Some(text)) => match serde_json::from_str::<Value>(text) {
                    Ok(value) => Ok(value),
                    Err(_) => {
                        assert!(step(&mut client, params).await.is_ok() && list.allow(&file, "!broken"), "{what}");
                        continue;
                    }
                },
                (Some(_), None) => Err(None),
                (None, _) if result["isError"] == json!(true) => {
                    Err(Some(result["structuredContent"]["code"].as_str().unwrap_or("BAD_INPUT").to_owned()))
                }
                (None, _) => Ok(result["structuredContent"].clone()),
            };
            match (step(&mut client, params).await, theirs) {
                (Ok(ours), Ok(theirs)) => {
                    let mut found = Vec::new();
                    gaps(&theirs, &ours, "", &mut found);
                    let left: Vec<_> = found.into_iter().filter(|it| !list.allow(&file, it)).collect();
                    if !left.is_empty() {
                        failures.push(format!("{what}\n  differs at {left:?}\n  ours {ours}\n  theirs {theirs}"));
                    }
                }
                (Err(ours), Err(theirs)) => {
                    if theirs.as_ref().is_some_and(|it| *it != ours) && !list.allow(&file, "!code") {
                        failures.push(format!("{what}\n  the code is {ours}, recorded is {theirs:?}"));
                    }
                }
                (Err(ours), Ok(_)) => {
                    if !list.allow(&file, "!refused") {
                        failures.push(format!("{what}\n  the recording succeeded, ours failed with {ours}"));
                    }
                }
                (Ok(ours), Err(theirs)) => {
                    failures.push(format!("{what}\n  the recording has the error {theirs:?}, ours succeeded: {ours}"))
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(compared >= 100, "only {compared} steps were compared");
    let unused = list.unused();
    assert!(unused.is_empty(), "these deviations are not needed: {unused:?}");
}

#[test]
fn only_words_and_our_own_inputs_are_left_out_of_a_schema() {
    let schema =
        json!({ "properties": { "a": { "type": "string", "description": "x" }, "setId": {} }, "required": ["a"] });
    assert_eq!(bare(&schema, &ADDED), json!({ "properties": { "a": { "type": "string" } }, "required": ["a"] }));
}
