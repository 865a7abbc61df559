//! Binding a socket in the home: never steals a live one, never removes what is not a socket, and
//! answers its own user only.
//!
//! Not here: what is spoken on it (`doors`).

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Longest path `sockaddr_un` takes on every system we run on, without its closing zero.
const LONGEST_PATH: usize = 103;

/// A bound socket. Dropping it removes the file, unless something else has taken its place.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
    owner: u32,
}

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
    /// Absent where the system does not tell.
    pub pid: Option<i32>,
}

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("{}: a program answers on this socket already", path.display())]
    Live { path: PathBuf },
    #[error("{}: this is not a socket; move it away", path.display())]
    NotASocket { path: PathBuf },
    #[error("{}: the path has {length} bytes and a socket allows {LONGEST_PATH}; choose a shorter folder with --home", path.display())]
    TooLong { path: PathBuf, length: usize },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Socket {
    /// Must be called inside a tokio runtime, by the holder of the home's lock, in a folder that is
    /// private already: between bind and chmod only the folder's mode protects the file. The umask
    /// stays alone, because it belongs to the whole process.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let failed = |source| SocketError::Io { path: path.to_owned(), source };
        let length = path.as_os_str().len();
        if length > LONGEST_PATH {
            return Err(SocketError::TooLong { path: path.to_owned(), length });
        }
        clear_stale(path)?;
        let listener = StdListener::bind(path).map_err(failed)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let found = std::fs::symlink_metadata(path).map_err(failed)?;
        Ok(Socket {
            listener: UnixListener::from_std(listener).map_err(failed)?,
            path: path.to_owned(),
            identity: (found.dev(), found.ino()),
            owner: rustix::process::geteuid().as_raw(),
        })
    }

    /// The next connection of our own user. Connections of others are closed without a word.
    pub async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            // A peer that is gone already has no credentials; nobody waits for an answer.
            let Ok(credentials) = stream.peer_cred() else { continue };
            let peer = Peer { uid: credentials.uid(), pid: credentials.pid() };
            if admits(self.owner, peer) {
                return Ok((stream, peer));
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let still_ours = std::fs::symlink_metadata(&self.path).is_ok_and(|it| (it.dev(), it.ino()) == self.identity);
        if still_ours {
            // A file that cannot be removed is found refused by the next daemon, which replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn admits(owner: u32, peer: Peer) -> bool {
    peer.uid == owner
}

/// Removes a socket nobody listens on. Everything else stays where it is.
fn clear_stale(path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Io { path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket { path: path.to_owned() }),
        Ok(_) => {}
    }
    match StdStream::connect(path) {
        Ok(_) => Err(SocketError::Live { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_live_socket_is_not_stolen_and_a_stale_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let first = Socket::bind(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Socket::bind(&path), Err(SocketError::Live { .. })));
        drop(first);
        assert!(!path.exists());

        // What a killed daemon leaves behind: the file without a listener.
        drop(StdListener::bind(&path).unwrap());
        assert!(path.exists());
        let again = Socket::bind(&path).unwrap();
        let _client = UnixStream::connect(&path).await.unwrap();
        let (_, peer) = again.accept().await.unwrap();
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    }

    #[tokio::test]
    async fn what_is_not_a_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::NotASocket { .. })));
        std::fs::remove_file(&path).unwrap();

        let target = dir.path().join("target");
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::NotASocket { .. })));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    }

    #[tokio::test]
    async fn dropping_leaves_a_successor_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let first = Socket::bind(&path).unwrap();
        // The inode of a removed socket may be handed out again at once, so the successor is made
        // first and moved over.
        let other = dir.path().join("other");
        let _second = StdListener::bind(&other).unwrap();
        std::fs::rename(&other, &path).unwrap();
        drop(first);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_bound_says_how_long_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let error = Socket::bind(&dir.path().join("x".repeat(120))).unwrap_err();
        assert!(matches!(error, SocketError::TooLong { .. }), "{error}");
        assert!(error.to_string().contains("--home"));
    }

    #[test]
    fn only_the_owner_is_admitted() {
        assert!(admits(1000, Peer { uid: 1000, pid: None }));
        assert!(!admits(1000, Peer { uid: 1001, pid: None }));
        // Root can read the socket by right of being root, and is still not the person of this
        // studio.
        assert!(!admits(1000, Peer { uid: 0, pid: None }));
    }
}
