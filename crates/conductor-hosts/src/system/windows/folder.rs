//! Folders that only their owner can open.

use super::security;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{} is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("{} belongs to another user; choose another folder with --home", path.display())]
    NotOurs { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Creates the folder, and gives it an access list with only its owner. Files and folders in it
/// inherit the list.
pub fn make_private(path: &Path) -> Result<(), FolderError> {
    let failed = |source| FolderError::Io { path: path.to_owned(), source };
    std::fs::create_dir_all(path).map_err(|source| match path.metadata() {
        Ok(found) if !found.is_dir() => FolderError::NotAFolder { path: path.to_owned() },
        Ok(_) | Err(_) => failed(source),
    })?;
    if !security::is_ours(path).map_err(failed)? {
        return Err(FolderError::NotOurs { path: path.to_owned() });
    }
    if security::is_open_to_others(path).map_err(failed)? {
        security::set_owner_only(path).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_folder_is_closed_and_so_are_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("deep/er");
        make_private(&home).unwrap();
        assert!(!security::is_open_to_others(&home).unwrap());
        assert!(security::is_ours(&home).unwrap());
        make_private(&home).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let error = make_private(&dir.path().join("file")).unwrap_err();
        assert!(matches!(error, FolderError::NotAFolder { .. }), "{error}");
    }
}
