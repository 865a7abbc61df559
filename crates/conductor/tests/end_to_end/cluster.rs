//! Several daemons with one real NATS server. The rows of the table in `docs/team.md` name these
//! tests.

use super::studio::{DEVICES, Studio, text, until};
use conductor_core::cluster::{self, Answer, Decision, Question, nkey};
use conductor_core::timestamp::Timestamp;
use conductor_hosts::cluster::{Credentials, Draft, Link, Settings, StoreError};
use conductor_hosts::system::{Clock as _, RealClock};
use conductor_testkit::real::nats::{self, Proxy, Server};
use conductor_testkit::require;
use conductor_testkit::stranger::DirectClient;
use conductor_testkit::terminal::at_a_terminal;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use std::path::Path;

/// A server, and rigs that are enrolled with it. Every rig may decide for every other rig.
struct Venue {
    server: Server,
    port: u16,
    proxy: Proxy,
    rigs: Vec<Studio>,
    folder: tempfile::TempDir,
}

const NAMES: [&str; 5] = ["desk", "left", "right", "upper", "lower"];

impl Venue {
    /// Follows "a venue with five rigs" in docs/team.md: keys, enrolment, server, streams, daemons.
    /// The first rig prints the configuration of the server. The second rig connects through a
    /// proxy.
    fn open(count: usize) -> Result<Self, conductor_testkit::real::Missing> {
        Self::open_with(count, false)
    }

    /// Like [`Venue::open`]. With `tls`, the server has a private certificate, and the first rig
    /// reads its key from a file.
    fn open_with(count: usize, tls: bool) -> Result<Self, conductor_testkit::real::Missing> {
        nats::probe()?;
        let (folder, port) = (tempfile::tempdir().unwrap(), nats::free_port());
        let proxy = Proxy::start(port);
        let mut rigs: Vec<Studio> = (0..count).map(|_| Studio::empty()).collect();
        let keys: Vec<Value> = rigs.iter().map(|rig| json_of(rig, &["rigs", "key"])).collect();
        for (at, rig) in rigs.iter().enumerate() {
            let server = if at == 1 { proxy.port } else { port };
            let mut config = format!(
                "{DEVICES}[[modes]]\nname = \"Play\"\n[[modes]]\nname = \"Mix\"\n[limits.read]\n\
                 per_minute = 100000\nburst = 10000\n[limits.effect]\nper_minute = 100000\nburst = 10000\n[tools.filesystem]\n\
                 roots = [{{ name = \"songs\", path = \"{}\", write = true }}]\n\
                 [cluster]\nnats = \"{}://127.0.0.1:{server}\"\nrig = \"{}\"\n",
                folder.path().display(),
                if tls { "tls" } else { "nats" },
                NAMES[at]
            );
            if tls {
                config += "ca = \"venue.pem\"\ncredentials = \"venue.seed\"\n";
                let seed = nkey::seed_text(&key_of(rig.home(), "rig.key"));
                std::fs::write(rig.home().join("venue.seed"), seed).unwrap();
                std::fs::remove_file(rig.home().join("secrets/rig.key")).unwrap();
            }
            for (other, keys) in keys.iter().enumerate().filter(|(other, _)| *other != at) {
                config += &format!(
                    "[[cluster.deciders]]\nname = \"{}\"\nkey = {}\ntiers = [\"Stateful\", \"HardwareIO\"]\n",
                    NAMES[other], keys["decider"]
                );
            }
            if at == 0 {
                for (rig, keys) in keys.iter().enumerate() {
                    let others: Vec<&str> = (0..count).filter(|it| *it != rig).map(|it| NAMES[it]).collect();
                    config += &format!(
                        "[[cluster.rigs]]\nname = \"{}\"\nkey = {}\ndecides_for = {others:?}\n",
                        NAMES[rig], keys["key"]
                    );
                }
            }
            std::fs::write(rig.config_file(), config).unwrap();
        }
        let file = folder.path().join("nats.conf");
        let store = folder.path().join("store").display().to_string();
        let listen = format!("127.0.0.1:{port}");
        let mut words = vec!["rigs", "server-config", "--listen", &listen, "--store", &store];
        let files = ["pem", "key"].map(|it| folder.path().join(format!("venue.{it}")).display().to_string());
        if tls {
            let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
            std::fs::write(&files[0], made.cert.pem()).unwrap();
            std::fs::write(&files[1], made.signing_key.serialize_pem()).unwrap();
            for rig in &rigs {
                std::fs::copy(&files[0], rig.home().join("venue.pem")).unwrap();
            }
            words.extend(["--tls-cert", &files[0], "--tls-key", &files[1]]);
        }
        let shown = json_of(&rigs[0], &words);
        std::fs::write(&file, shown["config"].as_str().unwrap()).unwrap();
        let server = Server::start(&file, port)?;
        json_of(&rigs[0], &["rigs", "init"]);
        for rig in &mut rigs {
            rig.up(&[]);
        }
        let venue = Venue { server, port, proxy, rigs, folder };
        venue.all_connected();
        Ok(venue)
    }

