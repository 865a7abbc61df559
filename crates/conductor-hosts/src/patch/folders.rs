//! The folders of patch files. Reads and replaces files in them.
//!
//! A path is resolved inside its root without following links. Not here: the bytes to write, and
//! approval by a person.

use crate::rooted::{self, RootedError, RootedFile, Step, canonical, expand_home, touches_home};
use crate::system::files::private_folders;
use conductor_core::error::{Code, RefusedBy, ToolError};
use conductor_patch::Format;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Suffix of the backup that a save creates. The plain suffix `.bak` is not used, because such a
/// file may belong to the user.
const BACKUP: &str = ".conductor.bak";
/// Suffix of the side file with the names of Pd boxes.
const NAMES: &str = ".conductor.json";

/// The patches of the bridges. They cannot be opened, because they have access to the tokens that
/// control Pd and Max.
const BRIDGES: [&str; 2] = ["conductor.pd", "conductor.maxpat"];

#[derive(Clone)]
pub struct Folders {
    home: PathBuf,
    /// The first folder is `<home>/patches`, which is created at the first save.
    roots: Vec<PathBuf>,
    user_home: Option<PathBuf>,
    max_bytes: usize,
}

/// The path of a file in one of the roots. The file may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
    folders: PathBuf,
    name: OsString,
    format: Format,
}

impl Place {
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.folders).join(&self.name)
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

/// The state that a file must have before a save replaces it.
#[derive(Clone, Copy, Debug)]
pub enum Expected<'a> {
    /// The file contains these bytes, as last opened or saved.
    Bytes(&'a [u8]),
    Absent,
    Any,
}

/// Why a patch file was not read or written.
#[derive(Debug)]
pub struct FileError {
    pub path: PathBuf,
    pub error: RootedError,
}

impl From<FileError> for ToolError {
    fn from(FileError { path, error }: FileError) -> Self {
        let path = path.display();
        match error {
            RootedError::Missing => ToolError::new(Code::NotFound, format!("{path}: no such file"))
                .hint("Check the path; a relative path starts in the patches folder of the Conductor home."),
            RootedError::Outside | RootedError::NotAFolder => {
                denied(format!("{path}: the path contains a link or something that is not a folder; links are not followed"))
            }
            RootedError::WrongKind(_) => denied(format!("{path}: not a regular file")),
            RootedError::TooLarge(limit) => ToolError::new(Code::BadInput, format!("{path} has more than {limit} bytes"))
                .hint("`[patch] max_file_mb` limits the size of a file."),
            RootedError::Changed => ToolError::new(
                Code::StaleReference,
                format!("{path} was changed by another program since it was opened or saved here"),
            )
            .hint(
                "Nothing was written. Call diff_patch against \"disk\" to see what changed, then save to another path, or close \
                 this patch with discard and open the file again.",
            ),
            RootedError::Exists => ToolError::new(Code::BadInput, format!("{path} already exists"))
                .hint("Set overwrite to replace it, or save to another path."),
            RootedError::NotEmpty | RootedError::Io(_) => ToolError::new(Code::SdkRejected, format!("{path}: {error}"))
                .hint("The old file is unchanged. Ask the person to check the permissions and the free space of the folder."),
        }
    }
}

fn denied(text: impl Into<String>) -> ToolError {
    ToolError::new(Code::Denied, text).by(RefusedBy::Policy).hint(
        "Patches are read and written in the patches folder of the Conductor home and in the folders that `[patch] roots` names; \
         links are not followed, and the extension must be .maxpat, .maxhelp, .amxd or .pd.",
    )
}

impl Folders {
    /// `roots` are added to the patches folder of the home. Relative roots are left out.
    pub fn new(home: &Path, roots: &[PathBuf], user_home: Option<PathBuf>, max_bytes: usize) -> Self {
        let mut all = vec![home.join("patches")];
        all.extend(roots.iter().filter(|it| it.is_absolute()).cloned());
        Folders { home: home.to_owned(), roots: all, user_home, max_bytes }
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The granted folders, without roots that are in the Conductor home or contain it. The roots
    /// are checked at each call, because a link can be changed at any time.
    pub fn granted(&self) -> impl Iterator<Item = &PathBuf> {
        let (own, roots) = self.roots.split_at(self.roots.len().min(1));
        own.iter().chain(roots.iter().filter(|it| !touches_home(&self.home, it)))
    }

    /// Roots that are refused because they are in the Conductor home or contain it.
    pub fn refused(&self) -> impl Iterator<Item = &PathBuf> {
        self.roots.iter().skip(1).filter(|it| touches_home(&self.home, it))
    }

    /// The names, without extension, of the patch files in the document's folder and directly in
    /// the roots.
    pub fn stems(&self, near: Option<&Place>, format: Format) -> BTreeSet<String> {
        let own = near.and_then(|it| it.path().parent().map(Path::to_owned));
        let folders = own.into_iter().chain(self.granted().cloned());
        folders
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flat_map(|entries| entries.flatten())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| Format::of_name(name) == Some(format))
            .filter_map(|name| name.rsplit_once('.').map(|(stem, _)| stem.to_owned()))
            .collect()
    }

