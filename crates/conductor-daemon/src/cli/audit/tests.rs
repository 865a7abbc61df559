use std::sync::Arc;

use clap::Parser;
use conductor_core::audit::{CallFacts, OutcomeFacts};
use conductor_core::policy::Tier;
use tempfile::TempDir;

use super::*;
use conductor_gateway::audit_log::{AuditLog, Durability, Settings};
use conductor_hosts::system::{Ids, ManualClock, SeededIds};

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: AuditCommand,
}

struct ApprovalQueue {
    home: TempDir,
    time: Arc<ManualClock>,
    ids: Arc<SeededIds>,
    person: Option<Principal>,
}

impl ApprovalQueue {
    fn new(tools: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let desk = Self {
            home,
            time: ManualClock::at_wall_ms(1_767_323_045_000),
            ids: SeededIds::new(3),
            person: Some(Principal::Person { uid: 1000 }),
        };
        desk.write(tools);
        desk
    }

    fn write(&self, tools: &[&str]) {
        let settings =
            Settings { copy_to: Some(self.home.path().join("copy")), rotate_bytes: 3000, ..Settings::default() };
        let (log, _) = AuditLog::open(self.home.path(), Arc::new(Disk), settings, self.time.clone(), self.ids.clone())
            .expect("opens");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for (n, tool) in tools.iter().enumerate() {
            let facts = CallFacts {
                call: self.ids.v4(),
                principal: Principal::socket(1000, "demo"),
                conn: Some("c1".into()),
                tool: (*tool).into(),
                tier: Some(Tier::HardwareIo),
                pin: None,
                input_hash: log.input_hash(&json!({"n": n})),
                input: None,
                via: None,
                script: None,
                approval: None,
            };
            let result = if tool.starts_with("bad") { AuditResult::Timeout } else { AuditResult::Ok };
            let outcome =
                OutcomeFacts { result, code: None, effect: None, attempts: 1, duration_ms: 5, output_bytes: 0 };
            runtime.block_on(log.intent(facts.clone())).expect("written");
            runtime.block_on(log.outcome(facts, outcome, Durability::Synced)).expect("written");
        }
        log.stop();
    }

    fn run(&self, words: &str) -> (u8, String) {
        let command = Line::try_parse_from(std::iter::once("audit").chain(words.split(' '))).expect("parses").command;
        self.run_command(&command)
    }

    fn run_command(&self, command: &AuditCommand) -> (u8, String) {
        let copy_to = self.home.path().join("copy");
        let layout = Layout::of(self.home.path());
        let remembered =
            conductor_gateway::audit_log::memory::recall(&Disk, &layout, Some(&copy_to)).expect("readable");
        let acceptor = match &self.person {
            Some(person) => Acceptor::Here(person, &|_| {}),
            None => Acceptor::Refused("there is none"),
        };
        let context = Context {
            home: self.home.path(),
            head: None,
            remembered: &remembered,
            keychain_error: None,
            copy_to: Some(&copy_to),
            witness: None,
            acceptor,
            clock: &*self.time,
            ids: &*self.ids,
            json: false,
            progress: false,
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = run(command, &context, &mut out, &mut err);
        (code, String::from_utf8_lossy(&[out, err].concat()).into_owned())
    }

    fn segment(&self) -> PathBuf {
        Layout::of(self.home.path()).segment(1)
    }

    fn edit(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.segment()).expect("readable");
        change(&mut bytes);
        std::fs::write(self.segment(), bytes).expect("writable");
    }
}

#[test]
fn list_filters_and_shows_nothing_that_moves_the_cursor() {
    let desk = ApprovalQueue::new(&["alpha.one", "alpha.two", "bad\u{1b}[2J\u{202e}\n{\"v\":1}"]);
    let (code, text) = desk.run("list");
    assert_eq!(code, 0);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    assert!(text.contains("bad\\u{1b}[2J\\u{202e}\\u{a}"));
    let outcomes = |words: &str| desk.run(words).1.lines().filter(|line| line.contains(" outcome ")).count();
    assert_eq!(outcomes("list --tool alpha.*"), 2);
    assert_eq!(outcomes("list --tool alpha.one"), 1);
    assert_eq!(outcomes("list --result timeout"), 1);
    assert_eq!(outcomes("list --principal socket:1000/demo"), 3);
    assert_eq!(outcomes("list --principal nobody"), 0);
    assert_eq!(outcomes("list --since 2030-01-01"), 0);
    assert_eq!(outcomes("list --until 2030-01-01"), 3);
    assert_eq!(desk.run("list -n 2").1.lines().count(), 2);
    assert_eq!(desk.run("tail -n 3").1.lines().count(), 3);
    assert!(Line::try_parse_from(["audit", "list", "--result", "fine"]).is_err());
}

