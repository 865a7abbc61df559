//! Keys, text, mouse and focus with a real X server and a real terminal; xdotool is the reference.

use conductor_core::action::{KeyName, Keystroke, Modifier, MouseButton};
use conductor_core::config::load;
use conductor_core::engine::Stroke;
use conductor_core::event::Taint;
use conductor_core::focus::{Focus, Window};
use conductor_daemon::app::Machine;
use conductor_gateway::report::BackendState;
use conductor_hosts::desktop::enigo_keys::EnigoKeys;
use conductor_hosts::desktop::{Desktop, Job, Session};
use conductor_hosts::focus;
use conductor_testkit::daemon::{Setup, TestDaemon};
use conductor_testkit::real::{PATIENCE, wait_for, x11};
use conductor_testkit::require;
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, PropMode};
use x11rb::wrapper::ConnectionExt as _;

/// Accents, one CJK character, brackets, both cases.
const TEXT: &str = "Über (Ton) [mix] {9} größer — 音 <ok> \\ | ~ @";

fn key(modifiers: &[Modifier], key: KeyName) -> Job {
    let keys = Keystroke { modifiers: modifiers.to_vec(), key: Some(key), hold: false };
    Job::Key { keys: Arc::new(keys), stroke: Stroke::Tap }
}

/// A terminal that writes its input to a file until Ctrl-D, and then closes.
struct Terminal {
    child: Child,
}

impl Terminal {
    fn open(server: &x11::Running, class: &str, title: &str, typed: &Path) -> Self {
        let script = format!("cat > '{}'", typed.display());
        let child = server
            .command("xterm")
            .args(["-u8", "-class", class, "-T", title, "-e", "sh", "-c", &script])
            .env("LC_ALL", "C.UTF-8")
            .process_group(0)
            .spawn()
            .expect("xterm could not be started");
        Terminal { child }
    }

