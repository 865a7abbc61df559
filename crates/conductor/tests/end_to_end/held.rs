//! A model with its own file tools rewrites the configuration and the files about it. It gains no
//! permissions until a person accepts the change.

use crate::studio::{BINARY, Studio, text, until};
use conductor_testkit::stranger::DirectClient;
use conductor_testkit::terminal::{Terminal, at_a_terminal};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// One pad that sends MIDI, one root, one command, one rule and one rate limit.
const BASE: &str = r#"schema = 1
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[modes]]
name = "Default"
[[modes.mappings]]
id = "play"
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 1, value = 1 }
[tools.filesystem]
roots = [{ name = "open", path = "ROOM/open" }]
[[tools.shell.commands]]
name = "echo"
program = "/bin/echo"
args = ["hello"]
effect = "read"
[[policy.rules]]
tool = "conductor_send_midi"
decision = "deny"
[limits.effect]
per_minute = 600
"#;

struct Rig {
    studio: Studio,
    /// Folders of the person. Only `open` is granted.
    room: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let room = tempfile::tempdir().unwrap();
        for folder in ["open", "shut"] {
            std::fs::create_dir(room.path().join(folder)).unwrap();
            std::fs::write(room.path().join(folder).join("note.txt"), "private").unwrap();
        }
        let mut studio = Studio::empty();
        let config = BASE.replace("ROOM", &room.path().display().to_string());
        std::fs::write(studio.config_file(), config).unwrap();
        studio.up(&[]);
        Rig { studio, room }
    }

    fn config(&self) -> String {
        BASE.replace("ROOM", &self.room.path().display().to_string())
    }

    fn marker(&self) -> PathBuf {
        self.room.path().join("marker")
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        DirectClient::connect(self.studio.home()).call(tool, arguments)
    }

    fn held(&self) -> Vec<String> {
        let held = self.studio.status()["config"]["held"].clone();
        serde_json::from_value(held).unwrap()
    }

    fn closed(&self) -> bool {
        self.studio.status()["config"]["closed"].is_string()
    }

    /// Checks that only permissions of the base configuration are in force.
    fn nothing_widened(&self, how: &str) {
        let read = self.call("filesystem.read", &json!({ "path": self.room.path().join("shut/note.txt") }));
        assert!(read["result"].is_null() && !read.to_string().contains("private"), "{how}: {read}");
        let write =
            self.call("filesystem.write", &json!({ "path": self.room.path().join("open/new"), "content": "x" }));
        assert!(write["result"].is_null(), "{how}: {write}");
        assert!(!self.room.path().join("open/new").exists(), "{how}");
        let run = self.call("shell.exec", &json!({ "argv": ["/usr/bin/touch", self.marker()] }));
        assert!(run["result"].is_null(), "{how}: {run}");
        let midi =
            json!({ "port": "synth", "messages": [{ "type": "cc", "channel": 1, "controller": 1, "value": 1 }] });
        let sent = self.call("conductor_send_midi", &midi);
        assert!(sent["result"].is_null(), "{how}: {sent}");
        // A call with wrong arguments would be refused before the policy is applied.
        let code = sent["error"]["data"]["code"].as_str();
        assert!(code.is_some_and(|it| it != "BAD_INPUT"), "{how}: {sent}");
        let press = || {
            let mut send = self.studio.command();
            send.args(["send", "pads hand", "on:37@100 off:37 on:38@100 off:38"]);
            at_a_terminal(send)
        };
        press();
        self.studio.ask("config.reload", json!({}));
        assert!(!self.marker().exists(), "{how}: a program ran");
    }

    fn still_granted(&self) {
        let read = self.call("filesystem.read", &json!({ "path": self.room.path().join("open/note.txt") }));
        assert!(read.to_string().contains("private"), "{read}");
    }

    fn restart(&mut self) {
        self.studio.signal(rustix::process::Signal::KILL);
        self.studio.ended();
        self.studio.up(&[]);
    }
}

