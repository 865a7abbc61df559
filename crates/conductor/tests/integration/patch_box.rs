//! Tests what a patch can access in a Pd that the daemon started: no patch may affect the rest of
//! the machine.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::patch_tools::PatchTools;
use conductor_hosts::patch::PatchHost;
use conductor_hosts::patch::console::Question;
use conductor_hosts::pd::sandbox::Walls;
use conductor_hosts::pd::{PdHost, Settings};
use conductor_hosts::system::RealClock;
use conductor_testkit::real::{PATIENCE, pd, wait_for};
use conductor_testkit::require;
use serde_json::json;

const TOKEN: &str = "a-token-of-this-home";
const CONFIG: &str = "schema = 1\n";

/// A home with a Pd, and a folder that Pd must not access.
struct SandboxedPd {
    tools: PatchTools,
    outside: tempfile::TempDir,
    pd: Arc<PdHost>,
}

impl SandboxedPd {
    fn new(settings: Settings) -> SandboxedPd {
        let tools = PatchTools::new();
        let home = tools.studio.home.path().to_owned();
        fs::create_dir_all(home.join("state")).expect("made");
        fs::create_dir_all(home.join("patches")).expect("made");
        fs::write(home.join("config.toml"), CONFIG).expect("written");
        fs::write(home.join("state/http.token"), TOKEN).expect("written");
        let clock = Arc::new(RealClock::new());
        let pd = PdHost::new(&home, settings, tools.patches.voice().clone(), clock).expect("a folder");
        pd.notify(&tools.patches);
        tools.patches.drive(Arc::clone(&pd) as Arc<dyn PatchHost>);
        SandboxedPd { tools, outside: tempfile::tempdir().expect("a folder"), pd }
    }

    fn home(&self) -> PathBuf {
        self.tools.studio.home.path().to_owned()
    }

    fn console(&self) -> Vec<String> {
        let question = Question { principal: "test", patch_id: None, after: None, level: None, lines: 1000 };
        self.tools.patches.console(&question, false).0.into_iter().map(|it| it.text).collect()
    }

    /// Runs a patch whose loadbang sends each message to its box, and waits until Pd has processed
    /// all of them.
    async fn run(&self, name: &str, attempts: &[(&str, &str)]) {
        let mut text = String::from("#N canvas 0 0 450 300 12;\n#X obj 10 10 loadbang;\n#X obj 10 40 t b b;\n");
        text.push_str(&format!("#X obj 10 70 bng;\n#X msg 10 100 finished {name};\n#X obj 10 130 print;\n"));
        let mut cords =
            String::from("#X connect 0 0 1 0;\n#X connect 1 1 2 0;\n#X connect 1 0 3 0;\n#X connect 3 0 4 0;\n");
        for (n, (message, object)) in attempts.iter().enumerate() {
            let (at, to) = (5 + 2 * n, 6 + 2 * n);
            text.push_str(&format!("#X msg 200 {} {message};\n#X obj 200 {} {object};\n", 50 * n, 50 * n + 25));
            cords.push_str(&format!("#X connect 2 0 {at} 0;\n#X connect {at} 0 {to} 0;\n#X connect {to} 0 4 0;\n"));
        }
        self.open(name, &(text + &cords)).await;
        let mark = format!("finished {name}");
        let done = wait_for(PATIENCE, || self.console().iter().any(|it| it.contains(&mark)).then_some(()));
        assert!(done.is_some(), "{name}: {:?}", self.console());
    }

    async fn open(&self, name: &str, text: &str) {
        let file = format!("{name}.pd");
        self.tools.write(&file, text);
        // If the call needs an approval, a person approves it: the sandbox must also confine
        // approved patches.
        let open = json!({ "path": file, "host": "pd", "alias": name });
        if self.tools.output("open_patch", open.clone()).await.is_err() {
            self.tools.yes("open_patch", open).await;
        }
    }

