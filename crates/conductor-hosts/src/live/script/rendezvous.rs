//! Reads the file that contains the script's port, the token that identifies the script, and the
//! secret. Each side proves that it has the secret.

use crate::live::LiveHostError;
use crate::system::files::{Opening as _, how_to_close, is_open_to_others, is_ours};
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::NAME;

/// Maximum size in bytes. A larger file was not written by the script.
const MAX_BYTES: u64 = 4096;

#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Rendezvous {
    pub port: u16,
    pub token: String,
    /// Empty in a file that was written by a script with protocol 1.
    #[serde(default)]
    pub secret: String,
    pub pid: u32,
    pub protocol: u32,
}

/// Why the script's file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RendezvousError {
    /// The file does not exist: the script is not running.
    NoFile,
    /// The file cannot be read, belongs to another user, or is open to other users.
    Unsafe(String),
    /// The file does not have the script's format.
    Nonsense(String),
}

impl From<RendezvousError> for LiveHostError {
    fn from(error: RendezvousError) -> LiveHostError {
        let reason = match error {
            RendezvousError::NoFile => "the script is not running in any Live".to_owned(),
            RendezvousError::Unsafe(why) | RendezvousError::Nonsense(why) => why,
        };
        LiveHostError::Offline { host: NAME, reason }
    }
}

pub fn path(home: &Path) -> PathBuf {
    home.join("state").join("live-script.json")
}

/// Reads the script's file. Blocks for one small read.
pub fn read(home: &Path) -> Result<Rendezvous, RendezvousError> {
    let path = path(home);
    let shown = path.display();
    let file = std::fs::OpenOptions::new().read(true).without_links().open(&path);
    let mut file = match file {
        Ok(file) => file,
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => return Err(RendezvousError::NoFile),
        Err(fault) => return Err(RendezvousError::Unsafe(format!("{shown} cannot be read: {fault}"))),
    };
    let found = file.metadata().map_err(|fault| RendezvousError::Unsafe(format!("{shown}: {fault}")))?;
    // A file written by another user could name a port of that user's program. A file readable by
    // another user reveals the secret.
    if !found.is_file() {
        return Err(RendezvousError::Unsafe(format!("{shown} is not a regular file")));
    }
    if !is_ours(&path, &found) {
        return Err(RendezvousError::Unsafe(format!("{shown} belongs to another user")));
    }
    if is_open_to_others(&path, &found) {
        let cure = how_to_close(&path);
        return Err(RendezvousError::Unsafe(format!("{shown} is open to other users; run `{cure}`")));
    }
    let mut text = String::new();
    let read = file.by_ref().take(MAX_BYTES).read_to_string(&mut text);
    read.map_err(|fault| RendezvousError::Nonsense(format!("{shown}: {fault}")))?;
    serde_json::from_str(&text).map_err(|fault| RendezvousError::Nonsense(format!("{shown}: {fault}")))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn put(home: &Path, text: &str, mode: u32) {
        fs::create_dir_all(home.join("state")).expect("no folder");
        fs::write(path(home), text).expect("no file");
        fs::set_permissions(path(home), fs::Permissions::from_mode(mode)).expect("no mode");
    }

    #[test]
    fn only_a_file_that_is_ours_alone_is_read() {
        let home = tempfile::tempdir().expect("no folder");
        assert_eq!(read(home.path()), Err(RendezvousError::NoFile));
        let text = r#"{"port": 50123, "token": "abc", "pid": 4321, "protocol": 1}"#;
        put(home.path(), text, 0o600);
        assert_eq!(read(home.path()).map(|it| (it.port, it.pid)), Ok((50123, 4321)));
        for wide in [0o644, 0o640, 0o602] {
            put(home.path(), text, wide);
            assert!(matches!(read(home.path()), Err(RendezvousError::Unsafe(_))), "{wide:o}");
        }
        put(home.path(), "{", 0o600);
        assert!(matches!(read(home.path()), Err(RendezvousError::Nonsense(_))));
        fs::rename(path(home.path()), home.path().join("elsewhere")).expect("no move");
        std::os::unix::fs::symlink(home.path().join("elsewhere"), path(home.path())).expect("no link");
        assert!(matches!(read(home.path()), Err(RendezvousError::Unsafe(_))), "a link to the file was accepted");
    }
}
