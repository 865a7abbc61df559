//! Hot reload: with a faulty file, the old configuration stays in force and the fault is reported.
//! A valid file is in force at once.

use crate::studio::{DEVICES, Studio, until};
use serde_json::{Value, json};

/// A configuration whose pad sends this controller.
fn sends(controller: u8) -> String {
    format!(
        r#"{DEVICES}
[[modes]]
name = "Default"
[[modes.mappings]]
id = "pad"
trigger = {{ type = "Note", note = 36, device = "pads" }}
action = {{ type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = {controller}, value = 1 }}
"#
    )
}

fn press(studio: &Studio) -> Option<Vec<u8>> {
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    hand.play(&[0x90, 36, 100]);
    hand.play(&[0x80, 36, 0]);
    synth.hear()
}

fn error_of(status: &Value) -> Option<String> {
    status["config"]["error"].as_str().map(str::to_owned)
}

#[test]
fn bad_then_bad_then_good() {
    let studio = Studio::start(&sends(20));
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
    let first = studio.status()["config"]["hash"].clone();

    studio.save(&sends(21).replace("[[modes]]", "[[modes]"));
    let syntax = until("the first fault is reported", || error_of(&studio.status()));
    assert!(syntax.starts_with("config.toml:"), "{syntax}");
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]), "the old configuration is not in force");

    studio.save(&format!("{}\n[[modes]]\nname = \"Default\"\n", sends(22)));
    let twice = until("the second fault is reported", || error_of(&studio.status()).filter(|it| *it != syntax));
    assert!(twice.contains("Default"), "{twice}");
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
    let status = studio.status();
    assert_eq!((&status["config"]["hash"], &status["lifecycle_state"]), (&first, &json!("Running")));
    assert_eq!(status["statistics"]["reloads_failed"], 2);

    studio.save(&sends(23));
    until("the good file is in force", || (studio.status()["config"]["hash"] != first).then_some(()));
    assert_eq!(press(&studio), Some(vec![0xB0, 23, 1]));
    let status = studio.status();
    assert_eq!((error_of(&status), &status["lifecycle_state"]), (None, &json!("Running")));

    let reasons = until("both refusals are in the log", || {
        let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
        let records = log.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
        let rejected = records.filter(|it| it["event"] == "config.rejected");
        Some(rejected.map(|it| it["detail"]["reason"].clone()).collect::<Vec<_>>()).filter(|it| it.len() >= 2)
    });
    assert_eq!(reasons, [json!(syntax), json!(twice)]);
}

#[test]
fn going_back_to_what_serves_clears_the_fault() {
    let studio = Studio::start(&sends(20));
    studio.save("nonsense");
    until("the fault is reported", || error_of(&studio.status()));
    studio.save(&sends(20));
    until("the fault is no longer reported", || error_of(&studio.status()).is_none().then_some(()));
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
}

#[test]
fn a_deleted_file_keeps_the_old_configuration() {
    let studio = Studio::start(&sends(20));
    std::fs::remove_file(studio.config_file()).unwrap();
    until("the fault is reported", || error_of(&studio.status()));
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
}

#[test]
fn one_bad_row_is_disabled_and_the_others_play() {
    let bad = r#"
[[modes.mappings]]
id = "wrong"
trigger = { type = "CC", cc = 128 }
action = { type = "Delay", ms = 1 }
"#;
    let studio = Studio::start(&format!("{}{bad}", sends(20)));
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
    let status = studio.status();
    assert_eq!((&status["config"]["disabled_mappings"], error_of(&status)), (&json!(1), None));

    let check = studio.call("conductor_validate_config", json!({}));
    let text = format!("{}{bad}", sends(20));
    let line = text.lines().position(|it| it.contains("128")).unwrap() + 1;
    let column = text.lines().nth(line - 1).unwrap().find("128").unwrap() + 1;
    let fault = &check["diagnostics"][0];
    assert_eq!((&check["valid"], &fault["line"], &fault["column"]), (&json!(false), &json!(line), &json!(column)));
}

#[test]
fn a_mode_that_a_reload_removed_is_gone() {
    let two = format!("{}\n[[modes]]\nname = \"Mix\"\n", sends(20));
    let studio = Studio::start(&two);
    studio.call("conductor_switch_mode", json!({ "mode": "Mix" }));
    studio.save(&sends(21));
    until("one mode is left", || {
        (studio.call("conductor_list_modes", json!({}))["modes"].as_array()?.len() == 1).then_some(())
    });
    let refusal = studio.refused_call("conductor_switch_mode", json!({ "mode": "Mix" }));
    assert_eq!(refusal["code"], "NOT_FOUND");
    assert_eq!(studio.status()["current_mode"], "Default", "the default mode is not selected");
}

