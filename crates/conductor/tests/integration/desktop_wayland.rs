//! Text and focus on Wayland, with a real compositor (sway) and a real terminal (foot).

use conductor_daemon::app::Machine;
use conductor_gateway::report::BackendState;
use conductor_hosts::desktop::session::Compositor;
use conductor_hosts::desktop::virtual_keyboard::VirtualKeyboard;
use conductor_hosts::desktop::{Backends, Desktop, Job, Session};
use conductor_testkit::daemon::{Setup, TestDaemon};
use conductor_testkit::real::{PATIENCE, sway, wait_for};
use conductor_testkit::require;

/// Accents, CJK characters, brackets and both cases, in several scripts.
const TEXT: &str = "Über (Ton) größer — 音楽 <ok> \\ | ~ @ Żółć";

fn session(server: &sway::Running) -> Session {
    Session {
        wayland: Some(server.wayland.clone()),
        compositor: Some(Compositor::Sway(server.ipc.clone())),
        ..Session::default()
    }
}

#[test]
fn text_arrives_byte_for_byte() {
    let server = require!(sway::start());
    let dir = tempfile::tempdir().expect("a directory");
    let typed = dir.path().join("typed.txt");
    // A headless sway has no keyboard of its own. Without one, the terminal would begin to listen
    // only after the first keys.
    let mut keyboard = VirtualKeyboard::at(server.wayland.clone());
    keyboard.open().expect("sway refused a virtual keyboard");
    let _terminal = server.terminal("CondTest", "typing", &typed).expect("foot could not be started");
    keyboard.carry_out(&Job::Text(format!("{TEXT}\n").into())).expect("typed");
    keyboard.carry_out(&Job::Text("again\n".into())).expect("typed");
    let expected = format!("{TEXT}\nagain\n");
    let read = || std::fs::read_to_string(&typed).unwrap_or_default();
    assert!(wait_for(PATIENCE, || (read() == expected).then_some(())).is_some(), "{:?}", read());
}

#[test]
fn keys_without_a_device_file_are_refused_with_the_cure() {
    let server = require!(sway::start());
    let mut backends = Backends::of(&Session { uinput: Some("/nonexistent/uinput".into()), ..session(&server) });
    let why = backends.open().expect_err("the missing device file was opened").to_string();
    assert!(why.contains("uinput"), "{why}");
}

#[test]
fn the_window_in_front_chooses_the_mode() {
    let server = require!(sway::start());
    let dir = tempfile::tempdir().expect("a directory");
    let machine = Machine { desktop: session(&server), ..Machine::default() };
    let config = "[per_app_modes]\ndefault = \"Default\"\nrules = { condlive = \"Session\" }\n\
                  [[modes]]\nname = \"Default\"\n[[modes]]\nname = \"Session\"\n";
    let daemon = TestDaemon::start_with(Setup { machine, ..Setup::default() }, config);
    let desktop =
        || daemon.status().backends.into_iter().find(|it| it.name == "desktop").expect("no desktop backend is listed");
    assert!(wait_for(PATIENCE, || (desktop().state == BackendState::Ready).then_some(())).is_some(), "{:?}", desktop());
    let mode = |wanted: &str| {
        let now = || daemon.status().current_mode;
        assert!(
            wait_for(PATIENCE, || (now() == wanted).then_some(())).is_some(),
            "the mode is {}, not {wanted}",
            now()
        );
    };
    let _live = server.terminal("CondLive", "song", &dir.path().join("a")).expect("foot could not be started");
    mode("Session");
    let _other = server.terminal("CondOther", "shell", &dir.path().join("b")).expect("foot could not be started");
    mode("Default");
    assert!(server.focus("CondLive"));
    mode("Session");
    drop(server);
    assert!(wait_for(PATIENCE, || (desktop().state == BackendState::Missing).then_some(())).is_some());
}
