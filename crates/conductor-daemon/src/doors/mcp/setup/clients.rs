//! The table of AI clients. A new client is one entry of [`CLIENTS`].

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::edit::{Field, Format};

/// The operating systems on which clients have different folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    Linux,
    MacOs,
    Windows,
}

impl Platform {
    pub const ALL: [Self; 3] = [Self::Linux, Self::MacOs, Self::Windows];

    pub fn current() -> Self {
        match std::env::consts::OS {
            "macos" => Self::MacOs,
            "windows" => Self::Windows,
            _ => Self::Linux,
        }
    }
}

/// A folder in which clients store their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The home folder of the user.
    Home,
    /// `~/.config` on Linux, `~/Library/Application Support` on macOS, `%APPDATA%` on Windows.
    AppData,
    /// The working folder, for files of one project.
    Project,
}

/// A path of a client's file or folder.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    base: Base,
    path: &'static str,
    platforms: &'static [Platform],
}

const fn home(path: &'static str) -> Spot {
    Spot { base: Base::Home, path, platforms: &Platform::ALL }
}

const fn app_data(path: &'static str) -> Spot {
    Spot { base: Base::AppData, path, platforms: &Platform::ALL }
}

const fn project(path: &'static str) -> Spot {
    Spot { base: Base::Project, path, platforms: &Platform::ALL }
}

const fn only(platforms: &'static [Platform], spot: Spot) -> Spot {
    Spot { platforms, ..spot }
}

const UNIX: &[Platform] = &[Platform::Linux, Platform::MacOs];
const WINDOWS: &[Platform] = &[Platform::Windows];

/// The folders on this machine, read from the environment by the caller.
#[derive(Debug, Clone)]
pub struct Places {
    pub user_home: Option<PathBuf>,
    /// `%APPDATA%` of Windows.
    pub app_data: Option<PathBuf>,
    pub project: PathBuf,
    pub platform: Platform,
}

impl Places {
    fn path(&self, spot: Spot) -> Option<PathBuf> {
        if !spot.platforms.contains(&self.platform) {
            return None;
        }
        let base = match (spot.base, self.platform) {
            (Base::Project, _) => self.project.clone(),
            (Base::Home, _) => self.user_home.clone()?,
            (Base::AppData, Platform::Linux) => self.user_home.as_ref()?.join(".config"),
            (Base::AppData, Platform::MacOs) => self.user_home.as_ref()?.join("Library/Application Support"),
            (Base::AppData, Platform::Windows) => match &self.app_data {
                Some(folder) => folder.clone(),
                None => self.user_home.as_ref()?.join("AppData/Roaming"),
            },
        };
        // Collecting the components replaces `/` with the separator of the system.
        Some(base.join(spot.path).components().collect())
    }

    pub fn paths(&self, spots: &[Spot]) -> Vec<PathBuf> {
        spots.iter().filter_map(|it| self.path(*it)).collect()
    }
}

/// How an entry names the program and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// The program in one field, the arguments in the field `args`.
    Split(&'static str),
    /// The program and its arguments in the list `command`.
    List,
}

/// A client: where its file is, and the form of an entry.
#[derive(Debug)]
pub struct Client {
    pub name: &'static str,
    /// Name of the client in messages.
    pub title: &'static str,
    pub format: Format,
    /// The files with the servers of this client. The first one that exists is used, otherwise the
    /// first one whose folder exists. A client without a file is configured by hand.
    pub files: &'static [Spot],
    /// The key in the file whose value is the map of servers.
    pub container: &'static str,
    pub command: Command,
    /// A field before the command that names the transport.
    pub transport: Option<&'static str>,
    /// Further fields of a new entry, as JSON. None of them lets a tool run without asking the
    /// person.
    pub more: &'static [(&'static str, &'static str)],
    /// The folder from which the client reads skills.
    pub skills: &'static [Spot],
}

/// The format of entries that most clients use.
const USUAL: Client = Client {
    name: "generic",
    title: "the client",
    format: Format::Json,
    files: &[],
    container: "mcpServers",
    command: Command::Split("command"),
    transport: None,
    more: &[],
    skills: &[],
};

