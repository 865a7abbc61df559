//! Starting, sharing a home, and stopping.

use crate::studio::{BINARY, DEVICES, Studio, text};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const HOLDING: &str = r#"
[[modes]]
name = "Default"
[[modes.mappings]]
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "NoteOn", note = 60 }
"#;

#[test]
fn ending_releases_what_is_held_and_leaves_the_home_clean() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut studio = Studio::start(&format!("{DEVICES}{HOLDING}"));
        let mut synth = studio.listen("synth");
        let mut hand = studio.hand();
        hand.play(&[0x90, 36, 100]);
        assert_eq!(synth.hear(), Some(vec![0x90, 60, 100]));
        studio.signal(signal);
        assert_eq!(
            synth.hear().map(|it| (it[0], it[1])),
            Some((0x80, 60)),
            "the note was not released before the daemon ended"
        );
        assert_eq!(synth.hear(), None);
        let output = studio.ended();
        assert!(output.status.success(), "{signal:?}: {}", text(&output.stderr));
        for socket in ["control.sock", "mcp.sock"] {
            assert!(!studio.home().join(socket).exists(), "{socket}");
        }
        assert_eq!(studio.up(&[])["ready"], true, "the home is still locked");
    }
}

/// Without an option the home is `~/.conductor`, and the one-line command of the documentation
/// reaches its socket.
#[test]
fn the_home_is_a_folder_in_the_persons_own() {
    let person = tempfile::tempdir().unwrap();
    let mut daemon = Command::new(BINARY)
        .args(["--json", "up", "--http", "127.0.0.1:0"])
        .env("HOME", person.path())
        .env_remove("CONDUCTOR_HOME")
        .env_remove("DISPLAY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(daemon.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains("\"ready\":true"), "{ready}");
    let mut stream = UnixStream::connect(person.path().join(".conductor/mcp.sock")).unwrap();
    writeln!(stream, "{}", json!({ "jsonrpc": "2.0", "method": "conductor_get_status", "params": {}, "id": 1 }))
        .unwrap();
    // Close only the sending direction, as `nc` does at the end of its input.
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["result"]["daemon_running"], true, "{answer}");
}

#[test]
fn a_second_daemon_on_the_same_home_refuses_and_names_the_first() {
    let studio = Studio::start(DEVICES);
    let second = studio.run(&["up"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains(&format!("pid {}", studio.pid())), "{}", text(&second.stderr));
    assert_eq!(studio.status()["lifecycle_state"], "Running", "the first daemon does not run any more");
}

#[test]
fn what_a_killed_daemon_left_behind_does_not_matter() {
    let mut studio = Studio::start(DEVICES);
    studio.signal(Signal::KILL);
    studio.ended();
    assert!(studio.home().join("control.sock").exists());
    assert_eq!(studio.run(&["status"]).status.code(), Some(1));
    assert_eq!(studio.up(&[])["ready"], true);
    assert_eq!(studio.status()["running"], true);
}

#[test]
fn a_file_where_the_socket_belongs_is_left_alone() {
    let studio = Studio::empty();
    std::fs::write(studio.home().join("control.sock"), "precious").unwrap();
    let output = studio.run(&["up"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not a socket"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(studio.home().join("control.sock")).unwrap(), "precious");
}

#[test]
fn the_home_and_its_door_are_private() {
    let studio = Studio::start(DEVICES);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(studio.home()), 0o700);
    assert_eq!(mode(&studio.home().join("state")), 0o700);
    assert_eq!(mode(&studio.home().join("control.sock")), 0o600);
}

#[test]
fn another_user_is_turned_away_even_where_the_files_would_let_him_in() {
    if !rustix::process::geteuid().is_root() {
        conductor_testkit::skips::note("another user: only root can become one");
        return;
    }
    let studio = Studio::start(DEVICES);
    let open = |path: &std::path::Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    open(studio.home());
    open(&studio.home().join("control.sock"));
    // The other user may not have access to the binary's folder, so use a copy next to the socket.
    let copy = studio.home().join("copy");
    std::fs::copy(BINARY, &copy).unwrap();
    let stranger = |uid: u32| {
        let mut command = std::process::Command::new(&copy);
        command.env("CONDUCTOR_HOME", studio.home()).arg("status").uid(uid).gid(uid).current_dir("/");
        command.output().unwrap()
    };
    let output = stranger(65534);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("closed the connection"), "{}", text(&output.stderr));
    assert!(stranger(0).status.success(), "the owner was refused");
}

#[test]
fn a_new_home_gets_a_configuration_and_an_old_one_is_left_alone() {
    let mut studio = Studio::empty();
    studio.up(&[]);
    let written = std::fs::read_to_string(studio.config_file()).unwrap();
    assert_eq!(written, conductor_core::config::TUTORIAL);
    // The first line names the schema, relative to the file.
    let schema = written.lines().next().and_then(|it| it.strip_prefix("#:schema ./")).unwrap();
    let schema = std::fs::read_to_string(studio.home().join(schema)).unwrap();
    assert_eq!(schema, conductor_core::config::reference::schema_text());
    let printed = studio.run(&["config", "schema"]);
    assert_eq!(text(&printed.stdout), schema);
    let status = studio.status();
    assert_eq!((&status["current_mode"], &status["config"]["error"]), (&json!("Default"), &json!(null)));

    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), HOLDING.replace("pads", "pads2")).unwrap();
    let before = std::fs::read(studio.config_file()).unwrap();
    studio.up(&["--demo"]);
    assert_eq!(std::fs::read(studio.config_file()).unwrap(), before);
    let devices = studio.call("conductor_list_devices", json!({}));
    assert_eq!(devices["midi_inputs"], json!(["keys", "pads"]), "the demo's controllers are missing");
}

#[test]
fn a_broken_file_at_start_degrades_and_the_next_good_save_heals() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), "schema = ").unwrap();
    studio.up(&[]);
    let status = studio.status();
    assert_eq!(status["lifecycle_state"], "Degraded");
    assert!(status["config"]["error"].as_str().unwrap().starts_with("config.toml:1:"), "{status}");
    assert_eq!(status["current_mode"], "Default");
    studio.save(&format!("{DEVICES}{HOLDING}"));
    crate::studio::until("the good file is in force", || {
        (studio.status()["lifecycle_state"] == "Running").then_some(())
    });
    assert_eq!(studio.status()["config"]["error"], json!(null));
}

#[test]
fn a_taken_port_is_told_in_status_and_doctor_and_a_free_one_is_printed() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut studio = Studio::empty();
    assert_eq!(studio.up(&["--http", &address])["http"], serde_json::Value::Null);
    let backends = studio.status()["backends"].clone();
    let http = backends.as_array().unwrap().iter().find(|it| it["name"] == "http").unwrap();
    assert!(http["reason"].as_str().unwrap().starts_with(&format!("{address} is used")), "{http}");
    let doctor = studio.run(&["doctor"]);
    assert!(crate::studio::text(&doctor.stdout).contains("is used by another program"));

    let mut other = Studio::empty();
    let url = other.up(&[])["http"].as_str().unwrap().to_owned();
    let bound = url.trim_start_matches("http://").trim_end_matches("/mcp");
    assert!(std::net::TcpStream::connect(bound).is_ok(), "{url}");
}
