//! The home folder of a studio, and the lock that gives it one owner.
//!
//! Not here: the content of the files. Sockets are bound by [`crate::socket`], the configuration is
//! read by [`crate::config_file`].

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The names inside a home. Nothing else in the program spells them.
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

    /// The door for people.
    pub fn control_socket(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// The door of AI clients.
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

    /// Creates the folder, `state/` and `plugins/`, private to their owner. A home that was open to
    /// others is closed, because it holds the door for people.
    pub fn create(&self) -> Result<(), HomeError> {
        private_dir(&self.root)?;
        private_dir(&self.state())?;
        private_dir(&self.plugins())
    }

    /// Locks the home for this process until the returned lock is dropped. The home must exist.
    pub fn lock(&self) -> Result<Lock, HomeError> {
        let path = self.lock_file();
        let failed = |source| HomeError::Io { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            // Not truncated on opening: the pid in it belongs to the holder until we have the lock.
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(HomeError::Held { home: self.root.clone(), pid: read_pid(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

/// Held as long as the daemon runs; the kernel releases it when the process ends in any way.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("no home folder: neither --home, CONDUCTOR_HOME nor HOME is set")]
    Unknown,
    #[error("another daemon ({}) holds {}; stop it, or choose another folder with --home", name_pid(*pid), home.display())]
    Held { home: PathBuf, pid: Option<u32> },
    #[error("{} is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("{} belongs to another user (uid {uid}); choose another folder with --home", path.display())]
    NotOurs { path: PathBuf, uid: u32 },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn name_pid(pid: Option<u32>) -> String {
    pid.map_or_else(|| "pid not known yet".to_owned(), |pid| format!("pid {pid}"))
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn private_dir(path: &Path) -> Result<(), HomeError> {
    use std::os::unix::fs::MetadataExt;
    let failed = |source| HomeError::Io { path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| match path.metadata() {
        Ok(found) if !found.is_dir() => HomeError::NotAFolder { path: path.to_owned() },
        Ok(_) | Err(_) => failed(source),
    })?;
    let found = path.metadata().map_err(failed)?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(HomeError::NotOurs { path: path.to_owned(), uid: found.uid() });
    }
    if found.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
