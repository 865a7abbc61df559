//! The parts of `rooted` that differ between systems: kinds of errors, file stamps, permissions,
//! and the path of an open file.

use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, File, Metadata, MetadataExt as _, OpenOptions};
use cap_std::fs::{OpenOptionsExt as _, Permissions, PermissionsExt as _};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// The kind of an error of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Missing,
    /// The path leads out of its root, or is a link where links are not followed.
    Outside,
    NotAFolder,
    IsAFolder,
    Exists,
    NotEmpty,
    /// The file system has no hard links.
    NoHardLinks,
    Other,
}

pub fn fault(error: &io::Error) -> Fault {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => Fault::Missing,
        Some(Errno::LOOP | Errno::XDEV) => Fault::Outside,
        Some(Errno::NOTDIR) => Fault::NotAFolder,
        Some(Errno::ISDIR) => Fault::IsAFolder,
        Some(Errno::EXIST) => Fault::Exists,
        Some(Errno::NOTEMPTY) => Fault::NotEmpty,
        // For a path that leads out of the root, cap-std returns an error without an errno.
        None if error.kind() == io::ErrorKind::PermissionDenied => Fault::Outside,
        Some(_) | None => Fault::Other,
    }
}

/// The kind of an error that occurred while a hard link was created.
pub fn link_fault(error: &io::Error) -> Fault {
    match Errno::from_io_error(error) {
        Some(Errno::EXIST) => Fault::Exists,
        Some(Errno::PERM | Errno::OPNOTSUPP | Errno::XDEV) => Fault::NoHardLinks,
        Some(_) | None => Fault::Other,
    }
}

/// Refuses names that the system does not treat as names of files. Unix has no such names.
pub fn check_names(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Numbers that change when a file is replaced or written: device, inode and time of change.
pub fn identity(metadata: &Metadata) -> (u64, u64, (i64, i64)) {
    (metadata.dev(), metadata.ino(), (metadata.ctime(), metadata.ctime_nsec()))
}

pub fn modified_ms(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000)
}

/// The permission bits of a file.
pub fn mode(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o7777
}

/// A builder that creates folders with these permission bits.
pub fn folders(mode: u32) -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(mode);
    builder
}

/// Sets the options for reading a file. Without `nonblock`, opening a pipe would block until
/// another program writes to it.
pub fn reading(options: &mut OpenOptions) -> &mut OpenOptions {
    options.read(true).nonblock(true).custom_flags(OFlags::NOCTTY.bits().cast_signed())
}

/// Sets that only the owner can read a new file.
pub fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// The path of a file in a root, with links resolved. `None` if the system returns no absolute
/// path. The file is not opened for reading, so a pipe does not block.
#[cfg(target_os = "linux")]
pub fn real_path(root: &Dir, inside: &Path) -> io::Result<Option<PathBuf>> {
    use std::os::fd::AsRawFd as _;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::PATH.bits().cast_signed());
    let file = root.open_with(inside, &options)?;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(path.is_absolute().then_some(path))
}

#[cfg(not(target_os = "linux"))]
pub fn real_path(root: &Dir, inside: &Path) -> io::Result<Option<PathBuf>> {
    use std::os::unix::ffi::OsStringExt as _;
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    let file = root.open_with(inside, &options)?;
    let path = rustix::fs::getpath(&file).map_err(io::Error::from)?;
    Ok(Some(PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes()))))
}

/// A handle of a folder, for syncing changed names of the folder to disk.
pub struct FolderSync(File);

impl FolderSync {
    /// Opens the folder again, because the handle in `Dir` may be an `O_PATH` handle, which cannot
    /// be synced.
    pub fn of(folder: &Dir) -> io::Result<Self> {
        Ok(FolderSync(folder.open(".")?))
    }

    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Renames a file in a folder. An existing file is replaced.
pub fn rename(folder: &Dir, from: &std::ffi::OsStr, to: &std::ffi::OsStr) -> io::Result<()> {
    folder.rename(from, folder, to)
}

/// Sets the mode, and the owner if this process may set it.
pub fn set_mode_and_owner(file: &File, mode: u32, old: Option<&Metadata>) -> io::Result<()> {
    let mut mode = old.map_or(mode, |it| it.mode() & 0o7777);
    if let Some(old) = old {
        let now = file.metadata()?;
        let differs = (now.uid(), now.gid()) != (old.uid(), old.gid());
        if differs && std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
            // The owner could not be set, so remove the set-ID bits: they would now apply to our
            // user or group.
            mode &= 0o777;
        }
    }
    file.set_permissions(Permissions::from_mode(mode))
}
