//! The model's view of Conductor: views, short schemas, descriptions, and helpful errors.

use conductor_core::config::ToolView;
use conductor_daemon::doors::mcp::INSTRUCTIONS;
use conductor_gateway::catalog::views;
use conductor_testkit::daemon::TestDaemon;
use conductor_testkit::http_client::{request, send};
use conductor_testkit::line_client::{LineClient, modern};
use conductor_testkit::tokens;
use serde_json::{Value, json};

fn hello(daemon: &TestDaemon, params: Value) -> (LineClient, Value) {
    let mut client = daemon.client();
    let answer = daemon.block_on(client.request("conductor.hello", params));
    daemon.block_on(client.initialize());
    (client, answer)
}

fn listed(daemon: &TestDaemon, client: &mut LineClient) -> Vec<Value> {
    let reply = daemon.block_on(client.request("tools/list", json!({})));
    reply["result"]["tools"].as_array().unwrap_or_else(|| panic!("{reply}")).clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|it| it["name"].as_str()).collect()
}

fn code(daemon: &TestDaemon, client: &mut LineClient, tool: &str, arguments: Value) -> String {
    let reply = daemon.block_on(client.request("tools/call", json!({ "name": tool, "arguments": arguments })));
    if reply["error"].is_object() {
        return "unknown tool".to_owned();
    }
    let result = &reply["result"];
    if result["isError"] == false { "ok".to_owned() } else { result["structuredContent"]["code"].to_string() }
}

#[test]
fn a_view_shortens_the_list_and_every_tool_stays_callable() {
    let daemon = TestDaemon::start("schema = 1\n");
    let catalog = daemon.gateway().studio.catalog();
    for name in views::names() {
        assert!(catalog.get(name).is_some(), "{name} is in a view but not in the catalog");
    }
    let (mut direct, (mut core, _)) = (daemon.client(), hello(&daemon, json!({ "v": 1 })));
    daemon.block_on(direct.initialize());
    let (all, short) = (listed(&daemon, &mut direct), listed(&daemon, &mut core));
    assert!(all.len() > 100, "the socket lists only {} tools", all.len());
    assert_eq!(short.len(), 24);
    assert!(short.iter().chain(&all).all(|it| it.get("outputSchema").is_none()));
    assert!(!names(&short).contains(&"conductor_get_trace"));
    assert_eq!(code(&daemon, &mut core, "conductor_get_trace", json!({})), "ok");
    let call = json!({ "tool": "conductor_get_trace", "arguments": {} });
    assert_eq!(code(&daemon, &mut core, "conductor_call_tool", call), "ok");
    for view in ToolView::ALL {
        let (mut client, _) = hello(&daemon, json!({ "v": 1, "view": view }));
        let wanted = catalog.tools().filter(|it| !it.hidden && views::lists(*view, it)).count();
        assert_eq!(listed(&daemon, &mut client).len(), wanted, "{view}");
    }
    let (_, refused) = hello(&daemon, json!({ "v": 1, "view": "cores" }));
    assert!(refused["error"]["message"].as_str().is_some_and(|it| it.contains("core, live")), "{refused}");
}

#[test]
fn removed_tools_are_gone_for_every_way_to_call_them() {
    let daemon = TestDaemon::start("schema = 1\n[[modes]]\nname = \"Default\"\n");
    let wrap = |tool: &str, arguments: Value| json!({ "tool": tool, "arguments": arguments });
    let (mut client, _) = hello(&daemon, json!({ "v": 1, "view": "all", "read_only": true }));
    let tools = listed(&daemon, &mut client);
    let writes = tools.iter().filter(|it| it["annotations"]["readOnlyHint"] == false);
    // `conductor_panic` is never removed. The other two run only tools of this toolset.
    let left = ["conductor_call_tool", "conductor_panic", "conductor_run_script"];
    assert_eq!(names(&writes.cloned().collect::<Vec<_>>()), left);
    let mode = json!({ "mode": "Default" });
    assert_eq!(code(&daemon, &mut client, "conductor_switch_mode", mode.clone()), "unknown tool");
    assert_eq!(
        code(&daemon, &mut client, "conductor_call_tool", wrap("conductor_switch_mode", mode.clone())),
        "\"NOT_FOUND\""
    );
    assert_eq!(code(&daemon, &mut client, "conductor_panic", json!({})), "ok");

    let (mut stage, _) = hello(&daemon, json!({ "v": 1, "view": "stage", "read_only": true }));
    assert_eq!(code(&daemon, &mut stage, "conductor_switch_mode", mode), "ok");
    assert!(names(&listed(&daemon, &mut stage)).contains(&"conductor_switch_mode"));

    let (mut less, _) = hello(&daemon, json!({ "v": 1, "exclude_tools": ["live", "conductor_list_modes"] }));
    let listed = listed(&daemon, &mut less);
    assert!(!names(&listed).iter().any(|it| it.starts_with("live_") || *it == "conductor_list_modes"));
    assert_eq!(code(&daemon, &mut less, "conductor_call_tool", wrap("live_list_sets", json!({}))), "\"NOT_FOUND\"");
    let found = daemon.block_on(less.request(
        "tools/call",
        json!({ "name": "conductor_find_tools", "arguments": { "query": "set the tempo", "limit": 50 } }),
    ));
    assert!(!found["result"]["structuredContent"].to_string().contains("live_"), "{found}");
}

/// Collects every argument of a schema: its place and its description.
fn arguments(schema: &Value, place: &str, found: &mut Vec<(String, Option<String>)>) {
    for (name, argument) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}/{name}");
        found.push((place.clone(), argument["description"].as_str().map(str::to_owned)));
        arguments(argument, &place, found);
    }
    let branches = ["anyOf", "oneOf", "allOf"].iter().filter_map(|it| schema[*it].as_array()).flatten();
    for inner in branches.chain(schema.get("items")) {
        arguments(inner, place, found);
    }
}

