//! MIDI messages of a model come back over a cable and press a pad. They must not run a command.

use crate::rig::Rig;
#[cfg(feature = "jack")]
use crate::{rig::settle, studio::until};
#[cfg(feature = "jack")]
use conductor_testkit::real::jack;
#[cfg(feature = "jack")]
use conductor_testkit::require;
use serde_json::json;
#[cfg(feature = "jack")]
use std::process::{Command, Stdio};

fn command(rig_mark: &str) -> String {
    format!("[[tools.shell.commands]]\nname = \"mark\"\nprogram = \"{rig_mark}\"\nargs = []\neffect = \"read\"\n")
}

fn note(port: &str, note: u8) -> serde_json::Value {
    json!({ "port": port, "messages": [{ "type": "note_on", "channel": 1, "note": note, "velocity": 100 }] })
}

/// Without a real cable: the model sends notes to the loopback of the pads, directly and through a
/// mapping and a route.
#[test]
fn a_model_that_plays_the_pads_runs_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    std::fs::write(&mark, "#!/bin/sh\ntouch \"$(dirname \"$0\")/RAN\"\n").unwrap();
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&mark, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mark = mark.display().to_string();
    let config = format!(
        "{}\n[[devices]]\nalias = \"echo\"\nloopback = true\n\
         [[routes]]\nfrom = \"echo\"\nto = \"pads hand\"\n\
         [[global_mappings]]\nid = \"step\"\ntrigger = {{ type = \"Note\", note = 36, device = \"pads\" }}\n\
         action = {{ type = \"SendMidi\", port = \"pads hand\", channel = 0, message_type = \"NoteOn\", note = 40, velocity = 100 }}\n\
         [[global_mappings]]\nid = \"run\"\ntrigger = {{ type = \"Note\", note = 40, device = \"pads\" }}\naction = {{ type = \"Shell\", command = \"{mark}\" }}\n",
        command(&mark)
    );
    let rig = Rig::start(&config);
    let mut model = rig.model();
    for (port, key) in [("pads hand", 40), ("pads hand", 36), ("echo", 36), ("echo", 40), ("echo hand", 36)] {
        let _ = model.call("conductor_send_midi", note(port, key));
    }
    drop(model);
    crate::rig::settle(&rig);
    assert!(!folder.path().join("RAN").exists(), "a model pressed a pad");
    rig.assert_unharmed();
}

/// The model's note leaves one JACK port, directly or through a mapping, and returns at another.
#[cfg(feature = "jack")]
#[test]
fn what_comes_back_over_a_cable_runs_no_command() {
    over_a_cable("");
}

/// A trusted device is trusted for events of other programs, not for messages that this daemon
/// sent.
#[cfg(feature = "jack")]
#[test]
fn trust_in_a_device_does_not_cover_what_a_model_sent() {
    over_a_cable("trusted = true\n");
}

#[cfg(feature = "jack")]
fn over_a_cable(trust: &str) {
    require!(jack::probe());
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    std::fs::write(&mark, "#!/bin/sh\ntouch \"$(dirname \"$0\")/RAN\"\n").unwrap();
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&mark, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mark = mark.display().to_string();
    let name = format!("ct-attack-{}-{}", trust.len(), std::process::id());
    let _server = require!(jack::start(folder.path(), &name, 256));
    let config = format!(
        "{}\n[[devices]]\nalias = \"out\"\ndirection = \"Output\"\nvirtual_port = \"out\"\n\
         [[devices]]\nalias = \"back\"\ndirection = \"Input\"\nvirtual_port = \"back\"\n{trust}\
         [[global_mappings]]\nid = \"step\"\ntrigger = {{ type = \"Note\", note = 36, device = \"pads\" }}\n\
         action = {{ type = \"SendMidi\", port = \"out\", channel = 0, message_type = \"NoteOn\", note = 40, velocity = 100 }}\n\
         [[global_mappings]]\nid = \"run\"\ntrigger = {{ type = \"Note\", note = 40, device = \"back\" }}\naction = {{ type = \"Shell\", command = \"{mark}\" }}\n",
        command(&mark)
    );
    let server = name.clone();
    let rig = Rig::start_with(&config, |studio| {
        studio.set("JACK_DEFAULT_SERVER", &server);
        studio.set("JACK_NO_START_SERVER", "1");
    });
    let tool = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("JACK_DEFAULT_SERVER", &name).stderr(Stdio::null());
        command
    };
    let port = |end: &str| {
        until(&format!("a port {end}"), || {
            let listed = String::from_utf8(tool("jack_lsp", &[]).output().ok()?.stdout).ok()?;
            listed.lines().find(|it| it.ends_with(end)).map(str::to_owned)
        })
    };
    let (out, back) = (port("out"), port("back"));
    until("the cable is connected", || tool("jack_connect", &[&out, &back]).status().ok()?.success().then_some(()));
    let mut model = rig.model();
    for (port, key) in [("out", 40), ("pads hand", 36)] {
        let sent = model.call("conductor_send_midi", note(port, key));
        assert!(sent["code"].is_null(), "{sent}");
        settle(&rig);
    }
    drop(model);
    settle(&rig);
    assert!(!folder.path().join("RAN").exists(), "a model pressed a pad over a cable");
    rig.assert_unharmed();
}
