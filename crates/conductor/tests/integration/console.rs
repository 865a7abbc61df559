//! The routes of the console, with a daemon in this process: access, decisions of a person, and
//! events for a page.

use conductor_core::error::{Code, RefusedBy, ToolError};
use conductor_core::event::Taint;
use conductor_core::principal::Principal;
use conductor_gateway::owner_handle::SentBy;
use conductor_gateway::pipeline::call::{ConnId, Outcome};
use conductor_gateway::pipeline::{self, Call};
use conductor_gateway::studio::Studio;
use conductor_hosts::system::{Clock, ManualClock};
use conductor_testkit::daemon::{Setup, TestDaemon};
use conductor_testkit::http_client::{Answer, request, send};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const CONFIG: &str = r#"
[[devices]]
alias = "pads"
direction = "Input"
loopback = true

[[devices]]
alias = "synth"
direction = "Output"
loopback = true

[[devices]]
alias = "rig"
direction = "Output"
loopback = true
ask_output = true

[[modes]]
name = "Default"

[[modes.mappings]]
id = "kick"
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 20, value = 1 }

[[modes.mappings]]
id = "call"
trigger = { type = "Note", note = 37, device = "pads" }
action = { type = "CallTool", tool = "conductor_panic", arguments = {} }

[[modes]]
name = "Mix"
"#;

/// Longest wait for an event, in real time. No test asserts on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon that serves the console.
struct Stage {
    daemon: TestDaemon,
    address: SocketAddr,
}

/// A page with a session.
#[derive(Clone)]
struct Page {
    address: SocketAddr,
    key: String,
    session: String,
}

impl Stage {
    fn new() -> Self {
        Self::over(Setup::default())
    }

    fn over(setup: Setup) -> Self {
        let daemon = TestDaemon::start_with(setup, CONFIG);
        let address = daemon.block_on(daemon.gateway().http.open(([127, 0, 0, 1], 0).into())).unwrap();
        Stage { daemon, address }
    }

    fn studio(&self) -> Arc<Studio> {
        Arc::clone(&self.daemon.gateway().studio)
    }

    /// The secret of a link, as a person's terminal prints it.
    fn link(&self) -> String {
        self.daemon.gateway().consoles.link(1000, |_| Ok::<_, Infallible>(None)).unwrap().0
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.daemon.block_on(future)
    }

    async fn log_in(&self, secret: &str) -> Answer {
        let body = json!({ "secret": secret }).to_string();
        send(self.address, &request(self.address, "POST", "/console/login", &OWN, &body)).await
    }

    fn page(&self) -> Page {
        let answer = self.block_on(self.log_in(&self.link()));
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = |key: &str| answer.json()[key].as_str().unwrap().to_owned();
        Page { address: self.address, key: text("key"), session: text("session") }
    }

    /// Starts a call by a model.
    fn call(&self, tool: &str, arguments: Value) -> JoinHandle<Result<Value, ToolError>> {
        self.call_on(7, tool, arguments)
    }

    #[expect(clippy::async_yields_async, reason = "the task starts on the daemon's runtime")]
    fn call_on(&self, conn: u64, tool: &str, arguments: Value) -> JoinHandle<Result<Value, ToolError>> {
        let (studio, mut call) = (self.studio(), Call::new(Principal::socket(1000, "model"), tool, arguments));
        call.conn = ConnId(conn);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.daemon.spawn(async move {
            let done = match pipeline::run(&studio, call).await.into_outcome() {
                Outcome::Done(done) => done.map(|it| it.value),
                Outcome::Cancelled | Outcome::Ask { .. } => panic!("no answer"),
            };
            let _ = sender.send(done);
        });
        self.block_on(async { tokio::spawn(async move { receiver.await.expect("an answer") }) })
    }

    fn answer(&self, call: JoinHandle<Result<Value, ToolError>>) -> Result<Value, ToolError> {
        self.block_on(async { tokio::time::timeout(PATIENCE, call).await.expect("in time").expect("no panic") })
    }

    fn log(&self) -> String {
        self.daemon.audit_text()
    }
}

const OWN: [(&str, &str); 2] = [("Sec-Fetch-Site", "same-origin"), ("Content-Type", "application/json")];