/// Changes that request more permissions: the new text, and the name of the part that must be held.
fn wider(rig: &Rig) -> Vec<(String, &'static str)> {
    let config = rig.config();
    let room = rig.room.path().display().to_string();
    let touch = format!(
        "[[tools.shell.commands]]\nname = \"touch\"\nprogram = \"/usr/bin/touch\"\nargs = [\"{room}/marker\"]\neffect = \"read\"\n"
    );
    let row = |action: &str| {
        format!(
            "[[global_mappings]]\nid = \"evil\"\ntrigger = {{ type = \"Note\", note = 37, device = \"pads\" }}\naction = {action}\n"
        )
    };
    let with = |more: &str| format!("{config}{more}");
    let shell = format!("{{ type = \"Shell\", command = \"/usr/bin/touch {room}/marker\" }}");
    vec![
        (
            config.replace("/open\" }", "/open\" }, { name = \"shut\", path = \"ROOM/shut\" }").replace("ROOM", &room),
            "[tools]",
        ),
        (config.replace("/open\" }", "/\", write = true }"), "[tools]"),
        (
            config.replace(
                "[tools.filesystem]\nroots = [",
                "[tools]\nfilesystem.roots = [{ path = \"/\", name = \"all\", write = true }, ",
            ),
            "[tools]",
        ),
        (with(&touch), "[tools]"),
        (config.replace("/bin/echo", "/usr/bin/touch").replace("\"hello\"", &format!("\"{room}/marker\"")), "[tools]"),
        (config.replace("decision = \"deny\"", "decision = \"allow\""), "[policy]"),
        (config.replace("[[policy.rules]]\ntool = \"conductor_send_midi\"\ndecision = \"deny\"\n", ""), "[policy]"),
        (
            config.replace(
                "[[policy.rules]]\n",
                "[[policy.rules]]\ntool = \"*\"\ndecision = \"allow\"\n[[policy.rules]]\n",
            ),
            "[policy]",
        ),
        (
            config.replace(
                "[[policy.rules]]\ntool = \"conductor_send_midi\"\ndecision = \"deny\"\n",
                "[policy]\nrules = [{ decision = \"allow\", tool = \"*\" }]\n",
            ),
            "[policy]",
        ),
        (with("[policy.default]\nStateful = \"allow\"\nHardwareIO = \"allow\"\n"), "[policy]"),
        (with("[http]\nallow_remote = true\nbind = \"0.0.0.0:0\"\n[http.tls]\nself_signed = true\n"), "[http]"),
        (
            with(&format!(
                "[[http.tokens]]\nname = \"evil\"\nhash = \"sha256:{}\"\nscopes = [\"call\"]\n",
                "0".repeat(64)
            )),
            "[http]",
        ),
        (with("[plugins.evil]\nenabled = true\n"), "[plugins]"),
        (with("[patch.pd]\nmode = \"spawn\"\n"), "[patch]"),
        (with("[secrets]\nkey = \"file\"\n"), "[secrets]"),
        (with("[audit]\nretention_days = 1\n"), "[audit]"),
        (with("[performance]\nlock = true\n"), "[performance]"),
        (config.replace("per_minute = 600", "per_minute = 601"), "[limits]"),
        (config.replace("alias = \"synth\"\n", "alias = \"synth\"\necho_guard = true\n"), "devices.synth.echo_guard"),
        (
            config.replace("alias = \"pads\"\n", "alias = \"pads\"\nvirtual_port = \"open to all\"\n"),
            "devices.pads.virtual_port",
        ),
        (
            with(
                "[[devices]]\nalias = \"net\"\nprotocol = \"Osc\"\nlisten = \"127.0.0.1:0\"\nallow_sensitive_actions = true\n",
            ),
            "devices.net.allow_sensitive_actions",
        ),
        (with(&row(&shell)), "mapping */evil"),
        (
            with(&row(&format!("{{ type = \"Sequence\", actions = [{{ type = \"Delay\", ms = 1 }}, {shell}] }}"))),
            "mapping */evil",
        ),
        (with(&row("{ type = \"CallTool\", tool = \"conductor_panic\" }")), "mapping */evil"),
        (with(&row("{ type = \"Launch\", app = \"touch\" }")), "mapping */evil"),
        (with(&row("{ type = \"Plugin\", plugin = \"evil\", tool = \"x\" }")), "mapping */evil"),
    ]
}

