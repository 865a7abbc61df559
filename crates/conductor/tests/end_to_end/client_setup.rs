//! `conductor mcp setup` as a person uses it.

use crate::studio::{BINARY, text};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

fn setup(home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["mcp", "setup"]).args(words).current_dir(home).env("HOME", home).env_remove("CONDUCTOR_HOME");
    command.output().unwrap()
}

fn client(home: &Path, name: &str) -> Value {
    let status = setup(home, &["--status", "--json"]);
    assert!(status.status.success(), "{status:?}");
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let all = status["clients"].as_array().unwrap();
    assert_eq!(all.len(), 14);
    all.iter().find(|it| it["client"] == name).unwrap().clone()
}

#[test]
fn a_client_is_set_up_shown_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let file = home.join(".codex/config.toml");
    assert_eq!(client(home, "codex")["state"], "not_installed");
    std::fs::create_dir(home.join(".codex")).unwrap();
    let before = "# mine\nmodel = \"x\"";
    std::fs::write(&file, before).unwrap();
    assert_eq!(client(home, "codex")["state"], "not_set_up");

    let done = setup(home, &["--client", "codex", "--view", "live", "--skills"]);
    assert!(done.status.success(), "{done:?}");
    let known = client(home, "codex");
    assert_eq!(
        (&known["state"], &known["view"], &known["program"]),
        (&json!("set_up"), &json!("live"), &json!(BINARY))
    );
    assert!(home.join(".codex/skills/map-a-control/SKILL.md").exists());
    let shown = text(&setup(home, &["--status"]).stdout);
    assert!(shown.lines().any(|it| it.starts_with("codex") && it.contains("view live")), "{shown}");

    assert!(setup(home, &["--client", "codex", "--remove", "--skills"]).status.success());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    assert!(!home.join(".codex/skills").exists());
    assert_eq!(std::fs::read_dir(home.join(".codex")).unwrap().count(), 1);
}

#[test]
fn a_broken_file_is_refused_and_the_entry_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    std::fs::create_dir(home.join(".cursor")).unwrap();
    std::fs::write(home.join(".cursor/mcp.json"), "{\n  \"mcpServers\": {,}\n}\n").unwrap();
    let refused = setup(home, &["--client", "cursor"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("line 2, column 18"), "{refused:?}");
    let entry: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(entry["mcpServers"]["conductor"]["command"], BINARY);
    assert_eq!(client(home, "cursor")["state"], "unreadable");
    assert_eq!(setup(home, &["--client", "other"]).status.code(), Some(2));
    assert_eq!(setup(home, &["--client", "cursor", "--view", "nothing"]).status.code(), Some(2));
    let printed = setup(home, &["--client", "goose", "--print"]);
    assert!(text(&printed.stdout).starts_with("extensions:\n  conductor:\n"), "{printed:?}");
}

/// A client does not have the environment of the terminal, so another home is part of the command.
#[test]
fn another_home_is_written_into_the_entry() {
    let folder = tempfile::tempdir().unwrap();
    let printed = setup(folder.path(), &["--print", "--home", "/srv/studio"]);
    let entry: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let arguments = entry["mcpServers"]["conductor"]["args"].as_array().unwrap();
    assert_eq!(arguments[..2], [json!("--home"), json!("/srv/studio")]);
}
