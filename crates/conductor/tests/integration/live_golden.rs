//! The recorded exchanges, replayed through the door on a document: names, schemas, annotations, keys, values and codes hold, or a named
//! deviation says why not. Prose is never compared.

use std::cell::Cell;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::live::{Client, Stage, write_wav};

/// A difference on purpose: where, and why. A row that no step needs fails the test.
struct Deviation {
    file: &'static str,
    /// Where in the result; `*` stands for one segment.
    pointer: &'static str,
    reason: &'static str,
    used: Cell<bool>,
}

fn deviations() -> Vec<Deviation> {
    [
        ("12", "!code", "a malformed id is BAD_INPUT, not SDK_REJECTED"),
        ("13", "!code", "a malformed id is BAD_INPUT, not SDK_REJECTED"),
        ("13", "!refused", "a trailing segment is refused"),
        ("14", "!broken", "the recorded notes resource was cut into invalid JSON"),
        ("16", "/clips/*/color", "colours come from the table of indices"),
        ("17", "/notes/*/releaseVelocity", "a default value is not shown"),
        ("17", "/notes/*/selected", "a document keeps no view state"),
        ("17", "!refused", "duration 0 is refused"),
        ("18", "/name", "new tracks are named by position"),
        ("18", "/clipSlotCount", "slots per track equal the scene count"),
        ("18", "/mixer/volume", "gain 1, not 0.85"),
        ("18", "/mixer/panning", "centre is 0, not 0.5"),
        ("18", "/mixer/sendCount", "a new track has as many sends as the Set has returns"),
        ("18", "/tracks/*/name", "new tracks are named by position"),
        ("19", "/session/*/name", "a new clip has no name"),
        ("20", "/name", "parameter names of documents"),
        ("20", "/min", "parameter ranges of documents"),
        ("20", "/max", "parameter ranges of documents"),
        ("20", "/defaultValue", "never known from a document"),
        ("20", "/params/*/name", "parameter names of documents"),
        ("20", "/params/*/defaultValue", "never known from a document"),
        ("20", "/clips/*/filePath", "the sample lies beside the Set, so that it can be rendered"),
        ("21", "/clips/*/color", "colours come from the table of indices"),
        ("21", "/params/*/name", "parameter names of documents"),
        ("21", "/params/*/defaultValue", "never known from a document"),
        ("22", "/path", "renders lie in the home"),
        ("22", "/note", "prose"),
        ("30", "/clips/*/filePath", "the sample lies beside the Set, so that it can be rendered"),
        ("30", "/clips/*/color", "colours come from the table of indices"),
        ("30", "/params/*/name", "parameter names of documents"),
        ("30", "/params/*/defaultValue", "never known from a document"),
    ]
    .map(|(file, pointer, reason)| Deviation { file, pointer, reason, used: Cell::new(false) })
    .into()
}

fn allowed(list: &[Deviation], file: &str, pointer: &str) -> bool {
    let fits = |pattern: &str| {
        let (a, b): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), pointer.split('/').collect());
        a.len() == b.len() && a.iter().zip(b).all(|(p, s)| *p == "*" || *p == s)
    };
    let found = list.iter().find(|it| file.starts_with(it.file) && fits(it.pointer));
    found.inspect(|it| it.used.set(true)).is_some()
}

/// Where `ours` is not a superset of `recorded`. Lists of objects are matched by their id, other lists as a whole.
fn gaps(recorded: &Value, ours: &Value, at: &str, out: &mut Vec<String>) {
    match (recorded, ours) {
        (Value::Object(want), Value::Object(have)) => {
            for (key, value) in want {
                match have.get(key) {
                    Some(found) => gaps(value, found, &format!("{at}/{key}"), out),
                    None => out.push(format!("{at}/{key}")),
                }
            }
        }
        (Value::Array(want), Value::Array(have)) if want.iter().any(Value::is_object) => {
            let id =
                |v: &Value| ["id", "slotId", "clipId"].iter().find_map(|k| v.get(*k).filter(|v| !v.is_null()).cloned());
            for (n, value) in want.iter().enumerate() {
                let found = match id(value) {
                    Some(wanted) => have.iter().find(|v| id(v).as_ref() == Some(&wanted)),
                    None => have.get(n),
                };
                match found {
                    Some(found) => gaps(value, found, &format!("{at}/{n}"), out),
                    None => out.push(format!("{at}/{n}")),
                }
            }
        }
        (Value::Number(want), Value::Number(have)) if want.as_f64() == have.as_f64() => {}
        (want, have) if want == have => {}
        (_, _) => out.push(at.to_owned()),
    }
}