#[test]
fn a_rewritten_file_widens_nothing_now_or_after_a_kill() {
    let mut rig = Rig::new();
    let marker = rig.marker().display().to_string();
    for (at, (config, waits)) in wider(&rig).into_iter().enumerate() {
        // Change a part that is not held too, so that the test can see that the new file is read.
        let config = config.replace("controller = 1", &format!("controller = {}", at + 2));
        rig.studio.save(&config);
        until(&format!("{waits} is held"), || rig.held().iter().any(|it| it == waits).then_some(()));
        rig.nothing_widened(&config);
        // The parts that are not held are in force at once.
        let mappings = rig.studio.call("conductor_get_mappings", json!({ "mode": "Default" }));
        assert_eq!(mappings["mappings"][0]["action"]["controller"], at + 2, "{waits}");
        if at % 6 == 0 {
            rig.restart();
            assert!(rig.held().iter().any(|it| it == waits), "{waits}: {:?}", rig.held());
            rig.nothing_widened(&config);
        }
        assert!(!Path::new(&marker).exists());
    }
    rig.still_granted();
    let log = std::fs::read_to_string(rig.studio.home().join("audit.log")).unwrap();
    for event in ["config.loaded", "config.held"] {
        assert!(log.contains(&format!("\"event\":\"{event}\"")), "{event}");
    }
}

#[test]
fn taking_grants_away_applies_at_once_and_stays() {
    let mut rig = Rig::new();
    rig.still_granted();
    let narrow =
        rig.config().replace(&format!("{{ name = \"open\", path = \"{}/open\" }}", rig.room.path().display()), "");
    rig.studio.save(&narrow);
    let refused = |rig: &Rig| {
        rig.call("filesystem.read", &json!({ "path": rig.room.path().join("open/note.txt") }))["result"].is_null()
    };
    until("the root is gone", || refused(&rig).then_some(()));
    assert!(rig.held().is_empty());
    // Restoring an earlier permission also needs a person.
    rig.studio.save(&rig.config());
    until("the section is held", || rig.held().iter().any(|it| it == "[tools]").then_some(()));
    assert!(refused(&rig));
    rig.restart();
    assert!(refused(&rig));
}

#[test]
fn what_is_kept_about_the_accepted_file_cannot_be_replaced() {
    let mut rig = Rig::new();
    let record = rig.studio.home().join("state/accepted.jsonl");
    let key = rig.studio.home().join("secrets/config.key");
    let evil = rig.config().replace("/open\" }", "/\", write = true }");
    let first = (std::fs::read(&record).unwrap(), std::fs::read(&key).unwrap());
    let closed = |how: &str, rig: &mut Rig, change: &dyn Fn(&Path)| {
        rig.studio.stop();
        let saved: Vec<(PathBuf, Vec<u8>)> =
            [&record, &key].iter().map(|it| ((*it).clone(), std::fs::read(it).unwrap())).collect();
        change(rig.studio.home());
        std::fs::write(rig.studio.config_file(), &evil).unwrap();
        rig.studio.up(&[]);
        assert!(rig.closed(), "{how}: {}", rig.studio.status()["config"]);
        rig.nothing_widened(how);
        let read = rig.call("filesystem.read", &json!({ "path": rig.room.path().join("open/note.txt") }));
        assert!(read["result"].is_null(), "{how}: rights are granted");
        let doctor = text(&rig.studio.run(&["doctor"]).stdout);
        assert!(doctor.contains("no rights are granted"), "{how}: {doctor}");
        rig.studio.stop();
        for (path, bytes) in saved {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        std::fs::write(rig.studio.config_file(), rig.config()).unwrap();
        rig.studio.up(&[]);
        assert!(!rig.closed(), "{how}: the original record is not accepted again");
        rig.still_granted();
    };
    closed("rewritten", &mut rig, &|home| {
        let path = home.join("state/accepted.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text.replace("/open\\\"", "/\\\"").replace("/open\"", "/\"")).unwrap();
    });
    closed("deleted", &mut rig, &|home| std::fs::remove_file(home.join("state/accepted.jsonl")).unwrap());
    closed("deleted with its key", &mut rig, &|home| {
        std::fs::remove_file(home.join("state/accepted.jsonl")).unwrap();
        std::fs::remove_file(home.join("secrets/config.key")).unwrap();
    });
    closed("another key", &mut rig, &|home| std::fs::write(home.join("secrets/config.key"), [7; 32]).unwrap());
    closed("emptied", &mut rig, &|home| std::fs::write(home.join("state/accepted.jsonl"), "").unwrap());
    // The record of another home, with that home's key.
    let other = Rig::new();
    let theirs: Vec<(&str, Vec<u8>)> = ["state/accepted.jsonl", "secrets/config.key"]
        .into_iter()
        .map(|it| (it, std::fs::read(other.studio.home().join(it)).unwrap()))
        .collect();
    closed("from another home", &mut rig, &|home| {
        for (name, bytes) in &theirs {
            std::fs::write(home.join(name), bytes).unwrap();
        }
    });
    // The record is rolled back: it is older than the audit log reports.
    rig.studio.save(&rig.config().replace("per_minute = 600", "per_minute = 5"));
    until("the smaller number is in force", || {
        let record = std::fs::read_to_string(&record).unwrap();
        record.contains("\"per_minute\":5}").then_some(())
    });
    rig.studio.stop();
    rig.studio.up(&[]);
    closed("rolled back", &mut rig, &|home| {
        std::fs::write(home.join("state/accepted.jsonl"), &first.0).unwrap();
        std::fs::write(home.join("secrets/config.key"), &first.1).unwrap();
    });
}