    fn all_connected(&self) {
        for rig in &self.rigs {
            until("the rig is connected", || (cluster_of(rig)["connected"] == true).then_some(()));
        }
    }

    /// Waits until the witness of a rig is complete.
    fn witnessed(&self, rig: usize) {
        let rig = &self.rigs[rig];
        for _ in 0..6 {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                until("the witness has every record", || (cluster_of(rig)["unwitnessed"] == 0).then_some(()));
            }));
            if done.is_ok() {
                return;
            }
        }
        panic!("the witness does not have every record: {}", cluster_of(rig));
    }

    /// Makes a call that waits for a person. Returns the client and the id of the question.
    fn park(&self, rig: usize, path: &str) -> (DirectClient, String) {
        let mut client = DirectClient::connect(self.rigs[rig].home());
        let parked = client.call("filesystem.write", &json!({ "path": path, "content": "x" }));
        assert_eq!(parked["error"]["data"]["code"], "APPROVAL_REQUIRED", "{parked}");
        (client, parked["error"]["data"]["short"].as_str().unwrap().to_owned())
    }

    /// The open question of a rig, as another rig sees it.
    fn question(&self, from: usize, of: usize, short: &str) -> (Value, Question) {
        until("the question is shared", || {
            let shared = self.rigs[from].control().ask("rigs.questions", json!({})).ok()?;
            let row = shared["questions"].as_array()?.iter().find(|it| it["short"] == short)?.clone();
            assert_eq!(row["rig"], NAMES[of]);
            let mut question = row.clone();
            question.as_object_mut().unwrap().retain(|key, _| key != "rig" && key != "question");
            Some((row, serde_json::from_value(question).unwrap()))
        })
    }

    fn person(&self, rig: usize, words: &[&str]) -> (Option<i32>, String) {
        let mut command = self.rigs[rig].command();
        command.args(words);
        at_a_terminal(command)
    }

    fn link(&self, runtime: &tokio::runtime::Runtime, rig: usize) -> Link {
        let credentials = Credentials { seed: key_of(self.rigs[rig].home(), "rig.key").to_bytes(), jwt: None };
        let server = format!("nats://127.0.0.1:{}", self.port);
        let settings = Settings { server, name: NAMES[rig].to_owned(), credentials, ca: None };
        runtime.block_on(Link::open(&settings)).unwrap()
    }

    fn written(&self, path: &str) -> bool {
        self.folder.path().join(path).exists()
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn key_of(home: &Path, name: &str) -> SigningKey {
    SigningKey::from_bytes(&std::fs::read(home.join("secrets").join(name)).unwrap().try_into().unwrap())
}

fn now() -> Timestamp {
    Timestamp::from_millis(RealClock::new().wall_ms())
}

fn json_of(rig: &Studio, words: &[&str]) -> Value {
    let answer = rig.command().arg("--json").args(words).output().unwrap();
    assert!(answer.status.success(), "{words:?}: {}{}", text(&answer.stdout), text(&answer.stderr));
    serde_json::from_slice(&answer.stdout).unwrap()
}

fn cluster_of(rig: &Studio) -> Value {
    rig.status()["cluster"].clone()
}

fn verify(rig: &Studio, more: &[&str]) -> (i32, Value) {
    let answer = rig.command().args(["--json", "audit", "verify", "--witness"]).args(more).output().unwrap();
    let shown = text(&answer.stdout);
    let value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}{}", text(&answer.stderr)));
    (answer.status.code().unwrap(), value)
}

