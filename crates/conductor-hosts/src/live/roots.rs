//! The folders in which Sets are read and written, and the backups of Sets.
//!
//! A path is canonicalized once; then its folder is opened from the root without following links.
//! If a link appears in between, opening fails instead of leaving the allowed folder. Not here: the
//! content of a file.

use super::LiveHostError;
use crate::rooted::{self, RootedError, RootedFile, Stamp, Step, canonical, touches_home};
use crate::system::files::close_to_others;
use crate::system::rooted::{self as platform, Fault};
use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Number of Conductor's backups to keep per Set. Live's own backups in the same folder are not
/// changed.
const BACKUPS_KEPT: usize = 20;

/// The folders that document tools can access.
#[derive(Debug, Clone)]
pub struct Roots {
    /// The base of relative paths; created on first use.
    sets: PathBuf,
    granted: Vec<PathBuf>,
}

/// A file in a root, and the path that is shown to people.
#[derive(Debug)]
pub struct Place {
    file: RootedFile,
    path: PathBuf,
}

impl Roots {
    /// Allowed folders that are in the Conductor home or contain it are left out.
    pub fn new(home: &Path, granted: &[PathBuf]) -> Roots {
        let granted = granted.iter().filter(|it| !touches_home(home, it)).map(|it| canonical(it)).collect();
        Roots { sets: canonical(home).join("sets"), granted }
    }

    pub fn list(&self) -> Vec<PathBuf> {
        std::iter::once(&self.sets).chain(&self.granted).cloned().collect()
    }

    /// Resolves the requested path. The file may be missing, but its folder must exist.
    pub fn find(&self, asked: &Path) -> Result<Place, LiveHostError> {
        if !asked.is_absolute() {
            self.make_sets().map_err(|error| LiveHostError::io(&self.sets, error))?;
        }
        let denied = || LiveHostError::OutsideRoots { path: asked.to_owned(), roots: self.list() };
        let whole = self.sets.join(asked);
        let name = whole.file_name().ok_or_else(denied)?;
        let resolved = dunce::canonicalize(&whole).or_else(|_| {
            let parent = whole.parent().unwrap_or(Path::new("/"));
            dunce::canonicalize(parent).map(|it| it.join(name))
        });
        let path = resolved.as_ref().map_or_else(|_| rooted::lexical(&whole), PathBuf::clone);
        // The error does not reveal whether a file outside the roots exists.
        let root = self.list().into_iter().find(|root| path.starts_with(root)).ok_or_else(denied)?;
        if resolved.is_err() {
            return Err(LiveHostError::NoSuchFile { path });
        }
        let inside = path.strip_prefix(&root).map_err(|_| denied())?;
        let name = inside.file_name().map(OsStr::to_owned).ok_or_else(denied)?;
        let folder = rooted::walk(&root, inside.parent().unwrap_or(Path::new(""))).map_err(|(_, error)| {
            if matches!(error, RootedError::Outside | RootedError::NotAFolder) {
                return denied();
            }
            LiveHostError::Io { path: path.clone(), reason: error.to_string() }
        })?;
        Ok(Place { file: RootedFile::new(folder, name), path })
    }

