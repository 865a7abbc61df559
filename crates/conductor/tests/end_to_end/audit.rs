//! Removes, shortens or replaces files of the audit log while no daemon runs. The damage must be
//! detected, even after another start of the daemon.

use crate::studio::{BINARY, DEVICES, Studio, text, until};
use conductor_testkit::real::keyring::{self, Ring};
use conductor_testkit::require;
use conductor_testkit::stranger::DirectClient;
use conductor_testkit::terminal::at_a_terminal;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PAD: &str = "[[modes]]\nname = \"Default\"\n[[modes.mappings]]\nid = \"kick\"\n\
    trigger = { type = \"Note\", note = 36, device = \"pads\" }\n\
    action = { type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"CC\", controller = 20, value = 1 }\n";

/// The home of a stopped daemon, with some records.
fn worked(more: &str) -> Studio {
    let mut studio = Studio::start(&format!("{DEVICES}{PAD}{more}"));
    work(&studio);
    studio.stop();
    studio
}

fn call(home: &Path, tool: &str, arguments: &Value) -> Value {
    DirectClient::connect(home).call(tool, arguments)
}

fn work(studio: &Studio) {
    for _ in 0..3 {
        // On a busy machine, a record can take longer than a panic waits for it. The answer is then
        // `audit: pending`.
        until("a call whose record is in the log", || {
            let answer = call(studio.home(), "conductor_panic", &json!({}));
            assert!(answer["result"]["ports"].is_array(), "{answer}");
            answer["result"]["audit"].is_null().then_some(())
        });
    }
}

/// Exit code and output of `audit verify`.
fn verify(studio: &Studio, environment: &[(&str, &str)]) -> (i32, String) {
    let output = studio.command().args(["audit", "verify"]).envs(environment.iter().copied()).output().unwrap();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

fn remove(path: &Path) {
    let gone = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    gone.unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

/// Replaces these files and folders with their copies in `kept`.
fn put_back(home: &Path, kept: &Path, names: &[&str]) {
    for name in names {
        remove(&home.join(name));
        copy(&kept.join(name), &home.join(name));
    }
}

/// Checks that mappings still work, that the daemon reports why no tool can be called, and that
/// only a person at a terminal can accept the log.
fn refused_until_accepted(studio: &mut Studio, verdict: (i32, &str), environment: &[(&str, &str)]) {
    let (code, word) = verdict;
    let before = verify(studio, environment);
    assert_eq!(before.0, code, "wrong exit code before the start: {}", before.1);
    studio.up(&[]);
    let served = until("the daemon reports the verdict about the log", || {
        let answer = call(studio.home(), "conductor_get_status", &json!({}));
        answer["error"].is_object().then_some(answer)
    });
    assert_eq!(served["error"]["data"]["code"], "AUDIT_UNAVAILABLE", "{served}");
    let message = served["error"]["message"].as_str().unwrap();
    assert!(message.contains(word) && message.contains("accept-rollback"), "{message}");
    let after = verify(studio, environment);
    assert_eq!(after.0, code, "wrong exit code after the start: {}", after.1);

    // `status` and `doctor` report the verdict, and mappings still work.
    let status = studio.status();
    assert_eq!(status["audit"]["writable"], false);
    assert!(status["audit"]["reason"].as_str().unwrap().contains(word), "{status}");
    let said = text(&studio.run(&["status"]).stdout);
    assert!(said.contains("audit     no tool is served: the audit log is "), "{said}");
    let doctor = studio.run(&["doctor"]);
    assert!(!doctor.status.success() && text(&doctor.stdout).contains("bad   audit"), "{}", text(&doctor.stdout));
    // Without `state/`, the accepted configuration is unknown, so a person accepts the file again.
    if !status["config"]["closed"].is_null() {
        studio.accept();
    }
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    hand.play(&[0x90, 36, 100]);
    assert_eq!(synth.hear(), Some(vec![0xB0, 20, 1]), "the pad does not play");
    hand.play(&[0x80, 36, 0]);
    let silence = call(studio.home(), "conductor_panic", &json!({}));
    assert_eq!(silence["result"]["audit"], "pending", "{silence}");

    // Only a person can continue the log, and the log names this person.
    let nobody =
        studio.command().args(["audit", "accept-rollback"]).envs(environment.iter().copied()).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2), "{}", text(&nobody.stderr));
    assert!(text(&nobody.stderr).contains("only a person can accept this log"), "{}", text(&nobody.stderr));
    let bare = Command::new("setsid")
        .args(["python3", "-c", ASK])
        .arg(studio.home().join("control.sock"))
        .arg(json!({ "jsonrpc": "2.0", "id": 1, "method": "audit.accept", "params": {} }).to_string())
        .output()
        .unwrap();
    assert!(
        text(&bare.stdout).contains("DENIED"),
        "the daemon did not check the caller itself: {}",
        text(&bare.stdout)
    );
    assert_eq!(verify(studio, environment).0, code, "the log was accepted");
    let mut command = Command::new(BINARY);
    command.env("CONDUCTOR_HOME", studio.home()).args(["audit", "accept-rollback"]).envs(environment.iter().copied());
    let (accepted, said) = at_a_terminal(command);
    assert!(accepted == Some(0) && said.contains("log accepted by person:"), "{said}");

    // Tools work now, and also after further starts.
    let silence = call(studio.home(), "conductor_panic", &json!({}));
    assert!(silence["result"]["ports"].is_array() && silence["result"]["audit"].is_null(), "{silence}");
    let listed = text(&studio.run(&["audit", "list", "-n", "200"]).stdout);
    assert!(listed.contains("audit.accepted") && listed.contains(word), "{listed}");
    let after: Vec<&str> = listed.lines().skip_while(|it| !it.contains("audit.accepted")).collect();
    let kept = after.iter().position(|it| it.contains("outcome") && it.contains("conductor_panic"));
    let next = after.iter().position(|it| it.contains("intent"));
    // A panic that does not wait for the keychain has no intent record.
    assert!(
        kept.is_some() && next.is_none_or(|next| kept < Some(next)),
        "the outcome of the panic was not written first: {listed}"
    );
    assert_eq!(studio.status()["audit"]["writable"], true);
    for _ in 0..2 {
        let now = verify(studio, environment);
        assert_eq!(now.0, 0, "{}", now.1);
        studio.stop();
        studio.up(&[]);
        work(studio);
    }
}

