//! Checks that platform-specific code stays in its modules, and that docs/platforms.md describes
//! the support of each platform.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Lines outside the platform modules that may name a platform: list entries that choose a backend.
/// Each item is a file, and the start of the line that follows the line with the platform.
const ALLOWED: [(&str, &str); 4] = [
    ("conductor-hosts/src/midi.rs", "Box::new(midir_ports::"),
    ("conductor-hosts/src/midi.rs", "\"jack\","),
    ("conductor-hosts/src/midi.rs", "\"alsa\","),
    ("conductor-daemon/src/owner/backends.rs", "Source::midi(conductor_hosts::midi::midir_ports::"),
];

fn names_a_platform(line: &str) -> bool {
    let is_cfg = ["cfg(", "cfg!(", "cfg_attr("].iter().any(|it| line.contains(it));
    let words = ["unix", "windows", "target_os", "target_family", "target_env"];
    // Text in quotes, such as the reason of an attribute, does not count.
    let mut parts = line.split('"').step_by(2).flat_map(|it| it.split(|it: char| !it.is_alphanumeric() && it != '_'));
    is_cfg && !line.trim_start().starts_with("//") && parts.any(|it| words.contains(&it))
}

/// The files that a `mod` line chooses for a platform.
fn chosen_files(text: &str, folder: &Path) -> Vec<PathBuf> {
    let lines = text.lines().filter(|it| it.contains("cfg_attr(") && it.contains("path = \""));
    lines.filter_map(|it| Some(folder.join(it.split("path = \"").nth(1)?.split('"').next()?))).collect()
}

/// The lines of a file that name a platform and do not choose a module.
fn stray_lines(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut stray = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| names_a_platform(line)) {
        let mut rest = lines.iter().skip(at + 1).map(|it| it.trim_start());
        let subject = rest.find(|it| !it.starts_with("#[")).unwrap_or_default();
        let is_module = subject.trim_start_matches("pub ").trim_start_matches("pub(crate) ").starts_with("mod ");
        let is_allowed = ALLOWED.iter().any(|(file, start)| *file == name && subject.starts_with(start));
        if !is_module && !is_allowed {
            stray.push(format!("{name}:{}: {}", at + 1, line.trim()));
        }
    }
    stray
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|it| it == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn no_platform_is_named_outside_the_seam() {
    let crates = tree().join("crates");
    let mut files = Vec::new();
    let products = [
        "conductor",
        "conductor-core",
        "conductor-daemon",
        "conductor-gateway",
        "conductor-hosts",
        "conductor-patch",
        "conductor-set",
        "conductor-tools",
    ];
    for product in products {
        rust_files(&crates.join(product).join("src"), &mut files);
    }
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    let chosen: BTreeSet<PathBuf> = files.iter().flat_map(|it| chosen_files(&text(it), it.parent().unwrap())).collect();
    assert!(chosen.iter().all(|it| it.exists()), "{chosen:?}");
    let stray: Vec<String> = files
        .iter()
        .filter(|it| !chosen.contains(*it) && !it.starts_with(crates.join("conductor-hosts/src/system")))
        .flat_map(|it| stray_lines(&it.strip_prefix(&crates).unwrap().to_string_lossy(), &text(it)))
        .collect();
    assert!(stray.is_empty(), "move these lines to conductor-hosts/src/system:\n{}", stray.join("\n"));
}

#[test]
fn a_platform_outside_the_seam_would_be_found() {
    let found = |text: &str| stray_lines("x.rs", text).len();
    assert_eq!(found("#[cfg(unix)]\nfn a() {}"), 1);
    assert_eq!(found("let a = cfg!(target_os = \"linux\");"), 1);
    assert_eq!(found("#[cfg_attr(windows, path = \"a.rs\")]\n#[cfg_attr(unix, path = \"b.rs\")]\npub mod a;"), 0);
    assert_eq!(found("#[cfg(test)]\nmod tests {}\n#[cfg(feature = \"desktop\")]\nfn a() {}"), 0);
}

