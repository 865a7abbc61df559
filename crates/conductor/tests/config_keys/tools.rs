//! `[tools.filesystem]` and `[tools.shell]`.

use super::*;

const FILES: &str = r#"
[tools.filesystem]
roots = [{ name = "studio", path = "STUDIO", write = true }, { name = "attic", path = "ATTIC" }]
[[tools.shell.commands]]
name = "show"
program = "/bin/cat"
args = ["--", "{file}"]
cwd = "studio"
effect = "read"
slots.file = { type = "path", root = "attic" }
[[tools.shell.commands]]
name = "where"
program = "/bin/pwd"
cwd = "studio"
effect = "read"
[[tools.shell.commands]]
name = "say"
program = "/bin/echo"
args = ["{count}", "{word}", "{text}"]
effect = "read"
slots.count = { type = "integer", min = 2, max = 4 }
slots.word = { type = "enum", values = ["a", "b"] }
slots.text = { type = "text", pattern = "x+" }
[[tools.shell.commands]]
name = "hang"
program = "/bin/sleep"
args = ["600"]
effect = "read"
timeout_ms = 100
[[tools.shell.commands]]
name = "env"
program = "/usr/bin/env"
effect = "read"
env = { MY_KEY = "yes" }
[[tools.shell.commands]]
name = "pinned"
program = "/bin/true"
effect = "read"
digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
"#;

#[test]
pub(super) fn every_key_of_files_and_commands_counts() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [studio_at, attic_at] = folders.each_ref().map(|it| it.path().canonicalize().unwrap());
    std::fs::write(attic_at.join("note.txt"), "hello").unwrap();
    let config = FILES.replace("STUDIO", studio_at.to_str().unwrap()).replace("ATTIC", attic_at.to_str().unwrap());
    let studio = Studio::start(&config);
    let mut client = studio.client();
    // The keys `name` and `path` of a root.
    let (code, read) = studio.call(&mut client, "filesystem_read", json!({ "root": "attic", "path": "note.txt" }));
    assert_eq!((code.as_str(), &read["content"]), ("ok", &json!("hello")), "{read}");
    // A command whose `effect` is `read` runs without approval.
    let mut run = |command: &str, args: Value| {
        let (code, body) = studio.call(&mut client, "shell_exec", json!({ "command": command, "args": args }));
        (code, body["stdout"].as_str().unwrap_or_default().trim().to_owned())
    };
    let ok = |text: &str| ("ok".to_owned(), text.to_owned());
    let refused = |code: &str| (code.to_owned(), String::new());
    assert_eq!(run("show", json!({ "file": "note.txt" })), ok("hello"));
    assert_eq!(run("where", json!({})), ok(studio_at.to_str().unwrap()));
    assert_eq!(run("say", json!({ "count": 2, "word": "a", "text": "xx" })), ok("2 a xx"));
    for wrong in [
        json!({ "count": 1, "word": "a", "text": "xx" }),
        json!({ "count": 5, "word": "a", "text": "xx" }),
        json!({ "count": 2, "word": "c", "text": "xx" }),
        json!({ "count": 2, "word": "a", "text": "xy" }),
    ] {
        assert_eq!(run("say", wrong.clone()), refused("BAD_INPUT"), "{wrong}");
    }
    assert_eq!(run("hang", json!({})), refused("TIMEOUT"));
    assert!(run("env", json!({})).1.contains("MY_KEY=yes"));
    assert_eq!(run("pinned", json!({})), refused("DENIED"));
}