/// A Python program that sends one request to a socket and prints the answer.
const ASK: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b'\\n')
sys.stdout.write(s.makefile().readline())";

#[test]
fn a_log_that_was_deleted_is_missing_also_after_a_start() {
    let mut studio = worked("");
    for name in ["audit", "audit.log", "state/checkpoints.jsonl"] {
        remove(&studio.home().join(name));
    }
    refused_until_accepted(&mut studio, (13, "MISSING"), &[]);
}

#[test]
fn a_log_deleted_with_every_memory_but_its_key_is_missing() {
    let mut studio = worked("");
    for name in ["audit", "audit.log", "state"] {
        remove(&studio.home().join(name));
    }
    refused_until_accepted(&mut studio, (13, "MISSING"), &[]);
}

#[test]
fn the_state_folder_deleted_alone_is_found() {
    let mut studio = worked("");
    remove(&studio.home().join("state"));
    refused_until_accepted(&mut studio, (13, "MISSING"), &[]);
    // The signing key is deleted too, so the signatures cannot be checked.
    let mut studio = worked("");
    remove(&studio.home().join("state"));
    remove(&studio.home().join("secrets"));
    refused_until_accepted(&mut studio, (13, "MISSING"), &[]);
}

#[test]
fn a_rollback_of_log_and_checkpoints_is_found_by_the_state_folder() {
    let mut studio = worked("");
    let kept = tempfile::tempdir().unwrap();
    copy(&studio.home().join("audit"), &kept.path().join("audit"));
    std::fs::create_dir(kept.path().join("state")).unwrap();
    copy(&studio.home().join("state/checkpoints.jsonl"), &kept.path().join("state/checkpoints.jsonl"));
    studio.up(&[]);
    work(&studio);
    studio.stop();
    put_back(studio.home(), kept.path(), &["audit", "state/checkpoints.jsonl"]);
    refused_until_accepted(&mut studio, (11, "TRUNCATED"), &[]);
}

