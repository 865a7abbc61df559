//! The first minute of a new user: the first start on a terminal, the demo that can be heard, and
//! the help of `conductor doctor`.

use crate::studio::{BINARY, Studio, text, until};
use crate::terminal::{conductor, say_yes};
use conductor_testkit::real::{fluidsynth, jack, mido};
use conductor_testkit::require;
use conductor_testkit::terminal::{Terminal, at_a_terminal};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const UP: [&str; 3] = ["up", "--http", "127.0.0.1:0"];

/// A first start on a terminal, before the choice. No MIDI server is reachable.
fn first_start(home: &Path) -> Terminal {
    let mut command = conductor(home, &UP);
    command.env("JACK_DEFAULT_SERVER", "ct-none").env("JACK_NO_START_SERVER", "1");
    let mut terminal = Terminal::start(command);
    let offer = terminal.until("1, 2 or 3 [1]: ");
    assert!(
        offer.contains("1  demo") && offer.contains("2  your controllers") && offer.contains("3  empty"),
        "{offer}"
    );
    terminal
}

fn config(home: &Path) -> String {
    std::fs::read_to_string(home.join("config.toml")).unwrap_or_default()
}

#[test]
fn a_first_start_offers_the_demo_and_enter_takes_it() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = first_start(home.path());
    assert_eq!(config(home.path()), "", "the file was written before the answer");
    terminal.type_in("\n");
    let shown = terminal.until("Events and actions appear below");
    assert!(shown.contains("Conductor is up") && shown.contains("demo play"), "{shown}");
    assert_eq!(config(home.path()), conductor_daemon::demo::CONFIG);
}

#[test]
fn an_empty_studio_is_asked_for_once() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = first_start(home.path());
    terminal.type_in("four\n");
    terminal.until("1, 2 or 3 [1]: ");
    terminal.type_in("3\n");
    terminal.until("conductor learn");
    assert_eq!(config(home.path()), conductor_core::config::TUTORIAL);
    terminal.type_in("\u{3}");
    assert!(terminal.end().0.success());

    let mut again = Terminal::start(conductor(home.path(), &UP));
    assert!(!again.until("Conductor is up").contains("Choose a studio"));
}

#[test]
fn no_answer_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = first_start(home.path());
    terminal.type_in("\u{4}");
    let (status, shown) = terminal.end();
    assert_eq!(status.code(), Some(1));
    assert!(shown.contains("no answer; nothing was written"), "{shown}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn nothing_is_asked_without_a_terminal() {
    let mut studio = Studio::empty();
    studio.up(&[]);
    assert_eq!(config(studio.home()), conductor_core::config::TUTORIAL);
    // Nothing is asked if only the output is a terminal.
    let home = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" < /dev/null", BINARY]).args(UP).env("CONDUCTOR_HOME", home.path());
    assert!(!Terminal::start(shell).until("Conductor is up").contains("Choose a studio"));
}

