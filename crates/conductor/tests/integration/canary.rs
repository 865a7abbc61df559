//! Sends one secret through every path: no output may contain it.

use super::builtin::ExternalTools;
use base64::Engine as _;
use conductor_core::config::{Audit, AuditDetail};
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::pending::Kind;
use conductor_core::policy::Tier;
use conductor_daemon::doors::mcp::Shared;
use conductor_gateway::catalog::{Definition, Tool};
use conductor_gateway::pipeline::call::LogLevel;
use conductor_gateway::secrets::{Scrubber, on_panic};
use conductor_gateway::studio::Settings;
use conductor_testkit::line_client::LineClient;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

const CANARY: &str = "canary-7f3a\"91/+x";

/// The secret as it is, and in JSON, base64 and percent encoding.
pub fn spellings(secret: &str) -> Vec<String> {
    let json = Value::from(secret).to_string();
    vec![
        secret.to_owned(),
        json[1..json.len() - 1].to_owned(),
        base64::engine::general_purpose::STANDARD_NO_PAD.encode(secret),
        secret
            .bytes()
            .map(|it| {
                if it.is_ascii_alphanumeric() || it == b'-' { char::from(it).to_string() } else { format!("%{it:02X}") }
            })
            .collect(),
    ]
}

fn leaks(text: &str) -> Vec<String> {
    spellings(CANARY).into_iter().filter(|it| text.contains(it.as_str())).collect()
}

