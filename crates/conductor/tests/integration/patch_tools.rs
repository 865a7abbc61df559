//! The patch tools on documents, through the real pipeline: one sequence with all tools, and
//! operations that must never work.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base64::Engine;
use conductor_core::error::{Code, ToolError};
use conductor_core::pending::{Record, Yes};
use conductor_core::policy::limits::{Limits, Rate, Retry};
use conductor_core::policy::{Channel, Decision, Pattern, Policy, Rule, Tier};
use conductor_daemon::demo;
use conductor_daemon::home::Home;
use conductor_gateway::catalog::Catalog;
use conductor_gateway::catalog::lint::lint_catalog;
use conductor_gateway::catalog::names::Toolset;
use conductor_gateway::pipeline::call::{Content, Outcome, Output};
use conductor_gateway::pipeline::{self, Call};
use conductor_gateway::studio::Settings as StudioSettings;
use conductor_gateway::studio::events::{Change, Event};
use conductor_hosts::patch::{Patches, Settings};
use conductor_testkit::studio::{TestStudio, principal};
use conductor_tools::patch;
use serde_json::{Value, json};

pub struct PatchTools {
    pub studio: TestStudio,
    pub patches: Arc<Patches>,
    /// Calls and results, in order.
    pub told: Mutex<Vec<(String, Value)>>,
}

impl PatchTools {
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    /// These tests close changed patches, which a rule of the policy allows.
    pub fn with(settings: Settings) -> Self {
        let close =
            Rule { tool: Some(Pattern::parse("close_patch")), decision: Some(Decision::Allow), ..Rule::default() };
        Self::under(Policy { rules: vec![close], ..Policy::default() }, settings)
    }

    pub fn under(policy: Policy, settings: Settings) -> Self {
        let fast = Rate { per_minute: 1_000_000, burst: 1_000_000 };
        let limits = Limits { read: fast, effect: fast, asks_per_minute: 1_000_000, ..Limits::default() };
        // The test advances the time itself, so no call may wait for a retry.
        let retry = Retry { attempts: 1, ..Retry::default() };
        let studio = TestStudio::with(policy, StudioSettings { limits, retry, ..StudioSettings::default() });
        let (clock, ids) = (Arc::clone(&studio.studio.clock), Arc::clone(&studio.studio.ids));
        let patches = Patches::new(studio.home.path(), settings, clock, ids);
        studio.studio.edit_catalog(|catalog| patch::add(catalog, &patches)).expect("sound tools");
        PatchTools { studio, patches, told: Mutex::default() }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.studio.home.path().join("patches").join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.file(name).parent().expect("a folder")).expect("made");
        fs::write(self.file(name), text).expect("written");
    }

    pub async fn output(&self, tool: &str, arguments: Value) -> Result<Output, ToolError> {
        match self.studio.call(tool, arguments).await.into_outcome() {
            Outcome::Done(done) => {
                let told = match &done {
                    Ok(output) => output.value.clone(),
                    Err(error) => json!({ "code": error.code.as_str(), "message": error.message }),
                };
                self.told.lock().expect("a test thread panicked").push((tool.to_owned(), told));
                done
            }
            other @ (Outcome::Cancelled | Outcome::Ask { .. }) => panic!("{tool}: {other:?}"),
        }
    }

    pub async fn ok(&self, tool: &str, arguments: Value) -> Value {
        match self.output(tool, arguments.clone()).await {
            Ok(output) => output.value,
            Err(error) => panic!("{tool} {arguments}: {error:?}"),
        }
    }

    /// The question of a call. The call has not run.
    pub async fn asked(&self, tool: &str, arguments: Value) -> Record {
        let error = self.no(tool, arguments.clone()).await;
        assert_eq!(error.code, Code::ApprovalRequired, "{tool} {arguments}: {error:?}");
        let id = error.extras.question.expect("a question").approval_id.parse().expect("an id");
        self.studio.studio.approvals.get(id).expect("a record")
    }

    /// A person is asked about a call and approves it. The call is not repeated.
    pub async fn allow(&self, tool: &str, arguments: Value) {
        let question = self.asked(tool, arguments).await;
        let studio = &self.studio.studio;
        studio.approvals.allow(studio, question.id, Yes::once("person:1000", Channel::Cli)).await.expect("it counts");
    }

    /// Makes a call that needs approval, approves it, and repeats it.
    pub async fn yes(&self, tool: &str, arguments: Value) -> Value {
        self.allow(tool, arguments.clone()).await;
        self.ok(tool, arguments).await
    }

    pub async fn no(&self, tool: &str, arguments: Value) -> ToolError {
        match self.output(tool, arguments.clone()).await {
            Ok(output) => panic!("{tool} {arguments}: {}", output.value),
            Err(error) => error,
        }
    }
}

/// Every patch tool, and whether it only reads.
pub const NAMES: [(&str, bool); 43] = [
    ("add_max_object", false),
    ("align_objects", true),
    ("assign_varnames", false),
    ("close_patch", false),
    ("connect_max_objects", false),
    ("create_patch", false),
    ("describe_object", true),
    ("diff_patch", true),
    ("disconnect_max_objects", false),
    ("edit_patch", false),
    ("encapsulate_objects", false),
    ("find_objects", true),
    ("get_avoid_rect_position", true),
    ("get_console_log", true),
    ("get_frontmost_patch", true),
    ("get_io_position", true),
    ("get_object_attribute", true),
    ("get_object_hidden", true),
    ("get_object_io_info", true),
    ("get_object_value", true),
    ("get_objects_in_patch", true),
    ("get_parent_patcher", true),
    ("get_patch_dirty", true),
    ("get_patch_info", true),
    ("get_patch_lock_state", true),
    ("get_patchlines", true),
    ("get_subpatchers", true),
    ("list_active_patches", true),
    ("list_object_types", true),
    ("open_patch", false),
    ("redo_patch", false),
    ("redraw_object", false),
    ("remove_max_object", false),
    ("render_patch", true),
    ("replace_object_text", false),
    ("save_patch", false),
    ("set_object_attribute", false),
    ("set_object_hidden", false),
    ("set_patch_lock_state", false),
    ("set_patchline_midpoints", false),
    ("suggest_alignment", true),
    ("undo_patch", false),
    ("validate_layout", true),
];

#[tokio::test]
async fn the_catalog_has_these_tools_and_no_client_loses_one() {
    let tools = PatchTools::new();
    let mut catalog = Catalog::default();
    patch::add(&mut catalog, &tools.patches).expect("sound tools");
    let found: Vec<(String, bool)> =
        catalog.list(&Toolset::All).map(|it| (it.name.to_string(), it.tier == Tier::ReadOnly)).collect();
    let wanted: Vec<(String, bool)> = NAMES.iter().map(|(name, reads)| ((*name).to_owned(), *reads)).collect();
    assert_eq!(found, wanted);
    assert_eq!(lint_catalog(&catalog), []);
    let destructive: Vec<&str> =
        catalog.tools().filter(|it| it.annotations.destructive).map(|it| it.name.as_ref()).collect();
    assert_eq!(destructive, ["close_patch", "remove_max_object"]);
    let prompts: Vec<String> = catalog.prompts(&Toolset::All).map(|it| it.name.to_string()).collect();
    assert_eq!(prompts, ["build_patch", "explain_patch", "tidy_patch"]);
}

