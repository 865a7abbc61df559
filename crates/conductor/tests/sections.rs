//! The sections of `config.toml` that concern calls: each is written to a file, a daemon is started
//! on it, and a client at its doors notices. Some tools are added to the daemon's catalog that fail
//! and ask on request.

use conductor::app::{Daemon, Machine, Options};
use conductor::home::Home;
use conductor::log::Log;
use conductor_core::policy::{Channel, Floor};
use conductor_gateway::owner_handle::SentBy;
use conductor_gateway::tools::catalog::Tool;
use conductor_hosts::system::{Clock, RandomIds, RealClock};
use conductor_testkit::http_client::{post_modern, request, send};
use conductor_testkit::line_client::{LineClient, modern};
use conductor_testkit::real::{PATIENCE, fakelive, pd, wait_for};
use conductor_testkit::require;
use conductor_testkit::tools::{self, Runs};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

#[path = "sections/every_key.rs"]
mod every_key;
#[path = "sections/surface.rs"]
mod surface;
#[path = "sections/without.rs"]
mod without;

struct Studio {
    home: TempDir,
    daemon: Option<Daemon>,
    runs: Arc<Runs>,
    page: Page,
    log: Log,
}

/// What the daemon logged.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Studio {
    fn start(config: &str) -> Self {
        Studio::start_in(tempfile::tempdir().unwrap(), config)
    }

    fn start_in(home: TempDir, config: &str) -> Self {
        Studio::start_at(home, config, Arc::new(RealClock::new()))
    }

    fn start_at(home: TempDir, config: &str, clock: Arc<dyn Clock>) -> Self {
        Studio::start_with(Machine::default(), home, config, clock)
    }

    fn on(machine: Machine, config: &str) -> Self {
        Studio::start_with(machine, tempfile::tempdir().unwrap(), config, Arc::new(RealClock::new()))
    }

    fn start_with(machine: Machine, home: TempDir, config: &str, clock: Arc<dyn Clock>) -> Self {
        std::fs::write(home.path().join("config.toml"), without::written(config)).unwrap();
        let page = Page::default();
        let log = Log::new(clock.clone(), Box::new(page.clone()));
        let options = || Options {
            home: Home::at(home.path().to_owned()),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            log: log.clone(),
            first_config: "",
            extra_devices: Vec::new(),
        };
        if home.path().join("audit.log").exists() {
            // Another file in a home that is not new is in force only after a person accepted it.
            let daemon = Daemon::start(options()).unwrap();
            daemon.block_on(daemon.handle().accept_config(None)).unwrap();
            daemon.stop();
        }
        let daemon = Daemon::start_on(machine, options()).unwrap();
        daemon.block_on(daemon.handle().ready()).unwrap();
        let runs: Arc<Runs> = Arc::default();
        daemon.gateway().studio.edit_catalog(|catalog| {
            for definition in tools::definitions(&runs) {
                catalog.add(Tool::new(definition).unwrap()).unwrap();
            }
        });
        Studio { home, daemon: Some(daemon), runs, page, log }
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.daemon().block_on(future)
    }

    /// A client at `mcp.sock`.
    fn client(&self) -> LineClient {
        let path = self.home.path().join("mcp.sock");
        self.block_on(async { LineClient::over(UnixStream::connect(path).await.unwrap()) })
    }

    /// The error's code, or `ok`.
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
        let arguments = if [tools::FAIL, tools::FAIL_EFFECT].contains(&tool) {
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

    /// Saves the file and accepts it as a person does. A question to the owner behind it is
    /// answered when it is in force.
    fn reload(&self, config: &str) -> Vec<String> {
        self.save(config);
        let reloaded = self.block_on(self.daemon().handle().accept_config(None)).unwrap();
        self.block_on(self.daemon().handle().status()).unwrap();
        reloaded.faults
    }

    fn audit_text(&self) -> String {
        std::fs::read_to_string(self.home.path().join("audit.log")).unwrap()
    }

    fn log(&self) -> String {
        self.log.flush();
        String::from_utf8_lossy(&self.page.0.lock().unwrap()).into_owned()
    }

    fn missing(&self, backend: &str) -> Option<String> {
        let status = self.block_on(self.daemon().handle().status()).unwrap();
        status.backends.into_iter().find(|it| it.name == backend)?.reason
    }

    fn serve(&self) -> SocketAddr {
        self.block_on(self.daemon().gateway().http.open_own(None)).expect("a free port")
    }

    /// The status of an answer; 0 when there was none, as while the listener is opened anew.
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

impl Studio {
    /// Ends the daemon; its home stays for the next one.
    fn stop(mut self) -> TempDir {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
        std::mem::replace(&mut self.home, tempfile::tempdir().unwrap())
    }
}

impl Drop for Studio {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
    }
}

const DENY: &str = "[[policy.rules]]\ntool = \"test.echo\"\ndecision = \"deny\"\n";

#[test]
fn a_rule_denies_until_a_sound_file_says_otherwise() {
    let studio = Studio::start(DENY);
    let mut client = studio.client();
    assert_eq!(studio.code(&mut client, tools::ECHO), "DENIED");
    assert!(!studio.listed(&mut client).0.contains(&"test_echo".to_owned()), "denied to everyone, so not listed");
    assert_eq!(studio.code(&mut client, tools::SET), "ok");

    let faults = studio.reload("[[policy.rules]]\ntool = \"test.echo\"\ndecision = \"allowed\"\n");
    assert!(faults[0].contains("config.toml:3:12"), "{faults:?}");
    assert_eq!(studio.code(&mut client, tools::ECHO), "DENIED", "a faulty policy keeps the old one");

    assert_eq!(studio.reload("# nothing\n"), Vec::<String>::new());
    assert_eq!(studio.code(&mut client, tools::ECHO), "ok");
    assert!(studio.listed(&mut client).0.contains(&"test_echo".to_owned()));

    studio.reload("[policy]\ndefault = { Stateful = \"deny\" }\n");
    assert_eq!(studio.code(&mut client, tools::SET), "DENIED");
}

#[test]
fn each_tier_is_decided_as_the_file_says() {
    let studio = Studio::start(
        "[policy]\ndefault = { ReadOnly = \"deny\", Stateful = \"deny\", ConfigChange = \"deny\", HardwareIO = \"deny\" }\n",
    );
    let mut client = studio.client();
    for tool in [tools::ECHO, tools::SET, tools::PLAN, tools::DANGER] {
        assert_eq!(studio.code(&mut client, tool), "DENIED", "{tool}");
    }
}

#[test]
fn a_daemon_that_starts_on_a_faulty_policy_asks_before_every_effect() {
    let studio = Studio::start("[[policy.rules]]\ntool = \"test.set\"\ndecision = \"dney\"\n");
    let mut client = studio.client();
    assert_eq!(studio.code(&mut client, tools::SET), "APPROVAL_REQUIRED");
    assert_eq!(studio.code(&mut client, tools::ECHO), "ok");
    studio.reload("# nothing\n");
    assert_eq!(studio.code(&mut client, tools::SET), "ok");
}

#[test]
fn approvals_live_and_a_no_counts_as_long_as_the_file_says() {
    let studio = Studio::start("[policy.approval]\nttl_ms = 5000\n");
    let mut client = studio.client();
    let ask = |client: &mut LineClient, text: &str| studio.call(client, tools::DANGER, json!({ "text": text })).0;
    let desk = || &studio.daemon().gateway().studio.approvals;
    let questions = || desk().store().read(|pending| pending.iter().cloned().collect::<Vec<_>>());
    assert_eq!(ask(&mut client, "a"), "APPROVAL_REQUIRED");
    let first = questions().remove(0);
    assert_eq!(first.expires_at.unwrap().as_millis() - first.created_at.as_millis(), 5000);
    assert_eq!(first.channel_floor, Floor::Local);

    let no =
        |id| studio.block_on(desk().deny(&studio.daemon().gateway().studio, id, "person:1", Channel::Cli)).unwrap();
    no(first.id);
    assert_eq!(ask(&mut client, "a"), "DENIED", "the same call, soon after a no");
    studio.reload("[policy.approval]\ncooldown_ms = 0\nclient_tiers = [\"HardwareIO\"]\n");
    assert_eq!(ask(&mut client, "a"), "APPROVAL_REQUIRED", "asked again at once");
    let second = questions().into_iter().find(|it| it.id != first.id).unwrap();
    assert_eq!(second.channel_floor, Floor::Client);
    assert_ne!(second.policy_version, first.policy_version);
}