#[test]
fn a_rollback_of_the_whole_home_is_found_by_the_second_copy() {
    let second = tempfile::tempdir().unwrap();
    let mut studio = worked(&format!("[audit]\ncopy_to = \"{}\"\n", second.path().display()));
    let kept = tempfile::tempdir().unwrap();
    for name in ["audit", "state", "secrets"] {
        copy(&studio.home().join(name), &kept.path().join(name));
    }
    studio.up(&[]);
    work(&studio);
    studio.stop();
    put_back(studio.home(), kept.path(), &["audit", "state", "secrets"]);
    refused_until_accepted(&mut studio, (11, "TRUNCATED"), &[]);

    // Everything is deleted. Only the second copy shows that there was a log.
    studio.stop();
    for name in ["audit", "audit.log", "state", "secrets"] {
        remove(&studio.home().join(name));
    }
    refused_until_accepted(&mut studio, (13, "MISSING"), &[]);
}

#[test]
fn a_rollback_of_the_whole_home_is_found_by_the_keychain() {
    let ring = require!(keyring::start(Ring::Unlocked));
    let bus = [("DBUS_SESSION_BUS_ADDRESS", ring.address())];
    let mut studio = Studio::empty();
    studio.set(bus[0].0, bus[0].1);
    std::fs::write(studio.config_file(), format!("{DEVICES}{PAD}")).unwrap();
    studio.up(&[]);
    work(&studio);
    studio.stop();
    let kept = tempfile::tempdir().unwrap();
    for name in ["audit", "state", "secrets"] {
        copy(&studio.home().join(name), &kept.path().join(name));
    }
    studio.up(&[]);
    work(&studio);
    studio.stop();
    let sound = verify(&studio, &bus);
    assert!(sound.0 == 0 && sound.1.contains("stored in state/audit.last and the OS keychain"), "{}", sound.1);
    put_back(studio.home(), kept.path(), &["audit", "state", "secrets"]);
    refused_until_accepted(&mut studio, (11, "TRUNCATED"), &bus);

    studio.stop();
    for name in ["audit", "audit.log", "state", "secrets"] {
        remove(&studio.home().join(name));
    }
    // No file shows that this home had a log, but the keychain does.
    assert_eq!(verify(&studio, &bus).0, 13);
    studio.up(&[]);
    until("the daemon has read the checkpoint in the keychain", || {
        (studio.status()["audit"]["writable"] == false).then_some(())
    });
}

/// A rollback that cannot be detected: all places that store the last checkpoint were rolled back
/// too. The verdict mentions this limit.
#[test]
fn a_rollback_of_everything_is_not_found_and_the_verdict_says_so() {
    let mut studio = worked("");
    let kept = tempfile::tempdir().unwrap();
    for name in ["audit", "state"] {
        copy(&studio.home().join(name), &kept.path().join(name));
    }
    studio.up(&[]);
    work(&studio);
    studio.stop();
    put_back(studio.home(), kept.path(), &["audit", "state"]);
    let (code, said) = verify(&studio, &[]);
    assert_eq!(code, 0, "{said}");
    let limit = "stored in state/audit.last";
    assert!(said.contains(limit) && said.contains("together cannot be detected"), "{said}");
}

