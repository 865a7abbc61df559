//! A running Pure Data can read files, write files and open connections. A model that may edit a
//! patch must not be able to cause such effects without a person's approval.

use crate::rig::{Model, Rig, settle};
use conductor_testkit::real::pd;
use conductor_testkit::require;
use serde_json::{Value, json};

const PD: &str = "[patch.pd]\nmode = \"spawn\"\naudio = \"off\"\n";

/// Classes and messages. Each message does harm if a loadbang sends it to an object of its class.
fn harms(rig: &Rig) -> Vec<(&'static str, String)> {
    let outside = rig.outside.path().display();
    let home = rig.studio.home().display();
    let rules = "clear \\, add [[policy.rules]] \\, add decision = \"allow\" \\, write";
    vec![
        ("textfile", format!("{rules} ../config.toml cr")),
        ("textfile", format!("{rules} {home}/config.toml cr")),
        ("textfile", format!("clear \\, add x \\, write {outside}/new.txt")),
        ("text define t", format!("clear \\, write {outside}/new.txt")),
        ("array define a", format!("write {outside}/new.txt")),
        ("soundfiler", format!("write -wave {outside}/new.wav a")),
        ("netsend", format!("connect 127.0.0.1 {} \\, send hi", rig.trap.tcp)),
        ("netsend -u", format!("connect 127.0.0.1 {} \\, send hi", rig.trap.udp)),
        ("send pd", format!("open evil.pd {outside}")),
        ("qlist", format!("clear \\, add x \\, write {outside}/new.txt")),
    ]
}

fn patch(class: &str, message: &str) -> String {
    format!(
        "#N canvas 0 0 400 300 10;\n#X obj 10 10 loadbang;\n#X msg 10 40 {message};\n#X obj 10 70 {class};\n#X connect 0 0 1 0;\n#X connect 1 0 2 0;\n"
    )
}

fn edits(class: &str, message: &str) -> Value {
    let mut words = class.split(' ');
    let (name, arguments) = (words.next(), words.collect::<Vec<_>>());
    json!([
        { "op": "add", "obj_type": "loadbang", "position": [10, 10], "varname": "start" },
        { "op": "add", "obj_type": "message", "position": [10, 40], "varname": "say" },
        { "op": "set_text", "varname": "say", "new_text": message.replace(" \\,", ",") },
        { "op": "add", "obj_type": name, "arguments": arguments, "position": [10, 70], "varname": "do", "allow_unknown": true },
        { "op": "connect", "src_varname": "start", "outlet": 0, "dst_varname": "say", "inlet": 0 },
        { "op": "connect", "src_varname": "say", "outlet": 0, "dst_varname": "do", "inlet": 0 },
    ])
}

