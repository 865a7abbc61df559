//! Complete exchanges over a line-based door: old and new protocol versions, direct tool calls, and
//! invalid messages.

use std::sync::Arc;
use std::time::Duration;

use conductor_core::config::{Mcp, OutputSchemas};
use conductor_core::error::{AuditResult, Code};
use conductor_core::policy::limits::{Limits, Rate};
use conductor_core::policy::{Policy, Tier};
use conductor_daemon::doors::mcp::McpDoor;
use conductor_daemon::doors::mcp::Shared;
use conductor_daemon::doors::mcp::connection::{self, Setup};
use conductor_daemon::doors::session::Who;
use conductor_gateway::catalog::{Definition, Tool};
use conductor_gateway::studio::Settings;
use conductor_testkit::line_client::{LineClient, modern};
use conductor_testkit::studio::{TestStudio, Written};
use conductor_testkit::tools;
use proptest::prelude::*;
use serde_json::{Value, json};

fn open() -> (TestStudio, Arc<Shared>) {
    open_with(Mcp { output_schemas: OutputSchemas::Full, ..Mcp::default() })
}

fn open_with(mcp: Mcp) -> (TestStudio, Arc<Shared>) {
    let studio = TestStudio::with(Policy::default(), Settings { mcp, ..Settings::default() });
    let shared = Shared::new(&studio.studio);
    (studio, shared)
}

fn principals(studio: &TestStudio) -> Vec<String> {
    let written = studio.journal.written();
    written
        .iter()
        .map(|it| match it {
            Written::Intent(facts) | Written::Outcome(facts, _) => facts.principal.to_string(),
        })
        .collect()
}

#[tokio::test]
async fn what_is_no_message_gets_its_exact_answer() {
    let (_studio, shared) = open();
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":{deep}}}}}"#);
    let error = |code: i32, id: &str, message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
    };
    let parse = error(-32700, "null", "Parse error");
    let version = |id| error(-32600, id, r#"Invalid Request: jsonrpc must be \"2.0\""#);
    let bad_id = error(-32600, "null", "Invalid Request: id must be a string or an integer");
    let params = |id| error(-32602, id, "Invalid params: params must be an object");
    let table: Vec<(Vec<u8>, String)> = vec![
        (b"hello".to_vec(), parse.clone()),
        (b"{".to_vec(), parse.clone()),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}".to_vec(), parse.clone()),
        (b"\xff\xfe{}".to_vec(), parse.clone()),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\x28\"}".to_vec(), parse.clone()),
        (deep.into_bytes(), parse),
        (b"[]".to_vec(), error(-32600, "null", "Batches are not supported")),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_vec(), error(-32600, "null", "Batches are not supported")),
        (b"42".to_vec(), error(-32600, "null", "Invalid Request")),
        (b"null".to_vec(), error(-32600, "null", "Invalid Request")),
        (b"{}".to_vec(), version("null")),
        (br#"{"id":7,"method":"ping"}"#.to_vec(), version("7")),
        (br#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#.to_vec(), version(r#""a""#)),
        (br#"{"jsonrpc":"2.0","id":7}"#.to_vec(), error(-32600, "7", "Invalid Request")),
        (
            br#"{"jsonrpc":"2.0","id":7,"method":5}"#.to_vec(),
            error(-32600, "7", "Invalid Request: method must be a string"),
        ),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_vec(), bad_id.clone()),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#.to_vec(), bad_id.clone()),
        (br#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#.to_vec(), bad_id),
        (br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}"#.to_vec(), params("7")),
        (br#"{"jsonrpc":"2.0","id":"x","method":"test_echo","params":"a"}"#.to_vec(), params(r#""x""#)),
        (br#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#.to_vec(), r#"{"jsonrpc":"2.0","id":8,"result":{}}"#.to_owned()),
        (b"\r".to_vec(), String::new()),
        (br#"{"jsonrpc":"2.0","method":"test_echo","params":[1]}"#.to_vec(), String::new()),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}\r".to_vec(),
            r#"{"jsonrpc":"2.0","id":9,"result":{}}"#.to_owned(),
        ),
    ];
    let mut client = LineClient::connect(&shared);
    for (mut bytes, wanted) in table {
        bytes.push(b'\n');
        client.bytes(&bytes).await;
        if wanted.is_empty() {
            continue;
        }
        assert_eq!(client.next_line().await, Some(wanted), "{}", String::from_utf8_lossy(&bytes));
    }
}

#[tokio::test]
async fn a_whole_legacy_session() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    let hello = client.initialize().await;
    let result = &hello["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(
        result["serverInfo"],
        json!({ "name": "conductor", "title": "Conductor", "version": env!("CARGO_PKG_VERSION") })
    );
    assert_eq!(
        result["capabilities"],
        json!({
            "tools": { "listChanged": true }, "resources": { "listChanged": true, "subscribe": true },
            "prompts": { "listChanged": true }, "completions": {}, "logging": {},
            "extensions": { "io.modelcontextprotocol/skills": {} }
        })
    );
    assert!(result["instructions"].as_str().is_some_and(|it| it.chars().count() <= 1800));
    let list = client.request("tools/list", json!({})).await;
    let echo =
        list["result"]["tools"].as_array().and_then(|it| it.iter().find(|it| it["name"] == "test_echo")).cloned();
    assert_eq!(
        echo,
        Some(json!({
            "name": "test_echo", "title": "test.echo", "description": "Returns its text. For tests.",
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string", "maxLength": 100000 } }, "required": ["text"], "additionalProperties": false },
            "outputSchema": {
                "type": "object",
                "anyOf": [
                    { "type": "object", "properties": { "echo": { "anyOf": [{ "type": "string" }, { "type": "null" }] } }, "required": ["echo"] },
                    { "$ref": "#/$defs/ToolError" }
                ],
                "$defs": { "ToolError": {
                    "type": "object",
                    "properties": { "code": { "type": "string" }, "message": { "type": "string" }, "hint": { "type": "string" } },
                    "required": ["code", "message", "hint"]
                } }
            },
            "annotations": { "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false },
            "_meta": { "conductor/tier": "ReadOnly", "conductor/toolset": "daemon" }
        }))
    );
    assert!(list["result"].get("ttlMs").is_none() && list["result"].get("resultType").is_none());
    assert_eq!(
        client.request("tools/call", json!({ "name": "test_echo", "arguments": { "text": "hi" } })).await["result"],
        json!({ "content": [{ "type": "text", "text": "{\"echo\":\"hi\"}" }], "structuredContent": { "echo": "hi" }, "isError": false })
    );
    let failed =
        client.request("tools/call", json!({ "name": "test.fail", "arguments": { "code": "STALE_REFERENCE" } })).await;
    assert_eq!(
        failed["result"],
        json!({
            "content": [{ "type": "text", "text": "test.fail fails on request\nRecovery: List the objects again and use a fresh id." }],
            "structuredContent": { "code": "STALE_REFERENCE", "message": "test.fail fails on request",
                "hint": "List the objects again and use a fresh id.", "subject": "the test" },
            "isError": true
        })
    );
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    assert_eq!(client.request("resources/subscribe", json!({ "uri": "test://echo" })).await["result"], json!({}));
    studio.studio.events.uri_changed("test://other");
    studio.studio.events.uri_changed("test://echo");
    assert_eq!(
        client.next().await,
        json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "test://echo" } })
    );
    assert_eq!(client.request("resources/unsubscribe", json!({ "uri": "test://echo" })).await["result"], json!({}));
    assert!(principals(&studio).iter().all(|it| it == "socket:1000/demo"));
}

