//! Plans and approvals through the real path: a daemon in this process, its pipeline, its audit log and its files.

use conductor::daemon::handle::{Handle, SentBy};
use conductor::daemon::home::Home;
use conductor::daemon::log::Log;
use conductor::daemon::{Daemon, Options};
use conductor::outside::{ManualClock, RandomIds};
use conductor::pipeline::call::Outcome;
use conductor::pipeline::{self, Call};
use conductor::studio::Studio;
use conductor::tools::lint;
use conductor_core::error::{Code, ToolError};
use conductor_core::pending::{Kind, State};
use conductor_core::principal::Principal;
use serde_json::{Value, json};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

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

struct Room {
    daemon: Option<Daemon>,
    clock: Arc<ManualClock>,
    home: TempDir,
}

impl Room {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), CONFIG).unwrap();
        let clock = ManualClock::at_wall_ms(1_800_000_000_000);
        let daemon = Daemon::start(Options {
            home: Home::at(home.path()),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            log: Log::new(clock.clone(), Box::new(std::io::sink())),
            first_config: "",
            extra_devices: Vec::new(),
        })
        .unwrap();
        let room = Room { daemon: Some(daemon), clock, home };
        room.run(room.owner().ready()).unwrap();
        room
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    fn owner(&self) -> Handle {
        self.daemon().handle().clone()
    }

    fn studio(&self) -> Arc<Studio> {
        Arc::clone(&self.daemon().words().studio)
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.daemon().block_on(future)
    }

    fn call(&self, principal: Principal, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        self.run(call(self.studio(), principal, tool.to_owned(), arguments))
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

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
    }
}

