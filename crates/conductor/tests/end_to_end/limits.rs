//! The cost of floods, slow peers and expensive calls for a running daemon: descriptors, memory,
//! processor time and processes.

use super::studio::{BINARY, DEVICES, Studio, text, until};
use conductor_testkit::mcp_process::resident_peak;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const MEGABYTE: u64 = 1 << 20;
/// Maximum real time to wait; no test checks the time itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a daemon with these limits on open files. Returns it with its HTTP address.
pub fn few_files(soft: u32, hard: u32, config: &str) -> (Studio, std::net::SocketAddr) {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), format!("{DEVICES}{config}")).unwrap();
    let ready = studio.up_with(&[], |words| {
        let mut limited = Command::new("sh");
        limited.arg("-c").arg(format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"")).args(words);
        limited
    });
    let address = ready["http"].as_str().unwrap().trim_start_matches("http://").trim_end_matches("/mcp").parse();
    (studio, address.unwrap())
}

/// A client of the MCP socket that has sent `initialize` and not yet read the answer.
fn greeted(studio: &Studio) -> UnixStream {
    let mut stream = UnixStream::connect(studio.home().join("mcp.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "flood", "version": "1" } } });
    let _ = stream.write_all(format!("{hello}\n").as_bytes());
    stream
}

fn answer(stream: &UnixStream) -> Value {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_default()
}

/// Runs the commands that a person needs. Each has its own time limit.
fn the_person_gets_in(studio: &Studio, what: &str) {
    for words in [&["--json", "status"][..], &["panic"], &["send", "pads hand", "on:36 off:36"], &["approvals", "list"]]
    {
        let done = studio.run(words);
        assert!(done.status.success(), "{what}: {words:?}: {}", text(&done.stderr));
    }
}

fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

fn pause(ms: u64) {
    #[expect(clippy::disallowed_methods, reason = "lets another process work; nothing asserts on the time")]
    std::thread::sleep(Duration::from_millis(ms));
}

/// Processor time as a share of real time. A busy loop has about 1.
fn share_of_a_core(pid: u32) -> f64 {
    let before = processor_ticks(pid);
    pause(2000);
    (processor_ticks(pid) - before) as f64 / 200.0
}

#[test]
fn five_hundred_clients_do_not_lock_the_person_out() {
    for (soft, hard) in [(1024, 1024), (256, 4096)] {
        let (studio, _) = few_files(soft, hard, "");
        let clients: Vec<UnixStream> = (0..500).map(|_| greeted(&studio)).collect();
        let answers: Vec<Value> = clients.iter().map(answer).collect();
        let served = answers.iter().filter(|it| it["result"].is_object()).count();
        let refused = answers.iter().filter(|it| it["error"]["message"] == "Too many connections").count();
        assert_eq!(served + refused, 500, "some connections got no answer: {served} served, {refused} refused");
        assert!(served >= 100, "{served} at {soft}/{hard}");
        if hard > 1024 {
            assert_eq!(served, 500, "the soft limit was not raised");
        }
        the_person_gets_in(&studio, "with 500 clients");
        assert!(share_of_a_core(studio.pid()) < 0.5);
        drop(clients);
        until("a new client is served", || answer(&greeted(&studio))["result"].is_object().then_some(()));
    }
}

#[test]
fn silent_connections_do_not_lock_the_person_out() {
    let (studio, address) = few_files(1024, 1024, "");
    let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(5));
    let silent: Vec<TcpStream> = (0..1100).filter_map(|_| connect().ok()).collect();
    assert!(silent.len() > 1000, "{}", silent.len());
    the_person_gets_in(&studio, "with silent connections");
    let open = std::fs::read_dir(format!("/proc/{}/fd", studio.pid())).unwrap().count();
    assert!(open < 200, "{open} descriptors");
    assert!(share_of_a_core(studio.pid()) < 0.5);
    // An HTTP client is served at the same time.
    let mut client = connect().unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
        .write_all(format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

/// A client with many calls at once may open all its connections before it sends the first call.
#[test]
fn connections_that_were_opened_together_are_all_served() {
    let (_studio, address) = few_files(1024, 1024, "");
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
    let mut together: Vec<TcpStream> = (0..64).map(connect).collect();
    for (number, client) in together.iter_mut().enumerate() {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client
            .write_all(format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "connection {number}: {answer}");
    }
}

/// Connections to the human door that send nothing or half a line.
#[test]
fn silent_connections_of_the_human_door_make_room() {
    let (studio, _) = few_files(256, 256, "");
    let connect = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(studio.home().join("control.sock")).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let silent: Vec<UnixStream> = (0..150).map(|_| connect(b"")).chain((0..150).map(|_| connect(b"{\"id\""))).collect();
    the_person_gets_in(&studio, "with 300 silent connections of its own");
    drop(silent);
}

#[test]
fn slow_bodies_end() {
    let (studio, address) = few_files(1024, 1024, "");
    let token = std::fs::read_to_string(studio.home().join("state/http.token")).unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    );
    client.write_all(head.as_bytes()).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut said = Vec::new();
    // Send one byte from time to time: the time limit is for the whole body.
    for _ in 0..240 {
        let _ = client.write_all(b" ");
        let mut part = [0; 1024];
        match client.read(&mut part) {
            Ok(0) => break,
            Ok(n) => said.extend_from_slice(&part[..n]),
            Err(_) => continue,
        }
        if !said.is_empty() {
            break;
        }
    }
    assert!(text(&said).starts_with("HTTP/1.1 408"), "{}", text(&said));
}

/// The daemon's process is suspended, so no request gets an answer. Every command must still end.
#[test]
fn the_command_line_does_not_wait_for_ever() {
    let studio = Studio::start(DEVICES);
    studio.signal(rustix::process::Signal::STOP);
    for words in [&["status"][..], &["panic"], &["call", "conductor_get_status"], &["monitor"]] {
        let done = within(studio.command().args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let said = text(&done.stderr);
        assert!(!done.status.success() && said.contains("has not answered within"), "{words:?}: {said}");
    }
    studio.signal(rustix::process::Signal::CONT);
    assert!(studio.run(&["status"]).status.success());
}

/// The output of the child. Fails if the child does not end in time.
fn within(mut child: std::process::Child) -> Output {
    for _ in 0..600 {
        if child.try_wait().unwrap().is_some() {
            return child.wait_with_output().unwrap();
        }
        pause(100);
    }
    let _ = child.kill();
    panic!("the child process did not end in time");
}

#[test]
fn with_too_few_descriptors_it_says_so_before_anyone_can_connect() {
    for limit in [16, 32, 48] {
        let studio = Studio::empty();
        let script = format!("ulimit -n {limit} && exec \"$0\" up --http 127.0.0.1:0");
        let started = Command::new("sh")
            .args(["-c", &script, BINARY])
            .env("CONDUCTOR_HOME", studio.home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let done = within(started);
        assert_eq!(done.status.code(), Some(1), "{limit}");
        assert!(text(&done.stderr).contains("ulimit -n"), "{limit}: {}", text(&done.stderr));
        assert!(!studio.home().join("control.sock").exists() && !studio.home().join("mcp.sock").exists());
    }
}

/// Clients connect as soon as the socket exists, while the daemon is still starting.
#[test]
fn a_flood_at_the_start_does_not_end_the_daemon() {
    for limit in [64, 96] {
        let mut studio = Studio::empty();
        std::fs::write(studio.config_file(), DEVICES).unwrap();
        let (socket, stop) =
            (studio.home().join("mcp.sock"), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
        let over = std::sync::Arc::clone(&stop);
        let flood = std::thread::spawn(move || {
            let mut held = Vec::new();
            while !over.load(std::sync::atomic::Ordering::Relaxed) && held.len() < 300 {
                match UnixStream::connect(&socket) {
                    Ok(stream) => held.push(stream),
                    Err(_) => pause(1),
                }
            }
            held
        });
        studio.up_with(&[], |words| {
            let mut limited = Command::new("sh");
            limited.arg("-c").arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\"")).args(words);
            limited
        });
        the_person_gets_in(&studio, &format!("flooded at {limit}"));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(flood.join().unwrap());
        the_person_gets_in(&studio, &format!("after the flood at {limit}"));
    }
}

#[test]
fn clients_that_never_read_cost_little_and_it_comes_back() {
    let studio = Studio::start(DEVICES);
    let before = resident(studio.pid());
    let mut silent: Vec<UnixStream> = (0..60).map(|_| greeted(&studio)).collect();
    for stream in &mut silent {
        let _ = answer(stream);
        stream.set_nonblocking(true).unwrap();
        let mut lines = String::from("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        for id in 2..400 {
            lines.push_str(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}\n"));
        }
        let _ = stream.write_all(lines.as_bytes());
    }
    pause(5000);
    let peak = resident_peak(studio.pid()).unwrap();
    assert!(peak < before + 250 * MEGABYTE, "{} MB, before {} MB", peak / MEGABYTE, before / MEGABYTE);
    the_person_gets_in(&studio, "with clients that never read");
    drop(silent);
    let is_back = (0..120).any(|_| {
        pause(500);
        resident(studio.pid()) < before + 40 * MEGABYTE
    });
    assert!(is_back, "{} MB, before {} MB", resident(studio.pid()) / MEGABYTE, before / MEGABYTE);
}

#[test]
fn subscriptions_are_bounded() {
    let studio = Studio::start(DEVICES);
    let mut stream = greeted(&studio);
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut ask = |id: usize, uri: &str| -> Value {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": { "uri": uri } });
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    };
    let long = "x".repeat(3 * MEGABYTE as usize);
    for id in 100..160 {
        let refused = ask(id, &format!("{id}{long}"));
        assert_eq!(refused["error"]["code"], -32602, "{}", refused["error"]);
    }
    let kept = (1000..1400).filter(|id| ask(*id, &format!("conductor://x/{id}"))["error"].is_null()).count();
    assert_eq!(kept, 256);
    assert!(ask(2000, "conductor://x/1000")["error"].is_null(), "an existing subscription was refused");
    let peak = resident_peak(studio.pid()).unwrap();
    assert!(peak < 250 * MEGABYTE, "{} MB", peak / MEGABYTE);
}

#[test]
fn sixty_reads_of_one_byte_hold_sixty_bytes() {
    let mut studio = Studio::empty();
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("large"), vec![b'x'; 63 << 20]).unwrap();
    let roots = format!(
        "[tools.filesystem]\nroots = [{{ name = \"r\", path = \"{}\", write = true }}]\n",
        root.path().display()
    );
    std::fs::write(studio.config_file(), format!("{DEVICES}{roots}")).unwrap();
    studio.up(&[]);
    let home = studio.home().to_owned();
    let reads: Vec<_> = (0..60)
        .map(|n| {
            let home = home.clone();
            std::thread::spawn(move || {
                let mut stream = UnixStream::connect(home.join("mcp.sock")).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                // Every third call writes a file. Its question shows the current content, which
                // must be read.
                let (tool, more) = match n % 3 {
                    0 => ("filesystem.write", json!({ "path": "large", "content": "new" })),
                    _ => ("filesystem.read", json!({ "path": "large", "offset": n, "limit": 1 })),
                };
                let line = json!({ "jsonrpc": "2.0", "id": 1, "method": tool, "params": more });
                stream.write_all(format!("{line}\n").as_bytes()).unwrap();
                answer(&stream)
            })
        })
        .collect();
    let answers: Vec<Value> = reads.into_iter().map(|it| it.join().unwrap()).collect();
    assert!(answers.iter().any(|it| it["result"]["content"] == "x"), "{answers:?}");
    let peak = resident_peak(studio.pid()).unwrap();
    assert!(peak < 400 * MEGABYTE, "{} MB", peak / MEGABYTE);
}

/// When the caller of a query disconnects, the work of the query stops.
#[test]
fn a_query_that_was_given_up_uses_no_processor() {
    let studio = Studio::start(DEVICES);
    let part = |n: u32| format!("replace(hex(zeroblob({n})),'0','a')");
    let statements = [
        format!("SELECT instr({}, {}||'b')", part(15_000_000), part(6_000_000)),
        format!("SELECT instr({}, {}||'b')", part(500_000), part(250_000)),
        format!("SELECT {} LIKE '%'||{}||'b%'", part(500_000), part(20_000)),
        format!("SELECT {} GLOB '*'||{}||'b*'", part(500_000), part(20_000)),
        format!("SELECT trim({}, {}||'a')", part(500_000), "replace(hex(zeroblob(400000)),'0','b')"),
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n".to_owned(),
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 40000) SELECT randomblob(10000) AS r FROM n ORDER BY r".to_owned(),
    ];
    for sql in statements {
        let mut stream = UnixStream::connect(studio.home().join("mcp.sock")).unwrap();
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "database.query", "params": { "sql": sql } });
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        // The query runs, then the caller disconnects.
        pause(500);
        drop(stream);
        until("the query has ended", || studio.rests().then_some(()));
    }
    let peak = resident_peak(studio.pid()).unwrap();
    assert!(peak < 400 * MEGABYTE, "{} MB", peak / MEGABYTE);
}