fn decide(question: &Question, rig: &str, answer: Answer, key: &SigningKey) -> Draft {
    let decision = Decision::sign(rig, question, answer, now(), "desk/person:1000", key);
    let subject = cluster::decide_subject(rig, question.id);
    Draft { subject, expected: Some(0), id: None, body: decision.to_json().into() }
}

#[test]
fn a_person_on_another_rig_answers_and_the_rigs_see_each_other() {
    let venue = require!(Venue::open(5));
    let (mut client, short) = venue.park(1, "one.txt");
    venue.question(0, 1, &short);
    // Without a terminal, the decision is refused.
    let refused = venue.rigs[0].run(&["rigs", "approvals", "allow", "left", &short]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("terminal"), "{}", text(&refused.stderr));
    let (code, shown) = venue.person(0, &["rigs", "approvals", "allow", "left", &short]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("filesystem.write") && shown.contains("has applied the answer"), "{shown}");
    let done = client.call("filesystem.write", &json!({ "path": "one.txt", "content": "x" }));
    assert!(done["error"].is_null() && venue.written("one.txt"), "{done}");
    let log = text(&venue.rigs[1].run(&["audit", "list", "-n", "200", "--json"]).stdout);
    assert!(log.contains("rig:desk/desk/person:") && log.contains("\"channel\":\"rig\""), "{log}");

    // A denial reaches the other rig too.
    let (mut client, short) = venue.park(2, "two.txt");
    venue.question(3, 2, &short);
    assert_eq!(venue.person(3, &["rigs", "approvals", "deny", "right", &short]).0, Some(0));
    let done = client.call("filesystem.write", &json!({ "path": "two.txt", "content": "x" }));
    assert_eq!(done["error"]["data"]["code"], "DENIED", "{done}");

    let listed = until("all rigs are up", || {
        let listed = json_of(&venue.rigs[4], &["rigs"]);
        let rows = listed["rigs"].as_array().unwrap().clone();
        (rows.len() == 5 && rows.iter().all(|it| it["state"] == "up")).then_some(rows)
    });
    for row in &listed {
        assert!(row["version"].is_string() && row["config_hash"].is_string() && row["last_seen"].is_string(), "{row}");
        assert!(row["mode"] == "Play" && row["drops"] == 0, "{row}");
    }
    let shown = text(&venue.rigs[0].run(&["rigs"]).stdout);
    assert!(shown.contains("left") && shown.contains("mode Play"), "{shown}");
}

#[test]
fn a_hundred_racing_decisions_have_one_winner() {
    let venue = require!(Venue::open(3));
    let (mut client, short) = venue.park(1, "race.txt");
    let (_, question) = venue.question(0, 1, &short);
    let runtime = runtime();
    let links = [venue.link(&runtime, 0), venue.link(&runtime, 2)];
    let keys = [key_of(venue.rigs[0].home(), "decider.key"), key_of(venue.rigs[2].home(), "decider.key")];
    let drafts: Vec<(usize, Answer)> =
        (0..100).map(|n| (n % 2, if n % 3 == 0 { Answer::Deny } else { Answer::Allow })).collect();
    let all = drafts.iter().map(|(from, answer)| links[*from].store(decide(&question, "left", *answer, &keys[*from])));
    let results = runtime.block_on(futures_util::future::join_all(all));
    let won: Vec<Answer> =
        results.iter().zip(&drafts).filter(|(it, _)| it.is_ok()).map(|(_, (_, answer))| *answer).collect();
    assert_eq!(won.len(), 1, "{results:?}");
    let lost = results.iter().filter(|it| matches!(it, Err(StoreError::NotFirst))).count();
    assert_eq!(lost, 99, "{results:?}");
    // The rig applies the decision that the server stored, once.
    until("the rig has decided", || {
        let open = venue.rigs[1].ask("pending.list", json!({}));
        open["approvals"].as_array().unwrap().is_empty().then_some(())
    });
    let done = client.call("filesystem.write", &json!({ "path": "race.txt", "content": "x" }));
    assert_eq!(venue.written("race.txt"), won[0] == Answer::Allow, "{done}");
    // The server itself refuses a second decision, even without an expected sequence number.
    let mut late = decide(&question, "left", Answer::Allow, &keys[0]);
    late.expected = None;
    assert_eq!(runtime.block_on(links[0].store(late)), Err(StoreError::NotFirst));
}

