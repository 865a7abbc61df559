//! The folders that patch files may lie in, and the way a file in them is read and replaced.
//!
//! A path is followed one folder at a time from an open handle of its root, and a link is never
//! followed: what was checked is what is opened. Not here: which bytes to write, and whether a
//! person wants them written.

use crate::touches_home;
use conductor_core::error::{Code, RefusedBy, ToolError};
use conductor_patch::Format;
use rustix::fs::{AtFlags, Mode, OFlags, RawMode};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Name of the copy that a save keeps of what was there before. A plain `.bak` may be the user's
/// own.
const BACKUP: &str = ".conductor.bak";
/// Name of the file that holds the names of Pd boxes.
const NAMES: &str = ".conductor.json";

/// Files of the bridges. They hold the tokens by which Pd and Max are driven.
const BRIDGES: [&str; 2] = ["conductor.pd", "conductor.maxpat"];

pub struct Folders {
    home: PathBuf,
    /// The first is the home's own and is made when something is saved into it.
    roots: Vec<PathBuf>,
    user_home: Option<PathBuf>,
    max_bytes: usize,
}

/// A file under one of the roots; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
    folders: Vec<OsString>,
    name: OsString,
    format: Format,
}

impl Place {
    pub fn path(&self) -> PathBuf {
        let mut path = self.root.clone();
        path.extend(&self.folders);
        path.join(&self.name)
    }

    pub fn file_name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn backup_path(&self) -> PathBuf {
        self.path().with_file_name(with_suffix(&self.name, BACKUP))
    }

    fn names(&self) -> OsString {
        with_suffix(&self.name, NAMES)
    }
}

fn with_suffix(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}

