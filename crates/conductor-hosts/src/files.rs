//! Reads and changes files, only in the folders that `[tools.filesystem] roots` grants.
//!
//! A root is an open handle of its folder, and every path is resolved from that handle
//! ([`crate::rooted`]). Links to targets inside the root are followed. Not here: permissions,
//! approvals, and the old contents that are stored for an undo.

mod find;

pub use crate::rooted::Kind;
pub use find::{Entry, Found, Listing, Match, Query, glob};

use crate::rooted::{self, File, Metadata, RootedError, RootedFile, Stamp, Step, expand_home, touches_home};
use arc_swap::ArcSwap;
use cap_std::fs::Dir;
use conductor_core::config::FileRoot;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use parking_lot::{Condvar, Mutex};
use sha2::{Digest as _, Sha256};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest file, in bytes, whose old content is stored, hashed or compared.
pub const MOST_KEPT: u64 = 64 << 20;
/// Limit for the bytes of old contents in memory. A call that would exceed the limit has to wait.
const MOST_HELD: u64 = 4 * MOST_KEPT;

/// One granted folder, with its open handle.
#[derive(Debug)]
pub struct Root {
    pub name: String,
    pub path: PathBuf,
    pub write: bool,
    folder: Dir,
}

/// The granted folders.
pub struct Files {
    home: PathBuf,
    user_home: Option<PathBuf>,
    roots: ArcSwap<Vec<Arc<Root>>>,
}

/// A path in a root. The file or folder may be missing.
#[derive(Clone, Debug)]
pub struct Place {
    root: Arc<Root>,
    /// Contains plain names only. Empty for the root itself.
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
    #[error("{path} does not exist")]
    Missing { path: String },
    #[error("{path} is {what}, not {wanted}")]
    WrongKind { path: String, what: &'static str, wanted: &'static str },
    #[error("{path} does not have the expected content: its hash is {found}")]
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
                ToolError::new(Code::NotFound, text).hint("Use one of these roots, or omit `root` to use the first one.")
            }
            FileError::Outside { .. } => ToolError::new(Code::Denied, text).by(RefusedBy::Policy).hint(
                "Give a path relative to a root, without `..`. Links that lead out of a root are not followed. \
                 filesystem.list without a path shows the first root.",
            ),
            FileError::BadPath { .. } => ToolError::new(Code::BadInput, text).hint("Use plain names of files, without control characters."),
            FileError::ReadOnly { .. } => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Policy)
                .hint("A person can set write = true for this root in [tools.filesystem] roots."),
            FileError::Missing { .. } => {
                ToolError::new(Code::NotFound, text).hint("List the existing names with filesystem.list.")
            }
            FileError::WrongKind { .. } => {
                ToolError::new(Code::WrongType, text).hint("Only regular files and folders can be used.")
            }
            FileError::Changed { .. } => ToolError::new(Code::StaleReference, text)
                .hint("Nothing was changed. Read the file again and use its new hash."),
            FileError::NotEmpty { .. } => ToolError::new(Code::BadInput, text).hint("Delete the content of the folder first."),
            FileError::TooLarge { .. } => {
                ToolError::new(Code::Unsupported, text).hint("Ask the person to make this change by hand.")
            }
            FileError::Io { .. } => ToolError::new(Code::SdkRejected, text)
                .hint("The existing files are unchanged. Ask the person to check the permissions and the free space of the folder."),
        };
        match path {
            Some(path) => error.subject(Subject::Other(path)),
            None => error,
        }
    }
}

/// A part of a file, with size and hash of the whole file.
#[derive(Debug)]
pub struct Slice {
    pub bytes: Vec<u8>,
    pub size: u64,
    pub modified_ms: i64,
    /// Hash of the whole file; absent if the file is larger than [`MOST_KEPT`].
    pub hash: Option<Digest>,
}

/// A file as it was read, for an undo and to detect later changes.
#[derive(Debug)]
pub struct Present {
    pub bytes: Vec<u8>,
    pub mode: u32,
    stamp: Stamp,
    _held: Held,
}

/// A share of [`MOST_HELD`]. Each call has at most one share, so that waiting calls cannot
/// deadlock.
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