#[test]
fn a_shortened_or_missing_checkpoint_file_is_found_also_after_a_start() {
    let shorten = |path: &Path| {
        let whole = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        assert!(lines.len() > 1, "{whole}");
        std::fs::write(path, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    };
    for hurt in [&shorten as &dyn Fn(&Path), &remove] {
        let mut studio = worked("");
        hurt(&studio.home().join("state/checkpoints.jsonl"));
        refused_until_accepted(&mut studio, (13, "MISSING"), &[]);
    }
}

/// Deleting the stored checkpoint first does not hide a rollback.
#[test]
fn a_rollback_with_the_memory_removed_is_found() {
    let mut studio = worked("");
    let kept = tempfile::tempdir().unwrap();
    for name in ["audit", "state"] {
        copy(&studio.home().join(name), &kept.path().join(name));
    }
    studio.up(&[]);
    work(&studio);
    studio.stop();
    put_back(studio.home(), kept.path(), &["audit", "state/checkpoints.jsonl"]);
    remove(&studio.home().join("state/audit.last"));
    refused_until_accepted(&mut studio, (13, "MISSING"), &[]);
}

#[test]
fn a_segment_swapped_for_an_older_copy_is_found() {
    let mut studio = worked("");
    let kept = tempfile::tempdir().unwrap();
    copy(&studio.home().join("audit/000001.jsonl"), &kept.path().join("old"));
    studio.up(&[]);
    work(&studio);
    studio.stop();
    std::fs::copy(kept.path().join("old"), studio.home().join("audit/000001.jsonl")).unwrap();
    refused_until_accepted(&mut studio, (11, "TRUNCATED"), &[]);
}

#[test]
fn a_second_copy_that_was_shortened_is_no_alarm_and_catches_up() {
    let second = tempfile::tempdir().unwrap();
    let mut studio = worked(&format!("[audit]\ncopy_to = \"{}\"\n", second.path().display()));
    let segment = second.path().join("000001.jsonl");
    for cut in [0, 700, usize::MAX] {
        match cut {
            usize::MAX => remove(&segment),
            cut => std::fs::write(&segment, &std::fs::read(&segment).unwrap()[..cut]).unwrap(),
        }
        studio.up(&[]);
        work(&studio);
        assert_eq!(studio.status()["audit"]["writable"], true);
        studio.stop();
        let against = studio.run(&["audit", "verify", "--against", second.path().to_str().unwrap()]);
        assert_eq!(against.status.code(), Some(0), "{}", text(&against.stdout));
        let same = std::fs::read(studio.home().join("audit/000001.jsonl")).unwrap();
        assert_eq!(std::fs::read(&segment).unwrap(), same);
    }
    // Only the checkpoint in the second copy is rolled back. The log then has more records than the
    // checkpoint, which is not a fault.
    let memory = second.path().join("audit.last");
    let old = std::fs::read(&memory).unwrap();
    studio.up(&[]);
    work(&studio);
    studio.stop();
    std::fs::write(&memory, old).unwrap();
    assert_eq!(verify(&studio, &[]).0, 0);
    studio.up(&[]);
    work(&studio);
    assert_eq!(verify(&studio, &[]).0, 0);
}

#[test]
fn a_daemon_killed_again_and_again_leaves_a_log_that_is_intact() {
    let second = tempfile::tempdir().unwrap();
    let config = format!("{DEVICES}{PAD}[audit]\ncopy_to = \"{}\"\ncheckpoint_records = 3\n", second.path().display());
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), config).unwrap();
    let mut intact = 0;
    studio.up(&[]);
    for round in 0..30 {
        for _ in 0..round % 4 {
            work(&studio);
        }
        studio.signal(Signal::KILL);
        studio.ended();
        let (code, said) = verify(&studio, &[]);
        assert!(code == 0 || code == 14, "round {round}: {said}");
        studio.up(&[]);
        let (code, said) = verify(&studio, &[]);
        assert_eq!((code, &studio.status()["audit"]["writable"]), (0, &json!(true)), "round {round}: {said}");
        intact += 1;
    }
    assert_eq!(intact, 30);
}

/// The first start is killed as soon as one of its files exists. The next start must work.
#[test]
fn a_first_start_that_was_killed_is_no_alarm() {
    let appears = [
        "state/audit.salt",
        "audit",
        "audit/000001.jsonl",
        "secrets",
        "secrets/audit.key",
        "state/audit.pub",
        "state/checkpoints.jsonl",
        "state/audit.last",
        "audit.log",
    ];
    for name in appears {
        let mut studio = Studio::empty();
        std::fs::write(studio.config_file(), format!("{DEVICES}{PAD}")).unwrap();
        let path: PathBuf = studio.home().join(name);
        let mut child = Command::new(BINARY)
            .args(["up", "--http", "127.0.0.1:0"])
            .env("CONDUCTOR_HOME", studio.home())
            .env_remove("DISPLAY")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !path.exists() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        studio.up(&[]);
        work(&studio);
        let (code, said) = verify(&studio, &[]);
        assert_eq!(code, 0, "the log is damaged after a kill when {name} appeared: {said}");
    }
}