#[tokio::test]
async fn a_whole_modern_session_without_initialize() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    let about = json!({ "io.modelcontextprotocol/serverInfo": { "name": "conductor", "title": "Conductor", "version": env!("CARGO_PKG_VERSION") } });
    let discover = client.request("server/discover", modern(json!({}))).await;
    let result = &discover["result"];
    assert_eq!(
        result["supportedVersions"],
        json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
    );
    assert_eq!(
        (&result["ttlMs"], &result["cacheScope"], &result["resultType"]),
        (&json!(300_000), &json!("private"), &json!("complete"))
    );
    assert_eq!(result["_meta"], about);
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        let list = client.request(method, modern(json!({}))).await;
        let result = &list["result"];
        assert_eq!(
            (&result["ttlMs"], &result["cacheScope"], &result["resultType"]),
            (&json!(60_000), &json!("private"), &json!("complete")),
            "{method}"
        );
        assert_eq!(result["_meta"], about, "{method}");
    }
    assert_eq!(
        client.request("tools/call", modern(json!({ "name": "test_echo", "arguments": { "text": "hi" } }))).await["result"],
        json!({
            "resultType": "complete", "content": [{ "type": "text", "text": "{\"echo\":\"hi\"}" }],
            "structuredContent": { "echo": "hi" }, "isError": false, "_meta": about
        })
    );
    let read = client.request("resources/read", modern(json!({ "uri": "test://echo/a%2Fb" }))).await;
    assert_eq!(
        read["result"],
        json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": about,
            "contents": [{ "uri": "test://echo/a%2Fb", "mimeType": "application/json", "text": "{\"echo\":\"a/b\"}" }]
        })
    );
    let listen = client
        .start(
            "subscriptions/listen",
            modern(
                json!({ "notifications": { "promptsListChanged": true, "resourceSubscriptions": ["test://echo"] } }),
            ),
        )
        .await;
    let acknowledged = client.next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(listen));
    // The client subscribed to prompts, not to tools, so a change to the tools sends no
    // notification.
    studio.studio.edit_catalog(|catalog| catalog.remove(tools::PICTURE));
    studio.studio.events.uri_changed("test://echo");
    let updated = client.next().await;
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(listen));
    studio.studio.edit_catalog(|catalog| catalog.remove_prompt("say"));
    while studio.time.next_wake().is_none() {
        tokio::task::yield_now().await;
    }
    studio.time.advance(Duration::from_millis(100));
    assert_eq!(client.next().await["method"], "notifications/prompts/list_changed");
    client.notify("notifications/cancelled", modern(json!({ "requestId": listen }))).await;
    assert_eq!(client.request("tools/list", modern(json!({}))).await["result"]["resultType"], "complete");
    // A second subscription ends when the daemon stops, with a final result.
    let listen =
        client.start("subscriptions/listen", modern(json!({ "notifications": { "toolsListChanged": true } }))).await;
    assert_eq!(client.next().await["method"], "notifications/subscriptions/acknowledged");
    shared.stop.cancel();
    let last = client.reply(listen).await;
    assert_eq!(last["result"]["resultType"], "complete");
}

