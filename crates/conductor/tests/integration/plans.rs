//! Plans and approvals with a real daemon in this process, its pipeline, its audit log and its
//! files.

use conductor_core::error::{Code, ToolError};
use conductor_core::pending::{Kind, State, Yes};
use conductor_core::policy::{Channel, Tier};
use conductor_core::principal::Principal;
use conductor_gateway::catalog::lint;
use conductor_gateway::catalog::{Definition, Tool};
use conductor_gateway::owner_handle::SentBy;
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::{self, Call, Output};
use conductor_gateway::studio::Studio;
use conductor_hosts::system::ManualClock;
use conductor_hosts::system::listener::Blocking;
use conductor_testkit::daemon::{Setup, TestDaemon};
use conductor_testkit::real::PATIENCE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const CONFIG: &str = r#"# my studio
schema = 1

[[devices]]
alias = "pads"      # sixteen of them
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
id = "by-hand"
trigger = { type = "Note", note = 37, device = "pads" }
action = { type = "CallTool", tool = "conductor_send_midi", arguments = { port = "rig", messages = [{ type = "cc", channel = 1, controller = 1, value = 1 }] } }
"#;

/// A daemon with a clock that the test advances.
struct Fixture {
    daemon: TestDaemon,
    clock: Arc<ManualClock>,
}

impl std::ops::Deref for Fixture {
    type Target = TestDaemon;

    fn deref(&self) -> &TestDaemon {
        &self.daemon
    }
}

impl Fixture {
    fn new() -> Self {
        Self::over(CONFIG)
    }

    fn over(config: &str) -> Self {
        let clock = ManualClock::at_wall_ms(1_800_000_000_000);
        let daemon = TestDaemon::start_with(Setup { clock: clock.clone(), ..Setup::default() }, config);
        Fixture { daemon, clock }
    }

    fn studio(&self) -> Arc<Studio> {
        Arc::clone(&self.gateway().studio)
    }

    fn call(&self, principal: Principal, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        self.block_on(call(self.studio(), principal, tool.to_owned(), arguments))
    }

    fn plan(&self) -> String {
        let plan = self.call(model(), "conductor_create_mapping", new_mapping()).unwrap();
        plan["plan_id"].as_str().unwrap().to_owned()
    }

    fn apply(&self, id: &str) -> Result<Value, ToolError> {
        self.call(person(), "plan.apply", json!({ "plan_id": id, "channel": "cli" }))
    }

    fn config_file(&self) -> PathBuf {
        self.home.path().join("config.toml")
    }

    fn config(&self) -> String {
        std::fs::read_to_string(self.config_file()).unwrap()
    }

    fn status_of(&self, id: &str) -> String {
        let plan = self.call(model(), "conductor_get_plan", json!({ "plan_id": id })).unwrap();
        plan["status"].as_str().unwrap().to_owned()
    }
}

async fn call(studio: Arc<Studio>, principal: Principal, tool: String, arguments: Value) -> Result<Value, ToolError> {
    match pipeline::run(&studio, Call::new(principal, tool, arguments)).await.into_outcome() {
        Outcome::Done(Ok(output)) => Ok(output.value),
        Outcome::Done(Err(error)) => Err(error),
        Outcome::Cancelled | Outcome::Ask { .. } => panic!("the call was cancelled or needs an answer"),
    }
}

fn model() -> Principal {
    Principal::socket(1000, "demo")
}

fn person() -> Principal {
    Principal::Person { uid: 1000 }
}

fn new_mapping() -> Value {
    json!({
        "mode": "Default",
        "trigger": { "type": "Note", "note": 40, "device": "pads" },
        "action": { "type": "SendMidi", "port": "synth", "channel": 0, "message_type": "CC", "controller": 21, "value": 2 },
    })
}

#[test]
fn the_model_plans_a_person_applies_and_the_pad_does_it() {
    let daemon = Fixture::new();
    let before = daemon.config();
    let id = daemon.plan();
    assert_eq!(daemon.config(), before, "the plan changed the file before it was applied");
    daemon.apply(&id).unwrap();
    let after = daemon.config();
    assert!(after.starts_with("# my studio\n") && after.contains("alias = \"pads\"      # sixteen of them"), "{after}");
    let mut synth = daemon.block_on(daemon.handle().listen("synth".into())).unwrap();
    daemon.block_on(daemon.handle().send("pads hand".into(), vec![vec![0x90, 40, 100]], SentBy::Person)).unwrap();
    assert_eq!(daemon.block_on(synth.recv()), Some(vec![0xB0, 21, 2]));
    assert_eq!(daemon.status_of(&id), "applied");

    let undo = daemon.call(model(), "conductor_undo_plan", json!({ "plan_id": id })).unwrap();
    daemon.apply(undo["plan_id"].as_str().unwrap()).unwrap();
    assert_eq!(daemon.config(), before, "undo did not restore the original content");
    assert_eq!(daemon.status_of(&id), "undone");
}

