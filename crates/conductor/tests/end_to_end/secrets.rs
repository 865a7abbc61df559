//! Secrets through the built binary, with a real keyring, and the reports about keys. Leaks of
//! secrets are tested in `canary`.

use super::studio::{BINARY, Studio, text};
use conductor_testkit::real::keyring::{self, Ring};
use conductor_testkit::require;
use conductor_testkit::terminal::Terminal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;

/// Runs a command at a separate terminal, as a person would type it. `input` is the file that the
/// command reads.
fn at_a_terminal(studio: &Studio, args: &str, input: &Path) -> Output {
    let line = format!("'{BINARY}' {args} < '{}'", input.display());
    studio.command_of("script").args(["-qec", &line, "/dev/null"]).output().unwrap()
}

pub fn set(studio: &Studio, name: &str, value: &str, flags: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("value");
    std::fs::write(&input, format!("{value}\n")).unwrap();
    at_a_terminal(studio, &format!("secrets set {name} {flags}"), &input)
}

fn status(studio: &Studio) -> Value {
    serde_json::from_slice(&studio.run(&["--json", "secrets", "status"]).stdout).unwrap()
}

#[test]
fn the_keyring_of_the_desktop_holds_the_key_and_another_program_can_see_that() {
    let ring = require!(keyring::start(Ring::Unlocked));
    let mut studio = Studio::empty();
    studio.set("DBUS_SESSION_BUS_ADDRESS", ring.address());
    std::fs::write(studio.config_file(), "schema = 1\n").unwrap();
    studio.up(&[]);
    let stored = set(&studio, "api", "a-value-of-mine", "--host api.example");
    assert!(stored.status.success(), "{}", text(&stored.stdout));
    assert_eq!(status(&studio)["sentence"], "key held by the OS keychain");
    let key = ring.lookup("conductor", "master").expect("secret-tool does not find the key");
    assert_eq!(key.trim().len(), 44, "the key is not 32 bytes in base64");
    assert_eq!(ring.lookup("conductor", "probe"), None, "the probe left an entry behind");
    assert!(!studio.home().join("secrets/key").exists());
    let listed = studio.run(&["secrets", "list"]);
    assert!(text(&listed.stdout).contains("api") && text(&listed.stdout).contains("api.example"));

    // A rotation changes the key in the keyring, and the secrets can still be opened after a
    // restart.
    let nothing = Path::new("/dev/null");
    assert!(
        !at_a_terminal(&studio, "secrets rotate", nothing).status.success(),
        "the key was rotated with a redirected stdin"
    );
    let rotated = studio
        .command_of("script")
        .args(["-qec", &format!("'{BINARY}' secrets rotate"), "/dev/null"])
        .output()
        .unwrap();
    assert!(rotated.status.success(), "{}", text(&rotated.stdout));
    let new = ring.lookup("conductor", "master").unwrap();
    assert!(new != key && new.trim().len() == 44);
    studio.stop();
    studio.up(&[]);
    assert_eq!(status(&studio)["count"], 1);
    let listed = studio.ask("secrets.list", json!({}));
    assert_eq!(listed["secrets"][0]["fault"], Value::Null, "{listed}");
}

#[test]
fn without_a_keyring_secrets_are_locked_and_no_key_file_appears() {
    let nobody = require!(keyring::start(Ring::Nobody));
    for (address, wanted) in [("unix:path=/nowhere/bus", "keychain"), (nobody.address(), "keychain")] {
        let mut studio = Studio::empty();
        studio.set("DBUS_SESSION_BUS_ADDRESS", address);
        std::fs::write(studio.config_file(), "schema = 1\n").unwrap();
        studio.up(&[]);
        let refused = set(&studio, "api", "a-value-of-mine", "--allow-key-file");
        assert!(!refused.status.success(), "{address}: {}", text(&refused.stdout));
        let told = status(&studio);
        let sentence = told["sentence"].as_str().unwrap();
        assert!(sentence.starts_with("locked:") && sentence.contains(wanted), "{address}: {sentence}");
        assert!(!studio.home().join("secrets/key").exists() && !studio.home().join("secrets/vault.json").exists());
        // The daemon still runs.
        assert_eq!(studio.status()["lifecycle_state"], "Running");
    }
}

#[test]
fn a_passphrase_is_asked_for_at_the_terminal_of_up_and_nowhere_else() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), "schema = 1\n[secrets]\nkey = \"passphrase\"\n").unwrap();
    studio.up(&[]);
    assert!(status(&studio)["sentence"].as_str().unwrap().contains("no passphrase was given at start"));
    studio.stop();
    let mut up = studio.command_of(BINARY);
    up.args(["up", "--http", "127.0.0.1:0"]);
    let mut terminal = Terminal::start(up);
    terminal.until("not shown");
    assert!(!terminal.shows_keys(), "the echo is on when the question is shown");
    terminal.type_in("correct horse\n");
    let shown = terminal.until("Ctrl-C ends it");
    assert!(!shown.contains("correct horse"), "{shown}");
    assert!(terminal.shows_keys());
    let stored = set(&studio, "api", "a-value-of-mine", "");
    assert!(stored.status.success(), "{}", text(&stored.stdout));
    assert_eq!(status(&studio)["sentence"], "key derived from the passphrase typed at start");
    terminal.type_in("\x03");
    let (ended, _) = terminal.end();
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn ctrl_c_at_a_hidden_question_ends_it_and_leaves_the_terminal_as_it_was() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), "schema = 1\n").unwrap();
    studio.up(&[]);
    let mut set = studio.command_of("sh");
    set.args(["-c", &format!("'{BINARY}' secrets set api; echo code $?; read line")]);
    let mut terminal = Terminal::start(set);
    terminal.until("not shown");
    terminal.type_in("half a val\x03");
    let said = terminal.until("code 1");
    assert!(said.contains("Ctrl-C") && !said.contains("half"), "{said}");
    assert!(terminal.shows_keys());
    let listed = studio.ask("secrets.list", json!({}));
    assert_eq!(listed["secrets"], json!([]));
}