#[tokio::test]
async fn the_direct_dialect_works_before_between_and_after_both_eras() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    for step in 0..4 {
        assert_eq!(
            client.request("test_echo", json!({ "text": step.to_string() })).await["result"],
            json!({ "echo": step.to_string() })
        );
        match step {
            0 => assert!(client.request("tools/list", modern(json!({}))).await.get("result").is_some()),
            1 => assert!(client.initialize().await.get("result").is_some()),
            2 => assert!(client.request("tools/list", json!({})).await.get("result").is_some()),
            _ => {}
        }
    }
    assert!(client.request("tools/list", modern(json!({}))).await["result"]["ttlMs"].is_u64());
    assert!(principals(&studio).iter().all(|it| it == "socket:1000/direct"));
    // Direct calls: with both forms of a name, without parameters, and with a picture in addition
    // to the value. A notification must not run a tool.
    assert_eq!(client.request("test.echo", json!({ "text": "x" })).await["result"], json!({ "echo": "x" }));
    let picture = client.request("test_picture", json!({})).await;
    assert_eq!(picture["result"]["content"], json!([{ "type": "image", "data": "AAAA", "mimeType": "image/png" }]));
    client.line(r#"{"jsonrpc":"2.0","id":"p","method":"test_picture"}"#).await;
    assert_eq!(client.next().await["result"]["width"], 1);
    let before = studio.runs.of(tools::SET);
    client.notify("test_set", json!({ "text": "x" })).await;
    client.request("ping", json!({})).await;
    assert_eq!(studio.runs.of(tools::SET), before);
}

#[tokio::test]
async fn neither_handshake_nor_version_is_refused_by_name_of_both_ways_in() {
    let (_studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    for method in ["tools/list", "server/discover", "resources/list", "subscriptions/listen", "logging/setLevel"] {
        let params = match method {
            "subscriptions/listen" => json!({ "notifications": {} }),
            "logging/setLevel" => json!({ "level": "info" }),
            _ => json!({}),
        };
        let error = client.request(method, params).await["error"].clone();
        assert_eq!(error["code"], -32602, "{method}");
        let text = error["message"].as_str().unwrap_or_default();
        assert!(text.contains("initialize") && text.contains("_meta"), "{text}");
    }
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn eras_have_their_own_methods() {
    let (_studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    let code = |reply: &Value| reply["error"]["code"].as_i64();
    for (method, params) in [
        ("ping", json!({})),
        ("logging/setLevel", json!({ "level": "info" })),
        ("resources/subscribe", json!({ "uri": "test://echo" })),
        (
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } }),
        ),
        ("tasks/get", json!({ "taskId": "x" })),
    ] {
        assert_eq!(code(&client.request(method, modern(params)).await), Some(-32601), "{method}");
    }
    assert_eq!(code(&client.request("subscriptions/listen", json!({ "notifications": {} })).await), Some(-32601));
    assert_eq!(code(&client.request("tasks/get", json!({ "taskId": "x" })).await), Some(-32601));
    let unknown = client.request("tools/list", json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2027-01-01", "io.modelcontextprotocol/clientCapabilities": {} } })).await;
    assert_eq!(code(&unknown), Some(-32022));
    assert_eq!(unknown["error"]["data"]["requested"], "2027-01-01");
    let missing = client
        .request("tools/list", json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } }))
        .await;
    assert_eq!(code(&missing), Some(-32602));
}

#[tokio::test]
async fn the_agreed_version_rules_not_the_asked_one() {
    for asked in ["1999-01-01", "2026-07-28"] {
        let (_studio, shared) = open();
        let mut client = LineClient::connect(&shared);
        let agreed = client.initialize_as(asked, json!({})).await;
        assert_eq!(agreed["result"]["protocolVersion"], "2025-11-25", "{asked}");
        let list = client.request("tools/list", json!({})).await;
        assert!(list["result"].get("ttlMs").is_none(), "{asked}: the answer does not follow the agreed version");
    }
}

#[tokio::test]
async fn unknown_tool_is_a_protocol_error_bad_input_is_not_and_both_are_recorded() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    let unknown = client.request("tools/call", json!({ "name": "test_ehco", "arguments": {} })).await;
    assert_eq!(
        (&unknown["error"]["code"], &unknown["error"]["message"]),
        (&json!(-32602), &json!("Unknown tool: test_ehco"))
    );
    assert_eq!(unknown["error"]["data"]["did_you_mean"][0], "test.echo");
    let bad = client.request("tools/call", json!({ "name": "test_echo", "arguments": { "text": 5 } })).await;
    assert_eq!(
        (&bad["result"]["isError"], &bad["result"]["structuredContent"]["code"]),
        (&json!(true), &json!("BAD_INPUT"))
    );
    assert_eq!(bad["result"]["structuredContent"]["violations"][0]["path"], "/text");
    assert_eq!(client.request("tools/call", json!({ "arguments": {} })).await["error"]["code"], -32602);
    assert_eq!(client.request("nonsense", json!({})).await["error"]["code"], -32601);
    let results: Vec<_> = studio
        .journal
        .written()
        .into_iter()
        .filter_map(|it| match it {
            Written::Outcome(facts, outcome) => Some((facts.tool, outcome.result)),
            Written::Intent(_) => None,
        })
        .collect();
    assert_eq!(
        results,
        [
            ("test_ehco".to_owned(), AuditResult::Invalid),
            ("test.echo".to_owned(), AuditResult::Invalid),
            ("nonsense".to_owned(), AuditResult::Invalid),
        ]
    );
}

