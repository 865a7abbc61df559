//! Files of Sets, reached from the folders a person allowed and from nowhere else.
//!
//! A path is resolved once; then its folder is opened component by component from the root, without
//! following links. A link that is put in the way between the two makes the walk fail instead of
//! leading out. Not here: what is in a file.

use super::LiveHostError;
use crate::{lexical, touches_home};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Backups of ours that stay beside a Set. Live's own lie in the same folder and are never touched.
const BACKUPS_KEPT: usize = 20;

/// The folders that document tools may reach.
#[derive(Debug, Clone)]
pub struct Roots {
    /// Relative paths lie here; made on first save.
    sets: PathBuf,
    granted: Vec<PathBuf>,
}

/// A file in a root: its folder held open, its name, and the path people see.
#[derive(Debug)]
pub struct Place {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// Which state of a file was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, i64),
}

/// The steps of a save, so that a test can end it at each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Write,
    Sync,
    Backup,
    Rename,
    SyncFolder,
}

impl Step {
    pub const ALL: [Step; 5] = [Step::Write, Step::Sync, Step::Backup, Step::Rename, Step::SyncFolder];
}

impl Roots {
    /// A granted folder that holds the home or lies in it would open secrets and the audit log to
    /// document tools: it is left out.
    pub fn new(home: &Path, granted: &[PathBuf]) -> Roots {
        let whole = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| lexical(path));
        let home = whole(home);
        let granted = granted.iter().filter(|it| !touches_home(&home, it)).map(|it| whole(it)).collect();
        Roots { sets: home.join("sets"), granted }
    }

    /// What a refusal tells.
    pub fn list(&self) -> Vec<PathBuf> {
        std::iter::once(&self.sets).chain(&self.granted).cloned().collect()
    }

    /// The place that `asked` names. Only its folder must exist.
    pub fn find(&self, asked: &Path) -> Result<Place, LiveHostError> {
        if !asked.is_absolute() {
            // The folder of relative paths is ours to make; a granted one is not.
            match std::fs::create_dir(&self.sets) {
                Ok(()) => rustix::fs::chmod(&self.sets, Mode::RWXU)
                    .map_err(|fault| LiveHostError::io(&self.sets, fault.into()))?,
                Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => {}
                Err(fault) => return Err(LiveHostError::io(&self.sets, fault)),
            }
        }
        let whole = self.sets.join(asked);
        let name = whole.file_name().map(OsStr::to_owned).ok_or_else(|| self.denied(asked))?;
        let resolved = std::fs::canonicalize(&whole).or_else(|_| {
            let parent = whole.parent().unwrap_or(Path::new("/"));
            std::fs::canonicalize(parent).map(|it| it.join(&name))
        });
        let path = match &resolved {
            Ok(path) => path.clone(),
            Err(_) => lexical(&whole),
        };
        // Whether something outside exists is not told.
        let root = self.list().into_iter().find(|root| path.starts_with(root)).ok_or_else(|| self.denied(asked))?;
        if resolved.is_err() {
            return Err(LiveHostError::NoSuchFile { path });
        }
        let inside = path.strip_prefix(&root).map_err(|_| self.denied(asked))?;
        let name = inside.file_name().map(OsStr::to_owned).ok_or_else(|| self.denied(asked))?;
        let folders = inside.parent().unwrap_or(Path::new(""));
        let folder = walk(&root, folders).map_err(|fault| match fault {
            Errno::LOOP | Errno::NOTDIR => self.denied(asked),
            other => LiveHostError::io(&path, other.into()),
        })?;
        Ok(Place { folder, name, path })
    }

    fn denied(&self, asked: &Path) -> LiveHostError {
        LiveHostError::OutsideRoots { path: asked.to_owned(), roots: self.list() }
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn walk(root: &Path, folders: &Path) -> Result<OwnedFd, Errno> {
    let mut folder = rustix::fs::open(root, FOLDER, Mode::empty())?;
    for part in folders.components() {
        folder = rustix::fs::openat(&folder, part.as_os_str(), FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(folder)
}

impl Place {
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> Result<File, LiveHostError> {
        // Without blocking, so that a pipe in the place of a file cannot hold us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()).map_err(|fault| match fault {
            Errno::NOENT => LiveHostError::NoSuchFile { path: self.path.clone() },
            Errno::LOOP => LiveHostError::NotAFile { path: self.path.clone() },
            other => LiveHostError::io(&self.path, other.into()),
        })?;
        let stat = rustix::fs::fstat(&file).map_err(|fault| LiveHostError::io(&self.path, fault.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(LiveHostError::NotAFile { path: self.path.clone() });
        }
        Ok(File::from(file))
    }

    /// The bytes of the file, at most `limit`, and which state they are of.
    pub fn read(&self, limit: usize) -> Result<(Vec<u8>, Stamp), LiveHostError> {
        let file = self.open()?;
        let stamp = stamp_of(&file).map_err(|fault| LiveHostError::io(&self.path, fault))?;
        let mut bytes = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX);
        file.take(most.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|fault| LiveHostError::io(&self.path, fault))?;
        if bytes.len() > limit {
            return Err(LiveHostError::TooLarge { path: self.path.clone(), limit });
        }
        Ok((bytes, stamp))
    }

    pub fn stamp(&self) -> Result<Stamp, LiveHostError> {
        stamp_of(&self.open()?).map_err(|fault| LiveHostError::io(&self.path, fault))
    }

    pub fn exists(&self) -> bool {
        rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Writes a file that must not exist yet.
    pub fn create(&self, bytes: &[u8]) -> Result<Stamp, LiveHostError> {
        let io = |fault: io::Error| LiveHostError::io(&self.path, fault);
        let mut file = self.fresh(&self.name, 0o600).map_err(|fault| match fault {
            Errno::EXIST => LiveHostError::FileExists { path: self.path.clone() },
            other => io(other.into()),
        })?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(fault) = written {
            let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
            return Err(io(fault));
        }
        rustix::fs::fsync(&self.folder).map_err(|fault| io(fault.into()))?;
        stamp_of(&file).map_err(io)
    }

    fn fresh(&self, name: &OsStr, mode: u32) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(mode as RawMode)).map(File::from)
    }

    /// Replaces the file whole or not at all, and keeps the old one as a backup of the given time.
    /// `look` is asked before each step.
    pub fn replace(
        &self,
        bytes: &[u8],
        time: &str,
        unique: &str,
        look: &dyn Fn(Step) -> io::Result<()>,
    ) -> Result<(Stamp, Option<PathBuf>), LiveHostError> {
        let mut temporary = OsString::from(".");
        temporary.push(&self.name);
        temporary.push(format!(".{unique}.new"));
        let done = self.replace_by(&temporary, bytes, time, look);
        if done.is_err() {
            // Whatever went wrong, the old file stands; a leftover of ours does not.
            let _ = rustix::fs::unlinkat(&self.folder, &temporary, AtFlags::empty());
        }
        done.map_err(|fault| LiveHostError::io(&self.path, fault))
    }

    fn replace_by(
        &self,
        temporary: &OsStr,
        bytes: &[u8],
        time: &str,
        look: &dyn Fn(Step) -> io::Result<()>,
    ) -> io::Result<(Stamp, Option<PathBuf>)> {
        let old = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok();
        look(Step::Write)?;
        let mut file = self.fresh(temporary, 0o600)?;
        file.write_all(bytes)?;
        if let Some(old) = &old {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o7777))?;
            // Another owner can only be kept by one who may give files away; without that right the
            // file is ours, as after a save in Live.
            let (user, group) = (rustix::fs::Uid::from_raw(old.st_uid), rustix::fs::Gid::from_raw(old.st_gid));
            let _ = rustix::fs::fchown(&file, Some(user), Some(group));
        }
        look(Step::Sync)?;
        file.sync_all()?;
        look(Step::Backup)?;
        let backup = if old.is_some() { Some(self.back_up(time)?) } else { None };
        look(Step::Rename)?;
        rustix::fs::renameat(&self.folder, temporary, &self.folder, &self.name)?;
        look(Step::SyncFolder)?;
        rustix::fs::fsync(&self.folder)?;
        Ok((stamp_of(&file)?, backup))
    }

    /// Keeps the file under a second name. A link shares the bytes, so the backup is whole the
    /// moment it exists.
    fn back_up(&self, time: &str) -> io::Result<PathBuf> {
        match rustix::fs::mkdirat(&self.folder, "Backup", Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(fault) => return Err(fault.into()),
        }
        let folder = rustix::fs::openat(&self.folder, "Backup", FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        let stem = Path::new(&self.name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut name = format!("{stem} [{time}] conductor.als");
        for again in 2.. {
            match rustix::fs::linkat(&self.folder, &self.name, &folder, &name, AtFlags::empty()) {
                Ok(()) => break,
                Err(Errno::EXIST) if again < 100 => name = format!("{stem} [{time} {again}] conductor.als"),
                // Disks of cameras and sticks know no links; the backup is then a copy.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::XDEV) => {
                    self.copy_to(&folder, &name)?;
                    break;
                }
                Err(fault) => return Err(fault.into()),
            }
        }
        rustix::fs::fsync(&folder)?;
        prune(&folder, &stem)?;
        Ok(self.path.with_file_name("Backup").join(name))
    }

    fn copy_to(&self, folder: &OwnedFd, name: &str) -> io::Result<()> {
        let mut from = self.open().map_err(|refusal| io::Error::other(format!("{refusal:?}")))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut to = File::from(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?);
        io::copy(&mut from, &mut to)?;
        to.sync_all()
    }
}

fn stamp_of(file: impl AsFd) -> io::Result<Stamp> {
    let stat = rustix::fs::fstat(file)?;
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "the widths of these fields differ between systems"
    )]
    Ok(Stamp {
        device: stat.st_dev as u64,
        inode: stat.st_ino.into(),
        size: stat.st_size.into(),
        modified: (i64::from(stat.st_mtime), i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
    })
}

/// Removes backups of one Set beyond the limit, the oldest first. Their names sort by time. The
/// very first one stays: a caller that saves many times must not push out the file of the person.
fn prune(folder: &OwnedFd, stem: &str) -> io::Result<()> {
    let start = format!("{stem} [");
    let mut ours: Vec<OsString> = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&start) && name.ends_with("] conductor.als") {
            ours.push(name.into());
        }
    }
    ours.sort();
    for old in ours.iter().skip(1).take(ours.len().saturating_sub(BACKUPS_KEPT)) {
        rustix::fs::unlinkat(folder, old, AtFlags::empty())?;
    }
    Ok(())
}
