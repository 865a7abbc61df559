//! Client set-up on realistic files of every client (contract files in `client_setup/`), and on the
//! real clients where a package contains their loader.

use conductor_daemon::doors::mcp::setup::clients::{CLIENTS, Client, Launch, Places, Platform};
use conductor_daemon::doors::mcp::setup::edit::Format;
use conductor_daemon::doors::mcp::setup::{self, Done, SetupError, Status, skill_folders};
use conductor_daemon::skills;
use conductor_testkit::mcp_process;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A home with the folders of every client.
struct Desk {
    folder: TempDir,
    places: Places,
}

impl Desk {
    fn new(platform: Platform) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = Places {
            user_home: Some(folder.path().join("home")),
            app_data: None,
            project: folder.path().join("project"),
            platform,
        };
        for client in &CLIENTS {
            if let Some(file) = client.file(&places) {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            }
        }
        Self { folder, places }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn file(&self, client: &Client) -> PathBuf {
        client.file(&self.places).unwrap()
    }
}

fn launch(view: Option<&str>) -> Launch {
    Launch::new("/opt/Conductor 2/conductor".to_owned(), None, view)
}

fn with_files() -> impl Iterator<Item = &'static Client> {
    CLIENTS.iter().filter(|it| !it.files.is_empty())
}

/// The realistic file of a client.
fn contract(client: &Client) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/client_setup");
    let found = ["json", "toml", "yaml"]
        .into_iter()
        .find_map(|it| std::fs::read_to_string(folder.join(format!("{}.{it}", client.name))).ok());
    found.unwrap_or_else(|| panic!("there is no contract file of {}", client.name))
}

fn files_in(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(files_in(&entry.path()));
        } else {
            found.push((entry.path(), std::fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn fourteen_clients_and_one_without_a_file() {
    let names: Vec<&str> = with_files().map(|it| it.name).collect();
    assert_eq!(names.len(), 14, "{names:?}");
    for platform in Platform::ALL {
        let desk = Desk::new(platform);
        let mut files: Vec<PathBuf> = with_files().map(|it| desk.file(it)).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), 14, "two clients share a file on {platform:?}");
    }
}

#[test]
fn the_manual_lists_every_client_and_every_skill() {
    let page = include_str!("../../../../docs/clients.md");
    for name in with_files().map(|it| it.name) {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    for name in skills::ALL.iter().map(skills::Skill::name) {
        assert!(page.contains(&format!("| [{name}](../crates/conductor-daemon/skills/{name}/SKILL.md) |")), "{name}");
    }
}

#[test]
fn a_realistic_file_is_merged_and_restored_byte_for_byte() {
    for client in with_files() {
        let desk = Desk::new(Platform::current());
        let (file, before) = (desk.file(client), contract(client));
        std::fs::write(&file, &before).unwrap();
        let untouched = files_in(desk.folder.path());

        assert_eq!(setup::apply(client, &desk.places, &launch(None)).unwrap(), Done::Written { file: file.clone() });
        let after = std::fs::read_to_string(&file).unwrap();
        let (old, new) = (client.format.value(&before).unwrap(), client.format.value(&after).unwrap());
        let mut others = new.clone();
        let entry = others[client.container].as_object_mut().unwrap().shift_remove("conductor").unwrap();
        assert_eq!(others, old, "{}", client.name);
        assert_eq!(client.launch_of(&entry), Some(launch(None)), "{}", client.name);
        let mut rest = after.chars();
        assert!(before.chars().all(|wanted| rest.any(|it| it == wanted)), "{}: existing text was changed", client.name);
        assert_eq!(after.contains("\r\n"), before.contains("\r\n"));
        assert_eq!(after.starts_with('\u{feff}'), before.starts_with('\u{feff}'));

        assert_eq!(setup::apply(client, &desk.places, &launch(None)).unwrap(), Done::Unchanged { file: file.clone() });
        assert_eq!(std::fs::read_to_string(&file).unwrap(), after, "the second set-up changed the file");
        // A later set-up with another view replaces the command.
        setup::apply(client, &desk.places, &launch(Some("stage"))).unwrap();
        let (_, status) = setup::status(client, &desk.places).unwrap();
        assert_eq!(status, Status::SetUp(launch(Some("stage"))));

        setup::remove(client, &desk.places).unwrap();
        assert_eq!(files_in(desk.folder.path()), untouched, "{}", client.name);
        assert_eq!(setup::status(client, &desk.places).unwrap().1, Status::NotSetUp);
    }
}

#[test]
fn a_missing_an_empty_and_a_nearly_empty_file_come_back_too() {
    for client in with_files() {
        let (object, spaced) = match client.format {
            Format::Json | Format::CommentedJson | Format::Jsonc => {
                ("{}".to_owned(), format!("{{ \"{}\" : {{\n}} }}\r\n", client.container))
            }
            Format::Yaml => (format!("{}:\n", client.container), format!("# nothing\n{}: {{ }}", client.container)),
            Format::Toml => ("# nothing".to_owned(), "\n\n".to_owned()),
        };
        for before in [None, Some(String::new()), Some("\n".to_owned()), Some(object), Some(spaced)] {
            let desk = Desk::new(Platform::current());
            if let Some(before) = &before {
                std::fs::write(desk.file(client), before).unwrap();
            }
            let untouched = files_in(desk.folder.path());
            setup::apply(client, &desk.places, &launch(None)).unwrap_or_else(|error| panic!("{before:?}: {error}"));
            assert!(matches!(setup::status(client, &desk.places), Some((_, Status::SetUp(_)))));
            setup::remove(client, &desk.places).unwrap();
            assert_eq!(files_in(desk.folder.path()), untouched, "{} {before:?}", client.name);
        }
    }
}

/// Other edits between set-up and removal stay; only our entry is removed.
#[test]
fn a_change_in_between_is_kept() {
    for client in with_files() {
        let desk = Desk::new(Platform::current());
        let (file, before) = (desk.file(client), contract(client));
        std::fs::write(&file, &before).unwrap();
        setup::apply(client, &desk.places, &launch(None)).unwrap();
        let edit = |text: &str| {
            let (old, new) = match client.format {
                Format::Yaml => ("GOOSE_MODE: smart_approve", "GOOSE_MODE: approve"),
                Format::Toml => ("notifications = true", "notifications = false"),
                Format::Json | Format::CommentedJson | Format::Jsonc => ("\"command\"", "\"x\": 1, \"command\""),
            };
            match (client.name, client.format) {
                ("zed", _) => text.replacen("VSCode", "Atom", 1),
                ("lm-studio", _) => text.replacen("TOKEN", "OTHER", 1),
                _ => text.replacen(old, new, 1),
            }
        };
        let edited = edit(&std::fs::read_to_string(&file).unwrap());
        std::fs::write(&file, edited).unwrap();
        setup::remove(client, &desk.places).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), edit(&before), "{}", client.name);
    }
}