impl Page {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [OWN[0], OWN[1], ("X-Conductor-Key", self.key.as_str())];
        let body = if method == "GET" { String::new() } else { body.to_string() };
        send(self.address, &request(self.address, method, path, &headers, &body)).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.send("POST", path, &body).await;
        assert_eq!(answer.status, 200, "{path} {answer:?}");
        answer.json()
    }

    async fn decide(&self, decision: Value) -> Value {
        self.post("/console/decide", json!({ "decisions": [decision] })).await["results"][0].clone()
    }

    async fn state(&self) -> Value {
        let answer = self.send("GET", "/console/state", &Value::Null).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    async fn events(&self, since: u64) -> Events {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let path = format!("/console/events?since={since}");
        let headers = [OWN[0], ("X-Conductor-Key", self.key.as_str())];
        stream.write_all(&request(self.address, "GET", &path, &headers, "")).await.unwrap();
        let mut events = Events { stream: BufReader::new(stream) };
        assert!(events.line().await.unwrap().contains("200"));
        events
    }
}

/// An open event stream.
struct Events {
    stream: BufReader<TcpStream>,
}

impl Events {
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.stream.read_line(&mut line)).await.expect("in time").ok()?;
        (read > 0).then_some(line)
    }

    /// The next event of this type: its number and its data.
    async fn next(&mut self, wanted: &str) -> (u64, Value) {
        let (mut seq, mut name) = (0, String::new());
        loop {
            let line = self.line().await.unwrap_or_else(|| panic!("the stream ended before {wanted}"));
            let line = line.trim_end();
            if let Some(id) = line.strip_prefix("id:") {
                seq = id.trim().parse().unwrap();
            } else if let Some(event) = line.strip_prefix("event:") {
                event.trim().clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data:")
                && name == wanted
            {
                return (seq, serde_json::from_str(data.trim()).unwrap());
            }
        }
    }

    /// Waits for an event whose data match.
    async fn until(&mut self, wanted: &str, fits: impl Fn(&Value) -> bool) -> (u64, Value) {
        loop {
            let (seq, data) = self.next(wanted).await;
            if fits(&data) {
                return (seq, data);
            }
        }
    }
}

const ROUTES: [(&str, &str); 8] = [
    ("POST", "/console/logout"),
    ("GET", "/console/state"),
    ("GET", "/console/events"),
    ("POST", "/console/call/conductor_get_status"),
    ("POST", "/console/decide"),
    ("POST", "/console/play"),
    ("POST", "/console/front"),
    ("POST", "/console/read/sessions"),
];

#[test]
fn a_link_opens_one_console_and_a_prefetch_does_not_use_it_up() {
    let stage = Stage::new();
    let secret = stage.link();
    for _ in 0..3 {
        let page = stage.block_on(send(stage.address, &request(stage.address, "GET", "/", &[], "")));
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let head = stage.block_on(send(stage.address, &request(stage.address, "GET", "/console/login", &OWN, "")));
        assert_eq!(head.status, 405, "a link was exchanged by GET");
    }
    for wrong in ["", "guess", &secret[1..]] {
        assert_eq!(stage.block_on(stage.log_in(wrong)).status, 401);
    }
    assert_eq!(stage.block_on(stage.log_in(&secret)).status, 200);
    let again = stage.block_on(stage.log_in(&secret));
    assert_eq!((again.status, again.header("www-authenticate")), (401, None), "a link was accepted twice");
    assert!(again.header("set-cookie").is_none());
    assert!(stage.log().contains("\"event\":\"console.opened\"") && stage.log().contains("\"event\":\"auth.failed\""));
    assert!(!stage.log().contains(&secret), "a record contains the secret");
}