/// What the file must be like for a save to replace it.
#[derive(Clone, Copy, Debug)]
pub enum Expected<'a> {
    /// These bytes: what was opened or saved last.
    Bytes(&'a [u8]),
    Absent,
    Any,
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{path}: no such file")]
    Missing { path: PathBuf },
    #[error("{path}: {why}")]
    Refused { path: PathBuf, why: &'static str },
    #[error("{path} has more than {limit} bytes")]
    TooLarge { path: PathBuf, limit: usize },
    #[error("{path} was changed by another program since it was opened or saved here")]
    Changed { path: PathBuf },
    #[error("{path} exists already")]
    Exists { path: PathBuf },
    #[error("{path}: {fault}")]
    Io { path: PathBuf, fault: io::Error },
}

impl From<FileError> for ToolError {
    fn from(fault: FileError) -> Self {
        let text = fault.to_string();
        match fault {
            FileError::Missing { .. } => ToolError::new(Code::NotFound, text)
                .hint("Check the path; a relative one starts at the patches folder of the Conductor home."),
            FileError::Refused { .. } => denied(text),
            FileError::TooLarge { .. } => {
                ToolError::new(Code::BadInput, text).hint("`[patch] max_file_mb` sets the largest file that is opened.")
            }
            FileError::Changed { .. } => ToolError::new(Code::StaleReference, text).hint(
                "Nothing was written. Call diff_patch against \"disk\" to see what changed, then save to another path, or close \
                 this patch with discard and open the file again.",
            ),
            FileError::Exists { .. } => {
                ToolError::new(Code::BadInput, text).hint("Set overwrite to replace it, or save to another path.")
            }
            FileError::Io { .. } => ToolError::new(Code::SdkRejected, text)
                .hint("The file as it was is whole. Ask the person to look at the folder: its rights and its free space."),
        }
    }
}

fn denied(text: impl Into<String>) -> ToolError {
    ToolError::new(Code::Denied, text).by(RefusedBy::Policy).hint(
        "Patches are read and written in the patches folder of the Conductor home and in the folders that `[patch] roots` names; \
         links are not followed, and the extension must be .maxpat, .maxhelp, .amxd or .pd.",
    )
}

/// Told before each step that touches the disk; a test fails there.
pub trait Steps {
    fn before(&self, step: Step) -> io::Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    WriteNew,
    SyncNew,
    WriteBackup,
    LastLook,
    Rename,
    SyncFolder,
}

impl Step {
    pub const ALL: [Step; 6] =
        [Step::WriteNew, Step::SyncNew, Step::WriteBackup, Step::LastLook, Step::Rename, Step::SyncFolder];
}

pub struct Undisturbed;

impl Steps for Undisturbed {
    fn before(&self, _: Step) -> io::Result<()> {
        Ok(())
    }
}

impl Folders {
    /// `roots` in addition to the home's own folder; the ones that are not absolute are left out.
    pub fn new(home: &Path, roots: &[PathBuf], user_home: Option<PathBuf>, max_bytes: usize) -> Self {
        let mut all = vec![home.join("patches")];
        all.extend(roots.iter().filter(|it| it.is_absolute()).cloned());
        Folders { home: home.to_owned(), roots: all, user_home, max_bytes }
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The folders in force. A root that holds the home or lies in it is not one of them: looked at
    /// each time, since a link may come to lead there.
    pub fn granted(&self) -> impl Iterator<Item = &PathBuf> {
        let (own, roots) = self.roots.split_at(self.roots.len().min(1));
        own.iter().chain(roots.iter().filter(|it| !touches_home(&self.home, it)))
    }

    /// Roots that are not in force.
    pub fn refused(&self) -> impl Iterator<Item = &PathBuf> {
        self.roots.iter().skip(1).filter(|it| touches_home(&self.home, it))
    }

    /// Names, without the extension, of the patch files beside a document and directly in the
    /// roots.
    pub fn stems(&self, near: Option<&Place>, format: Format) -> BTreeSet<String> {
        let beside = near.and_then(|it| it.path().parent().map(Path::to_owned));
        let folders = beside.into_iter().chain(self.granted().cloned());
        folders
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flat_map(|entries| entries.flatten())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| Format::of_name(name) == Some(format))
            .filter_map(|name| name.rsplit_once('.').map(|(stem, _)| stem.to_owned()))
            .collect()
    }

    /// The home's own folder first, then those that the configuration names.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The place that a path means. It may be absolute, start with `~/`, or be relative to the
    /// patches folder of the home.
    pub fn place(&self, text: &str) -> Result<Place, ToolError> {
        if text.chars().any(char::is_control) {
            return Err(ToolError::new(Code::BadInput, "path: control characters are not allowed")
                .hint("Give the path as plain text."));
        }
        let given = match (text.strip_prefix("~/"), &self.user_home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) => return Err(denied(format!("{text}: the home folder of the person is not known"))),
            (None, _) => PathBuf::from(text),
        };
        if !given.is_absolute() {
            let home = self.roots.first().cloned().unwrap_or_default();
            return below(&home, &given, text);
        }
        // A root may be spelled through a link by the person and without it by the system, or the
        // other way round.
        for root in self.granted() {
            let spelled = std::fs::canonicalize(root).ok();
            if let Some(rest) =
                [Some(root), spelled.as_ref()].into_iter().flatten().find_map(|it| given.strip_prefix(it).ok())
            {
                return below(root, rest, text);
            }
        }
        Err(denied(format!("{text} is outside the folders that patches may lie in")))
    }

    /// A file beside the document, else directly in a root: where Max and Pd would look for an
    /// abstraction.
    pub fn beside(&self, near: Option<&Place>, file: &str) -> Option<(Place, Vec<u8>)> {
        if file.contains(['/', '\\', '\0']) || BRIDGES.iter().any(|it| file.eq_ignore_ascii_case(it)) {
            return None;
        }
        let format = Format::of_name(file)?;
        let here = near.map(|it| Place { name: file.into(), format, ..it.clone() });
        let others =
            self.granted().map(|root| Place { root: real(root), folders: Vec::new(), name: file.into(), format });
        here.into_iter().chain(others).find_map(|place| {
            let bytes = self.read(&place).ok()?;
            Some((place, bytes))
        })
    }

    pub fn read(&self, place: &Place) -> Result<Vec<u8>, FileError> {
        let folder = open_folder(place, false)?;
        read_in(&folder, &place.name, self.max_bytes, &place.path())
    }

    pub fn exists(&self, place: &Place) -> bool {
        open_folder(place, false)
            .is_ok_and(|folder| rustix::fs::statat(&folder, &place.name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// The side file of a Pd patch; none when there is none or it is not text.
    pub fn read_names(&self, place: &Place) -> Option<String> {
        let folder = open_folder(place, false).ok()?;
        let bytes = read_in(&folder, &place.names(), self.max_bytes, &place.path()).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Replaces the side file, or removes it when no box has a name any more.
    pub fn write_names(&self, place: &Place, names: Option<&str>, unique: &str) -> Result<(), FileError> {
        let folder = open_folder(place, false)?;
        let name = place.names();
        let done = match names {
            Some(text) => {
                write_new(&folder, &name, text.as_bytes(), None, unique).and_then(|new| rename(&folder, &new, &name))
            }
            None => match rustix::fs::unlinkat(&folder, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(fault) => Err(fault.into()),
            },
        };
        done.map_err(|fault| FileError::Io { path: place.path(), fault })
    }

    /// Replaces the file whole or not at all, and keeps what was there as a backup. Gives the
    /// backup's path when there was something.
    pub fn replace(
        &self,
        place: &Place,
        bytes: &[u8],
        expected: Expected<'_>,
        unique: &str,
        steps: &dyn Steps,
    ) -> Result<Option<PathBuf>, FileError> {
        let path = place.path();
        let folder = open_folder(place, true)?;
        let io = |fault| FileError::Io { path: path.clone(), fault };
        let before = self.present(&folder, place, expected)?;
        steps.before(Step::WriteNew).map_err(io)?;
        let new = write_new(&folder, &place.name, bytes, before.as_ref().map(|it| &it.metadata), unique).map_err(io)?;
        let done = self.swap(&folder, place, &new, before.as_ref(), unique, steps);
        if done.is_err() {
            // Whatever went wrong, the old file stands; a leftover of ours does not.
            let _ = rustix::fs::unlinkat(&folder, &new, AtFlags::empty());
        }
        done?;
        steps.before(Step::SyncFolder).map_err(io)?;
        rustix::fs::fsync(&folder).map_err(|fault| io(fault.into()))?;
        Ok(before.map(|_| place.backup_path()))
    }

    fn swap(
        &self,
        folder: &OwnedFd,
        place: &Place,
        new: &OsStr,
        before: Option<&Present>,
        unique: &str,
        steps: &dyn Steps,
    ) -> Result<(), FileError> {
        let path = place.path();
        let io = |fault| FileError::Io { path: path.clone(), fault };
        steps.before(Step::SyncNew).map_err(io)?;
        if let Some(before) = before {
            steps.before(Step::WriteBackup).map_err(io)?;
            let name = with_suffix(&place.name, BACKUP);
            let copy = write_new(folder, &name, &before.bytes, Some(&before.metadata), unique).map_err(io)?;
            rename(folder, &copy, &name).map_err(io)?;
        }
        // Another program may have written in the meantime; this is the last moment to notice.
        steps.before(Step::LastLook).map_err(io)?;
        let unchanged = before.map_or(Expected::Absent, |it| Expected::Bytes(&it.bytes));
        self.present(folder, place, unchanged)?;
        steps.before(Step::Rename).map_err(io)?;
        rename(folder, new, &place.name).map_err(io)
    }

    /// The file as it is now, when it is as expected.
    fn present(&self, folder: &OwnedFd, place: &Place, expected: Expected<'_>) -> Result<Option<Present>, FileError> {
        let path = place.path();
        let found = match open_file(folder, &place.name, &path) {
            Ok(file) => Some(Present::read(file, self.max_bytes, &path)?),
            Err(FileError::Missing { .. }) => None,
            Err(fault) => return Err(fault),
        };
        match (&found, expected) {
            (Some(found), Expected::Bytes(bytes)) if found.bytes != bytes => Err(FileError::Changed { path }),
            (None, Expected::Bytes(_)) => Err(FileError::Changed { path }),
            (Some(_), Expected::Absent) => Err(FileError::Exists { path }),
            (Some(_), Expected::Bytes(_) | Expected::Any) | (None, Expected::Absent | Expected::Any) => Ok(found),
        }
    }
}

struct Present {
    bytes: Vec<u8>,
    metadata: std::fs::Metadata,
}

impl Present {
    fn read(file: File, limit: usize, path: &Path) -> Result<Self, FileError> {
        let io = |fault| FileError::Io { path: path.to_owned(), fault };
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(FileError::Refused { path: path.to_owned(), why: "not a regular file" });
        }
        let mut bytes = Vec::new();
        file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() > limit {
            return Err(FileError::TooLarge { path: path.to_owned(), limit });
        }
        Ok(Present { bytes, metadata })
    }
}

fn real(root: &Path) -> PathBuf {
    std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned())
}

fn below(root: &Path, rest: &Path, shown: &str) -> Result<Place, ToolError> {
    let mut folders = Vec::new();
    for part in rest.components() {
        match part {
            Component::Normal(name) => folders.push(name.to_owned()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(denied(format!("{shown}: a path that goes up is not followed")));
            }
        }
    }
    let name = folders.pop().ok_or_else(|| denied(format!("{shown} names no file")))?;
    if name.to_str().is_some_and(|it| BRIDGES.iter().any(|bridge| it.eq_ignore_ascii_case(bridge))) {
        return Err(denied(format!("{shown} is a file of a bridge")));
    }
    let format = name
        .to_str()
        .and_then(Format::of_name)
        .ok_or_else(|| denied(format!("{shown}: the extension is none of .maxpat, .maxhelp, .amxd, .pd")))?;
    Ok(Place { root: real(root), folders, name, format })
}

fn open_folder(place: &Place, create: bool) -> Result<OwnedFd, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fault = |path: &Path, errno: Errno| match errno {
        Errno::NOENT => FileError::Missing { path: path.to_owned() },
        Errno::LOOP | Errno::NOTDIR => {
            FileError::Refused { path: path.to_owned(), why: "a link, or not a folder; links are not followed" }
        }
        errno => FileError::Io { path: path.to_owned(), fault: errno.into() },
    };
    if create {
        match rustix::fs::mkdir(&place.root, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(fault(&place.root, errno)),
        }
    }
    let mut folder = rustix::fs::open(&place.root, flags, Mode::empty()).map_err(|it| fault(&place.root, it))?;
    let mut path = place.root.clone();
    for name in &place.folders {
        path.push(name);
        folder = rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|errno| fault(&path, errno))?;
    }
    Ok(folder)
}

