//! The home folder of a studio, and the lock that allows only one daemon per home.
//!
//! Not here: the content of the files. Sockets are bound by [`conductor_hosts::system::listener`],
//! the configuration is read by [`crate::config_file`].

use conductor_hosts::system::folder::{FolderError, make_private};
use conductor_hosts::system::lock_file::{LockError, LockFile};
use std::io;
use std::path::{Path, PathBuf};

/// Paths of the main files and folders in a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Home { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn config_file(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// The JSON Schema of the configuration, for editors. The first `config.toml` refers to it.
    pub fn schema_file(&self) -> PathBuf {
        self.state().join("config.schema.json")
    }

    /// The socket for the command line.
    pub fn control_socket(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// The socket for AI clients.
    pub fn mcp_socket(&self) -> PathBuf {
        self.root.join("mcp.sock")
    }

    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    pub fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }

    pub fn lock_file(&self) -> PathBuf {
        self.state().join("daemon.lock")
    }

    /// Creates the home, `state/` and `plugins/`, accessible only to the user. Removes the access
    /// of others to an existing home, because it contains the control socket.
    pub fn create(&self) -> Result<(), HomeError> {
        make_private(&self.root)?;
        make_private(&self.state())?;
        Ok(make_private(&self.plugins())?)
    }

    /// Locks the home for this process until the returned lock is dropped. The home must exist.
    pub fn lock(&self) -> Result<LockFile, HomeError> {
        let path = self.lock_file();
        LockFile::acquire(&path).map_err(|error| match error {
            LockError::Held { pid } => HomeError::Held { home: self.root.clone(), pid },
            LockError::Io(source) => HomeError::Io { path, source },
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("the home folder is unknown: set --home, CONDUCTOR_HOME or HOME")]
    Unknown,
    #[error("another daemon ({}) uses {}; stop it, or choose another folder with --home", name_pid(*pid), home.display())]
    Held { home: PathBuf, pid: Option<u32> },
    #[error("{0}")]
    Folder(#[from] FolderError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn name_pid(pid: Option<u32>) -> String {
    pid.map_or_else(|| "pid not known yet".to_owned(), |pid| format!("pid {pid}"))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn mode_of(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_home_is_private_and_an_open_one_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("deep/er"));
        home.create().unwrap();
        assert_eq!((mode_of(home.root()), mode_of(&home.state())), (0o700, 0o700));

        std::fs::set_permissions(home.root(), Permissions::from_mode(0o755)).unwrap();
        home.create().unwrap();
        assert_eq!(mode_of(home.root()), 0o700);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("home");
        std::fs::write(&path, "").unwrap();
        let error = Home::at(&path).create().unwrap_err();
        assert_eq!(error.to_string(), format!("{} is not a folder", path.display()));
    }

    #[test]
    fn the_second_owner_is_refused_and_told_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        home.create().unwrap();
        let first = home.lock().unwrap();
        let pid = std::process::id();
        let error = home.lock().unwrap_err();
        assert!(matches!(error, HomeError::Held { pid: Some(held), .. } if held == pid), "{error}");
        assert!(error.to_string().contains(&format!("pid {pid}")));

        drop(first);
        home.lock().unwrap();
    }

    #[test]
    fn a_longer_pid_left_by_a_dead_daemon_is_overwritten_whole() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        home.create().unwrap();
        std::fs::write(home.lock_file(), "99999999999\n").unwrap();
        let _lock = home.lock().unwrap();
        assert_eq!(std::fs::read_to_string(home.lock_file()).unwrap(), format!("{}\n", std::process::id()));
    }
}
