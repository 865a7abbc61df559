//! Replaces a file whole or not at all: a temporary file beside it, synced, renamed over it, the
//! directory synced.
//!
//! Also reads one without ever waiting for it. Not here: deciding whether the file may be replaced.
//! [`replace_if`] only asks once more, right before the rename.

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The bytes of a regular file, through links. A fifo or a device is refused instead of waited for.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The steps on disk, so that a test can fail each of them.
pub trait Disk {
    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()>;
    fn sync(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

pub struct RealDisk;

impl Disk for RealDisk {
    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        // The process's mask may have taken bits away.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

/// Writes `bytes` to `path`. A file that exists keeps its mode bits; a new one gets `mode`. A link
/// is followed: its target is replaced.
pub fn replace(disk: &impl Disk, path: &Path, bytes: &[u8], mode: u32, unique: &str) -> io::Result<()> {
    replace_if(disk, path, bytes, mode, unique, || Ok(()))
}

/// As [`replace`], with a last look right before the rename.
pub fn replace_if(
    disk: &impl Disk,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    unique: &str,
    still: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mode = fs::metadata(&target).map_or(mode, |it| it.permissions().mode() & 0o7777);
    let dir = target.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    swap(disk, &dir.join(format!(".{name}.{unique}.new")), &target, bytes, mode, still)
}

/// Gives `bytes` the name `target`. Until the rename they are in `temporary`, of the same folder
/// and nobody else's.
pub fn swap(
    disk: &impl Disk,
    temporary: &Path,
    target: &Path,
    bytes: &[u8],
    mode: u32,
    still: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let written = disk
        .write(temporary, bytes, mode)
        .and_then(|()| disk.sync(temporary))
        .and_then(|()| still())
        .and_then(|()| disk.rename(temporary, target));
    if let Err(fault) = written {
        // Whatever went wrong, the old file stands; a leftover of ours does not.
        let _ = disk.remove(temporary);
        return Err(fault);
    }
    disk.sync_dir(target.parent().unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Fails at the nth step, after doing half of it where half can be done.
    struct Failing {
        left: Cell<u32>,
    }

    impl Failing {
        fn step(&self) -> bool {
            let left = self.left.get();
            self.left.set(left.saturating_sub(1));
            left == 0
        }
    }

    impl Disk for Failing {
        fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
            if self.step() {
                RealDisk.write(path, &bytes[..bytes.len() / 2], mode)?;
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            RealDisk.write(path, bytes, mode)
        }

        fn sync(&self, path: &Path) -> io::Result<()> {
            if self.step() { Err(io::Error::other("sync")) } else { RealDisk.sync(path) }
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            if self.step() { Err(io::Error::other("rename")) } else { RealDisk.rename(from, to) }
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            RealDisk.remove(path)
        }

        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            if self.step() { Err(io::Error::other("sync of the directory")) } else { RealDisk.sync_dir(dir) }
        }
    }

    #[test]
    fn a_fault_at_any_step_leaves_the_old_or_the_new_bytes() {
        for step in 0..5 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("config.toml");
            fs::write(&path, "old bytes").unwrap();
            let result = replace(&Failing { left: Cell::new(step) }, &path, b"new and longer bytes", 0o600, "x");
            let now = fs::read(&path).unwrap();
            assert_eq!(result.is_ok(), step == 4, "step {step}");
            assert!(now == b"old bytes" || now == b"new and longer bytes", "step {step}: {now:?}");
            assert_eq!(
                now == b"old bytes",
                step < 3,
                "step {step}: only the sync of the directory comes after the rename"
            );
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "step {step}: no leftovers");
        }
    }

    #[test]
    fn modes_and_links_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.toml");
        let link = dir.path().join("config.toml");
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace(&RealDisk, &link, b"new", 0o600, "x").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o7777, 0o640);
    }

    #[test]
    fn a_last_look_that_says_no_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "old").unwrap();
        let no = || Err(io::Error::other("it changed"));
        assert!(replace_if(&RealDisk, &path, b"new", 0o600, "x", no).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn only_a_regular_file_is_read() {
        let home = tempfile::tempdir().unwrap();
        let fifo = home.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(read(&fifo).is_err());
        assert!(read(home.path()).is_err());
        assert!(read(Path::new("/dev/zero")).is_err());
    }
}