/// All clients. `generic` has no file: its entry is printed.
pub static CLIENTS: [Client; 15] = [
    Client {
        name: "claude-code",
        title: "Claude Code",
        files: &[project(".mcp.json")],
        skills: &[home(".claude/skills")],
        ..USUAL
    },
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        files: &[app_data("Claude/claude_desktop_config.json")],
        ..USUAL
    },
    Client {
        name: "cursor",
        title: "Cursor",
        files: &[home(".cursor/mcp.json")],
        skills: &[home(".cursor/skills")],
        ..USUAL
    },
    Client {
        name: "vscode",
        title: "VS Code",
        format: Format::Jsonc,
        files: &[project(".vscode/mcp.json")],
        container: "servers",
        transport: Some("stdio"),
        skills: &[home(".copilot/skills")],
        ..USUAL
    },
    Client {
        name: "windsurf",
        title: "Windsurf",
        files: &[home(".codeium/windsurf/mcp_config.json")],
        skills: &[home(".codeium/windsurf/skills")],
        ..USUAL
    },
    Client {
        name: "cline",
        title: "Cline",
        // The extension for VS Code, then the command-line program.
        files: &[
            app_data("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
            home(".cline/data/settings/cline_mcp_settings.json"),
        ],
        skills: &[home(".cline/skills")],
        ..USUAL
    },
    Client {
        name: "codex",
        title: "Codex",
        format: Format::Toml,
        files: &[home(".codex/config.toml")],
        container: "mcp_servers",
        skills: &[home(".codex/skills")],
        ..USUAL
    },
    Client {
        name: "gemini-cli",
        title: "Gemini CLI",
        format: Format::CommentedJson,
        files: &[home(".gemini/settings.json")],
        skills: &[home(".gemini/skills")],
        ..USUAL
    },
    Client {
        name: "copilot-cli",
        title: "GitHub Copilot CLI",
        files: &[home(".copilot/mcp-config.json")],
        transport: Some("local"),
        // Lets the model use all tools. The client still asks the person about each call.
        more: &[("tools", r#"["*"]"#)],
        skills: &[home(".copilot/skills")],
        ..USUAL
    },
    Client {
        name: "zed",
        title: "Zed",
        format: Format::Jsonc,
        files: &[only(UNIX, home(".config/zed/settings.json")), only(WINDOWS, app_data("Zed/settings.json"))],
        container: "context_servers",
        ..USUAL
    },
    Client {
        name: "opencode",
        title: "opencode",
        format: Format::Jsonc,
        files: &[home(".config/opencode/opencode.jsonc"), home(".config/opencode/opencode.json")],
        container: "mcp",
        command: Command::List,
        transport: Some("local"),
        more: &[("enabled", "true")],
        skills: &[home(".config/opencode/skills")],
    },
    Client {
        name: "goose",
        title: "goose",
        format: Format::Yaml,
        files: &[
            only(UNIX, home(".config/goose/config.yaml")),
            only(WINDOWS, app_data("Block/goose/config/config.yaml")),
        ],
        container: "extensions",
        command: Command::Split("cmd"),
        transport: Some("stdio"),
        more: &[
            ("enabled", "true"),
            ("name", r#""conductor""#),
            ("description", r#""Music studio: controllers, mappings, patches and Live Sets""#),
            ("timeout", "300"),
            ("envs", "{}"),
            ("env_keys", "[]"),
        ],
        skills: &[],
    },
    Client {
        name: "lm-studio",
        title: "LM Studio",
        // Some installations have their folder in the cache.
        files: &[home(".lmstudio/mcp.json"), home(".cache/lm-studio/mcp.json")],
        ..USUAL
    },
    Client {
        name: "jetbrains",
        title: "Junie by JetBrains",
        files: &[home(".junie/mcp/mcp.json")],
        skills: &[home(".junie/skills")],
        ..USUAL
    },
    USUAL,
];

/// The command that a client starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Absolute, because desktop programs often have no PATH.
    pub program: String,
    pub arguments: Vec<String>,
}

impl Launch {
    /// `view` and `home` are written only if they differ from the default.
    pub fn new(program: String, home: Option<&str>, view: Option<&str>) -> Self {
        let mut arguments: Vec<String> = Vec::new();
        arguments.extend(home.into_iter().flat_map(|it| ["--home".to_owned(), it.to_owned()]));
        arguments.extend(["mcp", "start", "--tool-names", "safe"].map(str::to_owned));
        arguments.extend(view.into_iter().flat_map(|it| ["--view".to_owned(), it.to_owned()]));
        Self { program, arguments }
    }

    pub fn view(&self) -> Option<&str> {
        let mut rest = self.arguments.iter().skip_while(|it| *it != "--view");
        rest.nth(1).map(String::as_str)
    }
}

impl Client {
    pub fn named(name: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|it| it.name == name)
    }

    /// The file to read and write. `None` for a client without a file.
    pub fn file(&self, places: &Places) -> Option<PathBuf> {
        let files = places.paths(self.files);
        let has_folder = |it: &&PathBuf| it.parent().is_some_and(Path::is_dir);
        let found = files.iter().find(|it| it.exists()).or_else(|| files.iter().find(has_folder));
        found.or_else(|| files.first()).cloned()
    }

    /// Whether the file of this client belongs to one project.
    pub fn belongs_to_project(&self) -> bool {
        self.files.iter().any(|it| it.base == Base::Project)
    }

    pub fn fields(&self, launch: &Launch) -> Vec<Field> {
        let required = |key, value| Field { key, value, is_required: true };
        let command = match self.command {
            Command::Split(key) => {
                vec![required(key, json!(launch.program)), required("args", json!(launch.arguments))]
            }
            Command::List => {
                let all: Vec<&String> = [&launch.program].into_iter().chain(&launch.arguments).collect();
                vec![required("command", json!(all))]
            }
        };
        let more = self.more.iter().map(|(key, value)| Field {
            key,
            value: serde_json::from_str(value).unwrap_or_default(),
            is_required: false,
        });
        let transport = self.transport.map(|it| required("type", json!(it)));
        transport.into_iter().chain(command).chain(more).collect()
    }

    /// The command of an existing entry.
    pub fn launch_of(&self, entry: &Value) -> Option<Launch> {
        let list = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|it| it.as_str().map(str::to_owned)).collect()
        };
        match self.command {
            Command::Split(key) => {
                let arguments = entry.get("args").map_or_else(|| Some(Vec::new()), list)?;
                Some(Launch { program: entry.get(key)?.as_str()?.to_owned(), arguments })
            }
            Command::List => {
                let mut all = list(entry.get("command")?)?;
                (!all.is_empty()).then(|| Launch { program: all.remove(0), arguments: all })
            }
        }
    }
}
