//! A file that one process holds locked, with its pid inside.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A held lock. The kernel releases it when the process ends, even after a crash.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

#[derive(Debug)]
pub enum LockError {
    /// Another process holds the lock. Its pid is absent until the holder has written it.
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
    /// Takes the lock until the returned value is dropped. Creates the file, but not its folder.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        // Not truncated on opening: the pid belongs to the holder until the lock is ours.
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
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
