//! Files under folders that a person granted, and under no others.
//!
//! A root is an open handle of its folder. A path is resolved by the kernel from that handle and
//! may not leave it: not by `..`, not by a link, not by a link that is swapped in while we look.
//! There is no string prefix to compare and nothing is resolved first and opened later. Not here:
//! who may ask, whether a person agreed, and what is kept for an undo.

mod beneath;
mod find;

pub use find::{Entry, Found, Kind, Listing, Match, Query, glob};

use arc_swap::ArcSwap;
use conductor_core::config::FileRoot;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The largest file whose old content is kept, hashed or compared.
pub const MOST_KEPT: u64 = 64 << 20;
/// Bytes of old contents that are in memory at once; whoever needs more waits.
const MOST_HELD: u64 = 4 * MOST_KEPT;

/// One granted folder, held open.
#[derive(Debug)]
pub struct Root {
    pub name: String,
    pub path: PathBuf,
    pub write: bool,
    folder: OwnedFd,
}

/// The roots in force.
pub struct Files {
    home: PathBuf,
    user_home: Option<PathBuf>,
    roots: ArcSwap<Vec<Arc<Root>>>,
}

/// A place under a root; nothing need be there.
#[derive(Clone, Debug)]
pub struct Place {
    root: Arc<Root>,
    /// Plain names only; empty is the root itself.
    inside: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("no folder is granted")]
    NoRoots,
    #[error("there is no root \"{asked}\"; there are: {known}")]
    NoSuchRoot { asked: String, known: String },
    #[error("{path} is outside the granted folders")]
    Outside { path: String },
    #[error("{path}: {why}")]
    BadPath { path: String, why: &'static str },
    #[error("the root \"{root}\" is granted for reading only")]
    ReadOnly { root: String },
    #[error("{path}: nothing is there")]
    Missing { path: String },
    #[error("{path} is {what}, not {wanted}")]
    WrongKind { path: String, what: &'static str, wanted: &'static str },
    #[error("{path} is not what was expected: its hash is {found}")]
    Changed { path: String, found: String },
    #[error("{path} is a folder that is not empty")]
    NotEmpty { path: String },
    #[error("{path} has more than {limit} bytes")]
    TooLarge { path: String, limit: u64 },
    #[error("{path}: {fault}")]
    Io { path: String, fault: io::Error },
}

impl From<FileError> for ToolError {
    fn from(fault: FileError) -> Self {
        let text = fault.to_string();
        let path = match &fault {
            FileError::NoRoots | FileError::NoSuchRoot { .. } | FileError::ReadOnly { .. } => None,
            FileError::Outside { path }
            | FileError::BadPath { path, .. }
            | FileError::Missing { path }
            | FileError::WrongKind { path, .. }
            | FileError::Changed { path, .. }
            | FileError::NotEmpty { path }
            | FileError::TooLarge { path, .. }
            | FileError::Io { path, .. } => Some(path.clone()),
        };
        let error = match fault {
            FileError::NoRoots => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Policy)
                .hint("A person grants folders in config.toml: [tools.filesystem] roots = [{ name, path, write }]."),
            FileError::NoSuchRoot { .. } => {
                ToolError::new(Code::NotFound, text).hint("Name one of the roots, or leave root out for the first.")
            }
            FileError::Outside { .. } => ToolError::new(Code::Denied, text).by(RefusedBy::Policy).hint(
                "Give a path relative to a root, without `..`. Links that lead out of a root are not followed. \
                 filesystem.list without a path shows the first root.",
            ),
            FileError::BadPath { .. } => ToolError::new(Code::BadInput, text).hint("Give a plain path."),
            FileError::ReadOnly { .. } => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Policy)
                .hint("A person may set write = true for it under [tools.filesystem] roots."),
            FileError::Missing { .. } => {
                ToolError::new(Code::NotFound, text).hint("Look with filesystem.list which names there are.")
            }
            FileError::WrongKind { .. } => {
                ToolError::new(Code::WrongType, text).hint("Only regular files and folders are touched.")
            }
            FileError::Changed { .. } => ToolError::new(Code::StaleReference, text)
                .hint("Nothing was changed. Read the file again, and use the hash it has now."),
            FileError::NotEmpty { .. } => ToolError::new(Code::BadInput, text).hint("Delete what is in it first."),
            FileError::TooLarge { .. } => {
                ToolError::new(Code::Unsupported, text).hint("Ask the person to do it by hand.")
            }
            FileError::Io { .. } => ToolError::new(Code::SdkRejected, text)
                .hint("What was there is whole. The person should look at the folder: its rights and its free space."),
        };
        match path {
            Some(path) => error.subject(Subject::Other(path)),
            None => error,
        }
    }
}

