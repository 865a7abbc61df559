//! Tests every key of `config.toml` on a running daemon: each section is written to a file, a
//! daemon is started with it, and a client or a player of pads checks the effect. The daemon's
//! catalog has additional test tools, which fail or need approval on request.
//!
//! One file per section; `every_key` checks that no key is left out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod audit;
mod circuit;
mod devices;
mod every_key;
mod http;
mod limits;
mod live;
mod mcp;
mod patch;
mod policy;
mod settings;
mod surface;
mod tools;
mod without;

use conductor_core::policy::{Channel, Floor};
use conductor_daemon::app::Machine;
use conductor_gateway::catalog::Tool;
use conductor_gateway::owner_handle::SentBy;
use conductor_hosts::system::{Clock, RealClock};
use conductor_testkit::daemon::{Setup, TestDaemon};
use conductor_testkit::http_client::{post_modern, request, send};
use conductor_testkit::line_client::{LineClient, modern};
use conductor_testkit::real::{PATIENCE, fakelive, pd, wait_for};
use conductor_testkit::require;
use conductor_testkit::tools::{self as test_tools, Runs};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Studio {
    daemon: TestDaemon,
    runs: Arc<Runs>,
}

impl std::ops::Deref for Studio {
    type Target = TestDaemon;

    fn deref(&self) -> &TestDaemon {
        &self.daemon
    }
}

impl Studio {
    fn start(config: &str) -> Self {
        Studio::start_with(Setup::default(), config)
    }

    fn start_in(home: TempDir, config: &str) -> Self {
        Studio::start_with(Setup { home, ..Setup::default() }, config)
    }

    fn on(machine: Machine, config: &str) -> Self {
        Studio::start_with(Setup { machine, ..Setup::default() }, config)
    }

    fn start_with(setup: Setup, config: &str) -> Self {
        let daemon = TestDaemon::start_with(setup, &without::written(config));
        let runs: Arc<Runs> = Arc::default();
        daemon.gateway().studio.edit_catalog(|catalog| {
            for definition in test_tools::definitions(&runs) {
                catalog.add(Tool::new(definition).unwrap()).unwrap();
            }
        });
        Studio { daemon, runs }
    }

    fn stop(self) -> TempDir {
        self.daemon.stop()
    }

    /// Makes a call. Returns the error code or `ok`, and the body.
    fn call(&self, client: &mut LineClient, tool: &str, arguments: Value) -> (String, Value) {
        let params = modern(json!({ "name": tool, "arguments": arguments }));
        let reply = self.block_on(client.request("tools/call", params));
        if let Some(code) = reply["error"]["code"].as_i64() {
            return (code.to_string(), reply);
        }
        let result = &reply["result"];
        let code =
            if result["isError"] == json!(true) { result["structuredContent"]["code"].as_str().unwrap() } else { "ok" };
        (code.to_owned(), result["structuredContent"].clone())
    }

    fn code(&self, client: &mut LineClient, tool: &str) -> String {
        let arguments = if [test_tools::FAIL, test_tools::FAIL_EFFECT].contains(&tool) {
            json!({ "code": "INTERNAL" })
        } else {
            json!({ "text": "x" })
        };
        self.call(client, tool, arguments).0
    }

    fn listed(&self, client: &mut LineClient) -> (Vec<String>, bool) {
        let reply = self.block_on(client.request("tools/list", modern(json!({}))));
        let tools = reply["result"]["tools"].as_array().unwrap_or_else(|| panic!("{reply}"));
        let names = tools.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        (names, reply["result"]["nextCursor"].is_string())
    }

    fn save(&self, config: &str) {
        std::fs::write(self.home.path().join("config.toml"), without::written(config)).unwrap();
    }

    fn reload(&self, config: &str) -> Vec<String> {
        self.daemon.reload(&without::written(config))
    }

    fn audit_text(&self) -> String {
        std::fs::read_to_string(self.home.path().join("audit.log")).unwrap()
    }

    fn missing(&self, backend: &str) -> Option<String> {
        self.status().backends.into_iter().find(|it| it.name == backend)?.reason
    }

    /// Sends a message as the player of the pads.
    fn play(&self, message: &[u8]) {
        self.send("pads hand", message);
    }

    fn serve(&self) -> SocketAddr {
        self.block_on(self.gateway().http.open_own(None)).expect("the listener could not be opened")
    }

    /// The HTTP status of an answer; 0 if there was none, for example while the listener is
    /// reopened.
    fn knock(&self, at: SocketAddr, token: &str, more: &[(&str, &str)]) -> u16 {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        headers.extend_from_slice(more);
        let request = request(at, "PUT", "/mcp", &headers, "");
        let answer = self.block_on(async {
            let mut stream = TcpStream::connect(at).await.ok()?;
            stream.write_all(&request).await.ok()?;
            let mut head = Vec::new();
            stream.read_to_end(&mut head).await.ok()?;
            String::from_utf8(head).ok()?.split(' ').nth(1)?.parse().ok()
        });
        answer.unwrap_or(0)
    }

    fn default_token(&self) -> String {
        std::fs::read_to_string(self.home.path().join("state/http.token")).unwrap().trim().to_owned()
    }
}

/// Waits for the whole time. A plain park could return at once because of an earlier wake-up.
fn pause(ms: u64) {
    wait_for(std::time::Duration::from_millis(ms), || None::<()>);
}

fn free_port() -> u16 {
    std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