#[test]
fn rotation_is_no_alarm() {
    let mut studio = Studio::start(&format!(
        "{DEVICES}{PAD}[audit]\nrotate_mb = 1\n[limits]\nread = {{ per_minute = 1000000, burst = 1000000 }}\n"
    ));
    let mut client = DirectClient::connect(studio.home());
    let mut calls = 0;
    while !studio.home().join("audit/000003.jsonl").exists() {
        for _ in 0..50 {
            client.ask("conductor_get_status", &json!({}));
        }
        for _ in 0..50 {
            client.answer();
        }
        calls += 50;
        assert!(calls < 60_000, "the log was not rotated twice");
    }
    for round in 0..2 {
        studio.stop();
        let (code, said) = verify(&studio, &[]);
        assert_eq!(code, 0, "round {round}: {said}");
        studio.up(&[]);
        work(&studio);
    }
}

/// Questions need the approval store; `conductor_panic` does not.
#[test]
fn panic_works_while_questions_cannot_be_kept_and_whatever_policy_says() {
    let policy = "[[policy.rules]]\ntool = \"conductor_panic\"\ndecision = \"ask\"\n";
    let studio = Studio::start(&format!("{DEVICES}{PAD}{policy}"));
    remove(&studio.home().join("state/plans"));
    std::fs::write(studio.home().join("state/plans"), "not a folder").unwrap();
    let asked = call(studio.home(), "conductor_send_sysex", &json!({ "port": "synth", "data": [0x7D, 1] }));
    assert_eq!(asked["error"]["data"]["code"], "AUDIT_UNAVAILABLE", "{asked}");
    let mut synth = studio.listen("synth");
    let silence = call(studio.home(), "conductor_panic", &json!({}));
    assert!(silence["result"]["ports"].is_array() && silence["result"]["audit"].is_null(), "{silence}");
    assert!(synth.hear().is_some(), "the panic sent nothing");
}

