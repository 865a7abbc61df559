//! `[mcp]`: the tools that clients list, and how long the daemon waits for clients.

use super::policy::DENY;
use super::*;

#[test]
pub(super) fn clients_see_what_the_file_says() {
    let studio = Studio::start("[mcp]\ntools = [\"test.echo\", \"conductor_panic\"]\ntool_names = \"dotted\"\n");
    let mut client = studio.client();
    assert_eq!(studio.listed(&mut client), (vec!["conductor_panic".to_owned(), "test.echo".to_owned()], false));
    studio.reload("[mcp]\npage_size = 3\n");
    let mut second = studio.client();
    let (names, more) = studio.listed(&mut second);
    assert_eq!((names.len(), more), (3, true));
    assert!(names.iter().all(|it| !it.contains('.')));
    studio.reload("[mcp]\nmax_connections = 1\nmax_message_bytes = 4096\n");
    let mut third = studio.client();
    let refused = studio.block_on(third.next());
    assert_eq!(refused["error"]["message"], "Too many connections");
    drop((client, second, third));
    studio.reload("[mcp]\nmax_message_bytes = 4096\n");
    let mut long = studio.client();
    let (told, end) = studio.block_on(async {
        long.line(&"x".repeat(5000)).await;
        (long.next().await, long.next_line().await)
    });
    assert_eq!((&told["error"]["message"], end), (&json!("Message too long"), None));
}

#[test]
pub(super) fn a_proxy_lists_the_view_of_the_file() {
    let studio = Studio::start("[mcp]\nview = \"stage\"\noutput_schemas = \"full\"\n");
    let listed = |client: &mut LineClient| {
        let reply = studio.block_on(async {
            let hello = client.request("conductor.hello", json!({ "v": 1 })).await;
            assert!(hello["result"].is_object(), "{hello}");
            client.request("tools/list", modern(json!({}))).await
        });
        reply["result"]["tools"].as_array().unwrap_or_else(|| panic!("{reply}")).clone()
    };
    let stage = listed(&mut studio.client());
    assert_eq!(stage.len(), 8, "{stage:?}");
    assert!(stage.iter().all(|it| it["outputSchema"].is_object()));
    studio.reload("[mcp]\nview = \"core\"\noutput_schemas = \"none\"\n");
    let core = listed(&mut studio.client());
    assert_eq!(core.len(), 24);
    assert!(core.iter().all(|it| it.get("outputSchema").is_none()));
}

#[test]
fn a_list_that_changed_is_told_to_both_eras() {
    let studio = Studio::start("");
    let (mut legacy, mut listening) = (studio.client(), studio.client());
    studio.block_on(async {
        legacy.initialize().await;
        legacy.request("ping", json!({})).await;
        let filter = modern(json!({ "notifications": { "toolsListChanged": true } }));
        listening.start("subscriptions/listen", filter).await;
        let told = listening.next().await;
        assert_eq!(told["method"], "notifications/subscriptions/acknowledged", "{told}");
    });
    studio.reload(DENY);
    for client in [&mut legacy, &mut listening] {
        let told = studio.block_on(client.next());
        assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    }
    // A new configuration that does not change the list causes no notification.
    studio.reload(&format!("{DENY}[limits]\nin_flight = 7\n"));
    let ping = studio.block_on(legacy.request("ping", json!({})));
    assert!(ping["result"].is_object(), "{ping}");
}

/// A legacy client declares that it can show forms, but never answers one.
#[test]
pub(super) fn a_form_nobody_answers_is_waited_for_as_long_as_the_file_says() {
    let studio = Studio::start("[mcp]\nelicitation_wait_ms = 1\n[policy.approval]\nclient_tiers = [\"HardwareIO\"]\n");
    let mut client = studio.client();
    let reply = studio.block_on(async {
        client.initialize_as("2025-11-25", json!({ "elicitation": {} })).await;
        client.request("tools/call", json!({ "name": test_tools::DANGER, "arguments": { "text": "x" } })).await
    });
    assert_eq!(reply["result"]["structuredContent"]["code"], "APPROVAL_REQUIRED", "{reply}");
}

#[test]
pub(super) fn a_session_nobody_uses_ends_when_the_file_says() {
    let studio = Studio::start("[http]\nbind = \"127.0.0.1:0\"\n[mcp]\nsession_idle_s = 1\n");
    let at = studio.serve();
    let bearer = format!("Bearer {}", studio.default_token());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "idle", "version": "1" } } });
    let begun = studio.block_on(send(at, &request(at, "POST", "/mcp", &headers, &hello.to_string())));
    let session = begun.header("mcp-session-id").expect("a session").to_owned();
    // The stream of the session ends with the session. With the default, this would wait for an
    // hour.
    let headers = [&headers[..], &[("Mcp-Session-Id", session.as_str())]].concat();
    studio.block_on(send(at, &request(at, "GET", "/mcp", &headers, "")));
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let gone = studio.block_on(send(at, &request(at, "POST", "/mcp", &headers, &list.to_string())));
    assert_eq!(gone.status, 404, "{}", gone.body);
}