impl Files {
    pub fn new(home: &Path, user_home: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Files { home: home.to_owned(), user_home, roots: ArcSwap::default() })
    }

    /// Opens the roots of a configuration. A root that cannot be opened is reported and left out.
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
        let path = expand_home(&row.path, self.user_home.as_deref()).ok_or("the user's home folder is unknown")?;
        if !path.is_absolute() {
            return Err(format!("{} is not an absolute path", path.display()));
        }
        let path = dunce::canonicalize(&path).map_err(|fault| format!("{}: {fault}", path.display()))?;
        if touches_home(&self.home, &path) {
            return Err(format!("{} is in Conductor's home folder or contains it", path.display()));
        }
        let folder = rooted::open_root(&path).map_err(|fault| format!("{}: {fault}", path.display()))?;
        Ok(Root { name: row.name.clone(), path, write: row.write, folder })
    }

    pub fn roots(&self) -> Arc<Vec<Arc<Root>>> {
        self.roots.load_full()
    }

    /// Resolves a relative path in the named root, or in the first root. An absolute path is
    /// resolved in the root that contains it; if a root is named, it must be that root.
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
        let outside = || FileError::Outside { path: path.to_owned() };
        let plain = |inside: &Path| {
            let inside = rooted::plain(inside).ok_or_else(outside)?;
            let why = "it contains a name that Windows does not treat as the name of a file";
            let bad = |_| FileError::BadPath { path: path.to_owned(), why };
            crate::system::rooted::check_names(&inside).map_err(bad)?;
            Ok::<_, FileError>(inside)
        };
        if !given.is_absolute() {
            return Ok(Place { root: Arc::clone(named.unwrap_or(first)), inside: plain(given)? });
        }
        let under = roots
            .iter()
            .filter(|it| named.is_none_or(|named| Arc::ptr_eq(it, named)))
            .find_map(|it| given.strip_prefix(&it.path).ok().map(|rest| (it, rest)));
        let (root, rest) = under.ok_or_else(outside)?;
        Ok(Place { root: Arc::clone(root), inside: plain(rest)? })
    }
}

impl Place {
    /// The absolute path. It starts with the path of the root, in which links are resolved.
    pub fn path(&self) -> PathBuf {
        if self.inside.as_os_str().is_empty() { self.root.path.clone() } else { self.root.path.join(&self.inside) }
    }