#[test]
fn no_route_answers_without_the_key_or_to_another_page() {
    let stage = Stage::new();
    let page = stage.page();
    let token = std::fs::read_to_string(stage.daemon.home.path().join("state/http.token")).unwrap();
    let (key, bearer) = (("X-Conductor-Key", page.key.as_str()), format!("Bearer {}", token.trim()));
    let other = format!("http://127.0.0.1:{}", stage.address.port().wrapping_add(1));
    let json = OWN[1];
    for (method, path) in ROUTES {
        let ask = |headers: &[(&str, &str)]| {
            stage.block_on(send(stage.address, &request(stage.address, method, path, headers, ""))).status
        };
        // The values of `Sec-Fetch-Site` for another site, another server on this machine, an
        // address typed by a person, and a program that is not a browser.
        for site in ["cross-site", "same-site", "none", ""] {
            assert_eq!(ask(&[key, json, ("Sec-Fetch-Site", site)]), 403, "{path} {site}");
        }
        assert_eq!(ask(&[key, json]), 403, "{path}");
        assert_eq!(ask(&[key, json, OWN[0], OWN[0]]), 403, "{path} with the header twice was not refused");
        assert_eq!(ask(&[key, json, OWN[0], ("Origin", &other)]), 403, "{path} from another server was not refused");
        assert_eq!(
            ask(&[key, json, OWN[0], ("Origin", "null")]),
            403,
            "{path} from a frame without an origin was not refused"
        );
        assert_eq!(
            ask(&[key, json, OWN[0], ("Host", "evil.example")]),
            403,
            "{path} with another host name was not refused"
        );
        // Refused: no key, a wrong key, two keys, and a bearer token.
        assert_eq!(ask(&[json, OWN[0]]), 401, "{path}");
        assert_eq!(ask(&[json, OWN[0], ("X-Conductor-Key", "guess")]), 401, "{path}");
        assert_eq!(ask(&[json, OWN[0], key, key]), 401, "{path}");
        assert_eq!(ask(&[json, OWN[0], ("Authorization", &bearer)]), 401, "{path} with a token");
        assert_eq!(
            ask(&[json, OWN[0], ("X-Conductor-Key", token.trim())]),
            401,
            "{path} with a token as the key was not refused"
        );
        if method == "POST" {
            assert_eq!(ask(&[key, OWN[0], ("Content-Type", "text/plain")]), 415, "{path} from a form");
        }
    }
    let login = |headers: &[(&str, &str)]| {
        let body = json!({ "secret": stage.link() }).to_string();
        stage.block_on(send(stage.address, &request(stage.address, "POST", "/console/login", headers, &body))).status
    };
    assert_eq!(login(&[json, ("Sec-Fetch-Site", "cross-site")]), 403);
    assert_eq!(login(&[OWN[0], ("Content-Type", "text/plain")]), 415);
    // A session key of the console opens no other route.
    let as_token = format!("Bearer {}", page.key);
    for (method, path) in
        [("POST", "/mcp"), ("GET", "/tools"), ("GET", "/events"), ("GET", "/audit"), ("GET", "/metrics")]
    {
        let answer = stage.block_on(send(
            stage.address,
            &request(stage.address, method, path, &[("Authorization", &as_token), key, OWN[0]], ""),
        ));
        assert_eq!(answer.status, 401, "{path}");
    }
}

