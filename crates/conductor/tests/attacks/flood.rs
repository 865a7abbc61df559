//! A model sends calls and opens connections without end. The human door must still answer, and
//! nothing may be decided because of the load.

use crate::rig::{Rig, settle};
use serde_json::json;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

#[test]
fn questions_and_plans_without_end_are_bounded() {
    let rig = Rig::start("");
    let mut model = rig.model();
    for index in 0..200 {
        let _ =
            model.call("conductor_send_sysex", json!({ "port": "synth", "data": [0x7D, index % 128, index / 128] }));
        let _ = model.call(
            "conductor_create_mapping",
            json!({ "mode": "Default", "trigger": { "type": "Note", "note": index % 128 }, "action": { "type": "Text", "text": "x".repeat(1000) } }),
        );
    }
    drop(model);
    let plans = std::fs::read_dir(rig.studio.home().join("state/plans")).unwrap().count();
    assert!(plans < 300, "refused plans stay in the folder: {plans} files");
    rig.assert_unharmed();
}

#[test]
fn the_person_gets_in_while_clients_hold_every_connection_they_can() {
    let rig = Rig::start("");
    let sock = rig.studio.home().join("mcp.sock");
    let url = rig.studio.status()["http"].clone();
    let held: Vec<UnixStream> = (0..700).map_while(|_| UnixStream::connect(&sock).ok()).collect();
    let port =
        url.as_str().and_then(|it| it.split(':').nth(2)).and_then(|it| it.split('/').next()?.parse::<u16>().ok());
    let silent: Vec<TcpStream> = port
        .into_iter()
        .flat_map(|port| (0..300).map_while(move |_| TcpStream::connect(("127.0.0.1", port)).ok()))
        .collect();
    for words in [&["status"][..], &["panic"], &["approvals", "list"]] {
        let output = rig.studio.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    drop((held, silent));
    settle(&rig);
    rig.assert_unharmed();
}