#[test]
fn a_server_stopped_mid_decision_leaves_the_question_to_the_rig() {
    let venue = require!(Venue::open(2));
    let (mut client, short) = venue.park(1, "stopped.txt");
    venue.question(0, 1, &short);
    venue.server.freeze(true);
    let (code, shown) = venue.person(0, &["rigs", "approvals", "allow", "left", &short]);
    assert_ne!(code, Some(0), "{shown}");
    assert!(!venue.written("stopped.txt"));
    // The rig itself works without the server: a person there denies the call.
    let (code, shown) = venue.person(1, &["approvals", "deny", &short]);
    assert_eq!(code, Some(0), "{shown}");
    // The question stays closed, whatever the server has stored in the meantime.
    venue.server.freeze(false);
    venue.all_connected();
    let done = client.call("filesystem.write", &json!({ "path": "stopped.txt", "content": "x" }));
    assert_eq!(done["error"]["data"]["code"], "DENIED", "{done}");
    assert!(!venue.written("stopped.txt"));
}

#[test]
fn without_the_server_every_rig_goes_on_and_the_others_are_unknown() {
    let mut venue = require!(Venue::open(2));
    let (mut client, short) = venue.park(1, "local.txt");
    venue.question(0, 1, &short);
    venue.server.stop();
    for rig in &venue.rigs {
        until("the lost connection is noticed", || (cluster_of(rig)["connected"] == false).then_some(()));
    }
    // Another rig cannot answer the shared question, and the error names the reason.
    let (code, shown) = venue.person(0, &["rigs", "approvals", "allow", "left", &short]);
    assert!(code != Some(0) && shown.contains("NATS"), "{shown}");
    let listed = json_of(&venue.rigs[0], &["rigs"]);
    assert!(listed["rigs"].as_array().unwrap().iter().all(|it| it["state"] == "unknown"), "{listed}");
    // Calls, pads and local decisions work.
    venue.rigs[1].call("conductor_switch_mode", json!({ "mode": "Mix" }));
    assert_eq!(venue.person(1, &["approvals", "allow", &short]).0, Some(0));
    let done = client.call("filesystem.write", &json!({ "path": "local.txt", "content": "x" }));
    assert!(done["error"].is_null() && venue.written("local.txt"), "{done}");
    venue.server.resume().unwrap();
    venue.all_connected();
    venue.witnessed(1);
    assert_eq!(verify(&venue.rigs[1], &[]).0, 0);
}

#[test]
fn a_partition_during_a_plan_applies_it_once() {
    let venue = require!(Venue::open(2));
    let mut client = DirectClient::connect(venue.rigs[1].home());
    let changes = json!({ "changes": [{ "change_type": "CreateMode", "mode": "New" }] });
    let planned = client.result("conductor_plan_changes", &changes);
    let plan = planned["plan_id"].as_str().unwrap_or_else(|| panic!("{planned}")).to_owned();
    venue.proxy.cut(true);
    until("the lost connection is noticed", || (cluster_of(&venue.rigs[1])["connected"] == false).then_some(()));
    let (code, shown) = venue.person(1, &["plans", "apply", &plan]);
    assert_eq!(code, Some(0), "{shown}");
    assert_ne!(venue.person(1, &["plans", "apply", &plan]).0, Some(0));
    // The other rig stays connected.
    assert_eq!(cluster_of(&venue.rigs[0])["connected"], true);
    venue.proxy.cut(false);
    venue.all_connected();
    venue.witnessed(1);
    let modes = venue.rigs[1].call("conductor_list_modes", json!({}));
    assert_eq!(modes.to_string().matches("\"New\"").count(), 1, "{modes}");
    let (code, shown) = verify(&venue.rigs[1], &[]);
    assert_eq!((code, &shown["witness"]["duplicates"]), (0, &json!(0)), "{shown}");
}

