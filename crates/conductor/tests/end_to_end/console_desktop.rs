//! The console and the desktop: `conductor console --open` starts a browser, and a question is
//! announced on the desktop while no page is in front.

use crate::studio::{BINARY, DEVICES, Studio, until};
use conductor_testkit::http_client::{request, send};
use conductor_testkit::real::keyring::{self, Ring};
use conductor_testkit::require;
use conductor_testkit::stranger::DirectClient;
use conductor_testkit::terminal::at_a_terminal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const MODE: &str = "[[modes]]\nname = \"Default\"\n";
const OWN: [(&str, &str); 2] = [("Sec-Fetch-Site", "same-origin"), ("Content-Type", "application/json")];
/// Limit in real time for a notification. No test asserts on it.
const PATIENCE: Duration = Duration::from_secs(60);

fn person(home: &Path, words: &[&str], more: &[(&str, &str)]) -> String {
    let mut command = Command::new(BINARY);
    command.env("CONDUCTOR_HOME", home).envs(more.iter().copied()).args(words);
    let (code, said) = at_a_terminal(command);
    assert_eq!(code, Some(0), "{said}");
    said
}

fn exchange(address: SocketAddr, method: &str, path: &str, key: &str, body: &str) -> (u16, Value) {
    let headers = [OWN[0], OWN[1], ("X-Conductor-Key", key)];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(send(address, &request(address, method, path, &headers, body)));
    (answer.status, answer.json())
}

fn post(address: SocketAddr, path: &str, key: &str, body: &Value) -> (u16, Value) {
    exchange(address, "POST", path, key, &body.to_string())
}

fn address_of(up: &Value) -> SocketAddr {
    let url = up["http"].as_str().unwrap();
    url.trim_start_matches("http://").trim_end_matches("/mcp").parse().unwrap()
}

fn secret_in(text: &str) -> String {
    let start = text.find("#login=").unwrap_or_else(|| panic!("no link in {text}")) + "#login=".len();
    text[start..].chars().take_while(|it| it.is_ascii_alphanumeric() || "-_".contains(*it)).collect()
}

#[test]
fn the_browser_is_given_a_file_and_the_secret_is_only_in_the_file() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), format!("{DEVICES}{MODE}")).unwrap();
    let address = address_of(&studio.up(&[]));
    // A browser that stores its arguments, the mode of the file, and the page that it reads.
    let folder = tempfile::tempdir().unwrap();
    let browser = folder.path().join("xdg-open");
    let script = "#!/bin/sh\ntrap '' HUP\nfolder=$(dirname \"$0\")\nprintf '%s\\n' \"$@\" > \"$folder/arguments\"\n\
                  stat -c %a \"$1\" > \"$folder/mode\"\ncat \"$1\" > \"$folder/page\"\ntouch \"$folder/done\"\n";
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let said = person(studio.home(), &["console", "--open"], &[("PATH", &path)]);
    assert!(said.contains("The browser opens the console."), "{said}");
    until("the browser has read the file", || folder.path().join("done").exists().then_some(()));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (arguments, page) = (read("arguments"), read("page"));
    let secret = secret_in(&page);
    assert_eq!(arguments.lines().count(), 1, "{arguments}");
    let file = Path::new(arguments.trim());
    assert_eq!(file.parent(), Some(studio.home().join("state").as_path()));
    assert!(!arguments.contains(&secret) && !arguments.contains("login"), "{arguments}");
    assert!(!said.contains(&secret), "the terminal shows the secret: {said}");
    assert_eq!(read("mode").trim(), "600");
    let (status, opened) = post(address, "/console/login", "", &json!({ "secret": secret }));
    assert_eq!(status, 200, "{opened}");
    assert!(!file.exists(), "the redirect file was not removed together with the link");
    let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    assert!(log.contains("console.opened") && !log.contains(&secret));
}

/// A notification service on a bus. Receives the titles and texts that it is asked to show.
#[cfg(target_os = "linux")]
fn desktop(address: &str) -> Receiver<(String, String)> {
    use dbus::Message;
    use dbus::blocking::Connection;
    use dbus::channel::{Channel, MatchingReceiver, Sender};
    use dbus::message::MatchRule;
    let (shown, received) = channel();
    let mut bus = Channel::open_private(address).unwrap();
    bus.register().unwrap();
    let bus = Connection::from(bus);
    bus.request_name("org.freedesktop.Notifications", false, true, true).unwrap();
    let notify = move |message: Message, bus: &Connection| {
        let (_program, _replaces, _icon, title, text): (String, u32, String, String, String) = message.read5().unwrap();
        let _ = shown.send((title, text));
        bus.send(message.method_return().append1(1_u32)).unwrap();
        true
    };
    bus.start_receive(MatchRule::new_method_call(), Box::new(notify));
    std::thread::spawn(move || while bus.process(Duration::from_secs(1)).is_ok() {});
    received
}

#[cfg(target_os = "linux")]
#[test]
fn a_question_is_announced_on_the_desktop_while_no_page_is_in_front() {
    let bus = require!(keyring::start(Ring::Nobody));
    let shown = desktop(bus.address());
    let mut studio = Studio::empty();
    studio.set("DBUS_SESSION_BUS_ADDRESS", bus.address());
    std::fs::write(studio.config_file(), format!("{DEVICES}{MODE}")).unwrap();
    let address = address_of(&studio.up(&[]));
    let ask = |byte: u8| {
        let mut model = DirectClient::connect(studio.home());
        model.ask("conductor_send_sysex", &json!({ "port": "synth", "data": [0x7D, byte] }));
        model
    };
    let asked = ask(1);
    let (title, text) = shown.recv_timeout(PATIENCE).expect("a notification");
    assert!(title.contains("asks for conductor_send_sysex"), "{title}");
    assert!(text.contains("synth") && text.contains("conductor approvals list --watch"), "{text}");

    // A visible page shows the question itself, so there is no notification.
    let link = person(studio.home(), &["console"], &[]);
    let (status, opened) = post(address, "/console/login", "", &json!({ "secret": secret_in(&link) }));
    assert_eq!(status, 200, "{opened}");
    let key = opened["key"].as_str().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let headers = [OWN[0], ("X-Conductor-Key", key)];
    stream.write_all(&request(address, "GET", "/console/events?since=0", &headers, "")).unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    let front = |visible: bool| assert_eq!(post(address, "/console/front", key, &json!({ "visible": visible })).0, 200);
    front(true);
    let while_in_front = ask(2);
    let waiting = |count: usize| {
        until(&format!("{count} questions wait"), || {
            let state = exchange(address, "GET", "/console/state", key, "").1;
            let questions = state["questions"].as_array().cloned().unwrap_or_default();
            (questions.len() == count).then(|| questions.last().cloned())?
        })
    };
    waiting(2);
    // The page is hidden. The next notification is about the third question, so there was none
    // about the second.
    front(false);
    let after = ask(3);
    let (_, third) = shown.recv_timeout(PATIENCE).expect("a notification");
    let last = waiting(3);
    assert!(third.contains(last["short"].as_str().unwrap()), "{third}: {last}");
    drop((asked, while_in_front, after));
}