/// A program opens a port with the name of a known controller.
#[test]
fn a_controller_that_is_plugged_in_gets_its_template_and_a_name() {
    let python = require!(mido::python());
    let folder = tempfile::tempdir().unwrap();
    let server = format!("ct-first-{}", std::process::id());
    let _jack = require!(jack::start(folder.path(), &server, 256));
    let mut peer = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/jack/peer.py"))
        .args(["hold", "nanoKONTROL2 MIDI 1"])
        .env("JACK_DEFAULT_SERVER", &server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map(conductor_testkit::real::Killed)
        .unwrap();
    let mut ready = String::new();
    BufReader::new(peer.0.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();

    let home = tempfile::tempdir().unwrap();
    let mut command = conductor(home.path(), &UP);
    command.env("JACK_DEFAULT_SERVER", &server).env("JACK_NO_START_SERVER", "1");
    let mut terminal = Terminal::start(command);
    let offer = terminal.until("1, 2 or 3 [1]: ");
    assert!(offer.contains("nanoKONTROL2") && offer.contains("(template nanokontrol2)"), "{offer}");
    terminal.type_in("2\n");
    terminal.until("name [nanokontrol2]: ");
    terminal.type_in("no spaces allowed\n");
    terminal.until("name [nanokontrol2]: ");
    terminal.type_in("mixer\n");
    terminal.until("conductor learn");
    let written = config(home.path());
    assert!(written.contains("alias = \"mixer\"") && written.contains("template = \"nanokontrol2\""), "{written}");
    until("the controller is connected", || {
        let output = conductor(home.path(), &["devices"]).output().ok()?;
        let devices = text(&output.stdout);
        devices.lines().any(|it| it.starts_with("mixer") && it.contains("connected")).then_some(())
    });
}

fn demo(studio: &mut Studio) {
    studio.up(&["--demo"]);
}

#[test]
fn the_demo_plays_eight_bars_through_the_mappings() {
    let mut studio = Studio::empty();
    demo(&mut studio);
    let mut synth = studio.listen("synth");
    let mut play = studio.command();
    play.args(["demo", "play", "--silent", "--tempo", "400"]);
    let (code, shown) = at_a_terminal(play);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("played"), "{shown}");
    // The messages of the panic mark the end of the demo's messages.
    assert!(studio.run(&["panic"]).status.success());
    let mut heard = Vec::new();
    while let Some(message) = synth.hear() {
        if message[0] == 0xB0 && message[1] == 123 {
            break;
        }
        heard.push(message);
    }
    let count = |status: u8, note: u8| heard.iter().filter(|it| it[0] == status && it[1] == note).count();
    assert_eq!(count(0x99, 36), 16, "not two kicks in each bar");
    assert_eq!(count(0x90, 60), count(0x80, 60), "a chord was not released");
    assert!(count(0x99, 38) >= 14, "too few snares, or no roll for the long press: {heard:?}");
    assert_eq!((count(0xC0, 0), count(0xC0, 4)), (1, 1), "the soft or the medium press did not select its sound");
}

#[test]
fn the_demo_says_what_is_missing() {
    let studio = Studio::start(crate::studio::DEVICES);
    let refused = studio.run(&["demo", "play"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("up --demo"), "{refused:?}");

    let mut studio = Studio::empty();
    demo(&mut studio);
    assert!(studio.run(&["mode", "set", "Mix"]).status.success());
    let refused = studio.run(&["demo", "play", "--silent"]);
    assert!(text(&refused.stderr).contains("conductor mode set Default"), "{refused:?}");
    let mut without = studio.command();
    let without = without.env("PATH", "/nowhere").args(["demo", "hear"]).output().unwrap();
    assert!(text(&without.stderr).contains("install fluidsynth"), "{without:?}");
}

/// The level of two seconds of fluidsynth's left output.
fn level(server: &str, file: &Path) -> Option<f64> {
    let mut record = Command::new("jack_rec");
    record.args(["-d", "2", "-b", "16", "-f"]).arg(file).arg("fluidsynth:left").env("JACK_DEFAULT_SERVER", server);
    record.stdin(Stdio::null()).output().ok().filter(|it| it.status.success())?;
    let mut reader = hound::WavReader::open(file).ok()?;
    let samples: Vec<f64> = reader.samples::<i16>().filter_map(Result::ok).map(|it| f64::from(it) / 32768.0).collect();
    Some((samples.iter().map(|it| it * it).sum::<f64>() / samples.len().max(1) as f64).sqrt())
}

#[test]
fn the_demo_is_heard_from_a_real_synthesizer() {
    require!(fluidsynth::probe());
    let folder = tempfile::tempdir().unwrap();
    let server = format!("ct-demo-{}", std::process::id());
    let _jack = require!(jack::start(folder.path(), &server, 256));
    let mut studio = Studio::empty();
    demo(&mut studio);
    let mut hear = studio.command();
    hear.args(["demo", "hear", "--audio", "jack"]).env("JACK_DEFAULT_SERVER", &server);
    let mut hear = Terminal::start(hear);
    hear.until("fluidsynth plays the port synth");
    until("fluidsynth is on the server", || {
        let ports = Command::new("jack_lsp").env("JACK_DEFAULT_SERVER", &server).output().ok()?;
        text(&ports.stdout).contains("fluidsynth:left").then_some(())
    });
    let file = folder.path().join("demo.wav");
    let silence = level(&server, &file).unwrap();
    let mut play = studio.command();
    play.args(["demo", "play", "--silent", "--tempo", "200"]);
    let playing = std::thread::spawn(move || at_a_terminal(play));
    let music = level(&server, &file).unwrap();
    assert_eq!(playing.join().unwrap().0, Some(0));
    assert!(silence < 0.001 && music > 0.005, "silence {silence}, music {music}");
    hear.type_in("\u{3}");
    hear.end();
}

#[test]
fn doctor_fixes_after_a_yes_what_needs_no_rights() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mode = || std::fs::metadata(&home).unwrap().permissions().mode() & 0o777;

    let piped = conductor(&home, &["doctor", "--fix"]).stdin(Stdio::null()).output().unwrap();
    assert!(!piped.status.success() && text(&piped.stderr).contains("needs a terminal"), "{piped:?}");
    let shown = text(&conductor(&home, &["doctor"]).output().unwrap().stdout);
    assert!(shown.contains("conductor doctor --fix"), "{shown}");

    let mut terminal = Terminal::start(conductor(&home, &["doctor", "--fix"]));
    terminal.until("that only you can open? [y/N]");
    terminal.type_in("n\n");
    terminal.until("with commented examples? [y/N]");
    say_yes(&mut terminal, "config.toml");
    terminal.end();
    assert_eq!(config(&home), conductor_core::config::TUTORIAL);
    assert_eq!(mode(), 0o700, "others can open the folder of the new file");

    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut terminal = Terminal::start(conductor(&home, &["doctor", "--fix"]));
    terminal.until("that only you can open? [y/N]");
    terminal.type_in("n\n");
    let (status, shown) = terminal.end();
    assert_eq!((status.code(), mode()), (Some(1), 0o755), "{shown}");
    let mut terminal = Terminal::start(conductor(&home, &["doctor", "--fix"]));
    terminal.until("that only you can open? [y/N]");
    say_yes(&mut terminal, "config");
    assert_eq!(terminal.end().0.code(), Some(0));
    assert_eq!(mode(), 0o700);
}

#[test]
fn the_list_of_tools_names_each_set_once() {
    let studio = Studio::start("schema = 1\n");
    let listed = text(&studio.run(&["tools"]).stdout);
    let sets: Vec<&str> = listed.lines().filter(|it| !it.starts_with(' ')).collect();
    let mut once = sets.clone();
    once.sort_unstable();
    once.dedup();
    assert!(sets.len() > 5 && sets.len() == once.len(), "{sets:?}");
}

#[test]
fn colours_are_for_terminals_and_can_be_forbidden_or_forced() {
    let home = tempfile::tempdir().unwrap();
    let doctor = |words: &[&str], no_color: Option<&str>| {
        let mut command = conductor(home.path(), &[words, &["doctor"]].concat());
        command.env_remove("NO_COLOR").env("TERM", "xterm");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        command
    };
    let at_terminal = |words: &[&str], no_color| at_a_terminal(doctor(words, no_color)).1.contains('\u{1b}');
    let piped = |words: &[&str]| text(&doctor(words, None).output().unwrap().stdout).contains('\u{1b}');
    assert!(at_terminal(&[], None) && at_terminal(&[], Some("")));
    assert!(!at_terminal(&[], Some("1")) && !at_terminal(&["--color", "never"], None));
    assert!(at_terminal(&["--color", "always"], Some("1")));
    assert!(!piped(&[]) && piped(&["--color", "always"]));
    assert!(!piped(&["--json", "--color", "always"]), "JSON has colours");
}
