//! The patch tools on a running Pure Data: the same calls give the same results as on documents,
//! and forbidden text never reaches Pd.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::patch_tools::{CORPUS, NAMES, PD_CANNOT, PatchTools, gaps, places, story};
use conductor_core::error::Code;
use conductor_hosts::patch::console::{Level, Question, Source};
use conductor_hosts::patch::{HostKind, PatchHost};
use conductor_hosts::pd::attach::{self, AttachedPd};
use conductor_hosts::pd::fudi::meant;
use conductor_hosts::pd::{PdHost, Settings};
use conductor_hosts::system::{RandomIds, RealClock};
use conductor_patch::{Document, View};
use conductor_testkit::mcp_process::resident_peak;
use conductor_testkit::real::{PATIENCE, pd, wait_for};
use conductor_testkit::require;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

pub struct PdStage {
    pub tools: PatchTools,
    pub pd: Arc<PdHost>,
}

impl PdStage {
    pub fn new() -> Self {
        Self::on(PatchTools::new())
    }

    pub fn on(tools: PatchTools) -> Self {
        let clock = Arc::new(RealClock::new());
        let pd = PdHost::new(tools.studio.home.path(), Settings::default(), tools.patches.voice().clone(), clock)
            .expect("a folder");
        pd.notify(&tools.patches);
        tools.patches.drive(Arc::clone(&pd) as Arc<dyn PatchHost>);
        PdStage { tools, pd }
    }

    pub async fn create(&self) -> String {
        let made = self.tools.ok("create_patch", json!({ "host": "pd", "format": "pd" })).await;
        made["patch_id"].as_str().expect("an id").to_owned()
    }

    pub async fn edit(&self, id: &str, edits: Value) -> Value {
        self.tools.ok("edit_patch", json!({ "patch_id": id, "edits": edits })).await
    }

    /// Checks that the patch saved by Pd equals the document, and that no change had to be adopted
    /// from Pd.
    async fn same(&self, id: &str) {
        let root = id.split('/').next().expect("a root");
        let revision = self.tools.ok("get_patch_info", json!({ "patch_id": root })).await["revision"].clone();
        let written = self.pd.written(root).expect("Pd did not write the patch");
        let ours = self.tools.patches.look(root, |scene| Ok(picture(&scene.patch.document().root()))).expect("open");
        assert_eq!(picture(&written.root()), ours);
        self.tools.patches.reconcile(root).expect("Pd answers");
        let after = self.tools.ok("get_patch_info", json!({ "patch_id": root })).await["revision"].clone();
        assert_eq!(revision, after, "the document differs from the patch in Pd");
    }

    fn errors(&self) -> Vec<String> {
        let question =
            Question { principal: "test", patch_id: None, after: None, level: Some(Level::Error), lines: 100 };
        self.tools.patches.console(&question, false).0.into_iter().map(|it| it.text).collect()
    }
}

/// Boxes and cords without Pd's numbers: Pd moves a box whose text changed to the end.
fn picture(view: &View<'_>) -> Value {
    let name = |it: &conductor_patch::BoxView<'_>| {
        // A symbol that contains a comma can be written in more than one way.
        let words: Vec<String> = it.pd_atoms().iter().map(|it| meant(it)).collect();
        format!("{} {} {words:?} {:?}", it.rect().x, it.rect().y, it.pd_columns())
    };
    let mut boxes: Vec<(String, Value)> =
        view.boxes().map(|it| (name(&it), it.inside().map_or(Value::Null, |inside| picture(&inside)))).collect();
    boxes.sort_by_key(|it| it.0.clone());
    let mut outlets: BTreeMap<(String, u32), Vec<(String, u32)>> = BTreeMap::new();
    for cord in view.cords() {
        if let (Some(from), Some(to)) = (cord.from(), cord.to()) {
            outlets.entry((name(&from), cord.outlet())).or_default().push((name(&to), cord.inlet()));
        }
    }
    json!({ "boxes": boxes, "cords": outlets.into_iter().collect::<Vec<_>>() })
}