/// The documented error numbers of direct calls, independent of the product's own table.
const NUMBERS: &[(&str, i64)] = &[
    ("BAD_INPUT", -32602),
    ("NOT_FOUND", -32602),
    ("STALE_REFERENCE", -32602),
    ("WRONG_TYPE", -32602),
    ("UNSUPPORTED", -32009),
    ("SDK_REJECTED", -32008),
    ("HOST_OFFLINE", -32008),
    ("TIMEOUT", -32008),
    ("DENIED", -32006),
    ("APPROVAL_REQUIRED", -32006),
    ("PLAN_EXPIRED", -32003),
    ("PLAN_STALE", -32005),
    ("CIRCUIT_OPEN", -32010),
    ("RATE_LIMITED", -32007),
    ("PIN_MISMATCH", -32012),
    ("AUDIT_UNAVAILABLE", -32013),
    ("BUSY", -32011),
    ("INTERNAL", -32603),
];

#[tokio::test]
async fn every_code_has_its_number_in_the_direct_dialect_and_none_over_mcp() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    let known: Vec<&str> = Code::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(NUMBERS.iter().map(|it| it.0).collect::<Vec<_>>(), known);
    for (code, number) in NUMBERS {
        let direct = client.start("test_fail_effect", json!({ "code": code })).await;
        let direct = client.reply(direct).await;
        studio.studio.circuits.reset_all();
        assert_eq!(direct["error"]["code"], *number, "{code}");
        assert_eq!(direct["error"]["data"]["code"], *code);
        let mcp =
            client.request("tools/call", json!({ "name": "test_fail_effect", "arguments": { "code": code } })).await;
        studio.studio.circuits.reset_all();
        assert_eq!(mcp["result"]["structuredContent"], direct["error"]["data"]);
        assert!(mcp.get("error").is_none());
    }
}

#[tokio::test]
async fn an_id_is_used_once_at_a_time() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.line(r#"{"jsonrpc":"2.0","id":"a","method":"test_slow"}"#).await;
    studio.runs.until(tools::SLOW, 1).await;
    client.line(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).await;
    assert_eq!(
        client.next().await,
        json!({ "jsonrpc": "2.0", "id": "a", "error": { "code": -32600, "message": "id already in use" } })
    );
    studio.runs.release.notify_one();
    assert_eq!(client.next().await["result"], json!({ "released": "socket:1000/direct" }));
    client.line(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).await;
    assert_eq!(client.next().await["result"], json!({}));
}

#[tokio::test]
async fn a_line_too_long_is_told_running_calls_finish_and_the_rest_is_unharmed() {
    let (studio, shared) = open_with(Mcp { max_message_bytes: 1000, ..Mcp::default() });
    let mut other = LineClient::connect(&shared);
    let mut client = LineClient::connect(&shared);
    client.line(r#"{"jsonrpc":"2.0","id":1,"method":"test_slow"}"#).await;
    studio.runs.until(tools::SLOW, 1).await;
    client.bytes(&vec![b'x'; 1001]).await;
    assert_eq!(
        client.next().await,
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "Message too long" } })
    );
    studio.runs.release.notify_one();
    assert_eq!(client.next().await["id"], 1);
    assert_eq!(client.next_line().await, None, "the connection was not closed");
    assert_eq!(other.request("ping", json!({})).await["result"], json!({}));
    // A message of exactly the allowed length is accepted.
    let mut exact = LineClient::connect(&shared);
    let head = r#"{"jsonrpc":"2.0","id":1,"method":"test_echo","params":{"text":""#;
    let line = format!("{head}{}\"}}}}", "y".repeat(1000 - head.len() - 3));
    assert_eq!(line.len(), 1000);
    exact.line(&line).await;
    assert_eq!(exact.next().await["id"], 1);
}

#[tokio::test]
async fn the_end_of_input_cuts_no_reply_off_and_the_last_line_needs_no_newline() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"test_slow\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"test_echo\",\"params\":{\"text\":\"x\"}}").await;
    client.end().await;
    assert_eq!(client.next().await["id"], 2);
    studio.runs.until(tools::SLOW, 1).await;
    studio.runs.release.notify_one();
    assert_eq!(client.next().await["id"], 1);
    assert_eq!(client.next_line().await, None);
}

#[tokio::test]
async fn cancelling_ends_the_call_without_a_reply() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    let id = client.start("tools/call", json!({ "name": "test_slow_effect", "arguments": {} })).await;
    studio.runs.until(tools::SLOW_EFFECT, 1).await;
    client.notify("notifications/cancelled", json!({ "requestId": id, "reason": "changed my mind" })).await;
    client.notify("notifications/cancelled", json!({ "requestId": 999 })).await;
    let ping = client.start("ping", json!({})).await;
    assert_eq!(client.next().await["id"], ping, "a message arrived before the answer to the ping");
    while !studio
        .journal
        .written()
        .iter()
        .any(|it| matches!(it, Written::Outcome(_, outcome) if outcome.result == AuditResult::Cancelled))
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_done_at_once_does_not_wait_for_what_is_not() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    let slow = client.start("tools/call", json!({ "name": "test_slow", "arguments": {} })).await;
    studio.runs.until(tools::SLOW, 1).await;
    for text in ["a", "b"] {
        let id = client.start("tools/call", json!({ "name": "test_echo", "arguments": { "text": text } })).await;
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["result"]["structuredContent"]), (&json!(id), &json!({ "echo": text })));
    }
    // The id of a running call cannot be used again, whichever handler runs the call.
    client
        .send(json!({ "jsonrpc": "2.0", "id": slow, "method": "tools/call", "params": { "name": "test_echo" } }))
        .await;
    assert_eq!(client.next().await["error"]["message"], "id already in use");
    studio.runs.release.notify_one();
    assert_eq!(client.next().await["id"], slow);
}