#[test]
fn every_listed_argument_is_described_briefly_and_long_schemas_are_short() {
    let daemon = TestDaemon::start("schema = 1\n");
    let mut client = daemon.client();
    daemon.block_on(client.initialize());
    let mut faults = Vec::new();
    for tool in listed(&daemon, &mut client) {
        let name = tool["name"].as_str().unwrap_or_default();
        let mut found = Vec::new();
        arguments(&tool["inputSchema"], name, &mut found);
        for (place, description) in found {
            match description {
                None => faults.push(format!("{place} has no description")),
                Some(text) if text.chars().count() > 160 => {
                    faults.push(format!("{place}: {} characters", text.chars().count()))
                }
                Some(_) => {}
            }
        }
        let cost = tokens::of_tool(&tool);
        let most = match name {
            "conductor_create_mapping" | "conductor_update_mapping" => 900,
            "edit_patch" => 700,
            _ => 1500,
        };
        if cost > most {
            faults.push(format!("{name}: {cost} tokens"));
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    assert!(INSTRUCTIONS.chars().count() <= 1800, "{}", INSTRUCTIONS.chars().count());
}

#[test]
fn an_error_of_a_short_schema_teaches_the_complete_shape() {
    let daemon = TestDaemon::start("schema = 1\n[[modes]]\nname = \"Default\"\n");
    let mut client = daemon.client();
    daemon.block_on(client.initialize());
    let mut hint = |arguments: Value| {
        let params = json!({ "name": "conductor_create_mapping", "arguments": arguments });
        let reply = daemon.block_on(client.request("tools/call", params));
        reply["result"]["structuredContent"]["hint"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    };
    let action = json!({ "type": "ModeChange", "mode": "Default" });
    let told = hint(json!({ "mode": "Default", "trigger": { "type": "LongPress", "note": 300 }, "action": action }));
    assert!(told.contains("duration_ms?: ") && told.contains("note?: 0..127"), "{told}");
    let told = hint(json!({ "mode": "Default", "trigger": { "type": "Knob" }, "action": action }));
    assert!(told.contains("LongPress") && told.contains("EncoderTurn"), "{told}");
    let params = json!({ "name": "conductor_find_tools", "arguments": { "query": "conductor_create_mapping" } });
    let found = daemon.block_on(client.request("tools/call", params))["result"]["structuredContent"].clone();
    let signature = found["tools"][0]["signature"].as_str().unwrap_or_default();
    for part in ["\"EncoderTurn\"", "acceleration", "\"OscSend\"", "velocity_map"] {
        assert!(signature.contains(part), "{part}: {signature}");
    }
    assert!(tokens::count(signature) < 3000, "{}", tokens::count(signature));
}

#[test]
fn without_a_query_the_sets_are_listed() {
    let daemon = TestDaemon::start("schema = 1\n");
    let mut client = daemon.client();
    daemon.block_on(client.initialize());
    let mut find = |arguments: Value| {
        let params = json!({ "name": "conductor_find_tools", "arguments": arguments });
        daemon.block_on(client.request("tools/call", params))["result"]["structuredContent"].clone()
    };
    let map = find(json!({}));
    assert_eq!((&map["tools"], &map["sets"][1]["set"]), (&json!([]), &json!("live")));
    let live = find(json!({ "set": "live" }));
    assert!(live["tools"].as_array().is_some_and(|it| it.len() > 25), "{live}");
    let nothing = find(json!({ "query": "zzzzqqqq" }));
    assert!(nothing["tools"] == json!([]) && nothing["sets"].is_array(), "{nothing}");
    let typo = find(json!({ "query": "chnage the tmepo", "limit": 3 }));
    assert_eq!(typo["tools"][0]["name"], "live_set_tempo", "{typo}");
    let other = find(json!({ "query": "tempo change the", "limit": 3 }));
    assert_eq!(other["tools"][0]["name"], "live_set_tempo", "{other}");
}

#[test]
fn a_path_over_http_selects_the_view() {
    let daemon = TestDaemon::start("schema = 1\n[http]\nbind = \"127.0.0.1:0\"\n");
    let at = daemon.block_on(daemon.gateway().http.open_own(None)).expect("the listener could not be opened");
    let token = std::fs::read_to_string(daemon.home.path().join("state/http.token")).expect("a token");
    let bearer = format!("Bearer {}", token.trim());
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": modern(json!({})) });
    let listed = |path: &str| {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
        ];
        let answer = daemon.block_on(send(at, &request(at, "POST", path, &headers, &list.to_string())));
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        (answer.status, body["result"]["tools"].as_array().cloned().unwrap_or_default())
    };
    assert_eq!(listed("/mcp").1.len(), 24, "wrong number of tools in the default view");
    assert!(listed("/mcp/x/all").1.len() > 100);
    assert_eq!(listed("/mcp/x/stage").1.len(), 8);
    let effects = |tools: Vec<Value>| {
        let effects = tools.into_iter().filter(|it| it["annotations"]["readOnlyHint"] == false);
        effects.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let all = ["conductor_call_tool", "conductor_panic", "conductor_run_script"];
    assert_eq!(effects(listed("/mcp/x/all/readonly").1), all);
    assert_eq!(effects(listed("/mcp/readonly").1), ["conductor_call_tool", "conductor_panic"]);
    let stage = ["conductor_call_tool", "conductor_panic", "conductor_switch_mode"];
    assert_eq!(effects(listed("/mcp/x/stage/readonly").1), stage);
    assert_eq!(listed("/mcp/x/nothing").0, 404);
}