fn open_file(folder: &OwnedFd, name: &OsStr, path: &Path) -> Result<File, FileError> {
    // Not blocking: a pipe of that name would hold the call until somebody writes.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => Ok(File::from(file)),
        Err(Errno::NOENT) => Err(FileError::Missing { path: path.to_owned() }),
        Err(Errno::LOOP) => Err(FileError::Refused { path: path.to_owned(), why: "a link; links are not followed" }),
        Err(errno) => Err(FileError::Io { path: path.to_owned(), fault: errno.into() }),
    }
}

fn read_in(folder: &OwnedFd, name: &OsStr, limit: usize, path: &Path) -> Result<Vec<u8>, FileError> {
    Ok(Present::read(open_file(folder, name, path)?, limit, path)?.bytes)
}

/// A synced file beside `name`, with the mode and owner of the one it will replace.
fn write_new(
    folder: &OwnedFd,
    name: &OsStr,
    bytes: &[u8],
    like: Option<&std::fs::Metadata>,
    unique: &str,
) -> io::Result<OsString> {
    let mut new = OsString::from(".");
    new.push(name);
    new.push(format!(".{unique}.new"));
    let mode = like.map_or(0o644, |it| it.mode() & 0o7777);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, &new, flags, Mode::RUSR | Mode::WUSR)?);
    let mut written = file.write_all(bytes);
    if written.is_ok() {
        written = dress(&file, mode, like).and_then(|()| file.sync_all());
    }
    if written.is_err() {
        let _ = rustix::fs::unlinkat(folder, &new, AtFlags::empty());
    }
    written.map(|()| new)
}