#[tokio::test]
async fn one_that_never_stops_asking_holds_nobody_up() {
    const MANY: usize = 3000;
    let limits = Limits { read: Rate { per_minute: 1_000_000, burst: 100_000 }, ..Limits::default() };
    let studio = TestStudio::with(Policy::default(), Settings { limits, ..Settings::default() });
    let shared = Shared::new(&studio.studio);
    let mut other = LineClient::connect(&shared);
    other.initialize().await;
    let client = json!({ "name": "flood", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let mut lines = format!("{}\n", json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }));
    for id in 1..=MANY {
        let params = json!({ "name": "test_echo", "arguments": { "text": "x" } });
        lines += &format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }
    // Input is always available, and the peer accepts all output, so no read or write ever waits.
    let door = McpDoor::new(&shared, Who::Uid(1000));
    let bytes = std::io::Cursor::new(lines);
    let flooding = tokio::spawn(connection::serve(door, bytes, tokio::io::sink(), Setup::new(1 << 20)));
    studio.runs.until(tools::ECHO, 1).await;
    other.request("tools/call", json!({ "name": "test_echo", "arguments": { "text": "me too" } })).await;
    assert!(studio.runs.of(tools::ECHO) < MANY, "the call was answered only after all calls of the other connection");
    flooding.await.expect("it ends");
    assert_eq!(studio.runs.of(tools::ECHO), MANY + 1);
}

#[tokio::test]
async fn a_peer_that_is_gone_cancels_its_calls() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    // This call stops when it is cancelled; a call that does not stop would delay the door.
    client.line(r#"{"jsonrpc":"2.0","id":1,"method":"test_slow_effect"}"#).await;
    studio.runs.until(tools::SLOW_EFFECT, 1).await;
    drop(client);
    while !studio.journal.written().iter().any(|it| matches!(it, Written::Outcome(..))) {
        tokio::task::yield_now().await;
    }
    assert!(
        matches!(studio.journal.written().last(), Some(Written::Outcome(_, outcome)) if outcome.result == AuditResult::Cancelled)
    );
}

#[tokio::test]
async fn progress_and_log_only_where_asked_and_never_after_the_reply() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    let id = client
        .start("tools/call", json!({ "name": "test_slow", "arguments": {}, "_meta": { "progressToken": "t" } }))
        .await;
    let first = client.next().await;
    assert_eq!(first["params"], json!({ "progressToken": "t", "progress": 0.0, "total": 2.0, "message": "waiting" }));
    studio.runs.until(tools::SLOW, 1).await;
    studio.runs.release.notify_one();
    assert_eq!(client.next().await["params"]["progress"], 2.0);
    assert_eq!(client.next().await["id"], id);
    // Without a progress token, the next message is the reply.
    let id = client.start("tools/call", json!({ "name": "test_slow", "arguments": {} })).await;
    studio.runs.until(tools::SLOW, 2).await;
    studio.runs.release.notify_one();
    assert_eq!(client.next().await["id"], id);
    // There are no log messages until a level is set; then there is one about the retry.
    client.request("logging/setLevel", json!({ "level": "info" })).await;
    let id = client
        .start("tools/call", json!({ "name": "test_fail", "arguments": { "code": "INTERNAL", "good_from": 2 } }))
        .await;
    let log = client.next().await;
    assert_eq!(
        (&log["method"], &log["params"]["level"], &log["params"]["logger"]),
        (&json!("notifications/message"), &json!("info"), &json!("conductor"))
    );
    let wait = studio.time.until_someone_sleeps().await;
    studio.time.advance(wait.min(Duration::from_secs(2)));
    assert_eq!(client.next().await["id"], id);
}

#[tokio::test]
async fn too_many_calls_at_once_are_busy_and_a_cancel_is_still_heard() {
    let (studio, shared) = open_with(Mcp { max_in_flight: 2, ..Mcp::default() });
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    let slow = json!({ "name": "test_slow", "arguments": {} });
    let first = client.start("tools/call", slow.clone()).await;
    client.start("tools/call", slow.clone()).await;
    studio.runs.until(tools::SLOW, 2).await;
    let busy = client.request("tools/call", slow.clone()).await;
    assert_eq!(busy["result"]["structuredContent"]["code"], "BUSY");
    client.notify("notifications/cancelled", json!({ "requestId": first })).await;
    loop {
        let again = client.start("tools/call", json!({ "name": "test_echo", "arguments": { "text": "x" } })).await;
        if client.reply(again).await["result"]["isError"] == false {
            break;
        }
    }
}