#[test]
fn a_held_note_ends_when_its_mapping_is_changed_under_the_finger() {
    let holding = |note: u8| {
        sends(1).replace(
            "message_type = \"CC\", controller = 1, value = 1",
            &format!("message_type = \"NoteOn\", note = {note}"),
        )
    };
    let studio = Studio::start(&holding(60));
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    hand.play(&[0x90, 36, 100]);
    assert_eq!(synth.hear(), Some(vec![0x90, 60, 100]));
    studio.save(&holding(62));
    assert_eq!(synth.hear().map(|it| (it[0], it[1])), Some((0x80, 60)));
}

#[test]
fn an_unwatched_file_is_read_only_when_asked() {
    let studio = Studio::start(&format!("config = {{ watch = false }}\n{}", sends(20)));
    studio.save(&format!("config = {{ watch = false }}\n{}", sends(21)));
    let answer = studio.ask("config.reload", json!({}));
    assert_eq!((&answer["changed"], &answer["faults"]), (&json!(true), &json!([])));
    assert_eq!(press(&studio), Some(vec![0xB0, 21, 1]));
    assert_eq!(studio.ask("config.reload", json!({}))["changed"], false);

    studio.save("nonsense");
    let refusal = studio.ask("config.reload", json!({}))["error"].clone();
    assert_eq!((&refusal["code"], &refusal["subject"]), (&json!("BAD_INPUT"), &json!("config.toml")));
}

#[test]
fn a_fifo_in_the_place_of_the_file_is_refused_and_the_next_file_is_read() {
    let mut studio = Studio::start(&sends(20));
    std::fs::remove_file(studio.config_file()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(studio.config_file()).status().unwrap();
    assert!(made.success());
    until("the file is refused", || error_of(&studio.status()).filter(|it| it.contains("regular")));
    assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]));
    std::fs::remove_file(studio.config_file()).unwrap();
    studio.save(&sends(21));
    until("the file is read", || (studio.status()["config"]["hash"] == hash_of(&sends(21))).then_some(()));
    assert_eq!((press(&studio), error_of(&studio.status())), (Some(vec![0xB0, 21, 1]), None));
    // Link the file to a fifo, and stop the daemon in that state.
    let fifo = studio.home().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::fs::remove_file(studio.config_file()).unwrap();
    std::os::unix::fs::symlink(&fifo, studio.config_file()).unwrap();
    until("the file is refused", || error_of(&studio.status()));
    studio.stop();
}

#[test]
fn a_daemon_starts_on_a_fifo_and_reads_the_file_that_comes() {
    let mut studio = Studio::empty();
    assert!(std::process::Command::new("mkfifo").arg(studio.config_file()).status().unwrap().success());
    studio.up(&[]);
    assert!(error_of(&studio.status()).is_some());
    studio.save(&sends(21));
    until("the file is read", || error_of(&studio.status()).is_none().then_some(()));
    assert_eq!(press(&studio), Some(vec![0xB0, 21, 1]));
    studio.stop();
}

fn hash_of(text: &str) -> Value {
    conductor_core::digest::Digest::of(text.as_bytes()).to_string().into()
}

#[test]
fn a_file_saved_right_after_the_start_is_seen() {
    for controller in 30..36 {
        let mut studio = Studio::empty();
        std::fs::write(studio.config_file(), sends(20)).unwrap();
        // Another thread saves the file as soon as the socket exists, which is before the daemon
        // reports that it is ready.
        let (home, file) = (studio.home().to_owned(), studio.config_file());
        let saver = std::thread::spawn(move || {
            while !home.join("mcp.sock").exists() {
                std::thread::yield_now();
            }
            std::fs::write(file, sends(controller)).unwrap();
        });
        studio.up(&[]);
        saver.join().unwrap();
        until("the file is in force", || {
            (studio.status()["config"]["hash"] == hash_of(&sends(controller))).then_some(())
        });
    }
}

