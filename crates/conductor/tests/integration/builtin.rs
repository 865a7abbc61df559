//! Files, commands, databases and the web through the one pipeline: what is asked, what is refused, what comes back and what is undone.

use std::sync::Arc;

use conductor::hosts::database::Databases;
use conductor::hosts::files::Files;
use conductor::hosts::shell::Shell;
use conductor::hosts::web::{Web, system_tls};
use conductor::outside::RandomIds;
use conductor::pipeline::call::{Outcome, Principal};
use conductor::pipeline::{self, Call};
use conductor::secrets::{Secrets, SystemKeys};
use conductor::studio::Settings;
use conductor::tools::database::Shelf;
use conductor::tools::{database, filesystem, shell, web};
use conductor_core::config::{KeyRung, load};
use conductor_core::error::{Code, ToolError};
use conductor_core::pending::{Kind, State, Yes};
use conductor_core::policy::{Channel, Policy};
use conductor_testkit::real::{PATIENCE, postgres, wait_for};
use conductor_testkit::require;
use conductor_testkit::studio::TestStudio;
use serde_json::{Value, json};

/// A studio with the tools that leave it, granted as a configuration says.
pub struct Room {
    pub studio: TestStudio,
    pub folder: tempfile::TempDir,
    pub secrets: Arc<Secrets>,
}

impl Room {
    pub fn new(config: &str) -> Self {
        Self::with(config, Settings::default())
    }

    /// `STUDIO` in the configuration is a folder of this test.
    pub fn with(config: &str, mut settings: Settings) -> Self {
        // The clock stands still here: what waits for a second attempt would wait for ever.
        settings.retry.attempts = 1;
        let studio = TestStudio::with(Policy::default(), settings);
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("studio")).unwrap();
        let text = config.replace("STUDIO", &folder.path().join("studio").display().to_string());
        let loaded = load(&text);
        assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
        let tools = loaded.config.unwrap().tools;
        let tls = system_tls().unwrap();
        let files = Files::new(studio.home.path(), None);
        assert_eq!(files.configure(&tools.roots), Vec::<String>::new());
        let shell = Shell::new(&files, Some(folder.path().to_owned()));
        shell.configure(&tools.commands);
        let databases = Databases::new(studio.home.path(), None, tls.clone());
        databases.configure(&tools.databases);
        let web = Web::new(tls);
        web.configure(&tools.web);
        let keys = Box::new(SystemKeys::new(None));
        let scrubber = Arc::clone(&studio.studio.scrubber);
        let secrets = Secrets::new(studio.home.path(), KeyRung::File, keys, Arc::new(RandomIds), scrubber);
        let shelf = Shelf { databases, secrets: Arc::clone(&secrets) };
        studio.studio.edit_catalog(|catalog| {
            filesystem::add(catalog, &files).unwrap();
            shell::add(catalog, &shell).unwrap();
            database::add(catalog, &shelf).unwrap();
            web::add(catalog, &web).unwrap();
        });
        Room { studio, folder, secrets }
    }

    pub fn path(&self, inside: &str) -> std::path::PathBuf {
        self.folder.path().join("studio").join(inside)
    }

    fn put(&self, inside: &str, text: &str) {
        let path = self.path(inside);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        ended(self.studio.call(tool, arguments).await.into_outcome())
    }

    pub async fn person(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        let call = Call::new(Principal::Person { uid: 1000 }, tool, arguments);
        ended(pipeline::run(&self.studio.studio, call).await.into_outcome())
    }

    /// Asks, has a person say yes, and asks again.
    pub async fn agreed(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        let asked = self.call(tool, arguments.clone()).await.unwrap_err();
        assert_eq!(asked.code, Code::ApprovalRequired, "{asked:?}");
        let id = asked.extras.question.unwrap().approval_id.parse().unwrap();
        let desk = &self.studio.studio.desk;
        desk.allow(&self.studio.studio, id, Yes::once("person:1000", Channel::Cli)).await.unwrap();
        self.call(tool, arguments).await
    }
}