#[test]
fn limits_hold() {
    let studio =
        Studio::start("[limits]\nread = { per_minute = 1, burst = 1 }\neffect = { per_minute = 1, burst = 2 }\n");
    let mut client = studio.client();
    let reads: Vec<String> = (0..2).map(|_| studio.code(&mut client, tools::ECHO)).collect();
    assert_eq!(reads, ["ok", "RATE_LIMITED"]);
    let effects: Vec<String> = (0..3).map(|_| studio.code(&mut client, tools::SET)).collect();
    assert_eq!(effects, ["ok", "ok", "RATE_LIMITED"]);
    // Long enough for one more at the usual rates.
    pause(300);
    assert_eq!([tools::ECHO, tools::SET].map(|it| studio.code(&mut client, it)), ["RATE_LIMITED", "RATE_LIMITED"]);
    drop(studio);

    let studio = Studio::start("[limits]\nresult_bytes = 1024\npending_per_principal = 1\n");
    let mut client = studio.client();
    let long = json!({ "text": "x".repeat(2000) });
    assert_eq!(studio.call(&mut client, tools::ECHO, long.clone()).0, "UNSUPPORTED");
    assert_eq!(studio.call(&mut client, tools::DANGER, json!({ "text": "a" })).0, "APPROVAL_REQUIRED");
    assert_eq!(studio.call(&mut client, tools::DANGER, json!({ "text": "b" })).0, "BUSY");
    studio.reload("[limits]\nasks_per_minute = 1\n");
    assert_eq!(studio.call(&mut client, tools::ECHO, long).0, "ok");
    let asked = ["c", "d"].map(|text| studio.call(&mut client, tools::DANGER, json!({ "text": text })).0);
    assert_eq!(asked, ["APPROVAL_REQUIRED", "RATE_LIMITED"]);
}

#[test]
fn a_connection_and_the_whole_daemon_do_as_much_at_once_as_the_file_says() {
    let slow = || modern(json!({ "name": tools::SLOW, "arguments": {} }));
    let echo = || modern(json!({ "name": tools::ECHO, "arguments": { "text": "x" } }));
    // What a second call of the same connection and one of another connection get while the first
    // is under way.
    for (config, same, other) in
        [("[mcp]\nmax_in_flight = 1\n", true, false), ("[limits]\nin_flight = 1\n", true, true)]
    {
        let studio = Studio::start(config);
        let (mut first, mut second) = (studio.client(), studio.client());
        let busy = studio.block_on(async {
            let held = first.start("tools/call", slow()).await;
            studio.runs.until(tools::SLOW, 1).await;
            let replies = [first.request("tools/call", echo()).await, second.request("tools/call", echo()).await];
            studio.runs.release.notify_waiters();
            first.reply(held).await;
            replies.map(|it| it["result"]["structuredContent"]["code"] == "BUSY")
        });
        assert_eq!(busy, [same, other], "{config}");
    }
}

#[test]
fn circuits_trip_and_calls_are_repeated_as_often_as_the_file_says() {
    let retry = "[retry]\nattempts = 2\nbase_ms = 1\ncap_ms = 1\n";
    let studio = Studio::start(&format!(
        "{retry}[circuit]\nfailures = 2\n[circuit.tools]\n\"test.fail_effect\" = {{ failures = 1 }}\n"
    ));
    let mut client = studio.client();
    let fail: Vec<String> = (0..3).map(|_| studio.code(&mut client, tools::FAIL)).collect();
    assert_eq!(fail, ["INTERNAL", "INTERNAL", "CIRCUIT_OPEN"]);
    assert_eq!(studio.runs.of(tools::FAIL), 4, "two attempts each");
    let effect: Vec<String> = (0..2).map(|_| studio.code(&mut client, tools::FAIL_EFFECT)).collect();
    assert_eq!(effect, ["INTERNAL", "CIRCUIT_OPEN"]);

    studio.reload("[retry]\nattempts = 1\n[circuit]\nopen_ms = 1\n");
    let again = loop {
        // The probe is admitted as soon as the millisecond is over.
        let code = studio.code(&mut client, tools::FAIL);
        if code != "CIRCUIT_OPEN" {
            break code;
        }
    };
    assert_eq!((again.as_str(), studio.runs.of(tools::FAIL)), ("INTERNAL", 5));
}

#[test]
fn a_call_is_repeated_as_often_and_as_soon_as_the_file_says() {
    let took = |cap: &str| {
        let studio = Studio::start(&format!("[retry]\nattempts = 9\nbase_ms = 4\n{cap}[circuit]\nfailures = 1000\n"));
        let (mut client, clock) = (studio.client(), RealClock::new());
        let from = clock.now();
        assert_eq!(studio.code(&mut client, tools::FAIL), "INTERNAL");
        assert_eq!(studio.runs.of(tools::FAIL), 9);
        clock.now().since(from)
    };
    // Eight waits of 4 ms and a bit; or each twice as long as the one before, which is a second at
    // least.
    let (capped, doubled) = (took("cap_ms = 4\n"), took(""));
    assert!(capped * 2 < doubled, "{capped} {doubled}");
}

/// The settings of all tools, and those of one.
#[test]
fn failures_are_counted_and_a_circuit_closes_as_the_file_says() {
    for head in ["[circuit]\n", "[circuit.tools.\"test.fail\"]\n"] {
        counts_and_closes(head);
    }
}

fn counts_and_closes(head: &str) {
    let attempts = "[retry]\nattempts = 1\n";
    let bad = || json!({ "code": "INTERNAL" });
    let good = || json!({ "code": "INTERNAL", "good_from": 1 });
    let run = |config: &str, calls: &[Value]| -> Vec<String> {
        let studio = Studio::start(&format!("{attempts}{head}failures = 2\n{config}"));
        let mut client = studio.client();
        calls.iter().map(|arguments| studio.call(&mut client, tools::FAIL, arguments.clone()).0).collect()
    };
    // A success in between: two in a row are wanted, or two in a window.
    let broken_up = [bad(), good(), bad(), good()];
    let off = ["INTERNAL", "ok", "INTERNAL", "CIRCUIT_OPEN"];
    let on = ["INTERNAL", "ok", "INTERNAL", "ok"];
    assert_eq!(run("", &broken_up), off);
    assert_eq!(run("mode = \"consecutive\"\n", &broken_up), on);

    // Two failures that no window holds together.
    let studio = Studio::start(&format!("{attempts}{head}failures = 2\nwindow_ms = 1\n"));
    let mut client = studio.client();
    for _ in 0..3 {
        assert_eq!(studio.call(&mut client, tools::FAIL, bad()).0, "INTERNAL", "{head}");
        pause(20);
    }

    let studio = Studio::start(&format!("{attempts}{head}failures = 1\nopen_ms = 1\nclose_after = 2\n"));
    let mut client = studio.client();
    let state = || {
        studio.daemon().gateway().studio.circuits.list().into_iter().find(|it| it.tool == tools::FAIL).unwrap().state
    };
    assert_eq!(studio.call(&mut client, tools::FAIL, bad()).0, "INTERNAL");
    let mut probes = 0;
    for _ in 0..1000 {
        if state() == conductor_core::breaker::State::Passing {
            break;
        }
        // Refused until the millisecond is over; then each good probe counts.
        probes += u32::from(studio.call(&mut client, tools::FAIL, good()).0 == "ok");
    }
    assert_eq!(probes, 2);
}

