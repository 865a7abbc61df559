//! `conductor mcp start` between a client's descriptors and the daemon: it passes the descriptors
//! to the daemon if possible, otherwise it copies data.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::studio::{DEVICES, Studio};

fn start(studio: &Studio, stdin: Stdio, stdout: Stdio) -> Child {
    studio
        .command()
        .args(["mcp", "start"])
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the proxy could not be started")
}

fn line(id: u32, method: &str, params: Value) -> Vec<u8> {
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).into_bytes()
}

fn initialize(id: u32) -> Vec<u8> {
    let client = json!({ "name": "by-hand", "version": "1" });
    line(id, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }))
}

fn call_status(id: u32) -> Vec<u8> {
    line(id, "tools/call", json!({ "name": "conductor_get_status", "arguments": {} }))
}

fn read(lines: &mut impl BufRead) -> Value {
    let mut text = String::new();
    lines.read_line(&mut text).expect("a line");
    serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{fault}: {text:?}"))
}

fn complaint(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
    text
}

/// Bytes that the process has read since its start: a copying proxy reads every byte.
fn bytes_read_by(child: &Child) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", child.id())).expect("its counters");
    let of = |key: &str| io.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok()).unwrap_or(0);
    of("rchar:")
}

fn fifos() -> Given {
    let (child_in, ours_out) = std::io::pipe().expect("a pipe");
    let (ours_in, child_out) = std::io::pipe().expect("a pipe");
    (child_in.into(), child_out.into(), OwnedFd::from(ours_out).into(), OwnedFd::from(ours_in).into())
}

fn sockets() -> Given {
    let (child_in, ours_out) = UnixStream::pair().expect("a pair");
    let (ours_in, child_out) = UnixStream::pair().expect("a pair");
    let file = |stream: UnixStream| std::fs::File::from(OwnedFd::from(stream));
    (OwnedFd::from(child_in).into(), OwnedFd::from(child_out).into(), file(ours_out), file(ours_in))
}

/// The input and the output of the proxy, and the client's end of each.
type Given = (Stdio, Stdio, std::fs::File, std::fs::File);

/// A proxy on these descriptors after the client's handshake, and the client's two ends.
fn greeted(
    studio: &Studio,
    (child_in, child_out, mut to, from): Given,
) -> (Child, std::fs::File, BufReader<std::fs::File>) {
    let proxy = start(studio, child_in, child_out);
    let mut from = BufReader::new(from);
    to.write_all(&initialize(1)).expect("written");
    assert_eq!(read(&mut from)["result"]["serverInfo"]["name"], "conductor");
    (proxy, to, from)
}

#[test]
fn the_daemon_takes_the_clients_descriptors_and_says_goodbye() {
    let studio = Studio::start(DEVICES);
    for given in [fifos(), sockets()] {
        let (mut proxy, mut to, mut from) = greeted(&studio, given);
        let before = bytes_read_by(&proxy);
        let most = 200;
        for id in 2..most {
            to.write_all(&call_status(id)).expect("written");
            assert_eq!(read(&mut from)["result"]["isError"], json!(false));
        }
        assert_eq!(bytes_read_by(&proxy), before, "the proxy has read bytes of the client");
        // A last call, then the end of input: the reply is still sent before the connection closes.
        to.write_all(&call_status(most)).expect("written");
        drop(to);
        assert_eq!(read(&mut from)["id"], most);
        assert!(proxy.wait().expect("it ends").success());
        let mut rest = String::new();
        from.read_to_string(&mut rest).expect("the end");
        assert_eq!((rest.as_str(), complaint(&mut proxy).as_str()), ("", ""));
    }
}

#[test]
fn what_cannot_be_waited_for_is_copied() {
    let studio = Studio::start(DEVICES);
    let script = [initialize(1), call_status(2)].concat();
    let path = studio.home().join("script.jsonl");
    std::fs::write(&path, script).expect("written");
    let stdin = Stdio::from(std::fs::File::open(path).expect("a file"));
    let mut proxy = start(&studio, stdin, Stdio::piped());
    let mut from = BufReader::new(proxy.stdout.take().expect("piped"));
    let replies = [read(&mut from), read(&mut from)];
    for id in [1, 2] {
        assert!(replies.iter().any(|it| it["id"] == id && it.get("result").is_some()), "{replies:?}");
    }
    assert!(proxy.wait().expect("it ends").success());
}

#[test]
fn a_proxy_that_is_killed_takes_its_client_with_it() {
    let studio = Studio::start(DEVICES);
    let (mut proxy, mut to, mut from) = greeted(&studio, fifos());
    proxy.kill().expect("killed");
    proxy.wait().expect("it ends");
    let mut rest = String::new();
    // This read ends only when the daemon has closed its copy of the descriptor too.
    assert_eq!(from.read_line(&mut rest).expect("the end"), 0, "{rest}");
    // The daemon has also closed the reading end, so writing fails.
    while to.write_all(&call_status(2)).is_ok() {}
}

#[test]
fn a_signal_ends_the_proxy_in_good_order() {
    let studio = Studio::start(DEVICES);
    let (mut proxy, _to, mut from) = greeted(&studio, fifos());
    let pid = rustix::process::Pid::from_child(&proxy);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    assert!(proxy.wait().expect("it ends").success());
    assert_eq!(from.read_line(&mut String::new()).expect("the end"), 0);
}

#[test]
fn a_daemon_that_goes_away_is_told_on_stderr_and_by_the_exit_code() {
    let studio = Studio::start(DEVICES);
    let (mut proxy, _to, _from) = greeted(&studio, sockets());
    drop(studio);
    assert_eq!(proxy.wait().expect("it ends").code(), Some(1));
    assert_eq!(complaint(&mut proxy), "conductor: the daemon closed the connection\n");
}

#[test]
fn a_toolset_that_does_not_exist_is_refused_before_anything_is_handed_over() {
    let studio = Studio::start(DEVICES);
    let mut proxy = studio
        .command()
        .args(["mcp", "start", "--tools", "nonsense"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the proxy could not be started");
    assert_eq!(proxy.wait().expect("it ends").code(), Some(2));
    assert!(complaint(&mut proxy).contains("nonsense"));
    let mut said = String::new();
    proxy.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(said, "", "the proxy wrote to stdout, which is for the protocol only");
}