#[test]
fn tail_follows_over_rotations() {
    let desk = ApprovalQueue::new(&["a"]);
    let mut tail = Tail::at_end(desk.home.path()).expect("there");
    let mut out = Vec::new();
    tail.poll(false, &mut out).expect("readable");
    assert_eq!(out, b"");
    desk.write(&["b"; 12]);
    tail.poll(false, &mut out).expect("readable");
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!(text.lines().filter(|line| line.contains(" outcome ")).count(), 12);
    assert!(Layout::of(desk.home.path()).segments(&Disk).expect("readable").len() > 2);
}

#[test]
fn verdicts_have_their_exit_codes_and_words() {
    let desk = ApprovalQueue::new(&["a", "b"]);
    let (code, text) = desk.run("verify");
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("INTACT: 5 records in 1 segment"), "{text}");
    assert!(text.contains("signed through seq 4 (signing key: secrets/audit.key, "), "{text}");
    assert!(text.contains("; 0 later records are not signed yet\n"), "{text}");
    assert!(text.contains("stored in state/audit.last and the second copy; a rollback of"), "{text}");

    desk.edit(|bytes| bytes[400] ^= 1);
    let (code, text) = desk.run("verify");
    assert_eq!(code, 10);
    assert!(text.starts_with("BROKEN") && text.contains("at seq 1: expected sha256:"), "{text}");

    let cut = ApprovalQueue::new(&["a", "b"]);
    cut.edit(|bytes| bytes.truncate(700));
    assert_eq!(cut.run("verify").0, 11);

    let deleted = ApprovalQueue::new(&["a"]);
    std::fs::remove_file(deleted.segment()).expect("removed");
    assert_eq!(deleted.run("verify").0, 13);

    let torn = ApprovalQueue::new(&["a"]);
    torn.edit(|bytes| bytes.extend_from_slice(b"{\"v\":1,"));
    assert_eq!(torn.run("verify").0, 14);
    assert_eq!(torn.run("verify --accept").0, 14, "a torn end was accepted, but only the daemon repairs it");

    let empty = tempfile::tempdir().expect("a folder");
    let nothing = ApprovalQueue { home: empty, ..ApprovalQueue::new(&[]) };
    assert_eq!(nothing.run("verify").0, 1);
    assert_eq!(nothing.run("list").0, 1);
}

#[test]
fn a_foreign_public_key_is_a_fork() {
    let desk = ApprovalQueue::new(&["a"]);
    let other = ApprovalQueue::new(&[]);
    let other_key = ApprovalQueue { ids: SeededIds::new(99), home: tempfile::tempdir().expect("a folder"), ..other };
    other_key.write(&["b"]);
    let theirs = Layout::of(other_key.home.path()).public_key();
    std::fs::copy(theirs, Layout::of(desk.home.path()).public_key()).expect("copied");
    assert_eq!(desk.run("verify").0, 12);
}

#[test]
fn a_rewrite_of_everything_is_found_by_the_copy() {
    let desk = ApprovalQueue::new(&["a", "b", "c"]);
    let copy = desk.home.path().join("copy");
    let (code, text) = desk.run(&format!("verify --against {}", copy.display()));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("the copy has "), "{text}");

    // Everything in this home is deleted and written again.
    let layout = Layout::of(desk.home.path());
    for folder in [&layout.audit, &layout.state, &layout.secrets] {
        std::fs::remove_dir_all(folder).expect("removed");
    }
    std::fs::remove_file(layout.link()).expect("removed");
    std::fs::rename(&copy, desk.home.path().join("kept")).expect("renamed");
    desk.write(&["a", "harmless", "c"]);
    assert_eq!(desk.run("verify").0, 0, "without the copy, the log does not look intact");
    let kept = desk.home.path().join("kept");
    let (code, text) = desk.run(&format!("verify --against {}", kept.display()));
    assert_eq!(code, 12, "{text}");

    let cut = ApprovalQueue::new(&["a"; 2]);
    let export = cut.home.path().join("out.jsonl");
    assert_eq!(cut.run(&format!("export --output {}", export.display())).0, 0);
    assert_eq!(cut.run(&format!("export --output {}", export.display())).0, 1, "an export overwrote an existing file");
    assert_eq!(cut.run(&format!("verify --against {}", export.display())).0, 0);
    std::fs::remove_file(Layout::of(cut.home.path()).checkpoints()).expect("removed");
    cut.edit(|bytes| {
        let end = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines");
        bytes.truncate(end + 1);
    });
    assert_eq!(cut.run("verify").0, 13, "the missing checkpoints were not reported");
    let (code, text) = cut.run(&format!("verify --against {}", export.display()));
    assert!(code == 13 && text.contains("TRUNCATED at seq"), "{text}");
    assert_eq!(cut.run("verify --against /nowhere").0, 1);
}

#[test]
fn accepting_needs_a_person_and_makes_the_log_usable_again() {
    let mut desk = ApprovalQueue::new(&["a", "b"]);
    desk.edit(|bytes| bytes[400] ^= 1);
    let person = desk.person.take();
    assert_eq!(desk.run("verify --accept").0, 2);
    assert_eq!(desk.run("verify").0, 10, "the damaged log was accepted");
    desk.person = person;
    let (code, text) = desk.run("verify --accept");
    assert_eq!(code, 0, "{text}");
    desk.write(&["c"]);
    let (code, text) = desk.run("verify");
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("accepted at seq 6: BROKEN at seq 1"), "{text}");
    assert!(desk.run("list").1.contains("audit.accepted"));
}