#[tokio::test]
async fn arguments_mean_what_their_schema_says() {
    let tools = PatchTools::new();
    tools.ok("create_patch", json!({ "alias": "p" })).await;
    let add = |more: Value| {
        let mut arguments = json!({ "patch_id": "p", "obj_type": "cycle~", "position": [10, 10] });
        arguments.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        arguments
    };
    // An integer may be written as 1.0. A number in the text of an object keeps its form.
    let whole = tools.ok("add_max_object", add(json!({ "arguments": [440], "expected_revision": 1 }))).await;
    let float = tools.ok("add_max_object", add(json!({ "arguments": [440.0], "expected_revision": 2 }))).await;
    assert_eq!((&whole["text"], &float["text"]), (&json!("cycle~ 440"), &json!("cycle~ 440.")));
    tools.ok("undo_patch", json!({ "patch_id": "p", "steps": 1.0, "expected_revision": 3.0 })).await;
    let stale = tools.no("add_max_object", add(json!({ "expected_revision": -1 }))).await;
    assert_eq!(stale.code, Code::StaleReference);
    // Null is refused for an optional argument, which must be left out. Renaming to null removes
    // the name.
    assert_eq!(tools.no("add_max_object", add(json!({ "varname": null }))).await.code, Code::BadInput);
    for name in [json!("a"), Value::Null] {
        let edits = json!([{ "op": "set_varname", "varname": whole["id"], "new_varname": name }]);
        tools.ok("edit_patch", json!({ "patch_id": "p", "edits": edits })).await;
        let listed = tools.ok("get_objects_in_patch", json!({ "patch_id": "p" })).await;
        assert_eq!(listed["objects"][0].get("varname").unwrap_or(&Value::Null), &name);
    }
    // Attributes may be given as text, and keep their order.
    let comment = |attributes: &str| add(json!({ "obj_type": "comment", "attributes": attributes }));
    let made = tools.ok("add_max_object", comment("{\"textjustification\": 1, \"fontsize\": 15}")).await;
    let size = json!({ "patch_id": "p", "varname": made["id"], "attribute": "fontsize" });
    assert_eq!(tools.ok("get_object_attribute", size).await["value"], 15.0);
    for (text, fault) in [("[1]", "is not a JSON object"), ("{\"fontsize\": {}}", "a list of numbers and texts")] {
        let error = tools.no("add_max_object", comment(text)).await;
        assert!(error.code == Code::BadInput && error.message.contains(fault), "{error:?}");
    }
}