#[test]
fn of_a_hundred_applies_at_once_exactly_one_wins() {
    let daemon = Fixture::new();
    let id = daemon.plan();
    let results = daemon.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..100 {
            let arguments = json!({ "plan_id": id, "channel": "cli" });
            tasks.push(tokio::spawn(call(daemon.studio(), person(), "plan.apply".into(), arguments)));
        }
        let mut results = Vec::new();
        for task in tasks {
            results.push(task.await.unwrap());
        }
        results
    });
    let won = results.iter().filter(|it| it.is_ok()).count();
    // The rate limit may refuse some calls. No other call may apply anything.
    let lost = results.iter().filter_map(|it| it.as_ref().err()).map(|it| it.code);
    let lost: Vec<Code> = lost.collect();
    assert_eq!(won, 1, "{lost:?}");
    assert!(lost.iter().all(|code| matches!(code, Code::BadInput | Code::RateLimited | Code::Busy)), "{lost:?}");
}

#[test]
fn a_file_edited_in_between_makes_the_plan_stale_and_stays_as_it_is() {
    let daemon = Fixture::new();
    let id = daemon.plan();
    let edited = daemon.config() + "# a remark\n";
    std::fs::write(daemon.config_file(), &edited).unwrap();
    assert_eq!(daemon.apply(&id).unwrap_err().code, Code::PlanStale);
    assert_eq!(daemon.config(), edited);
    assert_eq!(daemon.status_of(&id), "stale");
    assert_eq!(daemon.apply(&id).unwrap_err().code, Code::PlanStale);
}

#[test]
fn a_file_that_cannot_be_written_or_read_is_neither_stale_nor_absent() {
    let daemon = Fixture::new();
    let id = daemon.plan();
    // The temporary file of the write cannot be created.
    let blocked = daemon.home.path().join(format!(".config.toml.{id}.new"));
    std::fs::create_dir(&blocked).unwrap();
    let before = daemon.config();
    let refused = daemon.apply(&id).unwrap_err();
    assert!(refused.code == Code::SdkRejected && refused.message.contains("config.toml"), "{refused:?}");
    assert_eq!((daemon.config(), daemon.status_of(&id).as_str()), (before, "pending"));
    std::fs::remove_dir(&blocked).unwrap();
    daemon.apply(&id).unwrap();

    // A folder cannot be read as a file, not even by root.
    std::fs::remove_file(daemon.config_file()).unwrap();
    let read = || daemon.call(model(), "conductor_get_config", json!({})).unwrap_err();
    assert_eq!(read().code, Code::NotFound);
    std::fs::create_dir(daemon.config_file()).unwrap();
    assert!(read().code == Code::SdkRejected && read().message.contains("cannot be read"), "{:?}", read());
}

#[test]
fn a_plan_lives_five_minutes_to_the_millisecond() {
    let daemon = Fixture::new();
    let id = daemon.plan();
    daemon.clock.advance(Duration::from_millis(300_000));
    assert_eq!(daemon.apply(&id).unwrap_err().code, Code::PlanExpired);
    let id = daemon.plan();
    daemon.clock.advance(Duration::from_millis(299_999));
    daemon.apply(&id).unwrap();
}

#[test]
fn nobody_but_a_person_reaches_what_decides() {
    let daemon = Fixture::new();
    let id = daemon.plan();
    let others = [
        model(),
        Principal::Cli { uid: 1000 },
        Principal::Http { token: "default".into() },
        Principal::Mapping { mode: "Default".into(), id: "kick".into() },
    ];
    for principal in others {
        for tool in ["plan.apply", "plan_apply", "plan.reject", "llm_apply_plan", "llm_reject_plan"] {
            let refused = daemon.call(principal.clone(), tool, json!({ "plan_id": id, "channel": "cli" })).unwrap_err();
            assert_eq!(refused.code, Code::NotFound, "{principal} {tool}");
        }
    }
    assert_eq!(daemon.status_of(&id), "pending");
}

