//! Folders that only their owner can open.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{} is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("{} belongs to another user (uid {uid}); choose another folder with --home", path.display())]
    NotOurs { path: PathBuf, uid: u32 },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Creates the folder, or removes the permissions of other users from an existing one.
pub fn make_private(path: &Path) -> Result<(), FolderError> {
    let failed = |source| FolderError::Io { path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| match path.metadata() {
        Ok(found) if !found.is_dir() => FolderError::NotAFolder { path: path.to_owned() },
        Ok(_) | Err(_) => failed(source),
    })?;
    let found = path.metadata().map_err(failed)?;
    if found.uid() != super::processes::current_user() {
        return Err(FolderError::NotOurs { path: path.to_owned(), uid: found.uid() });
    }
    if found.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}