/// What a stretch of a file holds, and of which file.
#[derive(Debug)]
pub struct Slice {
    pub bytes: Vec<u8>,
    pub size: u64,
    pub modified_ms: i64,
    /// Of the whole file; absent above [`MOST_KEPT`].
    pub hash: Option<Digest>,
}

/// A file as it was found: what an undo needs, and what tells whether it has changed since.
#[derive(Debug)]
pub struct Present {
    pub bytes: Vec<u8>,
    pub mode: u32,
    stamp: Stamp,
    _held: Held,
}

/// A part of [`MOST_HELD`]. One piece of work holds one at most, so waiting for another ends.
#[derive(Debug)]
struct Held(u64);

static HELD: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());

impl Held {
    fn take(bytes: u64) -> Self {
        let bytes = bytes.min(MOST_KEPT);
        let (held, freed) = &HELD;
        let mut held = held.lock();
        freed.wait_while(&mut held, |held| *held + bytes > MOST_HELD);
        *held += bytes;
        Held(bytes)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let (held, freed) = &HELD;
        *held.lock() -= self.0;
        freed.notify_all();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Files {
    pub fn new(home: &Path, user_home: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Files { home: home.to_owned(), user_home, roots: ArcSwap::default() })
    }

    /// Opens the roots of a configuration. A root that cannot be had is told and left out; the
    /// others count.
    pub fn configure(&self, rows: &[FileRoot]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut roots = Vec::with_capacity(rows.len());
        for row in rows {
            match self.open_root(row) {
                Ok(root) => roots.push(Arc::new(root)),
                Err(why) => faults.push(format!("[tools.filesystem] root \"{}\": {why}", row.name)),
            }
        }
        self.roots.store(Arc::new(roots));
        faults
    }

    fn open_root(&self, row: &FileRoot) -> Result<Root, String> {
        let path = match (row.path.strip_prefix("~/"), &self.user_home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) => return Err("the folder of the person is not known".to_owned()),
            (None, _) => PathBuf::from(&row.path),
        };
        if !path.is_absolute() {
            return Err(format!("{} is no absolute path", path.display()));
        }
        let path = std::fs::canonicalize(&path).map_err(|fault| format!("{}: {fault}", path.display()))?;
        let home = std::fs::canonicalize(&self.home).unwrap_or_else(|_| self.home.clone());
        // Secrets, the audit log and the configuration lie in the home.
        if path.starts_with(&home) || home.starts_with(&path) {
            return Err(format!("{} lies in the Conductor home or contains it", path.display()));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|fault| format!("{}: {}", path.display(), io::Error::from(fault)))?;
        Ok(Root { name: row.name.clone(), path, write: row.write, folder })
    }

    pub fn roots(&self) -> Arc<Vec<Arc<Root>>> {
        self.roots.load_full()
    }