/// An MCP client on `mcp.sock`.
struct McpClient {
    stream: BufReader<Blocking>,
    next: u64,
}

impl McpClient {
    fn connect(home: &Path) -> Self {
        let stream = BufReader::new(Blocking::connect(&home.join("mcp.sock"), PATIENCE).unwrap());
        let mut client = McpClient { stream, next: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "demo", "version": "1" },
        });
        let id = client.send("initialize", hello);
        client.answers(&[id]);
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        writeln!(client.stream.get_mut(), "{ready}").unwrap();
        client
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let line = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        writeln!(self.stream.get_mut(), "{line}").unwrap();
        self.next
    }

    /// The answers to these requests, in any order.
    fn answers(&mut self, ids: &[u64]) -> BTreeMap<u64, Value> {
        let mut answers = BTreeMap::new();
        while answers.len() < ids.len() {
            let mut line = String::new();
            assert!(self.stream.read_line(&mut line).unwrap() > 0, "the daemon closed the connection");
            let message: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = message["id"].as_u64().filter(|it| ids.contains(it)) {
                answers.insert(id, message);
            }
        }
        answers
    }

    fn tools(&mut self) -> Vec<Value> {
        let (mut tools, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let id = self.send("tools/list", params);
            let result = self.answers(&[id])[&id]["result"].clone();
            tools.extend(result["tools"].as_array().unwrap().clone());
            cursor = result["nextCursor"].clone();
            if cursor.is_null() {
                return tools;
            }
        }
    }
}

/// A value that matches the schema, with `text` in every string.
fn fitting(schema: &Value, root: &Value, text: &str) -> Value {
    if let Some(at) = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
        return fitting(root.pointer(at).unwrap(), root, text);
    }
    if let Some(fixed) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return fixed.clone();
    }
    if let Some(first) = schema["oneOf"].get(0).or_else(|| schema["anyOf"].get(0)) {
        return fitting(first, root, text);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("object") => {
            let members = schema["properties"].as_object().cloned().unwrap_or_default();
            members.iter().map(|(key, it)| (key.clone(), fitting(it, root, text))).collect()
        }
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(1).max(1);
            (0..least).map(|_| fitting(&schema["items"], root, text)).collect()
        }
        Some("integer") => schema["minimum"].as_i64().unwrap_or(1).into(),
        Some("number") => schema["minimum"].as_f64().unwrap_or(1.0).into(),
        Some("boolean") => true.into(),
        _ => text
            .chars()
            .take(schema["maxLength"].as_u64().map_or(usize::MAX, |it| it as usize))
            .collect::<String>()
            .into(),
    }
}

/// Calls every tool that a model can list, with arguments that follow its schema and contain the
/// ids of an open plan and of an open question.
#[test]
fn no_tool_decides_whatever_it_is_given() {
    // The limit of AbletonOSC is short: Wine does not report that no Live listens.
    let daemon = Fixture::over(&format!("{CONFIG}\n[live.osc]\ntimeout_ms = 100\n"));
    let mut client = McpClient::connect(daemon.home.path());
    let call = |client: &mut McpClient, tool: &str, arguments: &Value| {
        client.send("tools/call", json!({ "name": tool, "arguments": arguments }))
    };
    let asked = [
        call(&mut client, "conductor_create_mapping", &new_mapping()),
        call(&mut client, "conductor_send_sysex", &json!({ "port": "synth", "data": [0x7D, 1] })),
    ];
    let answers = client.answers(&asked);
    let word = |id: u64, key: &str| answers[&id]["result"]["structuredContent"][key].as_str().unwrap().to_owned();
    let (plan, approval, short) = (word(asked[0], "plan_id"), word(asked[1], "approval_id"), word(asked[1], "short"));
    let config = daemon.config();
    let policy = daemon.studio().policy().version;

    let catalog = daemon.studio().catalog();
    let mut tools = client.tools();
    for tool in &mut tools {
        // Lists shorten some schemas.
        let whole = catalog.get(tool["name"].as_str().unwrap()).map(|it| it.published_schema.value());
        tool["inputSchema"] = whole.unwrap_or_default();
    }
    assert!(tools.len() > 100, "{}", tools.len());
    let (mut passed, mut of) = (0, 0);
    for text in [plan.as_str(), approval.as_str(), short.as_str()] {
        for some in tools.chunks(16) {
            let ids: Vec<u64> = some
                .iter()
                .flat_map(|tool| {
                    let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
                    let whole = fitting(schema, schema, text);
                    let needed = schema["required"].as_array().cloned().unwrap_or_default();
                    let mut least = whole.clone();
                    least.as_object_mut().unwrap().retain(|key, _| needed.iter().any(|it| it == key));
                    [call(&mut client, name, &whole), call(&mut client, name, &least)]
                })
                .collect();
            for answer in client.answers(&ids).values() {
                let result = &answer["result"]["structuredContent"];
                of += 1;
                passed += usize::from(answer["result"].is_object() && result["violations"].is_null());
            }
        }
    }
    assert!(passed * 10 > of * 8, "too few calls reach the code of their tool: {passed} of {of}");

    assert_eq!(daemon.status_of(&plan), "pending");
    let question = daemon.studio().approvals.get(approval.parse().unwrap()).unwrap();
    assert_eq!(question.state, State::Pending);
    assert_eq!(daemon.config(), config);
    assert_eq!(daemon.studio().policy().version, policy);
    let log = daemon.audit_text();
    for event in ["approval.allowed", "approval.denied", "plan.applied", "plan.rejected", "plan.undone", "secret.set"] {
        assert!(!log.contains(&format!("\"event\":\"{event}\"")), "{event}");
    }
    // A person can decide with the same ids.
    daemon.apply(&plan).unwrap();
    assert_eq!(daemon.status_of(&plan), "applied");
}

