//! A hostile model runs scripts. A script must not reach anything that the model cannot reach by
//! direct calls, must not stop the daemon, and must not forge a journal.

use crate::rig::{Rig, settle};
use serde_json::{Value, json};

/// A script that replaces the frame in which its process requests a call.
fn forged(frame: &str) -> String {
    format!(
        "Object.prototype.toJSON = function () {{ return this && this.ask ? {frame} : this }};\n\
         const made = studio.daemon.get_status({{}});\n\
         delete Object.prototype.toJSON;\n\
         try {{ return await made }} catch (e) {{ return String(e.code) + ' ' + e.message }}"
    )
}

#[test]
fn scripts_reach_nothing_that_direct_calls_do_not_reach() {
    let rig = Rig::start("");
    let mut model = rig.model();
    let (mark, secret, outside) = (rig.mark(), rig.secret(), rig.outside.path().join("new.txt").display().to_string());
    let ask =
        |what: &str, with: Value| forged(&format!("{{ ask: {{ id: this.ask.id, what: '{what}', with: {with} }} }}"));
    let tool = |tool: &str, arguments: Value| ask("call", json!({ "tool": tool, "arguments": arguments }));
    let mut scripts = vec![
        // Requests that only plugins may make.
        ask("fetch", json!({ "url": format!("http://127.0.0.1:{}/", rig.trap.tcp), "method": "GET", "headers": [] })),
        ask("files.write", json!({ "path": outside, "content": "eA==" })),
        ask("secret", json!({ "name": "x" })),
        // Hidden tools, nested scripts and tools that need a person.
        tool("plan.apply", json!({ "plan_id": rig.plan, "channel": "cli" })),
        tool("plan_apply", json!({ "plan_id": rig.plan, "channel": "cli" })),
        tool("plan.reject", json!({ "plan_id": rig.plan, "channel": "cli" })),
        tool("plugin.set", json!({ "name": "evil", "row": {} })),
        tool("desktop.launch", json!({ "app": mark })),
        tool("conductor_run_script", json!({ "code": "return 1" })),
        tool("conductor_call_tool", json!({ "tool": "plan.apply", "arguments": { "plan_id": rig.plan } })),
        tool("shell.exec", json!({ "argv": [mark] })),
        tool("filesystem.read", json!({ "root": "private", "path": "diary.txt" })),
        tool("filesystem.read", json!({ "path": secret })),
        tool("filesystem.write", json!({ "path": outside, "content": "x" })),
        tool("web.fetch", json!({ "url": format!("http://127.0.0.1:{}/", rig.trap.tcp) })),
        tool("conductor_send_sysex", json!({ "port": "synth", "data": [125, 2] })),
        tool("", json!(null)),
        ask("", json!(null)),
        forged("{ done: { ok: 'early' } }"),
        forged("{ threw: { message: 'x', code: 'APPROVAL_REQUIRED' } }"),
        forged("{ ask: 1 }"),
        forged("'not an object'"),
    ];
    // Attacks on the JavaScript engine: code from text, modules, globals, prototypes.
    scripts.extend(
        [
            "return eval('1')",
            "return Function('return 1')()",
            "return (async () => {}).constructor('return 1')()",
            "return await import('fs/promises')",
            "return await import('data:text/javascript,export default 1')",
            "return typeof require + typeof process + typeof fetch + typeof files + typeof secrets + typeof WebAssembly",
            "}); globalThis.escaped = 1; (async () => { return 1",
            "Promise.prototype.then = function () { throw 1 }; return await studio.daemon.get_status({})",
            "Object.defineProperty(Object.prototype, 'tool', { get() { return 'shell.exec' } }); return await studio.daemon.get_status({})",
            "return await studio.daemon.get_status({ get tool() { throw new Error('getter') } })",
            "const loop = {}; loop.self = loop; return await studio.daemon.get_status(loop)",
            "studio.daemon.get_status = () => 1; return 1",
            "return await studio.daemon.get_status(10n)",
            "return await studio.__proto__.constructor.constructor('return 1')()",
        ]
        .map(str::to_owned),
    );
    for script in &scripts {
        let answer = model.call("conductor_run_script", json!({ "code": script }));
        let shown = answer.to_string();
        assert!(!shown.contains("crown jewels") && !shown.contains("dear diary"), "{script}\n{shown}");
        assert!(!shown.contains("\"escaped\""), "{shown}");
    }
    settle(&rig);
    drop(model);
    rig.assert_unharmed();
}

