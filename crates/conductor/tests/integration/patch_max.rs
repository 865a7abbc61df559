//! The patch tools on the Max bridge, with a fake Max that runs in Node. Nothing here was tested
//! with a real Max.

use std::path::Path;
use std::sync::Arc;

use super::patch_tools::PatchTools;
use conductor_core::error::Code;
use conductor_hosts::max::MaxHost;
use conductor_hosts::patch::PatchHost;
use conductor_hosts::system::{RandomIds, RealClock};
use conductor_testkit::real::program::{Program, native};
use conductor_testkit::real::{Missing, PATIENCE, wait_for};
use conductor_testkit::require;
use serde_json::{Value, json};

pub fn node() -> Result<(), Missing> {
    let missing = |why: String| Missing { part: "node", package: "nodejs", why };
    let mut program = Program::start("node", &["--version"]).map_err(|error| missing(error.to_string()))?;
    let version = program.line().unwrap_or_default().trim().trim_start_matches('v').to_owned();
    let major = version.split('.').next().and_then(|it| it.parse::<u32>().ok()).unwrap_or(0);
    if major >= 18 { Ok(()) } else { Err(missing(format!("node {version} is too old"))) }
}

fn bridge() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bridges/max")
}

/// A fake Max with the real bridge. Tests query its content directly, because Conductor's document
/// of the patch could be wrong.
pub struct FakeMax {
    program: Program,
}

impl FakeMax {
    pub fn start(home: &Path) -> FakeMax {
        let run = native(&bridge().join("test/run.js"));
        FakeMax { program: Program::start("node", &[&run, &native(home)]).expect("node starts") }
    }

    /// Starts the fake Max and waits until the bridge has connected.
    fn attach(tools: &PatchTools, max: &MaxHost) -> FakeMax {
        let fake = FakeMax::start(tools.studio.home.path());
        assert!(wait_for(PATIENCE, || max.is_attached().then_some(())).is_some(), "the bridge did not connect");
        fake
    }

    /// The value of an expression about `world`.
    fn look(&mut self, expression: &str) -> Value {
        self.program.send(expression).expect("it reads");
        let line = self.program.line().unwrap_or_default();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{expression}: {line}"))
    }

    /// The content of a patcher: text or class of each box with its name, and its cords.
    fn picture(&mut self, patcher: usize) -> Value {
        self.look(&format!("world.picture(world.patchers[{patcher}])"))
    }

    fn names(&mut self, patcher: usize) -> Vec<(String, String)> {
        let picture = self.picture(patcher);
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let boxes = picture["boxes"].as_array().cloned().unwrap_or_default();
        let mut named: Vec<_> = boxes.iter().map(|it| (text(&it["name"]), text(&it["text"]))).collect();
        named.sort();
        named
    }

    fn attribute(&mut self, patcher: usize, name: &str, attribute: &str) -> Value {
        let found =
            format!("world.patchers[{patcher}].boxes.find((it) => it.varname === '{name}').attributes.{attribute}");
        self.look(&found)
    }
}

/// Tests the bridge alone, without Conductor.
#[cfg(unix)]
#[test]
fn the_bridge_keeps_its_contract() {
    require!(node());
    let output = std::process::Command::new("node")
        .arg("--test")
        .arg(bridge().join("test/contract.test.js"))
        .output()
        .expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // Check that the suite ran: an empty one would succeed too.
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("a megabyte of text is transferred"),
        "the suite did not run"
    );
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut named: Vec<_> = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    named.sort();
    named
}