fn ended(outcome: Outcome) -> Result<Value, ToolError> {
    match outcome {
        Outcome::Done(done) => done.map(|it| it.value),
        Outcome::Cancelled | Outcome::Ask { .. } => panic!("no such end here"),
    }
}

const FILES: &str = "[tools.filesystem]\nroots = [{ name = \"studio\", path = \"STUDIO\", write = true }]\n";

#[tokio::test(flavor = "multi_thread")]
async fn files_are_read_listed_and_searched_without_asking() {
    let room = Room::new(FILES);
    room.put("sets/one.txt", "first line\nkick on the one\n");
    room.put("sets/two.txt", "nothing\n");
    let read = room.call("filesystem.read", json!({ "path": "sets/one.txt" })).await.unwrap();
    assert_eq!((read["content"].as_str(), read["size"].as_u64()), (Some("first line\nkick on the one\n"), Some(27)));
    let part = room.call("filesystem_read", json!({ "path": "sets/one.txt", "offset": 6, "limit": 4 })).await.unwrap();
    assert_eq!((part["content"].as_str(), part["truncated"].as_bool()), (Some("line"), Some(true)));
    let listed = room.call("filesystem.list", json!({ "depth": 2 })).await.unwrap();
    let names: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sets", "sets/one.txt", "sets/two.txt"]);
    let found = room
        .call("filesystem.search", json!({ "pattern": "KICK|kick", "regex": true, "glob": "*.txt" }))
        .await
        .unwrap();
    assert_eq!(
        found["matches"],
        json!([{ "path": "sets/one.txt", "line": 2, "column": 1, "text": "kick on the one" }])
    );
    // A pattern is text unless it says otherwise, and a pattern that could run for ever does not exist.
    assert_eq!(room.call("filesystem.search", json!({ "pattern": "KICK|kick" })).await.unwrap()["matches"], json!([]));
    let refused = room.call("filesystem.search", json!({ "pattern": "(?=x)", "regex": true })).await.unwrap_err();
    assert_eq!(refused.code, Code::BadInput);
    let outside = room.call("filesystem.read", json!({ "path": "../../etc/passwd" })).await.unwrap_err();
    assert_eq!(outside.code, Code::Denied);
    let none = Room::new("").call("filesystem.list", json!({})).await.unwrap_err();
    assert!(none.code == Code::Denied && none.hint.contains("[tools.filesystem]"), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_asked_bound_to_what_is_there_and_undone_by_a_person_alone() {
    let room = Room::new(FILES);
    room.put("a.txt", "old");
    let write = json!({ "path": "a.txt", "content": "new" });
    let done = room.agreed("filesystem.write", write.clone()).await.unwrap();
    assert_eq!(
        (done["created"].as_bool(), std::fs::read_to_string(room.path("a.txt")).unwrap().as_str()),
        (Some(false), "new")
    );
    let undo = done["undo_id"].as_str().unwrap().to_owned();
    // The model cannot undo; the tool does not exist for it.
    let refused = room.call("filesystem.undo", json!({ "undo_id": undo })).await.unwrap_err();
    assert_eq!(refused.code, Code::NotFound);
    room.person("filesystem.undo", json!({ "undo_id": undo })).await.unwrap();
    assert_eq!(std::fs::read_to_string(room.path("a.txt")).unwrap(), "old");
    let again = room.person("filesystem.undo", json!({ "undo_id": undo })).await.unwrap_err();
    assert_eq!(again.code, Code::BadInput, "{again:?}");

    // The yes was for the file as it was.
    let asked = room.call("filesystem.write", write.clone()).await.unwrap_err();
    let id = asked.extras.question.unwrap().approval_id.parse().unwrap();
    let studio = &room.studio.studio;
    studio.desk.allow(studio, id, Yes::once("person:1000", Channel::Cli)).await.unwrap();
    room.put("a.txt", "changed by another program");
    assert_eq!(room.call("filesystem.write", write).await.unwrap_err().code, Code::PlanStale);
    assert_eq!(std::fs::read_to_string(room.path("a.txt")).unwrap(), "changed by another program");

    // What was made is removed by its undo, and what was deleted comes back; a change in between is not lost.
    let made = room
        .agreed("filesystem.write", json!({ "path": "x/new.txt", "content": "x", "create_dirs": true }))
        .await
        .unwrap();
    assert_eq!(made["created"], true);
    let gone = room.agreed("filesystem.delete", json!({ "path": "a.txt" })).await.unwrap();
    assert!(!room.path("a.txt").exists());
    room.person("filesystem.undo", json!({ "undo_id": made["undo_id"] })).await.unwrap();
    assert!(!room.path("x/new.txt").exists());
    room.put("a.txt", "somebody was quicker");
    let stale = room.person("filesystem.undo", json!({ "undo_id": gone["undo_id"] })).await.unwrap_err();
    assert_eq!(stale.code, Code::PlanStale);
    std::fs::remove_file(room.path("a.txt")).unwrap();
    room.person("filesystem.undo", json!({ "undo_id": gone["undo_id"] })).await.unwrap();
    assert_eq!(std::fs::read_to_string(room.path("a.txt")).unwrap(), "changed by another program");
    let edits = studio
        .desk
        .store()
        .read(|pending| pending.iter().filter(|it| it.kind == Kind::Edit && it.state == State::Undone).count());
    assert_eq!(edits, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_hash_changes_nothing_and_a_reading_root_is_never_written() {
    let room = Room::new(FILES);
    room.put("a.txt", "old");
    let wrong = json!({ "path": "a.txt", "content": "new", "expected_hash": "absent" });
    assert_eq!(room.agreed("filesystem.write", wrong).await.unwrap_err().code, Code::StaleReference);
    let read = room.call("filesystem.read", json!({ "path": "a.txt" })).await.unwrap();
    let right = json!({ "path": "a.txt", "content": "new", "expected_hash": read["hash"] });
    room.agreed("filesystem.write", right).await.unwrap();
    let reading = Room::new("[tools.filesystem]\nroots = [{ name = \"studio\", path = \"STUDIO\" }]\n");
    let refused = reading.agreed("filesystem.write", json!({ "path": "b", "content": "x" })).await.unwrap_err();
    assert_eq!(refused.code, Code::Denied);
    assert!(!reading.path("b").exists());
}

const COMMANDS: &str = r#"
[tools.filesystem]
roots = [{ name = "studio", path = "STUDIO", write = true }]
[[tools.shell.commands]]
name = "show"
program = "/bin/cat"
args = ["--", "{file}"]
cwd = "studio"
effect = "read"
slots.file = { type = "path", root = "studio" }
[[tools.shell.commands]]
name = "touch"
program = "/usr/bin/touch"
args = ["{file}"]
slots.file = { type = "path", root = "studio" }
[[tools.shell.commands]]
name = "hang"
program = "/bin/sh"
args = ["-c", "sleep 600 & echo $!; sleep 600"]
effect = "read"
timeout_ms = 300
[[tools.shell.commands]]
name = "env"
program = "/usr/bin/env"
effect = "read"
env = { MY_KEY = "yes" }
[[tools.shell.commands]]
name = "flood"
program = "/usr/bin/head"
args = ["-c", "3000000", "/dev/zero"]
effect = "read"
[[tools.shell.commands]]
name = "pinned"
program = "/bin/true"
effect = "read"
digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_commands_run_and_only_those_that_change_something_ask() {
    let room = Room::new(COMMANDS);
    room.put("note.txt", "hello; $(id)\n");
    let shown = room.call("shell.exec", json!({ "command": "show", "args": { "file": "note.txt" } })).await.unwrap();
    assert_eq!((shown["stdout"].as_str(), shown["exit_code"].as_i64()), (Some("hello; $(id)\n"), Some(0)));
    let argv = room.call("shell.exec", json!({ "argv": ["cat", "--", "note.txt"] })).await.unwrap();
    assert_eq!(argv["stdout"], shown["stdout"]);
    let touched = json!({ "command": "touch", "args": { "file": "made.txt" } });
    assert_eq!(room.call("shell.exec", touched.clone()).await.unwrap_err().code, Code::ApprovalRequired);
    assert!(!room.path("made.txt").exists());
    let studio = &room.studio.studio;
    let asked = room.call("shell.exec", touched.clone()).await.unwrap_err().extras.question.unwrap();
    let record = studio.desk.get(asked.approval_id.parse().unwrap()).unwrap();
    let runs = record.facts.iter().find(|it| it.label == "runs").unwrap();
    assert!(runs.text.starts_with("/usr/bin/touch [\"/"), "the whole command line is shown: {}", runs.text);
    studio.desk.allow(studio, record.id, Yes::once("person:1000", Channel::Cli)).await.unwrap();
    assert_eq!(room.call("shell.exec", touched).await.unwrap()["exit_code"], 0);
    assert!(room.path("made.txt").exists());

    for (arguments, code) in [
        (json!({ "command": "rm", "args": {} }), Code::Denied),
        (json!({ "argv": ["rm", "-rf", "/"] }), Code::Denied),
        (json!({ "argv": ["cat", "--", "note.txt", "more"] }), Code::Denied),
        (json!({ "argv": ["cat", "--", "-n"] }), Code::Denied),
        (json!({ "argv": ["sh", "-c", "id"] }), Code::Denied),
        (json!({ "command": "show", "args": { "file": "../../etc/passwd" } }), Code::Denied),
        (json!({ "command": "show", "args": { "file": "/etc/passwd" } }), Code::Denied),
        (json!({ "command": "show", "args": { "file": "-n" } }), Code::BadInput),
        (json!({ "command": "show", "args": { "file": "a\nb" } }), Code::BadInput),
        (json!({ "command": "show" }), Code::BadInput),
        (json!({ "command": "show", "argv": ["cat"] }), Code::BadInput),
        (json!({}), Code::BadInput),
        (json!({ "command": "pinned" }), Code::Denied),
    ] {
        let refused = room.call("shell.exec", arguments.clone()).await.unwrap_err();
        assert_eq!(refused.code, code, "{arguments}: {refused:?}");
    }
    std::os::unix::fs::symlink("/etc/passwd", room.path("link")).unwrap();
    let link = room.call("shell.exec", json!({ "command": "show", "args": { "file": "link" } })).await.unwrap_err();
    assert_eq!(link.code, Code::Denied, "a link out of the root is no path in it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_a_bare_environment_bounded_output_and_dies_with_all_it_started() {
    let room = Room::new(COMMANDS);
    let env = room.call("shell.exec", json!({ "command": "env" })).await.unwrap();
    let mut lines: Vec<&str> =
        env["stdout"].as_str().unwrap().lines().map(|it| it.split('=').next().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["HOME", "LANG", "MY_KEY"]);
    let flood = room.call("shell.exec", json!({ "command": "flood" })).await.unwrap();
    assert_eq!(flood["truncated"], true);
    assert!(flood.to_string().len() <= 1 << 20);

    // On the studio's clock: the command ends when it says so, and its child with it.
    let (studio, time) = (Arc::clone(&room.studio.studio), Arc::clone(&room.studio.time));
    let call = Call::new(conductor_testkit::studio::principal("demo"), "shell.exec", json!({ "command": "hang" }));
    let running = tokio::spawn(async move { ended(pipeline::run(&studio, call).await.into_outcome()) });
    let found = tokio::task::block_in_place(|| wait_for(PATIENCE, || grandchild("sleep")));
    let child = found.expect("the command started its child");
    time.advance(std::time::Duration::from_millis(400));
    let late = running.await.unwrap().unwrap_err();
    assert_eq!(late.code, Code::Timeout, "{late:?}");
    let gone = tokio::task::block_in_place(|| wait_for(PATIENCE, || (!alive(child)).then_some(())));
    assert!(gone.is_some(), "process {child} outlived its command");
}

/// A process of that name that a child of this test started.
fn grandchild(name: &str) -> Option<i32> {
    let me = std::process::id() as i32;
    let stat = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let parent = |pid: i32| stat(pid)?.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<i32>().ok();
    let pids = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|it| it.contains(&format!("({name})"))))
        .find(|pid| parent(*pid).and_then(parent) == Some(me))
}

fn alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|it| !it.contains(") Z "))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_studios_own_database_is_there_and_keeps_reads_and_changes_apart() {
    let room = Room::new("");
    let made = json!({ "sql": "CREATE TABLE takes (name TEXT, bpm INTEGER)" });
    room.agreed("database.execute", made).await.unwrap();
    let put = json!({ "sql": "INSERT INTO takes VALUES (?1, ?2)", "params": ["one", 120] });
    assert_eq!(room.agreed("database.execute", put).await.unwrap(), json!({ "rows_affected": 1, "last_insert_id": 1 }));
    let rows = room
        .call("database.query", json!({ "sql": "SELECT name, bpm FROM takes WHERE bpm > ?1", "params": [100] }))
        .await
        .unwrap();
    assert_eq!(rows["rows"], json!([["one", 120]]));
    let schema = room.call("database.schema", json!({})).await.unwrap();
    assert_eq!(
        schema["tables"][0]["columns"],
        json!([{ "name": "name", "type": "TEXT" }, { "name": "bpm", "type": "INTEGER" }])
    );
    let refused = room.call("database.query", json!({ "sql": "DELETE FROM takes" })).await.unwrap_err();
    assert_eq!(refused.code, Code::Denied);
    let unknown = room.call("database.query", json!({ "sql": "SELECT 1", "database": "nowhere" })).await.unwrap_err();
    assert_eq!(unknown.code, Code::NotFound);
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(room.studio.home.path().join("state/studio.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_postgres_keeps_reads_reads() {
    let server = require!(postgres::start());
    server.sql("CREATE ROLE studio LOGIN PASSWORD 'a-studio-password'; CREATE TABLE sets (id bigint primary key, title text, length numeric, tags jsonb, cover bytea, at timestamptz); GRANT ALL ON sets TO studio; INSERT INTO sets VALUES (9007199254740993, 'One', 3.50, '{\"a\": [1]}', '\\x00ff', '2026-01-02 03:04:05+00'), (2, NULL, NULL, NULL, NULL, NULL)");
    let config = format!(
        "[tools.database.sets]\nurl = \"{}\"\npassword = \"secret:sets-db\"\nmax_rows_affected = 1\n[tools.database.boss]\nurl = \"{}\"\npassword = \"secret:boss\"\n",
        server.url("studio"),
        server.url("boss"),
    );
    let room = Room::new(&config);
    let query = |sql: &str| room.call("database.query", json!({ "database": "sets", "sql": sql }));
    // Without its password the database is not there, and says what is missing.
    let locked = query("SELECT 1").await.unwrap_err();
    assert_eq!(locked.code, Code::HostOffline, "{locked:?}");
    room.secrets.set("sets-db", "a-studio-password", vec![], true).unwrap();
    room.secrets.set("boss", postgres::BOSS_PASSWORD, vec![], true).unwrap();
    let rows = room
        .call(
            "database.query",
            json!({ "database": "sets", "sql": "SELECT * FROM sets WHERE id > $1 ORDER BY id DESC", "params": [1] }),
        )
        .await
        .unwrap();
    let first = rows["rows"][0].as_array().unwrap();
    let wanted =
        [json!("9007199254740993"), json!("One"), json!("3.50"), json!({ "a": [1] }), json!({ "base64": "AP8=" })];
    assert_eq!(first[..5], wanted);
    assert_eq!(rows["rows"][1], json!([2, null, null, null, null, null]));
    assert_eq!(rows["columns"][2], json!({ "name": "length", "type": "numeric" }));
    for attack in [
        "DELETE FROM sets",
        "WITH x AS (DELETE FROM sets RETURNING title) SELECT * FROM x",
        "INSERT INTO sets (id) VALUES (7) RETURNING title",
        "COPY sets TO PROGRAM 'cat > /tmp/conductor-was-here'",
        "COPY (SELECT 1) TO STDOUT",
        "SELECT 1; DELETE FROM sets",
        "SELECT set_config('transaction_read_only', 'off', false), 1",
        "SET TRANSACTION READ WRITE",
        "COMMIT",
        "SELECT nextval('pg_catalog.none')",
        "SELECT lo_import('/etc/passwd')",
        "CREATE TABLE t (a int)",
        "DO $$ BEGIN DELETE FROM sets; END $$",
        "SELECT pg_read_file('/etc/passwd')",
    ] {
        assert!(query(attack).await.is_err(), "{attack}");
    }
    assert_eq!(server.sql("SELECT count(*) FROM sets"), "2");
    // Negative control: the first words of these look like reads, and outside of a reading transaction they change something.
    server.sql("WITH x AS (INSERT INTO sets (id) VALUES (7) RETURNING id) SELECT * FROM x");
    assert_eq!(server.sql("SELECT count(*) FROM sets"), "3");
    let boss = room.call("database.query", json!({ "database": "boss", "sql": "SELECT 1" })).await.unwrap_err();
    assert!(boss.code == Code::Denied && boss.message.contains("superuser"), "{boss:?}");
    let many = room
        .agreed("database.execute", json!({ "database": "sets", "sql": "UPDATE sets SET title = 'x'" }))
        .await
        .unwrap_err();
    assert!(many.code == Code::Denied && many.message.contains("nothing was changed"), "{many:?}");
    let one = json!({ "database": "sets", "sql": "UPDATE sets SET title = $1 WHERE id = $2", "params": ["Two", 2] });
    assert_eq!(room.agreed("database.execute", one).await.unwrap()["rows_affected"], 1);
    assert_eq!(server.sql("SELECT title FROM sets WHERE id = 2"), "Two");
    let tables = room.call("database.schema", json!({ "database": "sets" })).await.unwrap();
    assert_eq!(tables["tables"][0]["name"], "public.sets");
    assert_eq!(tables["tables"][0]["indexes"], json!(["sets_pkey"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn web_hosts_that_a_person_named_are_fetched_and_others_are_asked_about() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pages = axum::Router::new()
        .route("/page", axum::routing::get(|| async { "a page" }))
        .route("/echo", axum::routing::post(|body: String| async move { body }));
    tokio::spawn(async move { axum::serve(listener, pages).await });
    let room = Room::new(&format!("[tools.web]\nallow_hosts = [\"{address}\"]\nhttp_hosts = [\"{address}\"]\n"));
    let got = room.call("web.fetch", json!({ "url": format!("http://{address}/page") })).await.unwrap();
    assert_eq!((got["content"].as_str(), got["status"].as_u64()), (Some("a page"), Some(200)));
    let post = json!({ "url": format!("http://{address}/echo"), "method": "POST", "body": "hello" });
    assert_eq!(room.agreed("web.fetch", post).await.unwrap()["content"], "hello", "a POST is always asked about");
    let other = room.call("web.fetch", json!({ "url": "https://other.example/" })).await.unwrap_err();
    assert_eq!(other.code, Code::ApprovalRequired);
    let private = room.agreed("web.fetch", json!({ "url": "https://127.0.0.1:1/" })).await.unwrap_err();
    assert_eq!(private.code, Code::Denied);
    let secret = json!({ "url": format!("http://{address}/page"), "headers": { "Host": "evil.example" } });
    assert_eq!(room.call("web.fetch", secret).await.unwrap_err().code, Code::BadInput);
}
