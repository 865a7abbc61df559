//! A lock file that one process can lock at a time. It contains the pid of that process.

use super::files::Opening as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// An acquired lock. The kernel releases it when the process ends, even after a crash.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

#[derive(Debug)]
pub enum LockError {
    /// Another process has the lock. The pid is absent until that process has written it.
    Held {
        pid: Option<u32>,
    },
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        LockError::Io(error)
    }
}

impl LockFile {
    /// Acquires the lock. It is released when the returned value is dropped. Creates the file, but
    /// not its folder.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        // Do not truncate the file on opening: until we have the lock, it contains the pid of
        // another process.
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).owner_only().open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held { pid: read_pid(&mut file) }),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(LockFile { _file: file })
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
