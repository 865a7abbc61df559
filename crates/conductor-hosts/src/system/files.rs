//! Permissions and flags of files, which differ between systems.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Flags for opening a file.
pub trait Opening {
    /// Only the owner can open a file that this call creates.
    fn owner_only(&mut self) -> &mut Self;
    /// Opening a pipe does not block. Opening a terminal does not make it the terminal of this
    /// process.
    fn without_waiting(&mut self) -> &mut Self;
    /// If the last name of the path is a link, opening fails or opens the link itself.
    fn without_links(&mut self) -> &mut Self;
}

impl Opening for OpenOptions {
    fn owner_only(&mut self) -> &mut Self {
        self.mode(0o600)
    }

    fn without_waiting(&mut self) -> &mut Self {
        self.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
    }

    fn without_links(&mut self) -> &mut Self {
        self.custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
    }
}

/// A builder that creates folders that only their owner can open.
pub fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Removes the permissions of other users.
pub fn close_to_others(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// Whether other users can read or change the file or folder.
pub fn is_open_to_others(_: &Path, metadata: &Metadata) -> bool {
    metadata.mode() & 0o077 != 0
}

/// Whether users other than the owner and the group of a file can read or change it.
pub fn is_open_to_everyone(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.mode() & 0o007 != 0)
}

/// The command that removes the permissions of other users.
pub fn how_to_close(path: &Path) -> String {
    let mode = if path.is_dir() { "700" } else { "600" };
    format!("chmod {mode} {}", path.display())
}

pub fn is_ours(_: &Path, metadata: &Metadata) -> bool {
    metadata.uid() == super::processes::current_user()
}

/// Creates a link to a name in the same folder.
pub fn link(target: &str, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

pub fn read_link(at: &Path) -> io::Result<String> {
    Ok(std::fs::read_link(at)?.to_string_lossy().into_owned())
}

/// Syncs a folder to disk, so that created, renamed and removed names are durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