/// The wall clock is set back by an hour twice, and then forward by an hour.
#[test]
fn a_clock_that_is_set_prolongs_no_question_and_holds_none_up() {
    let hour = Duration::from_secs(3600);
    let sysex = |byte: u8| json!({ "port": "synth", "data": [0x7D, byte] });
    let daemon = Fixture::new();
    let ask = |byte: u8| daemon.call(model(), "conductor_send_sysex", sysex(byte)).unwrap_err();
    let question = |error: &ToolError| error.to_wire()["approval_id"].as_str().unwrap().parse().unwrap();
    let state = |id| daemon.studio().approvals.get(id).unwrap().state;
    let plan = daemon.plan();
    let questions: Vec<uuid::Uuid> = (0..6).map(|byte| question(&ask(byte))).collect();
    assert_eq!(ask(6).code, Code::RateLimited, "a seventh question within a minute was accepted");
    let studio = daemon.studio();
    let deny =
        |id| daemon.block_on(async { studio.approvals.deny(&studio, id, "person:1000", Channel::Cli).await.unwrap() });
    deny(questions[0]);
    assert_eq!(ask(0).code, Code::Denied, "the same call was not refused soon after a no");

    daemon.clock.set_wall_back(hour);
    daemon.clock.advance(Duration::from_secs(61));
    let seventh = ask(6);
    assert_eq!(
        seventh.code,
        Code::ApprovalRequired,
        "the question is refused, although a minute has passed on the monotonic clock"
    );
    assert_eq!(
        ask(0).code,
        Code::ApprovalRequired,
        "the call is still refused, although the time after a no has passed"
    );
    // Five minutes after the first questions, they have expired, regardless of the wall clock.
    daemon.clock.advance(Duration::from_millis(300_000 - 61_000));
    daemon.block_on(async { studio.approvals.expire(&studio).await.unwrap() });
    assert_eq!(state(questions[1]), State::Expired);
    assert_eq!(daemon.apply(&plan).unwrap_err().code, Code::PlanExpired);
    assert_eq!(state(question(&seventh)), State::Pending);

    // The end of an approval does not depend on the wall clock either.
    let yes = conductor_core::pending::Yes { grant_ms: Some(60_000), ..Yes::once("person:1000", Channel::Cli) };
    daemon.block_on(async { studio.approvals.allow(&studio, question(&seventh), yes).await.unwrap() });
    daemon.clock.set_wall_back(hour);
    daemon.clock.advance(Duration::from_millis(60_000));
    assert_eq!(ask(6).code, Code::ApprovalRequired, "the approval has not expired");
    assert_eq!(state(question(&seventh)), State::Expired);

    // Set the wall clock forward: the plan expires by wall time first.
    let late = daemon.plan();
    daemon.clock.set_wall_forward(hour);
    assert_eq!(daemon.apply(&late).unwrap_err().code, Code::PlanExpired);
}