/// A tool that outputs the secret in every possible way.
fn parrot() -> Definition {
    let mut definition = Definition::new("parrot", Tier::HardwareIo, "test", |_, leave, arguments: Value| async move {
        let said = CANARY.to_owned();
        leave.report(1.0, None, &said);
        if let Some(progress) = leave.progress() {
            progress.log(LogLevel::Error, &said);
        }
        match arguments["how"].as_str() {
            Some("panic") => panic!("parrot: {said}"),
            Some("error") => Err(ToolError::new(Code::Internal, format!("it said {said}"))
                .hint(said.clone())
                .subject(Subject::Other(said.clone()))
                .cause(Code::Internal, said.clone())
                .more("deep", json!([[[{ said.clone(): said }]]]))),
            _ => Ok(json!({ "list": [[[said.clone()], [{ "deeper": [said.clone(), 1] }]]], "coded": spellings(&said) }).into()),
        }
    })
    .text("Parrot", "Says it again.")
    .input(json!({ "type": "object", "properties": { "say": { "type": "string" }, "how": { "type": "string" } }, "additionalProperties": false }))
    .summary(|arguments| format!("says {arguments}"));
    definition.requires_approval = Some(false);
    definition
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_comes_out_of_no_call() {
    let settings =
        || Settings { audit: Audit { detail: AuditDetail::Full, ..Audit::default() }, ..Settings::default() };
    let files = "[tools.filesystem]\nroots = [{ name = \"studio\", path = \"STUDIO\", write = true }]\n";
    for known in [true, false] {
        let fixture = ExternalTools::with(files, settings());
        fixture.studio.studio.edit_catalog(|catalog| catalog.add(Tool::new(parrot()).unwrap()).unwrap());
        if known {
            fixture.secrets.set("bird", CANARY, vec![], true).unwrap();
        }
        std::fs::write(fixture.path("note.txt"), format!("the word is {CANARY}\n")).unwrap();
        let mut out = String::new();
        for (tool, arguments) in [
            ("parrot", json!({})),
            ("parrot", json!({ "how": "error" })),
            ("parrot", json!({ "how": "panic" })),
            ("parrot", json!({ "say": CANARY })),
            ("parrot", json!({ "say": [CANARY] })),
            ("parrot", json!({ CANARY: 1 })),
            (CANARY, json!({ "say": CANARY })),
            ("filesystem.read", json!({ "path": "note.txt" })),
            ("filesystem.read", json!({ "path": "note.txt", "encoding": "base64" })),
            ("filesystem.search", json!({ "pattern": "word" })),
            ("filesystem.read", json!({ "path": format!("{CANARY}.txt") })),
            ("filesystem.write", json!({ "path": "x", "content": CANARY })),
            ("database.query", json!({ "sql": "SELECT ?1, ?1", "params": [CANARY] })),
            ("database.query", json!({ "sql": format!("SELECT '{}'", CANARY.replace('"', "")) , "database": CANARY })),
            ("web.fetch", json!({ "url": format!("https://x.example/?q={}", spellings(CANARY)[3]) })),
            ("shell.exec", json!({ "argv": [CANARY] })),
        ] {
            let reply = fixture.studio.call(tool, arguments).await;
            match reply.into_outcome() {
                conductor_gateway::pipeline::Outcome::Done(Ok(output)) => {
                    out.push_str(&format!("{} {}\n", output.value, output.text()));
                }
                conductor_gateway::pipeline::Outcome::Done(Err(error)) => {
                    out.push_str(&format!("{} {} {error:?}\n", error.to_wire(), error.to_text()));
                }
                other @ (conductor_gateway::pipeline::Outcome::Cancelled
                | conductor_gateway::pipeline::Outcome::Ask { .. }) => {
                    out.push_str(&format!("{other:?}\n"));
                }
            }
        }
        let written = format!("{:?} {:?}", fixture.studio.journal.written(), fixture.studio.journal.events());
        let mut home = String::new();
        dump(fixture.studio.home.path(), &mut home);
        let found = [leaks(&out), leaks(&written.replace("\\\"", "\"")), leaks(&home)];
        if known {
            assert_eq!(found, [const { Vec::<String>::new() }; 3], "{out}");
            assert!(out.matches("[secret:bird]").count() >= 20, "{out}");
            assert!(written.contains("[secret:bird]"), "the records do not contain the scrubbed arguments");
        } else {
            // Negative control: a value that is not registered as a secret is in the replies, the
            // records and the files of the home.
            assert!(found.iter().all(|it| !it.is_empty()), "{found:?}");
        }
    }
}

/// Every file of the home as text.
fn dump(folder: &std::path::Path, out: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            dump(&path, out);
        } else {
            out.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_with_an_effect_is_not_given_a_secret_in_any_spelling() {
    let fixture =
        ExternalTools::new("[tools.filesystem]\nroots = [{ name = \"studio\", path = \"STUDIO\", write = true }]\n");
    let write = |content: &str| json!({ "path": "x", "content": content });
    let coded = |text: &str| {
        let content = base64::engine::general_purpose::STANDARD.encode(text);
        json!({ "path": "x", "content": content, "encoding": "base64" })
    };
    // Negative control: while the value is not a secret, a person is asked and the file is written.
    fixture.agreed("filesystem.write", write(CANARY)).await.unwrap();
    assert_eq!(std::fs::read_to_string(fixture.path("x")).unwrap(), CANARY);
    std::fs::remove_file(fixture.path("x")).unwrap();
    fixture.secrets.set("bird", CANARY, vec![], true).unwrap();
    let attempts = [
        ("filesystem.write", write(&format!("a {CANARY}"))),
        ("filesystem.write", coded(CANARY)),
        ("filesystem.write", coded(&format!("a {CANARY}"))),
        ("filesystem.write", coded(&format!("ab {CANARY} c"))),
        ("filesystem.write", json!({ "path": CANARY, "content": "" })),
        ("database.execute", json!({ "sql": "CREATE TABLE t AS SELECT ?1 AS a", "params": [CANARY] })),
        ("web.fetch", json!({ "url": "https://x.example/", "headers": { "x": CANARY } })),
        ("web.fetch", json!({ "url": "https://x.example/", "method": "POST", "body": spellings(CANARY)[2] })),
    ];
    for (tool, arguments) in attempts {
        let refused = fixture.call(tool, arguments.clone()).await.unwrap_err();
        assert_eq!(refused.code, Code::Denied, "{tool} {arguments}: the call was not refused, or a person was asked");
        assert!(refused.message.contains("stored secret"), "{refused:?}");
    }
    assert!(!fixture.path("x").exists());
    let asked = fixture
        .studio
        .studio
        .approvals
        .store()
        .read(|pending| pending.iter().filter(|it| it.kind == Kind::Call).count());
    assert_eq!(asked, 1, "a person was asked about more than the negative control");
}

/// MCP clients also receive progress, log messages and resource notifications. None of them may
/// contain the secret.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_comes_out_of_no_notification() {
    for known in [true, false] {
        let fixture = ExternalTools::new("");
        fixture.studio.studio.edit_catalog(|catalog| catalog.add(Tool::new(parrot()).unwrap()).unwrap());
        if known {
            fixture.secrets.set("bird", CANARY, vec![], true).unwrap();
        }
        let uri = format!("patch://{CANARY}");
        let mut client = LineClient::connect(&Shared::new(&fixture.studio.studio));
        client.initialize().await;
        client.request("logging/setLevel", json!({ "level": "debug" })).await;
        client.request("resources/subscribe", json!({ "uri": uri })).await;
        let mut heard: BTreeMap<String, String> = BTreeMap::new();
        for how in ["say", "error", "panic"] {
            fixture.studio.studio.events.uri_changed(&uri);
            let params = json!({ "name": "parrot", "arguments": { "how": how }, "_meta": { "progressToken": how } });
            let id = client.start("tools/call", params).await;
            loop {
                let message = client.next().await;
                let kind = message["method"].as_str().unwrap_or(how).to_owned();
                heard.entry(kind).or_default().push_str(&message.to_string());
                if message["id"] == id {
                    break;
                }
            }
        }
        while !heard.contains_key("notifications/resources/updated") {
            let message = client.next().await;
            heard
                .entry(message["method"].as_str().unwrap_or_default().to_owned())
                .or_default()
                .push_str(&message.to_string());
        }
        for kind in
            ["notifications/progress", "notifications/message", "notifications/resources/updated", "say", "error"]
        {
            assert_eq!(leaks(&heard[kind]).is_empty(), known, "{kind}: {}", heard[kind]);
            assert_eq!(heard[kind].contains("[secret:bird]"), known, "{kind}: {}", heard[kind]);
        }
        assert!(
            leaks(&heard["panic"]).is_empty(),
            "the reply after a panic contains the panic message: {}",
            heard["panic"]
        );
    }
}

/// `a_panic_does_not_tell_it` runs this in a separate process, because a panic hook is global to a
/// process.
#[test]
#[ignore = "panics on purpose; a_panic_does_not_tell_it runs it"]
fn a_panic_in_a_child() {
    let scrubber = Scrubber::new();
    scrubber.learn([("bird", CANARY)]);
    on_panic(&scrubber);
    panic!("with the secret {CANARY} in hand");
}

#[test]
#[ignore = "panics on purpose; a_panic_does_not_tell_it runs it"]
fn a_panic_in_a_child_without_the_hook() {
    panic!("with the secret {CANARY} in hand");
}

#[test]
fn a_panic_does_not_tell_it() {
    let said = |test: &str| {
        let program = std::env::current_exe().unwrap();
        let output = Command::new(program).args(["--exact", test, "--ignored", "--nocapture"]).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let clean = said("canary::a_panic_in_a_child");
    assert!(clean.contains("[secret:bird]") && leaks(&clean).is_empty(), "{clean}");
    let naive = said("canary::a_panic_in_a_child_without_the_hook");
    assert!(!leaks(&naive).is_empty(), "negative control: no secret was found: {naive}");
}
