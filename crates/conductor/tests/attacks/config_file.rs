//! The model has its own file tool and rewrites the files that the daemon reads.

use crate::rig::{Rig, settle};
use rustix::process::Signal;
use serde_json::{Value, json};

fn rewrites(rig: &Rig) -> Vec<(&'static str, String)> {
    let config = rig.config();
    let pwn = format!(
        "[[tools.shell.commands]]\nname = \"pwn\"\nprogram = \"{}\"\nargs = []\neffect = \"read\"\n",
        rig.mark()
    );
    let allow = "[[policy.rules]]\ndecision = \"allow\"\n";
    vec![
        ("an appended command", format!("{config}\n{pwn}")),
        ("an appended command and an allow rule", format!("{config}\n{pwn}\n{allow}")),
        ("a deny rule that becomes an allow rule", config.replace("decision = \"deny\"", "decision = \"allow\"")),
        (
            "the whole disk as a root",
            config.replace("name = \"work\", path = \"", "name = \"work\", path = \"/\", was = \""),
        ),
        (
            "a larger root",
            config.replace(&rig.granted.path().display().to_string(), &rig.outside.path().display().to_string()),
        ),
        (
            "a pad row that runs a program",
            format!(
                "{config}\n{pwn}\n[[global_mappings]]\nid = \"pwn\"\ntrigger = {{ type = \"Note\", note = 90 }}\naction = {{ type = \"Sequence\", actions = [{{ type = \"Shell\", command = \"{}\" }}] }}\n",
                rig.mark()
            ),
        ),
        ("only a command", format!("schema = 1\n{pwn}{allow}")),
        (
            "inline spelling",
            format!(
                "{}\n[policy]\ndefault = {{ HardwareIO = \"allow\" }}\n",
                config.replace("[[policy.rules]]", "[[policy.old]]")
            ),
        ),
    ]
}

/// Saves every rewritten file while the daemon runs, and one of them before each of two restarts.
#[test]
fn a_rewritten_file_widens_nothing() {
    let mut rig = Rig::start("");
    for (what, text) in rewrites(&rig) {
        rig.studio.save(&text);
        settle(&rig);
        let mut model = rig.model();
        // One of the files maps note 90 to a command. This mapping must not run, even if the model
        // plays the note.
        let _ = model.call("conductor_send_midi", json!({ "port": "pads hand", "messages": [{ "type": "note_on", "channel": 1, "note": 90, "velocity": 100 }] }));
        settle(&rig);
        drop(model);
        eprint_case(what);
        rig.assert_unharmed_but_for_the_file();
    }
    // The file is rewritten before a restart. The first time the daemon is stopped normally, the
    // second time it is killed.
    for signal in [Signal::TERM, Signal::KILL] {
        let (what, text) = rewrites(&rig).remove(1);
        rig.studio.save(&text);
        rig.studio.signal(signal);
        rig.studio.ended();
        rig.studio.up(&[]);
        settle(&rig);
        eprint_case(what);
        rig.assert_unharmed_but_for_the_file();
    }
}

/// The model deletes the files that record the accepted configuration.
#[test]
fn deleting_what_was_accepted_widens_nothing() {
    let mut rig = Rig::start("");
    let (_, text) = rewrites(&rig).remove(1);
    rig.studio.stop();
    for entry in std::fs::read_dir(rig.studio.home().join("state")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("accepted") || name.contains("config") {
            if path.is_dir() { std::fs::remove_dir_all(&path).unwrap() } else { std::fs::remove_file(&path).unwrap() }
        }
    }
    rig.studio.save(&text);
    rig.studio.up(&[]);
    settle(&rig);
    let mut model = rig.model();
    let answer = model.call("shell.exec", json!({ "command": "pwn" }));
    assert!(answer.get("stdout").is_none(), "{answer}");
    drop(model);
    assert!(!rig.outside.path().join("RAN").exists(), "a process was started");
}

/// The model edits the file of its own approval request and sets it to allowed.
#[test]
fn a_yes_that_the_model_writes_itself_does_not_count() {
    let mut rig = Rig::start("");
    let record = rig.studio.home().join(format!("state/plans/{}.json", rig.approval));
    let text = std::fs::read_to_string(&record).unwrap();
    let by = r#""decided":{"by":"person:0","channel":"cli","at":"2026-01-01T00:00:00.000Z"}"#;
    let mut forged: Value = serde_json::from_str(&text).unwrap();
    forged["state"] = json!("allowed");
    forged["uses_left"] = json!(100);
    forged["decided"] = serde_json::from_str::<Value>(&format!("{{{by}}}")).unwrap()["decided"].clone();
    rig.studio.signal(Signal::KILL);
    rig.studio.ended();
    std::fs::write(&record, forged.to_string()).unwrap();
    rig.studio.up(&[]);
    let mut model = rig.model();
    let answer = model.call("conductor_send_sysex", json!({ "port": "synth", "data": [0x7D, 1] }));
    assert_eq!(answer["code"], "APPROVAL_REQUIRED", "{answer}");
}

#[expect(clippy::print_stderr, reason = "prints the rewrite, so that a failure shows it")]
fn eprint_case(what: &str) {
    eprintln!("after: {what}");
}