#[tokio::test]
async fn hello_chooses_tools_and_spelling_once_and_first() {
    let (_studio, shared) = open();
    let names = |list: &Value| -> Vec<String> {
        list["result"]["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|it| it["name"].as_str().map(str::to_owned))
            .collect()
    };
    let mut client = LineClient::connect(&shared);
    let hello = client
        .request("conductor.hello", json!({ "v": 1, "tools": ["patch", "test.echo"], "tool_names": "dotted" }))
        .await;
    assert_eq!(hello["result"], json!({ "v": 1, "daemon": env!("CARGO_PKG_VERSION"), "took": false }));
    assert_eq!(client.request("conductor.hello", json!({ "v": 1 })).await["error"]["code"], -32601);
    client.initialize().await;
    assert_eq!(names(&client.request("tools/list", json!({})).await), ["test.echo", "test.picture"]);
    assert_eq!(
        client.request("tools/call", json!({ "name": "test_set", "arguments": { "text": "x" } })).await["error"]["code"],
        -32602
    );
    assert_eq!(
        client.request("tools/call", json!({ "name": "test_echo", "arguments": { "text": "x" } })).await["result"]["isError"],
        false
    );
    let mut bad = LineClient::connect(&shared);
    let refused = bad.request("conductor.hello", json!({ "v": 1, "tools": ["pach"] })).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert!(refused["error"]["message"].as_str().is_some_and(|it| it.contains("pach") && it.contains("patch")));
    let mut late = LineClient::connect(&shared);
    late.request("ping", json!({})).await;
    assert_eq!(late.request("conductor.hello", json!({ "v": 1 })).await["error"]["code"], -32601);
}

#[tokio::test]
async fn pages_lose_nothing_while_the_list_changes() {
    let (studio, shared) = open_with(Mcp { page_size: 3, ..Mcp::default() });
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = client.request("tools/list", params).await["result"].clone();
        for tool in page["tools"].as_array().into_iter().flatten() {
            seen.push(tool["name"].as_str().unwrap_or_default().to_owned());
        }
        if seen.len() == 3 {
            let added = Definition::new("test.zz", Tier::ReadOnly, "daemon", |_, _, _| async { Ok(json!({}).into()) })
                .text("Z", "Z.");
            let before = Definition::new("test.aa", Tier::ReadOnly, "daemon", |_, _, _| async { Ok(json!({}).into()) })
                .text("A", "A.");
            for it in [added, before] {
                studio.studio.edit_catalog(|catalog| catalog.add(Tool::new(it.clone()).expect("sound"))).expect("new");
            }
        }
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    let mut wanted: Vec<String> = studio
        .studio
        .catalog()
        .tools()
        .filter(|it| !it.hidden && it.name != "test.aa")
        .map(|it| it.safe_name().to_owned())
        .collect();
    let mut got = seen.clone();
    wanted.sort();
    got.sort();
    assert_eq!(got, wanted, "an entry is missing or occurs twice in the pages");
    for garbage in ["%%%", "", "/w"] {
        assert_eq!(
            client.request("tools/list", json!({ "cursor": garbage })).await["error"]["code"],
            -32602,
            "{garbage:?}"
        );
    }
}

#[tokio::test]
async fn skills_are_listed_and_their_digest_is_that_of_the_page() {
    let (_studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    let early = client.request("skills/list", json!({})).await;
    assert_eq!(early["error"]["code"], -32602, "the request was accepted without a handshake and a version: {early}");
    let modern_list = client.request("skills/list", modern(json!({}))).await["result"].clone();
    assert_eq!(
        (&modern_list["ttlMs"], &modern_list["cacheScope"], &modern_list["resultType"]),
        (&json!(300_000), &json!("public"), &json!("complete"))
    );
    client.initialize().await;
    let list = client.request("skills/list", json!({})).await["result"].clone();
    assert_eq!(list["skills"], modern_list["skills"]);
    assert_eq!(list.as_object().map(serde_json::Map::len), Some(1), "a legacy result has cache hints: {list}");
    let resources = client.request("resources/list", json!({})).await["result"]["resources"].clone();
    for skill in list["skills"].as_array().unwrap() {
        let uri = &skill["uri"];
        let got = client.request("skills/get", json!({ "uri": uri })).await;
        assert_eq!(&got["result"]["skill"], skill);
        let listed = resources.as_array().unwrap().iter().find(|it| it["uri"] == *uri).unwrap();
        assert_eq!(
            (&listed["name"], &listed["description"], &listed["size"]),
            (&skill["frontmatter"]["name"], &skill["frontmatter"]["description"], &skill["resources"][0]["size"])
        );
        let read = client.request("resources/read", json!({ "uri": uri })).await["result"]["contents"][0].clone();
        let text = read["text"].as_str().unwrap();
        assert_eq!(conductor_daemon::skills::digest(text.as_bytes()), skill["resources"][0]["digest"]);
        assert_eq!(
            (&read["mimeType"], text.len()),
            (&json!("text/markdown"), listed["size"].as_u64().unwrap() as usize)
        );
    }
    for wrong in [json!({ "uri": "skill://nothing/SKILL.md" }), json!({ "uri": "skill://map-a-control" }), json!({})] {
        assert_eq!(client.request("skills/get", wrong).await["error"]["code"], -32602);
    }
    assert_eq!(client.request("skills/list", json!({ "cursor": "?" })).await["error"]["code"], -32602);
}

#[tokio::test]
async fn resources_prompts_and_completion() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    let resources = client.request("resources/list", json!({})).await["result"]["resources"].clone();
    let is_skill = |it: &&Value| it["uri"].as_str().is_some_and(|it| it.starts_with("skill://"));
    let resources: Vec<&Value> = resources.as_array().unwrap().iter().filter(|it| !is_skill(it)).collect();
    assert_eq!(resources[0]["uri"], "test://echo");
    assert!(resources[0]["description"].is_string() && resources[0]["mimeType"] == "application/json");
    assert_eq!(resources.len(), 1, "the list contains templates");
    let templates = client.request("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "test://echo/{text}");
    let missing = client.request("resources/read", json!({ "uri": "test://nothing" })).await["error"].clone();
    assert_eq!((&missing["code"], &missing["data"]["uri"]), (&json!(-32002), &json!("test://nothing")));
    let modern_missing =
        client.request("resources/read", modern(json!({ "uri": "test://nothing" }))).await["error"].clone();
    assert_eq!(modern_missing["code"], -32602);
    let bad = client.request("resources/read", json!({ "uri": format!("test://echo/{}", "x".repeat(100_001)) })).await
        ["error"]
        .clone();
    assert_eq!((&bad["code"], &bad["data"]["code"]), (&json!(-32602), &json!("BAD_INPUT")));
    // The error data is the same object as in a tool result, including the subject.
    for (told, subject) in [(&missing, json!("test://nothing")), (&bad, json!("/text"))] {
        assert_eq!((&told["data"]["message"], &told["data"]["subject"]), (&told["message"], &subject), "{told}");
        assert!(told["data"]["hint"].is_string() && told["data"]["uri"].is_string(), "{told}");
    }
    client.request("resources/read", json!({ "uri": "test://echo" })).await;
    assert!(matches!(studio.journal.written().last(), Some(Written::Outcome(facts, _)) if facts.via.is_some()));
    let prompts = client.request("prompts/list", json!({})).await;
    assert_eq!(
        prompts["result"]["prompts"][0]["arguments"],
        json!([{ "name": "text", "description": "What to say", "required": true }])
    );
    let prompt = client.request("prompts/get", json!({ "name": "say", "arguments": { "text": "hi" } })).await;
    assert_eq!(
        prompt["result"]["messages"],
        json!([{ "role": "user", "content": { "type": "text", "text": "Call test.echo with \"hi\"." } }])
    );
    for (params, says) in [
        (json!({ "name": "nope" }), "Unknown prompt: nope"),
        (json!({ "name": "say" }), "Missing prompt argument: text"),
        (json!({ "name": "say", "arguments": { "text": 5 } }), "Prompt argument text must be a string"),
        (
            json!({ "name": "say", "arguments": { "text": "hi", "txet": "hi" } }),
            "Unknown prompt argument: txet; the arguments of say are: text",
        ),
    ] {
        let error = client.request("prompts/get", params).await["error"].clone();
        assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!(says)));
    }
    let complete = |reference: Value, name: &str, value: &str| json!({ "ref": reference, "argument": { "name": name, "value": value } });
    let template = json!({ "type": "ref/resource", "uri": "test://echo/{text}" });
    let values = client.request("completion/complete", complete(template.clone(), "text", "al")).await;
    assert_eq!(
        values["result"]["completion"],
        json!({ "values": ["Alpha", "alphabet"], "total": 2, "hasMore": false })
    );
    let prompt = json!({ "type": "ref/prompt", "name": "say" });
    let values = client.request("completion/complete", complete(prompt.clone(), "text", "hel")).await;
    assert_eq!(values["result"]["completion"]["values"], json!(["hello", "help", "shell"]));
    for bad in [
        complete(template, "nope", ""),
        complete(prompt, "nope", ""),
        complete(json!({ "type": "ref/prompt", "name": "nope" }), "text", ""),
    ] {
        assert_eq!(client.request("completion/complete", bad).await["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn a_burst_of_list_changes_is_one_message() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    client.request("ping", json!({})).await;
    for n in 0..50 {
        let name: &'static str = Box::leak(format!("test.n{n}").into_boxed_str());
        let tool =
            Definition::new(name, Tier::ReadOnly, "daemon", |_, _, _| async { Ok(json!({}).into()) }).text("N", "N.");
        studio.studio.edit_catalog(|catalog| catalog.add(Tool::new(tool.clone()).expect("sound"))).expect("new");
    }
    while studio.time.next_wake().is_none() {
        tokio::task::yield_now().await;
    }
    studio.time.advance(Duration::from_millis(100));
    assert_eq!(client.next().await, json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
    let ping = client.start("ping", json!({})).await;
    assert_eq!(client.next().await["id"], ping);
}

#[tokio::test]
async fn a_peer_that_never_reads_slows_nobody() {
    let (_studio, shared) = open();
    let mut deaf = LineClient::connect(&shared);
    let mut other = LineClient::connect(&shared);
    let text = "x".repeat(50_000);
    let flood = tokio::spawn(async move {
        for n in 0..400 {
            deaf.send(json!({ "jsonrpc": "2.0", "id": n, "method": "test_echo", "params": { "text": text } })).await;
        }
        deaf
    });
    for _ in 0..50 {
        assert_eq!(other.request("ping", json!({})).await["result"], json!({}));
    }
    flood.abort();
}

/// The pipe accepts only a few bytes at a time, so every write is interrupted. Every reply must
/// still be complete.
#[tokio::test]
async fn a_narrow_pipe_breaks_no_reply() {
    let (_studio, shared) = open();
    let (ours, theirs) = tokio::io::duplex(7);
    let (read, write) = tokio::io::split(theirs);
    let door = McpDoor::new(&shared, Who::Uid(1000));
    let mut client = LineClient::over(ours);
    let talk = async {
        let echo = |size: usize| json!({ "text": "x".repeat(size) });
        for round in 0..20_usize {
            let alone = client.request("test_echo", echo(round * 13)).await;
            assert_eq!(alone["result"]["echo"].as_str().map(str::len), Some(round * 13));
            let mut ids = Vec::new();
            for crowd in 0..round % 5 {
                ids.push((client.start("test_echo", echo(crowd)).await, crowd));
            }
            for (id, size) in ids {
                let reply = client.reply(id).await;
                assert_eq!(reply["result"]["echo"].as_str().map(str::len), Some(size));
            }
        }
    };
    tokio::select! {
        () = talk => {}
        () = connection::serve(door, read, write, Setup::new(1 << 20)) => panic!("the door ended too early"),
    }
}

/// A write that makes no progress ends the connection and cancels its calls. A real daemon waits
/// thirty seconds.
#[tokio::test]
async fn a_peer_that_never_reads_is_hung_up_on() {
    let (studio, shared) = open();
    // The buffer of this connection is smaller than one reply.
    let (ours, theirs) = tokio::io::duplex(1024);
    let (read, write) = tokio::io::split(theirs);
    let served = McpDoor::new(&shared, Who::Uid(1000));
    let setup = Setup { patience: Duration::from_millis(1), ..Setup::new(1 << 20) };
    let mut deaf = LineClient::over(ours);
    let door = async {
        deaf.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "test_slow" })).await;
        deaf.send(
            json!({ "jsonrpc": "2.0", "id": 2, "method": "test_echo", "params": { "text": "x".repeat(50_000) } }),
        )
        .await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = door => {}
        ended = tokio::time::timeout(Duration::from_secs(20), connection::serve(served, read, write, setup)) => {
            ended.expect("the connection was not ended in time");
        }
    }
    let mut other = LineClient::connect(&shared);
    assert_eq!(other.request("ping", json!({})).await["result"], json!({}), "another connection is not served");
    // Both calls are in the log: the call whose reply was not read, and the cancelled call.
    let results = || {
        let mut results: Vec<AuditResult> = studio
            .journal
            .written()
            .iter()
            .filter_map(|it| if let Written::Outcome(_, outcome) = it { Some(outcome.result) } else { None })
            .collect();
        results.sort_by_key(|it| it.as_str());
        results
    };
    while results().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(results(), [AuditResult::Cancelled, AuditResult::Ok]);
}

/// Resident memory of this process, in KiB.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|it| it.starts_with("VmRSS"))?.split_whitespace().nth(1)?.parse().ok()
}