#[test]
fn the_page_runs_no_inline_script_and_cannot_be_framed() {
    let stage = Stage::new();
    let page = stage.page();
    let get = |path: &str| stage.block_on(send(stage.address, &request(stage.address, "GET", path, &[], "")));
    for answer in [get("/"), get("/assets/app.js"), stage.block_on(page.send("GET", "/console/state", &Value::Null))] {
        assert_eq!(answer.status, 200);
        let policy = answer.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("cross-origin-opener-policy"), Some("same-origin"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(
            !answer.head.to_lowercase().contains("access-control-"),
            "the answer has a CORS header: {}",
            answer.head
        );
        assert!(answer.header("set-cookie").is_none());
    }
    for path in
        ["/assets/../Cargo.toml", "/assets/%2e%2e/Cargo.toml", "/assets/contract.d.ts", "/assets/", "/assets/.x.js"]
    {
        assert_eq!(get(path).status, 404, "{path}");
    }
}

#[test]
fn a_session_ends_in_time_and_when_it_is_revoked() {
    let clock = ManualClock::at_wall_ms(1_800_000_000_000);
    let stage = Stage::over(Setup { clock: clock.clone() as Arc<dyn Clock>, ..Setup::default() });
    let (idle, late) = (stage.page(), stage.link());
    clock.advance(Duration::from_secs(60));
    assert_eq!(stage.block_on(stage.log_in(&late)).status, 401, "a link was valid for more than a minute");
    clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(stage.block_on(idle.send("GET", "/console/state", &Value::Null)).status, 401);

    let (page, other) = (stage.page(), stage.page());
    let ended = stage.block_on(async {
        let mut events = page.events(0).await;
        let done = other.decide(json!({ "decision": "revoke_session", "session": page.session })).await;
        assert_eq!(done["ok"], true, "{done}");
        let ended = events.next("ended").await.1;
        while events.line().await.is_some() {}
        ended
    });
    assert_eq!(ended, json!({ "reason": "revoked" }));
    assert_eq!(stage.block_on(page.send("GET", "/console/state", &Value::Null)).status, 401);
    assert_eq!(stage.block_on(other.send("POST", "/console/logout", &json!({}))).status, 200);
    assert_eq!(stage.block_on(other.send("GET", "/console/state", &Value::Null)).status, 401);
    assert!(stage.daemon.gateway().consoles.list().is_empty());
}

#[test]
fn a_page_goes_on_where_it_was() {
    let stage = Stage::new();
    let page = stage.page();
    let press = [0x90, 36, 100];
    let fired = |data: &Value| data["records"].to_string().contains("\"kick\"");
    let (first, missed) = stage.block_on(async {
        let mut events = page.events(page.state().await["seq"].as_u64().unwrap()).await;
        let hand = SentBy::Person;
        stage.daemon.handle().send("pads hand".into(), vec![press.to_vec()], hand).await.unwrap();
        let (first, data) = events.until("trace", fired).await;
        let kick = data["records"].as_array().unwrap().iter().find(|it| it["mapping_id"] == "kick").unwrap().clone();
        assert_eq!((&kick["outcome"], &kick["device"]), (&json!("fired"), &json!("pads")));
        let (_, meters) = events.until("meters", |it| it["firings"]["Default/kick"]["count"] == 1).await;
        assert_eq!(meters["held"]["pads"], json!(["on:36/0"]));
        drop(events);
        // More events happen while the page is disconnected.
        stage.daemon.handle().switch_mode(Some("Mix".into()), Taint::Clean).await.unwrap();
        let mut again = page.events(first).await;
        (first, again.until("modes", |it| it["current"] == "Mix").await.0)
    });
    assert!(missed > first);
    let state = stage.block_on(page.state());
    assert_eq!((&state["modes"]["current"], &state["person"]), (&json!("Mix"), &json!("person:1000")));
    assert!(state["trace"].as_array().unwrap().iter().any(|it| it["mapping_id"] == "kick"));
}

#[test]
fn a_page_that_does_not_read_falls_behind_and_nobody_waits_for_it() {
    let stage = Stage::new();
    let page = stage.page();
    stage.block_on(async {
        let mut slow = page.events(0).await;
        let studio = stage.studio();
        // More than the ring and the buffers of the connection can hold.
        for at in 0..8000 {
            studio.events.uri_changed(&format!("patch://{at}/{}", "x".repeat(2000)));
            if at % 100 == 0 {
                stage.daemon.handle().status().await.expect("the owner did not answer");
            }
        }
        let (seq, behind) = slow.next("behind").await;
        assert!(behind["missed"].as_u64().unwrap() > 0, "{behind}");
        assert!(seq > 0);
        let state = page.state().await;
        let mut again = page.events(state["seq"].as_u64().unwrap()).await;
        studio.events.uri_changed("patch://new");
        again.until("changed", |it| it["uri"] == "patch://new").await;
    });
}

#[test]
fn a_call_waits_for_the_console_and_runs_after_a_yes() {
    let stage = Stage::new();
    let page = stage.page();
    let mut events = stage.block_on(page.events(0));
    let call = stage.call("conductor_send_sysex", json!({ "port": "synth", "data": [0x7D, 1] }));
    let waits = |it: &Value| it["state"] == "pending" && it["held"] == true;
    let (_, question) = stage.block_on(events.until("question", waits));
    assert_eq!((&question["tool"], &question["tier"]), (&json!("conductor_send_sysex"), &json!("HardwareIO")));
    assert_eq!((&question["answerable"], &question["grantable"]), (&json!(true), &json!(false)));
    let id = question["id"].as_str().unwrap();
    let full = stage.block_on(page.post("/console/read/question", json!({ "id": id })));
    assert!(full["facts"].as_array().unwrap().iter().any(|it| it["label"] == "arguments"), "{full}");
    let wide = stage.block_on(page.decide(json!({ "decision": "allow", "id": id, "scope": "session" })));
    assert_eq!(wide["ok"], false, "one approval allowed several SysEx messages: {wide}");
    let done = stage.block_on(page.decide(json!({ "decision": "allow", "id": id })));
    assert_eq!((&done["ok"], &done["question"]["decided"]["channel"]), (&json!(true), &json!("console")), "{done}");
    stage.answer(call).expect("it ran");
    stage.block_on(events.until("question", |it| it["id"] == id && it["state"] == "used"));
    assert!(stage.log().contains("\"channel\":\"console\""), "the record does not name the channel");
    let twice = stage.block_on(page.decide(json!({ "decision": "deny", "id": id })));
    assert_eq!((&twice["ok"], &twice["fault"]["code"]), (&json!(false), &json!("BAD_INPUT")));
}

#[test]
fn a_no_reaches_the_model_with_its_reason() {
    let stage = Stage::new();
    let page = stage.page();
    let mut events = stage.block_on(page.events(0));
    let arguments = json!({ "port": "synth", "data": [0x7D, 2] });
    let call = stage.call("conductor_send_sysex", arguments.clone());
    let (_, question) = stage.block_on(events.until("question", |it| it["state"] == "pending"));
    let no = json!({ "decision": "deny", "id": question["id"], "reason": "not during the concert" });
    assert_eq!(stage.block_on(page.decide(no))["ok"], true);
    for again in [call, stage.call("conductor_send_sysex", arguments)] {
        let error = stage.answer(again).unwrap_err();
        assert_eq!((error.code, error.extras.by), (Code::Denied, Some(RefusedBy::Person)));
        assert!(error.message.contains("not during the concert"), "{}", error.message);
        assert_eq!(error.to_wire()["reason"], "not during the concert");
    }
    let plan =
        stage.answer(stage.call("conductor_delete_mapping", json!({ "mode": "Default", "id": "kick" }))).unwrap();
    let no = json!({ "decision": "reject", "id": plan["plan_id"], "reason": "I need the kick" });
    assert_eq!(stage.block_on(page.decide(no))["ok"], true);
    let seen = stage.answer(stage.call("conductor_get_plan", json!({ "plan_id": plan["plan_id"] }))).unwrap();
    assert_eq!((&seen["status"], &seen["reason"]), (&json!("rejected"), &json!("I need the kick")));
}

#[test]
fn a_yes_for_the_session_ends_with_the_connection() {
    let stage = Stage::new();
    let page = stage.page();
    let mut events = stage.block_on(page.events(0));
    let midi = |value: u8| json!({ "port": "rig", "messages": [{ "type": "cc", "channel": 1, "controller": 1, "value": value }] });
    let first = stage.call_on(21, "conductor_send_midi", midi(1));
    let (_, question) = stage.block_on(events.until("question", |it| it["state"] == "pending"));
    let yes = json!({ "decision": "allow", "id": question["id"], "scope": "session" });
    assert_eq!(stage.block_on(page.decide(yes))["ok"], true);
    stage.answer(first).expect("the first call failed");
    stage
        .answer(stage.call_on(21, "conductor_send_midi", midi(2)))
        .expect("a call with other arguments in the same session failed");
    stage.studio().connection_ended(ConnId(21));
    stage.block_on(events.until("question", |it| it["id"] == question["id"] && it["state"] == "expired"));
    let later = stage.call_on(22, "conductor_send_midi", midi(3));
    let (_, asked) = stage.block_on(events.until("question", |it| it["state"] == "pending"));
    let both =
        json!({ "decisions": [{ "decision": "deny", "id": asked["id"] }, { "decision": "deny", "id": "nothing" }] });
    let results = stage.block_on(page.post("/console/decide", both))["results"].clone();
    assert_eq!((&results[0]["ok"], &results[1]["ok"]), (&json!(true), &json!(false)), "{results}");
    assert_eq!(stage.answer(later).unwrap_err().code, Code::Denied);
}

#[test]
fn a_person_confirms_the_own_call_once() {
    let stage = Stage::new();
    let page = stage.page();
    let path = "/console/call/conductor_send_sysex";
    let arguments = json!({ "port": "synth", "data": [0x7D, 3] });
    let asked = stage.block_on(page.send("POST", path, &json!({ "arguments": arguments })));
    assert_eq!((asked.status, asked.json()["code"].as_str()), (202, Some("APPROVAL_REQUIRED")), "{asked:?}");
    let id = asked.json()["approval_id"].clone();
    let forged = json!({ "arguments": { "port": "synth", "data": [0x7D, 4] }, "confirm": id });
    assert_eq!(
        stage.block_on(page.send("POST", path, &forged)).status,
        409,
        "a confirmation was accepted for other arguments"
    );
    let done = stage.block_on(page.post(path, json!({ "arguments": arguments, "confirm": id })));
    assert!(done["result"].is_object(), "{done}");
    let again = stage.block_on(page.send("POST", path, &json!({ "arguments": arguments })));
    assert_eq!(again.status, 202, "the next call did not cause a new question");
    assert!(stage.log().contains("\"principal\":\"person:1000\""));
    let call = |tool: &str| stage.block_on(page.send("POST", &format!("/console/call/{tool}"), &json!({}))).status;
    assert_eq!(call("conductor_get_status"), 200);
    for hidden in ["plan.apply", "plan.reject", "nothing"] {
        assert_eq!(call(hidden), 404, "{hidden}");
    }
}

#[test]
fn virtual_pads_count_as_network_can_be_learned_and_are_released() {
    let stage = Stage::new();
    let page = stage.page();
    let mut events = stage.block_on(page.events(0));
    let play = |events: &str| json!({ "device": "pads", "events": events });
    let played = stage.block_on(page.post("/console/play", play("on:36@100 on:37@100")));
    assert_eq!(played, json!({ "device": "pads", "events": 2 }));
    let of = |id: &'static str, outcome: &'static str| {
        move |it: &Value| {
            let records = it["records"].as_array().unwrap();
            records.iter().any(|it| it["mapping_id"] == id && it["outcome"] == outcome)
        }
    };
    let (_, trace) = stage.block_on(events.until("trace", of("kick", "fired")));
    assert!(of("call", "tainted")(&trace), "a virtual pad called a tool: {trace}");
    for bad in ["", "t:5", "dev:pads on:1", "mode:Mix", "nonsense"] {
        assert_eq!(stage.block_on(page.send("POST", "/console/play", &play(bad))).status, 400, "{bad}");
    }
    // The page is closed while two pads are pressed.
    stage.block_on(events.until("meters", |it| it["held"]["pads"].as_array().is_some_and(|it| it.len() == 2)));
    let mut second = stage.block_on(stage.page().events(0));
    drop(events);
    stage.block_on(second.until("meters", |it| it["held"]["pads"] == json!([])));

    let call = |tool: &str, arguments: Value| {
        stage.block_on(page.post(&format!("/console/call/{tool}"), json!({ "arguments": arguments })))["result"].clone()
    };
    call("conductor_start_midi_learn", json!({ "timeout_ms": 60000 }));
    stage.block_on(second.until("learning", |it| it["learning"].is_object()));
    stage.block_on(page.post("/console/play", play("on:50@90")));
    stage.block_on(page.post("/console/play", play("off:50")));
    let learned = call("conductor_stop_midi_learn", json!({}));
    assert_eq!(learned["suggestions"][0]["note"], 50, "{learned}");
    stage.block_on(second.until("learning", |it| it["learning"].is_null()));
}

#[test]
fn a_plan_is_applied_and_undone_from_the_page() {
    let stage = Stage::new();
    let page = stage.page();
    let mut events = stage.block_on(page.events(0));
    let file = stage.daemon.home.path().join("config.toml");
    let plan =
        stage.answer(stage.call("conductor_delete_mapping", json!({ "mode": "Default", "id": "kick" }))).unwrap();
    let (_, question) = stage.block_on(events.until("question", |it| it["kind"] == "plan"));
    assert!(question["diff_preview"].as_str().unwrap().contains("- id = \"kick\""), "{question}");
    let applied = stage.block_on(page.decide(json!({ "decision": "apply", "id": plan["plan_id"] })));
    assert_eq!((&applied["ok"], &applied["question"]["undoable"]), (&json!(true), &json!(true)), "{applied}");
    assert!(!std::fs::read_to_string(&file).unwrap().contains("kick"));
    stage.block_on(events.next("config"));
    let undone = stage.block_on(page.decide(json!({ "decision": "undo", "id": plan["plan_id"], "apply": true })));
    assert_eq!(undone["ok"], true, "{undone}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), CONFIG);
    let history = stage.block_on(page.post("/console/read/history", json!({})));
    let states: Vec<&str> =
        history["questions"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["used", "undone"]);
}

#[test]
fn every_view_has_its_data() {
    let stage = Stage::new();
    let page = stage.page();
    stage.answer(stage.call("conductor_list_modes", json!({}))).unwrap();
    let read = |name: &str, params: Value| stage.block_on(page.post(&format!("/console/read/{name}"), params));
    let has = |value: &Value, key: &str| assert!(!value[key].is_null(), "{key} in {value}");
    let mappings = read("mappings", json!({}));
    let modes: Vec<&str> =
        mappings["modes"].as_array().unwrap().iter().map(|it| it["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["Default", "Mix", "*"]);
    let toml = read("mapping_toml", json!({ "mode": "Default", "id": "kick" }))["toml"].clone();
    let row = read("parse_mapping", json!({ "toml": toml }))["row"].clone();
    assert_eq!((&row["id"], &row["trigger"]["note"]), (&json!("kick"), &json!(36)), "{row}");
    assert_eq!(read("explain", json!({ "event": "on:36@100", "device": "pads" }))["verdict"], "fires");
    assert!(read("simulate", json!({ "events": "dev:pads on:36@100" }))["text"].as_str().unwrap().contains("kick"));
    assert_eq!(read("config", json!({}))["text"], CONFIG);
    assert!(read("config_waiting", json!({}))["hash"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(read("controllers", json!({}))["controllers"][0]["device_id"], "pads");
    let records = read("audit", json!({ "tool": "conductor_list_modes" }))["records"].clone();
    assert_eq!(records.as_array().unwrap().len(), 1);
    let call = json!({ "call": records[0]["call"], "before": records[0]["seq"].as_u64().unwrap() + 1 });
    assert_eq!(read("audit", call)["records"].as_array().unwrap().len(), 1);
    assert_eq!(read("audit_verify", json!({}))["verdict"], "INTACT");
    let export = stage.block_on(page.send("POST", "/console/read/audit_export", &json!({})));
    assert_eq!((export.status, export.header("content-type")), (200, Some("application/x-ndjson")));
    assert!(export.body.lines().all(|it| serde_json::from_str::<Value>(it).is_ok()));
    let health = read("health", json!({}));
    ["samples", "latency", "circuits", "checks"].iter().for_each(|it| has(&health, it));
    let clients = read("clients", json!({}));
    assert_eq!(clients["connected"][0]["principal"], "socket:1000/model", "{clients}");
    let tools = read("tools", json!({}))["tools"].as_array().unwrap().clone();
    let sysex = tools.iter().find(|it| it["name"] == "conductor_send_sysex").unwrap();
    assert_eq!(sysex["decision"], "ask");
    ["input_schema", "example", "tier"].iter().for_each(|it| has(sysex, it));
    assert!(tools.iter().all(|it| it["name"] != "plan.apply"));
    assert_eq!(read("sessions", json!({}))["sessions"][0]["session"], page.session.as_str());
    assert_eq!(stage.block_on(page.send("POST", "/console/read/nothing", &json!({}))).status, 404);
    assert_eq!(stage.block_on(page.send("POST", "/console/read/trace", &json!({ "no": 1 }))).status, 400);
    // The tampered log is reported.
    let text = stage.log().replacen("conductor_list_modes", "conductor_lost_modes", 1);
    std::fs::write(stage.daemon.audit_segment(), text).unwrap();
    assert_eq!(read("audit_verify", json!({}))["verdict"], "BROKEN");
}
