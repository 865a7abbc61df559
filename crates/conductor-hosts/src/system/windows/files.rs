//! Permissions and flags of files on Windows. A new file inherits the access list of its folder,
//! and [`super::folder::make_private`] gives the home a list with only its owner.

use super::security;
use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::Path;
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OPEN_REPARSE_POINT;

/// Flags for opening a file.
pub trait Opening {
    /// Only the owner can open a file that this call creates, if the access list of its folder
    /// allows no other user.
    fn owner_only(&mut self) -> &mut Self;
    /// Opening a pipe does not block. Opening a terminal does not make it the terminal of this
    /// process.
    fn without_waiting(&mut self) -> &mut Self;
    /// If the last name of the path is a link, opening fails or opens the link itself.
    fn without_links(&mut self) -> &mut Self;
}

impl Opening for OpenOptions {
    fn owner_only(&mut self) -> &mut Self {
        self
    }

    fn without_waiting(&mut self) -> &mut Self {
        self
    }

    fn without_links(&mut self) -> &mut Self {
        self.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
    }
}

/// A builder that creates folders that only their owner can open. They inherit the access list of
/// the home.
pub fn private_folders() -> DirBuilder {
    DirBuilder::new()
}

/// Removes the permissions of other users.
pub fn close_to_others(path: &Path) -> io::Result<()> {
    security::set_owner_only(path)
}

/// Whether other users can read or change the file or folder. Administrators and the system always
/// can, so they do not count.
pub fn is_open_to_others(path: &Path, _: &Metadata) -> bool {
    security::is_open_to_others(path).unwrap_or(true)
}

/// Whether users other than the owner can read or change the file. On Windows, a file has no group.
pub fn is_open_to_everyone(path: &Path) -> bool {
    security::is_open_to_others(path).unwrap_or(false)
}

/// The command that removes the permissions of other users.
pub fn how_to_close(path: &Path) -> String {
    format!("icacls \"{}\" /inheritance:r /grant:r \"%USERNAME%\":F", path.display())
}

pub fn is_ours(path: &Path, _: &Metadata) -> bool {
    security::is_ours(path).unwrap_or(false)
}

/// Creates a link to a name in the same folder. Symbolic links need a privilege on Windows, so the
/// link is a file that contains the name as text.
pub fn link(target: &str, at: &Path) -> io::Result<()> {
    use io::Write as _;
    OpenOptions::new().write(true).create_new(true).open(at)?.write_all(target.as_bytes())
}

pub fn read_link(at: &Path) -> io::Result<String> {
    std::fs::read_to_string(at)
}

/// Does nothing. Windows writes changes of a folder to its journal, and has no call that waits for
/// this.
pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