    /// The place that a path means in the root of that name, or in the first; an absolute path in
    /// the root it lies under.
    pub fn place(&self, root: Option<&str>, path: &str) -> Result<Place, FileError> {
        let roots = self.roots();
        let first = roots.first().ok_or(FileError::NoRoots)?;
        if path.chars().any(char::is_control) {
            let why = "control characters are not allowed in a path";
            return Err(FileError::BadPath { path: path.escape_debug().to_string(), why });
        }
        let named = match root {
            Some(name) => Some(roots.iter().find(|it| it.name == name).ok_or_else(|| FileError::NoSuchRoot {
                asked: name.to_owned(),
                known: roots.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", "),
            })?),
            None => None,
        };
        let given = Path::new(path);
        if !given.is_absolute() {
            return Ok(Place { root: Arc::clone(named.unwrap_or(first)), inside: plain(given, path)? });
        }
        let under = roots
            .iter()
            .filter(|it| named.is_none_or(|named| Arc::ptr_eq(it, named)))
            .find_map(|it| given.strip_prefix(&it.path).ok().map(|rest| (it, rest)));
        let (root, rest) = under.ok_or_else(|| FileError::Outside { path: path.to_owned() })?;
        Ok(Place { root: Arc::clone(root), inside: plain(rest, path)? })
    }
}

/// Going up is refused even where it would stay inside: nobody needs it, and a reader of the log
/// should not have to think.
fn plain(path: &Path, shown: &str) -> Result<PathBuf, FileError> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(FileError::Outside { path: shown.to_owned() });
            }
        }
    }
    Ok(out)
}

impl Place {
    /// As the person would write it.
    pub fn path(&self) -> PathBuf {
        if self.inside.as_os_str().is_empty() { self.root.path.clone() } else { self.root.path.join(&self.inside) }
    }

    /// Relative to the root; `.` for the root itself.
    pub fn inside(&self) -> String {
        if self.inside.as_os_str().is_empty() { ".".to_owned() } else { self.inside.to_string_lossy().into_owned() }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The path as the kernel has it, links on the way followed. Where nothing is there yet, that
    /// of the folder, and the last name.
    pub fn real(&self) -> PathBuf {
        let look = |inside: &Path| {
            let found = beneath::open(&self.root.folder, inside, beneath::LOOK, Mode::empty()).ok()?;
            path_of(&found)
        };
        look(&self.inside)
            .or_else(|| Some(look(self.inside.parent()?)?.join(self.inside.file_name()?)))
            .unwrap_or_else(|| self.path())
    }

    fn shown(&self) -> String {
        self.path().to_string_lossy().into_owned()
    }

    fn fault(&self, errno: Errno) -> FileError {
        let path = self.shown();
        match errno {
            // Whether something outside exists is not told.
            Errno::XDEV | Errno::LOOP => FileError::Outside { path },
            Errno::NOENT | Errno::NOTDIR => FileError::Missing { path },
            Errno::NOTEMPTY | Errno::EXIST => FileError::NotEmpty { path },
            Errno::ISDIR => FileError::WrongKind { path, what: "a folder", wanted: "a file" },
            errno => FileError::Io { path, fault: errno.into() },
        }
    }

    fn io(&self, fault: io::Error) -> FileError {
        FileError::Io { path: self.shown(), fault }
    }

    fn open_file(&self) -> Result<File, FileError> {
        // Not blocking: a pipe of that name would hold the call until somebody writes.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = beneath::open(&self.root.folder, &self.inside, flags, Mode::empty()).map_err(|it| self.fault(it))?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(|it| self.io(it))?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "a folder" } else { "a device, pipe or socket" };
            return Err(FileError::WrongKind { path: self.shown(), what, wanted: "a file" });
        }
        Ok(file)
    }

