//! Reads and writes the stdin and stdout of a client, and passes their descriptors from the proxy
//! to the daemon.
//!
//! Node passes socket pairs to its children, and most other programs pass FIFOs. Both can be
//! polled. Terminals and files are read by a blocking thread and cannot be passed to the daemon.
//! Not here: the messages.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::unix::pipe;

use super::listener::{Stream, Watched};

pub type Input = Box<dyn AsyncRead + Unpin + Send>;
pub type Target = Box<dyn AsyncWrite + Unpin + Send>;

/// stdin or stdout of this process.
pub use std::os::fd::AsFd as Standard;

/// The descriptors of a client's stdin and stdout. Both are of a kind that can be polled.
#[derive(Debug)]
pub struct Ends {
    input: OwnedFd,
    output: OwnedFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fifo,
    Socket,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

fn kind(fd: BorrowedFd<'_>) -> Kind {
    let Ok(stat) = rustix::fs::fstat(fd) else { return Kind::Other };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => {
            let is_unix = rustix::net::getsockname(fd).map(|it| it.address_family()) == Ok(AddressFamily::UNIX);
            let is_stream = rustix::net::sockopt::socket_type(fd) == Ok(rustix::net::SocketType::STREAM);
            if is_unix && is_stream { Kind::Socket } else { Kind::Other }
        }
        FileType::RegularFile
        | FileType::Directory
        | FileType::Symlink
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Kind::Other,
    }
}

impl Ends {
    /// Copies both descriptors for another process. Returns `None` if one of them cannot be polled.
    pub fn of(stdin: &impl Standard, stdout: &impl Standard) -> Option<Self> {
        Some(Self { input: own(stdin.as_fd(), Way::In)?, output: own(stdout.as_fd(), Way::Out)? })
    }

    /// Uses both descriptors in this process. Also returns a copy of the output, to check whether
    /// the client still reads. Fails if a descriptor cannot be polled, because the sender may pass
    /// any descriptor.
    pub fn drive(self) -> io::Result<(Input, Target, Watched)> {
        let watched = Watched::from(self.output.try_clone()?);
        Ok((input_from(self.input)?, output_from(self.output)?, watched))
    }
}

/// Duplicates a descriptor. A FIFO is opened again as a separate file description, so that the
/// non-blocking flag does not affect other users of the pipe. Returns `None` if the descriptor
/// cannot be polled.
fn own(fd: BorrowedFd<'_>, way: Way) -> Option<OwnedFd> {
    match kind(fd) {
        Kind::Fifo => reopen(fd, way).ok(),
        Kind::Socket => fd.try_clone_to_owned().ok(),
        Kind::Other => None,
    }
}

fn reopen(fd: BorrowedFd<'_>, way: Way) -> io::Result<OwnedFd> {
    let way = match way {
        Way::In => OFlags::RDONLY,
        Way::Out => OFlags::WRONLY,
    };
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    Ok(rustix::fs::open(path, way | OFlags::NONBLOCK | OFlags::CLOEXEC, rustix::fs::Mode::empty())?)
}

fn input_from(fd: OwnedFd) -> io::Result<Input> {
    match kind(fd.as_fd()) {
        Kind::Fifo => Ok(Box::new(pipe::Receiver::from_owned_fd(fd)?)),
        Kind::Socket => Ok(Box::new(socket(fd)?)),
        Kind::Other => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn output_from(fd: OwnedFd) -> io::Result<Target> {
    match kind(fd.as_fd()) {
        Kind::Fifo => Ok(Box::new(pipe::Sender::from_owned_fd(fd)?)),
        Kind::Socket => Ok(Box::new(socket(fd)?)),
        Kind::Other => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn socket(fd: OwnedFd) -> io::Result<Stream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    Stream::from_std(stream)
}

/// Reads stdin in this process. If stdin cannot be polled, a blocking thread reads it.
pub fn input(stdin: &impl Standard) -> Input {
    own(stdin.as_fd(), Way::In).and_then(|fd| input_from(fd).ok()).unwrap_or_else(|| Box::new(tokio::io::stdin()))
}

pub fn output(stdout: &impl Standard) -> Target {
    own(stdout.as_fd(), Way::Out).and_then(|fd| output_from(fd).ok()).unwrap_or_else(|| Box::new(tokio::io::stdout()))
}

// On Linux, these flags prevent SIGPIPE and set close-on-exec. On other systems, close-on-exec is
// set afterwards, and Rust programs ignore SIGPIPE.
#[cfg(target_os = "linux")]
const SEND: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const SEND: SendFlags = SendFlags::empty();
#[cfg(target_os = "linux")]
const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVE: RecvFlags = RecvFlags::empty();

fn keep_from_children(fd: &OwnedFd) {
    if RECEIVE.is_empty() {
        // This fails only for an invalid descriptor, and this descriptor is valid.
        let _ = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC);
    }
}

/// Sends one line together with both descriptors.
pub async fn send_with(stream: &Stream, line: &[u8], ends: Ends) -> io::Result<()> {
    let sent = stream
        .async_io(Interest::WRITABLE, || {
            let fds = [ends.input.as_fd(), ends.output.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut rights = SendAncillaryBuffer::new(&mut space);
            rights.push(SendAncillaryMessage::ScmRights(&fds));
            Ok(rustix::net::sendmsg(stream, &[IoSlice::new(line)], &mut rights, SEND)?)
        })
        .await?;
    // The socket is empty and the line is short, so the kernel accepts the whole line at once.
    if sent == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The first bytes of a connection, and the descriptors that were sent with them. Both are empty if
/// the peer has closed the connection.
pub async fn receive_first(stream: &mut Stream, most: usize) -> io::Result<(Vec<u8>, Option<Ends>)> {
    let stream = &*stream;
    stream
        .async_io(Interest::READABLE, || {
            let mut bytes = vec![0; most];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut rights = RecvAncillaryBuffer::new(&mut space);
            let got = rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut bytes)], &mut rights, RECEIVE)?;
            bytes.truncate(got.bytes);
            // Descriptors that are not used here are closed.
            let mut fds = rights
                .drain()
                .filter_map(|message| if let RecvAncillaryMessage::ScmRights(fds) = message { Some(fds) } else { None })
                .flatten()
                .inspect(keep_from_children);
            let ends = match (fds.next(), fds.next()) {
                (Some(input), Some(output)) => Some(Ends { input, output }),
                (Some(_) | None, _) => None,
            };
            Ok((bytes, ends))
        })
        .await
}
