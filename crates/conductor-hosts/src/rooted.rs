//! Access to files in folders that a person granted ("roots"), and in no others.
//!
//! A path is resolved from an open handle of its folder and cannot leave that folder, neither by
//! `..` nor by a link, even if the link is created during the lookup. A file is opened without
//! blocking, read up to a limit, and replaced atomically. Not here: the list of granted folders,
//! and error messages (`files`, `live::roots`, `patch::folders`).

use crate::system::rooted::{self as platform, Fault, FolderSync, check_names};
use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::OpenOptions;
pub use cap_std::fs::{Dir, File, Metadata};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

/// Why a file in a root was not opened or written. The caller adds the path to the message.
#[derive(Debug, thiserror::Error)]
pub enum RootedError {
    #[error("no such file")]
    Missing,
    /// The path leads out of the root, or is a link where links are not followed.
    #[error("a link, or outside the folder")]
    Outside,
    #[error("not a folder")]
    NotAFolder,
    #[error("not a regular file")]
    WrongKind(Kind),
    #[error("already exists")]
    Exists,
    #[error("not empty")]
    NotEmpty,
    #[error("more than {0} bytes")]
    TooLarge(u64),
    /// Another program has changed the file since it was read.
    #[error("changed by another program")]
    Changed,
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for RootedError {
    fn from(error: io::Error) -> Self {
        match platform::fault(&error) {
            Fault::Missing => RootedError::Missing,
            Fault::Outside => RootedError::Outside,
            Fault::NotAFolder => RootedError::NotAFolder,
            Fault::IsAFolder => RootedError::WrongKind(Kind::Folder),
            Fault::Exists => RootedError::Exists,
            Fault::NotEmpty => RootedError::NotEmpty,
            Fault::NoHardLinks | Fault::Other => RootedError::Io(error),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    Link,
    Other,
}

impl Kind {
    pub fn of(metadata: &Metadata) -> Self {
        if metadata.is_file() {
            Kind::File
        } else if metadata.is_dir() {
            Kind::Folder
        } else if metadata.is_symlink() {
            Kind::Link
        } else {
            Kind::Other
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Folder => "directory",
            Kind::Link => "link",
            Kind::Other => "other",
        }
    }
}

/// Identifies one state of a file. Any write to the file changes its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Self {
        let (device, inode, changed) = platform::identity(metadata);
        Stamp { device, inode, size: metadata.len(), changed }
    }
}

pub use platform::modified_ms;

/// The steps of [`RootedFile::replace`]. A callback runs before each step. Callers use the callback
/// for their own checks and backups, and tests use it to inject errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Write,
    Sync,
    Backup,
    LastLook,
    Rename,
    SyncFolder,
}

impl Step {
    pub const ALL: [Step; 6] = [Step::Write, Step::Sync, Step::Backup, Step::LastLook, Step::Rename, Step::SyncFolder];
}

/// Whether a folder is in the Conductor home or contains it. Such a folder must not be granted,
/// because it would expose secrets, tokens, the audit log and the configuration.
pub fn touches_home(home: &Path, folder: &Path) -> bool {
    let (home, folder) = (canonical(home), canonical(folder));
    folder.starts_with(&home) || home.starts_with(&folder)
}

/// Replaces `~/` in a path by the user's home folder. Returns `None` if that folder is unknown.
pub fn expand_home(text: &str, user_home: Option<&Path>) -> Option<PathBuf> {
    match text.strip_prefix("~/") {
        Some(rest) => user_home.map(|home| home.join(rest)),
        None => Some(PathBuf::from(text)),
    }
}

pub fn canonical(path: &Path) -> PathBuf {
    dunce::canonicalize(path).unwrap_or_else(|_| lexical(path))
}

/// Removes `.` and `..` from a path, without regard to links.
pub fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out
}

/// Removes `.` from a path. Returns `None` if the path is absolute or contains `..`, even if it
/// would stay inside the root.
pub fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

