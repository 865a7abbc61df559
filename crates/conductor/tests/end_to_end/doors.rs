//! The doors of a running daemon against unwanted input: web pages of other sites, other users, and
//! invalid data of every kind. The daemon must answer correctly or close the connection, keep
//! running, and not use much memory.

use crate::studio::{BINARY, DEVICES, Studio, text, until};
use conductor_testkit::mcp_process::resident_peak;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Maximum time that a test waits for an answer; no test checks the time itself.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum memory growth in bytes. A message may have 4 MiB and is copied a few times; more growth
/// means that data is kept by mistake.
const ROOM: u64 = 96 << 20;

fn open() -> (Studio, SocketAddr, String) {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), DEVICES).unwrap();
    let url = studio.up(&[])["http"].as_str().unwrap().to_owned();
    let at = url.trim_start_matches("http://").trim_end_matches("/mcp").parse().unwrap();
    let token = std::fs::read_to_string(studio.home().join("state/http.token")).unwrap().trim().to_owned();
    (studio, at, token)
}

/// Sends these bytes on a new connection. Returns the HTTP status, or `None` if the daemon closed
/// the connection without one.
fn status_of(at: SocketAddr, request: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A daemon that refuses early may close the connection while we still write. Its answer can
    // still be read.
    let _ = stream.write_all(request);
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line.split(' ').nth(1)?.parse().ok()
}

/// Every combination of Host, Origin, token and route: a foreign Host or Origin is always refused.
#[test]
fn no_page_of_another_site_gets_past_host_and_origin() {
    let (studio, at, token) = open();
    let port = at.port();
    let own = format!("127.0.0.1:{port}");
    let hosts: Vec<(bool, Vec<String>)> = vec![
        (true, vec![own.clone()]),
        (true, vec![format!("localhost:{port}")]),
        (true, vec![format!("[::1]:{port}")]),
        (false, vec![]),
        (false, vec!["127.0.0.1".into()]),
        (false, vec![format!("127.0.0.1:{}", port.wrapping_add(1))]),
        (false, vec!["evil.example".into()]),
        (false, vec![format!("evil.example:{port}")]),
        (false, vec![format!("127.0.0.1.evil.example:{port}")]),
        (false, vec![format!("localhost:{port}.evil.example")]),
        (false, vec![own.clone(), own.clone()]),
        (false, vec![own.clone(), "evil.example".into()]),
        (false, vec!["evil.example".into(), own.clone()]),
    ];
    let home = format!("http://{own}");
    let origins: Vec<(bool, Vec<String>)> = vec![
        (true, vec![]),
        (true, vec![home.clone()]),
        (true, vec![format!("http://localhost:{port}")]),
        (false, vec!["null".into()]),
        (false, vec!["http://evil.example".into()]),
        (false, vec![format!("https://{own}")]),
        (false, vec![format!("{home}.evil.example")]),
        (false, vec![format!("http://127.0.0.1:{}", port.wrapping_add(1))]),
        (false, vec![home.clone(), home.clone()]),
        (false, vec![home.clone(), "http://evil.example".into()]),
    ];
    let right = token;
    let tokens = [None, Some(right.as_str()), Some("guess")];
    let routes = [
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
        ("GET", "/health"),
        ("GET", "/tools"),
        ("POST", "/tools/conductor_get_status"),
        ("GET", "/openapi.json"),
        ("GET", "/audit"),
        ("GET", "/metrics"),
        ("GET", "/"),
        ("POST", "/control/approvals.allow"),
        ("OPTIONS", "/mcp"),
    ];
    let (mut let_through, mut calls) = (0, 0);
    for (host_good, host) in &hosts {
        for (origin_good, origin) in &origins {
            for token in tokens {
                for (method, path) in routes {
                    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n");
                    host.iter().for_each(|it| head.push_str(&format!("Host: {it}\r\n")));
                    origin.iter().for_each(|it| head.push_str(&format!("Origin: {it}\r\n")));
                    token.into_iter().for_each(|it| head.push_str(&format!("Authorization: Bearer {it}\r\n")));
                    head.push_str("\r\n");
                    let status = status_of(at, head.as_bytes());
                    let good = *host_good && *origin_good;
                    // A request without a Host is invalid HTTP, which is checked first.
                    let refused = status == Some(403) || (host.is_empty() && status == Some(400));
                    assert_eq!(
                        !refused, good,
                        "{method} {path} Host {host:?} Origin {origin:?} token {token:?}: {status:?}"
                    );
                    let_through += u32::from(good);
                    calls += usize::from(good && path.starts_with("/tools/") && token == Some(right.as_str()));
                }
            }
        }
    }
    assert_eq!(let_through, 3 * 3 * 3 * 12, "some requests with a correct Host and Origin were refused");
    let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    assert_eq!(log.matches("\"phase\":\"outcome\"").count(), calls, "a refused request became a call");
}