#[test]
fn a_broken_file_is_refused_with_its_place_and_left_alone() {
    for client in with_files() {
        let desk = Desk::new(Platform::current());
        let file = desk.file(client);
        let whole = contract(client);
        let cut: String = whole.chars().take(whole.chars().count() / 2).collect();
        let other = match client.format {
            Format::Json | Format::CommentedJson | Format::Jsonc => {
                format!("{{ \"{}\": 3 }}", client.container).into_bytes()
            }
            Format::Yaml => b"a: [".to_vec(),
            Format::Toml => b"[mcp_servers.x\n".to_vec(),
        };
        // Half of a YAML file may be valid YAML, so use another broken text.
        let half = if client.format == Format::Yaml { b"a: 1\n b: 2".to_vec() } else { cut.into_bytes() };
        for bytes in
            [half, other, b"{ \"a\": \"\xff\" }".to_vec(), "{}".encode_utf16().flat_map(u16::to_be_bytes).collect()]
        {
            std::fs::write(&file, &bytes).unwrap();
            let untouched = files_in(desk.folder.path());
            for failure in [setup::apply(client, &desk.places, &launch(None)), setup::remove(client, &desk.places)] {
                let Err(SetupError::Refused { fault, .. }) = failure else {
                    // If the container is not a map, it has no entry, so there is nothing to
                    // remove.
                    assert!(matches!(failure, Ok(Done::Unchanged { .. })), "{}: {failure:?}", client.name);
                    continue;
                };
                assert!(fault.line > 0 && fault.column > 0, "{fault}");
            }
            assert_eq!(files_in(desk.folder.path()), untouched, "{}", client.name);
            let (_, status) = setup::status(client, &desk.places).unwrap();
            assert!(matches!(status, Status::Unreadable(_) | Status::NotSetUp), "{status:?}");
        }
    }
}