#[expect(clippy::disallowed_methods, reason = "where the recordings lie is told by the environment")]
#[expect(clippy::print_stderr, reason = "a skip says why")]
fn recordings() -> Option<PathBuf> {
    let folder = std::env::var_os("CONDUCTOR_LIVE_DATA").map(|it| PathBuf::from(it).join("live-golden"));
    if folder.is_none() {
        eprintln!("SKIP recorded exchanges: CONDUCTOR_LIVE_DATA is not set");
    }
    folder
}

fn steps_of(path: &PathBuf) -> Vec<Value> {
    let recorded: Value = serde_json::from_slice(&std::fs::read(path).expect("a recording")).expect("JSON");
    if let Value::Array(steps) = recorded { steps } else { vec![recorded] }
}

/// A schema without words for people, and without the inputs that only we have.
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
    let Some(folder) = recordings() else { return };
    let stage = Stage::new();
    let mut client = stage.client().await;
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
}

async fn step(client: &mut Client, params: &Value) -> Result<Value, String> {
    if let Some(uri) = params["uri"].as_str() {
        let reply = client.line.request("resources/read", json!({ "uri": uri })).await;
        return match reply["result"]["contents"][0]["text"].as_str() {
            Some(text) => Ok(serde_json::from_str(text).expect("a resource is JSON")),
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
    let Some(folder) = recordings() else { return };
    let list = deviations();
    let (mut compared, mut failures) = (0, Vec::new());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).expect("a folder").flatten().map(|it| it.path()).collect();
    files.sort();
    for path in files {
        let file = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        // Below 10 are lists, 31 and 40 are prompts and the protocol.
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
                        assert!(step(&mut client, params).await.is_ok() && allowed(&list, &file, "!broken"), "{what}");
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
                    let left: Vec<_> = found.into_iter().filter(|it| !allowed(&list, &file, it)).collect();
                    if !left.is_empty() {
                        failures.push(format!("{what}\n  differs at {left:?}\n  ours {ours}\n  theirs {theirs}"));
                    }
                }
                (Err(ours), Err(theirs)) => {
                    if theirs.as_ref().is_some_and(|it| *it != ours) && !allowed(&list, &file, "!code") {
                        failures.push(format!("{what}\n  {ours} for {theirs:?}"));
                    }
                }
                (Err(ours), Ok(_)) => {
                    if !allowed(&list, &file, "!refused") {
                        failures.push(format!("{what}\n  refused: {ours}"));
                    }
                }
                (Ok(ours), Err(theirs)) => failures.push(format!("{what}\n  {theirs:?} was refused, here: {ours}")),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(compared >= 100, "only {compared} steps were compared");
    let unused: Vec<_> = list.iter().filter(|it| !it.used.get()).map(|it| (it.file, it.pointer, it.reason)).collect();
    assert!(unused.is_empty(), "deviations that nothing needs: {unused:?}");
}

#[test]
fn the_comparison_finds_what_is_missing() {
    let mut out = Vec::new();
    let (theirs, ours) = (
        json!({ "a": 1, "b": [{ "id": "x", "v": 2 }], "c": [1, 2] }),
        json!({ "a": 1.0, "b": [{ "id": "x", "v": 3 }], "c": [1] }),
    );
    gaps(&theirs, &ours, "", &mut out);
    assert_eq!(out, ["/b/0/v", "/c"]);
    let schema =
        json!({ "properties": { "a": { "type": "string", "description": "x" }, "setId": {} }, "required": ["a"] });
    assert_eq!(bare(&schema, &ADDED), json!({ "properties": { "a": { "type": "string" } }, "required": ["a"] }));
}