/// The operations that all line-based doors share, so that one table of invalid data tests all of
/// them.
trait Wire {
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()>;
    fn end(&mut self);
    fn line(&mut self) -> Option<Value>;
}

struct Socket(BufReader<UnixStream>);

impl Socket {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Socket(BufReader::new(stream))
    }
}

impl Wire for Socket {
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    fn end(&mut self) {
        let _ = self.0.get_ref().shutdown(Shutdown::Write);
    }

    fn line(&mut self) -> Option<Value> {
        read_line(&mut self.0)
    }
}

/// `conductor mcp start`, as a client would start it.
struct Proxy {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Proxy {
    fn start(home: &Path) -> Self {
        let mut child = Command::new(BINARY)
            .args(["mcp", "start"])
            .env("CONDUCTOR_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Proxy { child, output }
    }
}

impl Wire for Proxy {
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.child.stdin.as_mut().unwrap().write_all(bytes)
    }

    fn end(&mut self) {
        self.child.stdin.take();
    }

    fn line(&mut self) -> Option<Value> {
        read_line(&mut self.output)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_line(input: &mut impl BufRead) -> Option<Value> {
    let mut line = String::new();
    // If the daemon closed the connection while the peer still wrote, the peer receives a reset
    // instead of the end of the stream.
    let read = input.read_line(&mut line).ok()?;
    (read > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line:?}")))
}

const STATUS: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":\"after\",\"method\":\"conductor_get_status\"}\n";
const CONTROL_STATUS: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":\"after\",\"method\":\"call\",\"params\":{\"tool\":\"conductor_get_status\"}}\n";

fn nested(depth: usize) -> Vec<u8> {
    let mut line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"conductor_get_status\",\"params\":{\"a\":".to_vec();
    line.extend(std::iter::repeat_n(b'[', depth));
    line.extend(std::iter::repeat_n(b']', depth));
    line.extend(b"}}\n");
    line
}

/// Sends lines that are not requests, each followed by a valid request on the same connection.
fn garbage_then_a_request(open: &mut dyn FnMut() -> Box<dyn Wire>, good: &[u8]) {
    let lines: Vec<(&str, Vec<u8>)> = vec![
        ("nested far beyond any use", nested(500_000)),
        ("only brackets", [vec![b'['; 1_000_000], vec![b'\n']].concat()),
        ("no UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\x80\"}\n".to_vec()),
        ("a lone surrogate", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}\n".to_vec()),
        ("zeros", [vec![0; 4096], vec![b'\n']].concat()),
        ("cut off", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth\n".to_vec()),
        (
            "a number no machine holds",
            [b"{\"jsonrpc\":\"2.0\",\"id\":1".to_vec(), vec![b'9'; 100_000], b"}\n".to_vec()].concat(),
        ),
        ("a batch", b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n".to_vec()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
    ];
    for (what, line) in lines {
        let mut wire = open();
        wire.send(&line).unwrap();
        wire.send(good).unwrap();
        wire.end();
        let mut answers = Vec::new();
        while let Some(answer) = wire.line() {
            answers.push(answer);
        }
        let after = answers.iter().find(|it| it["id"] == "after").unwrap_or_else(|| panic!("{what}: {answers:?}"));
        assert!(after["result"].is_object(), "{what}: {after}");
        assert!(answers.len() > 1, "{what} was not answered");
        for refusal in answers.iter().filter(|it| it["id"] != "after") {
            let code = refusal["error"]["code"].as_i64().unwrap_or_else(|| panic!("{what}: {refusal}"));
            assert!([-32700, -32600, -32601, -32602].contains(&code), "{what}: {refusal}");
        }
    }
    // Ten thousand invalid lines: each is answered, in order, and the request after them too.
    let mut wire = open();
    let mut flood = b"not json\n".repeat(10_000);
    flood.extend(good);
    let mut refused = 0;
    // Send in pieces while reading; otherwise each side would wait for the other to read.
    for piece in flood.chunks(4096) {
        wire.send(piece).unwrap();
        for _ in piece.iter().filter(|it| **it == b'\n') {
            let answer = wire.line().unwrap();
            if answer["id"] == "after" {
                assert!(answer["result"].is_object(), "{answer}");
            } else {
                assert_eq!(answer["error"]["code"], -32700);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 10_000);
    // An incomplete request, then the connection closes: the daemon sends nothing or an error, and
    // nothing hangs.
    let mut wire = open();
    wire.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"conductor_get_st").unwrap();
    wire.end();
    while let Some(answer) = wire.line() {
        assert!(answer["error"].is_object(), "{answer}");
    }
    // 64 MiB without a newline: the daemon reports the error and closes the connection.
    let mut wire = open();
    let mebibyte = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while sent < 64 && wire.send(&mebibyte).is_ok() {
        sent += 1;
    }
    wire.end();
    let told = wire.line();
    // A peer that still writes may receive the reset instead of the reason.
    if let Some(told) = told {
        assert_eq!((&told["id"], &told["error"]["code"]), (&Value::Null, &json!(-32600)), "{told}");
    } else {
        assert!(sent < 64, "the daemon read everything without an error");
    }
}

/// Sends the invalid data of one door and checks that the daemon's memory stays within the limit.
fn stays_small(studio: &Studio, mut act: impl FnMut()) {
    let before = resident_peak(studio.pid()).expect("the daemon has ended");
    act();
    let after = resident_peak(studio.pid()).expect("the daemon has ended");
    assert!(after.saturating_sub(before) < ROOM, "the memory grew from {before} to {after} bytes");
    assert_eq!(studio.status()["pid"], studio.pid(), "another process answers");
}

#[test]
fn garbage_on_the_door_of_ai_clients() {
    let (studio, _, _) = open();
    let path = studio.home().join("mcp.sock");
    stays_small(&studio, || garbage_then_a_request(&mut || Box::new(Socket::connect(&path)), STATUS));
}

#[test]
fn garbage_on_the_human_door() {
    let (studio, _, _) = open();
    let path = studio.home().join("control.sock");
    stays_small(&studio, || garbage_then_a_request(&mut || Box::new(Socket::connect(&path)), CONTROL_STATUS));
}

#[test]
fn garbage_through_a_proxy() {
    let (studio, _, _) = open();
    let home = studio.home().to_owned();
    stays_small(&studio, || garbage_then_a_request(&mut || Box::new(Proxy::start(&home)), STATUS));
}

#[test]
fn garbage_over_http() {
    let (studio, at, token) = open();
    let head = |more: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{more}\r\n"
        )
        .into_bytes()
    };
    let body = |bytes: &[u8]| {
        [head(&format!("Content-Length: {}\r\nConnection: close\r\n", bytes.len())), bytes.to_vec()].concat()
    };
    stays_small(&studio, || {
        // Send bodies that are not valid messages.
        for (what, bytes) in [
            ("nested", nested(500_000)),
            ("no UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}".to_vec()),
            ("cut off", b"{\"jsonrpc\":\"2.0\",\"id\":1,".to_vec()),
            ("a batch", b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]".to_vec()),
            ("zeros", vec![0; 4096]),
            ("nothing", Vec::new()),
        ] {
            let status = status_of(at, &body(&bytes));
            assert!(status.is_some_and(|it| (400..500).contains(&it)), "{what}: {status:?}");
        }
        // Send bodies that are too long: by their Content-Length, and by their actual size. The
        // bytes of a third body are announced but never sent.
        assert_eq!(status_of(at, &body(&vec![b'x'; 8 << 20])), Some(413));
        let chunk = [b"100000\r\n".to_vec(), vec![b'x'; 1 << 20], b"\r\n".to_vec()].concat();
        let endless = [head("Transfer-Encoding: chunked\r\n"), chunk.repeat(16)].concat();
        assert_eq!(status_of(at, &endless), Some(413));
        let mut promised = TcpStream::connect(at).unwrap();
        promised.write_all(&[head("Content-Length: 1099511627776\r\n"), b"{".to_vec()].concat()).unwrap();
        drop(promised);
        // Send invalid request heads.
        for (what, bytes) in [
            ("noise", (0u8..=255).cycle().take(100_000).collect::<Vec<u8>>()),
            ("another version", format!("GET /health HTTP/9.9\r\nHost: {at}\r\n\r\n").into_bytes()),
            ("a header without end", [b"GET /health HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 4 << 20]].concat()),
            (
                "headers without number",
                [format!("GET /health HTTP/1.1\r\nHost: {at}\r\n").into_bytes(), b"X: y\r\n".repeat(100_000)].concat(),
            ),
            ("two lengths", [head("Content-Length: 2\r\nContent-Length: 3\r\n"), b"{}".to_vec()].concat()),
            ("a chunk of no size", [head("Transfer-Encoding: chunked\r\n"), b"zz\r\n{}\r\n".to_vec()].concat()),
        ] {
            let status = status_of(at, &bytes);
            assert!(status.is_none_or(|it| (400..600).contains(&it)), "{what}: {status:?}");
        }
        // A hundred requests in one write, followed by invalid bytes: all requests are answered
        // first.
        let mut many = format!("GET /health HTTP/1.1\r\nHost: {at}\r\n\r\n").repeat(100).into_bytes();
        many.extend(b"\xff\xff\xff\r\n\r\n");
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&many).unwrap();
        let mut answers = Vec::new();
        let _ = stream.read_to_end(&mut answers);
        assert_eq!(text(&answers).matches("HTTP/1.1 200").count(), 100);
    });
    let good = body(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#);
    assert_eq!(status_of(at, &good), Some(200), "a valid client was refused after the invalid data");
}

#[test]
fn another_user_is_turned_away_from_the_door_of_ai_clients() {
    if !rustix::process::geteuid().is_root() {
        conductor_testkit::skips::note("another user: only root can become one");
        return;
    }
    let (studio, _, _) = open();
    let everyone = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    everyone(studio.home());
    everyone(&studio.home().join("mcp.sock"));
    let copy = studio.home().join("copy");
    std::fs::copy(BINARY, &copy).unwrap();
    let request = studio.home().join("request");
    std::fs::write(&request, STATUS).unwrap();
    let stranger = |uid: u32| {
        let mut command = Command::new(&copy);
        command.args(["mcp", "start"]).env("CONDUCTOR_HOME", studio.home()).current_dir("/").uid(uid).gid(uid);
        command.stdin(std::fs::File::open(&request).unwrap()).output().unwrap()
    };
    let output = stranger(65534);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "another user received data");
    assert!(stranger(0).status.success(), "the owner was refused");
    let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    assert_eq!(
        log.matches("\"phase\":\"outcome\"").count(),
        1,
        "the log does not contain exactly the call of the owner"
    );
}

/// Several proxies that find no daemon start one each. One daemon remains and serves all proxies.
#[test]
fn proxies_that_start_at_once_end_with_one_daemon() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), format!("{DEVICES}[http]\nbind = \"127.0.0.1:0\"\n")).unwrap();
    let mut proxies: Vec<Proxy> = (0..4).map(|_| Proxy::start(home.path())).collect();
    let pids: Vec<u64> = proxies
        .iter_mut()
        .map(|proxy| {
            proxy.send(STATUS).unwrap();
            let answer = proxy.line().expect("a proxy was not served");
            answer["result"]["pid"].as_u64().unwrap_or_else(|| panic!("{answer}"))
        })
        .collect();
    let daemon = pids[0];
    // Daemons that could not lock the home report that and exit.
    until("one daemon is left", || (daemons(home.path()) == [daemon as u32]).then_some(()));
    assert!(pids.iter().all(|it| *it == daemon), "{pids:?}");
    assert!(proxies.iter().all(|it| u64::from(it.child.id()) != daemon), "a proxy is the daemon");
    // The daemon keeps running when its clients end.
    for proxy in &mut proxies {
        proxy.end();
        assert!(proxy.child.wait().unwrap().success());
    }
    let mut late = Proxy::start(home.path());
    late.send(STATUS).unwrap();
    assert_eq!(late.line().unwrap()["result"]["pid"], daemon);
    // When the daemon ends, its clients exit with 1. `Child::wait` would close the client's input
    // and so end it, so take the input first.
    let input = late.child.stdin.take();
    kill_process(Pid::from_raw(daemon as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(late.child.wait().unwrap().code(), Some(1));
    drop(input);
    until("the daemon has ended", || daemons(home.path()).is_empty().then_some(()));
    assert!(!home.path().join("control.sock").exists(), "the daemon has not removed its socket");
}

/// The process ids of all daemons of this home.
fn daemons(home: &Path) -> Vec<u32> {
    let own = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<&[u8]> = words.split(|it| *it == 0).collect();
        let home = home.as_os_str().as_encoded_bytes();
        (words.contains(&home) && words.contains(&&b"up"[..])).then_some(pid)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(own).collect()
}

#[test]
fn the_tail_of_the_log_follows_a_running_daemon() {
    let (studio, _, _) = open();
    studio.ask("call", json!({ "tool": "conductor_list_modes" }));
    let mut tail = studio.command().args(["audit", "tail", "-f", "-n", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("conductor_list_modes"), "the existing record was not shown");
    for tool in ["conductor_get_status", "conductor_list_devices"] {
        studio.ask("call", json!({ "tool": tool }));
        let line = lines.next().unwrap();
        assert!(line.contains(tool) && line.contains("ok"), "{line}");
    }
    drop(lines);
    studio.ask("call", json!({ "tool": "conductor_get_status" }));
    assert!(tail.wait().unwrap().success(), "the command did not end when its output was closed");
}