#[test]
fn clients_see_what_the_file_says() {
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
    // A file that leaves the list as it is tells nobody.
    studio.reload(&format!("{DENY}[limits]\nin_flight = 7\n"));
    let ping = studio.block_on(legacy.request("ping", json!({})));
    assert!(ping["result"].is_object(), "{ping}");
}

/// Frames of a client of the older era that shows forms, and never answers one.
#[test]
fn a_form_nobody_answers_is_waited_for_as_long_as_the_file_says() {
    let studio = Studio::start("[mcp]\nelicitation_wait_ms = 1\n[policy.approval]\nclient_tiers = [\"HardwareIO\"]\n");
    let mut client = studio.client();
    let reply = studio.block_on(async {
        client.initialize_as("2025-11-25", json!({ "elicitation": {} })).await;
        client.request("tools/call", json!({ "name": tools::DANGER, "arguments": { "text": "x" } })).await
    });
    assert_eq!(reply["result"]["structuredContent"]["code"], "APPROVAL_REQUIRED", "{reply}");
}

#[test]
fn a_session_nobody_uses_ends_when_the_file_says() {
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
    // The stream of the session ends with it; with the default this would wait for an hour.
    let headers = [&headers[..], &[("Mcp-Session-Id", session.as_str())]].concat();
    studio.block_on(send(at, &request(at, "GET", "/mcp", &headers, "")));
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    // The stream ends a moment before the session is forgotten; in between the SDK answers 500.
    let ask = || studio.block_on(send(at, &request(at, "POST", "/mcp", &headers, &list.to_string())));
    let gone = wait_for(PATIENCE, || Some(ask()).filter(|it| it.status != 500)).expect("the session is forgotten");
    assert_eq!(gone.status, 404, "{}", gone.body);
}

#[test]
fn rules_look_at_principal_tier_and_arguments_and_raise_the_channel() {
    let studio = Studio::start(
        r#"
[policy.approval]
client_tiers = ["HardwareIO"]
[[policy.rules]]
tool = "test.danger"
args = { "/text" = "quiet" }
decision = "allow"
[[policy.rules]]
tool = "test.danger"
channel = "local"
[[policy.rules]]
principal = "socket:*"
tool = "test.echo"
decision = "deny"
[[policy.rules]]
tier = "Stateful"
decision = "ask"
"#,
    );
    let mut client = studio.client();
    let danger = |client: &mut LineClient, text: &str| studio.call(client, tools::DANGER, json!({ "text": text })).0;
    assert_eq!(danger(&mut client, "quiet"), "ok");
    assert_eq!(danger(&mut client, "loud"), "APPROVAL_REQUIRED");
    let asked =
        studio.daemon().gateway().studio.approvals.store().read(|pending| pending.iter().next().cloned()).unwrap();
    assert_eq!(asked.channel_floor, Floor::Local, "the tier alone would let the client answer");
    assert_eq!(studio.code(&mut client, tools::ECHO), "DENIED");
    assert_eq!(studio.code(&mut client, tools::SET), "APPROVAL_REQUIRED");
    let cli = conductor_gateway::pipeline::Call::new(
        conductor_core::principal::Principal::Cli { uid: 0 },
        tools::ECHO,
        json!({ "text": "x" }),
    );
    let reply = studio.block_on(conductor_gateway::pipeline::run(&studio.daemon().gateway().studio, cli));
    assert!(reply.is_ok(), "another principal may");
}

/// After a hundred refusals for speed in a row the door stops reading from that connection for a
/// while; others are served meanwhile.
#[test]
fn a_flood_is_not_listened_to_for_a_while() {
    let studio = Studio::start("[limits]\nread = { per_minute = 1, burst = 1 }\n");
    let mut quiet = studio.client();
    let paused = (0..5).any(|_| {
        let mut flood = studio.client();
        studio.block_on(async {
            let echo = |name| json!({ "name": name, "arguments": { "text": "x" } });
            flood.initialize().await;
            let mut refused = 0;
            while refused < 100 {
                let reply = flood.request("tools/call", echo(tools::ECHO)).await;
                refused += u32::from(reply["result"]["structuredContent"]["code"] == "RATE_LIMITED");
            }
            let waiting = flood.start("ping", json!({})).await;
            let mut answered = std::pin::pin!(flood.reply(waiting));
            // Twenty whole exchanges of another connection, each after the flood's ping was sent.
            let mut silent = true;
            for _ in 0..20 {
                tokio::select! {
                    biased;
                    _ = &mut answered => { silent = false; break; }
                    reply = quiet.request("ping", json!({})) => assert!(reply["result"].is_object()),
                }
            }
            if silent {
                answered.await;
            }
            silent
        })
    });
    assert!(paused, "the flood was answered as fast as everyone else, five times");
}

#[test]
fn the_log_holds_what_the_file_says() {
    let copy = tempfile::tempdir().unwrap();
    let folder: PathBuf = copy.path().join("second");
    let studio = Studio::start(&format!("[audit]\ndetail = \"full\"\ncheckpoint_records = 1\ncopy_to = {folder:?}\n"));
    let mut client = studio.client();
    studio.call(&mut client, tools::SET, json!({ "text": "in the clear" }));
    assert!(studio.audit_text().contains("in the clear"));
    studio.call(&mut client, tools::SET, json!({ "text": "y".repeat(9000) }));
    assert!(studio.audit_text().contains("\"truncated\":true") && !studio.audit_text().contains("yyyy"));
    assert!(folder.exists(), "the second copy is written");

    let records = studio.audit_text().lines().count();
    let anchored = std::fs::read_to_string(studio.home.path().join("state/checkpoints.jsonl")).unwrap().lines().count();
    assert!(anchored * 2 > records, "with one record each, checkpoints keep up: {anchored} for {records}");

    studio.reload("[audit]\ndetail = \"hash\"\n");
    studio.call(&mut client, tools::SET, json!({ "text": "as a hash" }));
    assert!(!studio.audit_text().contains("as a hash"));
}

#[test]
fn a_segment_ends_where_the_file_says() {
    let studio = Studio::start(
        "[audit]\ndetail = \"full\"\nrotate_mb = 1\n[limits]\neffect = { per_minute = 100000, burst = 10000 }\n",
    );
    let mut client = studio.client();
    let second = studio.home.path().join("audit/000002.jsonl");
    let mut calls = 0;
    while !second.exists() {
        calls += 1;
        assert!(calls < 1000, "a mebibyte was written long ago");
        assert_eq!(studio.call(&mut client, tools::SET, json!({ "text": "y".repeat(3500) })).0, "ok");
    }
    let first = std::fs::metadata(studio.home.path().join("audit/000001.jsonl")).unwrap().len();
    assert!((900_000..1_100_000).contains(&first), "{first} bytes in the first segment");
}

/// The real clock, with the calendar ten days ago.
#[derive(Debug)]
struct TenDaysAgo(RealClock);

impl Clock for TenDaysAgo {
    fn now(&self) -> conductor_core::event::Micros {
        self.0.now()
    }

    fn wall(&self) -> std::time::SystemTime {
        self.0.wall() - std::time::Duration::from_secs(10 * 24 * 3600)
    }
}

#[test]
fn segments_older_than_the_file_says_are_removed() {
    let small = "rotate_mb = 1\n[limits]\neffect = { per_minute = 100000, burst = 10000 }\n";
    let fill = |studio: &Studio, segment: &str| {
        let mut client = studio.client();
        for _ in 0..1000 {
            if studio.home.path().join("audit").join(segment).exists() {
                return;
            }
            assert_eq!(studio.call(&mut client, tools::SET, json!({ "text": "y".repeat(3500) })).0, "ok");
        }
    };
    let full = format!("[audit]\ndetail = \"full\"\n{small}");
    let old = Studio::start_at(tempfile::tempdir().unwrap(), &full, Arc::new(TenDaysAgo(RealClock::new())));
    fill(&old, "000002.jsonl");
    let home = old.stop();
    let kept = Studio::start_in(home, &full);
    assert!(kept.home.path().join("audit/000001.jsonl").exists(), "everything is kept by default");
    let home = kept.stop();
    let tidy = Studio::start_in(home, &full.replacen("[audit]\n", "[audit]\nretention_days = 1\n", 1));
    let gone = wait_for(PATIENCE, || {
        assert_eq!(tidy.code(&mut tidy.client(), tools::ECHO), "ok", "the log is looked after while it is used");
        (!tidy.home.path().join("audit/000001.jsonl").exists()).then_some(())
    });
    assert!(gone.is_some());
}