    fn make_sets(&self) -> io::Result<()> {
        match std::fs::create_dir(&self.sets) {
            Ok(()) => close_to_others(&self.sets),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Place {
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, error: RootedError) -> LiveHostError {
        let path = self.path.clone();
        match error {
            RootedError::Missing => LiveHostError::NoSuchFile { path },
            RootedError::Outside | RootedError::WrongKind(_) => LiveHostError::NotAFile { path },
            RootedError::Exists => LiveHostError::FileExists { path },
            RootedError::TooLarge(limit) => {
                LiveHostError::TooLarge { path, limit: usize::try_from(limit).unwrap_or(usize::MAX) }
            }
            RootedError::Changed => LiveHostError::ChangedOnDisk { path },
            other @ (RootedError::NotAFolder | RootedError::NotEmpty | RootedError::Io(_)) => {
                LiveHostError::Io { path, reason: other.to_string() }
            }
        }
    }

    /// The bytes of the file, at most `limit`, and its stamp.
    pub fn read(&self, limit: usize) -> Result<(Vec<u8>, Stamp), LiveHostError> {
        let (bytes, metadata) = self.file.read(limit as u64).map_err(|error| self.error(error))?;
        Ok((bytes, Stamp::of(&metadata)))
    }

    pub fn stamp(&self) -> Result<Stamp, LiveHostError> {
        let (_, metadata) = self.file.open().map_err(|error| self.error(error))?;
        Ok(Stamp::of(&metadata))
    }

    pub fn exists(&self) -> bool {
        self.file.metadata().is_ok()
    }

    /// Writes a file that must not exist yet.
    pub fn create(&self, bytes: &[u8]) -> Result<Stamp, LiveHostError> {
        self.file.create(bytes).map_err(|error| self.error(error))
    }

    /// Replaces the file atomically and keeps the old file as a backup with `time` in its name.
    pub fn replace(
        &self,
        bytes: &[u8],
        time: &str,
        unique: &str,
        look: &dyn Fn(Step) -> io::Result<()>,
    ) -> Result<(Stamp, Option<PathBuf>), LiveHostError> {
        let mut backup = None;
        let stamp = self.file.replace(bytes, 0o600, unique, &mut |step| {
            look(step).map_err(RootedError::Io)?;
            if step == Step::Backup && self.exists() {
                backup = Some(self.back_up(time).map_err(RootedError::Io)?);
            }
            Ok(())
        });
        match stamp {
            Ok(stamp) => Ok((stamp, backup)),
            Err(error) => Err(LiveHostError::Io { path: self.path.clone(), reason: error.to_string() }),
        }
    }

    /// Keeps the file under a second name. A hard link shares the bytes, so the backup is complete
    /// as soon as the link exists.
    fn back_up(&self, time: &str) -> io::Result<PathBuf> {
        let folder = self.file.folder();
        match folder.create_dir_with("Backup", &platform::folders(0o755)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let backups = folder.open_dir_nofollow("Backup")?;
        let stem = Path::new(self.file.name()).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut name = format!("{stem} [{time}] conductor.als");
        for again in 2.. {
            let Err(error) = folder.hard_link(self.file.name(), &backups, &name) else { break };
            match platform::link_fault(&error) {
                Fault::Exists if again < 100 => name = format!("{stem} [{time} {again}] conductor.als"),
                // Some file systems, for example on USB sticks, have no hard links; the backup is
                // then a copy.
                Fault::NoHardLinks => {
                    let (bytes, _) = self.file.read(u64::MAX).map_err(io::Error::other)?;
                    RootedFile::new(backups.try_clone()?, &name).create(&bytes).map_err(io::Error::other)?;
                    break;
                }
                Fault::Missing
                | Fault::Outside
                | Fault::NotAFolder
                | Fault::IsAFolder
                | Fault::Exists
                | Fault::NotEmpty
                | Fault::Other => return Err(error),
            }
        }
        rooted::sync_folder(&backups)?;
        prune(&backups, &stem)?;
        Ok(self.path.with_file_name("Backup").join(name))
    }
}

/// Removes the oldest backups of one Set, down to the limit. The names of backups sort by time. The
/// first backup is always kept, so that many saves by a caller cannot remove the person's original
/// file.
fn prune(folder: &Dir, stem: &str) -> io::Result<()> {
    let start = format!("{stem} [");
    let mut ours = Vec::new();
    for entry in folder.entries()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(&start) && name.ends_with("] conductor.als") {
            ours.push(name);
        }
    }
    ours.sort();
    for old in ours.iter().skip(1).take(ours.len().saturating_sub(BACKUPS_KEPT)) {
        folder.remove_file(old)?;
    }
    Ok(())
}