fn commands(rows: &[(&str, &str)]) -> String {
    let row = |(name, script): &(&str, &str)| {
        let script = json!(script);
        format!(
            "[[tools.shell.commands]]\nname = \"{name}\"\nprogram = \"/bin/sh\"\nargs = [\"-c\", {script}]\neffect = \"read\"\ntimeout_ms = 3000\n"
        )
    };
    rows.iter().map(row).collect()
}

/// Child processes with a new session, a new parent, a new environment or other open files.
#[test]
fn nothing_that_a_command_started_outlives_it() {
    // Each process has its own number, so that the test can find it later.
    let rows = [
        ("session", "setsid sleep 86401 & sleep 0.2; echo started"),
        ("orphan", "(setsid sh -c 'sleep 86402 & exec sleep 86403' &) ; sleep 0.3; echo started"),
        ("bare", "(env -i setsid sleep 86404 </dev/null >/dev/null 2>&1 &) ; sleep 0.3; echo started"),
        ("late", "setsid sleep 86405 & (setsid sleep 86406 &) ; sleep 86407"),
        (
            "breeder",
            "(setsid sh -c 'while :; do sleep 86408 & sleep 0.01; done' >/dev/null 2>&1 &) ; sleep 0.3; echo started",
        ),
    ];
    let studio = Studio::start(&format!("{DEVICES}{}", commands(&rows)));
    for (name, _) in rows {
        let done = within(
            studio
                .command()
                .args(["--json", "call", "shell.exec", &json!({ "command": name }).to_string()])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let said = text(&done.stdout) + &text(&done.stderr);
        assert_eq!(said.contains("started"), name != "late", "{name}: {said}");
        assert_eq!(said.contains("TIMEOUT"), name == "late", "{name}: {said}");
        until(&format!("all processes of {name} have ended"), || sleepers().is_empty().then_some(()));
    }
}

fn sleepers() -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|it| std::fs::read(it.ok()?.path().join("cmdline")).ok());
    all.map(|it| text(&it).replace('\0', " ")).filter(|it| it.starts_with("sleep 8640")).collect()
}