/// Far fewer records than `checkpoint_records`, and nobody calls any more: time alone makes the
/// checkpoint.
#[test]
fn a_checkpoint_is_made_when_the_file_says() {
    let studio = Studio::start("[audit]\ncheckpoint_ms = 100\n");
    assert_eq!(studio.code(&mut studio.client(), tools::SET), "ok");
    let last = studio.audit_text().lines().last().map(|it| serde_json::from_str::<Value>(it).unwrap()).unwrap();
    let anchored = || {
        let text = std::fs::read_to_string(studio.home.path().join("state/checkpoints.jsonl")).unwrap_or_default();
        text.lines().last().and_then(|it| serde_json::from_str::<Value>(it).ok()?["seq"].as_u64())
    };
    assert!(wait_for(PATIENCE, || (anchored() >= last["seq"].as_u64()).then_some(())).is_some());
}

#[test]
fn a_second_copy_that_is_required_and_cannot_be_written_stops_every_effect() {
    let place = tempfile::tempdir().unwrap();
    // A file where the folder should be: nobody can write below it, root included.
    let folder = place.path().join("file").join("second");
    std::fs::write(place.path().join("file"), "in the way").unwrap();
    for (required, code) in [(true, "AUDIT_UNAVAILABLE"), (false, "ok")] {
        let studio = Studio::start(&format!("[audit]\ncopy_to = {folder:?}\ncopy_required = {required}\n"));
        assert_eq!(studio.code(&mut studio.client(), tools::SET), code, "copy_required = {required}");
    }
}

#[test]
fn http_is_served_where_and_to_whom_the_file_says() {
    let hash = conductor_core::digest::Digest::of(b"open sesame");
    let tokens = format!("[[http.tokens]]\nname = \"ci\"\nhash = \"{hash}\"\nscopes = [\"call\"]\n");
    let head = "[http]\nbind = \"127.0.0.1:0\"\nhosts = [\"studio.example\"]\norigins = [\"https://studio.example\"]\n";
    let studio = Studio::start(&format!("{head}{tokens}"));
    let at = studio.serve();
    // A method that is not served tells a good token (405) from a bad one (401), and both from a
    // refused Host (403).
    assert_eq!(studio.knock(at, "open sesame", &[]), 405);
    assert_eq!(studio.knock(at, &studio.default_token(), &[]), 405);
    assert_eq!(studio.knock(at, "open barley", &[]), 401);
    assert_eq!(
        studio.knock(at, "open sesame", &[("Host", "studio.example"), ("Origin", "https://studio.example")]),
        405
    );
    assert_eq!(studio.knock(at, "open sesame", &[("Host", "other.example")]), 403);

    studio.reload(head);
    let gone = || {
        let served = studio.daemon().gateway().http.served();
        served.first().is_some_and(|at| studio.knock(*at, "open sesame", &[]) == 401)
    };
    wait_for(PATIENCE, || gone().then_some(())).expect("the token is gone");
    assert_eq!(studio.daemon().gateway().http.served(), [at], "a port that was picked is kept");
    assert_eq!(studio.knock(at, "open sesame", &[("Host", "studio.example")]), 401);

    // Whoever joins the daemon's own listener does not end it.
    assert_eq!(studio.block_on(studio.daemon().gateway().http.open(at)).unwrap(), at);
    studio.block_on(studio.daemon().gateway().http.close());
    assert_eq!(studio.knock(at, &studio.default_token(), &[]), 405);
    let everywhere = || studio.block_on(studio.daemon().gateway().http.open("0.0.0.0:0".parse().unwrap()));
    assert!(everywhere().is_err_and(|it| it.to_string().contains("allow_remote")));
    let observer = tokens.replace("\"call\"", "\"observe\"");
    studio.reload(&format!("{head}allow_remote = true\n{observer}"));
    wait_for(PATIENCE, || everywhere().ok()).expect("other machines are let in");
    let scoped = || {
        let served = studio.daemon().gateway().http.served();
        served.first().is_some_and(|at| studio.knock(*at, &studio.default_token(), &[]) == 405)
    };
    wait_for(PATIENCE, || scoped().then_some(())).expect("served again");
    let at = studio.daemon().gateway().http.served()[0];
    assert_eq!(studio.knock(at, "open sesame", &[]), 401, "a token that may look may not call");
}

#[test]
fn a_port_in_use_is_told_and_not_fatal() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let studio = Studio::start(&format!("[http]\nbind = \"{address}\"\n"));
    assert_eq!(studio.missing("http"), None, "nobody has asked for it yet");
    assert_eq!(studio.block_on(studio.daemon().gateway().http.open_own(None)), None);
    assert!(studio.missing("http").unwrap().contains("taken by another program"));
    assert_eq!(studio.code(&mut studio.client(), tools::ECHO), "ok");

    studio.reload("[http]\nbind = \"127.0.0.1:0\"\n");
    wait_for(PATIENCE, || studio.missing("http").is_none().then_some(())).expect("served at last");
    let at = studio.daemon().gateway().http.served()[0];
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": modern(json!({})) });
    assert_eq!(studio.block_on(post_modern(at, &ping)).status, 401, "the token of the test is not ours");
}

const PATCH: &str = r#"{"patcher":{"boxes":[{"box":{"id":"obj-1","maxclass":"newobj","text":"cycle~ 440","varname":"osc","patching_rect":[10.0,10.0,70.0,22.0],"numinlets":2,"numoutlets":1,"outlettype":["signal"]}}],"lines":[]}}"#;

/// A home with three patches, two of them opened at start.
fn patches(section: &str) -> Studio {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("patches")).unwrap();
    for name in ["a.maxpat", "b.maxpat", "c.maxpat"] {
        std::fs::write(home.path().join("patches").join(name), PATCH).unwrap();
    }
    Studio::start_in(home, &format!("schema = 1\n{section}"))
}

