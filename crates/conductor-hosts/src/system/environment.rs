//! Reads the process environment: variables, search paths and the path of this program.

#![expect(clippy::disallowed_methods, reason = "the only file that reads environment variables")]

use crate::desktop::session::{Compositor, Session};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The path of this program, for starting it again. On Linux it is the running program, even if an
/// upgrade has replaced its file.
pub fn own_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().unwrap_or_default()
    }
}

/// The values from the process environment that the daemon uses. They are read once at start.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `CONDUCTOR_HOME`, or else `~/.conductor`; absent if neither is available.
    pub home: Option<PathBuf>,
    pub user_home: Option<PathBuf>,
    /// `APPDATA`, the folder for settings on Windows. It may be on another drive.
    pub app_data: Option<PathBuf>,
    /// The desktop session that this process belongs to.
    pub desktop: Session,
    /// `XDG_CONFIG_HOME`.
    pub config_home: Option<PathBuf>,
    pub xdg_data_dirs: Vec<PathBuf>,
    /// Folders that are searched for a command without a slash.
    pub search_path: Vec<PathBuf>,
    pub no_color: bool,
    /// Folder into which the service manager writes credentials.
    pub credentials: Option<PathBuf>,
}

/// The variable that names the home folder of the user.
const USER_HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// The value of a variable, if it is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|it| !it.is_empty())
}

fn path(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

fn paths(name: &str) -> Option<Vec<PathBuf>> {
    variable(name).map(|it| std::env::split_paths(&it).collect())
}

impl Environment {
    pub fn read() -> Self {
        let user_home = path(USER_HOME);
        let beneath = |folder: &str| user_home.as_ref().map(|it| it.join(folder));
        let mut xdg_data_dirs = Vec::from_iter(path("XDG_DATA_HOME").or_else(|| beneath(".local/share")));
        let shared = || ["/usr/local/share", "/usr/share"].map(PathBuf::from).into();
        xdg_data_dirs.extend(paths("XDG_DATA_DIRS").unwrap_or_else(shared));
        Environment {
            home: path("CONDUCTOR_HOME").or_else(|| beneath(".conductor")),
            app_data: path("APPDATA"),
            desktop: desktop_session(),
            config_home: path("XDG_CONFIG_HOME"),
            xdg_data_dirs,
            search_path: paths("PATH").unwrap_or_default(),
            no_color: variable("NO_COLOR").is_some() || variable("TERM").is_some_and(|it| it == "dumb"),
            credentials: path("CREDENTIALS_DIRECTORY"),
            user_home,
        }
    }
}

fn desktop_session() -> Session {
    let runtime = path("XDG_RUNTIME_DIR");
    // If the name is an absolute path, `join` ignores the folder.
    let wayland = path("WAYLAND_DISPLAY").zip(runtime.clone()).map(|(name, folder)| folder.join(name));
    let hyprland =
        path("HYPRLAND_INSTANCE_SIGNATURE").zip(runtime).map(|(name, folder)| folder.join("hypr").join(name));
    let compositor = path("SWAYSOCK")
        .map(Compositor::Sway)
        .or_else(|| hyprland.map(Compositor::Hyprland))
        .or_else(|| path("NIRI_SOCKET").map(Compositor::Niri));
    Session {
        x11: variable("DISPLAY").and_then(|it| it.into_string().ok()),
        // On an X11 session, the environment may still name the socket of a compositor that has
        // ended.
        compositor: compositor.filter(|_| wayland.is_some()),
        wayland,
        uinput: cfg!(target_os = "linux").then(|| PathBuf::from("/dev/uinput")),
        native: cfg!(any(target_os = "macos", windows)),
    }
}

/// The file of a command. A command without a folder is searched in `folders`.
pub fn program_of(command: &Path, folders: &[PathBuf]) -> Option<PathBuf> {
    let has_folder = command.components().count() > 1;
    let candidates =
        if has_folder { vec![command.to_owned()] } else { folders.iter().map(|it| it.join(command)).collect() };
    candidates.into_iter().find_map(|it| {
        if it.is_file() {
            return Some(it);
        }
        // On Windows, the name of a command usually lacks the extension of its file.
        let with_extension = it.with_extension("exe");
        (cfg!(windows) && with_extension.is_file()).then_some(with_extension)
    })
}

/// The values of the listed environment variables that are set.
pub fn variables(names: &[&'static str]) -> Vec<(&'static str, OsString)> {
    names.iter().filter_map(|name| std::env::var_os(name).map(|value| (*name, value))).collect()
}

/// Variables that programs of the system need to start.
pub fn basic_variables() -> Vec<(&'static str, OsString)> {
    if cfg!(windows) {
        variables(&["SystemRoot", "SystemDrive", "windir", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA"])
    } else {
        Vec::new()
    }
}

/// The variables that a program needs to connect to the desktop of this session.
pub fn session_variables() -> Vec<(&'static str, OsString)> {
    variables(&[
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "XDG_SESSION_TYPE",
        "XDG_CURRENT_DESKTOP",
        "SWAYSOCK",
        "HYPRLAND_INSTANCE_SIGNATURE",
        "NIRI_SOCKET",
        "DBUS_SESSION_BUS_ADDRESS",
        "PATH",
        "USER",
    ])
}

/// The folders in which servers of the session create their sockets.
pub fn runtime_folders() -> Vec<PathBuf> {
    ["PIPEWIRE_RUNTIME_DIR", "XDG_RUNTIME_DIR"].into_iter().filter_map(path).collect()
}