#[test]
fn a_deleted_state_folder_is_not_a_new_home() {
    let mut rig = Rig::new();
    rig.studio.stop();
    std::fs::remove_dir_all(rig.studio.home().join("state")).unwrap();
    std::fs::write(rig.studio.config_file(), rig.config().replace("/open\" }", "/\", write = true }")).unwrap();
    rig.studio.up(&[]);
    assert!(rig.closed());
    rig.nothing_widened("state/ deleted");
}

#[test]
fn a_person_accepts_and_only_a_person() {
    let mut rig = Rig::new();
    let shut = rig.config().replace("/open\" }", "/shut\" }");
    rig.studio.save(&shut);
    until("the section is held", || rig.held().iter().any(|it| it == "[tools]").then_some(()));
    let status = text(&rig.studio.run(&["status"]).stdout);
    assert!(status.contains("[tools]") && status.contains("conductor config accept"), "{status}");
    assert!(text(&rig.studio.run(&["doctor"]).stdout).contains("[tools]"));
    let tool = rig.call("conductor_get_status", &json!({}));
    assert!(tool.to_string().contains("[tools]"), "{tool}");
    // A decision without a terminal is refused.
    let hash = rig.studio.ask("config.reload", json!({}))["hash"].clone();
    assert_eq!(rig.studio.refusal("config.accept", json!({ "hash": hash }))["code"], "DENIED");
    assert_eq!(rig.studio.run(&["config", "accept"]).status.code(), Some(1));
    assert!(rig.held().iter().any(|it| it == "[tools]"));

    // The file changes while the person reads it, so the accepted hash does not match.
    let mut command = rig.studio.command();
    command.args(["config", "accept"]);
    let mut terminal = Terminal::start(command);
    let shown = terminal.until("[y/N]");
    assert!(shown.contains("- tools.filesystem.roots[0].path") && shown.contains("/shut"), "{shown}");
    rig.studio.save(&rig.config().replace("/open\" }", "/\", write = true }"));
    let mut said = String::new();
    while !said.contains("changed while") {
        terminal.type_in("y\n");
        said = terminal.until_any(&["changed while", "before you could read this; y or n: "]);
    }
    drop(terminal);
    rig.nothing_widened("changed under the question");

    rig.studio.save(&shut);
    let shown = rig.studio.accept();
    assert!(shown.contains("accepted:"), "{shown}");
    let read = rig.call("filesystem.read", &json!({ "path": rig.room.path().join("shut/note.txt") }));
    assert!(read.to_string().contains("private"), "{read}");
    assert!(rig.held().is_empty());
    rig.restart();
    assert!(rig.held().is_empty() && !rig.closed());
    let log = std::fs::read_to_string(rig.studio.home().join("audit.log")).unwrap();
    let accepted = log.lines().find(|it| it.contains("\"event\":\"config.accepted\"")).unwrap();
    assert!(accepted.contains("person:") && accepted.contains("sha256:"), "{accepted}");
    assert!(log.contains("\"event\":\"policy.changed\""));
}

