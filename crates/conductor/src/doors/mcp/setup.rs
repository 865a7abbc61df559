//! `conductor mcp setup`: adds the server to an AI client's configuration file, and changes nothing
//! else in it.
//!
//! Not here: printing and exit codes (`cli`). A file that is not strict JSON is not changed; the
//! caller prints the snippet instead.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use conductor_hosts::atomic_file;

const NAME: &str = "conductor";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    Windsurf,
    VsCode,
    Cline,
    Generic,
}

impl Client {
    pub const ALL: [Self; 7] =
        [Self::ClaudeDesktop, Self::ClaudeCode, Self::Cursor, Self::Windsurf, Self::VsCode, Self::Cline, Self::Generic];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Windsurf => "windsurf",
            Self::VsCode => "vscode",
            Self::Cline => "cline",
            Self::Generic => "generic",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.as_str() == text)
    }

    /// The file with the servers of this client; absent for clients without such a file.
    pub fn file(self, places: &Places) -> Option<PathBuf> {
        match self {
            Self::ClaudeDesktop => places.app_data.as_ref().map(|it| it.join("Claude/claude_desktop_config.json")),
            Self::ClaudeCode => Some(places.working.join(".mcp.json")),
            Self::Cursor => places.user_home.as_ref().map(|it| it.join(".cursor/mcp.json")),
            Self::Windsurf => places.user_home.as_ref().map(|it| it.join(".codeium/windsurf/mcp_config.json")),
            Self::VsCode => Some(places.working.join(".vscode/mcp.json")),
            Self::Cline | Self::Generic => None,
        }
    }

    const fn root(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::ClaudeDesktop | Self::ClaudeCode | Self::Cursor | Self::Windsurf | Self::Cline | Self::Generic => {
                "mcpServers"
            }
        }
    }

    /// The entry for this client. `program` is absolute, because desktop programs often have no
    /// PATH.
    fn entry(self, program: &Path) -> Value {
        let mut entry = Map::new();
        if self == Self::VsCode {
            entry.insert("type".to_owned(), json!("stdio"));
        }
        entry.insert("command".to_owned(), json!(program));
        entry.insert("args".to_owned(), json!(["mcp", "start", "--tool-names", "safe"]));
        Value::Object(entry)
    }

    /// The text that a person pastes into a file that we do not write.
    pub fn snippet(self, program: &Path) -> String {
        let whole = json!({ self.root(): { NAME: self.entry(program) } });
        serde_json::to_string_pretty(&whole).unwrap_or_default()
    }
}

/// The folders that may contain a client's file, read from the environment by the caller.
#[derive(Debug, Clone)]
pub struct Places {
    pub user_home: Option<PathBuf>,
    /// `~/Library/Application Support`, `%APPDATA%` or `~/.config`.
    pub app_data: Option<PathBuf>,
    pub working: PathBuf,
}

impl Places {
    pub fn of(user_home: Option<PathBuf>, working: PathBuf) -> Self {
        let app_data = user_home.as_ref().map(|home| {
            if cfg!(target_os = "macos") {
                home.join("Library/Application Support")
            } else if cfg!(windows) {
                home.join("AppData/Roaming")
            } else {
                home.join(".config")
            }
        });
        Self { user_home, app_data, working }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    Written {
        file: PathBuf,
    },
    /// The file already contained the entry.
    Unchanged {
        file: PathBuf,
    },
    /// This client has no file; print the snippet.
    NoFile,
}

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("{folder} does not exist, so {client} is not installed here; nothing was written")]
    NotInstalled { client: &'static str, folder: PathBuf },
    #[error("{file} is not strict JSON, for example because of comments, and was not changed: {reason}")]
    NotJson { file: PathBuf, reason: String },
    #[error("{file}: {place} is not an object; the file was not changed")]
    NotAnObject { file: PathBuf, place: String },
    #[error("{file}: {source}")]
    Io { file: PathBuf, source: io::Error },
}

/// Adds or updates our entry, and keeps every other key and the order.
pub fn apply(client: Client, places: &Places, program: &Path) -> Result<Done, SetupError> {
    let Some(file) = client.file(places) else { return Ok(Done::NoFile) };
    let fault = |source| SetupError::Io { file: file.clone(), source };
    let folder = file.parent().unwrap_or(Path::new(".")).to_owned();
    if !folder.is_dir() {
        return Err(SetupError::NotInstalled { client: client.as_str(), folder });
    }
    let before = match std::fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => None,
        Err(other) => return Err(fault(other)),
    };
    let mut whole: Value = match before.as_deref().map(str::trim) {
        None | Some("") => json!({}),
        Some(text) => serde_json::from_str(text)
            .map_err(|it| SetupError::NotJson { file: file.clone(), reason: it.to_string() })?,
    };
    let not_an_object = |place: &str| SetupError::NotAnObject { file: file.clone(), place: place.to_owned() };
    let root = whole.as_object_mut().ok_or_else(|| not_an_object("the file"))?;
    let servers = root.entry(client.root()).or_insert_with(|| json!({}));
    let servers = servers.as_object_mut().ok_or_else(|| not_an_object(client.root()))?;
    let entry = client.entry(program);
    if servers.get(NAME) == Some(&entry) {
        return Ok(Done::Unchanged { file });
    }
    servers.insert(NAME.to_owned(), entry);
    if let Some(before) = &before {
        back_up(&file, before).map_err(fault)?;
    }
    let mut text = serde_json::to_string_pretty(&whole).unwrap_or_default();
    text.push('\n');
    // Configuration files may be symbolic links; they stay links.
    atomic_file::replace(&file, text.as_bytes(), 0o644, &std::process::id().to_string()).map_err(fault)?;
    Ok(Done::Written { file })
}

