//! The edits that a running Pure Data may receive without a person's approval, and those that it
//! may not. The last tests are about documents: losses, roots, nesting, cords and attributes.

use super::patch_pd::PdStage;
use super::patch_tools::PatchTools;
use conductor_core::config::PdAudio;
use conductor_core::error::Code;
use conductor_core::pending::{State, Yes};
use conductor_core::policy::{ApprovalSettings, Channel, Decision, Floor, Policy, Rule, Tier};
use conductor_hosts::patch::Settings;
use conductor_hosts::patch::knobs::Knob;
use conductor_hosts::pd::sandbox::Kept;
use conductor_testkit::real::{PATIENCE, pd, wait_for};
use conductor_testkit::require;
use serde_json::{Value, json};
use std::net::TcpListener;

const HEAD: &str = "#N canvas 0 50 450 300 12;\n";

/// A policy that allows everything and accepts answers from the client's dialog. No rule may remove
/// the need for a local approval.
fn careless() -> Policy {
    Policy {
        rules: vec![Rule { decision: Some(Decision::Allow), ..Rule::default() }],
        approval: ApprovalSettings { client_tiers: Tier::ALL.to_vec(), ..ApprovalSettings::default() },
        ..Policy::default()
    }
}

fn stage() -> PdStage {
    PdStage::on(PatchTools::under(careless(), Settings::default()))
}

fn add(class: &str, y: u32, name: &str) -> Value {
    json!({ "op": "add", "obj_type": class, "position": [50, y], "varname": name })
}

fn message(text: &str, y: u32, name: &str) -> Value {
    json!({ "op": "add", "obj_type": "message", "arguments": [text], "position": [50, y], "varname": name })
}

fn cord(from: &str, to: &str) -> Value {
    json!({ "op": "connect", "src_varname": from, "outlet": 0, "dst_varname": to, "inlet": 0 })
}

fn fact(record: &conductor_core::pending::Record, label: &str) -> String {
    record.facts.iter().find(|it| it.label == label).map(|it| it.text.clone()).unwrap_or_default()
}

/// A port of this machine that counts connections.
struct Port(TcpListener);

impl Port {
    fn new() -> Port {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        Port(listener)
    }

    fn number(&self) -> u16 {
        self.0.local_addr().expect("an address").port()
    }