#[test]
fn scripts_that_loop_flood_or_grow_end_and_the_daemon_serves_on() {
    let rig = Rig::start("");
    let mut model = rig.model();
    let codes = [
        ("for (;;) {}", "TIMEOUT"),
        ("for (;;) await 0", "TIMEOUT"),
        ("const f = () => Promise.resolve().then(f); f(); await new Promise(() => {})", "UNSUPPORTED TIMEOUT"),
        ("const a = []; for (;;) a.push(new Array(100000).fill(1))", "UNSUPPORTED"),
        ("let s = 'x'; for (;;) s += s", ""),
        ("const f = () => f() + 1; return f()", "BAD_INPUT"),
        ("await new Promise(() => {})", "BAD_INPUT"),
        ("return await studio.daemon.get_trace({ limit: 'x'.repeat(20_000_000) })", ""),
        ("await Promise.all(Array.from({ length: 100000 }, () => studio.daemon.get_status({})))", "UNSUPPORTED"),
        ("for (let n = 0; n < 100000; n++) console.log('x'.repeat(1000)); return 1", ""),
    ];
    for (code, wanted) in codes {
        let answer = model.call("conductor_run_script", json!({ "code": code }));
        assert!(answer["code"].is_string() || answer["result"] == 1, "{code}: {answer}");
        if !wanted.is_empty() && answer["code"] != "CIRCUIT_OPEN" {
            let found = answer["code"].as_str().unwrap_or_default();
            assert!(wanted.split(' ').any(|it| it == found), "{code}: {answer}");
        }
        rig.assert_alive();
    }
    // A direct call by the same caller still works.
    assert!(model.call("conductor_get_status", json!({}))["daemon_running"].is_boolean());
    drop(model);
    rig.assert_unharmed();
}

#[test]
fn a_forged_journal_is_not_replayed() {
    let rig = Rig::start("");
    let mut model = rig.model();
    let code = "await studio.daemon.switch_mode({ mode: 'Default' }); await studio.daemon.send_sysex({ port: 'synth', data: [125, 9] }); return 1";
    let asked = model.call("conductor_run_script", json!({ "code": code }));
    assert_eq!(asked["code"], "APPROVAL_REQUIRED", "{asked}");
    let folder = rig.studio.home().join("state/scripts");
    let path = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&path).unwrap();
    // A forged journal claims that the call that needs a person was made.
    let last = text.lines().last().unwrap();
    let done = "{\"outcome\":{\"index\":1,\"tool\":\"conductor_send_sysex\",\"args\":\"sha256:0\",\"answer\":{\"ok\":{}},\"changed\":\"something\"}}";
    for forged in [
        text.replace("\"withdrawn\"", "\"outcome\""),
        format!("{text}{} {done}\n", &last[..71]),
        text.lines().take(1).map(|it| format!("{it}\n")).collect(),
        String::new(),
    ] {
        std::fs::write(&path, forged).unwrap();
        let answer = model.call("conductor_run_script", json!({ "code": code }));
        assert_eq!(
            (answer["code"].as_str(), answer["effect"].as_str()),
            (Some("PLAN_STALE"), Some("unknown")),
            "{answer}"
        );
    }
    std::fs::write(&path, &text).unwrap();
    let again = model.call("conductor_run_script", json!({ "code": code }));
    assert_eq!(again["short"], asked["short"], "the daemon did not continue its own journal");
    drop(model);
    rig.assert_unharmed();
}
