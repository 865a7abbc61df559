//! A local endpoint in the home. Clients of this user connect to it, and the kernel reports the
//! process of each client.
//!
//! Binding never replaces a live endpoint and never removes a file that is not a socket.
//!
//! Not here: the protocols of connections (`doors`).

use super::folder::{self, FolderError};
use super::processes::current_user;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};

/// Longest path of a socket, in bytes, that fits into a `sockaddr_un` on every supported system,
/// without the terminating zero.
const LONGEST_PATH: usize = 103;

/// One connection.
pub type Stream = UnixStream;
pub use tokio::net::unix::{OwnedReadHalf as ReadHalf, OwnedWriteHalf as WriteHalf};

/// A bound endpoint. Dropping it removes the socket file, unless another file has replaced it.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket file.
    file: (u64, u64),
}

/// The process at the other end of a connection, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
    /// Absent where the system does not report it.
    pub pid: Option<i32>,
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("{}: another program already listens on this socket", path.display())]
    InUse { path: PathBuf },
    #[error("{}: this file is not a socket; move it to another folder", path.display())]
    NotASocket { path: PathBuf },
    #[error(
        "{}: the path has {length} bytes and a socket allows {LONGEST_PATH}; choose a shorter folder with --home or CONDUCTOR_HOME",
        path.display()
    )]
    TooLong { path: PathBuf, length: usize },
    #[error("{0}")]
    Folder(#[from] FolderError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Peer {
    /// Returns `None` if the peer has already disconnected.
    pub fn of(stream: &Stream) -> Option<Self> {
        let credentials = stream.peer_cred().ok()?;
        Some(Peer { uid: credentials.uid(), pid: credentials.pid() })
    }
}

impl Listener {
    /// Binds the endpoint. Must be called inside a tokio runtime, by the process that has the
    /// home's lock. The folder is made private first, because between bind and chmod only the
    /// folder's mode protects the file. The umask is not used, because it applies to the whole
    /// process.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let failed = |source| BindError::Io { path: path.to_owned(), source };
        let length = path.as_os_str().len();
        if length > LONGEST_PATH {
            return Err(BindError::TooLong { path: path.to_owned(), length });
        }
        path.parent().map_or(Ok(()), folder::make_private)?;
        remove_stale(path)?;
        let listener = StdListener::bind(path).map_err(failed)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let found = std::fs::symlink_metadata(path).map_err(failed)?;
        Ok(Listener {
            listener: UnixListener::from_std(listener).map_err(failed)?,
            path: path.to_owned(),
            file: (found.dev(), found.ino()),
        })
    }

    /// The next connection. Returns `None` if the client belongs to another user or has already
    /// disconnected; such a connection is closed without a reply.
    pub async fn accept(&self) -> io::Result<Option<(Stream, Peer)>> {
        let (stream, _) = self.listener.accept().await?;
        let peer = Peer::of(&stream).filter(|peer| admits(current_user(), *peer));
        Ok(peer.map(|peer| (stream, peer)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let still_ours = std::fs::symlink_metadata(&self.path).is_ok_and(|it| (it.dev(), it.ino()) == self.file);
        if still_ours {
            // If the file cannot be removed, connections to it are refused, and the next daemon
            // replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Connects to an endpoint. Fails with `NotFound` or `ConnectionRefused` if no process listens.
pub async fn connect(path: &Path) -> io::Result<Stream> {
    UnixStream::connect(path).await
}

/// Sends bytes if the connection has room for them, without waiting.
pub fn send_now(stream: &Stream, bytes: &[u8]) {
    let _ = rustix::net::send(stream, bytes, rustix::net::SendFlags::DONTWAIT);
}

/// A second handle of a connection, to check whether the peer is still there.
#[derive(Debug)]
pub struct Watched(OwnedFd);

impl From<OwnedFd> for Watched {
    fn from(fd: OwnedFd) -> Self {
        Watched(fd)
    }
}

impl Watched {
    pub fn of(stream: &Stream) -> io::Result<Self> {
        Ok(Watched(rustix::io::dup(stream)?))
    }

    /// Whether both directions are closed, which the kernel reports as a hang-up.
    pub fn hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).is_ok()
            && fds.iter().any(|it| it.revents().intersects(PollFlags::HUP | PollFlags::ERR))
    }
}

/// The connection of a command, which waits for answers without an async runtime.
#[derive(Debug)]
pub struct Blocking(StdStream);

impl Blocking {
    /// Connects. Waits at most `patience` if the daemon no longer accepts connections.
    pub fn connect(path: &Path, patience: Duration) -> io::Result<Self> {
        use rustix::net::sockopt::{Timeout, set_socket_timeout};
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, socket as new_socket};
        let made = new_socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&made, rustix::io::FdFlags::CLOEXEC)?;
        set_socket_timeout(&made, Timeout::Send, Some(patience))?;
        rustix::net::connect(&made, &SocketAddrUnix::new(path)?)?;
        Ok(Blocking(StdStream::from(made)))
    }

    /// A second handle of the same connection, with the same time limit.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Blocking(self.0.try_clone()?))
    }

    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(time)
    }

    /// Signals to the daemon that no more requests follow. Its answers can still be read.
    pub fn end_of_requests(&mut self) -> io::Result<()> {
        self.0.shutdown(std::net::Shutdown::Write)
    }
}

impl io::Read for Blocking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl io::Write for Blocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn admits(owner: u32, peer: Peer) -> bool {
    peer.uid == owner
}

/// Removes a socket that nothing listens on, such as that of a killed daemon. Other files are kept.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let failed = |source| BindError::Io { path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(BindError::NotASocket { path: path.to_owned() }),
        Ok(_) => {}
    }
    match StdStream::connect(path) {
        Ok(_) => Err(BindError::InUse { path: path.to_owned() }),
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
        let first = Listener::bind(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Listener::bind(&path), Err(BindError::InUse { .. })));
        drop(first);
        assert!(!path.exists());

        // A killed daemon leaves its socket file behind, but no process listens on it.
        drop(StdListener::bind(&path).unwrap());
        assert!(path.exists());
        let again = Listener::bind(&path).unwrap();
        let _client = UnixStream::connect(&path).await.unwrap();
        let (_, peer) = again.accept().await.unwrap().unwrap();
        assert_eq!(peer.uid, current_user());
    }

    #[tokio::test]
    async fn what_is_not_a_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Listener::bind(&path), Err(BindError::NotASocket { .. })));
        std::fs::remove_file(&path).unwrap();

        let target = dir.path().join("target");
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(matches!(Listener::bind(&path), Err(BindError::NotASocket { .. })));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    }

    #[tokio::test]
    async fn dropping_leaves_a_successor_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let first = Listener::bind(&path).unwrap();
        // The inode of a removed socket may be reused at once. Therefore the new socket is created
        // under another name and then renamed.
        let other = dir.path().join("other");
        let _second = StdListener::bind(&other).unwrap();
        std::fs::rename(&other, &path).unwrap();
        drop(first);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_bound_says_how_long_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let error = Listener::bind(&dir.path().join("x".repeat(120))).unwrap_err();
        assert!(matches!(error, BindError::TooLong { .. }), "{error}");
        assert!(error.to_string().contains("--home"));
    }

    #[test]
    fn only_the_owner_is_admitted() {
        assert!(admits(1000, Peer { uid: 1000, pid: None }));
        assert!(!admits(1000, Peer { uid: 1001, pid: None }));
        // Root can always open the socket, but is not the owner of this home.
        assert!(!admits(1000, Peer { uid: 0, pid: None }));
    }
}