/// A path inside a root as text, with `/` between its names on every system, because callers
/// compare it with patterns and use it in later calls.
pub fn slashed(inside: &Path) -> String {
    let names: Vec<_> = inside.components().map(|it| it.as_os_str().to_string_lossy()).collect();
    names.join("/")
}

/// Opens a granted folder. Links in `path` are followed.
pub fn open_root(path: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(path, ambient_authority())
}

/// Opens a folder in a root without following any link. The error contains the path that failed.
pub fn walk(root: &Path, folders: &Path) -> Result<Dir, (PathBuf, RootedError)> {
    let mut path = root.to_owned();
    check_names(folders).map_err(|error| (root.join(folders), error.into()))?;
    let mut folder = open_root(root).map_err(|error| (path.clone(), error.into()))?;
    for name in folders.components() {
        path.push(name);
        folder = folder.open_dir_nofollow(name.as_os_str()).map_err(|error| (path.clone(), error.into()))?;
    }
    Ok(folder)
}

/// Opens a folder in a root. Links to targets inside the root are followed. An empty path is the
/// root.
pub fn open_folder(root: &Dir, inside: &Path) -> io::Result<Dir> {
    check_names(inside)?;
    root.open_dir(dot(inside))
}

/// Creates the missing folders of a path.
pub fn make_folders(root: &Dir, inside: &Path) -> io::Result<()> {
    check_names(inside)?;
    match root.create_dir_with(dot(inside), platform::folders(0o755).recursive(true)) {
        // The name already exists: as a folder, as a file, or as a link out of the root. Only a
        // folder can be opened.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_folder(root, inside).map(drop),
        done => done,
    }
}

fn dot(inside: &Path) -> &Path {
    if inside.as_os_str().is_empty() { Path::new(".") } else { inside }
}

/// The path of a file in a root, with links resolved. The file is not opened for reading, so a pipe
/// does not block.
pub fn real_path(root: &Dir, inside: &Path) -> Result<PathBuf, RootedError> {
    check_names(inside)?;
    platform::real_path(root, dot(inside))?.ok_or(RootedError::Missing)
}

/// Opens a regular file in a folder or its subfolders. Links to targets inside the folder are
/// followed.
pub fn open_file(folder: &Dir, inside: &Path) -> Result<(File, Metadata), RootedError> {
    open_regular(folder, dot(inside), FollowSymlinks::Yes)
}

/// Opens a regular file in a folder; a link is refused.
pub fn open_entry(folder: &Dir, name: &OsStr) -> Result<(File, Metadata), RootedError> {
    open_regular(folder, Path::new(name), FollowSymlinks::No)
}

fn open_regular(folder: &Dir, path: &Path, follow: FollowSymlinks) -> Result<(File, Metadata), RootedError> {
    check_names(path)?;
    let mut options = OpenOptions::new();
    platform::reading(&mut options).follow(follow);
    let file = folder.open_with(path, &options)?;
    let metadata = file.metadata()?;
    match Kind::of(&metadata) {
        Kind::File => Ok((file, metadata)),
        kind @ (Kind::Folder | Kind::Link | Kind::Other) => Err(RootedError::WrongKind(kind)),
    }
}

pub fn read_limited(file: File, limit: u64) -> Result<Vec<u8>, RootedError> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(RootedError::TooLarge(limit)) } else { Ok(bytes) }
}

pub fn sync_folder(folder: &Dir) -> io::Result<()> {
    FolderSync::of(folder)?.sync()
}

/// A name in an open folder. The file may be missing. If the name is a link, the link is never
/// followed.
#[derive(Debug)]
pub struct RootedFile {
    folder: Dir,
    name: OsString,
}

impl RootedFile {
    pub fn new(folder: Dir, name: impl Into<OsString>) -> Self {
        RootedFile { folder, name: name.into() }
    }