#[test]
fn a_linked_file_is_seen_wherever_the_links_lead() {
    let dotfiles = tempfile::tempdir().unwrap();
    let mut studio = Studio::empty();
    let at = |name: &str| dotfiles.path().join(name);
    for folder in ["one", "two", "three"] {
        std::fs::create_dir(at(folder)).unwrap();
    }
    std::fs::write(at("two/real.toml"), sends(20)).unwrap();
    std::os::unix::fs::symlink("../two/real.toml", at("one/link.toml")).unwrap();
    std::os::unix::fs::symlink(at("one/link.toml"), studio.config_file()).unwrap();
    studio.up(&[]);
    let seen = |controller: u8| {
        until("the file is in force", || {
            (studio.status()["config"]["hash"] == hash_of(&sends(controller))).then_some(())
        });
    };
    std::fs::write(at("two/real.toml"), sends(21)).unwrap();
    seen(21);
    // Replace the file by renaming.
    std::fs::write(at("two/draft"), sends(22)).unwrap();
    std::fs::rename(at("two/draft"), at("two/real.toml")).unwrap();
    seen(22);
    // A link in the middle of the path gets a new target, then the content of that target changes.
    std::fs::write(at("three/other.toml"), sends(23)).unwrap();
    std::os::unix::fs::symlink("../three/other.toml", at("one/new")).unwrap();
    std::fs::rename(at("one/new"), at("one/link.toml")).unwrap();
    seen(23);
    std::fs::write(at("three/other.toml"), sends(24)).unwrap();
    seen(24);
    // The file is replaced by a link while the daemon runs, as GNU stow does.
    std::fs::remove_file(studio.config_file()).unwrap();
    studio.save(&sends(25));
    seen(25);
    std::fs::write(at("three/stowed.toml"), sends(26)).unwrap();
    std::fs::remove_file(studio.config_file()).unwrap();
    std::os::unix::fs::symlink(at("three/stowed.toml"), studio.config_file()).unwrap();
    seen(26);
    std::fs::write(at("three/stowed.toml"), sends(27)).unwrap();
    seen(27);
}

#[test]
fn an_empty_or_cut_file_is_refused() {
    let text = sends(20);
    let studio = Studio::start(&text);
    let cut = |at: &str| text.get(..text.find(at).unwrap()).unwrap().to_owned();
    for short in ["".to_owned(), " \n\n".to_owned(), cut("[[modes]]"), cut(", value = 1 }")] {
        studio.save(&short);
        let why = until("the file is refused", || error_of(&studio.status()));
        assert_eq!(press(&studio), Some(vec![0xB0, 20, 1]), "{why}");
        studio.save(&text);
        until("the fault is no longer reported", || error_of(&studio.status()).is_none().then_some(()));
    }
    studio.save("");
    until("the file is refused", || error_of(&studio.status()));
    assert_eq!(studio.run(&["config", "check"]).status.code(), Some(1));
    // A person can accept the empty file.
    studio.accept();
    until("the file is in force", || error_of(&studio.status()).is_none().then_some(()));
}

#[test]
fn status_counts_the_faults_of_the_file() {
    let bad = "colour = 3\n[[devices]]\nalias = \"nowhere\"\n";
    let studio = Studio::start(&format!("{bad}{}", sends(20).replacen("schema = 1", "", 1)));
    let config = studio.status()["config"].clone();
    assert_eq!(config["faults"], 2, "{config}");
    let lines = config["fault_lines"].to_string();
    assert!(lines.contains("colour") && lines.contains("selects its port"), "{lines}");
    let shown = crate::studio::text(&studio.run(&["status"]).stdout);
    assert!(shown.contains("2 in config.toml"), "{shown}");
}

/// The daemon has no free descriptors, so it cannot open the changed file. It must read the file as
/// soon as it can, although the file does not change again.
#[test]
fn a_reload_that_the_system_refused_is_tried_again() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let studio = Studio::start(&sends(20));
    let pid = Pid::from_raw(studio.pid() as i32);
    let mut client = studio.control();
    let mut error = || error_of(&client.call("conductor_get_status", json!({})).unwrap());
    assert_eq!(error(), None);
    let full = getrlimit(Resource::Nofile);
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(3), maximum: full.maximum }).unwrap();
    std::fs::write(studio.config_file(), sends(21)).unwrap();
    let mut told = None;
    for _ in 0..500 {
        told = error();
        if told.is_some() {
            break;
        }
        #[expect(clippy::disallowed_methods, reason = "polls another process; no assertion depends on the time")]
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(told.as_ref().is_some_and(|it| it.contains("Too many open files")), "{told:?}");
    prlimit(pid, Resource::Nofile, full).unwrap();
    until("the file is read", || (studio.status()["config"]["hash"] == hash_of(&sends(21))).then_some(()));
    assert_eq!(studio.status()["statistics"]["reloads_failed"], 1, "equal failed attempts are counted more than once");
}