async fn call(studio: Arc<Studio>, principal: Principal, tool: String, arguments: Value) -> Result<Value, ToolError> {
    match pipeline::run(&studio, Call::new(principal, tool, arguments)).await.into_outcome() {
        Outcome::Done(Ok(output)) => Ok(output.value),
        Outcome::Done(Err(error)) => Err(error),
        Outcome::Cancelled | Outcome::Ask { .. } => panic!("no such end here"),
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
    let room = Room::new();
    let before = room.config();
    let id = room.plan();
    assert_eq!(room.config(), before, "a plan changes nothing");
    room.apply(&id).unwrap();
    let after = room.config();
    assert!(after.starts_with("# my studio\n") && after.contains("alias = \"pads\"      # sixteen of them"), "{after}");
    let mut synth = room.run(room.owner().listen("synth".into())).unwrap();
    room.run(room.owner().send("pads hand".into(), vec![vec![0x90, 40, 100]], SentBy::Person)).unwrap();
    assert_eq!(room.run(synth.recv()), Some(vec![0xB0, 21, 2]));
    assert_eq!(room.status_of(&id), "applied");

    let undo = room.call(model(), "conductor_undo_plan", json!({ "plan_id": id })).unwrap();
    room.apply(undo["plan_id"].as_str().unwrap()).unwrap();
    assert_eq!(room.config(), before, "undo gives the old bytes");
    assert_eq!(room.status_of(&id), "undone");
}

#[test]
fn of_a_hundred_applies_at_once_exactly_one_wins() {
    let room = Room::new();
    let id = room.plan();
    let results = room.run(async {
        let mut tasks = Vec::new();
        for _ in 0..100 {
            let arguments = json!({ "plan_id": id, "channel": "cli" });
            tasks.push(tokio::spawn(call(room.studio(), person(), "plan.apply".into(), arguments)));
        }
        let mut results = Vec::new();
        for task in tasks {
            results.push(task.await.unwrap());
        }
        results
    });
    let won = results.iter().filter(|it| it.is_ok()).count();
    // Some may be turned away for speed; none of the others applied anything.
    let lost = results.iter().filter_map(|it| it.as_ref().err()).map(|it| it.code);
    let lost: Vec<Code> = lost.collect();
    assert_eq!(won, 1, "{lost:?}");
    assert!(lost.iter().all(|code| matches!(code, Code::BadInput | Code::RateLimited | Code::Busy)), "{lost:?}");
}

#[test]
fn a_file_edited_in_between_makes_the_plan_stale_and_stays_as_it_is() {
    let room = Room::new();
    let id = room.plan();
    let edited = room.config() + "# a remark\n";
    std::fs::write(room.config_file(), &edited).unwrap();
    assert_eq!(room.apply(&id).unwrap_err().code, Code::PlanStale);
    assert_eq!(room.config(), edited);
    assert_eq!(room.status_of(&id), "stale");
    assert_eq!(room.apply(&id).unwrap_err().code, Code::PlanStale);
}

#[test]
fn a_plan_lives_five_minutes_to_the_millisecond() {
    let room = Room::new();
    let id = room.plan();
    room.clock.advance(Duration::from_millis(300_000));
    assert_eq!(room.apply(&id).unwrap_err().code, Code::PlanExpired);
    let id = room.plan();
    room.clock.advance(Duration::from_millis(299_999));
    room.apply(&id).unwrap();
}

#[test]
fn nobody_but_a_person_reaches_what_decides() {
    let room = Room::new();
    let id = room.plan();
    let others = [
        model(),
        Principal::Cli { uid: 1000 },
        Principal::Http { token: "default".into() },
        Principal::Mapping { mode: "Default".into(), id: "kick".into() },
    ];
    for principal in others {
        for tool in ["plan.apply", "plan_apply", "plan.reject", "llm_apply_plan", "llm_reject_plan"] {
            let refused = room.call(principal.clone(), tool, json!({ "plan_id": id, "channel": "cli" })).unwrap_err();
            assert_eq!(refused.code, Code::NotFound, "{principal} {tool}");
        }
    }
    let catalog = room.studio().catalog();
    for tool in catalog.tools().filter(|it| !it.hidden) {
        let _ = room.call(model(), &tool.name, json!({ "plan_id": id, "id": id, "approval_id": id, "confirm": true }));
    }
    assert_eq!(room.status_of(&id), "pending");
}

#[test]
fn an_applied_mapping_may_call_what_it_was_applied_for_and_a_hand_written_one_asks() {
    let room = Room::new();
    let mut rig = room.run(room.owner().listen("rig".into())).unwrap();
    let press = |note: u8, by: SentBy| {
        room.run(room.owner().send("pads hand".into(), vec![vec![0x90, note, 100], vec![0x80, note, 0]], by)).unwrap();
    };
    let questions = || {
        room.studio()
            .desk
            .store()
            .read(|pending| pending.iter().filter(|it| it.kind == Kind::Call && it.state == State::Pending).count())
    };
    // Written by hand: the press parks a question.
    press(37, SentBy::Person);
    room.run(async {
        while questions() == 0 {
            tokio::task::yield_now().await;
        }
    });
    assert!(rig.try_recv().is_err());

    let send = json!({ "port": "rig", "messages": [{ "type": "cc", "channel": 1, "controller": 2, "value": 9 }] });
    let plan = room
        .call(
            model(),
            "conductor_create_mapping",
            json!({
                "mode": "Default", "trigger": { "type": "Note", "note": 41, "device": "pads" },
                "action": { "type": "CallTool", "tool": "conductor_send_midi", "arguments": send },
            }),
        )
        .unwrap();
    room.apply(plan["plan_id"].as_str().unwrap()).unwrap();
    press(41, SentBy::Person);
    assert_eq!(room.run(rig.recv()), Some(vec![0xB0, 2, 9]), "the plan's grant answers");

    // Pressed by a tool it is no hand, grant or not.
    press(41, SentBy::Tool { connection: 9 });
    room.run(async {
        let tainted = conductor::daemon::handle::Wanted { outcome: Some("tainted".into()), ..Default::default() };
        while room.owner().trace(tainted.clone()).await.unwrap().records.is_empty() {
            tokio::task::yield_now().await;
        }
    });
    assert!(rig.try_recv().is_err());
    assert_eq!(questions(), 1);
}

#[test]
fn every_tool_of_the_product_keeps_the_rules_that_clients_need() {
    let room = Room::new();
    let catalog = room.studio().catalog();
    for tool in catalog.tools().filter(|it| !it.hidden) {
        let broken = lint::lint(tool);
        assert!(broken.is_empty(), "{}: {broken:#?}", tool.name);
    }
    let description = &catalog.get("conductor_create_mapping").unwrap().description;
    let kinds = conductor_core::mapping::TriggerKind::NAMES.iter().chain(conductor_core::action::Action::NAMES);
    for kind in kinds {
        assert!(description.contains(kind), "{kind} is not in the description");
    }
    assert_eq!(catalog.tools().filter(|it| !it.hidden && it.name.starts_with("conductor_")).count(), 27);
}

#[test]
fn a_tool_that_learns_says_what_would_fire() {
    let room = Room::new();
    room.call(model(), "conductor_start_midi_learn", json!({})).unwrap();
    room.run(room.owner().send("pads hand".into(), vec![vec![0x90, 50, 90], vec![0x80, 50, 0]], SentBy::Person))
        .unwrap();
    let learned = room.run(async {
        // The events travel through the callback lane; the owner has them once it says so.
        loop {
            let status = room.owner().status().await.unwrap();
            if status.statistics.events_processed >= 2 {
                break;
            }
            tokio::task::yield_now().await;
        }
        call(room.studio(), model(), "conductor_stop_midi_learn".into(), json!({})).await.unwrap()
    });
    assert_eq!(learned["suggestions"][0]["type"], "Note", "{learned}");
    assert_eq!(learned["suggestions"][0]["note"], 50);
    assert_eq!(learned["suggestions"][0]["device"], "pads");
    let nothing = room.call(model(), "conductor_stop_midi_learn", json!({})).unwrap();
    assert_eq!(nothing["events"], json!([]));
}

#[test]
fn sysex_waits_for_a_person_and_is_sent_once() {
    let room = Room::new();
    let arguments = json!({ "port": "synth", "data": ["F0", "7E", 127, 6, 1, "F7"] });
    let asked = room.call(model(), "conductor_send_sysex", arguments.clone()).unwrap_err();
    assert_eq!(asked.code, Code::ApprovalRequired);
    let wire = asked.to_wire();
    assert_eq!(wire["status"], "requires_confirmation");
    assert_eq!(wire["risk_assessment"]["category"], "identity_request");
    let id = wire["approval_id"].as_str().unwrap().parse().unwrap();
    let mut synth = room.run(room.owner().listen("synth".into())).unwrap();
    room.run(async {
        let yes = conductor_core::pending::Yes {
            grantable: false,
            grant_ms: Some(60_000),
            ..conductor_core::pending::Yes::once("person:1000", conductor_core::policy::Channel::Cli)
        };
        let studio = room.studio();
        studio.desk.allow(&studio, id, yes).await.unwrap();
    });
    let other = json!({ "port": "synth", "data": [1] });
    assert_eq!(room.call(model(), "conductor_send_sysex", other).unwrap_err().code, Code::ApprovalRequired);
    let sent = room.call(model(), "conductor_send_sysex", arguments.clone()).unwrap();
    assert_eq!(sent, json!({ "status": "confirmed", "bytes_sent": 6, "port": "synth" }));
    assert_eq!(room.run(synth.recv()), Some(vec![0xF0, 0x7E, 127, 6, 1, 0xF7]));
    assert_eq!(room.call(model(), "conductor_send_sysex", arguments).unwrap_err().code, Code::ApprovalRequired);
}

#[test]
fn a_bad_message_among_good_ones_sends_nothing() {
    let room = Room::new();
    let mut synth = room.run(room.owner().listen("synth".into())).unwrap();
    let good = json!({ "type": "note_on", "channel": 1, "note": 60 });
    let bad = json!({ "type": "note_on", "channel": 17, "note": 60 });
    let messages = json!({ "port": "synth", "messages": [good, good, bad, good, good] });
    let refused = room.call(model(), "conductor_send_midi", messages).unwrap_err();
    assert_eq!(refused.code, Code::BadInput);
    assert!(refused.to_wire().to_string().contains("/messages/2"), "{}", refused.to_wire());
    assert!(synth.try_recv().is_err());
}

/// `CONDUCTOR_BLESS=1 cargo test -p conductor --test words` writes the page anew.
#[test]
fn the_page_of_tools_is_the_catalog() {
    let room = Room::new();
    let page = conductor::tools::docs::page(&room.studio().catalog());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    #[expect(clippy::disallowed_methods, reason = "a person asks for the page to be written")]
    if std::env::var_os("CONDUCTOR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/tools.md is not current; write it with CONDUCTOR_BLESS=1");
}
