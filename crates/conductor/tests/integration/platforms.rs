//! Platform-specific code stays behind its seam, and docs/platforms.md says what holds where.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Lines outside the seam that may name a platform, with the start of the line after them: entries
/// of lists that choose a backend.
const ALLOWED: [(&str, &str); 3] = [
    ("conductor-hosts/src/midi.rs", "Box::new(midir_ports::"),
    ("conductor-hosts/src/midi.rs", "\"alsa\","),
    ("conductor/src/owner/backends.rs", "Source::midi(conductor_hosts::midi::midir_ports::"),
];

fn names_a_platform(line: &str) -> bool {
    let is_cfg = ["cfg(", "cfg!(", "cfg_attr("].iter().any(|it| line.contains(it));
    let words = ["unix", "windows", "target_os", "target_family", "target_env"];
    // Texts in quotes, such as reasons, do not count.
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
    let products =
        ["conductor", "conductor-core", "conductor-gateway", "conductor-hosts", "conductor-patch", "conductor-set"];
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

/// What a system offers.
#[derive(Clone, Copy)]
enum State {
    Tested,
    /// Runs under Wine, started by hand.
    Wine,
    /// Compiled; nobody has run it.
    Compiled,
    /// Written; it has not been compiled as a whole yet.
    Written,
    NotBuilt,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Tested => "tested",
            State::Wine => "runs under Wine",
            State::Compiled => "compiled only",
            State::Written => "written",
            State::NotBuilt => "not built",
        }
    }
}

use State::{Compiled, NotBuilt, Tested, Wine, Written};

/// Feature, Linux, Windows, macOS, and what differs.
const FEATURES: &[(&str, State, State, State, &str)] = &[
    ("engine, configuration, documents", Tested, Wine, Compiled, ""),
    ("daemon, `up --demo`, commands", Tested, Wine, Written, "Windows: named pipes instead of sockets"),
    ("MCP over stdio", Tested, Wine, Written, "Windows: the proxy copies bytes instead of passing its handles"),
    ("MCP and plain HTTP, console", Tested, Compiled, Written, ""),
    (
        "approvals: who counts as a person",
        Tested,
        Compiled,
        Written,
        "Windows: the session of the desktop and the ancestors; macOS: the terminal of the command only",
    ),
    ("files below a root", Tested, Compiled, Written, "Windows refuses names of devices, streams and short names"),
    ("commands of a template", Tested, Compiled, Written, "Windows: a job object ends a program with its descendants"),
    ("plugins", Tested, Compiled, Written, "full sandbox on Linux only; `conductor doctor` says what holds"),
    ("secrets in the keychain", Tested, Compiled, Written, "Secret Service, Credential Manager, Keychain"),
    ("MIDI", Tested, Compiled, Written, "JACK and ALSA, WinMM, CoreMIDI; Windows has no virtual ports (use loopMIDI)"),
    ("gamepads", Tested, Compiled, Written, ""),
    ("keys, text, mouse", Tested, Compiled, Written, "macOS asks for the permission Accessibility"),
    ("front window", Tested, Compiled, Written, "macOS reports the program, not the title"),
    ("system volume", Tested, Compiled, Written, ""),
    ("notifications", Tested, NotBuilt, NotBuilt, ""),
    ("start at login", Tested, Compiled, Written, "systemd, logon task, launchd"),
    ("Pure Data started by the daemon", Tested, Compiled, Written, "sandbox on Linux only"),
    ("bridges to Live and Max", Tested, Compiled, Written, "tested on Linux with simulated programs"),
];

fn page() -> String {
    let mut page = String::from(include_str!("platforms/head.md"));
    page.push_str("| feature | Linux | Windows | macOS | differences |\n|---|---|---|---|---|\n");
    for (feature, linux, windows, macos, note) in FEATURES {
        let _ = writeln!(page, "| {feature} | {} | {} | {} | {note} |", linux.name(), windows.name(), macos.name());
    }
    page.push_str(include_str!("platforms/suites.md"));
    let suites = std::fs::read_to_string(tree().join(".ci/windows-suites")).unwrap();
    for (kind, title) in [("run", "| suite |\n|---|\n"), ("not", "\n| not run | reason |\n|---|---|\n")] {
        page.push_str(title);
        for line in suites.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match cells.as_slice() {
                [is, name, _] if *is == kind && kind == "run" => writeln!(page, "| {name} |").unwrap(),
                [is, name, reason] if *is == kind => writeln!(page, "| {name} | {reason} |").unwrap(),
                _ => {}
            }
        }
    }
    page.push_str(include_str!("platforms/tail.md"));
    page
}

/// `CONDUCTOR_BLESS=1 cargo test -p conductor --test integration the_page_of_platforms` rewrites
/// the page.
#[test]
fn the_page_of_platforms_is_current() {
    let path = tree().join("docs/platforms.md");
    let page = page();
    #[expect(clippy::disallowed_methods, reason = "a person asks for the page to be written")]
    if std::env::var_os("CONDUCTOR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/platforms.md is not current; write it with CONDUCTOR_BLESS=1");
}