#[test]
fn a_client_that_is_not_installed_gets_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let places = Places {
        app_data: None,
        user_home: Some(folder.path().to_owned()),
        project: folder.path().join("p"),
        platform: Platform::current(),
    };
    for client in with_files() {
        let refused = setup::apply(client, &places, &launch(None));
        assert!(matches!(refused, Err(SetupError::NotInstalled { .. })), "{refused:?}");
        assert_eq!(setup::status(client, &places).unwrap().1, Status::NotInstalled);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A tool that runs other tools must never be in a list of tools that run without a question.
#[test]
fn no_entry_allows_a_tool_without_a_question() {
    for client in &CLIENTS {
        for view in [None, Some("all")] {
            let text = setup::snippet(client, &launch(view));
            let entry = client.format.value(&text).unwrap()[client.container]["conductor"].take();
            for word in ["call_tool", "run_script", "autoApprove", "alwaysAllow", "trust", "permission", "approval"] {
                assert!(!entry.to_string().contains(word), "{}: {word}", client.name);
            }
            assert_eq!(text.matches("--view").count(), usize::from(view.is_some()));
        }
    }
}

#[test]
fn skills_are_copied_updated_and_removed_but_never_taken_from_a_person() {
    let mut readers = 0;
    for client in with_files() {
        let desk = Desk::new(Platform::current());
        let Some(folder) = skill_folders::folder(client, &desk.places).or_else(|| {
            // The folder of the skills may be in a different place than the file.
            let parent = desk.places.paths(client.skills).first()?.parent()?.to_owned();
            std::fs::create_dir_all(parent).unwrap();
            skill_folders::folder(client, &desk.places)
        }) else {
            continue;
        };
        readers += 1;
        let foreign = folder.join("map-a-control/SKILL.md");
        std::fs::create_dir_all(foreign.parent().unwrap()).unwrap();
        std::fs::write(&foreign, "mine").unwrap();
        let untouched = files_in(desk.folder.path());
        let copied = skill_folders::copy(&folder).unwrap();
        let wanted = |name: &str| {
            if name == "map-a-control" { skill_folders::Outcome::Foreign } else { skill_folders::Outcome::Written }
        };
        assert!(copied.iter().all(|(name, outcome)| *outcome == wanted(name)), "{copied:?}");
        for skill in skills::ALL.iter().filter(|it| it.name() != "map-a-control") {
            assert_eq!(std::fs::read_to_string(folder.join(skill.name()).join("SKILL.md")).unwrap(), skill.text);
        }
        // A copy of an older version is ours, and is replaced.
        let old = folder.join("patch-a-synth");
        std::fs::write(old.join("SKILL.md"), "older").unwrap();
        std::fs::write(old.join(".conductor-digest"), skills::digest(b"older")).unwrap();
        let again = skill_folders::copy(&folder).unwrap();
        assert_eq!(again.iter().filter(|(_, it)| *it == skill_folders::Outcome::Written).count(), 1, "{again:?}");
        skill_folders::remove(&folder).unwrap();
        assert_eq!(files_in(desk.folder.path()), untouched, "{}", client.name);
    }
    assert!(readers >= 9, "only {readers} clients read skills from a folder");
}

/// A program of `clients/loaders`, or `None` if it is not installed.
fn loader(path: &str) -> Option<PathBuf> {
    let program = mcp_process::clients().join("loaders/node_modules").join(path);
    if program.exists() { Some(program) } else { mcp_process::missing(&format!("the client {path}")) }
}

/// Adds Conductor to the realistic file of a client, and returns the output of the client's own
/// program, which reads this file.
fn read_by(name: &str, program: &Path, arguments: &[&str]) -> (Desk, String) {
    let client = Client::named(name).unwrap();
    let desk = Desk::new(Platform::Linux);
    std::fs::create_dir_all(desk.folder.path().join("project")).unwrap();
    // Cline: use the file of the command-line program, not the file of the editor extension.
    let file = if name == "cline" {
        desk.home().join(".cline/data/settings/cline_mcp_settings.json")
    } else {
        desk.file(client)
    };
    if name == "cline" {
        std::fs::remove_dir_all(desk.home().join(".config/Code")).unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    }
    std::fs::write(&file, contract(client)).unwrap();
    setup::apply(client, &desk.places, &launch(Some("stage"))).unwrap();
    let out = Command::new(program)
        .args(arguments)
        .current_dir(desk.folder.path().join("project"))
        .env_clear()
        .env("HOME", desk.home())
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{name}: {text}");
    (desk, text)
}

fn json_in(text: &str) -> Value {
    let start = text.find(['{', '[']).unwrap_or_else(|| panic!("no JSON: {text}"));
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter();
    values.next().and_then(Result::ok).unwrap_or_else(|| panic!("no JSON: {text}"))
}

#[test]
fn codex_reads_its_file() {
    let Some(program) = loader("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex") else { return };
    let (_desk, text) = read_by("codex", &program, &["mcp", "list", "--json"]);
    let listed = json_in(&text);
    let ours = listed.as_array().unwrap().iter().find(|it| it["name"] == "conductor").unwrap();
    assert_eq!(ours["transport"]["command"], launch(None).program);
    assert_eq!(ours["transport"]["args"], serde_json::json!(launch(Some("stage")).arguments));
    assert_eq!((listed.as_array().unwrap().len(), &ours["enabled"]), (2, &Value::Bool(true)));
}

#[test]
fn opencode_reads_its_file() {
    let Some(program) = loader("opencode-linux-x64-baseline/bin/opencode") else { return };
    let (_desk, text) = read_by("opencode", &program, &["debug", "config"]);
    let read = json_in(&text);
    let mut wanted = vec![launch(None).program];
    wanted.extend(launch(Some("stage")).arguments);
    assert_eq!(read["mcp"]["conductor"], serde_json::json!({ "type": "local", "command": wanted, "enabled": true }));
    assert_eq!(read["mcp"]["everything"]["enabled"], false);
}

#[test]
fn copilot_reads_its_file() {
    let Some(program) = loader("@github/copilot-linux-x64/copilot") else { return };
    let (_desk, text) = read_by("copilot-cli", &program, &["mcp", "list", "--json"]);
    let read = json_in(&text);
    assert_eq!(read["mcpServers"]["conductor"]["command"], launch(None).program);
    assert_eq!(read["mcpServers"]["conductor"]["args"], serde_json::json!(launch(Some("stage")).arguments));
    assert_eq!(read["mcpServers"]["playwright"]["tools"], serde_json::json!(["browser_navigate"]));
}

#[test]
fn claude_code_reads_its_file() {
    let Some(program) = loader("@anthropic-ai/claude-code-linux-x64/claude") else { return };
    let (_desk, text) = read_by("claude-code", &program, &["mcp", "get", "conductor"]);
    assert!(text.contains(&format!("Command: {}", launch(None).program)), "{text}");
    assert!(text.contains(&format!("Args: {}", launch(Some("stage")).arguments.join(" "))), "{text}");
}

#[test]
fn gemini_reads_its_file() {
    let (Some(node), Some(script)) = (mcp_process::node(), loader("@google/gemini-cli/bundle/gemini.js")) else {
        return;
    };
    let (_desk, text) = read_by("gemini-cli", &node, &[&script.to_string_lossy(), "mcp", "list"]);
    let shown = format!("conductor: {} {}", launch(None).program, launch(Some("stage")).arguments.join(" "));
    assert!(text.contains(&shown) && text.contains("search: python"), "{text}");
}

/// Cline has no command that lists servers. Its command that removes a server reads the file and
/// writes the rest.
#[test]
fn cline_reads_its_file() {
    let Some(program) = loader("@cline/cli-linux-x64/bin/cline") else { return };
    let (desk, text) = read_by("cline", &program, &["mcp", "uninstall", "conductor"]);
    let file = desk.home().join(".cline/data/settings/cline_mcp_settings.json");
    let left: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(left["mcpServers"]["conductor"], Value::Null, "{text}");
    assert_eq!(left["mcpServers"]["weather"]["autoApprove"], serde_json::json!(["get_forecast"]), "{text}");
}

#[test]
fn the_settings_folder_of_windows_may_be_on_another_drive() {
    let mut desk = Desk::new(Platform::Windows);
    desk.places.app_data = Some("D:\\Profiles\\ada".into());
    for (name, end) in
        [("claude-desktop", "claude_desktop_config.json"), ("zed", "settings.json"), ("goose", "config.yaml")]
    {
        let file = desk.file(Client::named(name).unwrap());
        assert!(file.starts_with("D:\\Profiles\\ada") && file.ends_with(end), "{}", file.display());
    }
    assert!(desk.file(Client::named("cursor").unwrap()).starts_with(desk.home()), "the file is not in the home folder");
}