#[test]
fn an_applied_mapping_may_call_what_it_was_applied_for_and_a_hand_written_one_asks() {
    let daemon = Fixture::new();
    let mut rig = daemon.block_on(daemon.handle().listen("rig".into())).unwrap();
    let press = |note: u8, by: SentBy| {
        daemon
            .block_on(daemon.handle().send("pads hand".into(), vec![vec![0x90, note, 100], vec![0x80, note, 0]], by))
            .unwrap();
    };
    let questions = || {
        daemon
            .studio()
            .approvals
            .store()
            .read(|pending| pending.iter().filter(|it| it.kind == Kind::Call && it.state == State::Pending).count())
    };
    // This mapping was written to the file by hand, not applied from a plan. So its call needs an
    // approval.
    press(37, SentBy::Person);
    daemon.block_on(async {
        while questions() == 0 {
            tokio::task::yield_now().await;
        }
    });
    assert!(rig.try_recv().is_err());

    let send = json!({ "port": "rig", "messages": [{ "type": "cc", "channel": 1, "controller": 2, "value": 9 }] });
    let plan = daemon
        .call(
            model(),
            "conductor_create_mapping",
            json!({
                "mode": "Default", "trigger": { "type": "Note", "note": 41, "device": "pads" },
                "action": { "type": "CallTool", "tool": "conductor_send_midi", "arguments": send },
            }),
        )
        .unwrap();
    daemon.apply(plan["plan_id"].as_str().unwrap()).unwrap();
    press(41, SentBy::Person);
    assert_eq!(daemon.block_on(rig.recv()), Some(vec![0xB0, 2, 9]), "the grant of the plan does not allow the call");

    // A press by a tool does not count as played by a person, although the mapping has a grant.
    press(41, SentBy::Tool { connection: 9 });
    daemon.block_on(async {
        let tainted = conductor_gateway::owner_handle::Wanted { outcome: Some("tainted".into()), ..Default::default() };
        while daemon.handle().trace(tainted.clone()).await.unwrap().records.is_empty() {
            tokio::task::yield_now().await;
        }
    });
    assert!(rig.try_recv().is_err());
    assert_eq!(questions(), 1);
}

#[test]
fn every_tool_of_the_product_keeps_the_rules_that_clients_need() {
    let daemon = Fixture::new();
    let catalog = daemon.studio().catalog();
    for tool in catalog.tools().filter(|it| !it.hidden) {
        let broken = lint::lint(tool);
        assert!(broken.is_empty(), "{}: {broken:#?}", tool.name);
    }
    let tool = catalog.get("conductor_create_mapping").unwrap();
    let shown = format!("{} {}", tool.description, tool.published_schema.value());
    let kinds = conductor_core::mapping::TriggerKind::NAMES.iter().chain(conductor_core::action::Action::NAMES);
    for kind in kinds {
        assert!(shown.contains(kind), "{kind} is neither in the description nor in the schema");
    }
    assert_eq!(catalog.tools().filter(|it| !it.hidden && it.name.starts_with("conductor_")).count(), 30);
}

#[test]
fn a_tool_that_learns_says_what_would_fire() {
    let daemon = Fixture::new();
    daemon.call(model(), "conductor_start_midi_learn", json!({})).unwrap();
    daemon
        .block_on(daemon.handle().send("pads hand".into(), vec![vec![0x90, 50, 90], vec![0x80, 50, 0]], SentBy::Person))
        .unwrap();
    let learned = daemon.block_on(async {
        // The events pass through the ring of the device callback. Wait until the owner has
        // processed them.
        loop {
            let status = daemon.handle().status().await.unwrap();
            if status.statistics.events_processed >= 2 {
                break;
            }
            tokio::task::yield_now().await;
        }
        call(daemon.studio(), model(), "conductor_stop_midi_learn".into(), json!({})).await.unwrap()
    });
    assert_eq!(learned["suggestions"][0]["type"], "Note", "{learned}");
    assert_eq!(learned["suggestions"][0]["note"], 50);
    assert_eq!(learned["suggestions"][0]["device"], "pads");
    let nothing = daemon.call(model(), "conductor_stop_midi_learn", json!({})).unwrap();
    assert_eq!(nothing["events"], json!([]));
}

