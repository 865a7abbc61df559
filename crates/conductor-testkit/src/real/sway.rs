//! The Wayland compositor sway without a screen, and a terminal to type into.

use super::{Group, Missing, PATIENCE, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub const PACKAGE: &str = "sway foot util-linux";

fn missing(why: impl Into<String>) -> Missing {
    Missing { part: "sway", package: PACKAGE, why: why.into() }
}

/// A running compositor. Dropping it ends the process.
pub struct Running {
    _group: Group,
    folder: tempfile::TempDir,
    /// The socket for Wayland clients.
    pub wayland: PathBuf,
    /// The socket for commands and window events.
    pub ipc: PathBuf,
}

/// Starts a compositor with a folder of its own, so that tests can run in parallel.
pub fn start() -> Result<Running, Missing> {
    for tool in ["sway", "foot", "setpriv"] {
        if let Err(error) = Command::new(tool).arg("--version").stdin(Stdio::null()).output() {
            return Err(missing(format!("{tool} does not start: {error}")));
        }
    }
    let folder = tempfile::tempdir().map_err(|error| missing(error.to_string()))?;
    let config = folder.path().join("config");
    std::fs::write(&config, "xwayland disable\n").map_err(|error| missing(error.to_string()))?;
    let mut command = unprivileged(&folder, "sway")?;
    command
        .arg("-c")
        .arg(&config)
        .env("XDG_RUNTIME_DIR", folder.path())
        .env("WLR_BACKENDS", "headless")
        .env("WLR_LIBINPUT_NO_DEVICES", "1")
        .env("WLR_RENDERER", "pixman")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let group = Group::spawn(&mut command, Signal::TERM).map_err(|error| missing(error.to_string()))?;
    let socket = |prefix: &str| {
        wait_for(PATIENCE, || {
            let mut names = std::fs::read_dir(folder.path()).ok()?.flatten().map(|it| it.path());
            names.find(|it| {
                let name = it.file_name().and_then(|it| it.to_str()).unwrap_or_default();
                name.starts_with(prefix) && !name.ends_with(".lock")
            })
        })
    };
    match (socket("wayland-"), socket("sway-ipc.")) {
        (Some(wayland), Some(ipc)) => Ok(Running { _group: group, folder, wayland, ipc }),
        (_, _) => Err(missing("sway did not create its sockets")),
    }
}

/// Sway refuses to run as root, so a test that runs as root starts it as another user.
fn unprivileged(folder: &tempfile::TempDir, program: &str) -> Result<Command, Missing> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Command::new(program));
    }
    const NOBODY: u32 = 65534;
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).map_err(|error| missing(error.to_string()))?;
    let id = NOBODY.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", program]);
    Ok(command)
}

impl Running {
    /// Opens a terminal with the focus. Its input is written to the file `typed` until Ctrl-D.
    pub fn terminal(&self, app_id: &str, title: &str, typed: &std::path::Path) -> Option<Group> {
        let script = format!("cat > '{}'", typed.display());
        let mut command = Command::new("foot");
        command
            .args(["--app-id", app_id, "--title", title, "--override=locked-title=yes", "sh", "-c", &script])
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .env("WAYLAND_DISPLAY", &self.wayland)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let group = Group::spawn(&mut command, Signal::TERM).ok()?;
        wait_for(PATIENCE, || typed.exists().then_some(()))?;
        // Keys that are sent before the window has the focus are lost.
        wait_for(PATIENCE, || self.is_focused(app_id).then_some(()))?;
        Some(group)
    }

    fn is_focused(&self, app_id: &str) -> bool {
        fn has(node: &Value, app_id: &str) -> bool {
            let children = ["nodes", "floating_nodes"].into_iter().filter_map(|it| node[it].as_array()).flatten();
            (node["focused"] == true && node["app_id"] == app_id) || children.into_iter().any(|it| has(it, app_id))
        }
        let asked = self.swaymsg(&["--raw", "--type", "get_tree"]).and_then(|it| serde_json::from_slice(&it).ok());
        asked.is_some_and(|tree: Value| has(&tree, app_id))
    }

    /// Sends a request to the compositor. `None` if the request failed.
    fn swaymsg(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        let mut command = Command::new("swaymsg");
        command.arg("--socket").arg(&self.ipc).args(arguments).stdin(Stdio::null());
        command.output().ok().filter(|it| it.status.success()).map(|it| it.stdout)
    }

    /// Gives the window of this program the focus.
    pub fn focus(&self, app_id: &str) -> bool {
        self.swaymsg(&[&format!("[app_id=\"{app_id}\"] focus")]).is_some()
    }
}