/// The form of an AI client can name folders. `mcp start --folders` requests them; only a person
/// grants them.
#[test]
fn folders_from_the_form_of_a_client_wait_for_a_person() {
    let rig = Rig::new();
    let shut = rig.room.path().join("shut").display().to_string();
    let open = rig.room.path().join("open").display().to_string();
    // A program of its own starts the server, as a client does. Otherwise this test would count as
    // the client, and its answer as a person would be refused.
    let client = "import subprocess, sys; subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL)";
    let start = |folders: &[&str]| {
        let mut python = std::process::Command::new("python3");
        python.args(["-c", client, BINARY, "--home"]).arg(rig.studio.home());
        python.args(["mcp", "start", "--folders"]).args(folders);
        text(&python.output().unwrap().stderr)
    };
    let comment = "# my notes\n";
    rig.studio.save(&format!("{comment}{}", rig.config()));
    // An empty field of the form requests nothing, and neither does a folder that is granted.
    for nothing in [&[][..], &[""], &[&open]] {
        assert_eq!(start(nothing), "", "{nothing:?}");
    }
    assert!(rig.held().is_empty());

    let said = start(&[&open, &shut]);
    assert!(said.contains(&format!("{shut} waits for your approval")) && !said.contains(&open), "{said}");
    until("the section is held", || rig.held().iter().any(|it| it == "[tools]").then_some(()));
    rig.nothing_widened("a folder from the form of a client");
    // A second start does not request the folder again.
    assert_eq!(start(&[&open, &shut]), "");
    let file = std::fs::read_to_string(rig.studio.config_file()).unwrap();
    assert!(file.starts_with(comment) && file.matches(&shut).count() == 1, "{file}");
    // A path that the configuration cannot contain is reported, and nothing is written.
    let said = start(&["not/absolute"]);
    assert!(said.contains("the folders were not requested") && said.contains("absolute"), "{said}");
    assert_eq!(std::fs::read_to_string(rig.studio.config_file()).unwrap(), file);

    rig.studio.accept();
    let read = rig.call("filesystem.read", &json!({ "path": rig.room.path().join("shut/note.txt") }));
    assert!(read.to_string().contains("private"), "{read}");
    let write = rig.call("filesystem.write", &json!({ "path": rig.room.path().join("shut/new"), "content": "x" }));
    assert!(write["result"].is_null(), "{write}");
}

#[test]
fn closed_defaults_end_when_a_person_accepts() {
    let mut rig = Rig::new();
    rig.studio.stop();
    std::fs::remove_file(rig.studio.home().join("state/accepted.jsonl")).unwrap();
    rig.studio.up(&[]);
    assert!(rig.closed());
    rig.studio.accept();
    assert!(!rig.closed());
    rig.still_granted();
    rig.restart();
    assert!(!rig.closed());
    rig.still_granted();
}