#[test]
fn sysex_waits_for_a_person_and_is_sent_once() {
    let daemon = Fixture::new();
    let arguments = json!({ "port": "synth", "data": ["F0", "7E", 127, 6, 1, "F7"] });
    let asked = daemon.call(model(), "conductor_send_sysex", arguments.clone()).unwrap_err();
    assert_eq!(asked.code, Code::ApprovalRequired);
    let wire = asked.to_wire();
    assert_eq!(wire["status"], "requires_confirmation");
    assert_eq!(wire["risk_assessment"]["category"], "identity_request");
    let id = wire["approval_id"].as_str().unwrap().parse().unwrap();
    let mut synth = daemon.block_on(daemon.handle().listen("synth".into())).unwrap();
    daemon.block_on(async {
        let yes = conductor_core::pending::Yes {
            grantable: false,
            grant_ms: Some(60_000),
            ..conductor_core::pending::Yes::once("person:1000", conductor_core::policy::Channel::Cli)
        };
        let studio = daemon.studio();
        studio.approvals.allow(&studio, id, yes).await.unwrap();
    });
    let other = json!({ "port": "synth", "data": [1] });
    assert_eq!(daemon.call(model(), "conductor_send_sysex", other).unwrap_err().code, Code::ApprovalRequired);
    let sent = daemon.call(model(), "conductor_send_sysex", arguments.clone()).unwrap();
    assert_eq!(sent, json!({ "status": "confirmed", "bytes_sent": 6, "port": "synth" }));
    assert_eq!(daemon.block_on(synth.recv()), Some(vec![0xF0, 0x7E, 127, 6, 1, 0xF7]));
    assert_eq!(daemon.call(model(), "conductor_send_sysex", arguments).unwrap_err().code, Code::ApprovalRequired);
}

#[test]
fn a_bad_message_among_good_ones_sends_nothing() {
    let daemon = Fixture::new();
    let mut synth = daemon.block_on(daemon.handle().listen("synth".into())).unwrap();
    let good = json!({ "type": "note_on", "channel": 1, "note": 60 });
    let bad = json!({ "type": "note_on", "channel": 17, "note": 60 });
    let messages = json!({ "port": "synth", "messages": [good, good, bad, good, good] });
    let refused = daemon.call(model(), "conductor_send_midi", messages).unwrap_err();
    assert_eq!(refused.code, Code::BadInput);
    assert!(refused.to_wire().to_string().contains("/messages/2"), "{}", refused.to_wire());
    assert!(synth.try_recv().is_err());
}

#[test]
fn every_argument_has_a_description() {
    let daemon = Fixture::new();
    let catalog = daemon.studio().catalog();
    for tool in catalog.tools() {
        assert_eq!(lint::undescribed(tool), Vec::<String>::new(), "{}", tool.name);
    }
    // Negative control: an argument inside another argument is found too.
    let input = json!({
        "type": "object", "additionalProperties": false,
        "properties": { "rows": { "description": "Rows", "type": "array", "items": { "properties": { "x": { "type": "number" } } } } },
    });
    let run = |_, _, _| async { Ok(Output::new(json!({}))) };
    let tool = Tool::new(Definition::new("a.b", Tier::ReadOnly, "daemon", run).input(input)).unwrap();
    assert_eq!(lint::undescribed(&tool), ["rows/x"]);
}

/// `CONDUCTOR_BLESS=1 cargo test -p conductor --test integration the_page_of_tools` rewrites the
/// page. It also writes all schemas to `target/tmp/schemas.json`; keep the file from before a
/// change, and compare both with `.ci/schemas OLD NEW`.
#[test]
fn the_page_of_tools_is_the_catalog() {
    let daemon = Fixture::new();
    let catalog = daemon.studio().catalog();
    let page = conductor_gateway::catalog::docs::page(&catalog);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    #[expect(clippy::disallowed_methods, reason = "CONDUCTOR_BLESS requests that the page is written")]
    if std::env::var_os("CONDUCTOR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
        let tools = catalog.tools().map(|it| {
            let shown = json!({
                "title": it.title, "description": it.description, "annotations": it.annotations.to_wire(),
                "inputSchema": it.published_schema, "validated": it.input_schema,
                "outputSchema": it.definition().output_schema,
            });
            (it.name.to_string(), shown)
        });
        let tools: serde_json::Map<String, Value> = tools.collect();
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("schemas.json");
        std::fs::write(path, serde_json::to_string_pretty(&tools).unwrap()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/tools.md is not current; write it with CONDUCTOR_BLESS=1");
}
