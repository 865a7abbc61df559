//! The daemon and its bridges inside Pd, Max and Live authenticate each other. A program that has
//! taken over an abandoned port must not receive secrets or data.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::live_story::script_stage;
use super::patch_max::{FakeMax, node};
use super::patch_pd::Theirs;
use super::patch_tools::PatchTools;
use conductor_hosts::live::script::rendezvous;
use conductor_hosts::max::MaxHost;
use conductor_hosts::patch::PatchHost;
use conductor_hosts::pd::attach::{self, AttachedPd};
use conductor_hosts::system::{RandomIds, RealClock};
use conductor_testkit::real::{PATIENCE, pd, wait_for};
use conductor_testkit::require;
use serde_json::{Value, json};

/// A program that has taken over a port. It sends one message or nothing, and collects the received
/// data until the peer disconnects.
struct Impostor(TcpListener);

impl Impostor {
    fn new() -> Impostor {
        Impostor(TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("known").port()
    }

    fn got(&self, says: &str) -> Vec<u8> {
        self.0.set_nonblocking(true).expect("set");
        let mut caller: TcpStream =
            wait_for(PATIENCE, || self.0.accept().ok().map(|it| it.0)).expect("the bridge did not connect");
        caller.set_nonblocking(false).expect("set");
        caller.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        let _ = caller.write_all(says.as_bytes());
        let mut heard = Vec::new();
        // A reset also ends the connection.
        let _ = caller.read_to_end(&mut heard);
        heard
    }
}

fn pd_host(tools: &PatchTools) -> Arc<AttachedPd> {
    let home = tools.studio.home.path();
    AttachedPd::listen(home, &RandomIds, tools.patches.voice().clone(), Arc::new(RealClock::new())).expect("a port")
}

fn max_host(tools: &PatchTools) -> Arc<MaxHost> {
    let home = tools.studio.home.path();
    MaxHost::listen(home, 0, &RandomIds, tools.patches.voice().clone(), Arc::new(RealClock::new())).expect("a port")
}

fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).expect("there").permissions()) & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn the_helper_of_pd_gives_an_impostor_nothing_and_finds_the_daemon_again() {
    require!(pd::probe());
    let tools = PatchTools::new();
    let home = tools.studio.home.path().to_owned();
    let file = attach::address_file(&home);
    let host = pd_host(&tools);
    assert_eq!(mode(&file), 0o600);
    let helper = attach::install(&home, &RandomIds).expect("written");
    let first = fs::read_to_string(&file).expect("written");
    let words: Vec<&str> = first.trim_end().trim_end_matches(';').split(' ').collect();
    assert!(!fs::read_to_string(&helper).expect("there").contains(words[1]), "the helper patch contains a secret");
    host.stop();
    assert!(!file.exists(), "a stop did not remove the address file");
    drop(host);
    // After kill -9 the address file still exists, and any program may have taken the port.
    let impostor = Impostor::new();
    fs::write(&file, format!("{} {} {};\n", impostor.port(), words[1], words[2])).expect("written");
    let prey = tempfile::tempdir().expect("a folder");
    let patch = "#N canvas 0 0 9 9 12;\n#X obj 1 1 loadbang;\n#X msg 1 30 clear \\, add x \\, write stolen;\n#X obj 1 60 textfile;\n#X connect 0 0 1 0;\n#X connect 1 0 2 0;\n";
    fs::write(prey.path().join("theirs.pd"), patch).expect("written");
    let open = format!("pd open theirs.pd {};\n", prey.path().display());
    let _theirs = Theirs::start(&[&helper]);
    for says in [
        String::new(),
        open.clone(),
        format!("conductor-daemon t{};\n{open}conductor-reply x;\n", "0".repeat(64)),
        // A token from the file is not itself the correct answer.
        format!("conductor-daemon {};\n{open}", words[2]),
        format!("conductor-hello {};\n{open}", words[1]),
        format!("conductor-reply x;\nconductor-daemon {};\n", words[1]),
    ] {
        assert_eq!(String::from_utf8_lossy(&impostor.got(&says)), "", "{says}");
        assert!(!prey.path().join("stolen").exists(), "{says}");
    }
    // The real daemon starts twice, each time on another port and with other tokens.
    for _ in 0..2 {
        let host = pd_host(&tools);
        let now = fs::read_to_string(&file).expect("written");
        assert!(words.iter().all(|it| !now.contains(it)), "the port or a token was used again");
        assert!(wait_for(PATIENCE, || host.is_attached().then_some(())).is_some(), "the helper patch did not connect");
        host.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bridge_of_max_gives_an_impostor_nothing_and_finds_the_daemon_again() {
    require!(node());
    let tools = PatchTools::new();
    let home = tools.studio.home.path().to_owned();
    let file = home.join("state/max-bridge.json");
    let host = max_host(&tools);
    assert_eq!(mode(&file), 0o600);
    let mut stale: Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
    host.stop();
    assert!(!file.exists(), "a stop did not remove the address file");
    drop(host);
    let impostor = Impostor::new();
    stale["port"] = json!(impostor.port());
    fs::write(&file, stale.to_string()).expect("written");
    let _fake = FakeMax::start(&home);
    for says in [
        String::new(),
        format!("conductor-daemon t{} n\n", "0".repeat(64)),
        format!("conductor-daemon {} n\n", stale["secret"].as_str().expect("text")),
        "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
    ] {
        assert_eq!(String::from_utf8_lossy(&impostor.got(&says)), "", "{says}");
    }
    // An impostor that knows the token receives a request with a proof, but neither the secret nor
    // the token.
    let token = stale["token"].as_str().expect("text");
    let heard = impostor.got(&format!(
        "conductor-daemon {token} n\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nConductor-Proof: 00\r\n\r\n"
    ));
    let heard = String::from_utf8_lossy(&heard).into_owned();
    assert!(!heard.contains(token) && !heard.contains(stale["secret"].as_str().expect("text")), "{heard}");
    assert!(!heard.contains("hello"), "{heard}");
    for _ in 0..2 {
        let host = max_host(&tools);
        let now: Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
        assert!(
            ["port", "token", "secret"].iter().all(|it| now[it] != stale[it]),
            "the port, the token or the secret was used again"
        );
        assert!(wait_for(PATIENCE, || host.is_attached().then_some(())).is_some(), "the bridge did not connect");
        host.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_gives_an_impostor_on_the_port_of_live_nothing() {
    let (live, stage) = require!(script_stage("12.2.0"));
    let home = stage.studio.home.path().to_owned();
    let met = rendezvous::read(&home).expect("a rendezvous");
    live.crash();
    let file = rendezvous::path(&home);
    assert!(file.exists(), "the rendezvous file is missing after a crash");
    let mut client = stage.client().await;
    let lies = [
        String::new(),
        "{\"token\":\"guess\",\"nonce\":\"n\"}\n".to_owned(),
        format!("{}\n", json!({ "token": met.secret, "nonce": "n" })),
        "{\"id\":1,\"ok\":true,\"result\":{},\"epoch\":1}\n".to_owned(),
    ];
    let port = met.port;
    for says in lies {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is in use");
        let heard = std::thread::spawn({
            let says = says.clone();
            move || Impostor(listener).got(&says)
        });
        let code = client.code("live_open_set", json!({ "host": "script" })).await;
        assert!(["HOST_OFFLINE", "TIMEOUT"].contains(&code.as_str()), "{says}: {code}");
        assert_eq!(String::from_utf8_lossy(&heard.join().expect("it ends")), "", "{says}");
    }
    // An impostor that knows the token does not receive the secret in the hello message, and its
    // answer is rejected.
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is in use");
    let says = format!(
        "{}\n{}\n",
        json!({ "token": met.token, "nonce": "n" }),
        json!({ "id": 1, "ok": true, "result": { "live": "12.2.0", "caps": [], "proof": "00" }, "epoch": 1 })
    );
    let heard = std::thread::spawn(move || Impostor(listener).got(&says));
    assert_eq!(client.code("live_open_set", json!({ "host": "script" })).await, "HOST_OFFLINE");
    let heard = String::from_utf8_lossy(&heard.join().expect("it ends")).into_owned();
    assert!(heard.contains("hello") && !heard.contains(&met.secret) && !heard.contains(&met.token), "{heard}");
}