fn names(home: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(home.join("state/plans"))
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn refused_and_ended_plans_leave_nothing_and_applied_ones_can_be_undone_after_a_restart() {
    let long: String = (0..2000).map(|n| format!("# {n} {}\n", "x".repeat(90))).collect();
    let mut studio = Studio::start(&format!("{DEVICES}{PAD}{long}"));
    let plan = |studio: &Studio, mode: &str| {
        let changes = json!({ "changes": [{ "change_type": "CreateMode", "mode": mode }] });
        call(studio.home(), "conductor_plan_changes", &changes)
    };
    let person = |studio: &Studio, words: &[&str]| {
        let mut command = Command::new(BINARY);
        command.env("CONDUCTOR_HOME", studio.home()).args(words);
        at_a_terminal(command)
    };
    let made: Vec<Value> = (0..40).map(|n| plan(&studio, &format!("Mode {n}"))).collect();
    let ids: Vec<&str> = made.iter().filter_map(|it| it["result"]["plan_id"].as_str()).collect();
    assert_eq!(ids.len(), 8, "{made:?}");
    assert!(made.iter().skip(8).all(|it| it["error"]["data"]["code"] == "BUSY"));
    assert_eq!(names(studio.home()).len(), 8 * 3, "not three files for each plan: {:?}", names(studio.home()));

    // A rejected plan keeps its record, but not its bytes. The same applies to a plan that was
    // found to be stale.
    assert_eq!(person(&studio, &["plans", "reject", ids[1]]).0, Some(0));
    assert_eq!(person(&studio, &["plans", "apply", ids[0]]).0, Some(0));
    assert_eq!(person(&studio, &["plans", "apply", ids[2]]).0, Some(1));
    let left = names(studio.home());
    for (id, files) in [(ids[0], 3), (ids[1], 1), (ids[2], 1), (ids[3], 3)] {
        assert_eq!(left.iter().filter(|it| it.starts_with(id)).count(), files, "{id}: {left:?}");
    }
    studio.stop();

    // Leftovers of crashes and old runs: partly written files, bytes without a record, and a record
    // from 2020.
    let plans = studio.home().join("state/plans");
    let stray = "00000000-0000-4000-8000-00000000000";
    std::fs::write(plans.join(format!(".{stray}1.after.new")), "half").unwrap();
    std::fs::write(plans.join(format!("{stray}2.before")), "of nobody").unwrap();
    let rejected = std::fs::read_to_string(plans.join(format!("{}.json", ids[1]))).unwrap();
    let year = rejected.find("\"created_at\":\"").unwrap() + 14;
    let old = rejected.replace(&rejected[year..year + 4], "2020").replace(ids[1], &format!("{stray}3"));
    std::fs::write(plans.join(format!("{stray}3.json")), old).unwrap();
    studio.up(&[]);
    let left = names(studio.home());
    assert!(!left.iter().any(|it| it.contains(stray)), "{left:?}");

    let mut command = Command::new(BINARY);
    command.env("CONDUCTOR_HOME", studio.home()).args(["plans", "undo", ids[0]]);
    let mut undo = conductor_testkit::terminal::Terminal::start(command);
    undo.until("Apply this change to undo the plan? [y/N]");
    loop {
        undo.type_in("y\n");
        if undo.until_any(&["undone", "before you could read this; y or n: "]).ends_with("undone") {
            break;
        }
    }
    assert!(!std::fs::read_to_string(studio.config_file()).unwrap().contains("Mode 0\""));
}

/// Sends a request to `control.sock` as a person at a separate terminal.
fn as_a_person(studio: &Studio, method: &str, params: &Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut command = Command::new("python3");
    command.args(["-c", ASK]).arg(studio.home().join("control.sock")).arg(request.to_string());
    let (_, said) = at_a_terminal(command);
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
}

#[test]
fn the_seeds_own_commands_apply_and_reject_and_an_expired_plan_has_its_number() {
    let mut studio = Studio::start(&format!("{DEVICES}{PAD}"));
    let mapping = |note: u8| {
        json!({
            "mode": "Default", "trigger": { "type": "Note", "note": note, "device": "pads" },
            "action": { "type": "SendMidi", "port": "synth", "channel": 0, "message_type": "CC", "controller": 21, "value": 2 },
        })
    };
    let plan =
        |studio: &Studio, note: u8| call(studio.home(), "conductor_create_mapping", &mapping(note))["result"].clone();
    let made = plan(&studio, 40);
    assert_eq!(made["description"], "Create mapping for note 40 on pads in Default mode");
    let row = &made["changes"][0];
    assert!(row["description"].as_str().unwrap().starts_with("Add Note 40 on pads -> SendMidi"), "{row}");
    let other = plan(&studio, 41);

    let rejected = as_a_person(&studio, "llm_reject_plan", &json!({ "planId": other["plan_id"] }));
    assert_eq!(rejected["result"]["status"], "rejected", "{rejected}");
    let applied = as_a_person(&studio, "llm_apply_plan", &json!({ "planId": made["plan_id"] }));
    assert_eq!(applied["result"]["plan"]["status"], "applied", "{applied}");
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    hand.play(&[0x90, 41, 100]);
    hand.play(&[0x90, 40, 100]);
    assert_eq!(synth.hear(), Some(vec![0xB0, 21, 2]), "the applied plan does not play, or the rejected plan does");
    let twice = as_a_person(&studio, "llm_apply_plan", &json!({ "planId": made["plan_id"] }));
    assert_eq!(twice["error"]["data"]["code"], "BAD_INPUT", "{twice}");
    drop((synth, hand));

    // Simulates a daemon that was stopped for longer than a plan is valid.
    let late = plan(&studio, 42);
    studio.stop();
    let file = studio.home().join(format!("state/plans/{}.json", late["plan_id"].as_str().unwrap()));
    let record = std::fs::read_to_string(&file).unwrap();
    let (created, expires) = (late["created_at"].as_str().unwrap(), late["expires_at"].as_str().unwrap());
    std::fs::write(&file, record.replace(expires, created)).unwrap();
    studio.up(&[]);
    let expired = as_a_person(&studio, "llm_apply_plan", &json!({ "planId": late["plan_id"] }));
    assert_eq!(expired["error"]["code"], -32003, "{expired}");
    assert_eq!(expired["error"]["data"]["code"], "PLAN_EXPIRED");
    let expired = as_a_person(&studio, "plans.apply", &json!({ "id": late["plan_id"] }));
    assert_eq!(expired["error"]["code"], -32003, "{expired}");
}
