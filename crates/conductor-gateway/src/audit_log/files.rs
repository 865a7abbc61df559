//! The file operations that the audit log and the pending store need. They are in a trait, so that
//! tests can make each of them fail.
//!
//! Not here: the meaning of the bytes.

use conductor_hosts::system::files::{self as system, Opening as _};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

/// A file that is only appended to or truncated.
pub trait LogFile: Send + Sync + std::fmt::Debug {
    /// Writes once to the end of the file. Like the system call, `append` may write fewer bytes
    /// than given.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Returns when the content and the file length are on the disk.
    fn sync(&self) -> io::Result<()>;
    fn truncate(&self, len: u64) -> io::Result<()>;
    fn size(&self) -> io::Result<u64>;
}

pub trait Files: Send + Sync + std::fmt::Debug {
    /// Creates a folder that only its owner can read. An existing folder is not changed.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    fn names(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Reads at most `max` bytes from `offset` on; fewer only at the end of the file.
    fn read_at(&self, path: &Path, offset: u64, max: usize) -> io::Result<Vec<u8>>;
    /// Creates a file that only its owner can read. Fails if the file exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn link(&self, target: &str, at: &Path) -> io::Result<()>;
    fn read_link(&self, at: &Path) -> io::Result<String>;
    /// Makes the creation, renaming and removal of names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// The limit for reading a whole file, such as a key, the checkpoints or a pending record.
pub const WHOLE: usize = usize::MAX;

/// Files on the disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        system::private_folders().recursive(true).create(path)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // Names of Conductor's own files are UTF-8; skip all others.
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn read_at(&self, path: &Path, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let left = file.metadata()?.len().saturating_sub(offset).min(u64::try_from(max).unwrap_or(u64::MAX));
        file.seek(SeekFrom::Start(offset))?;
        // Reserve one more byte, so that reading to the end does not reallocate.
        let mut bytes = Vec::with_capacity(usize::try_from(left).unwrap_or(0).saturating_add(1));
        file.take(u64::try_from(max).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut options = fs::OpenOptions::new();
        options.append(true).create_new(true).owner_only();
        Ok(Arc::new(DiskFile(options.open(path)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(DiskFile(fs::OpenOptions::new().append(true).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn link(&self, target: &str, at: &Path) -> io::Result<()> {
        system::link(target, at)
    }

    fn read_link(&self, at: &Path) -> io::Result<String> {
        system::read_link(at)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        system::sync_folder(dir)
    }
}

#[derive(Debug)]
struct DiskFile(fs::File);

impl LogFile for DiskFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&self.0).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// Appends all bytes or fails. A short write is treated as a failure, because it means that the
/// disk is full.
pub fn append_whole(file: &dyn LogFile, bytes: &[u8]) -> io::Result<()> {
    let taken = file.append(bytes)?;
    if taken == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::WriteZero, format!("only {taken} of {} bytes were written", bytes.len())))
    }
}

/// Replaces a small file atomically. After a crash, the file has either the complete old content or
/// the complete new content. The directory must have only one writer.
pub fn replace(files: &dyn Files, dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (temporary, target) = (dir.join(format!(".{name}.new")), dir.join(name));
    // A crash may have left a temporary file.
    match files.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let renamed = files
        .create(&temporary)
        .and_then(|file| append_whole(&*file, bytes))
        .and_then(|()| files.open(&temporary)?.sync())
        .and_then(|()| files.rename(&temporary, &target));
    if renamed.is_err() {
        let _ = files.remove(&temporary);
    }
    renamed?;
    files.sync_dir(dir)
}
