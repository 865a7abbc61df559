//! A local endpoint of the home: a named pipe that only its owner can open.
//!
//! The name is derived from the path that the endpoint has on Unix, so that every home has its own
//! pipes. A pipe has no half-closed state. Instead, an empty message marks the end of one
//! direction: the pipe carries messages but is read as bytes, so an empty message is read as the
//! end.
//!
//! Not here: the protocols of connections (`doors`).

use super::folder::{self, FolderError};
use super::security::{Descriptor, Sid};
use sha2::{Digest as _, Sha256};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::ffi::OsStrExt as _;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle as _, OwnedHandle};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient, NamedPipeServer, PipeMode, ServerOptions};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_BROKEN_PIPE, ERROR_IO_PENDING, ERROR_PIPE_BUSY, ERROR_PIPE_NOT_CONNECTED, GENERIC_READ,
    GENERIC_WRITE, HANDLE, WAIT_OBJECT_0, WAIT_TIMEOUT,
};
use windows_sys::Win32::Storage::FileSystem::{
    CreateFileW, FILE_FLAG_OVERLAPPED, OPEN_EXISTING, ReadFile, SECURITY_IDENTIFICATION, SECURITY_SQOS_PRESENT,
    WriteFile,
};
use windows_sys::Win32::System::IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Pipes::{
    GetNamedPipeClientProcessId, GetNamedPipeServerProcessId, PIPE_READMODE_BYTE, PeekNamedPipe,
    SetNamedPipeHandleState, WaitNamedPipeW,
};
use windows_sys::Win32::System::Threading::{CreateEventW, INFINITE, WaitForSingleObject};

/// Capacity of one direction of the pipe, in bytes.
const BUFFER: u32 = 64 * 1024;
/// How long a client waits while all instances of the pipe are in use.
const BUSY: Duration = Duration::from_secs(5);
const BUSY_RETRY: Duration = Duration::from_millis(10);

/// The name of the pipe for a path in a home. Paths are compared without regard to case.
fn pipe_name(path: &Path) -> OsString {
    let folder = path.parent().unwrap_or(Path::new("."));
    let folder = std::fs::canonicalize(folder).or_else(|_| std::path::absolute(folder));
    let folder = folder.unwrap_or_default().to_string_lossy().to_lowercase();
    let digest: String = Sha256::digest(folder.as_bytes()).iter().take(8).map(|it| format!("{it:02x}")).collect();
    let end = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    OsString::from(format!(r"\\.\pipe\conductor-{digest}-{end}"))
}

fn is(error: &io::Error, code: u32) -> bool {
    error.raw_os_error() == Some(code.cast_signed())
}

/// One connection.
#[derive(Debug)]
pub enum Stream {
    Server(NamedPipeServer),
    Client(NamedPipeClient),
}

pub type ReadHalf = tokio::io::ReadHalf<Stream>;
pub type WriteHalf = tokio::io::WriteHalf<Stream>;