/// Secrets are replaced in pieces of a file in the same way as in the whole file.
#[test]
fn a_secret_is_not_read_in_pieces() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("env"), "# settings\nAPI_KEY=sk-live-9f8e7d6c5b4a\nPORT=1\n").unwrap();
    let roots = format!("[tools.filesystem]\nroots = [{{ name = \"r\", path = \"{}\" }}]\n", root.path().display());
    let studio = Studio::start(&format!("{DEVICES}[secrets]\nkey = \"file\"\n{roots}"));
    let stored = super::secrets::set(&studio, "api", "sk-live-9f8e7d6c5b4a", "--allow-key-file");
    assert!(stored.status.success(), "{}", text(&stored.stdout));
    for size in [1, 3, 7, 12] {
        for encoding in ["utf-8", "base64"] {
            let mut all = Vec::new();
            for offset in (0..47).step_by(size) {
                let arguments = json!({ "path": "env", "offset": offset, "limit": size, "encoding": encoding });
                let piece = studio.ask("call", json!({ "tool": "filesystem.read", "arguments": arguments }));
                let content = piece["content"].as_str().unwrap();
                match encoding {
                    "utf-8" => all.extend_from_slice(content.as_bytes()),
                    _ => all.extend(base64_of(content)),
                }
            }
            let all = text(&all).replace("[secret:api]", "");
            assert_eq!(all, "# settings\nAPI_KEY=\nPORT=1\n", "wrong content, read in pieces of {size} as {encoding}");
        }
    }
    // The answer to a guessed secret does not show whether the guess is right.
    let guess = |name: &str| -> String {
        let mut stream = greeted(&studio);
        let _ = answer(&stream);
        let lines = [
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": name } }),
            json!({ "jsonrpc": "2.0", "id": 3, "method": name }),
            json!({ "jsonrpc": "2.0", "id": 4, "method": "resources/read", "params": { "uri": name } }),
            json!({ "jsonrpc": "2.0", "id": 5, "method": "prompts/get", "params": { "name": name } }),
        ];
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        let mut said = String::new();
        for line in lines {
            stream.write_all(format!("{line}\n").as_bytes()).unwrap();
            answers.read_line(&mut said).unwrap();
        }
        said
    };
    let (right, wrong) = (guess("no_such_sk-live-9f8e7d6c5b4a"), guess("no_such_sk-live-000000000000"));
    assert_eq!(right, wrong);
    assert!(!right.contains("secret:"), "{right}");
}

