//! A PostgreSQL server for one test, reachable only through a socket in a temporary folder.

use super::{Group, Missing, PATIENCE, wait_for};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub const PACKAGE: &str = "postgresql";

fn missing(why: impl Into<String>) -> Missing {
    Missing { part: "postgres", package: PACKAGE, why: why.into() }
}

/// The folder of the newest programs. Debian has a separate folder for each version.
fn programs() -> Result<PathBuf, Missing> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map_err(|_| missing("/usr/lib/postgresql does not exist"))?
        .filter_map(|it| Some(it.ok()?.path().join("bin")))
        .filter(|it| it.join("initdb").exists())
        .collect();
    found.sort();
    found.pop().ok_or_else(|| missing("no initdb under /usr/lib/postgresql"))
}

/// The user for the server if the test runs as root: PostgreSQL refuses to run as root, and the
/// package creates a user.
fn user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = passwd.lines().find(|it| it.starts_with("postgres:"))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// A running server. Dropping it ends the process.
pub struct Running {
    _group: Group,
    programs: PathBuf,
    folder: TempDir,
}

/// Password of the superuser. The product gets it only to test that superusers are refused.
pub const BOSS_PASSWORD: &str = "boss-password";

pub fn start() -> Result<Running, Missing> {
    let programs = programs()?;
    let folder = tempfile::tempdir().map_err(|fault| missing(fault.to_string()))?;
    let data = folder.path().join("data");
    let word = folder.path().join("word");
    let io = |fault: std::io::Error| missing(fault.to_string());
    std::fs::write(&word, BOSS_PASSWORD).map_err(io)?;
    if let Some((uid, gid)) = user() {
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).map_err(io)?;
        for path in [folder.path(), &word] {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(io)?;
        }
    }
    let made = command(&programs, "initdb")
        .arg("-D")
        .arg(&data)
        .args(["-U", "boss", "--auth=scram-sha-256", "--no-sync", "--pwfile"])
        .arg(&word)
        .output()
        .map_err(io)?;
    if !made.status.success() {
        return Err(missing(format!("initdb: {}", String::from_utf8_lossy(&made.stderr))));
    }
    let mut server = command(&programs, "postgres");
    server.arg("-D").arg(&data).arg("-k").arg(folder.path()).args(["-h", "", "-F"]);
    server.stdout(Stdio::null()).stderr(Stdio::null());
    // SIGQUIT ends the server at once, without a checkpoint: its data is not needed.
    let group = Group::spawn(&mut server, Signal::QUIT).map_err(io)?;
    let running = Running { _group: group, programs, folder };
    let ready = || {
        let asked = Command::new(running.programs.join("pg_isready")).arg("-h").arg(running.socket()).output().ok()?;
        asked.status.success().then_some(())
    };
    wait_for(PATIENCE, ready).ok_or_else(|| missing("it did not become ready"))?;
    Ok(running)
}

fn command(programs: &Path, name: &str) -> Command {
    let mut command = Command::new(programs.join(name));
    if let Some((uid, gid)) = user() {
        command.uid(uid).gid(gid);
    }
    command.stdin(Stdio::null()).env("LC_ALL", "C.UTF-8").current_dir("/");
    command
}

impl Running {
    pub fn socket(&self) -> &Path {
        self.folder.path()
    }

    /// The URL of the database, without a password.
    pub fn url(&self, user: &str) -> String {
        let folder = self.socket().display().to_string().replace('/', "%2F");
        format!("postgres://{user}@{folder}/postgres")
    }

    /// Runs statements as superuser and returns their output.
    pub fn sql(&self, text: &str) -> String {
        let output = Command::new(self.programs.join("psql"))
            .arg("-h")
            .arg(self.socket())
            .args(["-U", "boss", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-qtAc", text])
            .env("PGPASSWORD", BOSS_PASSWORD)
            .output()
            .expect("psql did not start");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}
