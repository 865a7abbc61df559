//! The parts of `rooted` that differ between systems, for Windows.

use crate::system::windows_names;
use cap_std::fs::{Dir, DirBuilder, File, Metadata, MetadataExt as _, OpenOptions};
use std::ffi::OsStr;
use std::io;
use std::os::windows::ffi::OsStringExt as _;
use std::os::windows::io::AsRawHandle as _;
use std::path::{Path, PathBuf};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_INVALID_FUNCTION, ERROR_NOT_SAME_DEVICE, ERROR_NOT_SUPPORTED, ERROR_SHARING_VIOLATION,
    ERROR_STOPPED_ON_SYMLINK, ERROR_USER_MAPPED_FILE,
};
use windows_sys::Win32::Storage::FileSystem::{FILE_NAME_NORMALIZED, GetFinalPathNameByHandleW};

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

fn code(error: &io::Error) -> Option<u32> {
    error.raw_os_error().map(i32::cast_unsigned)
}

pub fn fault(error: &io::Error) -> Fault {
    if code(error) == Some(ERROR_STOPPED_ON_SYMLINK) {
        return Fault::Outside;
    }
    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum that may gain variants")]
    match error.kind() {
        io::ErrorKind::NotFound => Fault::Missing,
        io::ErrorKind::NotADirectory => Fault::NotAFolder,
        io::ErrorKind::IsADirectory => Fault::IsAFolder,
        io::ErrorKind::AlreadyExists => Fault::Exists,
        io::ErrorKind::DirectoryNotEmpty => Fault::NotEmpty,
        // For a path that leads out of the root, cap-std returns an error without a code.
        io::ErrorKind::PermissionDenied if code(error).is_none() => Fault::Outside,
        _ => Fault::Other,
    }
}

/// The kind of an error that occurred while a hard link was created.
pub fn link_fault(error: &io::Error) -> Fault {
    match code(error) {
        _ if error.kind() == io::ErrorKind::AlreadyExists => Fault::Exists,
        Some(ERROR_INVALID_FUNCTION | ERROR_NOT_SUPPORTED | ERROR_NOT_SAME_DEVICE | ERROR_ACCESS_DENIED) => {
            Fault::NoHardLinks
        }
        Some(_) | None => Fault::Other,
    }
}

/// Refuses names that the system does not treat as names of files.
pub fn check_names(path: &Path) -> io::Result<()> {
    windows_names::check(path)
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, format!("{} {why}", path.display())))
}

/// Numbers that change when a file is replaced or written: the times of creation and of the last
/// write, in units of 100 ns.
pub fn identity(metadata: &Metadata) -> (u64, u64, (i64, i64)) {
    (0, metadata.creation_time(), (metadata.last_write_time().cast_signed(), 0))
}

/// Milliseconds from 1601 to 1970.
const EPOCH_MS: i64 = 11_644_473_600_000;

pub fn modified_ms(metadata: &Metadata) -> i64 {
    (metadata.last_write_time() / 10_000).cast_signed().saturating_sub(EPOCH_MS)
}

/// The permission bits of a file. Windows has none: a read-only file has 0400, every other file
/// 0600.
pub fn mode(metadata: &Metadata) -> u32 {
    if metadata.permissions().readonly() { 0o400 } else { 0o600 }
}

/// A builder that creates folders. They inherit the access list of their parent.
pub fn folders(_: u32) -> DirBuilder {
    DirBuilder::new()
}

pub fn reading(options: &mut OpenOptions) -> &mut OpenOptions {
    options.read(true)
}

/// Changes nothing, because a new file inherits the access list of its folder.
pub fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// The path of a file or folder in a root, with links resolved.
pub fn real_path(root: &Dir, inside: &Path) -> io::Result<Option<PathBuf>> {
    match root.open(inside) {
        Ok(file) => final_path(file.as_raw_handle()).map(Some),
        // A folder cannot be opened as a file.
        Err(_) => final_path(root.open_dir(inside)?.as_raw_handle()).map(Some),
    }
}

fn final_path(handle: std::os::windows::io::RawHandle) -> io::Result<PathBuf> {
    let mut text = vec![0; 32_768];
    // SAFETY: the handle is open, and the buffer has the length that is passed.
    let length =
        unsafe { GetFinalPathNameByHandleW(handle, text.as_mut_ptr(), text.len() as u32, FILE_NAME_NORMALIZED) }
            as usize;
    if length == 0 || length > text.len() {
        return Err(io::Error::last_os_error());
    }
    let path = PathBuf::from(std::ffi::OsString::from_wide(text.get(..length).unwrap_or_default()));
    Ok(dunce::simplified(&path).to_owned())
}