fn base64_of(content: &str) -> Vec<u8> {
    let mut child = Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
    child.wait_with_output().unwrap().stdout
}

/// A command that opens a port for HTTP clients.
struct Door {
    child: std::process::Child,
    address: std::net::SocketAddr,
}

impl Door {
    fn open(studio: &Studio, port: u16) -> Self {
        let mut child = studio
            .command()
            .args(["--json", "mcp", "start", "--transport", "http", "--port", &port.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let opened: Value = serde_json::from_str(&line).unwrap();
        Door { child, address: opened["address"].as_str().unwrap().parse().unwrap() }
    }

    fn end(mut self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        self.child.wait().unwrap();
    }
}

fn is_open(address: std::net::SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn ending_one_http_command_leaves_the_others() {
    use rustix::process::Signal;
    let studio = Studio::start(DEVICES);
    let (one, other) = (Door::open(&studio, free_port()), Door::open(&studio, free_port()));
    let (first, second) = (one.address, other.address);
    assert!(is_open(first) && is_open(second));
    one.end(Signal::TERM);
    assert!(!is_open(first) && is_open(second), "not exactly the port of the ended command was closed");
    // A third command shares the port of the second. The port stays open while one of them runs.
    let third = Door::open(&studio, second.port());
    assert_eq!(third.address, second);
    other.end(Signal::TERM);
    assert!(is_open(second), "the shared port was closed");
    // Another connection to the human door cannot close the port: only the end of a connection that
    // opened the port closes it.
    assert!(studio.control().ask("http.close", json!({ "address": second.to_string() })).is_err());
    studio.control().finish();
    assert!(is_open(second));
    third.end(Signal::KILL);
    until("the port of the killed command is closed", || (!is_open(second)).then_some(()));
}

#[test]
fn an_http_command_ends_with_its_daemon_and_says_so() {
    let mut studio = Studio::start(DEVICES);
    let door = Door::open(&studio, free_port());
    studio.stop();
    assert!(!within(door.child).status.success());
}

#[test]
fn a_token_that_was_cut_short_or_shown_to_another_program_is_replaced() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), DEVICES).unwrap();
    let file = studio.home().join("state/http.token");
    studio.up(&[]);
    let first = std::fs::read_to_string(&file).unwrap();
    studio.stop();
    for cut in ["", "abc", &first[..20], "not base64 at all, but quite long enough ...", "\u{0}"] {
        std::fs::write(&file, cut).unwrap();
        studio.up(&[]);
        let made = std::fs::read_to_string(&file).unwrap();
        assert!(made.len() == first.len() && made != first, "{cut:?}: {made}");
        studio.stop();
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    studio.up(&[]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kept, "a complete token was replaced");
    studio.stop();
    let impostor = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ready = studio.up(&["--http", &impostor.local_addr().unwrap().to_string()]);
    assert!(ready["http"].is_null(), "{ready}");
    assert_ne!(
        std::fs::read_to_string(&file).unwrap(),
        kept,
        "the token was kept, although the other program may have received it"
    );
    let status = studio.run(&["status"]);
    assert!(text(&status.stdout).contains("new token"), "{}", text(&status.stdout));
}

/// A file is in the place of the folder for plans. The error names the path of the folder.
#[test]
fn a_plan_that_cannot_be_stored_names_its_folder() {
    let studio = Studio::start(&format!("{DEVICES}[[modes]]\nname = \"Play\"\n"));
    let plans = studio.home().join("state/plans");
    std::fs::rename(&plans, studio.home().join("state/away")).unwrap();
    std::fs::write(&plans, "in the way").unwrap();
    let mapping = json!({
        "mode": "Play", "trigger": { "type": "Note", "note": 40, "device": "pads" },
        "action": { "type": "SendMidi", "port": "synth", "channel": 0, "message_type": "CC", "controller": 1, "value": 7 },
    });
    let refused = studio.refusal("call", json!({ "tool": "conductor_create_mapping", "arguments": mapping }));
    assert_eq!((&refused["code"], &refused["effect"]), (&json!("SDK_REJECTED"), &json!("none")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains(plans.to_str().unwrap()), "{refused}");
}

/// The daemon has no free descriptors, so a Set cannot be written. The error names that cause; the
/// file and the edits are kept.
#[test]
fn a_set_that_cannot_be_saved_for_want_of_descriptors_names_the_cause() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let mut studio = Studio::empty();
    studio.up(&["--demo"]);
    let mut client = studio.control();
    let mut call = |tool: &str, arguments: Value| client.ask("call", json!({ "tool": tool, "arguments": arguments }));
    let set = call("live_list_sets", json!({})).unwrap()["sets"][0].clone();
    let path = std::path::PathBuf::from(set["path"].as_str().unwrap_or_else(|| panic!("{set}")));
    let old = std::fs::read(&path).unwrap();
    call("live_set_tempo", json!({ "bpm": 91.5 })).unwrap();
    let pid = Pid::from_raw(studio.pid() as i32);
    // The last call writes another file, so it does not check whether the old file was changed.
    let other = path.with_file_name("other.als");
    for arguments in [json!({}), json!({ "overwrite": true }), json!({ "path": other })] {
        let few = |it: Rlimit| Rlimit { current: Some(3), maximum: it.maximum };
        let full = rustix::process::getrlimit(Resource::Nofile);
        let before = prlimit(pid, Resource::Nofile, few(full)).unwrap();
        let refused = call("live_save_set", arguments.clone());
        prlimit(pid, Resource::Nofile, before).unwrap();
        let Err(conductor_daemon::doors::control::client::ClientError::Refused(refused)) = refused else {
            panic!("{arguments}: {refused:?}");
        };
        let refused = refused.data;
        assert_eq!((&refused["code"], &refused["effect"]), (&json!("SDK_REJECTED"), &json!("none")), "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("Too many open files"), "{refused}");
        assert!(!refused.to_string().contains("another program"), "{refused}");
        assert!(std::fs::read(&path).unwrap() == old && !other.exists(), "{arguments}");
        let left = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten().map(|it| it.file_name());
        let left: Vec<_> = left.filter(|it| it.to_string_lossy().starts_with('.')).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    let saved = call("live_save_set", json!({})).unwrap();
    assert_eq!(saved["path"], json!(path), "{saved}");
    assert_ne!(std::fs::read(&path).unwrap(), old);
    let song = call("live_get_song_overview", json!({})).unwrap();
    assert_eq!(song["tempo"], 91.5, "the edit was lost: {song}");
}

/// The memory of a large configuration is released when a small one replaces it.
#[test]
fn a_large_configuration_leaves_no_memory_behind() {
    // Enough rows to measure the memory. Loading 60,000 rows twice would need half a minute in a
    // debug build.
    const ROWS: usize = 20_000;
    let small = format!("{DEVICES}[[modes]]\nname = \"Play\"\n");
    let mut large = small.clone();
    for row in 0..ROWS {
        large.push_str(&format!(
            "[[modes.mappings]]\nid = \"r{row}\"\ntrigger = {{ type = \"Note\", note = {}, device = \"pads\" }}\n\
             action = {{ type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"CC\", controller = {}, value = 1 }}\n",
            row % 128,
            row % 120,
        ));
    }
    let studio = Studio::start(&small);
    let before = resident(studio.pid());
    let first = studio.status()["config"]["hash"].clone();
    let patiently = |what: &str, holds: &dyn Fn() -> bool| {
        let came = (0..600).any(|_| {
            pause(200);
            holds()
        });
        assert!(came, "{what}: {} MB, before {} MB", resident(studio.pid()) / MEGABYTE, before / MEGABYTE);
    };
    let hash = || studio.status()["config"]["hash"].clone();
    studio.save(&large);
    patiently("the large file is in force", &|| hash() != first);
    let with_large = resident(studio.pid());
    assert!(with_large > before + 20 * MEGABYTE, "{} MB: nothing was loaded", with_large / MEGABYTE);
    studio.save(&small);
    studio.accept();
    patiently("the small file is in force", &|| hash() == first);
    patiently("the memory is back", &|| resident(studio.pid()) < before + (with_large - before) / 4);
}