#[test]
fn every_key_of_patch_counts() {
    // `open` and its order, which is the order of the list.
    let studio =
        patches("[patch]\nopen = [\"b.maxpat\", \"a.maxpat\", \"none.maxpat\"]\nmax_open = 2\njournal_steps = 2\n");
    let mut client = studio.client();
    let (_, listed) = studio.call(&mut client, "list_active_patches", json!({}));
    let names: Vec<&str> =
        listed["patches"].as_array().unwrap().iter().map(|it| it["display_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "a"]);
    // `journal_steps`: two of three edits can be taken back.
    let id = listed["patches"][0]["patch_id"].clone();
    for text in ["cycle~ 1", "cycle~ 2", "cycle~ 3"] {
        studio.call(&mut client, "replace_object_text", json!({ "patch_id": id, "varname": "osc", "new_text": text }));
    }
    let (_, undone) = studio.call(&mut client, "undo_patch", json!({ "patch_id": id, "steps": 9 }));
    assert_eq!(undone["undone"].as_array().map(Vec::len), Some(2));
    // `max_open`: the clean one makes room.
    studio.call(&mut client, "open_patch", json!({ "path": "c.maxpat" }));
    let (_, listed) = studio.call(&mut client, "list_active_patches", json!({}));
    let names: Vec<&str> =
        listed["patches"].as_array().unwrap().iter().map(|it| it["display_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "c"]);

    // `roots` and `max_file_mb`.
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("far.maxpat");
    std::fs::write(&file, PATCH).unwrap();
    std::fs::write(
        elsewhere.path().join("big.pd"),
        format!("#N canvas 0 0 1 1 12;\n#X text 1 1 {};\n", "x".repeat(1 << 20)),
    )
    .unwrap();
    let far = json!({ "path": file });
    assert_eq!(studio.call(&mut client, "open_patch", far.clone()).0, "DENIED");
    let rooted = patches(&format!("[patch]\nroots = [{:?}]\nmax_file_mb = 1\njournal_mb = 1\n", elsewhere.path()));
    let mut client = rooted.client();
    assert_eq!(rooted.call(&mut client, "open_patch", far).0, "ok");
    let big = json!({ "path": elsewhere.path().join("big.pd") });
    assert_eq!(rooted.call(&mut client, "open_patch", big).0, "BAD_INPUT");
    // `journal_mb`: steps that hold more than a megabyte together are forgotten, the newest last.
    let (_, made) = rooted.call(&mut client, "create_patch", json!({ "format": "pd" }));
    let id = made["patch_id"].clone();
    for n in 0..60 {
        let edits: Vec<Value> = (0..30)
            .map(|m| json!({ "op": "add", "obj_type": "comment", "position": [m, n], "arguments": ["y".repeat(1000)] }))
            .collect();
        assert_eq!(rooted.call(&mut client, "edit_patch", json!({ "patch_id": id, "edits": edits })).0, "ok");
    }
    let (_, undone) = rooted.call(&mut client, "undo_patch", json!({ "patch_id": id, "steps": 200 }));
    let steps = undone["undone"].as_array().map_or(0, Vec::len);
    assert!((1..60).contains(&steps), "{steps}");
}

#[test]
fn every_key_of_patch_pd_counts() {
    let create = json!({ "host": "pd", "alias": "p" });
    let off = patches("");
    assert_eq!(off.call(&mut off.client(), "create_patch", create.clone()).0, "UNSUPPORTED");
    let wrong = patches("[patch.pd]\nmode = \"spawn\"\ncommand = \"/no/such/pd\"\n[retry]\nattempts = 1\n");
    let (code, body) = wrong.call(&mut wrong.client(), "create_patch", create.clone());
    assert_eq!(code, "HOST_OFFLINE");
    assert!(body["message"].as_str().unwrap().contains("/no/such/pd"), "{body}");
    let attached = patches("[patch.pd]\nmode = \"attach\"\n[retry]\nattempts = 1\n");
    std::fs::write(attached.home.path().join("patches/x.pd"), "#N canvas 0 0 1 1 12;\n").unwrap();
    let (code, body) = attached.call(&mut attached.client(), "open_patch", json!({ "path": "x.pd", "host": "pd" }));
    assert_eq!(code, "HOST_OFFLINE");
    assert!(body["hint"].as_str().unwrap().contains("bridge install pd"), "{body}");
    require!(pd::probe());
    let spawned = patches("[patch.pd]\nmode = \"spawn\"\nsleepgrain_ms = 2\n");
    let mut client = spawned.client();
    assert_eq!(spawned.call(&mut client, "create_patch", create).0, "ok");
    let (_, log) = spawned.call(&mut client, "get_console_log", json!({}));
    let started =
        log["logs"].as_array().unwrap().iter().filter_map(Value::as_str).find(|it| it.contains("starting")).unwrap();
    assert!(started.contains("\"-sleepgrain\" \"2\"") && started.contains("-noaudio"), "{started}");
    // Whether there is a sound card is the machine's affair; what Pd is asked for is ours.
    let sounding = patches("[patch.pd]\nmode = \"spawn\"\naudio = \"default\"\n[retry]\nattempts = 1\n");
    let mut client = sounding.client();
    sounding.call(&mut client, "create_patch", json!({ "host": "pd", "alias": "p" }));
    let (_, log) = sounding.call(&mut client, "get_console_log", json!({}));
    assert!(log.to_string().contains("starting") && !log.to_string().contains("-noaudio"), "{log}");
}

#[test]
fn a_knob_moves_an_attribute_of_a_patch_as_one_step() {
    let studio = patches(
        "[patch]\nopen = [\"a.maxpat\"]\n[[devices]]\nalias = \"pads\"\ndirection = \"Input\"\nloopback = true\n[[modes]]\nname = \"Default\"\n\
         [[modes.continuous]]\nid = \"size\"\nsource = { type = \"CC\", cc = 7, device = \"pads\" }\nglue = { out = [8, 48], throttle_ms = 0 }\n\
         targets = [{ type = \"PatchAttribute\", patch = \"a.maxpat\", object = \"osc\", attribute = \"fontsize\" }]\n",
    );
    let mut client = studio.client();
    let (_, listed) = studio.call(&mut client, "list_active_patches", json!({}));
    let id = listed["patches"][0]["patch_id"].clone();
    let ask = json!({ "patch_id": id, "varname": "osc", "attribute": "fontsize" });
    let mut control =
        conductor::doors::control::client::Client::connect(&studio.home.path().join("control.sock")).unwrap();
    for value in [0, 32, 64, 100, 127] {
        control.ask("send", json!({ "port": "pads hand", "messages": [[0xB0, 7, value]] })).unwrap();
    }
    let arrived = wait_for(PATIENCE, || {
        let (_, body) = studio.call(&mut client, "get_object_attribute", ask.clone());
        (body["value"] == json!(48.0)).then_some(())
    });
    assert!(arrived.is_some(), "{:?}", studio.call(&mut client, "get_object_attribute", ask.clone()));
    // All of it is one step back.
    let (_, undone) = studio.call(&mut client, "undo_patch", json!({ "patch_id": id }));
    assert_eq!((&undone["undone"], &undone["undo_depth"]), (&json!(["knob on fontsize of osc"]), &json!(0)));
    let (_, dirty) = studio.call(&mut client, "get_patch_dirty", json!({ "patch_id": id }));
    assert_eq!(dirty["dirty"], false);
}

/// The Set of the examples: three tracks, two scenes.
const SET: &[u8] = include_bytes!("../../../examples/sets/golden.als");

/// A home with a Set in it.
fn sets(config: &str) -> Studio {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("sets")).unwrap();
    for name in ["a.als", "b.als", "c.als"] {
        std::fs::write(home.path().join("sets").join(name), SET).unwrap();
    }
    Studio::start_in(home, &format!("schema = 1\n{config}"))
}

const NO_RETRY: &str = "[retry]\nattempts = 1\n";

#[test]
fn every_key_of_live_counts() {
    // `default_set`, `max_open`, `undo_depth`.
    let studio = sets("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\nmax_open = 1\nundo_depth = 2\n");
    let mut client = studio.client();
    let (_, song) = studio.call(&mut client, "live_get_song_overview", json!({}));
    assert!(song["path"].as_str().unwrap().ends_with("a.als"), "{song}");
    for bpm in [90, 91, 92] {
        assert_eq!(studio.call(&mut client, "live_set_tempo", json!({ "bpm": bpm })).0, "ok");
    }
    assert_eq!(studio.call(&mut client, "live_open_set", json!({ "path": "b.als" })).0, "BUSY");
    assert_eq!(studio.call(&mut client, "live_undo", json!({ "steps": 9 })).1["undone"], 2);
    // `file_roots`, `max_xml_mb`, `template_set`.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("far.als"), SET).unwrap();
    let far = json!({ "path": elsewhere.path().join("far.als") });
    assert_eq!(studio.call(&mut client, "live_open_set", far.clone()).0, "DENIED");
    let roots =
        format!("[live]\nhost = \"document\"\nfile_roots = [{:?}]\ntemplate_set = \"a.als\"\n", elsewhere.path());
    let rooted = sets(&roots);
    let mut client = rooted.client();
    assert_eq!(rooted.call(&mut client, "live_open_set", far).0, "ok");
    let (_, made) = rooted.call(&mut client, "live_new_set", json!({ "path": "new.als" }));
    assert_eq!((&made["trackCount"], &made["tempo"]), (&json!(3), &json!(124)), "a copy of the template: {made}");
    let folder = elsewhere.path().join("renders");
    let small = sets(&format!("[live]\nhost = \"document\"\nmax_xml_mb = 1\nrender_dir = {folder:?}\n"));
    let xml = gunzip(SET).replace("</Ableton>", &format!("{}</Ableton>", " ".repeat(2 << 20)));
    std::fs::write(small.home.path().join("sets/big.als"), gzip(xml.as_bytes())).unwrap();
    let mut client = small.client();
    let (code, body) = small.call(&mut client, "live_open_set", json!({ "path": "big.als" }));
    assert_eq!(code, "BAD_INPUT", "{body}");
    // `render_dir`: where a track goes.
    let sample = small.home.path().canonicalize().unwrap().join("sets/vox_take.wav");
    write_wav(&sample);
    let xml = gunzip(SET).replace("/audio/vox_take.wav", &sample.to_string_lossy());
    std::fs::write(small.home.path().join("sets/sung.als"), gzip(xml.as_bytes())).unwrap();
    let small = Studio::start_in(
        small.stop(),
        &format!("[live]\nhost = \"document\"\nrender_dir = {folder:?}\ndefault_set = \"sung.als\"\n"),
    );
    let render = json!({ "trackId": "track:2", "startBeat": 0, "endBeat": 8 });
    let (_, rendered) = small.call(&mut small.client(), "live_render_track", render);
    assert!(rendered["path"].as_str().is_some_and(|it| it.starts_with(folder.to_str().unwrap())), "{rendered}");
    // `host`: without a Live, what each choice means.
    let nowhere = "[live.osc]\nhost = \"127.0.0.9\"\nport = 9\nreply_port = 19\ntimeout_ms = 300\n";
    for (choice, code) in
        [("script", "HOST_OFFLINE"), ("abletonosc", "HOST_OFFLINE"), ("auto", "ok"), ("document", "ok")]
    {
        let studio = sets(&format!("{NO_RETRY}[live]\nhost = \"{choice}\"\ndefault_set = \"a.als\"\n{nowhere}"));
        let (got, body) = studio.call(&mut studio.client(), "live_get_song_overview", json!({}));
        assert_eq!(got, code, "{choice}: {body}");
        if choice == "abletonosc" {
            assert!(body["message"].as_str().unwrap().contains("127.0.0.9:9"), "the address of the file: {body}");
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    run_gzip("-c", bytes)
}

fn gunzip(bytes: &[u8]) -> String {
    String::from_utf8(run_gzip("-dc", bytes)).unwrap()
}

/// Two seconds at half scale.
fn write_wav(file: &std::path::Path) {
    let (bits_per_sample, sample_format) = (16, hound::SampleFormat::Int);
    let spec = hound::WavSpec { channels: 1, sample_rate: 8000, bits_per_sample, sample_format };
    let mut writer = hound::WavWriter::create(file, spec).unwrap();
    (0..16_000).for_each(|_| writer.write_sample(16_384_i16).unwrap());
    writer.finalize().unwrap();
}

fn run_gzip(how: &'static str, bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut child = std::process::Command::new("gzip")
        .arg(how)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    child.wait_with_output().unwrap().stdout
}

#[test]
fn the_keys_of_live_osc_and_script_count() {
    let live = require!(fakelive::osc());
    let osc = format!(
        "[live.osc]\nhost = \"127.0.0.1\"\nport = {}\nreply_port = {}\ntimeout_ms = 2000\n",
        live.port,
        free_port()
    );
    let studio = sets(&format!("{NO_RETRY}[live]\nhost = \"auto\"\n{osc}"));
    let (_, song) = studio.call(&mut studio.client(), "live_get_song_overview", json!({}));
    assert_eq!((&song["host"], &song["setId"]), (&json!("abletonosc"), &json!("live_osc")), "{song}");
    // The script comes first where it runs, and a Live that does not answer is given up after
    // `timeout_ms`.
    let studio = sets(&format!("{NO_RETRY}[live]\nhost = \"auto\"\n[live.script]\ntimeout_ms = 300\n{osc}"));
    let mut scripted = require!(fakelive::script(studio.home.path(), "12.2.0"));
    let mut client = studio.client();
    let (_, song) = studio.call(&mut client, "live_get_song_overview", json!({}));
    assert_eq!(song["host"], "script", "{song}");
    scripted.freeze();
    assert_eq!(studio.call(&mut client, "live_get_song_overview", json!({})).0, "TIMEOUT");
}

/// Three times what is usual, so that a machine that is busy does not look like it.
const LONG_MS: u64 = 6000;

/// How long it was before the answer that there is none.
fn waited_ms(studio: &Studio) -> u64 {
    let (mut client, clock) = (studio.client(), RealClock::new());
    let from = clock.now();
    let (code, body) = studio.call(&mut client, "live_get_song_overview", json!({}));
    assert_eq!(code, "TIMEOUT", "{body}");
    clock.now().since(from) / 1000
}

#[test]
fn an_abletonosc_that_does_not_answer_is_waited_for_as_long_as_the_file_says() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let osc =
        |more: String| sets(&format!("{NO_RETRY}[live]\nhost = \"abletonosc\"\n[live.osc]\nport = {port}\n{more}\n"));
    // A port that another program has is told by its number.
    let theirs = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = theirs.local_addr().unwrap().port();
    let studio = osc(format!("reply_port = {taken}"));
    let (_, body) = studio.call(&mut studio.client(), "live_get_song_overview", json!({}));
    assert!(body["message"].as_str().unwrap().contains(&format!("UDP port {taken}")), "{body}");
    let waited = waited_ms(&osc(format!("reply_port = {}\ntimeout_ms = {LONG_MS}", free_port())));
    assert!(waited >= LONG_MS, "{waited}");
}

#[test]
fn a_script_that_does_not_answer_is_waited_for_as_long_as_the_file_says() {
    let studio = sets(&format!("{NO_RETRY}[live]\nhost = \"script\"\n[live.script]\ntimeout_ms = {LONG_MS}\n"));
    let mut scripted = require!(fakelive::script(studio.home.path(), "12.2.0"));
    assert_eq!(studio.call(&mut studio.client(), "live_get_song_overview", json!({})).0, "ok");
    scripted.freeze();
    let waited = waited_ms(&studio);
    assert!(waited >= LONG_MS, "{waited}");
}

const FILES: &str = r#"
[tools.filesystem]
roots = [{ name = "studio", path = "STUDIO", write = true }, { name = "attic", path = "ATTIC" }]
[[tools.shell.commands]]
name = "show"
program = "/bin/cat"
args = ["--", "{file}"]
cwd = "studio"
effect = "read"
slots.file = { type = "path", root = "attic" }
[[tools.shell.commands]]
name = "where"
program = "/bin/pwd"
cwd = "studio"
effect = "read"
[[tools.shell.commands]]
name = "say"
program = "/bin/echo"
args = ["{count}", "{word}", "{text}"]
effect = "read"
slots.count = { type = "integer", min = 2, max = 4 }
slots.word = { type = "enum", values = ["a", "b"] }
slots.text = { type = "text", pattern = "x+" }
[[tools.shell.commands]]
name = "hang"
program = "/bin/sleep"
args = ["600"]
effect = "read"
timeout_ms = 100
[[tools.shell.commands]]
name = "env"
program = "/usr/bin/env"
effect = "read"
env = { MY_KEY = "yes" }
[[tools.shell.commands]]
name = "pinned"
program = "/bin/true"
effect = "read"
digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
"#;

#[test]
fn every_key_of_files_and_commands_counts() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [studio_at, attic_at] = folders.each_ref().map(|it| it.path().canonicalize().unwrap());
    std::fs::write(attic_at.join("note.txt"), "hello").unwrap();
    let config = FILES.replace("STUDIO", studio_at.to_str().unwrap()).replace("ATTIC", attic_at.to_str().unwrap());
    let studio = Studio::start(&config);
    let mut client = studio.client();
    // `name` and `path` of roots.
    let (code, read) = studio.call(&mut client, "filesystem_read", json!({ "root": "attic", "path": "note.txt" }));
    assert_eq!((code.as_str(), &read["content"]), ("ok", &json!("hello")), "{read}");
    // Commands run without a question where `effect` says that they only read.
    let mut run = |command: &str, args: Value| {
        let (code, body) = studio.call(&mut client, "shell_exec", json!({ "command": command, "args": args }));
        (code, body["stdout"].as_str().unwrap_or_default().trim().to_owned())
    };
    let ok = |text: &str| ("ok".to_owned(), text.to_owned());
    let refused = |code: &str| (code.to_owned(), String::new());
    assert_eq!(run("show", json!({ "file": "note.txt" })), ok("hello"));
    assert_eq!(run("where", json!({})), ok(studio_at.to_str().unwrap()));
    assert_eq!(run("say", json!({ "count": 2, "word": "a", "text": "xx" })), ok("2 a xx"));
    for wrong in [
        json!({ "count": 1, "word": "a", "text": "xx" }),
        json!({ "count": 5, "word": "a", "text": "xx" }),
        json!({ "count": 2, "word": "c", "text": "xx" }),
        json!({ "count": 2, "word": "a", "text": "xy" }),
    ] {
        assert_eq!(run("say", wrong.clone()), refused("BAD_INPUT"), "{wrong}");
    }
    assert_eq!(run("hang", json!({})), refused("TIMEOUT"));
    assert!(run("env", json!({})).1.contains("MY_KEY=yes"));
    assert_eq!(run("pinned", json!({})), refused("DENIED"));
}

/// A thread that was woken by something else before may park for no time at all.
fn pause(ms: u64) {
    wait_for(std::time::Duration::from_millis(ms), || None::<()>);
}

fn free_port() -> u16 {
    std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

const HANDS: &str = "[[devices]]\nalias = \"pads\"\ndirection = \"Input\"\nloopback = true\n[[modes]]\nname = \"Default\"\n\
    [[modes.continuous]]\nid = \"volume\"\nsource = { type = \"CC\", cc = 7, device = \"pads\" }\nglue = { throttle_ms = 0 }\n\
    targets = [{ type = \"LiveParameter\", path = \"track:0/mixer/panning\" }]\n\
    [[modes.continuous]]\nid = \"exact\"\nsource = { type = \"CC\", cc = 8, device = \"pads\" }\nglue = { out = [0.0, 0.5], throttle_ms = 0 }\n\
    targets = [{ type = \"LiveParameter\", path = \"track:1/mixer/panning\" }]\n\
    [[modes.mappings]]\nid = \"clip\"\ntrigger = { type = \"Note\", note = 36, device = \"pads\" }\n\
    action = { type = \"CallTool\", tool = \"live_fire_clip\", arguments = { clipId = \"track:1/clipslot:0/clip\" } }\n\
    [[modes.mappings]]\nid = \"scene\"\ntrigger = { type = \"Note\", note = 37, device = \"pads\" }\n\
    action = { type = \"CallTool\", tool = \"live_fire_scene\", arguments = { sceneId = \"scene:1\" } }\n";

impl Studio {
    /// The person plays this at the hand's end of the pads.
    fn hand(&self, message: [u8; 3]) {
        let handle = self.daemon().handle();
        self.block_on(handle.send("pads hand".into(), vec![message.to_vec()], SentBy::Person)).unwrap();
    }
}

#[test]
fn a_knob_turns_a_parameter_of_a_set_as_one_step() {
    let studio = sets(&format!("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n{HANDS}"));
    let mut client = studio.client();
    let panning = |client: &mut LineClient, track: usize| {
        let (_, listed) = studio.call(client, "live_list_devices", json!({ "trackId": format!("track:{track}") }));
        listed["mixer"][1]["value"].as_f64().unwrap()
    };
    assert_eq!(panning(&mut client, 0), 0.0);
    for value in [10, 40, 90, 127] {
        studio.hand([0xB0, 7, value]);
    }
    assert!(
        wait_for(PATIENCE, || (panning(&mut client, 0) == 1.0).then_some(())).is_some(),
        "0 to 1 is all of the range"
    );
    let (_, undone) = studio.call(&mut client, "live_undo", json!({}));
    assert_eq!((&undone["undone"], &undone["canUndo"]), (&json!(1), &json!(false)), "{undone}");
    assert_eq!(panning(&mut client, 0), 0.0);
    studio.hand([0xB0, 8, 127]);
    assert!(wait_for(PATIENCE, || (panning(&mut client, 1) == 0.5).then_some(())).is_some(), "`out` gives the range");
}

/// By a knob, by a tool and back again: the motor goes where the parameter stands.
#[test]
fn a_controller_shows_where_a_parameter_of_a_set_stands() {
    let row = "[[feedback]]\ndevice = \"pads\"\nout = { type = \"CC\", channel = 0, controller = 50 }\n\
               from = { type = \"LiveParameter\", path = \"track:0/mixer/panning\" }\nrange = [0, 100]\n";
    let board = HANDS.replace("direction = \"Input\"\n", "");
    let studio = sets(&format!("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n{board}"));
    let mut ear = studio.ear("pads");
    studio.reload(&format!("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n{board}{row}"));
    assert_eq!(studio.hear(&mut ear), [0xB0, 50, 50], "as the Set was saved: in the middle");
    studio.hand([0xB0, 7, 127]);
    assert_eq!(studio.hear(&mut ear), [0xB0, 50, 100]);
    assert_eq!(studio.call(&mut studio.client(), "live_undo", json!({})).0, "ok");
    assert_eq!(studio.hear(&mut ear), [0xB0, 50, 50]);
}

/// A knob that takes over waits for what somebody else set; an endless one goes on from there.
#[test]
fn a_knob_knows_where_somebody_else_put_its_parameter() {
    let board = "[[devices]]\nalias = \"pads\"\nloopback = true\n[[modes]]\nname = \"Default\"\n\
        [[modes.continuous]]\nid = \"fader\"\nsource = { type = \"CC\", cc = 7, device = \"pads\" }\n\
        glue = { takeover = \"pickup\", throttle_ms = 0 }\ntargets = [{ type = \"LiveParameter\", path = \"track:0/mixer/panning\" }]\n\
        [[modes.continuous]]\nid = \"endless\"\nsource = { type = \"Encoder\", cc = 16, device = \"pads\", mode = \"twos_complement\" }\n\
        glue = { throttle_ms = 0 }\ntargets = [{ type = \"LiveParameter\", path = \"track:1/mixer/panning\" }]\n";
    let shown = |track: u8| {
        format!(
            "[[feedback]]\ndevice = \"pads\"\nout = {{ type = \"CC\", channel = 0, controller = {} }}\n\
             from = {{ type = \"LiveParameter\", path = \"track:{track}/mixer/panning\" }}\n",
            50 + track
        )
    };
    let studio =
        sets("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n[[devices]]\nalias = \"pads\"\nloopback = true\n");
    let mut ear = studio.ear("pads");
    let config = format!("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n{board}{}{}", shown(0), shown(1));
    assert_eq!(studio.reload(&config), Vec::<String>::new());
    // What is shown has been heard by the knobs too.
    assert_eq!((studio.hear(&mut ear), studio.hear(&mut ear)), (vec![0xB0, 50, 64], vec![0xB0, 51, 64]));
    let mut client = studio.client();
    for (track, value) in [(0, 0.5), (1, -0.5)] {
        let arguments = json!({ "paramId": format!("track:{track}/mixer/panning"), "value": value });
        assert_eq!(studio.call(&mut client, "live_set_param", arguments).0, "ok");
    }
    let mut lit = [studio.hear(&mut ear), studio.hear(&mut ear)];
    lit.sort();
    assert_eq!(lit, [vec![0xB0, 50, 95], vec![0xB0, 51, 32]]);
    let mut panning = |track: usize| {
        let (_, listed) = studio.call(&mut client, "live_list_devices", json!({ "trackId": format!("track:{track}") }));
        listed["mixer"][1]["value"].as_f64().unwrap()
    };
    // Far below where it stands; then the endless knob, one detent up, whose arrival says that the
    // first was taken too.
    studio.hand([0xB0, 7, 10]);
    studio.hand([0xB0, 16, 1]);
    let arrived = wait_for(PATIENCE, || (panning(1) > -0.5).then(|| panning(1))).expect("the knob turns it");
    assert!((arrived - (-0.5 + 2.0 / 128.0)).abs() < 1e-6, "{arrived}: a detent above where it was put");
    assert_eq!(panning(0), 0.5, "the fader has not reached it");
    studio.hand([0xB0, 7, 127]);
    assert!(wait_for(PATIENCE, || (panning(0) == 1.0).then_some(())).is_some(), "crossed, and taken over");
    // A reload forgets where the knobs were, not where the parameters are, although nothing about
    // those is new by then.
    while studio.hear(&mut ear) != [0xB0, 50, 127] {}
    assert_eq!(studio.reload(&format!("{config}# again\n")), Vec::<String>::new());
    pause(1000);
    studio.hand([0xB0, 7, 20]);
    studio.hand([0xB0, 16, 1]);
    let arrived = wait_for(PATIENCE, || Some(panning(1)).filter(|it| *it != arrived)).expect("the knob turns it");
    assert!((arrived - (-0.5 + 4.0 / 128.0)).abs() < 1e-6, "{arrived}: another detent");
    assert_eq!(panning(0), 1.0, "the fader waits again");
}

#[test]
fn hands_reach_a_running_live_through_either_host() {
    for host in ["script", "abletonosc"] {
        let mut osc = require!(fakelive::osc());
        let config = format!(
            "{NO_RETRY}[live]\nhost = \"{host}\"\n[live.osc]\nport = {}\nreply_port = {}\n{HANDS}",
            osc.port,
            free_port()
        );
        let studio = sets(&config);
        let mut scripted = require!(fakelive::script(studio.home.path(), "12.2.0"));
        let live = if host == "script" { &mut scripted } else { &mut osc };
        let seen = |live: &mut fakelive::Running, what: &str, wanted: Value| {
            wait_for(PATIENCE, || (live.look(what) == wanted).then_some(())).is_some()
        };
        studio.hand([0xB0, 7, 0]);
        assert!(seen(live, "song.tracks[0].mixer_device.panning.value", json!(-1.0)), "{host}: a knob");
        studio.hand([0x90, 36, 100]);
        assert!(seen(live, "song.tracks[1].clip_slots[0].clip.is_playing", json!(true)), "{host}: a pad on a clip");
        studio.hand([0x90, 37, 100]);
        assert!(seen(live, "song.scenes[1].fired", json!(1)), "{host}: a pad on a scene");
    }
}

#[test]
fn a_fader_shows_what_a_parameter_stands_at_in_whichever_host() {
    const FADER: &str = "[[devices]]\nalias = \"faders\"\ndirection = \"Output\"\nloopback = true\n";
    const SHOWN: &str = "[[feedback]]\ndevice = \"faders\"\nout = { type = \"CC\", channel = 0, controller = 7 }\n\
        from = { type = \"LiveParameter\", path = \"track:0/mixer/panning\" }\n\
        [[feedback]]\ndevice = \"faders\"\nout = { type = \"CC\", channel = 0, controller = 8 }\n\
        from = { type = \"LiveParameter\", path = \"track:99/mixer/panning\" }\n";
    for host in ["document", "script", "abletonosc"] {
        let mut osc = require!(fakelive::osc());
        let config = format!(
            "schema = 1\n{NO_RETRY}[live]\nhost = \"{host}\"\ndefault_set = \"a.als\"\n[live.osc]\nport = {}\n\
             reply_port = {}\n{FADER}",
            osc.port,
            free_port()
        );
        let studio = sets(config.strip_prefix("schema = 1\n").unwrap());
        let mut scripted = require!(fakelive::script(studio.home.path(), "12.2.0"));
        let mut client = studio.client();
        let mut faders = studio.block_on(studio.daemon().handle().listen("faders".into())).unwrap();
        let mut shown = |value: u8| {
            let next = async { tokio::time::timeout(PATIENCE, faders.recv()).await };
            let heard = studio.block_on(next).ok().flatten();
            assert_eq!(heard, Some(vec![0xB0, 7, value]), "{host}: and nothing of a track that is not there");
        };
        assert_eq!(studio.reload(&format!("{config}{SHOWN}")), Vec::<String>::new());
        shown(64);
        let mut person = |value: f64| match host {
            "script" => scripted.run(&format!("song.tracks[0].mixer_device.panning.value = {value}")),
            "abletonosc" => osc.run(&format!("song.tracks[0].mixer_device.panning.value = {value}")),
            _ => {
                let arguments = json!({ "paramId": "track:0/mixer/panning", "value": value });
                assert_eq!(studio.call(&mut client, "live_set_param", arguments).0, "ok");
            }
        };
        person(1.0);
        shown(127);
        person(-1.0);
        shown(0);
    }
}

#[test]
fn doctor_says_which_of_port_script_version_or_permission_is_wrong() {
    let examine = |studio: &Studio| {
        let found = studio.block_on(studio.daemon().gateway().live.examine());
        serde_json::to_value(found).unwrap()
    };
    let of = |found: &Value, check: &str, word: &str| {
        let all = found.as_array().unwrap();
        all.iter().any(|it| {
            it["check"] == check
                && it["detail"].as_str().unwrap().contains(word)
                && (it["grade"] == "ok" || it["cure"].is_string())
        })
    };
    let alone = sets("[live]\nhost = \"auto\"\nfile_roots = [\"/no/such/folder\"]\n[live.osc]\nport = 1\n");
    let found = examine(&alone);
    assert!(of(&found, "live files", "/no/such/folder") && of(&found, "live script", "not running"), "{found}");
    assert!(of(&found, "abletonosc", "script: nothing listens"), "{found}");
    // The port that answers go to is taken.
    let live = require!(fakelive::osc());
    let taken = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let busy = sets(&format!("[live.osc]\nport = {}\nreply_port = {port}\n", live.port));
    assert!(of(&examine(&busy), "abletonosc", "port: UDP port"), "{}", examine(&busy));
    drop(taken);
    let found = examine(&busy);
    assert!(of(&found, "abletonosc", "Live 12.2 answers") && of(&found, "abletonosc", "permission:"), "{found}");
    // An old Live.
    let old = require!(fakelive::start(&["osc", "--live", "10.1.0"]));
    let studio = sets(&format!("[live.osc]\nport = {}\nreply_port = {}\n", old.port, free_port()));
    assert!(of(&examine(&studio), "abletonosc", "version: Live 10.1"), "{}", examine(&studio));
    // The script: fine, then with a file that others may read.
    let scripted = require!(fakelive::script(studio.home.path(), "12.2.0"));
    assert!(of(&examine(&studio), "live script", "Live 12.2.0"), "{}", examine(&studio));
    use std::os::unix::fs::PermissionsExt;
    let file = studio.home.path().join("state/live-script.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(of(&examine(&studio), "live script", "permission:"), "{}", examine(&studio));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    scripted.crash();
    assert!(of(&examine(&studio), "live script", "nothing listens on port"), "{}", examine(&studio));
}

#[test]
fn every_key_of_patch_max_counts() {
    let create = json!({ "host": "max", "alias": "p" });
    let off = patches("[patch.max]\nenabled = false\n");
    assert_eq!(off.call(&mut off.client(), "create_patch", create.clone()).0, "UNSUPPORTED");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let on = patches(&format!("[patch.max]\nenabled = true\nport = {free}\n[retry]\nattempts = 1\n"));
    let (code, body) = on.call(&mut on.client(), "create_patch", create);
    assert_eq!(code, "HOST_OFFLINE");
    assert!(body["hint"].as_str().unwrap().contains("bridge install max"), "{body}");
    let file = on.home.path().join("state/max-bridge.json");
    let told: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(told["port"], free);
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions()) & 0o777, 0o600);
}