impl Stream {
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        tokio::io::split(self)
    }

    fn raw(&self) -> HANDLE {
        match self {
            Stream::Server(pipe) => pipe.as_raw_handle(),
            Stream::Client(pipe) => pipe.as_raw_handle(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let done = match self.get_mut() {
            Stream::Server(pipe) => Pin::new(pipe).poll_read(cx, into),
            Stream::Client(pipe) => Pin::new(pipe).poll_read(cx, into),
        };
        // The peer has closed the pipe: this is the end of the input.
        Poll::Ready(match ready!(done) {
            Err(error) if is(&error, ERROR_BROKEN_PIPE) || is(&error, ERROR_PIPE_NOT_CONNECTED) => Ok(()),
            done => done,
        })
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Server(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Stream::Client(pipe) => Pin::new(pipe).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Sends the empty message that ends this direction.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write(cx, &[]).map_ok(drop)
    }
}

/// A bound endpoint.
#[derive(Debug)]
pub struct Listener {
    name: OsString,
    /// The instance that waits for the next client. There is always one, so that a client finds the
    /// pipe.
    next: tokio::sync::Mutex<Option<NamedPipeServer>>,
}

/// The process at the other end of a connection, as the system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The last number of the user's SID.
    pub uid: u32,
    pub pid: Option<i32>,
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("{}: another program already listens on this pipe", path.display())]
    InUse { path: PathBuf },
    #[error("{0}")]
    Folder(#[from] FolderError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Peer {
    /// Returns `None` if the peer has already disconnected, or belongs to another user.
    pub fn of(stream: &Stream) -> Option<Self> {
        let mut pid = 0;
        // SAFETY: the handle is open while the stream lives, and the number is written on success.
        let done = unsafe {
            match stream {
                Stream::Server(_) => GetNamedPipeClientProcessId(stream.raw(), &raw mut pid),
                Stream::Client(_) => GetNamedPipeServerProcessId(stream.raw(), &raw mut pid),
            }
        };
        if done == 0 {
            return None;
        }
        let user = Sid::of_process(pid).ok()?;
        (Some(&user) == Sid::current().ok().as_ref()).then(|| Peer { uid: user.number(), pid: i32::try_from(pid).ok() })
    }
}

/// Creates an instance of the pipe. Only the first instance may create the name.
fn create(name: &OsStr, first: bool) -> io::Result<NamedPipeServer> {
    let descriptor = Descriptor::owner_only(false)?;
    let mut attributes = descriptor.attributes();
    let mut options = ServerOptions::new();
    options
        .first_pipe_instance(first)
        .reject_remote_clients(true)
        .pipe_mode(PipeMode::Message)
        .in_buffer_size(BUFFER)
        .out_buffer_size(BUFFER);
    // SAFETY: the attributes and their descriptor live until the call returns.
    let pipe = unsafe { options.create_with_security_attributes_raw(name, (&raw mut attributes).cast())? };
    read_as_bytes(pipe.as_raw_handle())?;
    Ok(pipe)
}

fn read_as_bytes(pipe: HANDLE) -> io::Result<()> {
    let mode = PIPE_READMODE_BYTE;
    // SAFETY: the handle is open, and the mode lives until the call returns.
    let done = unsafe { SetNamedPipeHandleState(pipe, &raw const mode, null(), null()) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Listener {
    /// Binds the endpoint. Must be called inside a tokio runtime, by the process that has the
    /// home's lock.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        path.parent().map_or(Ok(()), folder::make_private)?;
        let name = pipe_name(path);
        let next = create(&name, true).map_err(|source| {
            let path = path.to_owned();
            // With the flag for the first instance, creating the pipe fails with this error if the
            // pipe exists.
            if is(&source, ERROR_ACCESS_DENIED) { BindError::InUse { path } } else { BindError::Io { path, source } }
        })?;
        Ok(Listener { name, next: tokio::sync::Mutex::new(Some(next)) })
    }

    /// The next connection. Returns `None` if the client belongs to another user or has already
    /// disconnected; such a connection is closed without a reply.
    pub async fn accept(&self) -> io::Result<Option<(Stream, Peer)>> {
        let mut next = self.next.lock().await;
        let waiting = match next.as_ref() {
            Some(waiting) => waiting,
            None => next.insert(create(&self.name, false)?),
        };
        waiting.connect().await?;
        let connected = next.take();
        // If this fails, the next call creates the instance.
        *next = create(&self.name, false).ok();
        let Some(connected) = connected else { return Ok(None) };
        let stream = Stream::Server(connected);
        Ok(Peer::of(&stream).map(|peer| (stream, peer)))
    }
}

/// Connects to an endpoint. Fails with `NotFound` if no process listens, and with
/// `PermissionDenied` if the pipe belongs to another user.
pub async fn connect(path: &Path) -> io::Result<Stream> {
    let name = pipe_name(path);
    let give_up = tokio::time::Instant::now() + BUSY;
    let pipe = loop {
        match ClientOptions::new().open(&name) {
            Err(error) if is(&error, ERROR_PIPE_BUSY) && tokio::time::Instant::now() < give_up => {
                tokio::time::sleep(BUSY_RETRY).await;
            }
            done => break done?,
        }
    };
    let stream = Stream::Client(pipe);
    if Peer::of(&stream).is_none() {
        return Err(not_ours());
    }
    Ok(stream)
}

fn not_ours() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the process behind the pipe belongs to another user, or has ended")
}

/// Sends bytes if the connection has room for them, without waiting.
pub fn send_now(stream: &Stream, bytes: &[u8]) {
    let _ = match stream {
        Stream::Server(pipe) => pipe.try_write(bytes),
        Stream::Client(pipe) => pipe.try_write(bytes),
    };
}

/// A second handle of a connection, to check whether the peer is still there.
#[derive(Debug)]
pub struct Watched(OwnedHandle);

impl Watched {
    pub fn of(stream: &Stream) -> io::Result<Self> {
        // SAFETY: the handle is open while the stream lives.
        let borrowed = unsafe { BorrowedHandle::borrow_raw(stream.raw()) };
        Ok(Watched(borrowed.try_clone_to_owned()?))
    }

    /// Whether the peer has closed the pipe.
    pub fn hung_up(&self) -> bool {
        let raw = self.0.as_handle().as_raw_handle();
        // SAFETY: the handle is open, and no result is requested.
        unsafe { PeekNamedPipe(raw, null_mut(), 0, null_mut(), null_mut(), null_mut()) == 0 }
    }
}

/// The connection of a command, which waits for answers without an async runtime.
#[derive(Debug, Clone)]
pub struct Blocking {
    pipe: Arc<OwnedHandle>,
    /// The time limit, shared by all handles of the connection. If absent, there is no limit.
    patience: Arc<parking_lot::Mutex<Option<Duration>>>,
}

impl Blocking {
    /// Connects. Waits at most `patience` if the daemon no longer accepts connections.
    pub fn connect(path: &Path, patience: Duration) -> io::Result<Self> {
        let name: Vec<u16> = pipe_name(path).encode_wide().chain([0]).collect();
        let limit = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        let open = || {
            let flags = FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION;
            let access = GENERIC_READ | GENERIC_WRITE;
            // SAFETY: the name ends with zero, and the handle gets an owner immediately.
            unsafe {
                let handle = CreateFileW(name.as_ptr(), access, 0, null(), OPEN_EXISTING, flags, null_mut());
                let is_open = handle as isize != -1 && !handle.is_null();
                if is_open { Ok(OwnedHandle::from_raw_handle(handle)) } else { Err(io::Error::last_os_error()) }
            }
        };
        let pipe = match open() {
            Err(error) if is(&error, ERROR_PIPE_BUSY) => {
                // SAFETY: the name ends with zero.
                if unsafe { WaitNamedPipeW(name.as_ptr(), limit) } == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                open()?
            }
            done => done?,
        };
        let mut pid = 0;
        // SAFETY: the handle is open, and the number is written on success.
        let found = unsafe { GetNamedPipeServerProcessId(pipe.as_raw_handle(), &raw mut pid) } != 0;
        if !found || Sid::of_process(pid)? != Sid::current()? {
            return Err(not_ours());
        }
        Ok(Blocking { pipe: Arc::new(pipe), patience: Arc::default() })
    }

    /// A second handle of the same connection, with the same time limit.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        *self.patience.lock() = time;
        Ok(())
    }

    /// Signals to the daemon that no more requests follow. Its answers can still be read.
    pub fn end_of_requests(&mut self) -> io::Result<()> {
        self.transfer(None, |pipe, state| {
            // SAFETY: no bytes are written; the state lives until the transfer ends.
            unsafe { WriteFile(pipe, null(), 0, null_mut(), state) }
        })
        .map(drop)
    }

    /// Starts a transfer, and waits for its end. After the time limit, the transfer is cancelled.
    fn transfer(
        &self,
        limit: Option<Duration>,
        start: impl FnOnce(HANDLE, *mut OVERLAPPED) -> i32,
    ) -> io::Result<usize> {
        let pipe = self.pipe.as_raw_handle();
        // SAFETY: creates an event without a name. The handle gets an owner below.
        let event = unsafe { CreateEventW(null(), 1, 0, null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is new, and this is its only owner.
        let event = unsafe { OwnedHandle::from_raw_handle(event) };
        let mut state = OVERLAPPED { hEvent: event.as_raw_handle(), ..OVERLAPPED::default() };
        if start(pipe, &raw mut state) == 0 {
            let error = io::Error::last_os_error();
            if !is(&error, ERROR_IO_PENDING) {
                return Err(error);
            }
        }
        let ms = limit.map_or(INFINITE, |it| u32::try_from(it.as_millis()).unwrap_or(INFINITE - 1));
        // SAFETY: the event is open.
        let waited = unsafe { WaitForSingleObject(event.as_raw_handle(), ms) };
        if waited != WAIT_OBJECT_0 {
            // SAFETY: the pipe is open and the state belongs to it.
            unsafe { CancelIoEx(pipe, &raw const state) };
        }
        let mut count = 0;
        // SAFETY: waits until the system no longer uses the state and the buffer, also after a
        // cancellation.
        let done = unsafe { GetOverlappedResult(pipe, &raw const state, &raw mut count, 1) };
        if done != 0 {
            return Ok(count as usize);
        }
        let error = io::Error::last_os_error();
        Err(if waited == WAIT_TIMEOUT { io::ErrorKind::TimedOut.into() } else { error })
    }
}

impl io::Read for Blocking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let limit = *self.patience.lock();
        let length = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let done = self.transfer(limit, |pipe, state| {
            // SAFETY: the buffer has the length that is passed, and both live until the transfer
            // has ended.
            unsafe { ReadFile(pipe, into.as_mut_ptr(), length, null_mut(), state) }
        });
        match done {
            // The daemon has closed the pipe.
            Err(error) if is(&error, ERROR_BROKEN_PIPE) || is(&error, ERROR_PIPE_NOT_CONNECTED) => Ok(0),
            done => done,
        }
    }
}