/// The results of the calls, without the values that may differ, such as the host, the id and the
/// path of the home.
fn plain(told: &[(String, Value)], home: &str) -> Vec<(String, Value)> {
    let id = told.iter().find_map(|(_, it)| it["patch_id"].as_str()).unwrap_or_default().to_owned();
    told.iter()
        .map(|(tool, value)| {
            let text = value.to_string().replace(home, "HOME").replace(&id, "ID");
            let mut value: Value = serde_json::from_str(&text).expect("JSON");
            for key in ["host", "capabilities", "basis", "effect", "entries", "logs", "next", "count", "state_verified"]
            {
                value.as_object_mut().map(|it| it.remove(key));
            }
            if let Some(patches) = value["patches"].as_array_mut() {
                patches.iter_mut().for_each(|it| drop(it.as_object_mut().map(|it| it.remove("host"))));
            }
            (tool.clone(), value)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_set_on_a_running_pd_answers_as_on_a_document() {
    require!(pd::probe());
    let document = PatchTools::new();
    story(&document, "pd", "document").await;
    let stage = PdStage::new();
    story(&stage.tools, "pd", "pd").await;
    assert_eq!(gaps(&stage.tools.told.lock().expect("whole"), &PD_CANNOT), Vec::<String>::new());
    let told =
        |tools: &PatchTools| plain(&tools.told.lock().expect("whole"), &tools.studio.home.path().display().to_string());
    let (on_file, on_pd) = (told(&document), told(&stage.tools));
    assert_eq!(on_file.len(), on_pd.len());
    for (a, b) in on_file.iter().zip(&on_pd) {
        // Values may differ: each host can read some values that the other cannot read. The other
        // host must then refuse the call.
        if a.0 == "get_object_value" && a != b {
            let refuses =
                |it: &Value| it["code"] == "UNSUPPORTED" && it["message"].as_str().is_some_and(|it| !it.is_empty());
            assert!(refuses(&a.1) || refuses(&b.1), "{a:?} {b:?}");
        } else {
            assert_eq!(a, b);
        }
    }
    assert!(stage.pd.pid().is_none(), "an idle Pd is still running");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_the_recipe() {
    require!(pd::probe());
    let stage = PdStage::new();
    let id = stage.create().await;
    // Remove one of two equal boxes by its key. The right box must be removed.
    stage
        .edit(
            &id,
            json!([
                { "op": "add", "obj_type": "osc~ 440", "position": [50, 50], "varname": "a" },
                { "op": "add", "obj_type": "osc~ 440", "position": [50, 50], "varname": "b" },
                { "op": "add", "obj_type": "*~ 0.1", "position": [50, 100], "varname": "gain" },
                { "op": "add", "obj_type": "dac~", "position": [50, 150], "varname": "out" },
                { "op": "connect", "src_varname": "b", "outlet": 0, "dst_varname": "gain", "inlet": 0 },
                { "op": "connect", "src_varname": "b", "outlet": 0, "dst_varname": "out", "inlet": 0 },
                { "op": "connect", "src_varname": "gain", "outlet": 0, "dst_varname": "out", "inlet": 1 },
            ]),
        )
        .await;
    stage.same(&id).await;
    stage.tools.ok("remove_max_object", json!({ "patch_id": id, "varname": "a" })).await;
    stage.same(&id).await;
    assert_eq!(stage.tools.ok("get_patchlines", json!({ "patch_id": id })).await["count"], 3);
    // Replace a box and keep its cords in order; then replace it with fewer outlets.
    let replaced = stage
        .tools
        .ok("replace_object_text", json!({ "patch_id": id, "varname": "gain", "new_text": "*~ 0.25" }))
        .await;
    assert_eq!(replaced["reconnected"], 2);
    stage.same(&id).await;
    let replaced =
        stage.tools.ok("replace_object_text", json!({ "patch_id": id, "varname": "gain", "new_text": "print~" })).await;
    assert_eq!((&replaced["reconnected"], replaced["dropped"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    stage.same(&id).await;
    for _ in 0..3 {
        stage.tools.ok("undo_patch", json!({ "patch_id": id })).await;
        stage.same(&id).await;
    }
    stage.tools.ok("redo_patch", json!({ "patch_id": id, "steps": 3 })).await;
    stage.same(&id).await;
    stage.tools.ok("undo_patch", json!({ "patch_id": id, "steps": 2 })).await;
    // Move boxes to near and far positions, and set a width.
    stage.edit(&id, json!([{ "op": "move", "varname": "gain", "position": [83, 41] }, { "op": "move", "varname": "out", "position": [9000, 20] }])).await;
    stage.same(&id).await;
    stage.edit(&id, json!([{ "op": "set_attribute", "varname": "b", "attribute": "width", "value": 20 }])).await;
    stage.same(&id).await;
    stage.tools.ok("undo_patch", json!({ "patch_id": id })).await;
    stage.same(&id).await;
    // Add user interface objects, numbers, messages and comments.
    let made = stage.tools.yes("edit_patch", json!({ "patch_id": id, "edits": [
        { "op": "add", "obj_type": "hsl", "position": [300, 10], "varname": "fader" },
        { "op": "add", "obj_type": "number", "position": [300, 40], "varname": "num" },
        { "op": "add", "obj_type": "message", "position": [300, 70], "arguments": ["set $1, bang; foo 3"], "varname": "msg" },
        { "op": "add", "obj_type": "comment", "position": [300, 100], "arguments": ["hello, world; here"], "varname": "note" },
        { "op": "connect", "src_varname": "fader", "outlet": 0, "dst_varname": "num", "inlet": 0 },
    ] })).await;
    assert_eq!(made["warnings"], json!([]));
    stage.same(&id).await;
    stage
        .tools
        .ok("set_object_attribute", json!({ "patch_id": id, "varname": "fader", "attribute": "maximum", "value": 1 }))
        .await;
    stage.same(&id).await;
    stage.tools.ok("replace_object_text", json!({ "patch_id": id, "varname": "msg", "new_text": "1 2\\, 3" })).await;
    stage.same(&id).await;
    let value = stage.tools.ok("get_object_value", json!({ "patch_id": id, "varname": "num" })).await;
    assert_eq!((&value["value"], &value["basis"]), (&json!(0), &json!("live")));
    let io = stage.tools.ok("get_object_io_info", json!({ "patch_id": id, "varname": "out" })).await;
    assert_eq!((&io["inlet_count"], &io["outlet_count"], &io["basis"]), (&json!(2), &json!(0), &json!("host")));
    // Create and fill subpatches. Address each by its own canvas, although two have the same name.
    // Add inlets that shift the cords outside.
    stage
        .edit(
            &id,
            json!([
                { "op": "add", "obj_type": "pd sub", "position": [50, 300], "varname": "one" },
                { "op": "add", "obj_type": "pd sub", "position": [150, 300], "varname": "two" },
            ]),
        )
        .await;
    let two = format!("{id}/two");
    stage
        .edit(
            &two,
            json!([
                { "op": "add", "obj_type": "inlet", "position": [100, 10], "varname": "right" },
                { "op": "add", "obj_type": "outlet", "position": [100, 90], "varname": "out" },
                { "op": "connect", "src_varname": "right", "outlet": 0, "dst_varname": "out", "inlet": 0 },
            ]),
        )
        .await;
    stage
        .tools
        .ok(
            "connect_max_objects",
            json!({ "patch_id": id, "src_varname": "num", "outlet": 0, "dst_varname": "two", "inlet": 0 }),
        )
        .await;
    stage.same(&id).await;
    stage.edit(&two, json!([{ "op": "add", "obj_type": "inlet", "position": [10, 10], "varname": "left" }])).await;
    stage.same(&id).await;
    let cords = stage.tools.ok("get_patchlines", json!({ "patch_id": id })).await;
    assert!(
        cords["patchlines"].as_array().expect("cords").iter().any(|it| it["inlet"] == 1 && it["dst_varname"] == "two"),
        "{cords}"
    );
    stage.edit(&two, json!([{ "op": "move", "varname": "left", "position": [200, 10] }])).await;
    stage.same(&id).await;
    stage.edit(&two, json!([{ "op": "set_text", "varname": "right", "new_text": "inlet~" }])).await;
    stage.same(&id).await;
    stage.tools.ok("replace_object_text", json!({ "patch_id": id, "varname": "two", "new_text": "pd other" })).await;
    stage.same(&id).await;
    stage.tools.ok("encapsulate_objects", json!({ "patch_id": id, "varnames": ["num", "msg"], "name": "boxed" })).await;
    stage.same(&id).await;
    stage.tools.ok("remove_max_object", json!({ "patch_id": id, "varname": "two" })).await;
    stage.same(&id).await;
    stage.tools.ok("undo_patch", json!({ "patch_id": id, "steps": 200 })).await;
    stage.same(&id).await;
    stage.tools.ok("redo_patch", json!({ "patch_id": id, "steps": 200 })).await;
    stage.same(&id).await;
    assert_eq!(stage.errors(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pd_refuses_is_taken_back_and_said() {
    require!(pd::probe());
    let stage = PdStage::new();
    let id = stage.create().await;
    stage.edit(&id, json!([{ "op": "add", "obj_type": "osc~ 440", "position": [50, 50], "varname": "a" }])).await;
    let unknown = json!({ "patch_id": id, "obj_type": "nosuchclass", "position": [9, 9], "allow_unknown": true });
    stage.tools.allow("add_max_object", unknown.clone()).await;
    let error = stage.tools.no("add_max_object", unknown).await;
    assert_eq!(error.code, Code::SdkRejected, "{error:?}");
    assert!(error.message.contains("nosuchclass"), "{}", error.message);
    stage.same(&id).await;
    // A partly applied batch is rolled back too, and a box with a changed text gets its old text
    // back.
    let batch = json!({ "patch_id": id, "edits": [
        { "op": "add", "obj_type": "f", "position": [90, 90] },
        { "op": "set_text", "varname": "a", "new_text": "nosuchclass 3", "allow_unknown": true },
    ] });
    stage.tools.allow("edit_patch", batch.clone()).await;
    let error = stage.tools.no("edit_patch", batch).await;
    assert_eq!(error.code, Code::SdkRejected);
    stage.same(&id).await;
    let info = stage.tools.ok("get_patch_info", json!({ "patch_id": id })).await;
    assert_eq!((&info["object_count"], &info["revision"]), (&json!(1), &json!(2)));
    // The console contains the error with its level and source.
    let log = stage.tools.ok("get_console_log", json!({ "level": "error" })).await;
    let entries = log["entries"].as_array().expect("entries");
    assert!(
        entries
            .iter()
            .any(|it| it["source"] == "pd" && it["text"].as_str().is_some_and(|it| it.contains("couldn't create"))),
        "{log}"
    );
    assert_eq!(stage.tools.no("open_patch", json!({ "path": "x.maxpat", "host": "pd" })).await.code, Code::NotFound);
    let error = stage.tools.no("create_patch", json!({ "format": "maxpat", "host": "pd" })).await;
    assert_eq!(error.code, Code::BadInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_everything_is_shown_edited_and_saved_with_its_own_bytes() {
    require!(pd::probe());
    let stage = PdStage::new();
    let file = "#N canvas 0 50 450 300 12;\n#X declare -path lib;\n#X obj 50 50 osc~ 440.0;\n#N canvas 0 50 450 300 sub 0;\n#X obj 10 10 inlet;\n\
                #N canvas 0 50 450 300 deep 0;\n#X obj 20 20 f 3;\n#X restore 30 60 pd deep;\n#X restore 50 100 pd sub;\n\
                #N canvas 0 0 450 278 (subpatch) 0;\n#X array array1 4 float 3;\n#A 0 0.5 0 0 0;\n#X coords 0 1 4 -1 200 140 1 0 0;\n\
                #X restore 200 200 graph;\n#X obj 300 110 nonexist 3;\n#X obj 300 150 helper 7;\n#X connect 0 0 1 0;\n#X connect 0 7 4 0;\n";
    stage.tools.write("big.pd", file);
    stage
        .tools
        .write("helper.pd", "#N canvas 0 0 9 9 12;\n#X obj 10 10 inlet;\n#X obj 60 10 inlet;\n#X obj 10 60 outlet;\n");
    let opened = stage.tools.yes("open_patch", json!({ "path": "big.pd", "host": "pd", "alias": "big" })).await;
    assert_eq!((&opened["object_count"], &opened["host"]), (&json!(5), &json!("pd")));
    stage.tools.patches.reconcile("big").expect("Pd answers");
    assert_eq!(stage.tools.ok("get_patch_info", json!({ "patch_id": "big" })).await["revision"], 1);
    // The abstraction next to the file was found, and Pd reports its ports.
    let io = stage.tools.ok("get_object_io_info", json!({ "patch_id": "big", "varname": "~5" })).await;
    assert_eq!((&io["inlet_count"], &io["outlet_count"], &io["basis"]), (&json!(2), &json!(1), &json!("host")));
    stage
        .edit(
            "big/sub/deep",
            json!([{ "op": "add", "obj_type": "print x", "position": [20, 60], "as": "$p" },
        { "op": "connect", "src_varname": "~1", "outlet": 0, "dst_varname": "$p", "inlet": 0 }]),
        )
        .await;
    stage.tools.patches.reconcile("big").expect("Pd answers");
    let saved = stage.tools.ok("save_patch", json!({ "patch_id": "big" })).await;
    assert_eq!((&saved["changed_lines"], &saved["warnings"]), (&json!(2), &json!([])));
    let now = std::fs::read_to_string(stage.tools.file("big.pd")).expect("saved");
    assert!(now.contains("osc~ 440.0;") && now.contains("#X declare -path lib;"), "{now}");
    // Remove a graph with its data and undo. Pd can restore data only by loading the patch again,
    // and the result reports that.
    stage.tools.yes("remove_max_object", json!({ "patch_id": "big", "varname": "~3" })).await;
    let undone = stage.tools.ok("undo_patch", json!({ "patch_id": "big" })).await;
    assert_eq!(undone["warnings"][0]["code"], "host_degraded");
    stage.tools.patches.reconcile("big").expect("Pd answers");
    assert_eq!(stage.tools.ok("get_patch_dirty", json!({ "patch_id": "big" })).await["dirty"], false);
    // No temporary file is left in the folder.
    let left: Vec<_> =
        std::fs::read_dir(stage.tools.file("")).expect("a folder").flatten().map(|it| it.file_name()).collect();
    assert!(left.iter().all(|it| !it.to_string_lossy().contains("conductor-pd")), "{left:?}");
    let again = stage.tools.no("open_patch", json!({ "path": "big.pd" })).await;
    assert!(again.message.contains("host \"pd\""), "{}", again.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_that_changes_itself_is_noticed() {
    require!(pd::probe());
    let stage = PdStage::new();
    // When it is loaded, the patch creates an object in itself.
    stage.tools.write("self.pd", "#N canvas 0 50 450 300 12;\n#X obj 10 10 loadbang;\n#X obj 10 90 delay 100;\n#X msg 10 40 \\; pd-self.pd obj 200 200 print mine;\n#X connect 0 0 1 0;\n#X connect 1 0 2 0;\n");
    stage.tools.yes("open_patch", json!({ "path": "self.pd", "host": "pd", "alias": "s" })).await;
    let found = wait_for(PATIENCE, || {
        stage.tools.patches.reconcile("s").expect("Pd answers");
        let count =
            stage.tools.patches.look("s", |scene| Ok((scene.view.box_count(), scene.revision()))).expect("open");
        (count == (4, 2)).then_some(())
    });
    assert!(found.is_some(), "the new object was not noticed");
    let log = stage.tools.ok("get_console_log", json!({ "patch_id": "s" })).await;
    assert!(log.to_string().contains("was changed in its program"), "{log}");
    stage.edit("s", json!([{ "op": "add", "obj_type": "f", "position": [1, 1] }])).await;
    stage.same("s").await;
}

/// Edits as numbers, so that proptest can repeat and shrink a run.
fn edits() -> impl Strategy<Value = Vec<(u8, u16, u16, u16)>> {
    prop::collection::vec((0u8..12, any::<u16>(), any::<u16>(), any::<u16>()), 1..24)
}

/// Converts the numbers of an edit to a call on the current patch.
fn call(tools: &PatchTools, root: &str, step: usize, (kind, a, b, c): (u8, u16, u16, u16)) -> (&'static str, Value) {
    const TEXTS: [&str; 12] = [
        "osc~ 440", "*~ 0.5", "f", "t b f b", "print x", "+ 1", "inlet", "outlet", "message", "pd inner", "number",
        "hsl",
    ];
    let pick = |from: &[String], n: u16| from.get(usize::from(n) % from.len().max(1)).cloned().unwrap_or_default();
    let canvases: Vec<String> = tools
        .patches
        .look(root, |scene| {
            let subs = scene.view.subpatchers(true);
            Ok(std::iter::once(root.to_owned())
                .chain(subs.iter().filter_map(|it| scene.id_of(it.canvas.as_ref()?)))
                .collect())
        })
        .expect("open");
    let patch = pick(&canvases, c / 7);
    let keys: Vec<String> = tools
        .patches
        .look(&patch, |scene| Ok(scene.view.boxes().map(|it| it.key().to_owned()).collect()))
        .expect("open");
    // Positions are never used twice, so that they identify boxes.
    let place = json!([10 + step * 13 % 700, 10 + step * 17]);
    let text = TEXTS[usize::from(a) % TEXTS.len()];
    let ends = json!({ "patch_id": patch, "src_varname": pick(&keys, a), "outlet": b % 3, "dst_varname": pick(&keys, c), "inlet": b / 3 % 2 });
    match kind {
        0..=2 => ("add_max_object", json!({ "patch_id": patch, "obj_type": text, "position": place })),
        3 | 4 => ("connect_max_objects", ends),
        5 => ("disconnect_max_objects", ends),
        6 => ("remove_max_object", json!({ "patch_id": patch, "varname": pick(&keys, b) })),
        7 => ("replace_object_text", json!({ "patch_id": patch, "varname": pick(&keys, b), "new_text": text })),
        8 => (
            "edit_patch",
            json!({ "patch_id": patch, "edits": [{ "op": "move", "varname": pick(&keys, b), "position": place }] }),
        ),
        9 => ("undo_patch", json!({ "patch_id": root, "steps": 1 + b % 3 })),
        10 => ("redo_patch", json!({ "patch_id": root, "steps": 1 + b % 3 })),
        _ => (
            "encapsulate_objects",
            json!({ "patch_id": patch, "varnames": [pick(&keys, a), pick(&keys, b)], "name": "boxed" }),
        ),
    }
}

#[test]
fn random_edits_end_in_the_same_patch_on_a_document_and_on_a_running_pd() {
    require!(pd::probe());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (document, stage) = (PatchTools::new(), PdStage::new());
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&edits(), |list| {
        runtime.block_on(async {
            for tools in [&document, &stage.tools] {
                let host = if std::ptr::eq(tools, &document) { "document" } else { "pd" };
                // An earlier failed run, which proptest is shrinking, may have left the patch open.
                let _ = tools.output("close_patch", json!({ "patch_id": "p", "discard": true })).await;
                tools.ok("create_patch", json!({ "format": "pd", "host": host, "alias": "p" })).await;
            }
            for (step, number) in list.iter().enumerate() {
                let (tool, arguments) = call(&document, "p", step, *number);
                let (on_file, on_pd) =
                    (document.output(tool, arguments.clone()).await, stage.tools.output(tool, arguments.clone()).await);
                let told =
                    |it: &Result<conductor_gateway::pipeline::call::Output, conductor_core::error::ToolError>| match it
                    {
                        Ok(it) => it.value.clone(),
                        Err(it) => json!([it.code.as_str(), it.message]),
                    };
                prop_assert_eq!(told(&on_file), told(&on_pd), "{} {}", tool, arguments);
                let bytes = |tools: &PatchTools| {
                    tools
                        .patches
                        .look("p", |scene| Ok(String::from_utf8_lossy(&scene.patch.document().to_bytes()).into_owned()))
                        .expect("open")
                };
                prop_assert_eq!(bytes(&document), bytes(&stage.tools));
            }
            let written = stage.pd.written("p").expect("Pd writes");
            let ours = document.patches.look("p", |scene| Ok(picture(&scene.patch.document().root()))).expect("open");
            prop_assert_eq!(picture(&written.root()), ours);
            Ok(())
        })
    });
    if let Err(fault) = outcome {
        panic!("{fault}");
    }
}

/// Negative control of `picture`: a changed position, an added argument, a missing cord and swapped
/// cords make a difference.
#[test]
fn the_comparison_sees_every_difference() {
    let of = |text: &str| {
        let document = Document::open(text.as_bytes().to_vec(), conductor_patch::Format::Pd, &Default::default())
            .expect("a patch");
        picture(&document.root())
    };
    let base = "#N canvas 0 0 1 1 12;\n#X obj 1 1 f;\n#X obj 1 40 print;\n#X obj 1 80 print;\n#X connect 0 0 1 0;\n#X connect 0 0 2 0;\n";
    assert_eq!(of(base), of(base));
    for (from, to) in [
        ("1 80", "1 81"),
        ("40 print", "40 print a"),
        ("#X connect 0 0 1 0;\n", ""),
        ("0 0 1 0;\n#X connect 0 0 2 0", "0 0 2 0;\n#X connect 0 0 1 0"),
    ] {
        assert_ne!(of(base), of(&base.replace(from, to)), "{from}");
    }
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    rustix::process::kill_process(pid, signal).expect("signalled");
}

#[tokio::test(flavor = "multi_thread")]
async fn pd_killed_in_the_middle_of_a_batch_leaves_nothing_half_done() {
    require!(pd::probe());
    let stage = Arc::new(PdStage::new());
    let id = stage.create().await;
    stage.edit(&id, json!([{ "op": "add", "obj_type": "osc~ 440", "position": [50, 50], "varname": "a" }])).await;
    let first = stage.pd.pid().expect("Pd runs");
    // Suspend Pd, so that the batch is still running when Pd is killed.
    signal(first, rustix::process::Signal::STOP);
    let (busy, patch) = (Arc::clone(&stage), id.clone());
    let batch = tokio::spawn(async move {
        let edits: Vec<Value> = (0..500)
            .map(|n| json!({ "op": "add", "obj_type": "f", "position": [n % 50 * 20, n / 50 * 30 + 100] }))
            .collect();
        busy.tools.no("edit_patch", json!({ "patch_id": patch, "edits": edits })).await
    });
    let begun = wait_for(PATIENCE, || {
        // The call locks the patch while it waits for Pd.
        stage.pd_is_busy().then_some(())
    });
    assert!(begun.is_some());
    signal(first, rustix::process::Signal::KILL);
    let error = batch.await.expect("the task of the call panicked");
    assert_eq!(error.code, Code::HostOffline, "{error:?}");
    let info = stage.tools.ok("get_patch_info", json!({ "patch_id": id })).await;
    assert_eq!((&info["object_count"], &info["revision"]), (&json!(1), &json!(2)));
    // The next call works, with a new process that has the old patch.
    stage.edit(&id, json!([{ "op": "add", "obj_type": "dac~", "position": [50, 90], "varname": "out" }])).await;
    stage.same(&id).await;
    let second = stage.pd.pid().expect("Pd was not restarted");
    assert_ne!(first, second);
    // Pd is also restarted without a call.
    signal(second, rustix::process::Signal::KILL);
    let third = wait_for(PATIENCE, || stage.pd.pid().filter(|it| *it != second));
    assert!(third.is_some(), "Pd was not restarted");
    stage.same(&id).await;
    // After three crashes within a minute, Pd is not restarted.
    signal(third.expect("a process"), rustix::process::Signal::KILL);
    let dead = wait_for(PATIENCE, || stage.pd.pid().is_none().then_some(()));
    assert!(dead.is_some());
    let error = stage.tools.no("remove_max_object", json!({ "patch_id": id, "varname": "a" })).await;
    assert_eq!(error.code, Code::HostOffline);
    assert!(error.message.contains("3 times"), "{}", error.message);
    // The document is still complete.
    assert_eq!(stage.tools.ok("get_patch_info", json!({ "patch_id": id })).await["object_count"], 2);
}

impl PdStage {
    /// Whether a call is waiting for Pd.
    fn pd_is_busy(&self) -> bool {
        self.pd.is_busy()
    }
}

/// A receiver in the attacked patch prints this text if Pd executes an injected command.
const ALARM: &str = "conductor-was-injected";

impl PdStage {
    async fn attacked(&self) -> String {
        let id = self.create().await;
        self.edit(
            &id,
            json!([
                { "op": "add", "obj_type": "osc~", "position": [10, 10], "varname": "a" },
                { "op": "add", "obj_type": "message", "position": [10, 90], "varname": "b" },
                { "op": "add", "obj_type": format!("r {ALARM}"), "position": [200, 10], "varname": "ear" },
                { "op": "add", "obj_type": format!("print {ALARM}"), "position": [200, 90], "varname": "mouth" },
                { "op": "connect", "src_varname": "ear", "outlet": 0, "dst_varname": "mouth", "inlet": 0 },
            ]),
        )
        .await;
        id
    }

    /// All output of Pd that only an injected command can cause.
    async fn alarms(&self) -> Vec<String> {
        let question = Question { principal: "alarm", patch_id: None, after: None, level: None, lines: 1000 };
        let (entries, ..) = self.tools.patches.console(&question, false);
        let said = entries.into_iter().filter(|it| it.source == Source::Pd).map(|it| it.text);
        // Search for the text with a colon, as the receiver prints it. Pd also prints the text of
        // an object that it could not create, but on a separate line.
        let printed = format!("{ALARM}:");
        // Errors with this prefix are about a canvas, which Pd names by its escaped name. They are
        // not caused by an injected command.
        let ours = |it: &String| it.starts_with("pd-");
        let strays = |it: &String| it.contains("no such object") || it.contains("no method");
        said.filter(|it| it.starts_with(&printed) || strays(it) && !ours(it)).collect()
    }
}

/// Negative control: a command that does reach Pd is detected.
#[tokio::test(flavor = "multi_thread")]
async fn the_alarm_hears_a_command_that_reaches_pd() {
    require!(pd::probe());
    let stage = PdStage::new();
    stage.attacked().await;
    assert_eq!(stage.alarms().await, Vec::<String>::new());
    let loaded =
        format!("#N canvas 0 0 9 9 12;\n#X obj 1 1 loadbang;\n#X msg 1 40 \\; {ALARM} 7;\n#X connect 0 0 1 0;\n");
    stage.tools.write("rings.pd", &loaded);
    stage.tools.yes("open_patch", json!({ "path": "rings.pd", "host": "pd", "alias": "rings" })).await;
    stage.same("rings").await;
    assert_eq!(stage.alarms().await, [format!("{ALARM}: 7")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_in_any_argument_reaches_a_running_pd_as_a_command() {
    require!(pd::probe());
    let stage = PdStage::new();
    let id = stage.attacked().await;
    let first = stage.pd.pid();
    let (many, long) = ("x ".repeat(10_000), "x".repeat(5000));
    let rings = [
        format!("; {ALARM} 1"),
        format!("x; {ALARM} 2;"),
        format!("\\; {ALARM} 3"),
        format!("\\\\; {ALARM} 4;"),
        format!("x\n; {ALARM} 5;\n"),
        format!("x;\r{ALARM} 6;"),
        format!("x\0; {ALARM} 7;"),
        format!("x\\\n; {ALARM} 8;"),
        format!("$1; {ALARM} 9"),
        format!("{{; {ALARM} 10}}"),
        format!("x,; {ALARM} 11"),
        format!("#X msg 1 1 \\; {ALARM} 12;"),
    ];
    let hostile = [";pd quit;", "x; pd dsp 1", ", quit", "$1-x", "a\\", "a;b,c", "{ } [exit]", "#N canvas 0 0 1 1 12;"];
    let texts: Vec<&str> = CORPUS
        .into_iter()
        .chain(hostile)
        .chain(rings.iter().map(String::as_str))
        .chain([many.as_str(), long.as_str()])
        .collect();
    let (mut asked, mut revision) = (0, json!(2));
    for (tool, _) in NAMES {
        for text in &texts {
            for (place, mut arguments) in places(&stage.tools, tool, &id, text) {
                if ["open_patch", "create_patch"].contains(&tool) && place != "/host" {
                    arguments["host"] = json!("pd");
                    if tool == "create_patch" && place != "/format" {
                        arguments["format"] = json!("pd");
                    }
                }
                if ["add_max_object", "replace_object_text", "set_object_attribute"].contains(&tool)
                    && place != "/allow_unknown"
                {
                    arguments["allow_unknown"] = json!(true);
                }
                asked += 1;
                // The person approves everything here: no text may become a command when it is
                // passed to Pd.
                let mut answer = stage.tools.output(tool, arguments.clone()).await;
                if answer.as_ref().is_err_and(|it| it.code == Code::ApprovalRequired) {
                    stage.tools.allow(tool, arguments.clone()).await;
                    answer = stage.tools.output(tool, arguments.clone()).await;
                }
                if let Err(error) = answer {
                    assert!(
                        !matches!(error.code, Code::Internal | Code::HostOffline | Code::Timeout),
                        "{tool} {place} {arguments}: {error:?}"
                    );
                }
                for other in stage.tools.patches.ids().into_iter().filter(|it| *it != id) {
                    let _ = stage.tools.output("close_patch", json!({ "patch_id": other, "discard": true })).await;
                }
                let now = stage.tools.ok("get_patch_info", json!({ "patch_id": id })).await["revision"].clone();
                if now != revision {
                    let _ = stage.tools.output("undo_patch", json!({ "patch_id": id, "steps": 200 })).await;
                    let _ = stage.tools.output("redo_patch", json!({ "patch_id": id, "steps": 1 })).await;
                    revision = stage.tools.ok("get_patch_info", json!({ "patch_id": id })).await["revision"].clone();
                }
            }
        }
        assert_eq!(stage.pd.pid(), first, "{tool}: Pd was stopped or restarted");
        assert_eq!(stage.alarms().await, Vec::<String>::new(), "{tool}");
    }
    assert!(asked > 4000, "only {asked} calls");
    let info = stage.tools.ok("get_patch_info", json!({ "patch_id": id })).await;
    assert_eq!((&info["object_count"], &info["host"]), (&json!(4), &json!(HostKind::Pd.as_str())));
    stage.same(&id).await;
    assert_eq!(stage.alarms().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_files_do_not_take_the_daemon_with_them() {
    require!(pd::probe());
    let stage = PdStage::new();
    stage.tools.ok("create_patch", json!({ "host": "pd", "alias": "mine" })).await;
    let deep = format!(
        "#N canvas 0 0 1 1 12;\n{}{}",
        "#N canvas 0 0 1 1 x 0;\n".repeat(70),
        "#X restore 1 1 pd x;\n".repeat(70)
    );
    let files = [
        ("deep.pd", deep, Some(Code::BadInput)),
        ("empty.pd", String::new(), Some(Code::BadInput)),
        ("open.pd", "#N canvas 0 0 1 1 12;\n#N canvas 0 0 1 1 sub 0;\n".to_owned(), Some(Code::BadInput)),
        (
            "dangling.pd",
            "#N canvas 0 0 9 9 12;\n#X obj 1 1 osc~;\n#X connect 0 0 7 0;\n#X connect 0 9 0 0;\n#X connect 0 0 0 0;\n"
                .to_owned(),
            None,
        ),
        ("crlf.pd", "#N canvas 0 0 9 9 12;\r\n#X obj 1 1 osc~ 1;\r\n#X text 1 40 a b;\r\n".to_owned(), None),
    ];
    for (name, text, wanted) in files {
        stage.tools.write(name, &text);
        let opened = stage.tools.output("open_patch", json!({ "path": name, "host": "pd", "alias": "h" })).await;
        assert_eq!(opened.as_ref().err().map(|it| it.code), wanted, "{name}: {opened:?}");
        if opened.is_ok() {
            stage.edit("h", json!([{ "op": "add", "obj_type": "f", "position": [100, 100] }])).await;
            stage.tools.patches.reconcile("h").expect("Pd answers");
            assert_eq!(stage.tools.ok("get_patch_info", json!({ "patch_id": "h" })).await["revision"], 2, "{name}");
            stage.tools.ok("close_patch", json!({ "patch_id": "h", "discard": true })).await;
        }
    }
    // A patch that quits Pd as soon as it is loaded: that is reported, the other patches are
    // restored, and finally this patch is closed.
    stage.tools.write(
        "quit.pd",
        "#N canvas 0 0 9 9 12;\n#X obj 1 1 loadbang;\n#X msg 1 40 \\; pd quit;\n#X connect 0 0 1 0;\n",
    );
    let quit = json!({ "path": "quit.pd", "host": "pd", "alias": "q" });
    stage.tools.allow("open_patch", quit.clone()).await;
    let opened = stage.tools.output("open_patch", quit).await;
    assert_eq!(opened.err().map(|it| it.code), Some(Code::HostOffline));
    assert_eq!(stage.tools.no("get_patch_info", json!({ "patch_id": "q" })).await.code, Code::NotFound);
    stage.edit("mine", json!([{ "op": "add", "obj_type": "f", "position": [1, 1] }])).await;
    stage.same("mine").await;
}

/// Runs the script that compares the ports that Pd draws with a table.
fn compared_with(table: Option<&std::path::Path>) -> std::process::Output {
    let tools = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../conductor-patch/tools");
    let mut command = std::process::Command::new("python3");
    command.arg(tools.join("pd_table.py")).arg("--check").arg(tools.join("pd_classes.txt")).args(table);
    command.output().expect("python3 starts")
}

#[test]
fn the_table_of_classes_is_what_the_installed_pd_draws() {
    let version = require!(pd::probe());
    let table = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../conductor-patch/src/objects/pd.tsv");
    let text = std::fs::read_to_string(table).expect("the table");
    let counted = text.lines().find_map(|it| it.strip_prefix("!version\t")).expect("a version");
    if version != counted {
        // Another version of Pd may draw other ports; this does not make the table wrong.
        std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("skipped: the table was counted on Pd {counted}, Pd {version} is installed\n").as_bytes(),
        )
        .expect("said");
        return;
    }
    let same = compared_with(None);
    assert_eq!(same.status.code(), Some(0), "{}", String::from_utf8_lossy(&same.stdout));
    // Negative controls: a wrong count, a missing class, and another version.
    let folder = tempfile::tempdir().expect("a folder");
    let other = folder.path().join("pd.tsv");
    let without: String = text.lines().filter(|it| !it.starts_with("osc~\t")).map(|it| format!("{it}\n")).collect();
    for (wrong, code, word) in [
        (text.replace("osc~\tsignal\t2", "osc~\tsignal\t3"), 1, "-osc~\tsignal\t3"),
        (without, 1, "+osc~\tsignal\t2"),
        (text.replace(&format!("!version\t{counted}"), "!version\t0.1.0"), 3, "counted on Pd 0.1.0"),
    ] {
        assert_ne!(wrong, text);
        std::fs::write(&other, wrong).expect("written");
        let told = compared_with(Some(&other));
        let said = String::from_utf8_lossy(&told.stdout);
        assert!(told.status.code() == Some(code) && said.contains(word), "{word}: {said}");
    }
}

/// Large files of every expensive kind are refused, and Pd keeps its other patch. A patch with the
/// maximum number of boxes is opened.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_megabytes_are_a_clear_error_and_bounded_memory_on_a_running_pd() {
    require!(pd::probe());
    const MB: u64 = 1 << 20;
    let stage = PdStage::new();
    stage.tools.ok("create_patch", json!({ "host": "pd", "format": "pd", "alias": "mine" })).await;
    stage.edit("mine", json!([{ "op": "add", "obj_type": "osc~", "position": [1, 1] }])).await;
    let pid = stage.pd.pid();
    let fill = |line: &str| format!("#N canvas 0 0 450 300 12;\n{}", line.repeat(50 * MB as usize / line.len()));
    let files = [
        ("boxes.pd", fill("#X obj 1 1 f;\n")),
        ("canvases.pd", fill("#N canvas 0 0 1 1 x 0;\n#X restore 1 1 pd x;\n")),
        ("cords.pd", fill("#X connect 0 0 0 0;\n")),
        ("comment.pd", format!("#N canvas 0 0 450 300 12;\n#X text 1 1 {};\n", "x".repeat(50 * MB as usize))),
        ("words.pd", format!("#N canvas 0 0 450 300 12;\n#X msg 1 1 {};\n", "1 ".repeat(25 * MB as usize))),
        (
            "array.pd",
            format!("#N canvas 0 0 450 300 12;\n#X array a 9 float 3;\n#A 0 {};\n", "1 ".repeat(25 * MB as usize)),
        ),
        ("many.pd", format!("#N canvas 0 0 450 300 12;\n{}", "#X obj 1 1 f;\n".repeat(60_000))),
    ];
    for (name, text) in files {
        stage.tools.write(name, &text);
        drop(text);
        let error = stage.tools.no("open_patch", json!({ "path": name, "host": "pd" })).await;
        assert!(matches!(error.code, Code::BadInput | Code::Unsupported), "{name}: {error:?}");
        assert!(error.message.len() < 500 && !error.hint.is_empty(), "{name}: {error:?}");
        std::fs::remove_file(stage.tools.file(name)).expect("there");
    }
    // Pd never received the files and still has its patch.
    assert_eq!(stage.pd.pid(), pid);
    let of_pd = resident_peak(pid.expect("Pd runs")).expect("the memory of Pd cannot be read");
    assert!(of_pd < 64 * MB, "Pd held {} MB", of_pd / MB);
    let ours = resident_peak(std::process::id()).expect("the memory of this process cannot be read");
    assert!(ours < 1024 * MB, "this process used {} MB for files of 50 MB", ours / MB);
    stage.edit("mine", json!([{ "op": "add", "obj_type": "f", "position": [1, 90] }])).await;
    stage.same("mine").await;
    // Exactly the maximum number of boxes.
    stage.tools.write("full.pd", &format!("#N canvas 0 0 450 300 12;\n{}", "#X obj 1 1 f;\n".repeat(5000)));
    stage.tools.ok("open_patch", json!({ "path": "full.pd", "host": "pd", "alias": "full" })).await;
    stage.same("full").await;
}

/// A suspended Pd does not answer: the call ends with an error, and nothing was changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_pd_is_a_timeout_that_changed_nothing() {
    require!(pd::probe());
    let stage = PdStage::new();
    let id = stage.create().await;
    stage.edit(&id, json!([{ "op": "add", "obj_type": "osc~ 440", "position": [50, 50], "varname": "a" }])).await;
    let pid = stage.pd.pid().and_then(|it| rustix::process::Pid::from_raw(it as i32)).expect("Pd runs");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("stopped");
    for (tool, arguments) in [
        ("add_max_object", json!({ "patch_id": id, "obj_type": "f", "position": [9, 9] })),
        ("set_patch_lock_state", json!({ "patch_id": id, "locked": true })),
    ] {
        let error = stage.tools.no(tool, arguments).await;
        assert_eq!(error.code, Code::Timeout, "{tool}: {error:?}");
    }
    let info = stage.tools.ok("get_patch_info", json!({ "patch_id": id })).await;
    assert_eq!((&info["object_count"], &info["revision"]), (&json!(1), &json!(2)));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("continued");
    // Messages that were sent during the suspension may end Pd. Then the call is repeated, as its
    // hint says.
    let again = json!({ "patch_id": id, "edits": [{ "op": "add", "obj_type": "f", "position": [1, 1] }] });
    if let Err(error) = stage.tools.output("edit_patch", again.clone()).await {
        assert_eq!(error.code, Code::HostOffline, "{error:?}");
        stage.tools.ok("edit_patch", again).await;
    }
    stage.same(&id).await;
}

/// A Pd that the person started, with the helper patch. In these tests it has no window, like a Pd
/// that the daemon starts.
pub struct Theirs(std::process::Child);

impl Theirs {
    pub fn start(files: &[&std::path::Path]) -> Theirs {
        let mut command = std::process::Command::new("pd");
        command.args(["-nogui", "-noprefs", "-noaudio", "-nomidi", "-nrt"]);
        for file in files {
            command.arg("-open").arg(file);
        }
        command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        Theirs(command.spawn().expect("Pd starts"))
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pd_of_the_person_is_driven_through_the_helper_patch() {
    require!(pd::probe());
    let tools = PatchTools::new();
    let home = tools.studio.home.path().to_owned();
    let clock = Arc::new(RealClock::new());
    let pd = AttachedPd::listen(&home, &RandomIds, tools.patches.voice().clone(), clock).expect("a port");
    tools.patches.drive(Arc::clone(&pd) as Arc<dyn PatchHost>);
    tools.write("mine.pd", "#N canvas 0 0 450 300 12;\n#X obj 50 50 osc~ 440;\n#X obj 50 120 dac~;\n#X msg 50 20 220;\n#N canvas 0 0 450 300 fx 0;\n#X obj 10 10 inlet~;\n#X restore 200 50 pd fx;\n#X connect 0 0 1 0;\n#X connect 2 0 0 0;\n");
    // No Pd is connected yet. A connection without the token does not count as Pd.
    let open = json!({ "path": "mine.pd", "host": "pd", "alias": "m" });
    assert_eq!(tools.no("open_patch", open.clone()).await.code, Code::HostOffline);
    let address = std::fs::read_to_string(attach::address_file(&home)).expect("written");
    let words: Vec<&str> = address.trim_end().trim_end_matches(';').split(' ').collect();
    let port: u16 = words[0].parse().expect("a port");
    let mut stranger = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(&stranger), &mut said)
        .expect("the daemon sent no greeting");
    assert_eq!(said, format!("conductor-daemon {};\n", words[1]));
    // The correct answer is not the first token itself, so this connection is refused.
    std::io::Write::write_all(&mut stranger, format!("conductor-hello {};\n", words[1]).as_bytes()).expect("sent");
    assert_eq!(std::io::Read::read(&mut stranger, &mut [0; 9]).ok(), Some(0), "the connection was not closed");
    assert_eq!(tools.no("open_patch", open.clone()).await.code, Code::HostOffline);
    drop(stranger);

    let helper = attach::install(&home, &RandomIds).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&helper).expect("there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let file = tools.file("mine.pd");
    let _theirs = Theirs::start(&[&helper, &file]);
    assert!(wait_for(PATIENCE, || pd.is_attached().then_some(())).is_some(), "the helper patch did not connect");
    let opened = tools.ok("open_patch", open).await;
    assert_eq!((&opened["host"], &opened["object_count"]), (&json!("pd"), &json!(4)));
    let edit = |edits: Value| json!({ "patch_id": "m", "edits": edits });
    tools
        .ok(
            "edit_patch",
            edit(json!([
                { "op": "add", "obj_type": "*~ 0.1", "position": [50, 85], "varname": "gain" },
                { "op": "disconnect", "src_varname": "~1", "outlet": 0, "dst_varname": "~2", "inlet": 0 },
                { "op": "connect", "src_varname": "~1", "outlet": 0, "dst_varname": "gain", "inlet": 0 },
                { "op": "connect", "src_varname": "gain", "outlet": 0, "dst_varname": "~2", "inlet": 0 },
                { "op": "set_text", "varname": "~1", "new_text": "osc~ 880" },
                { "op": "move", "varname": "~3", "position": [61, 23] },
                { "op": "remove", "varname": "~2" },
            ])),
        )
        .await;
    tools
        .ok(
            "edit_patch",
            json!({ "patch_id": "m/fx", "edits": [{ "op": "add", "obj_type": "outlet~", "position": [10, 90] }] }),
        )
        .await;
    tools.ok("undo_patch", json!({ "patch_id": "m", "steps": 2 })).await;
    tools.ok("redo_patch", json!({ "patch_id": "m", "steps": 1 })).await;
    tools.patches.reconcile("m").expect("Pd answers");
    let info = tools.ok("get_patch_info", json!({ "patch_id": "m" })).await;
    assert_eq!(
        (&info["object_count"], &info["revision"]),
        (&json!(4), &json!(6)),
        "the document differs from the patch in Pd"
    );
    // An invalid edit is refused, and so are operations that the person's Pd does not support.
    let error = tools.no("edit_patch", edit(json!([{ "op": "add", "obj_type": "osc~ 1", "position": [1, 1], "as": "$a" }, { "op": "connect", "src_varname": "$a", "outlet": 0, "dst_varname": "~3", "inlet": 5 }]))).await;
    assert_eq!(error.code, Code::BadInput);
    for (tool, arguments) in [
        ("set_patch_lock_state", json!({ "patch_id": "m", "locked": true })),
        ("get_object_value", json!({ "patch_id": "m", "varname": "~3" })),
        ("redraw_object", json!({ "patch_id": "m", "varname": "~3" })),
    ] {
        assert_eq!(tools.no(tool, arguments).await.code, Code::Unsupported, "{tool}");
    }
    // The person's Pd does not report its edit mode, so the state is not verified.
    assert_eq!(tools.ok("get_patch_lock_state", json!({ "patch_id": "m" })).await["state_verified"], false);
    let saved = tools.ok("save_patch", json!({ "patch_id": "m" })).await;
    assert_eq!(saved["warnings"], json!([]));
    assert!(std::fs::read_to_string(&file).expect("saved").contains("osc~ 880"));
}