#[tokio::test]
async fn idle_connections_are_cheap() {
    let (_studio, shared) = open();
    let Some(before) = resident() else { return };
    let mut clients = Vec::new();
    for _ in 0..200 {
        let mut client = LineClient::connect(&shared);
        client.request("ping", json!({})).await;
        clients.push(client);
    }
    // Both ends are in this process, including the client's buffer.
    let each = resident().unwrap_or(before).saturating_sub(before) / 200;
    // In an unoptimised build, futures are more than twice as large.
    let limit = if cfg!(debug_assertions) { 120 } else { 50 };
    assert!(each < limit, "{each} KiB per connection");
}

#[tokio::test]
async fn no_method_decides_anything() {
    let (studio, shared) = open();
    let mut client = LineClient::connect(&shared);
    client.initialize().await;
    for method in [
        "plans.apply",
        "plans_apply",
        "plan.apply",
        "plans.reject",
        "approvals.allow",
        "approvals_allow",
        "approvals.deny",
        "approve",
        "confirm",
        "llm_apply_plan",
        "llm_reject_plan",
        "circuit.reset",
        "secrets.set",
        "plugins.enable",
        "http.open",
        "console.link",
        "call",
        "conductor.approve",
        "conductor.apply",
        "control/approvals.allow",
    ] {
        let direct = client.request(method, json!({ "plan_id": "x", "planId": "x", "id": "x" })).await;
        assert_eq!(direct["error"]["code"], -32601, "{method}");
        let tool = client.request("tools/call", json!({ "name": method, "arguments": { "plan_id": "x" } })).await;
        assert_eq!(tool["error"]["code"], -32602, "{method}");
    }
    assert!(studio.runs.all().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Framing stays in sync: after any invalid bytes, a valid request is answered.
    #[test]
    fn garbage_in_any_pieces_then_a_request(garbage in prop::collection::vec(any::<u8>(), 0..400), cuts in prop::collection::vec(0usize..400, 0..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (_studio, shared) = open();
            let mut client = LineClient::connect(&shared);
            let mut bytes = garbage;
            bytes.extend_from_slice(b"\n{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"test_echo\",\"params\":{\"text\":\"x\"}}\n");
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|it| *it < bytes.len()).collect();
            cuts.sort();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                client.bytes(&bytes[from..cut]).await;
                tokio::task::yield_now().await;
                from = cut;
            }
            loop {
                let message = client.next().await;
                if message["id"] == "last" {
                    assert_eq!(message["result"], json!({ "echo": "x" }));
                    break;
                }
                assert!(message["error"]["code"].is_i64(), "a message before the answer is not an error: {message}");
            }
        });
    }
}