    /// Checks that the files outside the patch folder have not changed, that the console does not
    /// contain the token, and that Pd still runs.
    async fn unharmed(&self) {
        assert_eq!(fs::read_to_string(self.home().join("config.toml")).expect("there"), CONFIG);
        assert_eq!(fs::read_to_string(self.home().join("state/http.token")).expect("there"), TOKEN);
        let left: Vec<PathBuf> =
            fs::read_dir(self.outside.path()).expect("there").map(|it| it.expect("read").path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
        let lines = self.console();
        assert!(!lines.iter().any(|it| it.contains(TOKEN)), "{lines:?}");
        assert!(self.pd.pid().is_some(), "{lines:?}");
    }
}

/// Sandboxes with both mechanisms that restrict the network, and with each of them alone.
fn boxes() -> Vec<Settings> {
    let walls = [(true, true), (true, false), (false, true)];
    walls.map(|(namespace, ports)| Settings { walls: Walls { namespace, ports }, ..Settings::default() }).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_writes_nothing_outside_the_patch_folder() {
    require!(pd::probe());
    let fixture = SandboxedPd::new(Settings::default());
    let (home, out) = (fixture.home().display().to_string(), fixture.outside.path().display().to_string());
    fixture
        .run(
            "writes",
            &[
                ("clear \\, add [policy] \\, write ../config.toml cr", "textfile"),
                (&format!("clear \\, add x \\, write {out}/textfile cr"), "textfile"),
                ("write ../state/http.token", "text define t"),
                (&format!("write {out}/text"), "text define u"),
                (&format!("write {out}/array"), "array define a 9"),
                ("write ../config.toml", "array define b 9"),
                (&format!("write -wave {out}/sound.wav a"), "soundfiler"),
                (&format!("clear \\, add x \\, write {out}/qlist cr"), "qlist"),
                (&format!("symbol {out}/folder"), "file mkdir"),
                (&format!("symbol {home}/config.toml"), "file delete"),
                (&format!("list {home}/state/http.token {out}/copy"), "file copy"),
                (&format!("list {home}/config.toml {out}/moved"), "file move"),
                (&format!("\\; pd-writes.pd savetofile saved.pd {out}"), "bng"),
                (&format!("\\; pd-writes.pd savetofile config.toml {}", fixture.home().display()), "bng"),
            ],
        )
        .await;
    fixture.unharmed().await;
    // Pd may write to the patch folder itself.
    fixture
        .run(
            "allowed",
            &[
                ("clear \\, add mine \\, write kept.txt cr", "textfile"),
                (&format!("symbol {home}/patches/made"), "file mkdir"),
            ],
        )
        .await;
    assert_eq!(fs::read_to_string(fixture.tools.file("kept.txt")).expect("written").trim(), "mine");
    assert!(fixture.tools.file("made").is_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_reads_nothing_of_the_home() {
    require!(pd::probe());
    let fixture = SandboxedPd::new(Settings::default());
    let token = fixture.home().join("state/http.token");
    fs::write(fixture.home().join("state/leak.pd"), "#N canvas 0 0 9 9 12;\n#X obj 1 1 loadbang;\n#X msg 1 40 leaked;\n#X obj 1 80 print;\n#X connect 0 0 1 0;\n#X connect 1 0 2 0;\n")
        .expect("written");
    std::os::unix::fs::symlink(&token, fixture.tools.file("link.txt")).expect("a link");
    std::os::unix::fs::symlink(fixture.home().join("state"), fixture.tools.file("way")).expect("a link");
    fixture
        .run(
            "reads",
            &[
                ("read ../state/http.token cr \\, rewind \\, bang", "textfile"),
                (&format!("read {} cr \\, rewind \\, bang", token.display()), "textfile"),
                ("read link.txt cr \\, rewind \\, bang", "textfile"),
                ("read way/http.token cr \\, rewind \\, bang", "textfile"),
                ("read ../state/http.token cr \\, rewind \\, bang", "qlist"),
                (&format!("list {} {}", token.display(), fixture.tools.file("copied.txt").display()), "file copy"),
                (
                    &format!(
                        "list {} {}",
                        fixture.tools.file("link.txt").display(),
                        fixture.tools.file("copied.txt").display()
                    ),
                    "file copy",
                ),
                (&format!("symbol {}/state/*", fixture.home().display()), "file glob"),
            ],
        )
        .await;
    // If a patch opens another while it loads, Pd loads the first one again. So this patch waits
    // 20 ms before it opens `leak.pd`.
    let state = fixture.home().join("state").display().to_string();
    let opens = format!(
        "#N canvas 0 0 9 9 12;\n#X obj 1 1 loadbang;\n#X obj 1 20 del 20;\n#X msg 1 40 \\; pd open leak.pd {state};\n#X connect 0 0 1 0;\n#X connect 1 0 2 0;\n"
    );
    fixture.open("opens", &opens).await;
    let tried = wait_for(PATIENCE, || fixture.console().iter().any(|it| it.contains("leak")).then_some(()));
    assert!(tried.is_some(), "{:?}", fixture.console());
    fixture.unharmed().await;
    assert!(!fixture.tools.file("copied.txt").exists());
    let told = fixture.console();
    assert!(!told.iter().any(|it| it.contains("leaked") || it.starts_with("print: symbol")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_reaches_no_network() {
    require!(pd::probe());
    for settings in boxes() {
        let fixture = SandboxedPd::new(settings);
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("known").port();
        let [tcp_port, udp_port] = [tcp.local_addr(), udp.local_addr()].map(|it| it.expect("known").port());
        fixture
            .run(
                "dials",
                &[
                    (&format!("connect 127.0.0.1 {tcp_port} \\, send stolen"), "netsend"),
                    (&format!("connect localhost {tcp_port} \\, send stolen"), "netsend -b"),
                    (&format!("connect 127.0.0.1 {udp_port} \\, send stolen"), "netsend -u"),
                    (&format!("connect 127.0.0.1 {udp_port} \\, send 1 2 3"), "netsend -u -b"),
                    (&format!("listen {free}"), "netreceive"),
                    (&format!("listen {free}"), "netreceive -u"),
                ],
            )
            .await;
        tcp.set_nonblocking(true).expect("set");
        udp.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
        let mut heard = [0; 64];
        assert!(udp.recv(&mut heard).is_err(), "a datagram arrived");
        assert!(tcp.accept().is_err(), "a connection arrived");
        assert!(TcpStream::connect(("127.0.0.1", free)).is_err(), "Pd listens on the TCP port");
        assert!(UdpSocket::bind(("127.0.0.1", free)).is_ok(), "Pd uses the UDP port");
        fixture.unharmed().await;
    }
}

/// If the configured program is not Pd, does not exist or is a script, the call fails at once
/// instead of waiting for a connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_not_pd_is_said_to_be_offline() {
    for (command, word) in [("/bin/true", "ended"), ("no-such-program", "not found"), ("script", "script")] {
        let script = tempfile::tempdir().expect("a folder");
        let wrapper = script.path().join("pd");
        fs::write(&wrapper, "#!/bin/sh\nexec pd \"$@\"\n").expect("written");
        let command = if command == "script" { wrapper } else { command.into() };
        let fixture = SandboxedPd::new(Settings { command, ..Settings::default() });
        let error = fixture.tools.no("create_patch", json!({ "host": "pd" })).await;
        assert_eq!(error.code, conductor_core::error::Code::HostOffline, "{error:?}");
        assert!(error.message.contains(word) && !error.hint.is_empty(), "{error:?}");
    }
    // The limits of the sandbox are described in words that a person understands.
    let fixture = SandboxedPd::new(Settings::default());
    assert!(fixture.pd.confinement().contains("patch folders"), "{}", fixture.pd.confinement());
}

/// A native library that a patch loads into Pd. It tries operations that a patch itself cannot
/// express.
const EXTERNAL: &str = r##"
use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;

unsafe extern "C" {
    fn socket(domain: i32, kind: i32, protocol: i32) -> i32;
    fn listen(socket: i32, backlog: i32) -> i32;
    fn kill(pid: i32, signal: i32) -> i32;
    fn chmod(path: *const std::ffi::c_char, mode: u32) -> i32;
    fn prlimit(pid: i32, what: u32, new: *const [u64; 2], old: *mut [u64; 2]) -> i32;
    fn truncate(path: *const std::ffi::c_char, length: i64) -> i32;
}

#[unsafe(no_mangle)]
pub extern "C" fn evil_setup() {
    let home = "@HOME@";
    let token = format!("{home}/state/http.token");
    let c = |text: &str| std::ffi::CString::new(text).unwrap();
    let parent = std::os::unix::process::parent_id() as i32;
    let mut old = [0; 2];
    let done = unsafe { [
        ("loaded", true),
        ("read", fs::read(&token).is_ok()),
        ("list", fs::read_dir(home).is_ok()),
        ("passwd", fs::read("/etc/passwd").is_ok()),
        ("write", fs::write("@OUT@/code", "x").is_ok()),
        ("chmod", chmod(c(&token).as_ptr(), 0o777) == 0),
        ("truncate", truncate(c(&token).as_ptr(), 0) == 0),
        ("link", std::os::unix::fs::symlink(&token, "@PATCHES@/made-link").is_ok()),
        ("hard", fs::hard_link(&token, "@PATCHES@/made-hard").is_ok()),
        ("tcp", TcpStream::connect("127.0.0.1:@TCP@").is_ok()),
        ("mptcp", socket(2, 1, 262) >= 0),
        ("udp", UdpSocket::bind("127.0.0.1:0").is_ok()),
        ("udp6", UdpSocket::bind("[::1]:0").is_ok()),
        ("raw", socket(2, 3, 1) >= 0),
        ("packet", socket(17, 3, 0) >= 0),
        ("netlink", socket(16, 3, 0) >= 0),
        ("vsock", socket(40, 1, 0) >= 0),
        ("bind", TcpListener::bind("127.0.0.1:0").is_ok()),
        ("listen", { let it = socket(2, 1, 0); it >= 0 && listen(it, 1) == 0 }),
        ("unix", UnixStream::connect("@SOCKET@").is_ok()),
        ("program", Command::new("/bin/sh").args(["-c", "true"]).status().is_ok()),
        ("own", Command::new("@PATCHES@/run.sh").status().is_ok()),
        ("signal", kill(parent, 0) == 0),
        ("limits", prlimit(parent, 4, std::ptr::null(), &mut old) == 0),
        ("environ", std::env::vars().any(|(key, _)| key != "PD_NOTHING")),
        ("descriptor", (3..64).any(|it| fs::read_link(format!("/proc/self/fd/{it}")).is_ok_and(|it| it.starts_with(home)))),
    ] };
    let report: String = done.iter().map(|(name, done)| format!("{name}={done}\n")).collect();
    fs::write("@PATCHES@/report.part", report).unwrap();
    fs::rename("@PATCHES@/report.part", "@PATCHES@/report").unwrap();
}
"##;

fn compile(text: &str, to: &Path) {
    let source = to.with_extension("rs");
    fs::write(&source, text).expect("written");
    let made = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=evil", "-Cprefer-dynamic=no", "-o"])
        .arg(to)
        .arg(&source)
        .output()
        .expect("rustc starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::remove_file(source).expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_a_patch_loads_is_in_the_box_too() {
    require!(pd::probe());
    for settings in boxes() {
        let fixture = SandboxedPd::new(settings);
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let sockets = tempfile::tempdir().expect("a folder");
        let socket = sockets.path().join("socket");
        let _unix = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let patches = fixture.home().join("patches");
        let text = EXTERNAL
            .replace("@HOME@", &fixture.home().display().to_string())
            .replace("@OUT@", &fixture.outside.path().display().to_string())
            .replace("@PATCHES@", &patches.display().to_string())
            .replace("@SOCKET@", &socket.display().to_string())
            .replace("@TCP@", &tcp.local_addr().expect("known").port().to_string());
        let library = patches.join("evil.pd_linux");
        compile(&text, &library);
        fs::write(patches.join("run.sh"), "#!/bin/sh\ntrue\n").expect("written");
        let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(patches.join("run.sh"), runs).expect("set");
        // A library outside the patch folder is not even read.
        let elsewhere = tempfile::tempdir().expect("a folder");
        fs::copy(&library, elsewhere.path().join("evil.pd_linux")).expect("copied");
        fs::rename(&library, patches.join("evil.hidden")).expect("moved");
        let declared = format!(
            "#N canvas 0 0 9 9 12;\n#X declare -lib {}/evil;\n#X obj 1 1 declare -lib {0}/evil;\n",
            elsewhere.path().display()
        );
        fixture.open("declares", &declared).await;
        fixture.run("after", &[]).await;
        assert!(!patches.join("report").exists(), "the library was loaded");
        // A library in the patch folder is loaded as code, but the sandbox confines it.
        fs::rename(patches.join("evil.hidden"), &library).expect("moved");
        let opened = fixture.tools.output("open_patch", json!({ "path": "after.pd", "host": "document" })).await;
        drop(opened);
        fixture.open("loads", "#N canvas 0 0 9 9 12;\n#X declare -lib evil;\n#X obj 1 1 declare -lib evil;\n").await;
        let report = wait_for(PATIENCE, || fs::read_to_string(patches.join("report")).ok())
            .expect("the library wrote no report");
        let done: Vec<&str> = report.lines().filter(|it| it.ends_with("=true")).collect();
        assert_eq!(done, ["loaded=true"], "{report}");
        tcp.set_nonblocking(true).expect("set");
        assert!(tcp.accept().map(|(mut it, _)| it.read(&mut [0; 9]).ok()).is_err(), "a connection arrived");
        assert!(fs::symlink_metadata(patches.join("made-link")).is_err());
        assert!(!patches.join("made-hard").exists());
        fixture.unharmed().await;
    }
}