    /// The patches folder of the home, then the configured folders.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Resolves a path. It may be absolute, start with `~/`, or be relative to the patches folder
    /// of the home.
    pub fn place(&self, text: &str) -> Result<Place, ToolError> {
        if text.chars().any(char::is_control) {
            return Err(ToolError::new(Code::BadInput, "path: control characters are not allowed")
                .hint("Use a path without control characters."));
        }
        let given = expand_home(text, self.user_home.as_deref())
            .ok_or_else(|| denied(format!("{text}: the user's home folder is unknown")))?;
        if !given.is_absolute() {
            let home = self.roots.first().cloned().unwrap_or_default();
            return below(&home, &given, text);
        }
        // Compare with the configured path of a root and with its path without links, because
        // `text` may use either.
        for root in self.granted() {
            let spelled = dunce::canonicalize(root).ok();
            if let Some(rest) =
                [Some(root), spelled.as_ref()].into_iter().flatten().find_map(|it| given.strip_prefix(it).ok())
            {
                return below(root, rest, text);
            }
        }
        Err(denied(format!("{text} is outside the granted patch folders")))
    }

    /// Reads a file from the document's folder, or else directly from a root. Max and Pd search for
    /// abstractions in the same places.
    pub fn find_near(&self, near: Option<&Place>, file: &str) -> Option<(Place, Vec<u8>)> {
        if file.contains(['/', '\\', '\0']) || BRIDGES.iter().any(|it| file.eq_ignore_ascii_case(it)) {
            return None;
        }
        let format = Format::of_name(file)?;
        let here = near.map(|it| Place { name: file.into(), format, ..it.clone() });
        let others = self.granted().map(|root| Place {
            root: canonical(root),
            folders: PathBuf::new(),
            name: file.into(),
            format,
        });
        here.into_iter().chain(others).find_map(|place| {
            let bytes = self.read(&place).ok()?;
            Some((place, bytes))
        })
    }

    pub fn read(&self, place: &Place) -> Result<Vec<u8>, FileError> {
        self.read_file(&open(place, false)?, place)
    }

    fn read_file(&self, file: &RootedFile, place: &Place) -> Result<Vec<u8>, FileError> {
        let (bytes, _) = file.read(self.max_bytes as u64).map_err(|error| FileError { path: place.path(), error })?;
        Ok(bytes)
    }

    pub fn exists(&self, place: &Place) -> bool {
        open(place, false).is_ok_and(|it| it.metadata().is_ok())
    }

    /// The text of the side file of a Pd patch; `None` if the file does not exist or is not text.
    pub fn read_names(&self, place: &Place) -> Option<String> {
        let file = open(place, false).ok()?.sibling(place.names()).ok()?;
        String::from_utf8(self.read_file(&file, place).ok()?).ok()
    }

    /// Replaces the side file. Removes it if no box has a name.
    pub fn write_names(&self, place: &Place, names: Option<&str>, unique: &str) -> Result<(), FileError> {
        let file = open(place, false)?;
        let done = file.sibling(place.names()).map_err(RootedError::Io).and_then(|file| match names {
            Some(text) => file.replace(text.as_bytes(), 0o644, unique, &mut |_| Ok(())).map(drop),
            None => match file.remove() {
                Ok(()) | Err(RootedError::Missing) => Ok(()),
                Err(error) => Err(error),
            },
        });
        done.map_err(|error| FileError { path: place.path(), error })
    }

    /// Replaces the file atomically and keeps the old file as a backup. Returns the backup's path
    /// when there was a file.
    pub fn replace(
        &self,
        place: &Place,
        bytes: &[u8],
        expected: Expected<'_>,
        unique: &str,
        look: &dyn Fn(Step) -> io::Result<()>,
    ) -> Result<Option<PathBuf>, FileError> {
        let file = open(place, true)?;
        let fail = |error| FileError { path: place.path(), error };
        let old = self.check(&file, expected).map_err(fail)?;
        let unchanged = old.as_ref().map_or(Expected::Absent, |it| Expected::Bytes(it));
        let done = file.replace(bytes, 0o644, unique, &mut |step| {
            look(step).map_err(RootedError::Io)?;
            match (step, &old) {
                (Step::Backup, Some(old)) => {
                    file.sibling(with_suffix(&place.name, BACKUP))?.copy_of(&file, old, unique)
                }
                (Step::LastLook, _) => self.check(&file, unchanged).map(drop),
                (Step::Write | Step::Sync | Step::Backup | Step::Rename | Step::SyncFolder, _) => Ok(()),
            }
        });
        done.map_err(fail)?;
        Ok(old.map(|_| place.backup_path()))
    }