#[test]
fn a_rollback_is_accepted_by_its_own_command() {
    let desk = ApprovalQueue::new(&["a"]);
    let layout = Layout::of(desk.home.path());
    let old = [desk.segment(), layout.checkpoints()].map(|path| (std::fs::read(&path).expect("readable"), path));
    desk.write(&["b"]);
    old.iter().for_each(|(bytes, path)| std::fs::write(path, bytes).expect("writable"));
    let (code, text) = desk.run("verify");
    assert!(
        code == 11 && text.contains("according to state/audit.last") && text.contains("according to the second copy"),
        "{text}"
    );
    let (code, text) = desk.run("accept-rollback");
    assert!(code == 0 && text.contains("log accepted by person:1000; it continues at seq "), "{text}");
    assert_eq!(desk.run("verify").0, 0);
    assert_eq!(desk.run("accept-rollback").1.lines().last(), Some("there is nothing to accept"));
    // A missing key can be accepted too, although the log itself is intact.
    std::fs::remove_file(layout.signing_key()).expect("removed");
    assert_eq!(desk.run("verify").0, 0);
    assert_eq!(desk.run("accept-rollback").0, 0);
    desk.write(&["c"]);
    assert_eq!(desk.run("verify").0, 0);
}

#[test]
fn the_help_says_what_is_found_and_what_is_not() {
    use clap::CommandFactory as _;
    let mut command = Line::command();
    let verify = command.find_subcommand_mut("verify").expect("there");
    let help = verify.render_long_help().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "a missing or shortened log, segment or checkpoint file",
        "a rollback of audit/, state/, the keychain entry and the second copy together",
        "secrets/audit.key",
    ] {
        assert!(help.contains(words), "{words}: {help}");
    }
}

#[test]
fn every_event_has_a_readable_line() {
    for event in conductor_core::audit::EventName::ALL {
        let record = json!({
            "seq": 7, "ts": "2026-01-02T03:04:05.000Z", "phase": "event", "event": event.as_str(),
            "detail": { "section": "policy", "hash": "sha256:00" },
        });
        let mut out = Vec::new();
        show(&record, false, &mut out).expect("shown");
        let line = String::from_utf8(out).expect("UTF-8");
        let wanted = format!(
            "     7 2026-01-02T03:04:05.000Z event {} {{\"section\":\"policy\",\"hash\":\"sha256:00\"}}\n",
            event.as_str()
        );
        assert_eq!(line, wanted);
    }
}

#[test]
fn export_formats() {
    let desk = ApprovalQueue::new(&["a", "bad", "c"]);
    let (_, jsonl) = desk.run("export");
    let whole: String = (1..=Layout::of(desk.home.path()).segments(&Disk).expect("readable").len())
        .map(|n| std::fs::read_to_string(Layout::of(desk.home.path()).segment(n as u32)).expect("readable"))
        .collect();
    assert_eq!(jsonl, whole, "the export differs from the log");
    let (_, json) = desk.run("export --format json");
    let records: Vec<Value> = serde_json::from_str(&json).expect("an array");
    assert_eq!(records.len(), jsonl.lines().count());

    let (_, seed) = desk.run("export --format seed");
    let entries: Vec<Value> = seed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(entries.len(), 3);
    let keys: Vec<&str> = entries[0].as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys.join(" "), "id timestamp tool inputHash result durationMs user sessionId prev hash");
    assert_eq!(
        entries.iter().map(|e| e["result"].as_str().unwrap_or_default()).collect::<Vec<_>>(),
        ["ok", "error", "ok"]
    );
    assert_eq!(
        (&entries[0]["prev"], &entries[1]["prev"], &entries[2]["prev"]),
        (&Value::Null, &entries[0]["hash"], &entries[1]["hash"])
    );
    // The hash can be checked without this program: remove `,"hash":"..."` and hash the rest.
    for line in seed.lines() {
        let at = line.rfind(",\"hash\":\"").expect("a hash");
        let digest = conductor_core::digest::Digest::of(format!("{}}}", &line[..at]).as_bytes()).to_string();
        assert_eq!(&line[at + 9..at + 73], digest.trim_start_matches("sha256:"));
    }
}

#[test]
fn hash_finds_the_record_of_given_arguments() {
    let desk = ApprovalQueue::new(&["a", "b"]);
    let (code, text) = desk.run_command(&AuditCommand::Hash { json: "{ \"n\" : 1.0 }".into() });
    assert_eq!(code, 0);
    assert!(text.starts_with("hmac-sha256:"));
    let (_, all) = desk.run("export");
    assert_eq!(
        all.lines().filter(|line| line.contains(text.trim())).count(),
        2,
        "the log does not contain both intent and outcome"
    );
    assert_eq!(desk.run_command(&AuditCommand::Hash { json: "{".into() }).0, 2);
}