    /// The path relative to the root; `.` for the root itself.
    pub fn inside(&self) -> String {
        if self.inside.as_os_str().is_empty() { ".".to_owned() } else { rooted::slashed(&self.inside) }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the path with links resolved. If the file does not exist yet, only the links in its
    /// folder are resolved.
    pub fn real(&self) -> PathBuf {
        let look = |inside: &Path| rooted::real_path(&self.root.folder, inside).ok();
        look(&self.inside)
            .or_else(|| Some(look(self.inside.parent()?)?.join(self.inside.file_name()?)))
            .unwrap_or_else(|| self.path())
    }

    fn shown(&self) -> String {
        self.path().to_string_lossy().into_owned()
    }

    fn error(&self, error: RootedError) -> FileError {
        let path = self.shown();
        let wrong = |what| FileError::WrongKind { path: self.shown(), what, wanted: "a file" };
        match error {
            // The error does not reveal whether the path outside exists.
            RootedError::Outside => FileError::Outside { path },
            RootedError::Missing | RootedError::NotAFolder => FileError::Missing { path },
            RootedError::NotEmpty | RootedError::Exists => FileError::NotEmpty { path },
            RootedError::WrongKind(Kind::Folder) => wrong("a folder"),
            RootedError::WrongKind(Kind::File | Kind::Link | Kind::Other) => wrong("a device, pipe or socket"),
            RootedError::TooLarge(limit) => FileError::TooLarge { path, limit },
            RootedError::Changed => FileError::Changed { path, found: self.hash_now() },
            RootedError::Io(fault) => FileError::Io { path, fault },
        }
    }

    fn io(&self, fault: io::Error) -> FileError {
        self.error(fault.into())
    }

    fn open_file(&self) -> Result<(File, Metadata), FileError> {
        rooted::open_file(&self.root.folder, &self.inside).map_err(|it| self.error(it))
    }

    fn open_folder(&self, inside: &Path) -> Result<Dir, FileError> {
        rooted::open_folder(&self.root.folder, inside).map_err(|it| self.io(it))
    }

    /// Opens the parent folder. Fails for the root itself.
    fn file(&self, create_folders: bool) -> Result<RootedFile, FileError> {
        let name = self.inside.file_name().ok_or_else(|| FileError::WrongKind {
            path: self.shown(),
            what: "the root itself",
            wanted: "a file or folder in it",
        })?;
        let folders = self.inside.parent().unwrap_or(Path::new(""));
        if create_folders {
            rooted::make_folders(&self.root.folder, folders).map_err(|it| self.io(it))?;
        }
        Ok(RootedFile::new(self.open_folder(folders)?, name))
    }

    /// Opens the file. Returns `None` if it does not exist.
    fn open_last(&self) -> Result<Option<(File, Metadata)>, FileError> {
        match self.file(false).and_then(|file| file.open().map_err(|it| self.error(it))) {
            Ok(opened) => Ok(Some(opened)),
            Err(FileError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn hash_now(&self) -> String {
        match self.open_last() {
            Ok(None) => "absent".to_owned(),
            Ok(Some((file, _))) => {
                self.hash(file).ok().flatten().map_or_else(|| "not known".to_owned(), |it| it.to_string())
            }
            Err(_) => "not known".to_owned(),
        }
    }

    pub fn writable(&self) -> Result<(), FileError> {
        if self.root.write { Ok(()) } else { Err(FileError::ReadOnly { root: self.root.name.clone() }) }
    }

    /// Reads a part of the file. The hash is computed in small pieces, so that a small read needs
    /// little memory.
    pub fn read(&self, offset: u64, limit: u64) -> Result<Slice, FileError> {
        let (mut file, metadata) = self.open_file()?;
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
        Ok(Slice { bytes, size, modified_ms: rooted::modified_ms(&metadata), hash })
    }

    /// Hash of the whole file; `None` if the file is larger than [`MOST_KEPT`].
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
                // The file grew while it was read.
                _ if total > MOST_KEPT => return Ok(None),
                None | Some([]) => return Ok(Some(Digest::from_bytes(hasher.finalize().into()))),
                Some(bytes) => hasher.update(bytes),
            }
        }
    }

    /// The current content of the file; `None` if it does not exist.
    pub fn present(&self) -> Result<Option<Present>, FileError> {
        let Some((file, metadata)) = self.open_last()? else { return Ok(None) };
        if metadata.len() > MOST_KEPT {
            return Err(FileError::TooLarge { path: self.shown(), limit: MOST_KEPT });
        }
        let held = Held::take(metadata.len());
        let bytes = rooted::read_limited(file, MOST_KEPT).map_err(|it| self.error(it))?;
        Ok(Some(Present {
            bytes,
            mode: crate::system::rooted::mode(&metadata),
            stamp: Stamp::of(&metadata),
            _held: held,
        }))
    }

    /// Hash of the content, or of the word `absent` if there is no file. An approval is valid only
    /// for this state. `None` if the file cannot be read or is larger than [`MOST_KEPT`].
    pub fn state(&self) -> Option<Digest> {
        match self.open_last() {
            Ok(Some((file, _))) => self.hash(file).ok().flatten(),
            Ok(None) => Some(Digest::of(b"absent")),
            Err(_) => None,
        }
    }

    /// Replaces the file atomically and keeps its mode. Fails if the file differs from `before`.
    pub fn replace(
        &self,
        bytes: &[u8],
        before: Option<&Present>,
        create_dirs: bool,
        unique: &str,
    ) -> Result<(), FileError> {
        self.writable()?;
        let file = self.file(create_dirs)?;
        // Another program may have written the file since it was read, so the file is compared
        // again right before the rename.
        let mut check = |step| if step == Step::LastLook { unchanged(&file, before) } else { Ok(()) };
        file.replace(bytes, 0o644, unique, &mut check).map(drop).map_err(|it| self.error(it))
    }

    /// Removes the file. Fails if it differs from `before`.
    pub fn remove_file(&self, before: &Present) -> Result<(), FileError> {
        self.writable()?;
        let file = self.file(false)?;
        unchanged(&file, Some(before)).and_then(|()| file.remove()).map_err(|it| self.error(it))
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self) -> Result<(), FileError> {
        self.writable()?;
        self.file(false)?.remove_folder().map_err(|it| self.error(it))
    }

    /// Creates the folder and its missing parents.
    pub fn make_folder(&self) -> Result<(), FileError> {
        self.writable()?;
        rooted::make_folders(&self.root.folder, &self.inside).map_err(|it| self.io(it))
    }

    /// Fails when a link in this path has a target outside the root. The file may be missing.
    pub fn stays_inside(&self) -> Result<(), FileError> {
        match rooted::real_path(&self.root.folder, &self.inside) {
            Ok(_) | Err(RootedError::Missing) => Ok(()),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Kind, size and modification time of this file or folder. Links are not followed.
    pub fn kind(&self) -> Result<(Kind, u64, i64), FileError> {
        if self.inside.as_os_str().is_empty() {
            return Ok((Kind::Folder, 0, 0));
        }
        let metadata = self.file(false)?.metadata().map_err(|it| self.error(it))?;
        Ok((Kind::of(&metadata), metadata.len(), rooted::modified_ms(&metadata)))
    }
}

fn unchanged(file: &RootedFile, before: Option<&Present>) -> Result<(), RootedError> {
    let now = match file.metadata() {
        Ok(metadata) => Some(Stamp::of(&metadata)),
        Err(RootedError::Missing) => None,
        Err(error) => return Err(error),
    };
    if now == before.map(|it| it.stamp) { Ok(()) } else { Err(RootedError::Changed) }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