    fn closes(&mut self) -> bool {
        wait_for(PATIENCE, || matches!(self.child.try_wait(), Ok(Some(_))).then_some(())).is_some()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ready(typed: &Path) {
    wait_for(PATIENCE, || typed.exists().then_some(())).expect("the shell of the terminal did not start");
}

/// Opens a terminal in front that writes its input to a file.
fn typing(server: &x11::Running, dir: &tempfile::TempDir) -> (PathBuf, Terminal) {
    let typed = dir.path().join("typed.txt");
    let terminal = Terminal::open(server, "CondTest", "typing", &typed);
    server.focus("CondTest").expect("the window of the terminal was not found");
    ready(&typed);
    (typed, terminal)
}

#[test]
fn text_and_keys_arrive_byte_for_byte() {
    let server = require!(x11::start());
    let dir = tempfile::tempdir().expect("a directory");
    let (typed, mut terminal) = typing(&server, &dir);
    let mut keys = EnigoKeys::on(Some(server.display.clone()));
    for job in [
        Job::Text(TEXT.into()),
        key(&[], KeyName::Return),
        key(&[Modifier::Shift], KeyName::Char('a')),
        key(&[], KeyName::Char('x')),
        key(&[], KeyName::Backspace),
        key(&[], KeyName::Return),
        key(&[Modifier::Ctrl], KeyName::Char('d')),
    ] {
        keys.carry_out(&job).unwrap_or_else(|why| panic!("{job:?}: {why}"));
    }
    assert!(terminal.closes(), "Ctrl-D did not close the terminal");
    let text = std::fs::read_to_string(&typed).expect("typed");
    assert_eq!(text, format!("{TEXT}\nA\n"));
}

#[test]
fn another_sender_writes_the_same() {
    let server = require!(x11::start());
    let dir = tempfile::tempdir().expect("a directory");
    let (typed, mut terminal) = typing(&server, &dir);
    // Control: if this fails, the terminal is at fault and not our keys.
    for args in [&["type", "plain (text)"][..], &["key", "Return"], &["key", "ctrl+d"]] {
        assert!(server.command("xdotool").args(args).status().is_ok_and(|it| it.success()));
    }
    assert!(terminal.closes());
    assert_eq!(std::fs::read_to_string(&typed).expect("typed"), "plain (text)\n");
}

#[test]
fn the_mouse_goes_where_it_is_sent() {
    let server = require!(x11::start());
    let mut keys = EnigoKeys::on(Some(server.display.clone()));
    keys.carry_out(&Job::Click { button: MouseButton::Left, at: Some((123, 77)) }).expect("clicked");
    let said =
        server.command("xdotool").args(["getmouselocation", "--shell"]).output().expect("xdotool could not be started");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("X=123") && said.contains("Y=77"), "{said}");
}

#[test]
fn a_held_key_goes_down_and_up() {
    let server = require!(x11::start());
    let mut keys = EnigoKeys::on(Some(server.display.clone()));
    let shift = |stroke| Job::Key {
        keys: Arc::new(Keystroke { modifiers: vec![Modifier::Shift], key: None, hold: true }),
        stroke,
    };
    // A modifier that one client holds down changes the keys that another client types.
    let dir = tempfile::tempdir().expect("a directory");
    let (typed, mut terminal) = typing(&server, &dir);
    let press = |it: &str| assert!(server.command("xdotool").args(["key", it]).status().is_ok_and(|it| it.success()));
    keys.carry_out(&shift(Stroke::Down)).expect("down");
    press("38");
    keys.carry_out(&shift(Stroke::Up)).expect("up");
    press("38");
    press("Return");
    press("ctrl+d");
    assert!(terminal.closes());
    let text = std::fs::read_to_string(&typed).expect("typed");
    assert_eq!(text, "Aa\n", "key code 38 did not type the letter a");
}

#[test]
fn without_a_display_the_reason_is_told_and_nothing_hangs() {
    let mut keys = EnigoKeys::on(Some(":nowhere".into()));
    let why = keys.carry_out(&Job::Text("x".into())).expect_err("a display that does not exist was opened").to_string();
    assert!(why.contains("display"), "{why}");
    let why =
        focus::open(&Session::on_x11(":nowhere")).err().expect("a display that does not exist was opened").to_string();
    assert!(why.contains("display"), "{why}");
}

/// There is no window manager here, so the test sets the front window.
fn bring_to_front(server: &x11::Running, id: u64) {
    let (connection, screen) = x11rb::connect(Some(&server.display)).expect("the server refused the connection");
    let root = connection.setup().roots[screen].root;
    let name = connection.intern_atom(false, b"_NET_ACTIVE_WINDOW").expect("sent").reply().expect("answered").atom;
    let id = u32::try_from(id).expect("the window id does not fit into 32 bits");
    let set = connection.change_property32(PropMode::REPLACE, root, name, AtomEnum::WINDOW, &[id]);
    set.expect("sent").check().expect("set");
}

#[test]
fn the_mode_follows_the_window_in_front() {
    const RULES: &str = r#"
[per_app_modes]
default = "Default"
rules = { condlive = "Session" }
window_rules = [{ app = "CondLive", title = "*mix*", mode = "Mix" }]
[[modes]]
name = "Default"
[[modes]]
name = "Session"
[[modes]]
name = "Mix"
"#;
    let server = require!(x11::start());
    let dir = tempfile::tempdir().expect("a directory");
    let files = [dir.path().join("a"), dir.path().join("b")];
    let _live = Terminal::open(&server, "CondLive", "song", &files[0]);
    let _other = Terminal::open(&server, "CondOther", "shell", &files[1]);
    let live = server.focus("CondLive").expect("the window of the terminal was not found");
    let other = server.focus("CondOther").expect("the window of the terminal was not found");

    let session = Session::on_x11(server.display.clone());
    let (told, hears) = mpsc::channel::<Option<Window>>();
    let thread = std::thread::spawn(move || {
        let mut watcher = focus::open(&session).expect("the server refused the connection");
        focus::watch(watcher.as_mut(), |window| match told.send(window) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    });
    let mut rules = Focus::new(load(RULES).config.expect("sound").per_app_modes);
    let mut next_mode = |change: &dyn Fn()| {
        change();
        loop {
            let window = hears.recv_timeout(PATIENCE).expect("no change of the focus was reported");
            if let Some(wish) = rules.focused(window) {
                return wish.mode;
            }
        }
    };
    assert_eq!(next_mode(&|| bring_to_front(&server, live)), "Session");
    assert_eq!(next_mode(&|| bring_to_front(&server, other)), "Default");
    assert_eq!(next_mode(&|| bring_to_front(&server, live)), "Session");
    let rename = || {
        let id = live.to_string();
        let renamed = server.command("xdotool").args(["set_window", "--name", "the mix of today", &id]).status();
        assert!(renamed.is_ok_and(|it| it.success()));
    };
    assert_eq!(next_mode(&rename), "Mix", "the changed title did not select the mode");
    drop(server);
    assert!(
        hears.recv_timeout(PATIENCE).is_ok_and(|it| it.is_none()),
        "the end of the display was not reported as an unknown window"
    );
    let why = thread.join().expect("the watcher panicked").to_string();
    assert!(why.contains("display"), "{why}");
}

/// A daemon that uses an X server of the test as its desktop.
struct Daemon(TestDaemon);

impl std::ops::Deref for Daemon {
    type Target = TestDaemon;

    fn deref(&self) -> &TestDaemon {
        &self.0
    }
}

impl Daemon {
    fn start(server: &x11::Running, config: &str) -> Self {
        let machine = Machine { desktop: Session::on_x11(&server.display), ..Machine::default() };
        Daemon(TestDaemon::start_with(Setup { machine, ..Setup::default() }, config))
    }

    /// Presses and releases the pad of a note.
    fn tap(&self, note: u8) {
        self.send("pads hand", &[0x90, note, 100]);
        self.send("pads hand", &[0x80, note, 0]);
    }

    fn until_mode(&self, wanted: &str) {
        let mode = || self.status().current_mode;
        assert!(
            wait_for(PATIENCE, || (mode() == wanted).then_some(())).is_some(),
            "the mode is {}, not {wanted}",
            mode()
        );
    }

    fn switch(&self, mode: &str) {
        self.block_on(self.handle().switch_mode(Some(mode.into()), Taint::Clean)).expect("the mode does not exist");
    }
}

const PADS: &str = "[[devices]]\nalias = \"pads\"\nloopback = true\n";

fn mapping(note: u8, action: &str) -> String {
    format!("[[global_mappings]]\ntrigger = {{ type = \"Note\", note = {note} }}\naction = {action}\n")
}

#[test]
fn pads_type_press_keys_and_click_through_the_daemon() {
    let server = require!(x11::start());
    let dir = tempfile::tempdir().expect("a directory");
    let (typed, mut terminal) = typing(&server, &dir);
    let config = [
        PADS.to_owned(),
        mapping(36, &format!("{{ type = \"Text\", text = {TEXT:?} }}")),
        mapping(37, "{ type = \"Keystroke\", keys = \"return\" }"),
        mapping(38, "{ type = \"Keystroke\", keys = [\"ctrl\", \"d\"] }"),
        mapping(39, "{ type = \"MouseClick\", button = \"left\", x = 321, y = 234 }"),
    ];
    let daemon = Daemon::start(&server, &config.concat());
    let desktop =
        || daemon.status().backends.into_iter().find(|it| it.name == "desktop").expect("no desktop backend is listed");
    assert!(wait_for(PATIENCE, || (desktop().state == BackendState::Ready).then_some(())).is_some(), "{:?}", desktop());
    for note in [36, 37, 38] {
        daemon.tap(note);
    }
    assert!(terminal.closes(), "Ctrl-D did not close the terminal");
    assert_eq!(std::fs::read_to_string(&typed).expect("typed"), format!("{TEXT}\n"));
    daemon.tap(39);
    let there = wait_for(PATIENCE, || {
        let said = server.command("xdotool").args(["getmouselocation", "--shell"]).output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        (said.contains("X=321") && said.contains("Y=234")).then_some(())
    });
    assert!(there.is_some());
    assert_eq!(daemon.status().statistics.actions_failed, 0);

    let display = server.display.clone();
    drop(server);
    assert!(
        wait_for(PATIENCE, || (desktop().state == BackendState::Missing).then_some(())).is_some(),
        "the end of {display} was not reported"
    );
    daemon.tap(37);
    assert!(wait_for(PATIENCE, || (daemon.status().statistics.actions_failed > 0).then_some(())).is_some());
}

#[test]
fn the_window_in_front_chooses_the_mode_until_a_person_does() {
    let server = require!(x11::start());
    let dir = tempfile::tempdir().expect("a directory");
    let files = [dir.path().join("a"), dir.path().join("b")];
    let _live = Terminal::open(&server, "CondLive", "song", &files[0]);
    let _other = Terminal::open(&server, "CondOther", "shell", &files[1]);
    let live = server.focus("CondLive").expect("the window of the terminal was not found");
    let other = server.focus("CondOther").expect("the window of the terminal was not found");
    let modes = "[[modes]]\nname = \"Default\"\n[[modes]]\nname = \"Session\"\n[[modes]]\nname = \"Mix\"\n";
    let condition = "{ type = \"Conditional\", condition = { type = \"AppFrontmost\", app_name = \"condlive\" }, \
                     then_action = { type = \"ModeChange\", mode = \"Mix\" } }";
    let with = |rules: &str| format!("[per_app_modes]\n{rules}\n{PADS}{}{modes}", mapping(36, condition));

    let daemon = Daemon::start(&server, &with("rules = { condlive = \"Session\" }"));
    bring_to_front(&server, live);
    daemon.until_mode("Session");
    bring_to_front(&server, other);
    daemon.reload(&with("default = \"Mix\"\nrules = { condlive = \"Session\" }"));
    daemon.until_mode("Mix");
    bring_to_front(&server, live);
    daemon.until_mode("Session");
    daemon.reload(&with("rules = { condlive = \"Session\" }\nwindow_rules = [{ app = \"CondLive\", title = \"s*\", mode = \"Default\" }]"));
    daemon.until_mode("Default");

    // A pad counts as a person: the chosen mode stays until another window is in front, or
    // permanently if the file disables that.
    daemon.tap(36);
    daemon.until_mode("Mix");
    let auto = daemon
        .block_on(daemon.handle().switch_mode(None, Taint::Clean))
        .expect("the configuration has no rules for windows");
    assert_eq!(auto.mode_name, "Default");
    daemon.switch("Mix");
    // The watcher may miss two quick changes, so alternate the windows until it has seen one.
    let mut fronts = [other, live].into_iter().cycle();
    let released = wait_for(PATIENCE, || {
        bring_to_front(&server, fronts.next()?);
        (daemon.status().current_mode == "Default").then_some(())
    });
    assert!(released.is_some(), "another front window did not end the person's choice");
    bring_to_front(&server, live);
    let rules = "default = \"Default\"\nrelease_on_focus_change = false";
    daemon.reload(&with(rules));
    daemon.switch("Mix");
    bring_to_front(&server, other);
    bring_to_front(&server, live);
    // The condition of the pad reads the front window. When the pad no longer changes the mode, the
    // mode rules have also processed the change.
    daemon.switch("Session");
    bring_to_front(&server, other);
    assert!(
        wait_for(PATIENCE, || {
            daemon.switch("Session");
            daemon.tap(36);
            (daemon.status().current_mode == "Session").then_some(())
        })
        .is_some()
    );
    daemon.reload(&format!("{PADS}{modes}"));
    let refused = daemon.block_on(daemon.handle().switch_mode(None, Taint::Clean)).expect_err("no rules");
    assert!(refused.message.contains("per_app_modes"), "{}", refused.message);
}