/// A busy show makes about one call per three seconds: 600 calls in 30 minutes, with an intent and
/// an outcome each. The daemon is also restarted during the outage.
#[test]
fn an_outage_leaves_no_gap_in_the_witness() {
    let mut venue = require!(Venue::open(2));
    venue.rigs[0].call("conductor_switch_mode", json!({ "mode": "Mix" }));
    venue.witnessed(0);
    let before = verify(&venue.rigs[0], &[]).1["witness"]["records"].as_u64().unwrap();
    venue.server.stop();
    let mut control = venue.rigs[0].control();
    for n in 0..600 {
        let mode = if n % 2 == 0 { "Play" } else { "Mix" };
        control.call("conductor_switch_mode", json!({ "mode": mode })).unwrap();
        if n == 300 {
            venue.rigs[0].stop();
            venue.rigs[0].up(&[]);
            control = venue.rigs[0].control();
        }
    }
    assert!(cluster_of(&venue.rigs[0])["unwitnessed"].as_u64().unwrap() >= 600);
    venue.server.resume().unwrap();
    venue.all_connected();
    venue.witnessed(0);
    let (code, shown) = verify(&venue.rigs[0], &[]);
    let witness = &shown["witness"];
    assert_eq!(code, 0, "{shown}");
    assert_eq!((&shown["verdict"], &witness["duplicates"]), (&json!("INTACT"), &json!(0)), "{shown}");
    assert!(witness["records"].as_u64().unwrap() >= before + 600, "{shown}");
    assert!(witness["checkpoints"].as_u64().unwrap() > 0, "{shown}");
}