/// The model writes the file with its own tool and then opens it.
#[test]
fn a_patch_that_is_opened_does_no_harm() {
    require!(pd::probe());
    let rig = Rig::start(PD);
    let mut model = rig.model();
    for (index, (class, message)) in harms(&rig).into_iter().enumerate() {
        let file = rig.studio.home().join(format!("patches/harm{index}.pd"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, patch(class, &message)).unwrap();
        let _ = model.call("open_patch", json!({ "path": format!("harm{index}.pd"), "host": "pd" }));
    }
    drop(model);
    settle(&rig);
    rig.assert_unharmed();
}

/// The model builds the harmful boxes in a running patch, undoes and redoes the edits, saves the
/// patch and opens it again.
#[test]
fn a_patch_that_is_edited_while_it_runs_does_no_harm() {
    require!(pd::probe());
    let rig = Rig::start(PD);
    let mut model = rig.model();
    for (index, (class, message)) in harms(&rig).into_iter().enumerate() {
        let id = running(&mut model).expect("an empty patch does not run, or needs an approval");
        let _ = model.call("edit_patch", json!({ "patch_id": id, "edits": edits(class, &message) }));
        let _ = model.call("undo_patch", json!({ "patch_id": id }));
        let _ = model.call("redo_patch", json!({ "patch_id": id }));
        for edit in edits(class, &message).as_array().unwrap() {
            let mut one = edit.clone();
            let op = one.as_object_mut().unwrap().remove("op").unwrap();
            one["patch_id"] = json!(id);
            let tool = match op.as_str() {
                Some("add") => "add_max_object",
                Some("set_text") => "replace_object_text",
                _ => "connect_max_objects",
            };
            let _ = model.call(tool, one);
        }
        // Change a harmless box to a harmful one.
        let mild = json!({ "patch_id": id, "obj_type": "float", "position": [200, 10], "varname": "mild" });
        let _ = model.call("add_max_object", mild);
        let _ = model.call("replace_object_text", json!({ "patch_id": id, "varname": "mild", "new_text": class }));
        let path = format!("edited{index}.pd");
        let _ = model.call("save_patch", json!({ "patch_id": id, "path": path }));
        let _ = model.call("close_patch", json!({ "patch_id": id }));
        let _ = model.call("open_patch", json!({ "path": path, "host": "pd" }));
    }
    drop(model);
    settle(&rig);
    rig.assert_unharmed();
}

/// Document tools write the patch, then opening it on host `pd` runs it.
#[test]
fn a_document_that_is_saved_and_then_run_does_no_harm() {
    require!(pd::probe());
    let rig = Rig::start(PD);
    let mut model = rig.model();
    // In a document, the ports of `define` are unknown, so no cord can be drawn to it.
    let drawn = harms(&rig).into_iter().filter(|(class, _)| !class.contains("define"));
    for (index, (class, message)) in drawn.enumerate() {
        let made = model.call("create_patch", json!({ "format": "pd", "host": "document" }));
        let id = made["patch_id"].as_str().unwrap().to_owned();
        let built = model.call("edit_patch", json!({ "patch_id": id, "edits": edits(class, &message) }));
        assert!(built["code"].is_null(), "{class}: an edit of a document was refused: {built}");
        let saved = model.call("save_patch", json!({ "patch_id": id, "path": format!("saved{index}.pd") }));
        assert!(saved["code"].is_null(), "{class}: the document could not be saved: {saved}");
        let _ = model.call("close_patch", json!({ "patch_id": id }));
        let _ = model.call("open_patch", json!({ "path": format!("saved{index}.pd"), "host": "pd" }));
    }
    drop(model);
    settle(&rig);
    rig.assert_unharmed();
}

/// A harmless patch uses an abstraction; the model saves the abstraction's file afterwards.
#[test]
fn an_abstraction_that_changes_under_a_running_patch_does_no_harm() {
    require!(pd::probe());
    let rig = Rig::start(PD);
    let mut model = rig.model();
    let folder = rig.studio.home().join("patches");
    std::fs::create_dir_all(&folder).unwrap();
    for user in ["user.pd", "later.pd"] {
        std::fs::write(folder.join(user), "#N canvas 0 0 400 300 10;\n#X obj 10 10 inner;\n").unwrap();
    }
    std::fs::write(folder.join("inner.pd"), "#N canvas 0 0 400 300 10;\n#X obj 10 10 f;\n").unwrap();
    let _ = model.call("open_patch", json!({ "path": "user.pd", "host": "pd" }));
    let (class, message) = harms(&rig).remove(2);
    let opened = model.call("open_patch", json!({ "path": "inner.pd", "host": "document" }));
    if let Some(id) = opened["patch_id"].as_str() {
        let _ = model.call("edit_patch", json!({ "patch_id": id, "edits": edits(class, &message) }));
        let _ = model.call("save_patch", json!({ "patch_id": id }));
    }
    // A box that is created after the file changed would run the new file.
    let _ = model.call("open_patch", json!({ "path": "later.pd", "host": "pd" }));
    if let Some(id) = running(&mut model) {
        let _ = model.call("add_max_object", json!({ "patch_id": id, "obj_type": "inner", "position": [10, 10] }));
    }
    drop(model);
    settle(&rig);
    rig.assert_unharmed();
}

/// Ordinary edits of a running patch need no approval.
#[test]
fn pure_edits_of_a_running_patch_ask_nothing() {
    require!(pd::probe());
    let rig = Rig::start(PD);
    let mut model = rig.model();
    let id = running(&mut model).expect("an empty patch does not run, or needs an approval");
    let pure = json!([
        { "op": "add", "obj_type": "osc~", "arguments": [440], "position": [10, 10], "varname": "osc" },
        { "op": "add", "obj_type": "*~", "arguments": [0.1], "position": [10, 40], "varname": "gain" },
        { "op": "connect", "src_varname": "osc", "outlet": 0, "dst_varname": "gain", "inlet": 0 },
    ]);
    let edited = model.call("edit_patch", json!({ "patch_id": id, "edits": pure }));
    assert!(edited["code"].is_null(), "{edited}");
    let replaced =
        model.call("replace_object_text", json!({ "patch_id": id, "varname": "osc", "new_text": "osc~ 220" }));
    assert!(replaced["code"].is_null(), "{replaced}");
    drop(model);
    rig.assert_unharmed();
}

fn running(model: &mut Model) -> Option<String> {
    let made = model.call("create_patch", json!({ "format": "pd", "host": "pd" }));
    made["patch_id"].as_str().map(str::to_owned)
}