#[tokio::test]
async fn a_cord_without_an_end_has_no_points() {
    let tools = PatchTools::new();
    let line = r#"{"patchline":{"source":["obj-1",0],"destination":["obj-9",0]}}"#;
    let object = r#"{"box":{"id":"obj-1","maxclass":"button","patching_rect":[0,0,20,20]}}"#;
    tools.write("a.maxpat", &format!(r#"{{"patcher":{{"boxes":[{object}],"lines":[{line}]}}}}"#));
    let id = tools.ok("open_patch", json!({ "path": "a.maxpat" })).await["patch_id"].clone();
    let full = tools.ok("get_patchlines", json!({ "patch_id": id })).await["patchlines"][0].clone();
    assert_eq!((full.get("start_point"), &full["dangling"]), (Some(&Value::Null), &json!(true)));
    let lean = tools.ok("get_patchlines", json!({ "patch_id": id, "mode": "connections" })).await;
    assert_eq!(lean["patchlines"][0].get("start_point"), None);
}

#[tokio::test]
async fn every_tool_has_a_file() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../conductor-tools/src/patch");
    for (name, _) in NAMES {
        assert!(folder.join(format!("{name}.rs")).is_file(), "{name}");
    }
}

/// Creates a patch, edits it with every tool, saves it and opens it again.
pub async fn story(tools: &PatchTools, format: &str, host: &str) {
    let max = format == "maxpat";
    let class = |max_word: &'static str, pd_word: &'static str| if max { max_word } else { pd_word };
    macro_rules! ok {
        ($tool:literal, $($arguments:tt)+) => { tools.ok($tool, json!($($arguments)+)).await };
    }
    macro_rules! no {
        ($tool:literal, $($arguments:tt)+) => { tools.no($tool, json!($($arguments)+)).await };
    }
    assert_eq!(no!("get_frontmost_patch", {}).message, "No active patches");
    let file = format!("synth.{format}");
    let made = ok!("create_patch", { "format": format, "path": file, "group": "instruments", "host": host });
    let id = made["patch_id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("synth_") && id.len() == 10, "{id}");
    assert_eq!((&made["revision"], &made["dirty"], &made["group"]), (&json!(1), &json!(false), &json!("instruments")));
    assert!(!tools.file(&file).exists(), "the file was written before a save");
    assert_eq!(ok!("list_active_patches", { "group": "instruments" })["count"], 1);
    assert_eq!(ok!("list_active_patches", { "group": "Instruments" })["count"], 0);
    assert_eq!(ok!("get_frontmost_patch", {})["display_name"], "synth");

    let place = ok!("get_avoid_rect_position", { "patch_id": id });
    assert_eq!(place["position"], json!([50.0, 50.0]));
    let osc = class("cycle~", "osc~");
    let described = ok!("describe_object", { "text": format!("{osc} 440"), "host": if max { "max" } else { "pd" } });
    assert_eq!((&described["outlets"], &described["confidence"]), (&json!(1), &json!("exact")));
    assert!(
        ok!("list_object_types", { "host": if max { "max" } else { "pd" }, "query": "osc" })["total"].as_u64()
            >= Some(1)
    );
    let added = ok!("add_max_object", {
        "patch_id": id, "obj_type": osc, "position": [50, 50], "arguments": [440], "varname": "osc1", "expected_revision": 1
    });
    assert_eq!(
        (
            &added["status"],
            &added["success"],
            &added["obj_type"],
            &added["position"],
            &added["revision"],
            &added["varname"]
        ),
        (&json!("success"), &json!(true), &json!(osc), &json!([50.0, 50.0]), &json!(2), &json!("osc1"))
    );
    assert_eq!((&added["inlet_count"], &added["outlet_count"]), (&json!(2), &json!(1)));
    let error = no!("add_max_object", { "patch_id": id, "obj_type": "cycel~", "position": [1, 1] });
    assert_eq!(error.code, Code::BadInput);
    assert!(error.hint.contains("Did you mean"), "{}", error.hint);

    let edits = json!([
        { "op": "add", "obj_type": "*~", "position": [50, 100], "arguments": [0.1], "as": "$gain" },
        { "op": "add", "obj_type": class("ezdac~", "dac~"), "position": [50, 160], "varname": "out" },
        { "op": "connect", "src_varname": "osc1", "outlet": 0, "dst_varname": "$gain", "inlet": 0 },
        { "op": "connect", "src_varname": "$gain", "outlet": 0, "dst_varname": "out", "inlet": 0 },
    ]);
    let dry = ok!("edit_patch", { "patch_id": id, "edits": edits, "dry_run": true, "expected_revision": 2 });
    assert_eq!((&dry["revision"], &dry["dry_run"]), (&json!(2), &json!(true)));
    let real = ok!("edit_patch", { "patch_id": id, "edits": edits, "expected_revision": 2, "label": "signal path" });
    assert_eq!(real["diff"], dry["diff"]);
    assert_eq!(real["handles"], dry["handles"]);
    let gain = real["handles"]["$gain"].as_str().expect("a key").to_owned();
    let compared = ok!("diff_patch", { "patch_id": id, "against": "revision", "revision": 2 });
    assert_eq!(compared["text_diff"], real["diff"]);
    assert_eq!((&compared["added"], &compared["removed"]), (&json!(4), &json!(0)));

    // A batch whose last item is invalid changes nothing, and the error names the item.
    let error = no!("edit_patch", { "patch_id": id, "edits": [
        { "op": "remove", "varname": "osc1" }, { "op": "connect", "src_varname": "out", "outlet": 9, "dst_varname": gain, "inlet": 0 }
    ] });
    assert_eq!(error.subject.map(|it| it.as_str().to_owned()).as_deref(), Some("edits[1]"));
    assert_eq!(ok!("get_patch_info", { "patch_id": id })["object_count"], 3);
    let stale = no!("remove_max_object", { "patch_id": id, "varname": "osc1", "expected_revision": 2 });
    assert_eq!(stale.code, Code::StaleReference);

    let listed = ok!("get_objects_in_patch", { "patch_id": id });
    assert_eq!((&listed["count"], &listed["total"]), (&json!(3), &json!(3)));
    assert_eq!(listed["objects"][0]["text"], format!("{osc} 440"));
    let paged = ok!("get_objects_in_patch", { "patch_id": id, "mode": "identity", "limit": 2 });
    assert_eq!(paged["next_offset"], 2);
    assert!(paged["objects"][0].get("position").is_none());
    let named = ok!("assign_varnames", {
        "patch_id": id, "assignments": [{ "index": 1, "varname": "gain" }], "expected_revision": listed["revision"]
    });
    assert_eq!((&named["assigned"], &named["assignments"][0]["varname"]), (&json!(1), &json!("gain")));
    let raced = no!("assign_varnames", {
        "patch_id": id, "assignments": [{ "index": 0, "varname": "x" }], "expected_revision": listed["revision"]
    });
    assert_eq!(raced.code, Code::StaleReference);
    let range = no!("assign_varnames", { "patch_id": id, "assignments": [{ "index": 9, "varname": "x" }] });
    assert_eq!(range.message, "Index 9 out of range (0-2)");

    let io = ok!("get_object_io_info", { "patch_id": id, "varname": "gain" });
    assert_eq!((&io["inlet_count"], &io["outlet_count"]), (&json!(2), &json!(1)));
    let nubs = ok!("get_io_position", { "patch_id": id, "varname": "gain", "side": "inlet" });
    assert_eq!(nubs["count"], 2);
    let again = ok!("connect_max_objects", { "patch_id": id, "src_varname": "gain", "outlet": 0, "dst_varname": "out", "inlet": 1 });
    assert_eq!(again.get("already"), None);
    let twice = ok!("connect_max_objects", { "patch_id": id, "src_varname": "gain", "outlet": 0, "dst_varname": "out", "inlet": 1 });
    assert_eq!((&twice["already"], &twice["revision"]), (&json!(true), &again["revision"]));
    let error = no!("connect_max_objects", { "patch_id": id, "src_varname": "gain", "outlet": 5, "dst_varname": "out", "inlet": 0 });
    assert!(error.code == Code::BadInput && error.message.contains("outlets: 1"), "{}", error.message);
    let cords = ok!("get_patchlines", { "patch_id": id });
    assert_eq!((&cords["count"], &cords["patchlines"][0]["src_varname"]), (&json!(3), &json!("osc1")));
    assert!(cords["patchlines"][0]["start_point"]["y"].is_number());
    let lean = ok!("get_patchlines", { "patch_id": id, "mode": "connections" });
    assert!(lean["patchlines"][0].get("start_point").is_none());
    let ends = json!({ "patch_id": id, "src_varname": "gain", "outlet": 0, "dst_varname": "out", "inlet": 1 });
    let mut fold = ends.clone();
    fold["midpoints"] = json!([{ "x": 120, "y": 130 }]);
    if max {
        assert_eq!(tools.ok("set_patchline_midpoints", fold).await["num_midpoints"], 1);
    } else {
        assert_eq!(tools.no("set_patchline_midpoints", fold).await.code, Code::Unsupported);
    }
    tools.ok("disconnect_max_objects", ends.clone()).await;
    assert_eq!(tools.no("disconnect_max_objects", ends).await.code, Code::NotFound);

    let replaced = ok!("replace_object_text", { "patch_id": id, "varname": "osc1", "new_text": format!("{osc} 880") });
    assert_eq!((&replaced["old_text"], &replaced["reconnected"]), (&json!(format!("{osc} 440")), &json!(1)));
    assert_eq!(replaced["dropped"], json!([]));
    let hide = json!({ "patch_id": id, "varname": "osc1", "hidden": true });
    if max {
        assert_eq!(tools.ok("set_object_hidden", hide).await["hidden"], true);
        assert_eq!(ok!("get_object_hidden", { "patch_id": id, "varname": "osc1" })["hidden"], true);
        let set =
            ok!("set_object_attribute", { "patch_id": id, "varname": "osc1", "attribute": "fontsize", "value": 14 });
        assert_eq!((&set["stored_in"], &set["value"]), (&json!("box"), &json!(14.0)));
        let got = ok!("get_object_attribute", { "patch_id": id, "varname": "osc1", "attribute": "fontsize" });
        assert_eq!(got["value"], 14.0);
        let wrong =
            no!("set_object_attribute", { "patch_id": id, "varname": "osc1", "attribute": "fontzize", "value": 14 });
        assert_eq!(wrong.code, Code::BadInput);
    } else {
        assert_eq!(tools.no("set_object_hidden", hide).await.code, Code::Unsupported);
        assert_eq!(ok!("get_object_hidden", { "patch_id": id, "varname": "osc1" })["hidden"], false);
        let set = ok!("set_object_attribute", { "patch_id": id, "varname": "out", "attribute": "width", "value": 9 });
        assert_eq!(set["value"], 9);
        let got = ok!("get_object_attribute", { "patch_id": id, "varname": "out", "attribute": "width" });
        assert_eq!(got["value"], 9);
        let wrong = no!("set_object_attribute", { "patch_id": id, "varname": "out", "attribute": "widht", "value": 9 });
        assert_eq!(wrong.code, Code::BadInput);
    }
    let drawn = ok!("redraw_object", { "patch_id": id, "varname": "osc1" });
    assert_eq!(drawn["effect"], if host == "document" { "none_document" } else { "host_redraw" });
    assert_eq!(no!("get_object_value", { "patch_id": id, "varname": "osc1" }).code, Code::Unsupported);
    let note = ok!("add_max_object", { "patch_id": id, "obj_type": "message", "position": [300, 50], "arguments": ["hello", 1] });
    if max {
        let value = ok!("get_object_value", { "patch_id": id, "varname": note["id"] });
        assert_eq!((&value["value"], &value["basis"]), (&json!("hello 1"), &json!("stored")));
    } else {
        // A file stores the value of a slider but not of a number box. A running Pd reports the
        // number but not the slider.
        ok!("edit_patch", { "patch_id": id, "edits": [
            { "op": "add", "obj_type": "hsl", "position": [300, 90], "varname": "fader" },
            { "op": "add", "obj_type": "number", "position": [300, 130], "varname": "num" },
        ] });
        for (varname, knows, basis) in [("fader", "document", "stored"), ("num", "pd", "live")] {
            let value = tools.output("get_object_value", json!({ "patch_id": id, "varname": varname })).await;
            match value {
                Ok(value) => {
                    assert_eq!(host, knows, "{value:?}");
                    assert_eq!((&value.value["value"], &value.value["basis"]), (&json!(0), &json!(basis)));
                }
                Err(none) => {
                    assert_ne!(host, knows, "{none:?}");
                    assert!(
                        none.code == Code::Unsupported && none.message.contains("has no value on this host"),
                        "{none:?}"
                    );
                }
            }
        }
        let text = tools.output("get_object_value", json!({ "patch_id": id, "varname": note["id"] })).await;
        match text {
            Ok(text) => assert_eq!((host, &text.value["value"]), ("pd", &json!("hello 1"))),
            Err(none) => assert_eq!((host, none.code), ("document", Code::Unsupported)),
        }
    }

    ok!("set_patch_lock_state", { "patch_id": id, "locked": true });
    let lock = ok!("get_patch_lock_state", { "patch_id": id });
    assert_eq!((&lock["locked"], &lock["presentation"]), (&json!(true), &json!(false)));
    ok!("set_patch_lock_state", { "patch_id": id, "locked": false });
    let check = ok!("validate_layout", { "patch_id": id });
    assert_eq!(check["clean"], true, "{check}");
    let aligned = ok!("align_objects", { "patch_id": id, "varnames": ["osc1", note["id"]], "mode": "align_left" });
    assert_eq!(aligned["moves"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        no!("align_objects", { "patch_id": id, "varnames": ["osc1"], "mode": "align_left" }).code,
        Code::BadInput
    );
    let hint = ok!("suggest_alignment", {
        "patch_id": id, "adjust": "left", "anchor": { "varname": "osc1", "side": "outlet", "index": 0 },
        "target": { "varname": "gain", "side": "inlet", "index": 1 }
    });
    assert!(hint["recommended_patching_rect"][0].as_f64() < Some(50.0), "{hint}");
    let found = ok!("find_objects", { "patch_id": id, "class": "*~" });
    assert_eq!((&found["count"], &found["matches"][0]["varname"]), (&json!(1), &json!("gain")));

    let boxed = ok!("encapsulate_objects", { "patch_id": id, "varnames": ["gain"], "name": "amp", "varname": "amp" });
    let inner = boxed["subpatch_id"].as_str().expect("an id").to_owned();
    assert_eq!(
        (boxed["inlets"].as_array().map(Vec::len), boxed["outlets"].as_array().map(Vec::len)),
        (Some(1), Some(1))
    );
    assert_eq!(ok!("get_subpatchers", { "patch_id": id })["subpatchers"][0]["patch_id"], inner);
    assert_eq!(ok!("get_parent_patcher", { "patch_id": inner })["parent_id"], id);
    assert_eq!(no!("get_parent_patcher", { "patch_id": id }).message, "No parent patcher (top-level patch)");
    assert_eq!(ok!("get_patch_info", { "patch_id": format!("{id}/amp") })["patch_id"], inner);
    assert_eq!(ok!("find_objects", { "patch_id": id, "class": "*~" })["matches"][0]["patch_id"], inner);

    let picture =
        tools.output("render_patch", json!({ "patch_id": id, "labels": "varname" })).await.expect("a picture");
    let [Content::Image { mime, base64 }] = picture.content.as_slice() else { panic!("{:?}", picture.content) };
    let png = base64::engine::general_purpose::STANDARD.decode(base64).expect("base64");
    assert_eq!((mime.as_str(), &png[..8]), ("image/png", b"\x89PNG\r\n\x1a\n".as_slice()));
    let width = u32::from_be_bytes(png[16..20].try_into().expect("four bytes"));
    assert_eq!(picture.value["width"], width);
    let drawn = tools.output("render_patch", json!({ "patch_id": id, "format": "svg" })).await.expect("a picture");
    let [Content::Resource { text, .. }] = drawn.content.as_slice() else { panic!("{:?}", drawn.content) };
    assert!(text.starts_with("<svg") && text.contains(osc));

    assert_eq!(ok!("get_patch_dirty", { "patch_id": id })["dirty"], true);
    assert_eq!(no!("close_patch", { "patch_id": id }).code, Code::BadInput);
    let saved = ok!("save_patch", { "patch_id": id });
    assert_eq!(saved.get("backup_path"), None);
    let first = fs::read(tools.file(&file)).expect("a file");
    assert_eq!(saved["bytes"], first.len());
    assert_eq!(ok!("get_patch_dirty", { "patch_id": id })["dirty"], false);
    assert_eq!(ok!("diff_patch", { "patch_id": id })["identical"], true);

    let removed = ok!("remove_max_object", { "patch_id": id, "varname": "osc1" });
    assert_eq!(
        (&removed["removed_patchlines"], &removed["removed"]["text"]),
        (&json!(1), &json!(format!("{osc} 880")))
    );
    assert_eq!(
        no!("get_object_io_info", { "patch_id": id, "varname": removed["removed"]["id"] }).code,
        Code::StaleReference
    );
    let undone = ok!("undo_patch", { "patch_id": id });
    assert_eq!(undone["undone"].as_array().map(Vec::len), Some(1));
    assert_eq!(ok!("get_patch_dirty", { "patch_id": id })["dirty"], false, "undo did not restore the original content");
    ok!("redo_patch", { "patch_id": id });
    let second = ok!("save_patch", { "patch_id": id });
    let backup = second["backup_path"].as_str().expect("a backup");
    assert_eq!(fs::read(backup).expect("a backup"), first);
    assert!(second["changed_lines"].as_u64() > Some(0));

    // Another program writes the file: the tool must not overwrite it.
    fs::write(tools.file(&file), b"mine").expect("written");
    ok!("undo_patch", { "patch_id": id });
    assert_eq!(no!("save_patch", { "patch_id": id }).code, Code::StaleReference);
    assert_eq!(no!("save_patch", { "patch_id": id, "overwrite": true }).code, Code::StaleReference);
    assert_eq!(fs::read(tools.file(&file)).expect("a file"), b"mine");
    fs::remove_file(tools.file(&file)).expect("removed");
    assert_eq!(
        no!("save_patch", { "patch_id": id }).code,
        Code::StaleReference,
        "a save wrote a file that another program had removed"
    );
    fs::write(tools.file(&file), b"mine").expect("written");
    let other = ok!("save_patch", { "patch_id": id, "path": format!("copy.{format}") });
    assert!(other["file_path"].as_str().is_some_and(|it| it.ends_with(&format!("copy.{format}"))));
    assert_eq!(no!("save_patch", { "patch_id": id, "path": file }).code, Code::BadInput);

    let log = ok!("get_console_log", { "patch_id": id });
    assert!(log["count"].as_u64() > Some(5) && log["logs"][0].as_str().is_some_and(|it| it.starts_with("conductor: ")));
    assert_eq!(ok!("close_patch", { "patch_id": id })["closed"], true);
    assert_eq!(no!("get_patch_info", { "patch_id": id }).code, Code::NotFound);
    let reopened = ok!("open_patch", { "path": format!("copy.{format}"), "alias": "mine", "host": host });
    assert_eq!((&reopened["patch_id"], &reopened["dirty"]), (&json!("mine"), &json!(false)));
    // The names of Pd boxes are restored from the file next to the patch.
    assert_eq!(ok!("find_objects", { "patch_id": "mine", "varname": "osc1" })["count"], 1);
    assert_eq!(ok!("open_patch", { "path": format!("copy.{format}"), "host": host })["patch_id"], "mine");
    ok!("close_patch", { "patch_id": "mine" });
}

/// The tools that a sequence leaves out: never called, or never successful. Tools that the host
/// does not support must have been refused each time, with the reason.
pub fn gaps(told: &[(String, Value)], cannot: &[&str]) -> Vec<String> {
    let tools = PatchTools::new();
    let mut catalog = Catalog::default();
    patch::add(&mut catalog, &tools.patches).expect("sound tools");
    let lacks = |name: &str| {
        let mut answers = told.iter().filter(|(tool, _)| tool == name).map(|(_, answer)| answer).peekable();
        let refused = |answer: &Value| answer["code"] == Code::Unsupported.as_str() && answer["message"] != "";
        match answers.peek() {
            None => Some(format!("{name} was not called")),
            Some(_) if cannot.contains(&name) => {
                answers.find(|it| !refused(it)).map(|it| format!("{name} must be unsupported here, but returned {it}"))
            }
            Some(_) => answers.all(|it| it.get("code").is_some()).then(|| format!("{name} never succeeded")),
        }
    };
    catalog.tools().filter_map(|tool| lacks(&tool.name)).collect()
}

/// Tools whose data a Pd file cannot store.
pub const PD_CANNOT: [&str; 2] = ["set_object_hidden", "set_patchline_midpoints"];

#[tokio::test]
async fn the_whole_set_on_a_max_document() {
    let tools = PatchTools::new();
    story(&tools, "maxpat", "document").await;
    let told = tools.told.lock().expect("whole").clone();
    assert_eq!(gaps(&told, &[]), Vec::<String>::new());
    // The check detects a missing tool, a tool that only fails, and a tool that is listed as
    // unsupported but works.
    let (name, _) = told.last().expect("no tool was called").clone();
    let without: Vec<(String, Value)> = told.iter().filter(|it| it.0 != name).cloned().collect();
    assert_eq!(gaps(&without, &[]), [format!("{name} was not called")]);
    let mut failing = without;
    failing.push((name.clone(), json!({ "code": "UNSUPPORTED", "message": "no" })));
    assert_eq!(gaps(&failing, &[]), [format!("{name} never succeeded")]);
    assert_eq!(gaps(&told, &["render_patch"]).len(), 1);
}

#[tokio::test]
async fn the_whole_set_on_a_pd_document() {
    let tools = PatchTools::new();
    story(&tools, "pd", "document").await;
    assert_eq!(gaps(&tools.told.lock().expect("whole"), &PD_CANNOT), Vec::<String>::new());
}

#[tokio::test]
async fn a_running_host_that_is_off_is_said_to_be_off() {
    let tools = PatchTools::new();
    for (host, key) in [("pd", "[patch.pd] mode"), ("max", "[patch.max] enabled")] {
        let error = tools.no("create_patch", json!({ "host": host })).await;
        assert_eq!(error.code, Code::Unsupported);
        assert!(error.message.contains(key), "{}", error.message);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn paths_lead_nowhere_but_to_patches() {
    let tools = PatchTools::new();
    tools.write("a.maxpat", r#"{"patcher":{"boxes":[],"lines":[]}}"#);
    fs::write(tools.studio.home.path().join("secret.maxpat"), "{}").expect("written");
    std::os::unix::fs::symlink(tools.studio.home.path().join("secret.maxpat"), tools.file("link.maxpat"))
        .expect("linked");
    for path in ["../secret.maxpat", "/etc/passwd", "link.maxpat", "a.txt", "~root/x.pd/../y", "x/../../secret.maxpat"]
    {
        assert_eq!(tools.no("open_patch", json!({ "path": path })).await.code, Code::Denied, "{path}");
    }
    let id = tools.ok("open_patch", json!({ "path": "a.maxpat" })).await["patch_id"].clone();
    for path in ["../out.maxpat", "/tmp/out.maxpat", "link.maxpat", "out.sh"] {
        let error = tools.no("save_patch", json!({ "patch_id": id, "path": path, "overwrite": true })).await;
        assert_eq!(error.code, Code::Denied, "{path}");
    }
    assert_eq!(tools.no("save_patch", json!({ "patch_id": id, "path": "out.pd" })).await.code, Code::BadInput);
    assert_eq!(fs::read(tools.studio.home.path().join("secret.maxpat")).expect("there"), b"{}");
    assert_eq!(tools.no("open_patch", json!({ "path": "none.pd" })).await.code, Code::NotFound);
    assert_eq!(tools.no("create_patch", json!({ "alias": "console" })).await.code, Code::BadInput);
    assert_eq!(tools.no("create_patch", json!({ "alias": "a/b" })).await.code, Code::BadInput);
}

/// Texts with a special meaning for a shell, a file system, Max, Pd, JSON or a terminal.
pub const CORPUS: [&str; 22] = [
    "; pd quit;",
    "$0",
    "\\",
    "\\;",
    "a, b",
    "\"quoted\"",
    "'; DROP TABLE boxes; --",
    "$(touch /tmp/owned)",
    "`id`",
    "../../../../etc/passwd",
    "%2e%2e%2f",
    "{\"$ref\":\"file:///etc/passwd\"}",
    "<script>alert(1)</script>",
    "#0@999999",
    "#99999999999999999999@1",
    "~1",
    "obj-1/obj-1/obj-1",
    "\u{202e}gnp.exe",
    "\u{1b}[2J",
    "a\u{0}b",
    "line\nbreak\r\n\tand tab",
    "𝕬𝖇𝖈 ñ 音",
];

#[tokio::test]
async fn no_text_in_any_argument_breaks_a_tool_or_leaves_the_document_unreadable() {
    let tools = PatchTools::new();
    for format in ["maxpat", "pd"] {
        let id =
            tools.ok("create_patch", json!({ "format": format })).await["patch_id"].as_str().expect("an id").to_owned();
        let osc = if format == "pd" { "osc~" } else { "cycle~" };
        tools
            .ok("add_max_object", json!({ "patch_id": id, "obj_type": osc, "position": [10, 10], "varname": "a" }))
            .await;
        tools
            .ok(
                "add_max_object",
                json!({ "patch_id": id, "obj_type": "message", "position": [10, 90], "varname": "b" }),
            )
            .await;
        let long = "x".repeat(300);
        for (tool, reads) in NAMES {
            for text in CORPUS.iter().copied().chain([long.as_str()]) {
                for (_, arguments) in places(&tools, tool, &id, text) {
                    let outcome = tools.output(tool, arguments.clone()).await;
                    if let Err(error) = outcome {
                        assert_ne!(error.code, Code::Internal, "{tool} {arguments}: {error:?}");
                        assert!(!error.hint.is_empty() && error.message.len() < 2000, "{tool} {arguments}: {error:?}");
                    }
                    if reads {
                        continue;
                    }
                    // Restore the two objects for the next call.
                    let _ = tools.output("undo_patch", json!({ "patch_id": id, "steps": 200 })).await;
                    let _ = tools.output("redo_patch", json!({ "patch_id": id, "steps": 2 })).await;
                    if tools.patches.ids().iter().all(|it| *it != id) {
                        panic!("{tool} {arguments} closed the patch");
                    }
                    for other in tools.patches.ids().into_iter().filter(|it| *it != id) {
                        let _ = tools.output("close_patch", json!({ "patch_id": other, "discard": true })).await;
                    }
                }
            }
        }
        // Texts that are stored in the document are read back from its bytes.
        for text in CORPUS {
            let edit = json!({ "patch_id": id, "varname": "b", "new_text": text });
            if tools.output("replace_object_text", edit).await.is_err() {
                continue;
            }
            let before = tools.ok("get_objects_in_patch", json!({ "patch_id": id })).await["objects"].clone();
            let path = format!("round.{format}");
            let saved = tools.output("save_patch", json!({ "patch_id": id, "path": path, "overwrite": true })).await;
            saved.unwrap_or_else(|error| panic!("{text:?}: {error:?}"));
            let bytes = fs::read(tools.file(&path)).expect("saved");
            let kind = conductor_patch::Format::of_name(&path).expect("a format");
            let document = conductor_patch::Document::open(bytes, kind, &conductor_patch::Limits::default());
            let document = document.unwrap_or_else(|fault| panic!("{text:?}: {fault}"));
            assert_eq!(document.root().box_count(), before.as_array().map_or(0, Vec::len), "{text:?}");
        }
    }
}

/// A valid value for an argument with this name and schema.
fn usual(name: &str, schema: &Value, id: &str) -> Value {
    let by_name = match name {
        "patch_id" => json!(id),
        "varname" | "src_varname" => json!("a"),
        "dst_varname" => json!("b"),
        "obj_type" => json!("message"),
        "position" => json!([50, 200]),
        "attribute" => json!("fontsize"),
        "value" => json!(12),
        "hidden" | "locked" => json!(false),
        "assignments" => json!([{ "index": 0, "varname": "a" }]),
        "varnames" => json!(["a", "b"]),
        "edits" => json!([{ "op": "remove", "varname": "a" }]),
        "anchor" | "target" => json!({ "varname": "a", "side": "inlet", "index": 0 }),
        _ => Value::Null,
    };
    let first = || schema["enum"].as_array().and_then(|it| it.first()).cloned();
    if let Some(only) = schema.get("const").cloned().or_else(first) {
        return only;
    }
    if !by_name.is_null() {
        return by_name;
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(0),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some(_) | None => json!("a"),
    }
}

/// Every way to put a text into a value of this schema: the place, and the whole value, valid
/// except at that place. Generated from the schema only, so that no argument is missed. Numbers and
/// flags are places too; there the text must be refused.
fn poisoned(schema: &Value, id: &str, text: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for branch in ["anyOf", "oneOf"].iter().filter_map(|it| schema.get(it)?.as_array()).flatten() {
        all.extend(poisoned(branch, id, text));
    }
    match schema["type"].as_str() {
        Some("array") => {
            let inside = poisoned(&schema["items"], id, text);
            all.extend(inside.into_iter().map(|(place, value)| (format!("/0{place}"), json!([value]))));
        }
        Some("object") => {
            let known = schema["properties"].as_object().cloned().unwrap_or_default();
            let needed: Vec<&str> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let mut sound = json!({});
            for key in needed {
                sound[key] = usual(key, &known[key], id);
            }
            for (key, inner) in &known {
                for (place, value) in poisoned(inner, id, text) {
                    let mut whole = sound.clone();
                    whole[key] = value;
                    let kind = sound["op"].as_str().map(|it| format!("({it})")).unwrap_or_default();
                    all.push((format!("{kind}/{key}{place}"), whole));
                }
            }
            if let Some(more @ Value::Object(_)) = schema.get("additionalProperties") {
                all.push(("/<key>".to_owned(), json!({ text: 1 })));
                let inside = poisoned(more, id, text);
                all.extend(
                    inside.into_iter().map(|(place, value)| (format!("/*{place}"), json!({ "fontsize": value }))),
                );
            }
        }
        Some(_) | None if all.is_empty() => all.push((String::new(), json!(text))),
        Some(_) | None => {}
    }
    all
}

/// Every place in the arguments of a tool that accepts a text, each with complete arguments that
/// contain `text` there.
pub fn places(tools: &PatchTools, tool: &str, id: &str, text: &str) -> Vec<(String, Value)> {
    let schema = tools.studio.studio.catalog().get(tool).expect("a tool").input_schema.value();
    poisoned(&schema, id, text)
}

/// `places` finds every place for a text in a schema.
#[tokio::test]
async fn no_place_for_a_text_is_forgotten() {
    let tools = PatchTools::new();
    let catalog = tools.studio.studio.catalog();
    for (tool, _) in NAMES {
        let places: BTreeSet<String> = places(&tools, tool, "p", "x").into_iter().map(|it| it.0).collect();
        let schema = catalog.get(tool).expect("a tool").input_schema.value();
        for name in schema["properties"].as_object().expect("properties").keys() {
            let at = format!("/{name}");
            assert!(places.iter().any(|it| it.starts_with(&at)), "{tool} {name}: {places:?}");
        }
    }
    let of = |tool: &str| places(&tools, tool, "p", "x").into_iter().map(|it| it.0).collect::<Vec<_>>();
    for (tool, place) in [
        ("list_active_patches", "/group"),
        ("create_patch", "/group"),
        ("undo_patch", "/steps"),
        ("edit_patch", "/label"),
        ("edit_patch", "/edits/0(set_text)/new_text"),
        ("edit_patch", "/edits/0(add)/arguments/0"),
        ("edit_patch", "/edits/0(add)/as"),
        ("add_max_object", "/attributes/<key>"),
        ("add_max_object", "/attributes"),
        ("assign_varnames", "/assignments/0/varname"),
        ("suggest_alignment", "/anchor/varname"),
        ("find_objects", "/value/0"),
        ("render_patch", "/highlight/0"),
    ] {
        assert!(of(tool).iter().any(|it| it == place), "{tool} {place}: {:?}", of(tool));
    }
}

#[tokio::test]
async fn hostile_files_are_refused_or_opened_and_never_break_anything() {
    let tools = PatchTools::with(Settings { max_file_mb: 1, ..Settings::default() });
    let deep = format!("{}{}", "{\"patcher\":{\"boxes\":[{\"box\":".repeat(200), "}]}}".repeat(200));
    let files = [
        ("empty.maxpat", String::new()),
        ("cut.maxpat", "{\"patcher\":{\"boxes\":[{\"box\":{\"id\":\"obj".to_owned()),
        ("list.maxpat", "[]".to_owned()),
        ("deep.maxpat", deep),
        ("brackets.maxpat", "[".repeat(500_000)),
        (
            "surrogate.maxpat",
            "{\"patcher\":{\"boxes\":[{\"box\":{\"id\":\"\\ud800\",\"maxclass\":\"newobj\"}}],\"lines\":[]}}"
                .to_owned(),
        ),
        (
            "types.maxpat",
            "{\"patcher\":{\"boxes\":{\"box\":1},\"lines\":[1,null,{\"patchline\":{\"source\":\"x\"}}]}}".to_owned(),
        ),
        ("noise.amxd", "ampf\u{4}\u{0}\u{0}\u{0}aaaaptch".to_owned()),
        ("open.pd", "#N canvas 0 0 1 1 12;\n#N canvas 0 0 1 1 sub 0;\n".repeat(100)),
        ("connect.pd", "#N canvas 0 0 100 100 12;\n#X obj 1 1 osc~;\n#X connect 99999999999 0 -1 0;\n".to_owned()),
        ("binary.pd", "\u{0}\u{1}\u{2};;;;\\".to_owned()),
        ("large.pd", ";".repeat((1 << 20) + 1)),
        (
            "shell.pd",
            "#N canvas 0 0 100 100 12;\n#X obj 1 1 shell;\n#X msg 1 50 touch owned;\n#X obj 1 90 loadbang;\n"
                .to_owned(),
        ),
    ];
    for (name, text) in &files {
        tools.write(name, text);
        match tools.output("open_patch", json!({ "path": name })).await {
            Err(error) => {
                assert!(matches!(error.code, Code::BadInput | Code::NotFound), "{name}: {error:?}");
                assert!(error.message.len() < 1000, "{name}");
            }
            Ok(opened) => {
                let id = opened.value["patch_id"].clone();
                for tool in [
                    "get_objects_in_patch",
                    "get_patchlines",
                    "get_subpatchers",
                    "validate_layout",
                    "render_patch",
                    "diff_patch",
                ] {
                    tools.ok(tool, json!({ "patch_id": id })).await;
                }
                assert_eq!(tools.ok("get_patch_dirty", json!({ "patch_id": id })).await["dirty"], false, "{name}");
                tools.ok("save_patch", json!({ "patch_id": id })).await;
                assert_eq!(
                    fs::read(tools.file(name)).expect("there"),
                    text.as_bytes(),
                    "{name}: saving without edits changed the file"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_abstraction_beside_the_patch_is_a_known_class() {
    let tools = PatchTools::new();
    tools.write(
        "voice.pd",
        "#N canvas 0 0 100 100 12;\n#X obj 1 1 inlet;\n#X obj 1 30 outlet~;\n#X obj 50 30 outlet;\n",
    );
    let made = tools.ok("create_patch", json!({ "format": "pd", "path": "main.pd" })).await;
    let id = made["patch_id"].clone();
    let added = tools
        .ok("add_max_object", json!({ "patch_id": id, "obj_type": "voice", "position": [10, 10], "arguments": [3] }))
        .await;
    assert_eq!((&added["inlet_count"], &added["outlet_count"]), (&json!(1), &json!(2)));
    let unknown =
        tools.no("add_max_object", json!({ "patch_id": id, "obj_type": "voyce", "position": [10, 10] })).await;
    assert_eq!(unknown.code, Code::BadInput);
    let subs = tools.ok("get_subpatchers", json!({ "patch_id": id })).await;
    assert_eq!(
        (&subs["subpatchers"][0]["type"], &subs["subpatchers"][0]["embedded"]),
        (&json!("abstraction"), &json!(false))
    );
    assert!(subs["subpatchers"][0]["file_path"].as_str().is_some_and(|it| it.ends_with("voice.pd")));
}

#[tokio::test]
async fn only_so_many_patches_are_open_and_none_with_work_in_it_is_lost() {
    let tools = PatchTools::with(Settings { max_open: 2, ..Settings::default() });
    let open = |alias: &'static str| tools.ok("create_patch", json!({ "alias": alias }));
    open("one").await;
    open("two").await;
    let edit = |id: &'static str| {
        tools.ok("add_max_object", json!({ "patch_id": id, "obj_type": "button", "position": [1, 1] }))
    };
    edit("one").await;
    open("three").await;
    assert_eq!(tools.patches.ids(), ["one", "three"], "not the least recently used patch without edits was closed");
    edit("three").await;
    assert_eq!(tools.no("create_patch", json!({})).await.code, Code::Busy);
    assert_eq!(tools.patches.ids(), ["one", "three"]);
}

#[tokio::test]
async fn watchers_hear_of_edits_and_not_of_previews() {
    let tools = PatchTools::new();
    tools.ok("create_patch", json!({ "alias": "p" })).await;
    let mut events = tools.studio.studio.events.listen(Event::is_change);
    let edits = json!([{ "op": "add", "obj_type": "button", "position": [1, 1] }]);
    tools.ok("edit_patch", json!({ "patch_id": "p", "edits": edits, "dry_run": true })).await;
    assert!(events.try_recv().is_err());
    tools.ok("edit_patch", json!({ "patch_id": "p", "edits": edits })).await;
    let mut heard = BTreeSet::new();
    while let Ok(Event::Changed(change)) = events.try_recv() {
        heard.insert(change);
    }
    for uri in ["patch://p", "patch://p/objects", "patch://console"] {
        assert!(heard.contains(&Change::Uri(uri.into())), "{uri}: {heard:?}");
    }
}

#[tokio::test]
async fn the_console_of_one_principal_is_not_cleared_by_another() {
    let tools = PatchTools::new();
    tools.ok("create_patch", json!({ "alias": "p" })).await;
    tools.ok("add_max_object", json!({ "patch_id": "p", "obj_type": "button", "position": [1, 1] })).await;
    tools.ok("get_console_log", json!({ "clear": true })).await;
    assert_eq!(tools.ok("get_console_log", json!({})).await["count"], 0);
    let call = Call::new(principal("other"), "get_console_log", json!({}));
    let Outcome::Done(Ok(seen)) = pipeline::run(&tools.studio.studio, call).await.into_outcome() else {
        panic!("the call was refused")
    };
    assert_eq!(seen.value["count"], 1);
}

#[tokio::test]
async fn readers_and_writers_at_once_see_whole_revisions() {
    let tools = Arc::new(PatchTools::new());
    tools.ok("create_patch", json!({ "alias": "p" })).await;
    let mut work = tokio::task::JoinSet::new();
    for n in 0..8 {
        let tools = Arc::clone(&tools);
        work.spawn(async move {
            for m in 0..10 {
                let edits = json!([
                    { "op": "add", "obj_type": "button", "position": [n * 40, m * 40], "as": "$a" },
                    { "op": "add", "obj_type": "button", "position": [n * 40, m * 40 + 20], "as": "$b" },
                    { "op": "connect", "src_varname": "$a", "outlet": 0, "dst_varname": "$b", "inlet": 0 },
                ]);
                tools.ok("edit_patch", json!({ "patch_id": "p", "edits": edits })).await;
                let info = tools.ok("get_patch_info", json!({ "patch_id": "p" })).await;
                let (boxes, cords) = (info["object_count"].as_u64(), info["patchline_count"].as_u64());
                assert_eq!(boxes, cords.map(|it| it * 2), "a part of a batch was visible");
            }
        });
    }
    while let Some(done) = work.join_next().await {
        done.expect("a task panicked");
    }
    assert_eq!(tools.ok("get_patch_info", json!({ "patch_id": "p" })).await["revision"], 81);
}

#[tokio::test]
async fn the_demo_patch_is_laid_out_once_and_is_sound() {
    let tools = PatchTools::new();
    let home = Home::at(tools.studio.home.path());
    assert!(demo::show_patch(&tools.studio.studio, &home).await.expect("a folder"));
    let info = tools.ok("get_patch_info", json!({ "patch_id": "demo" })).await;
    assert_eq!(
        (&info["object_count"], &info["patchline_count"], &info["dirty"]),
        (&json!(5), &json!(4), &json!(false))
    );
    assert_eq!(tools.ok("validate_layout", json!({ "patch_id": "demo" })).await["clean"], true);
    let found = tools.ok("open_patch", json!({ "path": "demo.maxpat" })).await;
    assert_eq!(found["diagnostics"], json!([]));
    // Edits of the person are kept at the next start.
    tools.ok("remove_max_object", json!({ "patch_id": "demo", "varname": "freq" })).await;
    tools.ok("save_patch", json!({ "patch_id": "demo" })).await;
    assert!(demo::show_patch(&tools.studio.studio, &home).await.expect("a folder"));
    assert_eq!(tools.ok("get_patch_info", json!({ "patch_id": "demo" })).await["object_count"], 4);
}

#[tokio::test]
async fn a_box_whose_key_holds_a_slash_can_be_reached() {
    let tools = PatchTools::new();
    let file = r#"{"patcher":{"boxes":[{"box":{"id":"a/b","maxclass":"newobj","text":"p x","patching_rect":[0.0,0.0,50.0,22.0],"patcher":{"boxes":[{"box":{"id":"50%","maxclass":"newobj","text":"p y","patching_rect":[0.0,0.0,50.0,22.0],"patcher":{"boxes":[],"lines":[]}}}],"lines":[]}}}],"lines":[]}}"#;
    tools.write("odd.maxpat", file);
    tools.ok("open_patch", json!({ "path": "odd.maxpat", "alias": "o" })).await;
    let listed = tools.ok("get_subpatchers", json!({ "patch_id": "o", "recursive": true })).await;
    let ids: Vec<&str> =
        listed["subpatchers"].as_array().expect("rows").iter().filter_map(|it| it["patch_id"].as_str()).collect();
    assert_eq!(ids, ["o/~1", "o/~1/50%"]);
    for id in ids {
        let made =
            tools.ok("add_max_object", json!({ "patch_id": id, "obj_type": "button", "position": [9, 90] })).await;
        assert_eq!(made["patch_id"], id);
    }
    // The box's id in the file is not valid in a path of keys, so the box has a generated key.
    assert_eq!(tools.ok("get_object_io_info", json!({ "patch_id": "o", "varname": "~1" })).await["varname"], "~1");
    assert_eq!(tools.ok("get_patch_info", json!({ "patch_id": "o/x" })).await["patch_id"], "o/~1");
    assert_eq!(tools.ok("get_parent_patcher", json!({ "patch_id": "o/~1/50%" })).await["parent_id"], "o/~1");
}

#[tokio::test]
async fn the_console_gives_fifty_lines_unless_another_number_is_asked_for() {
    let tools = PatchTools::new();
    tools.write("a.maxpat", demo::PATCH);
    let id = tools.ok("open_patch", json!({ "path": "a.maxpat" })).await["patch_id"].clone();
    for n in 0..70 {
        let made = json!({ "patch_id": id, "obj_type": "button", "position": [n, n] });
        tools.ok("add_max_object", made).await;
    }
    let count = async |arguments: Value| {
        let log = tools.ok("get_console_log", arguments).await;
        assert_eq!(log["logs"].as_array().map(|it| json!(it.len())), Some(log["count"].clone()), "{log}");
        log["count"].as_u64().unwrap_or_default()
    };
    assert_eq!(count(json!({})).await, 50, "the default number of lines is not 50");
    assert_eq!(count(json!({ "lines": 7 })).await, 7);
    assert!(count(json!({ "lines": 1000 })).await >= 70, "some lines were dropped");
    // The newest lines are returned.
    let (few, all) =
        (tools.ok("get_console_log", json!({})).await, tools.ok("get_console_log", json!({ "lines": 1000 })).await);
    let last = |log: &Value| log["logs"].as_array().and_then(|it| it.last().cloned());
    assert_eq!(last(&few), last(&all));
}