impl io::Write for Blocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.transfer(None, |pipe, state| {
            // SAFETY: the buffer has the length that is passed, and both live until the transfer
            // has ended.
            unsafe { WriteFile(pipe, bytes.as_ptr(), length, null_mut(), state) }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_pipe_carries_bytes_and_half_a_close() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp.sock");
        let listener = Listener::bind(&path).unwrap();
        // Wine ignores the flag for the first instance.
        assert!(super::super::wine::is_wine() || matches!(Listener::bind(&path), Err(BindError::InUse { .. })));
        let mut client = connect(&path).await.unwrap();
        let (mut server, peer) = listener.accept().await.unwrap().unwrap();
        assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
        client.write_all(b"one line\n").await.unwrap();
        let watched = Watched::of(&server).unwrap();
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"one line\n");
        assert!(!watched.hung_up(), "a pipe with one open direction was reported as closed");
        server.write_all(b"answer\n").await.unwrap();
        // The pipe is closed when its last handle is closed.
        drop(watched);
        drop(server);
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"answer\n");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_command_waits_for_its_answer_with_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let absent = Blocking::connect(&path, Duration::from_secs(1)).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        let listener = Listener::bind(&path).unwrap();
        let asking = tokio::task::spawn_blocking({
            let path = path.clone();
            move || {
                let mut client = Blocking::connect(&path, Duration::from_secs(5)).unwrap();
                client.write_all(b"ask\n").unwrap();
                let mut answer = [0; 16];
                let count = client.read(&mut answer).unwrap();
                client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let late = client.read(&mut [0]).unwrap_err();
                client.end_of_requests().unwrap();
                client.set_read_timeout(None).unwrap();
                (answer[..count].to_vec(), late.kind(), client.read(&mut [0]).unwrap())
            }
        });
        let (mut server, _) = listener.accept().await.unwrap().unwrap();
        let mut heard = [0; 4];
        server.read_exact(&mut heard).await.unwrap();
        server.write_all(b"told\n").await.unwrap();
        assert_eq!(server.read(&mut heard).await.unwrap(), 0, "the empty message did not end the requests");
        drop(server);
        assert_eq!(asking.await.unwrap(), (b"told\n".to_vec(), io::ErrorKind::TimedOut, 0));
    }
}