fn dress(file: &File, mode: u32, like: Option<&std::fs::Metadata>) -> io::Result<()> {
    if let Some(like) = like {
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (like.uid(), like.gid()) {
            std::os::unix::fs::fchown(file, Some(like.uid()), Some(like.gid()))?;
        }
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode as RawMode))?;
    Ok(())
}

fn rename(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::renameat(folder, from, folder, to)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    struct FailAt(Step);

    impl Steps for FailAt {
        fn before(&self, step: Step) -> io::Result<()> {
            if step == self.0 { Err(io::Error::other("pulled plug")) } else { Ok(()) }
        }
    }

    fn studio() -> (tempfile::TempDir, Folders) {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("patches")).unwrap();
        let folders = Folders::new(home.path(), &[], None, 1000);
        (home, folders)
    }

    #[test]
    fn only_patch_files_under_a_root_have_a_place() {
        let (home, folders) = studio();
        let inside = home.path().join("patches/a/b.pd").display().to_string();
        assert!(folders.place("a.maxpat").is_ok() && folders.place(&inside).is_ok());
        let outside = home.path().join("config.maxpat").display().to_string();
        for bad in ["../config.maxpat", "a/../../x.pd", "/etc/passwd", "a.txt", "a", "~/x.pd", "", ".", &outside] {
            assert_eq!(folders.place(bad).unwrap_err().code, Code::Denied, "{bad}");
        }
        assert_eq!(folders.place("a\n.pd").unwrap_err().code, Code::BadInput);
    }

    #[test]
    fn links_lead_nowhere() {
        let (home, folders) = studio();
        let root = home.path().join("patches");
        fs::write(home.path().join("secret.pd"), "secret").unwrap();
        std::os::unix::fs::symlink(home.path().join("secret.pd"), root.join("link.pd")).unwrap();
        std::os::unix::fs::symlink(home.path(), root.join("up")).unwrap();
        for path in ["link.pd", "up/secret.pd"] {
            let place = folders.place(path).unwrap();
            assert!(matches!(folders.read(&place), Err(FileError::Refused { .. })), "{path}");
            let written = folders.replace(&place, b"x", Expected::Any, "u", &Undisturbed);
            assert!(matches!(written, Err(FileError::Refused { .. })), "{path}");
        }
        assert_eq!(fs::read(home.path().join("secret.pd")).unwrap(), b"secret");
    }

    #[test]
    fn a_pipe_and_a_folder_are_no_patches_and_nothing_waits() {
        let (home, folders) = studio();
        let root = home.path().join("patches");
        rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe.pd"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        fs::create_dir(root.join("folder.pd")).unwrap();
        for path in ["pipe.pd", "folder.pd"] {
            assert!(matches!(folders.read(&folders.place(path).unwrap()), Err(FileError::Refused { .. })), "{path}");
        }
        fs::write(root.join("large.pd"), vec![b'x'; 1001]).unwrap();
        let large = folders.read(&folders.place("large.pd").unwrap());
        assert!(matches!(large, Err(FileError::TooLarge { limit: 1000, .. })));
    }

    #[test]
    fn a_fault_at_any_step_leaves_the_old_or_the_new_bytes() {
        for step in Step::ALL {
            let (home, folders) = studio();
            let path = home.path().join("patches/a.pd");
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let place = folders.place("a.pd").unwrap();
            let result = folders.replace(&place, b"new", Expected::Bytes(b"old"), "u", &FailAt(step));
            assert!(result.is_err(), "{step:?}");
            let wanted: &[u8] = if step == Step::SyncFolder { b"new" } else { b"old" };
            assert_eq!(fs::read(&path).unwrap(), wanted, "{step:?}");
            let leftovers = fs::read_dir(home.path().join("patches"))
                .unwrap()
                .filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().ends_with(".new"))
                .count();
            assert_eq!(leftovers, 0, "{step:?}");
        }
    }

    #[test]
    fn a_save_keeps_mode_and_backup_and_notices_others() {
        let (home, folders) = studio();
        let path = home.path().join("patches/a.pd");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let place = folders.place("a.pd").unwrap();
        let backup = folders.replace(&place, b"new", Expected::Bytes(b"old"), "u", &Undisturbed).unwrap();
        assert_eq!(fs::read(backup.unwrap()).unwrap(), b"old");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        let again = folders.replace(&place, b"newer", Expected::Bytes(b"old"), "u", &Undisturbed);
        assert!(matches!(again, Err(FileError::Changed { .. })));
        let absent = folders.replace(&place, b"newer", Expected::Absent, "u", &Undisturbed);
        assert!(matches!(absent, Err(FileError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
