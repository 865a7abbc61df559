//! `[patch]`, `[patch.pd]` and `[patch.max]`.

use super::*;

const PATCH: &str = r#"{"patcher":{"boxes":[{"box":{"id":"obj-1","maxclass":"newobj","text":"cycle~ 440","varname":"osc","patching_rect":[10.0,10.0,70.0,22.0],"numinlets":2,"numoutlets":1,"outlettype":["signal"]}}],"lines":[]}}"#;

/// A daemon whose home contains three patches.
fn patches(section: &str) -> Studio {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("patches")).unwrap();
    for name in ["a.maxpat", "b.maxpat", "c.maxpat"] {
        std::fs::write(home.path().join("patches").join(name), PATCH).unwrap();
    }
    Studio::start_in(home, &format!("schema = 1\n{section}"))
}

#[test]
pub(super) fn open_patches_and_their_steps_are_as_many_as_the_file_says() {
    // `open` gives the order of the list.
    let studio =
        patches("[patch]\nopen = [\"b.maxpat\", \"a.maxpat\", \"none.maxpat\"]\nmax_open = 2\njournal_steps = 2\n");
    let mut client = studio.client();
    let (_, listed) = studio.call(&mut client, "list_active_patches", json!({}));
    let names: Vec<&str> =
        listed["patches"].as_array().unwrap().iter().map(|it| it["display_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "a"]);
    // `journal_steps` is 2, so two of three edits can be undone.
    let id = listed["patches"][0]["patch_id"].clone();
    for text in ["cycle~ 1", "cycle~ 2", "cycle~ 3"] {
        studio.call(&mut client, "replace_object_text", json!({ "patch_id": id, "varname": "osc", "new_text": text }));
    }
    let (_, undone) = studio.call(&mut client, "undo_patch", json!({ "patch_id": id, "steps": 9 }));
    assert_eq!(undone["undone"].as_array().map(Vec::len), Some(2));
    // Because of `max_open`, the patch without edits is closed.
    studio.call(&mut client, "open_patch", json!({ "path": "c.maxpat" }));
    let (_, listed) = studio.call(&mut client, "list_active_patches", json!({}));
    let names: Vec<&str> =
        listed["patches"].as_array().unwrap().iter().map(|it| it["display_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "c"]);
}

#[test]
pub(super) fn files_are_opened_where_and_how_large_the_file_says() {
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("far.maxpat");
    std::fs::write(&file, PATCH).unwrap();
    std::fs::write(
        elsewhere.path().join("big.pd"),
        format!("#N canvas 0 0 1 1 12;\n#X text 1 1 {};\n", "x".repeat(1 << 20)),
    )
    .unwrap();
    let far = json!({ "path": file });
    let studio = patches("");
    assert_eq!(studio.call(&mut studio.client(), "open_patch", far.clone()).0, "DENIED");
    let rooted = patches(&format!("[patch]\nroots = [{:?}]\nmax_file_mb = 1\n", elsewhere.path()));
    let mut client = rooted.client();
    assert_eq!(rooted.call(&mut client, "open_patch", far).0, "ok");
    let big = json!({ "path": elsewhere.path().join("big.pd") });
    assert_eq!(rooted.call(&mut client, "open_patch", big).0, "BAD_INPUT");
}

/// Steps that need more than a megabyte together are dropped, the oldest first.
#[test]
pub(super) fn steps_hold_as_much_as_the_file_says() {
    let studio = patches("[patch]\njournal_mb = 1\n");
    let mut client = studio.client();
    let (_, made) = studio.call(&mut client, "create_patch", json!({ "format": "pd" }));
    let id = made["patch_id"].clone();
    for n in 0..60 {
        let edits: Vec<Value> = (0..30)
            .map(|m| json!({ "op": "add", "obj_type": "comment", "position": [m, n], "arguments": ["y".repeat(1000)] }))
            .collect();
        assert_eq!(studio.call(&mut client, "edit_patch", json!({ "patch_id": id, "edits": edits })).0, "ok");
    }
    let (_, undone) = studio.call(&mut client, "undo_patch", json!({ "patch_id": id, "steps": 200 }));
    let steps = undone["undone"].as_array().map_or(0, Vec::len);
    assert!((1..60).contains(&steps), "{steps}");
}

#[test]
pub(super) fn pd_is_reached_as_the_file_says() {
    let create = json!({ "host": "pd", "alias": "p" });
    let off = patches("");
    assert_eq!(off.call(&mut off.client(), "create_patch", create.clone()).0, "UNSUPPORTED");
    let wrong = patches("[patch.pd]\nmode = \"spawn\"\ncommand = \"/no/such/pd\"\n[retry]\nattempts = 1\n");
    let (code, body) = wrong.call(&mut wrong.client(), "create_patch", create);
    assert_eq!(code, "HOST_OFFLINE");
    assert!(body["message"].as_str().unwrap().contains("/no/such/pd"), "{body}");
    let attached = patches("[patch.pd]\nmode = \"attach\"\n[retry]\nattempts = 1\n");
    std::fs::write(attached.home.path().join("patches/x.pd"), "#N canvas 0 0 1 1 12;\n").unwrap();
    let (code, body) = attached.call(&mut attached.client(), "open_patch", json!({ "path": "x.pd", "host": "pd" }));
    assert_eq!(code, "HOST_OFFLINE");
    assert!(body["hint"].as_str().unwrap().contains("bridge install pd"), "{body}");
}

#[test]
pub(super) fn pd_is_started_with_the_files_flags() {
    require!(pd::probe());
    let create = json!({ "host": "pd", "alias": "p" });
    let spawned = patches("[patch.pd]\nmode = \"spawn\"\nsleepgrain_ms = 2\n");
    let mut client = spawned.client();
    assert_eq!(spawned.call(&mut client, "create_patch", create.clone()).0, "ok");
    let (_, log) = spawned.call(&mut client, "get_console_log", json!({}));
    let started =
        log["logs"].as_array().unwrap().iter().filter_map(Value::as_str).find(|it| it.contains("starting")).unwrap();
    assert!(started.contains("\"-sleepgrain\" \"2\"") && started.contains("-noaudio"), "{started}");
    // The machine may have no sound card, so check only the options that Pd is started with.
    let sounding = patches("[patch.pd]\nmode = \"spawn\"\naudio = \"default\"\n[retry]\nattempts = 1\n");
    let mut client = sounding.client();
    sounding.call(&mut client, "create_patch", create);
    let (_, log) = sounding.call(&mut client, "get_console_log", json!({}));
    assert!(log.to_string().contains("starting") && !log.to_string().contains("-noaudio"), "{log}");
}

#[test]
fn a_knob_moves_an_attribute_of_a_patch_as_one_step() {
    let studio = patches(
        "[patch]\nopen = [\"a.maxpat\"]\n[[devices]]\nalias = \"pads\"\ndirection = \"Input\"\nloopback = true\n[[modes]]\nname = \"Default\"\n\
         [[modes.continuous]]\nid = \"size\"\nsource = { type = \"CC\", cc = 7, device = \"pads\" }\nglue = { out = [8, 48], throttle_ms = 0 }\n\
         targets = [{ type = \"PatchAttribute\", patch = \"a.maxpat\", object = \"osc\", attribute = \"fontsize\" }]\n",
    );
    let mut client = studio.client();
    let (_, listed) = studio.call(&mut client, "list_active_patches", json!({}));
    let id = listed["patches"][0]["patch_id"].clone();
    let ask = json!({ "patch_id": id, "varname": "osc", "attribute": "fontsize" });
    let mut control =
        conductor_daemon::doors::control::client::Client::connect(&studio.home.path().join("control.sock")).unwrap();
    for value in [0, 32, 64, 100, 127] {
        control.ask("play", json!({ "port": "pads hand", "messages": [[0xB0, 7, value]] })).unwrap();
    }
    let arrived = wait_for(PATIENCE, || {
        let (_, body) = studio.call(&mut client, "get_object_attribute", ask.clone());
        (body["value"] == json!(48.0)).then_some(())
    });
    assert!(arrived.is_some(), "{:?}", studio.call(&mut client, "get_object_attribute", ask.clone()));
    // All changes are one undo step.
    let (_, undone) = studio.call(&mut client, "undo_patch", json!({ "patch_id": id }));
    assert_eq!((&undone["undone"], &undone["undo_depth"]), (&json!(["knob on fontsize of osc"]), &json!(0)));
    let (_, dirty) = studio.call(&mut client, "get_patch_dirty", json!({ "patch_id": id }));
    assert_eq!(dirty["dirty"], false);
}

#[test]
pub(super) fn every_key_of_patch_max_counts() {
    let create = json!({ "host": "max", "alias": "p" });
    let off = patches("[patch.max]\nenabled = false\n");
    assert_eq!(off.call(&mut off.client(), "create_patch", create.clone()).0, "UNSUPPORTED");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let on = patches(&format!("[patch.max]\nenabled = true\nport = {free}\n[retry]\nattempts = 1\n"));
    let (code, body) = on.call(&mut on.client(), "create_patch", create);
    assert_eq!(code, "HOST_OFFLINE");
    assert!(body["hint"].as_str().unwrap().contains("bridge install max"), "{body}");
    let file = on.home.path().join("state/max-bridge.json");
    let told: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(told["port"], free);
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions()) & 0o777, 0o600);
}