    /// Checks that the file is in the expected state, and returns its bytes.
    fn check(&self, file: &RootedFile, expected: Expected<'_>) -> Result<Option<Vec<u8>>, RootedError> {
        let found = match file.read(self.max_bytes as u64) {
            Ok((bytes, _)) => Some(bytes),
            Err(RootedError::Missing) => None,
            Err(error) => return Err(error),
        };
        match (&found, expected) {
            (Some(found), Expected::Bytes(bytes)) if found != bytes => Err(RootedError::Changed),
            (None, Expected::Bytes(_)) => Err(RootedError::Changed),
            (Some(_), Expected::Absent) => Err(RootedError::Exists),
            (Some(_), Expected::Bytes(_) | Expected::Any) | (None, Expected::Absent | Expected::Any) => Ok(found),
        }
    }
}

fn below(root: &Path, rest: &Path, shown: &str) -> Result<Place, ToolError> {
    let inside = rooted::plain(rest).ok_or_else(|| denied(format!("{shown}: a path with `..` is not allowed")))?;
    let name = inside.file_name().ok_or_else(|| denied(format!("{shown} does not name a file")))?.to_owned();
    if name.to_str().is_some_and(|it| BRIDGES.iter().any(|bridge| it.eq_ignore_ascii_case(bridge))) {
        return Err(denied(format!("{shown} has the name of a bridge patch")));
    }
    let format = name
        .to_str()
        .and_then(Format::of_name)
        .ok_or_else(|| denied(format!("{shown}: the extension must be .maxpat, .maxhelp, .amxd or .pd")))?;
    let folders = inside.parent().unwrap_or(Path::new("")).to_owned();
    Ok(Place { root: canonical(root), folders, name, format })
}

/// Opens the folder of a place. Fails if the path contains a link. If `create` is true, creates a
/// missing root.
fn open(place: &Place, create: bool) -> Result<RootedFile, FileError> {
    if create
        && let Err(error) = private_folders().create(&place.root)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(FileError { path: place.root.clone(), error: error.into() });
    }
    let folder = rooted::walk(&place.root, &place.folders).map_err(|(path, error)| FileError { path, error })?;
    Ok(RootedFile::new(folder, &place.name))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn undisturbed(_: Step) -> io::Result<()> {
        Ok(())
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
            assert!(
                matches!(
                    folders.read(&place),
                    Err(FileError { error: RootedError::Outside | RootedError::NotAFolder, .. })
                ),
                "{path}"
            );
            let written = folders.replace(&place, b"x", Expected::Any, "u", &undisturbed);
            assert!(
                matches!(written, Err(FileError { error: RootedError::Outside | RootedError::NotAFolder, .. })),
                "{path}"
            );
        }
        assert_eq!(fs::read(home.path().join("secret.pd")).unwrap(), b"secret");
    }

    #[test]
    fn a_pipe_and_a_folder_are_no_patches_and_nothing_waits() {
        let (home, folders) = studio();
        let root = home.path().join("patches");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe.pd"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        fs::create_dir(root.join("folder.pd")).unwrap();
        for path in ["pipe.pd", "folder.pd"] {
            assert!(
                matches!(
                    folders.read(&folders.place(path).unwrap()),
                    Err(FileError { error: RootedError::WrongKind(_), .. })
                ),
                "{path}"
            );
        }
        fs::write(root.join("large.pd"), vec![b'x'; 1001]).unwrap();
        let large = folders.read(&folders.place("large.pd").unwrap());
        assert!(matches!(large, Err(FileError { error: RootedError::TooLarge(1000), .. })));
    }

    #[test]
    fn a_fault_at_any_step_leaves_the_old_or_the_new_bytes() {
        for step in Step::ALL {
            let (home, folders) = studio();
            let path = home.path().join("patches/a.pd");
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let place = folders.place("a.pd").unwrap();
            let fail = |at| if at == step { Err(io::Error::other("pulled plug")) } else { Ok(()) };
            let result = folders.replace(&place, b"new", Expected::Bytes(b"old"), "u", &fail);
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
        let backup = folders.replace(&place, b"new", Expected::Bytes(b"old"), "u", &undisturbed).unwrap();
        assert_eq!(fs::read(backup.unwrap()).unwrap(), b"old");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        let again = folders.replace(&place, b"newer", Expected::Bytes(b"old"), "u", &undisturbed);
        assert!(matches!(again, Err(FileError { error: RootedError::Changed, .. })));
        let absent = folders.replace(&place, b"newer", Expected::Absent, "u", &undisturbed);
        assert!(matches!(absent, Err(FileError { error: RootedError::Exists, .. })));
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