    fn is_dialled(&self) -> bool {
        self.0.accept().is_ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_patch_that_writes_a_file_asks_and_nothing_runs_before_the_yes() {
    require!(pd::probe());
    let stage = stage();
    let tools = &stage.tools;
    // Create the patch as a document, where nothing runs and no approval is needed.
    tools.ok("create_patch", json!({ "format": "pd", "path": "x.pd", "alias": "x" })).await;
    let order = "clear, add [[policy.rules]], add decision = allow, write out.txt cr";
    let edits = json!([
        add("loadbang", 10, "go"),
        add("textfile", 90, "file"),
        message(order, 50, "order"),
        cord("go", "order"),
        cord("order", "file"),
    ]);
    tools.ok("edit_patch", json!({ "patch_id": "x", "edits": edits })).await;
    tools.ok("save_patch", json!({ "patch_id": "x" })).await;
    tools.ok("close_patch", json!({ "patch_id": "x" })).await;

    let arguments = json!({ "path": "x.pd", "host": "pd", "alias": "run" });
    let question = tools.asked("open_patch", arguments.clone()).await;
    assert!(stage.pd.pid().is_none() && !tools.file("out.txt").exists(), "something ran before the approval");
    assert_eq!(question.channel_floor, Floor::Local);
    let boxes = fact(&question, "reaches");
    assert!(boxes.contains("[textfile]: writes files, reads files"), "{boxes}");
    assert!(boxes.contains("write out.txt cr") && fact(&question, "driven by").contains("loadbang"), "{question:?}");
    assert!(
        fact(&question, "patch").contains("x.pd") && fact(&question, "runs in").contains("Pure Data"),
        "{question:?}"
    );
    // The question describes exactly the limits that this kernel enforces.
    let limits = fact(&question, "limits");
    assert_eq!(limits, Kept::here(PdAudio::Off).sentence());
    assert_eq!(limits.contains("cannot use other files or start programs"), Kept::here(PdAudio::Off).paths, "{limits}");
    // An answer from the client's own dialog is refused.
    let studio = &tools.studio.studio;
    let client = Yes::once("socket:1000/demo", Channel::Client);
    assert!(studio.approvals.allow(studio, question.id, client).await.is_err());
    // An approval for one content is not valid for another.
    studio.approvals.allow(studio, question.id, Yes::once("person:1000", Channel::Cli)).await.expect("it counts");
    let file = std::fs::read_to_string(tools.file("x.pd")).expect("saved");
    tools.write("x.pd", &file.replace("out.txt", "other.txt"));
    assert_eq!(tools.no("open_patch", arguments.clone()).await.code, Code::PlanStale);
    tools.write("x.pd", &file);
    assert!(stage.pd.pid().is_none() && !tools.file("other.txt").exists());
    tools.yes("open_patch", arguments).await;
    assert!(
        wait_for(PATIENCE, || tools.file("out.txt").exists().then_some(())).is_some(),
        "the approved patch did not run"
    );
    // The approval stays valid for the same content.
    tools.ok("close_patch", json!({ "patch_id": "run" })).await;
    tools.ok("open_patch", json!({ "path": "x.pd", "host": "pd", "alias": "again" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pure_edits_ask_nobody() {
    require!(pd::probe());
    // With the default policy, no call here may need approval.
    let stage = PdStage::new();
    let id = stage.create().await;
    let edits = json!([
        add("metro 500", 10, "m"),
        add("osc~ 440", 40, "o"),
        add("dac~", 90, "out"),
        add("r gain", 10, "r"),
        add("s gain", 60, "s"),
        add("hsl", 120, "h"),
        add("pd sub", 150, "sub"),
        message("set 3, bang", 200, "msg"),
        add("expr $f1 * 2", 220, "e"),
        add("delread~ d 10", 240, "dr"),
        add("delwrite~ d 100", 260, "dw"),
        add("print", 280, "p"),
        add("oscparse", 300, "osc"),
        cord("m", "msg"),
        cord("o", "out"),
        cord("h", "s"),
    ]);
    stage.edit(&id, edits).await;
    let tools = &stage.tools;
    tools.ok("replace_object_text", json!({ "patch_id": id, "varname": "o", "new_text": "osc~ 330" })).await;
    tools
        .ok("set_object_attribute", json!({ "patch_id": id, "varname": "h", "attribute": "maximum", "value": 1 }))
        .await;
    tools.ok("encapsulate_objects", json!({ "patch_id": id, "varnames": ["o", "m"], "name": "boxed" })).await;
    tools.ok("undo_patch", json!({ "patch_id": id, "steps": 3 })).await;
    tools.ok("redo_patch", json!({ "patch_id": id, "steps": 3 })).await;
    tools.ok("save_patch", json!({ "patch_id": id, "path": "pure.pd" })).await;
    tools.ok("close_patch", json!({ "patch_id": id })).await;
    tools.ok("open_patch", json!({ "path": "pure.pd", "host": "pd" })).await;
    assert_eq!(tools.studio.studio.approvals.store().read(|it| it.iter().count()), 0, "a person was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_a_box_that_reaches_asks() {
    require!(pd::probe());
    let stage = stage();
    let tools = &stage.tools;
    let port = Port::new();
    tools.write("voice.pd", &format!("{HEAD}#X obj 10 10 inlet;\n"));
    tools.ok("create_patch", json!({ "host": "pd", "format": "pd", "path": "p.pd", "alias": "p" })).await;
    let pure = json!([
        add("loadbang", 10, "go"),
        add("bng", 30, "b"),
        message("foo 1", 60, "m"),
        add("f", 90, "f"),
        add("r here", 100, "r"),
        add("s here", 110, "s"),
        add("hsl", 120, "h"),
        add("pd sub", 140, "sub"),
        add("list trim", 160, "trim"),
    ]);
    tools.ok("edit_patch", json!({ "patch_id": "p", "edits": pure })).await;
    let dial = format!("connect 127.0.0.1 {}", port.number());
    let batch =
        json!([add("netsend", 200, "net"), message(&dial, 170, "dial"), cord("dial", "net"), cord("go", "dial")]);
    let ways: Vec<(&str, Value)> = vec![
        ("add_max_object", json!({ "obj_type": "netsend", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "textfile", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "voice", "position": [1, 1], "allow_unknown": true })),
        ("add_max_object", json!({ "obj_type": "clone voice 2", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "send", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "s pd", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "s pd-p.pd", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "s elsewhere", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "s $0-here", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "message", "arguments": ["; pd quit"], "position": [1, 1] })),
        (
            "add_max_object",
            json!({ "obj_type": "message", "arguments": ["set, addsemi, add2 pd quit"], "position": [1, 1] }),
        ),
        ("add_max_object", json!({ "obj_type": "message", "arguments": ["send pd"], "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "makefilename %s", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "hsl", "position": [1, 1], "attributes": { "send": "pd" } })),
        ("add_max_object", json!({ "obj_type": "noteout", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "key", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "adc~", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "expr tab[0] = $f1", "position": [1, 1] })),
        ("add_max_object", json!({ "obj_type": "r #key", "position": [1, 1] })),
        ("replace_object_text", json!({ "varname": "f", "new_text": "netsend" })),
        ("replace_object_text", json!({ "varname": "m", "new_text": "; pd quit" })),
        ("replace_object_text", json!({ "varname": "s", "new_text": "s pd" })),
        ("replace_object_text", json!({ "varname": "r", "new_text": "r other" })),
        ("set_object_attribute", json!({ "varname": "h", "attribute": "send", "value": "pd" })),
        ("remove_max_object", json!({ "varname": "r" })),
        ("edit_patch", json!({ "edits": batch })),
        (
            "edit_patch",
            json!({ "edits": [add("osc~", 1, "pure"), { "op": "set_text", "varname": "m", "new_text": "; pd dsp 1" }] }),
        ),
    ];
    for (tool, mut arguments) in ways {
        arguments["patch_id"] = json!("p");
        let question = tools.asked(tool, arguments.clone()).await;
        assert!(fact(&question, "reaches").contains("new or changed"), "{tool} {arguments}: {question:?}");
        let studio = &tools.studio.studio;
        // Deny the question, so that the next one can be asked.
        studio.approvals.deny(studio, question.id, "person:1000", Channel::Cli).await.expect("a no");
        tools.studio.time.advance(std::time::Duration::from_secs(60));
    }
    // Such an edit needs approval inside a subpatch too.
    let inner = json!({ "patch_id": "p/sub", "edits": [add("netsend", 10, "n")] });
    tools.asked("edit_patch", inner).await;
    assert_eq!(
        tools.ok("get_patch_info", json!({ "patch_id": "p" })).await["revision"],
        2,
        "a refused edit changed the patch"
    );
    tools.patches.reconcile("p").expect("Pd answers");
    assert!(!port.is_dialled(), "a connection was opened");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_upstream_of_a_box_that_reaches_is_part_of_it() {
    require!(pd::probe());
    let stage = stage();
    let tools = &stage.tools;
    tools.ok("create_patch", json!({ "host": "pd", "format": "pd", "path": "p.pd", "alias": "p" })).await;
    let edits = json!([
        add("bng", 10, "b"),
        message("clear", 40, "m"),
        add("textfile", 90, "file"),
        cord("b", "m"),
        cord("m", "file"),
        add("r order", 200, "r"),
        cord("r", "file"),
        add("pd sub", 300, "sub"),
        add("osc~ 440", 400, "o"),
        message("bang", 420, "free"),
    ]);
    tools.yes("edit_patch", json!({ "patch_id": "p", "edits": edits })).await;
    // Edits that cannot send to the approved box `file` need no approval.
    tools.ok("replace_object_text", json!({ "patch_id": "p", "varname": "o", "new_text": "osc~ 220" })).await;
    tools
        .ok(
            "edit_patch",
            json!({ "patch_id": "p", "edits": [{ "op": "move", "varname": "file", "position": [9, 9] }] }),
        )
        .await;
    tools.ok(
        "edit_patch",
        json!({ "patch_id": "p/sub", "edits": [add("metro", 10, "x"), add("outlet", 90, "out"), cord("x", "out")] }),
    )
    .await;
    let out = tools.file("stolen.txt");
    let write = format!("write {} cr, bang", out.display());
    let upstream: Vec<(&str, Value)> = vec![
        ("replace_object_text", json!({ "patch_id": "p", "varname": "m", "new_text": write })),
        (
            "connect_max_objects",
            json!({ "patch_id": "p", "src_varname": "free", "outlet": 0, "dst_varname": "file", "inlet": 0 }),
        ),
        (
            "connect_max_objects",
            json!({ "patch_id": "p", "src_varname": "sub", "outlet": 0, "dst_varname": "m", "inlet": 0 }),
        ),
        ("add_max_object", json!({ "patch_id": "p", "obj_type": "s order", "position": [1, 1] })),
        (
            "disconnect_max_objects",
            json!({ "patch_id": "p", "src_varname": "b", "outlet": 0, "dst_varname": "m", "inlet": 0 }),
        ),
        ("encapsulate_objects", json!({ "patch_id": "p", "varnames": ["m"], "name": "boxed" })),
        ("edit_patch", json!({ "patch_id": "p", "edits": [message(&write, 1, "w"), cord("w", "file")] })),
        ("set_object_attribute", json!({ "patch_id": "p", "varname": "b", "attribute": "hold", "value": 99 })),
    ];
    for (tool, arguments) in upstream {
        let question = tools.asked(tool, arguments).await;
        let studio = &tools.studio.studio;
        studio.approvals.deny(studio, question.id, "person:1000", Channel::Cli).await.expect("a no");
        tools.studio.time.advance(std::time::Duration::from_secs(60));
    }
    // A knob that a tool or the network turns needs approval too; a knob that a person turns does
    // not.
    let knob = |by_hand| Knob { patch: "p".into(), object: "b".into(), attribute: "hold".into(), by_hand };
    assert_eq!(tools.patches.turn(&knob(false), 99.0).map_err(|it| it.code), Err(Code::PlanStale));
    tools.patches.turn(&knob(true), 99.0).expect("a hand");
    tools.ok("replace_object_text", json!({ "patch_id": "p", "varname": "o", "new_text": "osc~ 110" })).await;
    tools.patches.reconcile("p").expect("Pd answers");
    assert!(!out.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn undo_and_redo_lead_only_to_what_a_person_saw() {
    require!(pd::probe());
    let stage = stage();
    let tools = &stage.tools;
    // The person approves the patch with both boxes. Removing a box needs no approval.
    tools.write("n.pd", &format!("{HEAD}#X obj 10 10 netsend;\n#X obj 10 60 osc~;\n"));
    tools.yes("open_patch", json!({ "path": "n.pd", "host": "pd", "alias": "n" })).await;
    tools.ok("remove_max_object", json!({ "patch_id": "n", "varname": "~1" })).await;
    // Neither undo, which restores the approved state, nor redo needs approval.
    tools.ok("undo_patch", json!({ "patch_id": "n" })).await;
    tools.ok("redo_patch", json!({ "patch_id": "n" })).await;
    // A new daemon does not have the approval.
    let again = PdStage::on(PatchTools::under(careless(), Settings::default()));
    again.tools.write("n.pd", &format!("{HEAD}#X obj 10 60 osc~;\n"));
    again.tools.ok("open_patch", json!({ "path": "n.pd", "host": "pd", "alias": "n" })).await;
    again
        .tools
        .yes("add_max_object", json!({ "patch_id": "n", "obj_type": "netsend", "position": [1, 1], "varname": "net" }))
        .await;
    again
        .tools
        .yes("replace_object_text", json!({ "patch_id": "n", "varname": "net", "new_text": "netsend -u" }))
        .await;
    again.tools.ok("undo_patch", json!({ "patch_id": "n", "steps": 2 })).await;
    again.tools.ok("redo_patch", json!({ "patch_id": "n", "steps": 2 })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn saving_a_file_that_a_running_patch_loads_is_an_edit_of_it() {
    require!(pd::probe());
    let stage = stage();
    let tools = &stage.tools;
    let helper = format!("{HEAD}#X obj 10 10 inlet;\n#X obj 10 60 outlet;\n#X connect 0 0 1 0;\n");
    tools.write("helper.pd", &helper);
    tools.write("lib/deep.pd", &helper);
    tools.write("user.pd", &format!("{HEAD}#X declare -path lib;\n#X obj 10 10 helper 7;\n#X obj 10 60 deep;\n"));
    tools.yes("open_patch", json!({ "path": "user.pd", "host": "pd", "alias": "user" })).await;
    for (file, name) in [("helper.pd", "h"), ("lib/deep.pd", "d")] {
        tools.ok("open_patch", json!({ "path": file, "alias": name })).await;
        let edits = json!([add("netsend", 200, "n")]);
        tools.ok("edit_patch", json!({ "patch_id": name, "edits": edits })).await;
        let question = tools.asked("save_patch", json!({ "patch_id": name })).await;
        assert!(fact(&question, "reaches").contains("netsend"), "{question:?}");
        assert_eq!(std::fs::read_to_string(tools.file(file)).expect("there"), helper, "{file} was written");
    }
    // No patch loads a file with an unused name, so this save needs no approval. A save under the
    // name of a loaded file does.
    tools.ok("save_patch", json!({ "patch_id": "h", "path": "free.pd" })).await;
    tools.ok("close_patch", json!({ "patch_id": "h" })).await;
    tools.ok("open_patch", json!({ "path": "free.pd", "alias": "f" })).await;
    tools.asked("save_patch", json!({ "patch_id": "f", "path": "helper.pd", "overwrite": true })).await;
    // If another program changes the file, the next change to the patch needs approval for the new
    // content.
    tools.write("helper.pd", &helper.replace("outlet;", "outlet;\n#X obj 90 90 textfile;"));
    tools.asked("add_max_object", json!({ "patch_id": "user", "obj_type": "helper", "position": [200, 1] })).await;
    // An approved change is written.
    tools.yes("save_patch", json!({ "patch_id": "d" })).await;
    assert!(std::fs::read_to_string(tools.file("lib/deep.pd")).expect("there").contains("netsend"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_that_loads_too_many_files_asks_about_every_change() {
    require!(pd::probe());
    let stage = stage();
    let tools = &stage.tools;
    let open = |count: usize, alias: &str| {
        let boxes: String = (0..count).map(|n| format!("#X obj 10 {} part{n};\n", 20 * n)).collect();
        tools.write(&format!("{alias}.pd"), &format!("{HEAD}{boxes}"));
        json!({ "path": format!("{alias}.pd"), "host": "pd", "alias": alias })
    };
    for n in 0..201 {
        tools.write(&format!("part{n}.pd"), &format!("{HEAD}#X obj 10 10 inlet;\n"));
    }
    let pure = |patch: &str| json!({ "patch_id": patch, "obj_type": "+", "position": [200, 1] });
    // Control: 200 files are checked, and a change without a reach needs no approval.
    tools.yes("open_patch", open(200, "most")).await;
    tools.ok("add_max_object", pure("most")).await;
    let many = open(201, "many");
    let question = tools.asked("open_patch", many.clone()).await;
    assert!(fact(&question, "reaches").contains("more than 200 files"), "{question:?}");
    tools.yes("open_patch", many).await;
    let question = tools.asked("add_max_object", pure("many")).await;
    assert!(fact(&question, "reaches").contains("more than 200 files"), "{question:?}");
    tools.yes("add_max_object", pure("many")).await;
    // Any file could be one of the files that were not checked.
    tools.write("other.pd", HEAD);
    tools.ok("open_patch", json!({ "path": "other.pd", "alias": "other" })).await;
    tools.ok("edit_patch", json!({ "patch_id": "other", "edits": [add("netsend", 200, "n")] })).await;
    tools.asked("save_patch", json!({ "patch_id": "other" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_pd_carries_out_on_opening_ask() {
    require!(pd::probe());
    let stage = stage();
    let tools = &stage.tools;
    let out = tools.file("loaded.txt");
    let files = [
        "#X obj 10 10 f;\npd quit;\n".to_owned(),
        format!("#X savetofile loaded.txt {};\n", out.parent().expect("a folder").display()),
        format!("#X obj 10 10 f, savetofile loaded.txt {};\n", out.parent().expect("a folder").display()),
        "#X obj 10 10 f;\n#X obj 50 50 f;\n#X connect 0 0 1 0, vis 0;\n".to_owned(),
        "#X declare -lib evil;\n".to_owned(),
        "#X obj 10 10 declare -path /;\n".to_owned(),
        "#X obj 10 10 metro\u{a0}x;\n".to_owned(),
        "#X array a 3 float 1;\n#A write loaded.txt;\n".to_owned(),
    ];
    for (n, text) in files.iter().enumerate() {
        let name = format!("s{n}.pd");
        tools.write(&name, &format!("{HEAD}{text}"));
        let question = tools.asked("open_patch", json!({ "path": name, "host": "pd" })).await;
        assert_eq!(question.state, State::Pending, "{text}");
        let studio = &tools.studio.studio;
        studio.approvals.deny(studio, question.id, "person:1000", Channel::Cli).await.expect("a no");
        tools.studio.time.advance(std::time::Duration::from_secs(60));
        tools.ok("open_patch", json!({ "path": name, "alias": format!("d{n}") })).await;
    }
    assert!(stage.pd.pid().is_none() && !out.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_patch_does_not_get_into_the_first_by_a_name() {
    require!(pd::probe());
    let stage = stage();
    let tools = &stage.tools;
    tools.write("a.pd", &format!("{HEAD}#X obj 10 10 r order;\n#X obj 10 60 textfile;\n#X connect 0 0 1 0;\n"));
    tools.yes("open_patch", json!({ "path": "a.pd", "host": "pd", "alias": "a" })).await;
    tools.ok("create_patch", json!({ "host": "pd", "format": "pd", "alias": "b" })).await;
    tools.ok("add_max_object", json!({ "patch_id": "b", "obj_type": "r order", "position": [1, 1] })).await;
    // The new box would send to the receiver in `a` too, not only to the one in `b`.
    tools.asked("add_max_object", json!({ "patch_id": "b", "obj_type": "s order", "position": [1, 9] })).await;
}

#[tokio::test]
async fn closing_with_discard_asks_when_something_would_be_lost() {
    let tools = PatchTools::under(Policy::default(), Settings::default());
    tools.ok("create_patch", json!({ "format": "pd", "alias": "p" })).await;
    tools.ok("close_patch", json!({ "patch_id": "p", "discard": true })).await;
    tools.ok("create_patch", json!({ "format": "pd", "alias": "p" })).await;
    tools.ok("add_max_object", json!({ "patch_id": "p", "obj_type": "f", "position": [1, 1] })).await;
    assert_eq!(tools.no("close_patch", json!({ "patch_id": "p" })).await.code, Code::BadInput);
    let question = tools.asked("close_patch", json!({ "patch_id": "p", "discard": true })).await;
    assert!(fact(&question, "loses").contains("1 unsaved step"), "{question:?}");
    assert_eq!(tools.ok("get_patch_info", json!({ "patch_id": "p" })).await["object_count"], 1);
    // The approval covers the loss of one unsaved step. After another edit, more would be lost.
    let studio = &tools.studio.studio;
    studio.approvals.allow(studio, question.id, Yes::once("person:1000", Channel::Cli)).await.expect("it counts");
    tools.ok("add_max_object", json!({ "patch_id": "p", "obj_type": "f", "position": [1, 50] })).await;
    assert_eq!(tools.no("close_patch", json!({ "patch_id": "p", "discard": true })).await.code, Code::PlanStale);
    tools.yes("close_patch", json!({ "patch_id": "p", "discard": true })).await;
}

#[tokio::test]
async fn the_console_says_what_was_made_where() {
    let tools = PatchTools::new();
    tools.ok("create_patch", json!({ "alias": "p" })).await;
    tools
        .ok("add_max_object", json!({ "patch_id": "p", "obj_type": "cycle~", "position": [100, 100], "varname": "a" }))
        .await;
    tools
        .ok("add_max_object", json!({ "patch_id": "p", "obj_type": "ezdac~", "position": [100, 200], "varname": "b" }))
        .await;
    tools
        .ok(
            "connect_max_objects",
            json!({ "patch_id": "p", "src_varname": "a", "outlet": 0, "dst_varname": "b", "inlet": 0 }),
        )
        .await;
    tools.ok("remove_max_object", json!({ "patch_id": "p", "varname": "b" })).await;
    let log = tools.ok("get_console_log", json!({ "patch_id": "p" })).await.to_string();
    for line in ["Created cycle~ at [100, 100]", "Created ezdac~ at [100, 200]", "Connected a 0 to b 0", "Removed b"] {
        assert!(log.contains(line), "{line} is missing: {log}");
    }
}

#[tokio::test]
async fn a_root_is_never_the_home_nor_around_it_and_the_bridges_are_out_of_reach() {
    let outer = tempfile::tempdir().expect("a folder");
    let settings = |roots: Vec<std::path::PathBuf>| Settings { roots, ..Settings::default() };
    let tools = PatchTools::with(settings(vec![outer.path().to_owned(), "/".into(), std::env::temp_dir()]));
    let home = tools.studio.home.path();
    std::fs::create_dir_all(home.join("state")).expect("made");
    let bridge = format!("{HEAD}#X msg 10 10 conductor-hello SECRET;\n");
    for place in [
        home.join("state/conductor.pd"),
        home.join("state/x.pd"),
        outer.path().join("conductor.pd"),
        outer.path().join("Conductor.PD"),
    ] {
        std::fs::write(&place, &bridge).expect("written");
        let error = tools.no("open_patch", json!({ "path": place })).await;
        assert_eq!(error.code, Code::Denied, "{place:?}: {error:?}");
    }
    std::fs::write(outer.path().join("mine.pd"), &bridge).expect("written");
    tools.ok("open_patch", json!({ "path": outer.path().join("mine.pd") })).await;
    // This root becomes a link into the home after the start, so patches below it are refused.
    let link = outer.path().join("later");
    let tools = PatchTools::with(settings(vec![link.clone()]));
    std::fs::create_dir_all(tools.studio.home.path().join("state")).expect("made");
    std::fs::write(tools.studio.home.path().join("state/y.pd"), &bridge).expect("written");
    std::os::unix::fs::symlink(tools.studio.home.path(), &link).expect("a link");
    assert_eq!(tools.no("open_patch", json!({ "path": link.join("state/y.pd") })).await.code, Code::Denied);
}

#[tokio::test]
async fn patches_are_never_nested_deeper_than_a_file_may_be() {
    for (format, sub) in [("pd", "pd deep"), ("maxpat", "p deep")] {
        let tools = PatchTools::new();
        tools.ok("create_patch", json!({ "format": format, "path": format!("deep.{format}"), "alias": "p" })).await;
        tools
            .ok("add_max_object", json!({ "patch_id": "p", "obj_type": "metro", "position": [1, 1], "varname": "x" }))
            .await;
        let mut at = "p".to_owned();
        let mut refused = None;
        for level in 0..80 {
            let asked = json!({ "patch_id": "p", "varnames": ["x"], "name": "n", "varname": "x" });
            match tools.output("encapsulate_objects", asked).await {
                Ok(_) => at = format!("{at}/x"),
                Err(error) => {
                    refused = Some((level, error));
                    break;
                }
            }
        }
        let (level, error) = refused.expect("it ends");
        assert_eq!((level, error.code), (64, Code::BadInput), "{error:?}");
        assert!(error.message.contains("64 levels"), "{error:?}");
        // A new subpatcher in the innermost one is refused too.
        let error = tools.no("add_max_object", json!({ "patch_id": at, "obj_type": sub, "position": [1, 90] })).await;
        assert!(error.message.contains("64 levels"), "{error:?}");
        let error =
            tools.no("edit_patch", json!({ "patch_id": at, "edits": [add("f", 1, "f"), add(sub, 2, "g")] })).await;
        assert!(error.message.contains("64 levels"), "{error:?}");
        if format == "maxpat" {
            tools
                .ok("add_max_object", json!({ "patch_id": at, "obj_type": "f", "position": [1, 90], "varname": "f" }))
                .await;
            let error = tools
                .no("replace_object_text", json!({ "patch_id": at, "varname": "f", "new_text": "p deeper" }))
                .await;
            assert!(error.message.contains("64 levels"), "{error:?}");
        }
        let found = tools.ok("find_objects", json!({ "patch_id": "p", "text": "metro", "recursive": true })).await;
        assert_eq!(found["count"], 1);
        // The created patch can be opened again.
        tools.ok("save_patch", json!({ "patch_id": "p" })).await;
        tools.ok("close_patch", json!({ "patch_id": "p" })).await;
        tools.ok("open_patch", json!({ "path": format!("deep.{format}") })).await;
    }
}

#[tokio::test]
async fn a_cord_that_is_there_is_said_to_be_there_in_a_batch_too() {
    let tools = PatchTools::new();
    tools.ok("create_patch", json!({ "alias": "p" })).await;
    let cord = json!({ "op": "connect", "src_varname": "a", "outlet": 0, "dst_varname": "b", "inlet": 0 });
    let edits = json!([
        { "op": "add", "obj_type": "button", "position": [1, 1], "varname": "a" },
        { "op": "add", "obj_type": "button", "position": [1, 50], "varname": "b" },
        cord, cord,
    ]);
    let made = tools.ok("edit_patch", json!({ "patch_id": "p", "edits": edits })).await;
    let already: Vec<_> = made["applied"].as_array().expect("rows").iter().map(|it| it["already"].clone()).collect();
    assert_eq!(already, [json!(null), json!(null), json!(null), json!(true)]);
    let again = tools.ok("edit_patch", json!({ "patch_id": "p", "edits": [cord] })).await;
    assert_eq!((&again["applied"][0]["already"], &again["diff"]), (&json!(true), &json!("")));
}

#[tokio::test]
async fn attributes_are_set_when_an_object_is_added() {
    let tools = PatchTools::new();
    tools.ok("create_patch", json!({ "alias": "p" })).await;
    for (name, attributes) in
        [("a", json!({ "fontsize": 20, "bgcolor": [0.1, 0.2, 0.3, 1.0] })), ("b", json!("{\"fontsize\": 20}"))]
    {
        let new = json!({ "patch_id": "p", "obj_type": "number", "position": [1, 1], "varname": name, "attributes": attributes });
        tools.ok("add_max_object", new).await;
        let read = tools
            .ok("get_object_attribute", json!({ "patch_id": "p", "varname": name, "attribute": "fontsize" }))
            .await;
        assert_eq!(read["value"].as_f64(), Some(20.0), "{read}");
    }
    let bad = json!({ "patch_id": "p", "obj_type": "number", "position": [1, 1], "attributes": { "nosuch": 1 } });
    assert_eq!(tools.no("add_max_object", bad).await.code, Code::BadInput);
    assert_eq!(tools.ok("get_patch_info", json!({ "patch_id": "p" })).await["object_count"], 2);
}

#[tokio::test]
async fn hidden_and_coloured_cords_are_told() {
    let tools = PatchTools::new();
    let line = |more: &str| format!("{{\"patchline\":{{\"source\":[\"a\",0],\"destination\":[\"b\",0]{more}}}}}");
    let object =
        |id: &str| format!("{{\"box\":{{\"id\":\"{id}\",\"maxclass\":\"button\",\"patching_rect\":[1,1,24,24]}}}}");
    let file = format!(
        "{{\"patcher\":{{\"boxes\":[{},{}],\"lines\":[{},{}]}}}}",
        object("a"),
        object("b"),
        line(",\"hidden\":1,\"color\":[0.25,0.5,0.75,0.5]"),
        line("")
    );
    tools.write("c.maxpat", &file);
    tools.ok("open_patch", json!({ "path": "c.maxpat", "alias": "c" })).await;
    let lines = tools.ok("get_patchlines", json!({ "patch_id": "c" })).await;
    assert_eq!(lines["patchlines"][0]["hidden"], true);
    assert_eq!(lines["patchlines"][0]["color"], json!({ "r": 0.25, "g": 0.5, "b": 0.75, "a": 0.5 }));
    assert_eq!(lines["patchlines"][1]["hidden"], false);
    assert_eq!(lines["patchlines"][1]["color"], json!({ "r": 0.0, "g": 0.0, "b": 0.0, "a": 1.0 }));
}