/// How far a feature works on a platform.
#[derive(Clone, Copy)]
enum State {
    Tested,
    /// These suites of `.ci/windows-suites` test the feature under Wine. `story::STEP` is a step of
    /// the suite `story`.
    Wine(&'static [&'static str]),
    /// The feature compiles, but was never run.
    Compiled,
    NotBuilt,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Tested => "tested",
            State::Wine(_) => "runs under Wine",
            State::Compiled => "compiled only",
            State::NotBuilt => "not built",
        }
    }
}

use State::{Compiled, NotBuilt, Tested, Wine};

/// Feature, state on Linux, Windows and macOS, and the differences.
const FEATURES: &[(&str, State, State, State, &str)] = &[
    ("engine, configuration, documents", Tested, Wine(&["core", "patch", "set"]), Compiled, ""),
    (
        "daemon, `up --demo`, commands",
        Tested,
        Wine(&["conductor", "story::tour", "story::second_daemon"]),
        Compiled,
        "Windows: named pipes instead of sockets",
    ),
    (
        "MCP over stdio",
        Tested,
        Wine(&["integration", "story::mcp_over_stdio"]),
        Compiled,
        "Windows: the proxy copies bytes instead of passing its handles",
    ),
    ("MCP and plain HTTP, console", Tested, Wine(&["tools", "story::http_door", "story::console_link"]), Compiled, ""),
    (
        "files of 14 AI clients",
        Tested,
        Wine(&["tools", "story::client_configurations"]),
        Compiled,
        "Windows: `%APPDATA%` and `%USERPROFILE%`",
    ),
    ("pipeline, approvals, plans", Tested, Wine(&["integration", "tools", "story::plans"]), Compiled, ""),
    (
        "approvals: who counts as a person",
        Tested,
        Wine(&["story::decisions_need_a_console"]),
        Compiled,
        "Windows checks the desktop session and the ancestor processes; macOS checks only the terminal",
    ),
    (
        "audit log after a kill",
        Tested,
        Wine(&["gateway", "story::killed_again_and_again"]),
        Compiled,
        "Windows: TerminateProcess instead of SIGKILL",
    ),
    (
        "files below a root",
        Tested,
        Wine(&["hosts", "tools", "story::files_below_a_root", "story::file_attacks"]),
        Compiled,
        "Windows refuses names of devices, streams and short names",
    ),
    (
        "allowed commands (`[[tools.shell.commands]]`)",
        Tested,
        Wine(&["story::commands_of_templates", "story::a_command_at_its_limit_ends_with_its_children"]),
        Compiled,
        "Windows: a job object ends a program with its descendants",
    ),
    ("SQLite", Tested, Wine(&["hosts", "tools", "story::sqlite"]), Compiled, ""),
    (
        "patches and Live Sets",
        Tested,
        Wine(&["integration", "tools", "story::a_patch_document", "story::a_set_document"]),
        Compiled,
        "",
    ),
    (
        "plugins",
        Tested,
        Wine(&["tools", "story::a_plugin"]),
        Compiled,
        "full sandbox on Linux only; `conductor doctor` lists the limits that apply",
    ),
    (
        "secrets",
        Tested,
        Wine(&["gateway", "story::secrets_in_credential_manager"]),
        Compiled,
        "Secret Service, Credential Manager, Keychain; Windows: a key file is encrypted with DPAPI",
    ),
    (
        "bridge to Live, AbletonOSC",
        Tested,
        Wine(&["integration", "story::live_over_osc", "story::live_with_our_script"]),
        Compiled,
        "tested with a simulated Live",
    ),
    ("bridge to Max", Tested, Wine(&["tools", "story::max_with_our_bridge"]), Compiled, "tested with a simulated Max"),
    ("MIDI", Tested, Compiled, Compiled, "JACK and ALSA, WinMM, CoreMIDI; Windows has no virtual ports (use loopMIDI)"),
    ("gamepads", Tested, Compiled, Compiled, ""),
    ("keys, text, mouse", Tested, Compiled, Compiled, "macOS asks for the permission Accessibility"),
    ("front window", Tested, Compiled, Compiled, "macOS reports the program, not the title"),
    ("system volume", Tested, Compiled, Compiled, ""),
    ("notifications", Tested, NotBuilt, NotBuilt, ""),
    ("start at login", Tested, Compiled, Compiled, "systemd, logon task, launchd"),
    ("Pure Data started by the daemon", Tested, Compiled, Compiled, "sandbox on Linux only"),
];