    fn open_folder(&self, inside: &Path) -> Result<OwnedFd, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        beneath::open(&self.root.folder, inside, flags, Mode::empty()).map_err(|it| self.fault(it))
    }

    /// The folder that holds this place, and the last name.
    fn parent(&self, create: bool) -> Result<(OwnedFd, &OsStr), FileError> {
        let name = self.inside.file_name().ok_or_else(|| FileError::WrongKind {
            path: self.shown(),
            what: "the root itself",
            wanted: "something in it",
        })?;
        let folders = self.inside.parent().unwrap_or(Path::new(""));
        if create {
            beneath::make_folders(&self.root.folder, folders).map_err(|it| self.fault(it))?;
        }
        Ok((self.open_folder(folders)?, name))
    }

    pub fn writable(&self) -> Result<(), FileError> {
        if self.root.write { Ok(()) } else { Err(FileError::ReadOnly { root: self.root.name.clone() }) }
    }

    /// The hash is made in small pieces: a read of one byte holds one byte.
    pub fn read(&self, offset: u64, limit: u64) -> Result<Slice, FileError> {
        let mut file = self.open_file()?;
        let metadata = file.metadata().map_err(|it| self.io(it))?;
        let size = metadata.len();
        file.seek(SeekFrom::Start(offset)).map_err(|it| self.io(it))?;
        let mut bytes = Vec::new();
        (&mut file).take(limit).read_to_end(&mut bytes).map_err(|it| self.io(it))?;
        let hash = if offset == 0 && bytes.len() as u64 == size {
            (size <= MOST_KEPT).then(|| Digest::of(&bytes))
        } else {
            file.seek(SeekFrom::Start(0)).map_err(|it| self.io(it))?;
            self.hash(file)?
        };
        Ok(Slice { bytes, size, modified_ms: modified_ms(&metadata), hash })
    }

    /// Of the whole file; none above [`MOST_KEPT`].
    fn hash(&self, mut file: File) -> Result<Option<Digest>, FileError> {
        if file.metadata().map_err(|it| self.io(it))?.len() > MOST_KEPT {
            return Ok(None);
        }
        let mut hasher = Sha256::new();
        let (mut part, mut total) = (vec![0; 64 * 1024], 0);
        loop {
            let count = file.read(&mut part).map_err(|it| self.io(it))?;
            total += count as u64;
            match part.get(..count) {
                // It grew while it was read.
                _ if total > MOST_KEPT => return Ok(None),
                None | Some([]) => return Ok(Some(Digest::from_bytes(hasher.finalize().into()))),
                Some(bytes) => hasher.update(bytes),
            }
        }
    }

    /// The file as it is now; none when nothing is there.
    pub fn present(&self) -> Result<Option<Present>, FileError> {
        let (folder, name) = match self.parent(false) {
            Ok(found) => found,
            Err(FileError::Missing { .. }) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        self.present_in(&folder, name)
    }

    /// A link as the last name is refused here: it would be replaced or removed itself, and not
    /// what it points to.
    fn open_last(&self, folder: &OwnedFd, name: &OsStr) -> Result<Option<File>, FileError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(fault) => return Err(self.fault(fault)),
        };
        let metadata = file.metadata().map_err(|it| self.io(it))?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "a folder" } else { "a device, pipe or socket" };
            return Err(FileError::WrongKind { path: self.shown(), what, wanted: "a file" });
        }
        Ok(Some(file))
    }

    fn present_in(&self, folder: &OwnedFd, name: &OsStr) -> Result<Option<Present>, FileError> {
        let Some(file) = self.open_last(folder, name)? else { return Ok(None) };
        let metadata = file.metadata().map_err(|it| self.io(it))?;
        if metadata.len() > MOST_KEPT {
            return Err(FileError::TooLarge { path: self.shown(), limit: MOST_KEPT });
        }
        let held = Held::take(metadata.len());
        let mut bytes = Vec::new();
        let stamp = stamp_of(&metadata);
        file.take(MOST_KEPT + 1).read_to_end(&mut bytes).map_err(|it| self.io(it))?;
        if bytes.len() as u64 > MOST_KEPT {
            return Err(FileError::TooLarge { path: self.shown(), limit: MOST_KEPT });
        }
        Ok(Some(Present { bytes, mode: metadata.mode() & 0o7777, stamp, _held: held }))
    }

    /// Hash of the content, or of the word `absent`: what a person is asked about.
    pub fn state(&self) -> Option<Digest> {
        let absent = Some(Digest::of(b"absent"));
        match self.parent(false) {
            Ok((folder, name)) => match self.open_last(&folder, name) {
                Ok(Some(file)) => self.hash(file).ok().flatten(),
                Ok(None) => absent,
                Err(_) => None,
            },
            Err(FileError::Missing { .. }) => absent,
            Err(_) => None,
        }
    }

    /// Replaces the file whole or not at all, unless it is no longer `before`. Keeps its mode.
    pub fn replace(
        &self,
        bytes: &[u8],
        before: Option<&Present>,
        create_dirs: bool,
        unique: &str,
    ) -> Result<(), FileError> {
        self.writable()?;
        let (folder, name) = self.parent(create_dirs)?;
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{unique}.new"));
        let mode = before.map_or(0o644, |it| it.mode);
        let done = write_new(&folder, &temporary, bytes, mode).map_err(|it| self.io(it)).and_then(|()| {
            // Another program may have written in the meantime; this is the last moment to notice.
            self.unchanged(&folder, name, before)?;
            rustix::fs::renameat(&folder, &temporary, &folder, name).map_err(|it| self.fault(it))
        });
        if done.is_err() {
            // Whatever went wrong, the old file stands; a leftover of ours does not.
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        }
        done?;
        rustix::fs::fsync(&folder).map_err(|it| self.io(it.into()))
    }

    fn unchanged(&self, folder: &OwnedFd, name: &OsStr, before: Option<&Present>) -> Result<(), FileError> {
        let now = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            #[allow(clippy::unnecessary_cast, reason = "the width of this field differs between systems")]
            Ok(stat) => Some(Stamp {
                device: stat.st_dev as u64,
                inode: stat.st_ino,
                size: stat.st_size as u64,
                changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
            }),
            Err(Errno::NOENT) => None,
            Err(fault) => return Err(self.fault(fault)),
        };
        if now == before.map(|it| it.stamp) {
            return Ok(());
        }
        let found = match self.open_last(folder, name)? {
            Some(file) => self.hash(file)?.map_or_else(|| "not known".to_owned(), |it| it.to_string()),
            None => "absent".to_owned(),
        };
        Err(FileError::Changed { path: self.shown(), found })
    }

    /// Removes a file that is still `before`.
    pub fn remove_file(&self, before: &Present) -> Result<(), FileError> {
        self.writable()?;
        let (folder, name) = self.parent(false)?;
        self.unchanged(&folder, name, Some(before))?;
        rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(|it| self.fault(it))?;
        rustix::fs::fsync(&folder).map_err(|it| self.io(it.into()))
    }

    /// Removes a folder that is empty.
    pub fn remove_folder(&self) -> Result<(), FileError> {
        self.writable()?;
        let (folder, name) = self.parent(false)?;
        rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).map_err(|it| self.fault(it))?;
        rustix::fs::fsync(&folder).map_err(|it| self.io(it.into()))
    }

    /// Makes the folder and those on the way to it.
    pub fn make_folder(&self) -> Result<(), FileError> {
        self.writable()?;
        beneath::make_folders(&self.root.folder, &self.inside).map_err(|it| self.fault(it))
    }

    /// Whether what lies here, links followed, lies under the root. Nothing there is fine.
    pub fn stays_inside(&self) -> Result<(), FileError> {
        match beneath::open(&self.root.folder, &self.inside, beneath::LOOK, Mode::empty()) {
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(fault) => Err(self.fault(fault)),
        }
    }

    /// What lies here, links not followed.
    pub fn kind(&self) -> Result<(Kind, u64, i64), FileError> {
        if self.inside.as_os_str().is_empty() {
            return Ok((Kind::Folder, 0, 0));
        }
        let (folder, name) = self.parent(false)?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|it| self.fault(it))?;
        Ok((Kind::of(FileType::from_raw_mode(stat.st_mode)), stat.st_size as u64, find::stat_ms(&stat)))
    }
}

#[cfg(target_os = "linux")]
fn path_of(handle: &OwnedFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).ok().filter(|it| it.is_absolute())
}

#[cfg(not(target_os = "linux"))]
fn path_of(handle: &OwnedFd) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let path = rustix::fs::getpath(handle).ok()?;
    Some(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

fn stamp_of(metadata: &std::fs::Metadata) -> Stamp {
    Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.len(),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

fn modified_ms(metadata: &std::fs::Metadata) -> i64 {
    metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000)
}

fn write_new(folder: &OwnedFd, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode as RawMode))?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