/// The patch tools, with a host that waits for a connection from Max.
fn listening() -> (PatchTools, Arc<MaxHost>) {
    let tools = PatchTools::new();
    let (home, voice) = (tools.studio.home.path(), tools.patches.voice().clone());
    let max = MaxHost::listen(home, 0, &RandomIds, voice, Arc::new(RealClock::new())).expect("a port");
    tools.patches.drive(Arc::clone(&max) as Arc<dyn PatchHost>);
    (tools, max)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_is_edited_through_the_bridge_and_refusals_change_nothing() {
    require!(node());
    let (tools, max) = listening();
    assert_eq!(tools.no("create_patch", json!({ "host": "max" })).await.code, Code::HostOffline);
    let mut fake = FakeMax::attach(&tools, &max);

    let made = tools.ok("create_patch", json!({ "host": "max", "path": "m.maxpat", "alias": "m" })).await;
    assert!(made["capabilities"]["edit"].as_str().is_some_and(|it| it.contains("untested in real Max")), "{made}");
    tools
        .ok(
            "edit_patch",
            json!({ "patch_id": "m", "edits": [
        { "op": "add", "obj_type": "cycle~", "position": [10, 10], "arguments": [440], "varname": "osc" },
        { "op": "add", "obj_type": "*~", "position": [10, 60], "arguments": [0.1], "varname": "gain" },
        { "op": "add", "obj_type": "number", "position": [200, 10], "varname": "num" },
        { "op": "connect", "src_varname": "osc", "outlet": 0, "dst_varname": "gain", "inlet": 0 },
    ] }),
        )
        .await;
    assert_eq!(fake.names(0), named(&[("osc", "cycle~ 440"), ("gain", "*~ 0.1"), ("num", "")]));
    assert_eq!(fake.picture(0)["cords"], json!([[0, 0, 1, 0]]));
    fake.look("world.patchers[0].boxes[2].value = 7");
    let value = tools.ok("get_object_value", json!({ "patch_id": "m", "varname": "num" })).await;
    assert_eq!((&value["value"], &value["basis"]), (&json!(7), &json!("live")));
    tools.ok("replace_object_text", json!({ "patch_id": "m", "varname": "osc", "new_text": "cycle~ 880" })).await;
    assert_eq!(fake.names(0), named(&[("osc", "cycle~ 880"), ("gain", "*~ 0.1"), ("num", "")]));
    // A new attribute, its undo and its redo are all sent to Max.
    let size = json!({ "patch_id": "m", "varname": "osc", "attribute": "fontsize", "value": 20 });
    tools.ok("set_object_attribute", size).await;
    assert_eq!(fake.attribute(0, "osc", "fontsize"), 20);
    tools.ok("undo_patch", json!({ "patch_id": "m" })).await;
    assert_eq!(fake.attribute(0, "osc", "fontsize"), 12, "undo did not restore the value that Max had");
    tools.ok("redo_patch", json!({ "patch_id": "m" })).await;
    assert_eq!(fake.attribute(0, "osc", "fontsize"), 20);
    tools
        .ok("encapsulate_objects", json!({ "patch_id": "m", "varnames": ["gain"], "name": "amp", "varname": "amp" }))
        .await;
    let inside =
        fake.look("world.patchers[0].boxes.find((it) => it.varname === 'amp').inside.boxes.map((it) => it.text)");
    assert!(inside.as_array().is_some_and(|it| it.contains(&json!("*~ 0.1"))), "{inside}");
    tools.ok("undo_patch", json!({ "patch_id": "m", "steps": 3 })).await;
    assert_eq!(fake.names(0), named(&[("osc", "cycle~ 440"), ("gain", "*~ 0.1"), ("num", "")]));
    assert_eq!(fake.attribute(0, "osc", "fontsize"), 12);
    tools.ok("redo_patch", json!({ "patch_id": "m", "steps": 2 })).await;
    assert_eq!(fake.attribute(0, "osc", "fontsize"), 20);
    // Unsupported operations are refused, alone and inside a batch, and nothing changes.
    let cord = json!({ "patch_id": "m", "src_varname": "osc", "outlet": 0, "dst_varname": "gain", "inlet": 0 });
    let mut folded = cord.clone();
    folded["midpoints"] = json!([{ "x": 20, "y": 30 }, { "x": 40, "y": 50 }]);
    let before = tools.ok("get_patch_info", json!({ "patch_id": "m" })).await;
    let shown = fake.picture(0);
    let error = tools.no("set_patchline_midpoints", folded).await;
    assert_eq!(error.code, Code::Unsupported, "{error:?}");
    // The document accepts this class, but Max does not have it. So the whole batch is refused.
    let batch = json!({ "patch_id": "m", "edits": [
        { "op": "remove", "varname": "osc" },
        { "op": "add", "obj_type": "nosuch", "position": [1, 1], "allow_unknown": true },
    ] });
    tools.allow("edit_patch", batch.clone()).await;
    let error = tools.no("edit_patch", batch).await;
    assert_eq!(error.code, Code::SdkRejected, "{error:?}");
    let after = tools.ok("get_patch_info", json!({ "patch_id": "m" })).await;
    assert_eq!((&before["revision"], &before["object_count"]), (&after["revision"], &after["object_count"]));
    let same = |it: &Value| {
        let mut texts: Vec<String> =
            it["boxes"].as_array().into_iter().flatten().map(|it| it["text"].to_string()).collect();
        texts.sort();
        (texts, it["cords"].as_array().map(Vec::len))
    };
    assert_eq!(same(&fake.picture(0)).0, same(&shown).0);
    tools.ok("remove_max_object", json!({ "patch_id": "m", "varname": "gain" })).await;
    assert_eq!(fake.names(0), named(&[("osc", "cycle~ 880"), ("num", "")]));
    assert_eq!(fake.picture(0)["cords"], json!([]));
    tools.ok("save_patch", json!({ "patch_id": "m" })).await;
    tools.ok("close_patch", json!({ "patch_id": "m" })).await;
    assert_eq!(tools.no("redraw_object", json!({ "patch_id": "m", "varname": "osc" })).await.code, Code::NotFound);
    // Max opens the same file that the document has.
    let opened = tools.ok("open_patch", json!({ "path": "m.maxpat", "host": "max", "alias": "again" })).await;
    assert_eq!(opened["object_count"], 2);
    tools
        .ok(
            "edit_patch",
            json!({ "patch_id": "again", "edits": [{ "op": "move", "varname": "osc", "position": [50, 50] }] }),
        )
        .await;
    let moved = fake.look("world.patchers[1].boxes.find((it) => it.varname === 'osc').rect.slice(0, 2)");
    assert_eq!(moved, json!([50, 50]));
    drop(fake);
    let error =
        tools.no("edit_patch", json!({ "patch_id": "again", "edits": [{ "op": "remove", "varname": "osc" }] })).await;
    assert_eq!(error.code, Code::HostOffline, "{error:?}");
    assert_eq!(tools.ok("get_patch_info", json!({ "patch_id": "again" })).await["object_count"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_max_is_given_nothing_that_reaches_without_a_yes() {
    require!(node());
    let (tools, max) = listening();
    let _fake = FakeMax::attach(&tools, &max);
    tools.ok("create_patch", json!({ "host": "max", "path": "m.maxpat", "alias": "m" })).await;
    let pure = json!([
        { "op": "add", "obj_type": "metro 500", "position": [10, 10], "varname": "m" },
        { "op": "add", "obj_type": "button", "position": [10, 60], "varname": "b" },
        { "op": "add", "obj_type": "message", "arguments": ["set 3"], "position": [10, 90], "varname": "msg" },
        { "op": "connect", "src_varname": "m", "outlet": 0, "dst_varname": "b", "inlet": 0 },
    ]);
    tools.ok("edit_patch", json!({ "patch_id": "m", "edits": pure })).await;
    let mut ways: Vec<(&str, serde_json::Value)> = [
        "js a.js",
        "node.script a.js",
        "shell",
        "coll x",
        "jit.matrix",
        "vst~",
        "buffer~ x",
        "maxurl",
        "thispatcher",
        "send a",
        "poly~ v",
    ]
    .iter()
    .map(|it| ("add_max_object", json!({ "patch_id": "m", "obj_type": it, "position": [1, 1], "allow_unknown": true })))
    .collect();
    ways.extend([
        ("replace_object_text", json!({ "patch_id": "m", "varname": "msg", "new_text": ";max quit" })),
        ("replace_object_text", json!({ "patch_id": "m", "varname": "m", "new_text": "shell", "allow_unknown": true })),
        (
            "set_object_attribute",
            json!({ "patch_id": "m", "varname": "b", "attribute": "jspainterfile", "value": "a.js", "allow_unknown": true }),
        ),
    ]);
    for (tool, arguments) in ways {
        let question = tools.asked(tool, arguments.clone()).await;
        assert!(question.facts.iter().any(|it| it.text.contains("a running Max")), "{question:?}");
        let limits = question
            .facts
            .iter()
            .find(|it| it.label == "limits")
            .expect("the question does not state the limits of the program");
        assert!(limits.text.contains("there is no sandbox"), "{limits:?}");
        let studio = &tools.studio.studio;
        studio
            .approvals
            .deny(studio, question.id, "person:1000", conductor_core::policy::Channel::Cli)
            .await
            .expect("a no");
        tools.studio.time.advance(std::time::Duration::from_secs(60));
    }
    assert_eq!(tools.ok("get_patch_info", json!({ "patch_id": "m" })).await["revision"], 2);
    // After the approval of a box that sends to a receiver, edits that can send messages to this
    // box need approval, and other edits do not.
    let order =
        json!({ "patch_id": "m", "obj_type": "message", "arguments": [";a $1"], "position": [200, 1], "varname": "c" });
    tools.yes("add_max_object", order).await;
    let ends = json!({ "patch_id": "m", "src_varname": "msg", "outlet": 0, "dst_varname": "c", "inlet": 0 });
    tools.yes("connect_max_objects", ends).await;
    tools.asked("replace_object_text", json!({ "patch_id": "m", "varname": "msg", "new_text": "write x.txt" })).await;
    tools.ok("replace_object_text", json!({ "patch_id": "m", "varname": "m", "new_text": "metro 100" })).await;
    // A patch file with the name of a built-in Max object can replace this object, so edits of `m`
    // need approval.
    tools.ok("create_patch", json!({ "path": "metro.maxpat", "alias": "fake" })).await;
    tools.ok("save_patch", json!({ "patch_id": "fake" })).await;
    tools
        .asked(
            "edit_patch",
            json!({ "patch_id": "m", "edits": [{ "op": "add", "obj_type": "button", "position": [1, 1] }] }),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_state_windows_and_the_front_are_what_max_says() {
    require!(node());
    let (tools, max) = listening();
    let mut fake = FakeMax::attach(&tools, &max);
    tools.ok("create_patch", json!({ "host": "max", "path": "a.maxpat", "alias": "a" })).await;
    tools.ok("create_patch", json!({ "host": "max", "path": "b.maxpat", "alias": "b" })).await;
    let state = || tools.ok("get_patch_lock_state", json!({ "patch_id": "a" }));
    let told = state().await;
    assert_eq!((&told["locked"], &told["state_verified"]), (&json!(false), &json!(true)));
    tools.ok("set_patch_lock_state", json!({ "patch_id": "a", "locked": true })).await;
    assert_eq!(fake.look("world.patchers[0].locked"), 1);
    // The person unlocks the patch in Max.
    fake.look("world.patchers[0].locked = 0");
    let told = state().await;
    assert_eq!((&told["locked"], &told["state_verified"]), (&json!(false), &json!(true)));
    // The front window is reported by Max, independent of the patch that was used last here.
    let front = || tools.ok("get_frontmost_patch", json!({}));
    let told = front().await;
    assert_eq!((&told["patch_id"], &told["basis"]), (&json!("b"), &json!("host_window")));
    fake.look("world.windows.reverse().length");
    let told = front().await;
    assert_eq!((&told["patch_id"], &told["basis"]), (&json!("a"), &json!("host_window")));
    // A patch that the person opened is listed separately, and is named when it is in front.
    fake.look("world.make('/music/mine.maxpat').name");
    let listed = tools.ok("list_active_patches", json!({})).await;
    let own = json!([{ "host": "max", "patcher_name": "mine.maxpat", "file_path": "/music/mine.maxpat" }]);
    assert_eq!((&listed["count"], &listed["host_windows"]), (&json!(2), &own));
    let told = front().await;
    assert_eq!((&told["basis"], &told["host_front"]), (&json!("last_used"), &json!("/music/mine.maxpat")));
    // Max has ended: no state is reported as verified, and no call waits.
    drop(fake);
    assert_eq!(front().await["basis"], "last_used");
    assert_eq!(tools.no("get_patch_lock_state", json!({ "patch_id": "a" })).await.code, Code::HostOffline);
}
