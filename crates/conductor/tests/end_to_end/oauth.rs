//! Clients that sign in through a real authorization server (oidc-provider): the SDK of MCP finds
//! the server, registers itself, obtains a token for this resource, and calls tools over TLS.

use super::studio::{Studio, text, until};
use super::team::curl;
use conductor_hosts::system::{Clock as _, RealClock};
use conductor_testkit::foreign_client::Puppet;
use conductor_testkit::mcp_process::{clients, node};
use conductor_testkit::real::{Killed, skip};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const ACCOUNT: &str = "ada@studio.example";
const SCOPES: &str = r#"
[[http.oauth.scopes]]
name = "studio.modes"
tools = ["conductor_list_modes", "conductor_list_devices"]
[[http.oauth.scopes]]
name = "studio.trace"
tools = ["conductor_get_trace"]
observe = true
"#;

/// Starts the authorization server; returns its issuer.
fn authorization_server(node: &Path, resources: &[&str]) -> (Killed, String) {
    let mut command = Command::new(node);
    command.args(["oauth_server.mjs", ACCOUNT]).args(resources).current_dir(clients());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    // The pipe stays open: the server writes notices later, and would fail on a closed pipe.
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (Killed(child), ready["issuer"].as_str().unwrap().to_owned())
}

/// A token with the signature of the authorization server, and with any claims.
fn forge(issuer: &str, header: Value, claims: &Value) -> String {
    let body = json!({ "header": header, "claims": claims }).to_string();
    let done = Command::new("curl")
        .args(["-sS", "--fail", "--max-time", "20", "-d", &body, &format!("{issuer}/forge")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    text(&done.stdout).trim().to_owned()
}

#[test]
fn clients_of_two_sdks_sign_in_and_every_other_token_is_refused() {
    let Some(node) = node() else { return };
    if !clients().join("node_modules/oidc-provider").exists() {
        return skip("oidc-provider is not installed; run crates/conductor-testkit/clients/install");
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let base = format!("https://{address}");
    let resource = format!("{base}/mcp");
    let (_server, issuer) = authorization_server(&node, &[&resource, "https://other.test/mcp"]);
    let config = format!(
        "schema = 1\n[http.tls]\nself_signed = true\n[http.oauth]\nissuer = \"{issuer}\"\naudience = \"{resource}\"\n{SCOPES}"
    );
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), config).unwrap();
    studio.up(&["--http", &address]);

    // The refusal contains the address of the metadata, and the metadata names the issuer.
    let at = |path: &str| format!("{base}{path}");
    let send = |arguments: &[&str]| {
        let mut all = vec!["-D", "-", "-w", "\n%{http_code}"];
        all.extend(arguments);
        let shown = text(&curl(&studio, &all).stdout);
        let (answer, status) = shown.rsplit_once('\n').unwrap_or_else(|| panic!("{shown}"));
        (status.to_owned(), answer.to_owned())
    };
    let (status, answer) = send(&["-d", "{}", &at("/mcp")]);
    let metadata = at("/.well-known/oauth-protected-resource/mcp");
    assert!(status == "401" && answer.contains(&format!("Bearer resource_metadata=\"{metadata}\"")), "{answer}");
    for place in [metadata.as_str(), &at("/.well-known/oauth-protected-resource")] {
        let shown = text(&curl(&studio, &[place]).stdout);
        let shown: Value = serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"));
        assert_eq!(shown["resource"], resource.as_str());
        assert_eq!(shown["authorization_servers"], json!([issuer]));
        assert_eq!(shown["scopes_supported"], json!(["studio.modes", "studio.trace"]));
    }

    // The whole sign-in with two versions of the SDK, each with its own scope.
    let certificate = studio.home().join("state/http-certificate.pem").display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let sign_in = |sdk: &str, era: &str, scope: &str, keep: &Path| {
        let (trust, program) = (format!("NODE_EXTRA_CA_CERTS={certificate}"), node.display().to_string());
        let keep = keep.to_str().unwrap();
        let mut words = vec![trust.as_str(), program.as_str(), "typescript_client.mjs", "--sdk", sdk, "--era", era];
        words.extend(["--oauth", scope, "--keep", keep, "http", &resource]);
        Puppet::start(Path::new("env"), &words)
    };
    let (modes_file, trace_file) = (folder.path().join("modes"), folder.path().join("trace"));
    let mut modes = sign_in("2", "auto", "studio.modes", &modes_file);
    let steps = modes.ask(&json!({ "do": "steps" }))["steps"].clone();
    assert_eq!(steps, json!(["registered", format!("authorize S256 {resource}"), "token"]));
    assert_eq!(modes.tools(), ["conductor_list_devices", "conductor_list_modes"]);
    assert_eq!(modes.call("conductor_list_modes", &json!({}))["failed"], false);
    let refused = modes.call("conductor_get_trace", &json!({}));
    assert_ne!(refused["failed"], false, "{refused}");
    let mut trace = sign_in("1", "legacy", "studio.trace", &trace_file);
    assert_eq!(trace.tools(), ["conductor_get_trace"]);
    assert_eq!(trace.call("conductor_get_trace", &json!({}))["failed"], false);

    // The same tokens are valid on the plain routes.
    let [modes, trace] = [modes_file, trace_file].map(|it| std::fs::read_to_string(it).unwrap());
    let with = |token: &str, arguments: &[&str]| {
        let header = format!("Authorization: Bearer {token}");
        let mut all = vec!["-H", header.as_str()];
        all.extend(arguments);
        send(&all)
    };
    assert_eq!(with(&modes, &["-d", "{}", &at("/tools/conductor_list_modes")]).0, "200");
    assert_eq!(with(&modes, &["-d", "{}", &at("/tools/conductor_get_trace")]).0, "404");
    assert_eq!(with(&trace, &[&at("/audit")]).0, "200");
    let (status, answer) = with(&modes, &[&at("/audit")]);
    assert!(status == "403" && answer.contains("insufficient_scope") && answer.contains("studio.trace"), "{answer}");

    // Tokens that the same server has signed, but that are not valid for this request.
    let now = RealClock::new().wall_ms() / 1000;
    let good = json!({ "iss": issuer, "aud": resource, "sub": ACCOUNT, "exp": now + 600, "scope": "studio.modes" });
    let changed = |key: &str, value: Value| {
        let mut claims = good.clone();
        claims[key] = value;
        forge(&issuer, json!({}), &claims)
    };
    assert_eq!(with(&forge(&issuer, json!({}), &good), &[&at("/tools")]).0, "200", "a valid forged token was refused");
    let mut parts = modes.split('.').map(str::to_owned).collect::<Vec<_>>();
    parts[2] = "AAAA".repeat(20);
    for (reason, token, expected) in [
        ("another audience", changed("aud", json!("https://other.test/mcp")), "401"),
        ("has expired", changed("exp", json!(now - 3600)), "401"),
        ("not valid yet", changed("nbf", json!(now + 3600)), "401"),
        ("another issuer", changed("iss", json!("https://login.other.test")), "401"),
        ("key id of the token is unknown", forge(&issuer, json!({ "kid": "second" }), &good), "401"),
        ("signature of the token is not valid", parts.join("."), "401"),
        // {"alg":"none"}
        ("algorithm of the token is not allowed", format!("eyJhbGciOiJub25lIn0.{}.", parts[1]), "401"),
        // {"alg":"HS256"}
        ("algorithm of the token is not allowed", format!("eyJhbGciOiJIUzI1NiJ9.{}.AAAA", parts[1]), "401"),
        ("none of the scopes", changed("scope", json!("studio.nothing")), "403"),
    ] {
        let (status, answer) = with(&token, &["-d", "{}", &at("/tools/conductor_list_modes")]);
        assert!(status == expected && answer.contains(reason), "{reason}: {status} {answer}");
        assert!(answer.to_lowercase().contains("www-authenticate: bearer resource_metadata="), "{reason}: {answer}");
        assert_eq!(with(&token, &["-d", "{}", &at("/mcp")]).0, expected, "{reason}");
    }
    // The token of this home still works.
    let own = std::fs::read_to_string(studio.home().join("state/http.token")).unwrap();
    assert_eq!(with(own.trim(), &[&at("/tools")]).0, "200");

    let log = until("the calls are recorded", || {
        let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
        log.contains("\"principal\":\"oauth:ada@studio.example\"").then_some(log)
    });
    assert!(log.contains("auth.failed") && !log.contains(&modes) && !log.contains(&parts[1]));
}