    pub fn folder(&self) -> &Dir {
        &self.folder
    }

    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Another name in the same folder.
    pub fn sibling(&self, name: impl Into<OsString>) -> io::Result<Self> {
        Ok(RootedFile { folder: self.folder.try_clone()?, name: name.into() })
    }

    pub fn open(&self) -> Result<(File, Metadata), RootedError> {
        open_entry(&self.folder, &self.name)
    }

    pub fn read(&self, limit: u64) -> Result<(Vec<u8>, Metadata), RootedError> {
        let (file, metadata) = self.open()?;
        Ok((read_limited(file, limit)?, metadata))
    }

    /// Metadata of the file, folder or link with this name. Links are not followed.
    pub fn metadata(&self) -> Result<Metadata, RootedError> {
        check_names(Path::new(&self.name))?;
        Ok(self.folder.symlink_metadata(&self.name)?)
    }

    /// Writes a file that must not exist yet.
    pub fn create(&self, bytes: &[u8]) -> Result<Stamp, RootedError> {
        let folder = FolderSync::of(&self.folder)?;
        let mut file = create_new(&self.folder, &self.name)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written {
            let _ = self.folder.remove_file(&self.name);
            return Err(error.into());
        }
        folder.sync()?;
        Ok(Stamp::of(&file.metadata()?))
    }

    /// Replaces the file atomically. An existing file keeps its mode, and also its owner if this
    /// process may set the owner. A new file gets `mode`. If a step before the rename fails, the
    /// old file is unchanged.
    pub fn replace(
        &self,
        bytes: &[u8],
        mode: u32,
        unique: &str,
        before: &mut dyn FnMut(Step) -> Result<(), RootedError>,
    ) -> Result<Stamp, RootedError> {
        let old = self.metadata().ok().filter(Metadata::is_file);
        self.swap(bytes, mode, old.as_ref(), unique, before)
    }

    fn swap(
        &self,
        bytes: &[u8],
        mode: u32,
        like: Option<&Metadata>,
        unique: &str,
        before: &mut dyn FnMut(Step) -> Result<(), RootedError>,
    ) -> Result<Stamp, RootedError> {
        let mut temporary = OsString::from(".");
        temporary.push(&self.name);
        temporary.push(format!(".{unique}.new"));
        let folder = FolderSync::of(&self.folder)?;
        before(Step::Write)?;
        let mut file = create_new(&self.folder, &temporary)?;
        let mut finish = || {
            file.write_all(bytes)?;
            platform::set_mode_and_owner(&file, mode, like)?;
            before(Step::Sync)?;
            file.sync_all()?;
            before(Step::Backup)?;
            before(Step::LastLook)?;
            before(Step::Rename)?;
            Ok(platform::rename(&self.folder, &temporary, &self.name)?)
        };
        if let Err(error) = finish() {
            let _ = self.folder.remove_file(&temporary);
            return Err(error);
        }
        before(Step::SyncFolder)?;
        folder.sync()?;
        Ok(Stamp::of(&file.metadata()?))
    }

    /// Replaces the file with `bytes`, and sets the mode and owner of `other`.
    pub fn copy_of(&self, other: &RootedFile, bytes: &[u8], unique: &str) -> Result<(), RootedError> {
        let like = other.metadata()?;
        self.swap(bytes, 0o600, Some(&like), unique, &mut |_| Ok(())).map(drop)
    }

    pub fn remove(&self) -> Result<(), RootedError> {
        self.folder.remove_file(&self.name)?;
        Ok(sync_folder(&self.folder)?)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self) -> Result<(), RootedError> {
        self.folder.remove_dir(&self.name)?;
        Ok(sync_folder(&self.folder)?)
    }
}

/// Creates a file that only its owner can read until its mode is set.
fn create_new(folder: &Dir, name: &OsStr) -> io::Result<File> {
    check_names(Path::new(name))?;
    let mut options = OpenOptions::new();
    platform::owner_only(options.write(true).create_new(true)).follow(FollowSymlinks::No);
    folder.open_with(name, &options)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
