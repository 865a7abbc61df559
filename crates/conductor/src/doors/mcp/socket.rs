//! The Unix socket: one daemon's door for every local client, by itself or behind the stdio proxy.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rmcp::RoleServer;
use rmcp::service::serve_directly_with_ct;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};

use super::line::{LineTransport, Refusal};
use super::{LineService, McpDoor, Shared};
use crate::doors::session::Who;

/// The kernel's limit for a socket's path, without its final zero.
const MAX_PATH: usize = 107;

#[derive(Debug, thiserror::Error)]
pub enum BindFault {
    #[error(
        "{path} is {length} bytes long and a socket's path may have {MAX_PATH}; set CONDUCTOR_HOME to a shorter folder"
    )]
    TooLong { path: PathBuf, length: usize },
    #[error("{0} is served by another process; a second daemon on one home is refused")]
    InUse(PathBuf),
    #[error("{0} exists and is no socket; it is left alone, move it away")]
    NotASocket(PathBuf),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Makes the socket of a home. The folder is private before the socket exists, so there is no moment in which others could reach it.
pub async fn bind(home: &Path, name: &str) -> Result<UnixListener, BindFault> {
    let path = home.join(name);
    let fault = |source| BindFault::Io { path: path.clone(), source };
    let length = path.as_os_str().len();
    if length > MAX_PATH {
        return Err(BindFault::TooLong { path, length });
    }
    std::fs::create_dir_all(home).map_err(fault)?;
    std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o700)).map_err(fault)?;
    match std::fs::symlink_metadata(&path) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {}
        Err(other) => return Err(fault(other)),
        Ok(there) if !there.file_type().is_socket() => return Err(BindFault::NotASocket(path)),
        Ok(_) => match UnixStream::connect(&path).await {
            Ok(_) => return Err(BindFault::InUse(path)),
            // Nobody listens: what a killed daemon left behind.
            Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(&path).map_err(fault)?
            }
            Err(other) => return Err(fault(other)),
        },
    }
    let listener = UnixListener::bind(&path).map_err(fault)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(fault)?;
    Ok(listener)
}

/// What `status` tells of the socket.
#[derive(Debug, Default)]
pub struct Tally {
    pub connected: AtomicUsize,
    /// Peers of another uid, closed without a byte.
    pub strangers: AtomicU64,
}

struct Connected(Arc<Tally>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Accepts until the daemon stops.
pub async fn serve(listener: UnixListener, shared: Arc<Shared>, tally: Arc<Tally>) {
    let ours = rustix::process::geteuid().as_raw();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        // A full descriptor table is passing; the backlog holds the peer meanwhile.
        let Ok((stream, _)) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        let uid = stream.peer_cred().map(|it| it.uid());
        if uid.as_ref().ok() != Some(&ours) {
            tally.strangers.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let before = tally.connected.fetch_add(1, Ordering::AcqRel);
        let connected = Connected(Arc::clone(&tally));
        if before >= shared.studio.settings().mcp.max_connections {
            tokio::spawn(turn_away(stream, connected));
            continue;
        }
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            serve_stream(&shared, Who::Uid(ours), stream).await;
            drop(connected);
        });
    }
}

async fn turn_away(mut stream: UnixStream, _connected: Connected) {
    let line = Refusal { code: -32603, message: "Too many connections", id: Value::Null }.to_line();
    let _ = stream.write_all(&line).await;
}

/// Serves one connected socket to its end.
pub async fn serve_stream(shared: &Arc<Shared>, who: Who, stream: UnixStream) {
    let pid = stream.peer_cred().ok().and_then(|it| it.pid());
    let watched = rustix::io::dup(&stream);
    let (read, write) = stream.into_split();
    let transport = LineTransport::new(read, write, shared.studio.settings().mcp.max_message_bytes);
    let transport = match watched {
        Ok(fd) => transport.with_gone_check(move || hung_up(&fd)),
        Err(_) => transport,
    };
    serve_lines_of(shared, who, pid, transport).await;
}

/// The kernel reports a hang-up once neither direction is open.
fn hung_up(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).is_ok()
        && fds.iter().any(|it| it.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Serves one line connection to its end. Whatever ends it, its calls are cancelled and its door is told.
pub async fn serve_lines<R>(shared: &Arc<Shared>, who: Who, transport: LineTransport<R>)
where
    R: tokio::io::AsyncRead + Unpin + Send + 'static,
{
    serve_lines_of(shared, who, None, transport).await;
}

async fn serve_lines_of<R>(shared: &Arc<Shared>, who: Who, pid: Option<i32>, transport: LineTransport<R>)
where
    R: tokio::io::AsyncRead + Unpin + Send + 'static,
{
    let wire = transport.wire();
    let door = McpDoor::new(shared, who).on_wire(Arc::clone(&wire));
    if let Some(pid) = pid {
        door.session.set_peer_pid(pid);
    }
    let gone = door.session.gone.clone();
    let calls = shared.stop.child_token();
    let running = serve_directly_with_ct::<RoleServer, _, _, _, _>(LineService(door), transport, None, calls.clone());
    // A peer that cannot be written to will never read its replies.
    let watcher = tokio::spawn({
        let calls = calls.clone();
        async move {
            wire.failed.cancelled().await;
            calls.cancel();
        }
    });
    let _ = running.waiting().await;
    watcher.abort();
    calls.cancel();
    gone.cancel();
}