/// Does nothing. Windows writes changes of a folder to its journal, and has no call that waits for
/// this.
pub struct FolderSync;

impl FolderSync {
    pub fn of(_: &Dir) -> io::Result<Self> {
        Ok(FolderSync)
    }

    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Renames a file in a folder. An existing file is replaced, unless another program has opened it
/// in a way that forbids this.
pub fn rename(folder: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
    folder.rename(from, folder, to).map_err(|error| match code(&error) {
        Some(ERROR_SHARING_VIOLATION | ERROR_USER_MAPPED_FILE | ERROR_ACCESS_DENIED) => {
            let why = format!(
                "another program has the file open, or the file is read-only; close the file in that program and try again ({error})"
            );
            io::Error::new(io::ErrorKind::ResourceBusy, why)
        }
        Some(_) | None => error,
    })
}

/// A new file has the access list of its folder. A read-only file stays read-only.
pub fn set_mode_and_owner(file: &File, mode: u32, old: Option<&Metadata>) -> io::Result<()> {
    if old.map_or(mode, self::mode) & 0o200 != 0 {
        return Ok(());
    }
    let mut permissions = file.metadata()?.permissions();
    permissions.set_readonly(true);
    file.set_permissions(permissions)
}

#[cfg(test)]
mod tests {
    use crate::rooted::{self, RootedError, RootedFile};
    use std::path::Path;

    #[test]
    fn files_in_a_root_are_created_replaced_and_read() {
        let home = tempfile::tempdir().unwrap();
        let root = rooted::open_root(home.path()).unwrap();
        rooted::make_folders(&root, Path::new("sets/deep")).unwrap();
        let folder = rooted::walk(home.path(), Path::new("sets/deep")).unwrap();
        let file = RootedFile::new(folder, "drums ä.als");
        let first = file.create(b"one").unwrap();
        assert!(matches!(file.create(b"two"), Err(RootedError::Exists)));
        let second = file.replace(b"longer", 0o600, "x", &mut |_| Ok(())).unwrap();
        assert_ne!(first, second);
        assert_eq!(file.read(100).unwrap().0, b"longer");
        assert!(matches!(file.read(3), Err(RootedError::TooLarge(3))));
        let inside = Path::new("sets/deep/drums ä.als");
        assert!(rooted::real_path(&root, inside).unwrap().ends_with("drums ä.als"));
        assert_eq!(std::fs::read_dir(home.path().join("sets/deep")).unwrap().count(), 1, "a temporary file is left");
        file.remove().unwrap();
        assert!(matches!(file.open(), Err(RootedError::Missing)));
    }

    #[test]
    fn no_path_leads_out_of_the_root_or_to_a_device() {
        let home = tempfile::tempdir().unwrap();
        let inner = home.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(home.path().join("secret.txt"), "secret").unwrap();
        std::fs::write(inner.join("a.als"), "set").unwrap();
        let root = rooted::open_root(&inner).unwrap();
        let rows = [
            "../secret.txt",
            r"..\secret.txt",
            "CON",
            "nul.txt",
            "COM1",
            "a.als:stream",
            "a.als::$DATA",
            "a.als.",
            "a.als ",
            r"\\?\C:\windows\win.ini",
            r"C:\windows\win.ini",
            r"\windows\win.ini",
            r"\\localhost\c$\x",
            "SECRET~1.TXT",
        ];
        for row in rows {
            assert!(rooted::open_file(&root, Path::new(row)).is_err(), "{row}");
            assert!(rooted::real_path(&root, Path::new(row)).is_err(), "{row}");
            let folder = rooted::open_root(&inner).unwrap();
            assert!(RootedFile::new(folder, row).create(b"x").is_err(), "{row}");
        }
        // Windows compares names without regard to case.
        assert!(rooted::open_file(&root, Path::new("A.ALS")).is_ok());
        assert_eq!(std::fs::read(home.path().join("secret.txt")).unwrap(), b"secret");
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1, "a refused name created a file");
    }

    #[test]
    fn a_file_that_another_program_has_open_is_named() {
        use std::os::windows::fs::OpenOptionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.als");
        std::fs::write(&path, "old").unwrap();
        let held = std::fs::OpenOptions::new().read(true).share_mode(1).open(&path).unwrap();
        let file = RootedFile::new(rooted::open_root(home.path()).unwrap(), "a.als");
        let error = file.replace(b"new", 0o600, "x", &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("another program has the file open"), "{error}");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "a temporary file is left");
        drop(held);
        file.replace(b"new", 0o600, "x", &mut |_| Ok(())).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}