/// The lines of `.ci/windows-suites`: `true` for a `run` line, `false` for a `not` line, and the
/// other cells of the line.
fn suites() -> Vec<(bool, Vec<String>)> {
    let text = std::fs::read_to_string(tree().join(".ci/windows-suites")).unwrap();
    let lines = text.lines().filter(|it| !it.starts_with('#'));
    let rows = lines.map(|line| {
        let mut cells = line.split(" | ").map(|it| it.trim().to_owned());
        let kind = cells.next().unwrap();
        assert!(["run", "not"].contains(&kind.as_str()), "{line}");
        (kind == "run", cells.collect())
    });
    rows.collect()
}

#[test]
fn every_feature_that_runs_under_wine_names_its_suites() {
    let suites = suites();
    let story = std::fs::read_to_string(tree().join("crates/conductor-testkit/wine/story.py")).unwrap();
    let exists = |wanted: &str| match wanted.split_once("::") {
        Some((_, step)) => {
            story.contains(&format!("\n    {step},\n")) && story.contains(&format!("\ndef {step}(world):\n"))
        }
        None => suites.iter().any(|(is_run, cells)| *is_run && cells[0].starts_with(&format!("{wanted}:"))),
    };
    for (feature, _, windows, _, _) in FEATURES {
        match windows {
            Wine(names) => assert!(!names.is_empty() && names.iter().all(|it| exists(it)), "{feature}: {names:?}"),
            Tested => panic!("{feature} is marked as tested on Windows, but no suite tests it there"),
            Compiled | NotBuilt => {}
        }
    }
    assert!(!exists("story::no_such_step") && !exists("no such suite"));
}

/// The first steps of the checklist. The others are in `.ci/windows-suites`.
const FIRST_STEPS: &[&str] = &[
    "`conductor --version` prints a version.",
    "`conductor up --demo` prints \"Conductor is up\", and `conductor status` in a second terminal prints the status.",
    "`conductor doctor` prints no line that starts with `bad`, except for programs that you do not have.",
    "Run the five commands of the tour that `up --demo` prints.",
    "`conductor mcp setup --client NAME` writes an entry for your AI client. Ask the client for the status of Conductor.",
    "Ask the client to send a SysEx message to `synth`. A question appears in the first terminal; answer it with `y`. Ask again, and answer with `n`.",
];

fn page() -> String {
    let mut page = String::from(include_str!("platforms/head.md"));
    page.push_str("| feature | Linux | Windows | macOS | differences |\n|---|---|---|---|---|\n");
    for (feature, linux, windows, macos, note) in FEATURES {
        let _ = writeln!(page, "| {feature} | {} | {} | {} | {note} |", linux.name(), windows.name(), macos.name());
    }
    page.push_str(include_str!("platforms/suites.md"));
    let suites = suites();
    for (wanted, title) in [(true, "| suite |\n|---|\n"), (false, "\n| not run | reason |\n|---|---|\n")] {
        page.push_str(title);
        for (_, cells) in suites.iter().filter(|(is_run, _)| *is_run == wanted) {
            let shown = if wanted { 1 } else { 2 };
            let _ = writeln!(page, "| {} |", cells.iter().take(shown).cloned().collect::<Vec<_>>().join(" | "));
        }
    }
    page.push_str(include_str!("platforms/tail.md"));
    let more = suites.iter().filter_map(|(_, cells)| cells.get(2).map(String::as_str));
    for (number, step) in FIRST_STEPS.iter().copied().chain(more).enumerate() {
        let _ = writeln!(page, "{}. {step}", number + 1);
    }
    page
}

/// `CONDUCTOR_BLESS=1 cargo test -p conductor --test integration the_page_of_platforms` rewrites
/// the page.
#[test]
fn the_page_of_platforms_is_current() {
    let path = tree().join("docs/platforms.md");
    let page = page();
    #[expect(clippy::disallowed_methods, reason = "CONDUCTOR_BLESS requests that the page is written")]
    if std::env::var_os("CONDUCTOR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/platforms.md is not current; write it with CONDUCTOR_BLESS=1");
}
