//! The page of the MCP Apps extension, over the socket.

use conductor_gateway::apps;
use conductor_testkit::daemon::TestDaemon;
use conductor_testkit::line_client::modern_with;
use serde_json::{Value, json};

const CONFIG: &str = "schema = 1\n[[modes]]\nname = \"Default\"\n";

fn ask(daemon: &TestDaemon, method: &str, params: Value, declared: Value) -> Value {
    let mut client = daemon.client();
    let capabilities = json!({ "extensions": declared });
    daemon.block_on(async move { client.request(method, modern_with(params, capabilities)).await })
}

fn declared() -> Value {
    json!({ apps::EXTENSION: { "mimeTypes": [apps::MIME] } })
}

#[test]
fn clients_that_declare_the_extension_get_a_page_for_pictures_and_plans() {
    let daemon = TestDaemon::start(CONFIG);
    let listed = |declared: Value| -> Vec<String> {
        let list = ask(&daemon, "tools/list", json!({}), declared);
        let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}")).clone();
        tools
            .iter()
            .filter(|it| it["_meta"]["ui"]["resourceUri"] == apps::URI)
            .map(|it| it["name"].to_string())
            .collect()
    };
    let shown = listed(declared());
    for tool in ["render_patch", "live_render_clip", "conductor_create_mapping", "conductor_run_script"] {
        assert!(shown.contains(&format!("{tool:?}")), "{tool}: {shown:?}");
    }
    assert_eq!(listed(json!({})), Vec::<String>::new());
    assert_eq!(listed(json!({ apps::EXTENSION: { "mimeTypes": ["text/html"] } })), Vec::<String>::new());
    let page = ask(&daemon, "resources/read", json!({ "uri": apps::URI }), declared());
    let page = &page["result"]["contents"][0];
    assert_eq!((page["mimeType"].as_str(), page["uri"].as_str()), (Some(apps::MIME), Some(apps::URI)), "{page}");
    assert_eq!(page["text"], apps::PAGE);
    assert_eq!(page["_meta"]["ui"]["csp"], json!({ "connectDomains": [], "resourceDomains": [] }));
    // For these clients only, the result of a plan contains the short id, which the page shows.
    let arguments = json!({ "mode": "Default", "trigger": { "type": "Note", "note": 9 }, "action": { "type": "Text", "text": "x" } });
    let plan = json!({ "name": "conductor_create_mapping", "arguments": arguments });
    let made = ask(&daemon, "tools/call", plan.clone(), declared());
    let id = made["result"]["structuredContent"]["plan_id"].as_str().unwrap_or_else(|| panic!("{made}"));
    let record = daemon.gateway().studio.approvals.get(id.parse().unwrap()).unwrap();
    assert_eq!(made["result"]["_meta"][apps::SHORT], record.short.to_string(), "{made}");
    let plain = ask(&daemon, "tools/call", plan, json!({}));
    assert!(plain["result"]["_meta"].get(apps::SHORT).is_none(), "{plain}");
}
