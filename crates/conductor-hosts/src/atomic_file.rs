//! Reads and atomically replaces one of Conductor's own files, at any path. Links are followed.
//!
//! Not here: files whose path comes from a caller (`rooted`).

use crate::rooted::{self, RootedError, RootedFile, Step};
use crate::system::files::Opening as _;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::Path;

/// Reads a regular file. A pipe or a device is refused, because reading it could block.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).without_waiting().open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes `bytes` to `path`. An existing file keeps its mode; a new file gets `mode`. If `path` is
/// a link, its target is replaced.
pub fn replace(path: &Path, bytes: &[u8], mode: u32, unique: &str) -> io::Result<()> {
    replace_if(path, bytes, mode, unique, || Ok(()))
}

/// Like [`replace`], but calls `check` right before the rename. If `check` fails, the file is not
/// replaced.
pub fn replace_if(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    unique: &str,
    mut check: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    replace_in_steps(path, bytes, mode, unique, &mut |step| if step == Step::LastLook { check() } else { Ok(()) })
}

fn replace_in_steps(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    unique: &str,
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> io::Result<()> {
    let target = dunce::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let file = RootedFile::new(rooted::open_root(folder)?, target.file_name().unwrap_or_default());
    match file.replace(bytes, mode, unique, &mut |step| before(step).map_err(RootedError::Io)) {
        Ok(_) => Ok(()),
        Err(RootedError::Io(error)) => Err(error),
        Err(other) => Err(io::Error::other(other)),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_fault_at_any_step_leaves_the_old_or_the_new_bytes() {
        for stop in Step::ALL.map(Some).into_iter().chain([None]) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("config.toml");
            fs::write(&path, "old bytes").unwrap();
            let mut before = |step| if stop == Some(step) { Err(io::Error::other("pulled plug")) } else { Ok(()) };
            let result = replace_in_steps(&path, b"new and longer bytes", 0o600, "x", &mut before);
            let now = fs::read(&path).unwrap();
            assert_eq!(result.is_ok(), stop.is_none(), "{stop:?}");
            let renamed = matches!(stop, None | Some(Step::SyncFolder));
            let wanted: &[u8] = if renamed { b"new and longer bytes" } else { b"old bytes" };
            assert_eq!(now, wanted, "{stop:?}: wrong content; only the folder sync runs after the rename");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{stop:?}: a temporary file is left");
        }
    }

    #[test]
    fn modes_and_links_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.toml");
        let link = dir.path().join("config.toml");
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace(&link, b"new", 0o600, "x").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o7777, 0o640);
    }

    #[test]
    fn a_last_look_that_says_no_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "old").unwrap();
        let no = || Err(io::Error::other("it changed"));
        assert!(replace_if(&path, b"new", 0o600, "x", no).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn only_a_regular_file_is_read() {
        let home = tempfile::tempdir().unwrap();
        let fifo = home.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        assert!(read(&fifo).is_err());
        assert!(read(home.path()).is_err());
        assert!(read(Path::new("/dev/zero")).is_err());
    }
}
