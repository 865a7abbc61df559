//! The command line as a person and a script use it.

use crate::studio::{BINARY, DEVICES, Studio, text};
use conductor_testkit::require;
use conductor_testkit::terminal::at_a_terminal;
use serde_json::{Value, json};
use std::process::Output;

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

#[test]
fn the_tour_works_command_by_command() {
    let mut studio = Studio::empty();
    studio.up(&["--demo"]);
    let folder = std::path::Path::new(BINARY).parent().unwrap().display();
    for (command, _) in conductor_daemon::demo::TOUR {
        let script = format!("PATH=\"{folder}:$PATH\" {command}");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .env("CONDUCTOR_HOME", studio.home())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{command}");
    }
    let trace = studio.call("conductor_get_trace", json!({ "mapping_id": "kick", "outcome": "fired" }));
    assert_eq!(
        trace["records"].as_array().unwrap().len(),
        1,
        "the press of the tour did not fire exactly once: {trace}"
    );
    assert_eq!(studio.status()["current_mode"], "Mix");
}

#[test]
fn the_readme_shows_the_tour() {
    let readme = include_str!("../../../../README.md");
    for (command, _) in conductor_daemon::demo::TOUR {
        assert!(readme.contains(command), "README.md does not contain: {command}");
    }
}

#[test]
fn the_demo_in_the_foreground_shows_what_the_pads_do() {
    use std::io::{BufRead, BufReader};
    let home = tempfile::tempdir().unwrap();
    let folder = std::path::Path::new(BINARY).parent().unwrap();
    let path = std::env::join_paths([folder, std::path::Path::new("/usr/bin"), std::path::Path::new("/bin")]).unwrap();
    let mut child = std::process::Command::new(BINARY)
        .args(["up", "--demo", "--http", "127.0.0.1:0"])
        .env("CONDUCTOR_HOME", home.path())
        .env("PATH", path)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let greeting: Vec<String> = lines.by_ref().take_while(|it| !it.starts_with("Events and actions appear")).collect();
    let greeting = greeting.join("\n");
    for (command, what) in conductor_daemon::demo::TOUR {
        assert!(greeting.contains(command) && greeting.contains(what), "{greeting}");
    }
    let press = std::process::Command::new(BINARY)
        .args(["send", "pads hand", "on:36@90"])
        .env("CONDUCTOR_HOME", home.path())
        .status()
        .unwrap();
    assert!(press.success());
    let shown = lines.find(|it| it.contains("kick")).unwrap();
    assert!(shown.contains("fired") && shown.contains("SendMidi synth"), "{shown}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// `make run` leaves the binary in its build folder, which is not in `PATH`. The printed commands
/// of the tour must work there unchanged.
#[test]
fn the_tour_can_be_typed_where_the_program_is_not_on_the_path() {
    use std::io::{BufRead, BufReader};
    let home = tempfile::tempdir().unwrap();
    let binary = std::path::Path::new(BINARY);
    let above = binary.parent().and_then(std::path::Path::parent).unwrap();
    for here in [above, binary.parent().unwrap(), std::path::Path::new("/")] {
        let mut child = std::process::Command::new(BINARY)
            .args(["up", "--demo", "--http", "127.0.0.1:0"])
            .env("CONDUCTOR_HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            .current_dir(here)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let printed: Vec<String> = lines.take_while(|it| !it.starts_with("Events and actions appear")).collect();
        let numbered = |line: &str| line.trim().split_once(". ").filter(|it| it.0.len() == 1).map(|it| it.1.to_owned());
        let commands: Vec<String> = printed.iter().filter_map(|it| numbered(it)).collect();
        assert_eq!(commands.len(), conductor_daemon::demo::TOUR.len(), "{printed:?}");
        for command in commands {
            let mut shell = std::process::Command::new("sh");
            let typed = shell.args(["-c", &command]).env("CONDUCTOR_HOME", home.path()).env("PATH", "/usr/bin:/bin");
            let output = typed.current_dir(here).output().unwrap();
            assert!(output.status.success(), "{command} in {}: {}", here.display(), text(&output.stderr));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A pad runs a command that is not allowed. The fault is reported with its place and a fix, and a
/// press is refused. With the fix, the press works.
#[test]
fn a_command_that_fits_no_template_is_told_before_it_is_pressed() {
    let mapping = "\n[[modes]]\nname = \"Default\"\n[[modes.mappings]]\nid = \"run\"\ntrigger = { type = \"Note\", note = 36, device = \"pads\" }\n\
                   action = { type = \"Shell\", command = \"/bin/echo 'two words' 3\" }\n";
    let config = format!("{DEVICES}{mapping}");
    let line = 1 + config.lines().position(|it| it.contains("Shell")).unwrap();
    let studio = Studio::start(&config);
    let check = || {
        let output = studio.run(&["config", "check"]);
        assert_eq!(output.status.code(), Some(0), "a warning made the check fail: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let told = check();
    assert!(told.contains(&format!("config.toml:{line}:38")), "{told}");
    assert!(told.contains("no command is allowed, so this action is refused"), "{told}");
    let cure =
        "[[tools.shell.commands]] with name = \"echo\", program = \"/bin/echo\" and args = [\"two words\", \"3\"]";
    assert!(told.contains(cure), "{told}");
    // Press at a terminal: events that a program sends do not count as played by a person.
    let press = || {
        let mut send = studio.command();
        send.args(["send", "pads hand", "on:36@100 off:36"]);
        assert_eq!(at_a_terminal(send).0, Some(0));
    };
    let ended = |result: &str| {
        let wanted = format!("\"result\":\"{result}\"");
        crate::studio::until(&format!("the log has a call with the result {result}"), || {
            let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
            log.lines().any(|it| it.contains("mapping:Default/run") && it.contains(&wanted)).then_some(())
        });
    };
    press();
    ended("denied");

    let row = "[[tools.shell.commands]]\nname = \"echo\"\nprogram = \"/bin/echo\"\nargs = [\"two words\", \"3\"]\neffect = \"read\"\n";
    studio.save(&format!("{config}{row}"));
    studio.accept();
    assert!(!check().contains("so this action is refused"));
    crate::studio::until("the command is allowed", || {
        press();
        let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
        log.lines().any(|it| it.contains("mapping:Default/run") && it.contains("\"result\":\"ok\"")).then_some(())
    });
}

/// Programs that report various versions of Pd, and the installed Pd.
#[test]
fn doctor_says_which_pd_would_run_and_whether_it_was_tried() {
    let studio = Studio::empty();
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str, says: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{says}' >&2\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let look = |mode: &str, command: &str| {
        let config = format!("schema = 1\n[patch.pd]\nmode = \"{mode}\"\ncommand = \"{command}\"\n");
        std::fs::write(studio.config_file(), config).unwrap();
        let told = json_of(&studio.run(&["--json", "doctor"]));
        let mut found = told["checks"].as_array().unwrap().iter().filter(|it| it["check"] == "pd");
        let line = found.next().unwrap_or_else(|| panic!("no check of Pd: {told}")).clone();
        assert_eq!(found.next(), None);
        line
    };
    let (tested, near) = (program("tested", "Pd-0.53.1 (\"\") compiled"), program("near", "Pd-0.56-2 (\"\")"));
    let (old, dumb) = (program("old", "Pd-0.47.1 (\"\")"), program("dumb", "hello"));
    for (mode, command, grade, word) in [
        ("spawn", tested.as_str(), "ok", "Pd 0.53.1, the version Conductor is tested with"),
        ("off", &tested, "ok", "mode is off"),
        ("spawn", &near, "note", "Pd 0.56-2; expected to work, but Conductor is tested with 0.53.1"),
        ("spawn", &old, "bad", "Pd 0.47.1, which Conductor does not support"),
        ("off", &old, "note", "does not support"),
        ("spawn", &dumb, "bad", "reports no version of Pd"),
        ("spawn", "no-such-pd", "bad", "no-such-pd was not found"),
        ("off", "no-such-pd", "note", "patch files can still be edited"),
    ] {
        let line = look(mode, command);
        assert_eq!(line["grade"], grade, "{mode} {command}: {line}");
        assert!(line["detail"].as_str().unwrap().contains(word), "{mode} {command}: {line}");
        let cured = line["cure"].as_str().is_some_and(|it| it.contains("[patch.pd]"));
        let needs = ["not found", "does not support", "no version"]
            .iter()
            .any(|it| word.contains(it) || line["detail"].as_str().unwrap().contains(it));
        assert_eq!(cured, needs, "{line}");
    }
    let version = require!(conductor_testkit::real::pd::probe());
    let line = look("spawn", "pd");
    let detail = line["detail"].as_str().unwrap();
    assert!(detail.starts_with('/') && detail.contains(&format!("/pd, Pd {version}")), "{line}");
}

/// The demo contains the sample of its Set, so every Live tool can be tried there.
#[test]
fn the_demo_renders_the_track_of_its_set() {
    let mut studio = Studio::empty();
    studio.up(&["--demo"]);
    // Eight beats at 124 beats per minute.
    let seconds = 8.0 * 60.0 / 124.0;
    let ask = r#"{"trackId":"track:2","startBeat":0,"endBeat":8}"#;
    let rendered = json_of(&studio.run(&["--json", "call", "live_render_track", ask]));
    assert_eq!((&rendered["track"], &rendered["sampleRate"]), (&json!("Vocals"), &json!(8000)), "{rendered}");
    assert!(rendered["seconds"].as_f64().is_some_and(|it| (it - seconds).abs() < 0.01), "{rendered}");
    let path = rendered["path"].as_str().unwrap();
    let mut sound = hound::WavReader::open(path).unwrap();
    assert_eq!((sound.spec().sample_rate, sound.duration()), (8000, (seconds * 8000.0_f64).round() as u32));
    let samples: Vec<f32> = sound.samples::<f32>().map(Result::unwrap).collect();
    let peak = samples.iter().fold(0.0_f32, |most, it| most.max(it.abs()));
    assert!((0.2..=1.0).contains(&peak), "{peak}");
    // There is sound in every beat, not only one click.
    let beats = samples.chunks(samples.len().div_ceil(8));
    assert!(beats.clone().count() == 8 && beats.clone().all(|it| it.iter().any(|it| it.abs() > 0.05)));
    // Render a part, then again in a home that was created before the sample was part of the demo.
    let ask = r#"{"trackId":"track:2","startBeat":2,"endBeat":4}"#;
    let part = json_of(&studio.run(&["--json", "call", "live_render_track", ask]));
    assert!(part["seconds"].as_f64().is_some_and(|it| (it - seconds / 4.0).abs() < 0.01), "{part}");
    studio.stop();
    std::fs::remove_dir_all(studio.home().join("sets/Samples")).unwrap();
    studio.up(&["--demo"]);
    let again = json_of(&studio.run(&["--json", "call", "live_render_track", ask]));
    assert_eq!(again["peak"], part["peak"], "{again}");
}

/// Checks the content of each answer, not only that there is one.
#[test]
fn every_command_speaks_json_when_asked() {
    let config = format!(
        "{DEVICES}[[modes]]\nname = \"Default\"\ncolor = \"blue\"\n[[modes.mappings]]\nid = \"hit\"\n\
         trigger = {{ type = \"Note\", note = 36, device = \"pads\" }}\n\
         action = {{ type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"CC\", controller = 7, value = 9 }}\n"
    );
    let studio = Studio::start(&config);
    let mut synth = studio.listen("synth");
    let ask = |args: &[&str]| {
        let output = studio.run(&[&["--json"], args].concat());
        assert_eq!(text(&output.stdout).lines().count(), 1, "{args:?}");
        assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)), "{args:?}");
        json_of(&output)
    };
    let status = ask(&["status"]);
    assert_eq!((&status["daemon_running"], &status["lifecycle_state"]), (&json!(true), &json!("Running")), "{status}");
    assert_eq!(status["statistics"]["events_processed"], 0, "{status}");
    let devices = ask(&["devices"]);
    let bound = |alias: &str| {
        let rows = devices["device_bindings"].as_array().into_iter().flatten();
        rows.filter(|it| it["device_id"] == alias && it["connected"] == true).count()
    };
    assert_eq!((bound("pads"), bound("synth"), bound("absent")), (1, 1, 0), "{devices}");
    let modes = ask(&["modes"]);
    let shown = &modes["modes"][0];
    assert_eq!(
        (&shown["name"], &shown["color"], &shown["mapping_count"]),
        (&json!("Default"), &json!("blue"), &json!(1))
    );
    assert_eq!(ask(&["mode", "set", "Default"])["mode_name"], "Default");
    assert_eq!(ask(&["send", "pads hand", "on:36 off:36"])["messages_sent"], 2);
    assert_eq!(synth.hear(), Some(vec![0xB0, 7, 9]), "the sent event did not fire the mapping");
    let panicked = ask(&["panic"]);
    assert!(panicked["ports"].to_string().contains("synth"), "{panicked}");
    let simulated = ask(&["simulate", "dev:pads on:36"]);
    assert!(simulated["trace"].to_string().contains("fired"), "{simulated}");
    let explained = ask(&["explain", "on:36", "--device", "pads"]);
    assert_eq!(explained["verdict"], "fires", "{explained}");
    assert_eq!(ask(&["config", "check"])["valid"], true);
    assert_eq!(ask(&["config", "show"])["content"], json!(config));
    let path = ask(&["config", "path"])["path"].as_str().map(std::path::PathBuf::from);
    assert_eq!(path.and_then(|it| it.canonicalize().ok()), studio.config_file().canonicalize().ok());
    let doctor = json_of(&studio.run(&["--json", "doctor"]));
    let checks = doctor["checks"].as_array().cloned().unwrap_or_default();
    assert!(
        checks.len() >= 5 && checks.iter().all(|it| it["check"].is_string() && it["grade"].is_string()),
        "{doctor}"
    );
}

#[test]
fn the_help_of_call_prints_the_arguments_of_a_tool() {
    let studio = Studio::start(DEVICES);
    let help = |words: &[&str]| {
        let output = studio.run(words);
        assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)), "{words:?}");
        text(&output.stdout)
    };
    let all = help(&["call", "--help"]);
    assert!(all.contains("conductor call") && all.contains("conductor_get_trace") && !all.contains("plan.apply"));
    for words in [["call", "conductor_get_trace", "--help"], ["call", "-h", "conductor_get_trace"]] {
        let shown = help(&words);
        for line in ["limit  (integer, default 50)", "number of records", "outcome  (fired, ", "device  (string)"] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }
    assert!(help(&["call", "conductor_explain", "--help"]).contains("event  (string, required)"));
    assert!(help(&["call", "conductor_panic", "--help"]).contains("No arguments."));
    let unknown = studio.run(&["call", "plan.apply", "--help"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(studio.run(&["call"]).status.code(), Some(2));
}

#[test]
fn exit_codes_tell_failure_from_misunderstanding() {
    let studio = Studio::empty();
    let code = |args: &[&str]| studio.run(args).status.code();
    assert_eq!(code(&["--help"]), Some(0));
    assert_eq!(code(&["--version"]), Some(0));
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&["statuz"]), Some(2));
    assert_eq!(code(&["simulate"]), Some(2));
    assert_eq!(code(&["status"]), Some(1), "`status` succeeded without a daemon");
    assert_eq!(code(&["config", "check"]), Some(0), "a missing file made the check fail");
    assert_eq!(code(&["simulate", "on:999"]), Some(1));
    assert_eq!(code(&["explain", "on:36", "--mode", "Nope"]), Some(1));
    std::fs::write(studio.config_file(), "schema = 2\n").unwrap();
    assert_eq!(code(&["config", "check"]), Some(1));
    assert_eq!(code(&["doctor"]), Some(1));
}

#[test]
fn without_a_daemon_the_cure_is_named_and_json_stays_json() {
    let studio = Studio::empty();
    let output = studio.run(&["status"]);
    assert!(text(&output.stderr).contains("conductor up"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    let value = json_of(&studio.run(&["--json", "status"]));
    assert_eq!(value["code"], "HOST_OFFLINE");
}

#[test]
fn simulate_and_explain_need_no_daemon_and_agree_with_one() {
    let config = format!(
        r#"{DEVICES}
[[modes]]
name = "Default"
[[modes.mappings]]
id = "save"
trigger = {{ type = "LongPress", note = 51, duration_ms = 600, device = "pads" }}
action = {{ type = "Keystroke", keys = "s", modifiers = ["cmd"] }}
"#
    );
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), config).unwrap();
    let simulate = ["simulate", "dev:pads on:51 t:700 off:51"];
    let explain = ["--json", "explain", "on:51", "--device", "pads"];
    let alone = (studio.run(&simulate), studio.run(&explain));
    assert!(text(&alone.0.stdout).contains("600 save LongPress fired Keystroke cmd+s"), "{}", text(&alone.0.stdout));
    studio.up(&[]);
    let served = (studio.run(&simulate), studio.run(&explain));
    assert_eq!(text(&alone.0.stdout), text(&served.0.stdout));
    assert_eq!(json_of(&alone.1), json_of(&served.1));
}

#[test]
fn explain_knows_what_is_muted_and_what_is_not_there() {
    let studio = Studio::start(DEVICES);
    studio.call("conductor_set_device_enabled", json!({ "device_id": "pads", "enabled": false }));
    let value = json_of(&studio.run(&["--json", "explain", "on:36", "--device", "pads"]));
    assert_eq!(value["verdict"], "muted");
    let value = json_of(&studio.run(&["--json", "explain", "on:36", "--device", "pods"]));
    assert_eq!(value["code"], "NOT_FOUND");
    let text = text(&studio.run(&["devices"]).stdout);
    let is_muted = |line: &str| line.split_whitespace().take(2).eq(["pads", "muted"]);
    assert!(text.lines().any(is_muted), "{text}");
}

#[test]
fn a_check_points_at_the_character() {
    let studio = Studio::empty();
    std::fs::write(studio.config_file(), "schema = 1\ndefalt_mode = \"Play\"\n").unwrap();
    let output = studio.run(&["config", "check"]);
    let text = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("config.toml:2:1") && text.contains("default_mode"), "{text}");
    assert!(text.contains("2 | defalt_mode"), "the line with the error is not shown: {text}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let studio = Studio::start(DEVICES);
    let script = format!("set -o pipefail; '{BINARY}' --json status | true");
    let output = std::process::Command::new("bash").args(["-c", &script]).env("CONDUCTOR_HOME", studio.home()).output();
    let output = output.unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_tool_is_called_through_the_pipeline_and_leaves_a_line_in_the_log() {
    let studio = Studio::start(DEVICES);
    let mut synth = studio.listen("synth");
    let press = r#"{"port":"synth","messages":[{"type":"cc","channel":1,"controller":7,"value":9}]}"#;
    let sent = json_of(&studio.run(&["--json", "call", "conductor_send_midi", press]));
    assert_eq!(sent, json!({ "success": true, "messages_sent": 1, "port": "synth" }));
    assert_eq!(synth.hear(), Some(vec![0xB0, 7, 9]));
    let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    assert!(log.lines().any(|it| it.contains("conductor_send_midi") && it.contains("cli:")), "{log}");

    let refused = json_of(&studio.run(&["--json", "call", "conductor_send_midi", r#"{"port":"synth"}"#]));
    assert_eq!(refused["code"], "BAD_INPUT");
    let refused = json_of(&studio.run(&["--json", "call", "conductor_sing"]));
    assert_eq!(refused["code"], "NOT_FOUND");
    assert_eq!(studio.run(&["call", "conductor_get_status", "{"]).status.code(), Some(1));
}

#[test]
fn doctor_says_what_the_sandbox_of_pd_keeps() {
    let studio = Studio::empty();
    let row = |config: &str| {
        std::fs::write(studio.config_file(), config).unwrap();
        let checks = json_of(&studio.run(&["--json", "doctor"]))["checks"].clone();
        checks.as_array().unwrap().iter().find(|it| it["check"] == "pd sandbox").cloned()
    };
    assert_eq!(row("schema = 1\n"), None, "a check of the sandbox is listed, although Pd is off");
    let quiet = row("schema = 1\n[patch.pd]\nmode = \"spawn\"\n").expect("a row")["detail"].to_string();
    assert!(quiet.contains("patch folders") && quiet.contains("network"), "{quiet}");
    let sounding = row("schema = 1\n[patch.pd]\nmode = \"spawn\"\naudio = \"jack\"\n").expect("a row");
    assert!(sounding["detail"].as_str().unwrap().contains("JACK"), "{sounding}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_crash_of_the_daemon_leaves_no_memory_on_disk() {
    let studio = Studio::start("schema = 1\n");
    let of = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", studio.pid())).unwrap();
    let limits = of("limits");
    let core: Vec<&str> =
        limits.lines().find(|it| it.starts_with("Max core file size")).unwrap().split_whitespace().collect();
    assert_eq!(core[4..6], ["0", "0"], "{limits}");
    assert_eq!(of("coredump_filter").trim(), "00000000");
}

/// The address file of a killed daemon is useless, because the next daemon has another port and
/// other tokens. A daemon that is stopped removes the file.
#[test]
fn the_address_for_bridges_is_new_at_every_start_and_gone_after_a_stop() {
    let mut studio = Studio::start("schema = 1\n[patch.pd]\nmode = \"attach\"\n[patch.max]\nenabled = true\n");
    let files = ["state/pd-bridge.txt", "state/max-bridge.json"].map(|it| studio.home().join(it));
    let words = || {
        files.clone().map(|it| {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(it.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::read_to_string(it).unwrap()
        })
    };
    let first = words();
    studio.signal(rustix::process::Signal::KILL);
    studio.ended();
    assert!(files.iter().all(|it| it.exists()), "kill -9 removed an address file");
    studio.up(&[]);
    for (was, is) in first.iter().zip(words()) {
        let secrets =
            was.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| it.len() > 30 || it.parse::<u16>().is_ok());
        assert!(secrets.clone().count() == 3 && secrets.clone().all(|it| !is.contains(it)), "{was} {is}");
    }
    studio.stop();
    assert!(files.iter().all(|it| !it.exists()), "a stop did not remove the address files");
}
