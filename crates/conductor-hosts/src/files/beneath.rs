//! Opening a path below a folder that is held open, so that nothing on the way leads out.
//!
//! On Linux the kernel does it in one step (`openat2`). Elsewhere, and on kernels without it, every
//! folder is opened in turn and no link is followed at all: stricter, and as safe.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// To see that something can be reached, and no more.
#[cfg(target_os = "linux")]
pub const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// A pipe that nobody writes to must not hold us up.
#[cfg(not(target_os = "linux"))]
pub const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// `path` has plain names only; an empty one is the folder itself.
pub fn open(folder: &OwnedFd, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // The kernel gives up with EAGAIN when folders are renamed while it looks; a few more looks
        // are enough for an honest renamer.
        for _ in 0..16 {
            match rustix::fs::openat2(folder, path, flags, mode, resolve) {
                Err(Errno::AGAIN) => {}
                Err(Errno::NOSYS) => return step_by_step(folder, path, flags, mode),
                done => return done,
            }
        }
        Err(Errno::XDEV)
    }
    #[cfg(not(target_os = "linux"))]
    step_by_step(folder, path, flags, mode)
}

fn step_by_step(folder: &OwnedFd, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let folders = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return rustix::fs::openat(folder, ".", flags, mode);
    };
    let mut at = None;
    for part in parent.components() {
        let from = at.as_ref().unwrap_or(folder);
        // A link in the place of a folder is ENOTDIR or ELOOP, by the system.
        let next = rustix::fs::openat(from, part.as_os_str(), folders, Mode::empty());
        at = Some(next.map_err(|fault| if fault == Errno::NOTDIR { Errno::LOOP } else { fault })?);
    }
    rustix::fs::openat(at.as_ref().unwrap_or(folder), name, flags | OFlags::NOFOLLOW, mode)
}

/// Makes the folders of `path` that are not there.
pub fn make_folders(folder: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = open(folder, Path::new(""), flags, Mode::empty())?;
    let mut so_far = std::path::PathBuf::new();
    for part in path.components() {
        let name = part.as_os_str();
        match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(fault) => return Err(fault),
        }
        so_far.push(name);
        at = open(folder, &so_far, flags, Mode::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways must refuse the same; the one the kernel has is tested through the tools.
    #[test]
    fn without_openat2_no_link_is_followed_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("in")).unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        std::fs::write(root.join("in/a"), "a").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("file")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&root, flags | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for way in [open, step_by_step] {
            assert!(way(&handle, Path::new("in/a"), flags, Mode::empty()).is_ok());
            for bad in ["file", "up/secret", "up"] {
                assert!(way(&handle, Path::new(bad), flags, Mode::empty()).is_err(), "{bad}");
            }
        }
        // Negative control: an ordinary open follows both.
        assert!(std::fs::read(root.join("file")).is_ok() && std::fs::read(root.join("up/secret")).is_ok());
    }
}