#[test]
fn deleting_the_log_the_checkpoints_and_the_keys_together_is_found() {
    let mut venue = require!(Venue::open(2));
    for mode in ["Mix", "Play", "Mix"] {
        venue.rigs[1].call("conductor_switch_mode", json!({ "mode": mode }));
    }
    venue.witnessed(1);
    venue.rigs[1].stop();
    let home = venue.rigs[1].home().to_owned();
    let whole = tempfile::tempdir().unwrap();
    let copy = |from: &Path, to: &Path| {
        assert!(std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
    };
    copy(&home.join("audit"), whole.path());

    // The last records of the log and their checkpoints are removed.
    let segment = home.join("audit/000001.jsonl");
    let lines = std::fs::read_to_string(&segment).unwrap();
    let kept: String = lines.lines().take(3).map(|it| format!("{it}\n")).collect();
    std::fs::write(&segment, kept).unwrap();
    for file in ["state/checkpoints.jsonl", "state/audit.last"] {
        std::fs::remove_file(home.join(file)).unwrap();
    }
    let (code, shown) = verify(&venue.rigs[1], &[]);
    let truncated = shown["faults"].as_array().unwrap().iter().any(|it| {
        it["verdict"] == "TRUNCATED" && it["expected"].as_str().unwrap().contains("according to the witness")
    });
    assert!(code != 0 && truncated, "{shown}");

    // The whole log is removed.
    std::fs::remove_dir_all(home.join("audit")).unwrap();
    for file in ["state/audit.pub", "state/audit.salt", "secrets/audit.key", "audit.log"] {
        let _ = std::fs::remove_file(home.join(file));
    }
    let (code, shown) = verify(&venue.rigs[1], &[]);
    assert_eq!((code, &shown["verdict"]), (13, &json!("MISSING")), "{shown}");

    // A new daemon creates a new log with new keys. Without the witness, this log is intact.
    venue.rigs[1].up(&[]);
    venue.rigs[1].call("conductor_switch_mode", json!({ "mode": "Play" }));
    assert_eq!(venue.rigs[1].run(&["audit", "verify"]).status.code(), Some(0));
    let (code, shown) = verify(&venue.rigs[1], &[]);
    assert_eq!(code, 12, "{shown}");
    let error =
        until("the daemon reports the other log", || cluster_of(&venue.rigs[1])["error"].as_str().map(str::to_owned));
    assert!(error.contains("audit verify --witness"), "{error}");
    // The witness still has the old records, and another rig is not affected.
    assert_eq!(verify(&venue.rigs[0], &[]).0, 0);
}

#[test]
fn a_stolen_rig_key_cannot_write_for_another_rig_or_decide_for_it() {
    let venue = require!(Venue::open(3));
    let (_client, short) = venue.park(2, "stolen.txt");
    let (_, question) = venue.question(0, 2, &short);
    venue.witnessed(2);
    let before = verify(&venue.rigs[2], &[]).1["witness"]["records"].clone();
    let runtime = runtime();
    // The thief has the key of "left" for the server, but no key for decisions.
    let thief = venue.link(&runtime, 1);
    let draft = |subject: String| Draft { subject, expected: None, id: None, body: "x".into() };
    let forbidden = [
        cluster::record_subject("right"),
        cluster::checkpoint_subject("right"),
        cluster::ask_subject("right"),
        cluster::presence_subject("right"),
        "$JS.API.STREAM.PURGE.audit-left".to_owned(),
        "$JS.API.STREAM.DELETE.audit-left".to_owned(),
        "$JS.API.STREAM.MSG.DELETE.audit-left".to_owned(),
        "$JS.API.STREAM.UPDATE.audit-left".to_owned(),
    ];
    let all = forbidden.iter().map(|it| thief.store(draft(it.clone())));
    for (result, subject) in runtime.block_on(futures_util::future::join_all(all)).iter().zip(&forbidden) {
        assert!(result.is_err(), "{subject}: {result:?}");
    }
    // The server allows "left" to send decisions to "right", but this decision is signed with a key
    // that is not enrolled.
    let own = SigningKey::from_bytes(&[7; 32]);
    runtime.block_on(thief.store(decide(&question, "right", Answer::Allow, &own))).unwrap();
    until("the decision is refused", || (cluster_of(&venue.rigs[2])["refused_decisions"] == 1).then_some(()));
    assert_eq!(venue.rigs[2].ask("pending.list", json!({}))["approvals"].as_array().unwrap().len(), 1);
    assert!(!venue.written("stolen.txt"));
    let (code, shown) = verify(&venue.rigs[2], &[]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown["witness"]["records"].as_u64() >= before.as_u64(), "{shown}");
    let log = text(&venue.rigs[2].run(&["audit", "list", "-n", "200"]).stdout);
    assert!(log.contains("auth.failed") && log.contains("not enrolled"), "{log}");
    // A person at the rig can still answer.
    assert_eq!(venue.person(2, &["approvals", "deny", &short]).0, Some(0));
}

#[test]
fn a_hanging_server_delays_no_call() {
    let venue = require!(Venue::open(2));
    venue.server.freeze(true);
    let mut ear = venue.rigs[1].listen("synth");
    // Make far more calls than any queue to the server can hold. No call waits for the server.
    let mut control = venue.rigs[1].control();
    for n in 0..400 {
        let mode = if n % 2 == 0 { "Mix" } else { "Play" };
        control.call("conductor_switch_mode", json!({ "mode": mode })).unwrap();
    }
    let note = json!({ "type": "note_on", "channel": 1, "note": 60 });
    venue.rigs[1].call("conductor_send_midi", json!({ "port": "synth", "messages": [note] }));
    assert_eq!(ear.hear().unwrap()[1], 60);
    venue.server.freeze(false);
    venue.all_connected();
    venue.witnessed(1);
    assert_eq!(verify(&venue.rigs[1], &[]).0, 0);
}

#[test]
fn a_changed_cluster_section_waits_for_a_person() {
    let venue = require!(Venue::open(2));
    let config = std::fs::read_to_string(venue.rigs[1].config_file()).unwrap();
    let own = nkey::public_text(&SigningKey::from_bytes(&[7; 32]).verifying_key());
    let row = format!("[[cluster.deciders]]\nname = \"thief\"\nkey = \"{own}\"\ntiers = [\"HardwareIO\"]\n");
    venue.rigs[1].save(&format!("{config}{row}"));
    until("the section is held", || {
        let held = venue.rigs[1].status()["config"].to_string();
        held.contains("cluster").then_some(())
    });
    let (_client, short) = venue.park(1, "held.txt");
    let (_, question) = venue.question(0, 1, &short);
    let runtime = runtime();
    let link = venue.link(&runtime, 0);
    let key = SigningKey::from_bytes(&[7; 32]);
    runtime.block_on(link.store(decide(&question, "left", Answer::Allow, &key))).unwrap();
    until("the decision is refused", || (cluster_of(&venue.rigs[1])["refused_decisions"] == 1).then_some(()));
    // A person enrols a key with a command.
    let refused = venue.rigs[0].run(&["rigs", "enrol", "decider", "phone", &own]);
    assert!(!refused.status.success());
    let (code, shown) = venue.person(0, &["rigs", "enrol", "decider", "phone", &own]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(std::fs::read_to_string(venue.rigs[0].config_file()).unwrap().contains(&own));
    let (code, shown) = venue.person(0, &["rigs", "remove", "decider", "phone"]);
    assert_eq!(code, Some(0), "{shown}");
}

#[test]
fn a_key_allows_only_the_tiers_that_were_enrolled() {
    let mut venue = require!(Venue::open(2));
    venue.rigs[1].stop();
    let config = std::fs::read_to_string(venue.rigs[1].config_file()).unwrap();
    // Removing a tier changes the list of deciders, so a person must accept it.
    std::fs::write(venue.rigs[1].config_file(), config.replace(", \"HardwareIO\"", "")).unwrap();
    venue.rigs[1].up(&[]);
    venue.rigs[1].accept();
    venue.all_connected();
    let (_client, short) = venue.park(1, "tier.txt");
    venue.question(0, 1, &short);
    let (code, shown) = venue.person(0, &["rigs", "approvals", "allow", "left", &short]);
    assert!(shown.contains("has not applied the answer"), "{code:?} {shown}");
    assert_eq!(cluster_of(&venue.rigs[1])["refused_decisions"], 1);
    assert_eq!(venue.rigs[1].ask("pending.list", json!({}))["approvals"].as_array().unwrap().len(), 1);
}

#[test]
fn a_rig_uses_tls_and_its_own_credentials() {
    let venue = require!(Venue::open_with(1, true));
    venue.witnessed(0);
    let (code, shown) = verify(&venue.rigs[0], &[]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown["witness"]["server"].as_str().unwrap().starts_with("tls://"), "{shown}");
    assert!(!venue.rigs[0].home().join("secrets/rig.key").exists());
}

/// Each row of the table names the test that shows it.
#[test]
fn the_table_of_failures_follows_the_tests() {
    let page = include_str!("../../../../docs/team.md");
    let table = page.split("<!-- cluster table").nth(1).expect("the table").split("<!-- end").next().unwrap();
    let source = include_str!("cluster.rs");
    let named: Vec<&str> = table
        .lines()
        .filter_map(|it| it.strip_prefix('|')?.trim_end().trim_end_matches('|').rsplit('|').next())
        .map(|it| it.trim().trim_matches('`'))
        .filter(|it| it.contains('_'))
        .collect();
    assert!(named.len() >= 7, "{named:?}");
    for name in &named {
        assert!(source.contains(&format!("fn {name}()")), "docs/team.md names {name}, which is not a test");
    }
    let tests = source.split("#[test]\nfn ").skip(1).map(|it| it.split('(').next().unwrap());
    for test in tests.filter(|it| !it.starts_with("the_table")) {
        assert!(named.contains(&test), "no row of docs/team.md names {test}");
    }
}
