//! The patch tools on the bridge of Max, with a fake Max under Node at the other end. Nothing here was run in a real Max.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::patch_tools::Desk;
use conductor::hosts::max::MaxHost;
use conductor::hosts::patch::PatchHost;
use conductor::outside::{RandomIds, RealClock};
use conductor_core::error::Code;
use conductor_testkit::real::{Missing, PATIENCE, wait_for};
use conductor_testkit::require;
use serde_json::json;

fn node() -> Result<(), Missing> {
    let missing = |why: String| Missing { part: "node", package: "nodejs", why };
    let output = Command::new("node").arg("--version").output().map_err(|error| missing(error.to_string()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().trim_start_matches('v').to_owned();
    let major = version.split('.').next().and_then(|it| it.parse::<u32>().ok()).unwrap_or(0);
    if major >= 18 { Ok(()) } else { Err(missing(format!("node {version} is too old"))) }
}

fn bridge() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bridges/max")
}

/// A fake Max with the real bridge in it.
struct FakeMax(Child);

impl FakeMax {
    fn start(home: &Path) -> FakeMax {
        let mut command = Command::new("node");
        command.arg(bridge().join("test/run.js")).arg(home);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        FakeMax(command.spawn().expect("node starts"))
    }
}

impl Drop for FakeMax {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_bridge_keeps_its_contract() {
    require!(node());
    let output =
        Command::new("node").arg("--test").arg(bridge().join("test/contract.test.js")).output().expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // The suite counts what it ran; an empty one would succeed too.
    assert!(String::from_utf8_lossy(&output.stdout).contains("a megabyte of text crosses"), "the suite did not run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_is_edited_through_the_bridge_and_refusals_change_nothing() {
    require!(node());
    let desk = Desk::new();
    let home = desk.studio.home.path().to_owned();
    let max = MaxHost::listen(&home, 0, &RandomIds, desk.patches.voice().clone(), Arc::new(RealClock::new()))
        .expect("a port");
    desk.patches.drive(Arc::clone(&max) as Arc<dyn PatchHost>);
    assert_eq!(desk.no("create_patch", json!({ "host": "max" })).await.code, Code::HostOffline);
    let fake = FakeMax::start(&home);
    assert!(wait_for(PATIENCE, || max.is_attached().then_some(())).is_some(), "the bridge did not dial in");

    let made = desk.ok("create_patch", json!({ "host": "max", "path": "m.maxpat", "alias": "m" })).await;
    assert!(made["capabilities"]["edit"].as_str().is_some_and(|it| it.contains("untested in real Max")), "{made}");
    desk.ok(
        "edit_patch",
        json!({ "patch_id": "m", "edits": [
        { "op": "add", "obj_type": "cycle~", "position": [10, 10], "arguments": [440], "varname": "osc" },
        { "op": "add", "obj_type": "*~", "position": [10, 60], "arguments": [0.1], "varname": "gain" },
        { "op": "add", "obj_type": "number", "position": [200, 10], "varname": "num" },
        { "op": "connect", "src_varname": "osc", "outlet": 0, "dst_varname": "gain", "inlet": 0 },
    ] }),
    )
    .await;
    assert_eq!(desk.ok("get_object_value", json!({ "patch_id": "m", "varname": "num" })).await["basis"], "live");
    desk.ok("replace_object_text", json!({ "patch_id": "m", "varname": "osc", "new_text": "cycle~ 880" })).await;
    desk.ok("set_object_attribute", json!({ "patch_id": "m", "varname": "osc", "attribute": "fontsize", "value": 20 }))
        .await;
    desk.ok("encapsulate_objects", json!({ "patch_id": "m", "varnames": ["gain"], "name": "amp", "varname": "amp" }))
        .await;
    desk.ok("undo_patch", json!({ "patch_id": "m", "steps": 4 })).await;
    desk.ok("redo_patch", json!({ "patch_id": "m", "steps": 2 })).await;
    desk.ok("set_patch_lock_state", json!({ "patch_id": "m", "locked": true })).await;
    // A class that the document lets pass and Max does not know: the whole batch is refused.
    let before = desk.ok("get_patch_info", json!({ "patch_id": "m" })).await;
    let batch = json!({ "patch_id": "m", "edits": [
        { "op": "remove", "varname": "osc" },
        { "op": "add", "obj_type": "nosuch", "position": [1, 1], "allow_unknown": true },
    ] });
    desk.allow("edit_patch", batch.clone()).await;
    let error = desk.no("edit_patch", batch).await;
    assert_eq!(error.code, Code::SdkRejected, "{error:?}");
    let after = desk.ok("get_patch_info", json!({ "patch_id": "m" })).await;
    assert_eq!((&before["revision"], &before["object_count"]), (&after["revision"], &after["object_count"]));
    desk.ok("remove_max_object", json!({ "patch_id": "m", "varname": "gain" })).await;
    desk.ok("save_patch", json!({ "patch_id": "m" })).await;
    desk.ok("close_patch", json!({ "patch_id": "m" })).await;
    assert_eq!(desk.no("redraw_object", json!({ "patch_id": "m", "varname": "osc" })).await.code, Code::NotFound);
    // A file that Max opens is the file we know.
    let opened = desk.ok("open_patch", json!({ "path": "m.maxpat", "host": "max", "alias": "again" })).await;
    assert_eq!(opened["object_count"], 2);
    desk.ok(
        "edit_patch",
        json!({ "patch_id": "again", "edits": [{ "op": "move", "varname": "osc", "position": [50, 50] }] }),
    )
    .await;
    drop(fake);
    let error =
        desk.no("edit_patch", json!({ "patch_id": "again", "edits": [{ "op": "remove", "varname": "osc" }] })).await;
    assert_eq!(error.code, Code::HostOffline, "{error:?}");
    assert_eq!(desk.ok("get_patch_info", json!({ "patch_id": "again" })).await["object_count"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_max_is_given_nothing_that_reaches_without_a_yes() {
    require!(node());
    let desk = Desk::new();
    let home = desk.studio.home.path().to_owned();
    let max = MaxHost::listen(&home, 0, &RandomIds, desk.patches.voice().clone(), Arc::new(RealClock::new()))
        .expect("a port");
    desk.patches.drive(Arc::clone(&max) as Arc<dyn PatchHost>);
    let _fake = FakeMax::start(&home);
    assert!(wait_for(PATIENCE, || max.is_attached().then_some(())).is_some(), "the bridge did not dial in");
    desk.ok("create_patch", json!({ "host": "max", "path": "m.maxpat", "alias": "m" })).await;
    let pure = json!([
        { "op": "add", "obj_type": "metro 500", "position": [10, 10], "varname": "m" },
        { "op": "add", "obj_type": "button", "position": [10, 60], "varname": "b" },
        { "op": "add", "obj_type": "message", "arguments": ["set 3"], "position": [10, 90], "varname": "msg" },
        { "op": "connect", "src_varname": "m", "outlet": 0, "dst_varname": "b", "inlet": 0 },
    ]);
    desk.ok("edit_patch", json!({ "patch_id": "m", "edits": pure })).await;
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
        let question = desk.asked(tool, arguments.clone()).await;
        assert!(question.facts.iter().any(|it| it.text.contains("a running Max")), "{question:?}");
        let studio = &desk.studio.studio;
        studio.desk.deny(studio, question.id, "person:1000", conductor_core::policy::Channel::Cli).await.expect("a no");
        desk.studio.time.advance(std::time::Duration::from_secs(60));
    }
    assert_eq!(desk.ok("get_patch_info", json!({ "patch_id": "m" })).await["revision"], 2);
    // After the yes, what drives the box is asked about, and what does not is not.
    let order =
        json!({ "patch_id": "m", "obj_type": "message", "arguments": [";a $1"], "position": [200, 1], "varname": "c" });
    desk.yes("add_max_object", order).await;
    let ends = json!({ "patch_id": "m", "src_varname": "msg", "outlet": 0, "dst_varname": "c", "inlet": 0 });
    desk.yes("connect_max_objects", ends).await;
    desk.asked("replace_object_text", json!({ "patch_id": "m", "varname": "msg", "new_text": "write x.txt" })).await;
    desk.ok("replace_object_text", json!({ "patch_id": "m", "varname": "m", "new_text": "metro 100" })).await;
    // A file that Max would take for one of its own objects.
    desk.ok("create_patch", json!({ "path": "metro.maxpat", "alias": "fake" })).await;
    desk.ok("save_patch", json!({ "patch_id": "fake" })).await;
    desk.asked(
        "edit_patch",
        json!({ "patch_id": "m", "edits": [{ "op": "add", "obj_type": "button", "position": [1, 1] }] }),
    )
    .await;
}