/// Creates a backup only once: a second run must not overwrite the backup of the original file.
fn back_up(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".before-conductor");
    match std::fs::OpenOptions::new().write(true).create_new(true).open(PathBuf::from(name)) {
        Ok(mut backup) => backup.write_all(text.as_bytes()),
        Err(there) if there.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "/usr/local/bin/conductor";

    fn home() -> (tempfile::TempDir, Places) {
        let folder = tempfile::tempdir().expect("a folder");
        let places = Places {
            user_home: Some(folder.path().to_owned()),
            app_data: Some(folder.path().join(".config")),
            working: folder.path().join("work"),
        };
        for it in [".config/Claude", ".cursor", ".codeium/windsurf", "work/.vscode"] {
            std::fs::create_dir_all(folder.path().join(it)).expect("made");
        }
        (folder, places)
    }

    fn run(client: Client, places: &Places) -> Result<Done, SetupError> {
        apply(client, places, Path::new(PROGRAM))
    }

    #[test]
    fn every_client_gets_its_shape_and_a_second_run_changes_nothing() {
        let (_folder, places) = home();
        for client in Client::ALL {
            assert_eq!(Client::parse(client.as_str()), Some(client));
            let Some(file) = client.file(&places) else {
                assert_eq!(run(client, &places).ok(), Some(Done::NoFile));
                continue;
            };
            assert_eq!(run(client, &places).ok(), Some(Done::Written { file: file.clone() }));
            let text = std::fs::read_to_string(&file).expect("written");
            assert_eq!(text.trim_end(), client.snippet(Path::new(PROGRAM)));
            assert_eq!(run(client, &places).ok(), Some(Done::Unchanged { file: file.clone() }));
            assert_eq!(std::fs::read_to_string(&file).ok(), Some(text));
        }
        let vscode = std::fs::read_to_string(places.working.join(".vscode/mcp.json")).unwrap_or_default();
        assert_eq!(
            vscode.split_whitespace().collect::<String>(),
            r#"{"servers":{"conductor":{"type":"stdio","command":"/usr/local/bin/conductor","args":["mcp","start","--tool-names","safe"]}}}"#
        );
    }

    #[test]
    fn everything_else_in_the_file_stays_in_its_order() {
        let (_folder, places) = home();
        let file = Client::Cursor.file(&places).expect("a file");
        let before = r#"{"zebra":1,"mcpServers":{"other":{"command":"x","env":{"B":"1","A":"2"}},"conductor":{"command":"old"}},"apple":[true,null]}"#;
        std::fs::write(&file, before).expect("written");
        run(Client::Cursor, &places).expect("written");
        let after = std::fs::read_to_string(&file).expect("there");
        let compact: Value = serde_json::from_str(&after).expect("JSON");
        assert_eq!(
            compact.to_string(),
            r#"{"zebra":1,"mcpServers":{"other":{"command":"x","env":{"B":"1","A":"2"}},"conductor":{"command":"/usr/local/bin/conductor","args":["mcp","start","--tool-names","safe"]}},"apple":[true,null]}"#
        );
        let backup = places.user_home.as_ref().map(|it| it.join(".cursor/mcp.json.before-conductor")).expect("a path");
        assert_eq!(std::fs::read_to_string(&backup).ok().as_deref(), Some(before));
        // The backup is the original file, also after a later change.
        apply(Client::Cursor, &places, Path::new("/opt/conductor")).expect("written");
        assert_eq!(std::fs::read_to_string(&backup).ok().as_deref(), Some(before));
        let left: Vec<_> = std::fs::read_dir(places.user_home.as_ref().map(|it| it.join(".cursor")).expect("a path"))
            .expect("a folder")
            .filter_map(|it| it.ok().map(|it| it.file_name()))
            .collect();
        assert_eq!(left.len(), 2, "no temporary file stays: {left:?}");
    }

    #[test]
    fn what_we_cannot_read_or_place_is_left_alone() {
        let (folder, places) = home();
        let file = Client::VsCode.file(&places).expect("a file");
        for text in ["{ // a comment\n \"servers\": {} }", "{\"servers\": {},}", "[]", "{\"servers\": []}"] {
            std::fs::write(&file, text).expect("written");
            let fault = run(Client::VsCode, &places).expect_err("refused");
            assert!(matches!(fault, SetupError::NotJson { .. } | SetupError::NotAnObject { .. }), "{fault}");
            assert_eq!(std::fs::read_to_string(&file).ok().as_deref(), Some(text));
        }
        std::fs::remove_dir_all(folder.path().join(".cursor")).expect("removed");
        assert!(matches!(run(Client::Cursor, &places), Err(SetupError::NotInstalled { client: "cursor", .. })));
        assert!(!folder.path().join(".cursor").exists());
    }
}