#[test]
fn an_applied_plan_is_in_force_and_carries_nothing_in() {
    let rig = Rig::new();
    let room = rig.room.path().display();
    // The model adds permissions to the file, then requests a harmless plan.
    let evil = rig.config().replace("/open\" }", "/\", write = true }");
    rig.studio.save(&evil);
    until("the section is held", || rig.held().iter().any(|it| it == "[tools]").then_some(()));
    let plan = json!({
        "mode": "Default", "trigger": { "type": "Note", "note": 40 },
        "action": { "type": "CallTool", "tool": "conductor_panic", "arguments": {} },
    });
    let made = rig.call("conductor_create_mapping", &plan);
    let id = made["result"]["plan_id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let mut apply = rig.studio.command();
    apply.args(["plans", "apply", &id]);
    let (code, said) = at_a_terminal(apply);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(rig.held(), ["[tools]"], "other parts than the root wait for a person");
    rig.nothing_widened(&format!("{room}"));
    let mappings = rig.studio.call("conductor_get_mappings", json!({ "mode": "Default" }));
    assert_eq!(mappings["mappings"][1]["enabled"], true, "{mappings}");
}

#[test]
fn a_row_that_types_loads_and_is_named() {
    let rig = Rig::new();
    rig.studio.save(&format!(
        "{}[[global_mappings]]\nid = \"typist\"\ntrigger = {{ type = \"Note\", note = 38, device = \"pads\" }}\naction = {{ type = \"Text\", text = \"rm\" }}\n",
        rig.config()
    ));
    until("`status` names the mapping", || {
        (rig.studio.status()["config"]["unprotected"] == json!(["*/typist"])).then_some(())
    });
    assert!(text(&rig.studio.run(&["status"]).stdout).contains("*/typist"));
    assert!(rig.held().is_empty());
    rig.studio.accept();
    assert_eq!(rig.studio.status()["config"]["unprotected"], json!([]));
}

#[test]
fn the_terminal_of_the_daemon_asks() {
    let room = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    let config = BASE.replace("ROOM", &room.path().display().to_string());
    std::fs::write(&file, &config).unwrap();
    let mut command = std::process::Command::new(crate::studio::BINARY);
    command.env("CONDUCTOR_HOME", home.path()).env_remove("DISPLAY").args(["up", "--http", "127.0.0.1:0"]);
    let mut terminal = Terminal::start(command);
    terminal.until("Conductor is up");
    std::fs::write(&file, config.replace("per_minute = 600", "per_minute = 601")).unwrap();
    let shown = terminal.until("Accept this config.toml? y or n: ");
    assert!(shown.contains("+ limits.effect.per_minute = 601"), "{shown}");
    let mut said = String::new();
    while !said.ends_with("accepted") {
        terminal.type_in("y\n");
        said = terminal.until_any(&["accepted", "before you could read this; y or n: "]);
    }
    let record = home.path().join("state/accepted.jsonl");
    until("the accepted configuration is stored", || {
        std::fs::read_to_string(&record).unwrap().contains("601").then_some(())
    });
}

#[test]
fn the_tool_shows_the_file_and_what_of_it_is_in_force() {
    let rig = Rig::new();
    let get = || rig.call("conductor_get_config", &json!({}));
    let first = get();
    assert_eq!(first["result"]["content"], rig.config());
    assert!(first["result"].get("in_force").is_none(), "{first}");
    let wide = rig.config().replace("per_minute = 600", "per_minute = 601");
    rig.studio.save(&wide);
    until("the section is held", || rig.held().iter().any(|it| it == "[limits]").then_some(()));
    let now = get();
    assert_eq!(now["result"]["content"], wide);
    assert_eq!(now["result"]["in_force"]["held"], json!(["[limits]"]));
    // The tool also returns an invalid file unchanged.
    rig.studio.save("nonsense");
    assert_eq!(get()["result"]["content"], "nonsense");
    let plan =
        json!({ "mode": "Default", "trigger": { "type": "Note", "note": 40 }, "action": { "type": "Delay", "ms": 1 } });
    rig.studio.save(&rig.config());
    let made = rig.call("conductor_create_mapping", &plan);
    assert_eq!(made["result"]["base_state_hash"], get()["result"]["hash"]);
    std::fs::remove_file(rig.studio.config_file()).unwrap();
    let gone = get();
    assert_eq!(gone["error"]["code"], -32000, "{gone}");
    assert!(gone["error"]["message"].as_str().unwrap().contains("Config not found"), "{gone}");
}

#[test]
fn the_tool_checks_the_file_against_what_there_is() {
    let rows = [
        (r#"{ type = "CallTool", tool = "conductor_panik" }"#, "conductor_panik"),
        (r#"{ type = "Plugin", plugin = "nowhere", tool = "x" }"#, "nowhere"),
        (
            r#"{ type = "SendMidi", port = "no such port", channel = 0, message_type = "CC", controller = 1, value = 1 }"#,
            "no such port",
        ),
        (r#"{ type = "Shell", command = "rm -rf" }"#, "none of the allowed commands"),
    ];
    let rig = Rig::new();
    for (action, wanted) in rows {
        rig.studio.save(&format!(
            "{}[[global_mappings]]\nid = \"x\"\ntrigger = {{ type = \"Note\", note = 38 }}\naction = {action}\n",
            rig.config()
        ));
        let report = rig.call("conductor_validate_config", &json!({}))["result"].clone();
        let said = format!("{}{}", report["errors"], report["warnings"]);
        assert!(said.contains(wanted), "{action}: {report}");
        let checked = rig.studio.run(&["config", "check"]);
        assert!(text(&checked.stdout).contains(wanted), "{action}: {checked:?}");
    }
    rig.studio.save(&format!(
        "{}[[devices]]\nalias = \"mac\"\nmatchers = [{{ type = \"CoreMidiUniqueId\", value = 7 }}]\n",
        rig.config()
    ));
    let report = rig.call("conductor_validate_config", &json!({}));
    assert!(cfg!(target_os = "macos") || report.to_string().contains("CoreMidiUniqueId cannot match"), "{report}");
}

/// If there are secrets, the accepted configuration is signed with their key. Without that key it
/// is not in force.
#[test]
fn the_key_of_the_secrets_signs_what_is_accepted() {
    let mut rig = Rig::new();
    rig.studio.save(&format!("[secrets]\nkey = \"file\"\n{}", rig.config().replacen("schema = 1\n", "", 1)));
    rig.studio.accept();
    let mut set = rig.studio.command();
    set.args(["secrets", "set", "api", "--allow-key-file"]);
    let mut terminal = Terminal::start(set);
    terminal.until("not shown");
    terminal.type_in("a-value-of-mine\n");
    assert!(terminal.end().0.success());
    let record = rig.studio.home().join("state/accepted.jsonl");
    let signed_by = || std::fs::read_to_string(&record).unwrap().lines().next().unwrap().to_owned();
    until("the record is signed with the key of the secrets", || signed_by().contains("\"vault\"").then_some(()));
    rig.restart();
    assert!(!rig.closed(), "{}", rig.studio.status()["config"]);
    rig.still_granted();

    rig.studio.stop();
    let vault = rig.studio.home().join("secrets/vault.json");
    let kept = std::fs::read(&vault).unwrap();
    std::fs::remove_file(&vault).unwrap();
    rig.studio.up(&[]);
    assert!(rig.closed(), "the record is still accepted without the key of the secrets");
    rig.nothing_widened("vault.json deleted");
    rig.studio.stop();
    std::fs::write(&vault, kept).unwrap();

    // A missing key may be available later. Until then nothing is granted.
    let key = rig.studio.home().join("secrets/key");
    let aside = rig.studio.home().join("secrets/aside");
    std::fs::rename(&key, &aside).unwrap();
    rig.studio.up(&[]);
    assert!(rig.closed());
    rig.nothing_widened("locked");
    std::fs::rename(&aside, &key).unwrap();
    until("the key is found", || (!rig.closed()).then_some(()));
    rig.still_granted();
    assert!(rig.held().is_empty(), "{:?}", rig.held());
}

/// A model can write to the folder in which the bytes of a plan are stored.
#[test]
fn a_plan_whose_bytes_were_exchanged_is_not_applied() {
    let rig = Rig::new();
    let plan =
        json!({ "mode": "Default", "trigger": { "type": "Note", "note": 40 }, "action": { "type": "Delay", "ms": 1 } });
    let made = rig.call("conductor_create_mapping", &plan);
    let id = made["result"]["plan_id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let folder = rig.studio.home().join("state/plans");
    let evil = rig.config().replace("/open\" }", "/\", write = true }");
    let mut exchanged = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains(&id) && name.contains("after") {
            std::fs::write(&file, &evil).unwrap();
            exchanged += 1;
        }
    }
    assert_eq!(exchanged, 1);
    let mut apply = rig.studio.command();
    apply.args(["plans", "apply", &id]);
    assert_eq!(at_a_terminal(apply).0, Some(1));
    assert_eq!(std::fs::read_to_string(rig.studio.config_file()).unwrap(), rig.config());
    rig.nothing_widened("exchanged plan");
}
