//! `conductor mcp start`: a thin process between a client's pipes and the daemon's socket.
//!
//! It parses one line, its own hello, and copies bytes after that. stdout belongs to the protocol; what a person should read goes to the
//! given sink. Not here: anything about a message.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::FileType;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// How long a daemon may take to open its socket.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How long replies may take after the client has said all it had to say.
const DRAIN: Duration = Duration::from_secs(15);
const DRAIN_AFTER_SIGNAL: Duration = Duration::from_secs(1);
const COPY_BUFFER: usize = 64 * 1024;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// The daemon is not there, or went away.
    Lost,
    /// The daemon refused the hello: a toolset that does not exist.
    Usage,
}

impl Exit {
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Lost => 1,
            Self::Usage => 2,
        }
    }
}

/// What the daemon is asked for.
#[derive(Debug, Clone, Default)]
pub struct Hello {
    /// Absent: as configured.
    pub tools: Option<Vec<String>>,
    pub tool_names: Option<String>,
}

impl Hello {
    fn to_line(&self) -> Vec<u8> {
        let mut params = json!({ "v": 1 });
        if let Some(tools) = &self.tools {
            params["tools"] = json!(tools);
        }
        if let Some(names) = &self.tool_names {
            params["tool_names"] = json!(names);
        }
        let mut line = json!({ "jsonrpc": "2.0", "id": "hello", "method": "conductor.hello", "params": params })
            .to_string()
            .into_bytes();
        line.push(b'\n');
        line
    }
}

pub type Input = Box<dyn AsyncRead + Unpin + Send>;
pub type Target = Box<dyn AsyncWrite + Unpin + Send>;

/// Opens the socket, starting a daemon when none listens. Two proxies at once end with one daemon: the second to bind refuses, and both
/// find the first.
async fn connect(socket: &Path, start_daemon: impl FnOnce() -> io::Result<()>) -> io::Result<UnixStream> {
    let absent = |fault: &io::Error| matches!(fault.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
    match UnixStream::connect(socket).await {
        Ok(stream) => return Ok(stream),
        Err(fault) if absent(&fault) => start_daemon()?,
        Err(fault) => return Err(fault),
    }
    let give_up = tokio::time::Instant::now() + START_PATIENCE;
    let mut wait = Duration::from_millis(10);
    loop {
        tokio::time::sleep(wait).await;
        match UnixStream::connect(socket).await {
            Ok(stream) => return Ok(stream),
            Err(fault) if absent(&fault) && tokio::time::Instant::now() < give_up => {
                wait = (wait * 2).min(Duration::from_millis(500))
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// Reads exactly one line; bytes that came with it belong to the client.
async fn read_line(stream: &mut UnixStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            let rest = bytes.split_off(at + 1);
            return Ok((bytes, rest));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Runs the proxy to its end. `say` takes lines for a person; `signal` resolves when the process should stop.
pub async fn run(
    socket: &Path,
    hello: &Hello,
    start_daemon: impl FnOnce() -> io::Result<()>,
    signal: impl Future<Output = ()>,
    input: Input,
    output: Target,
    say: &dyn Fn(&str),
) -> Exit {
    let mut stream = match connect(socket, start_daemon).await {
        Ok(stream) => stream,
        Err(fault) => {
            say(&format!("conductor: no daemon at {}: {fault}", socket.display()));
            return Exit::Lost;
        }
    };
    let greeted = async {
        stream.write_all(&hello.to_line()).await?;
        read_line(&mut stream).await
    };
    let (reply, early) = match greeted.await {
        Ok(lines) => lines,
        Err(fault) => {
            say(&format!("conductor: the daemon did not answer: {fault}"));
            return Exit::Lost;
        }
    };
    let reply: Value = serde_json::from_slice(&reply).unwrap_or(Value::Null);
    if let Some(error) = reply.get("error") {
        say(&format!("conductor: {}", error.get("message").and_then(Value::as_str).unwrap_or("the daemon refused")));
        return Exit::Usage;
    }
    let daemon = reply.pointer("/result/daemon").and_then(Value::as_str).unwrap_or("unknown");
    if daemon != env!("CARGO_PKG_VERSION") {
        say(&format!("conductor: the daemon is version {daemon}, this is {}", env!("CARGO_PKG_VERSION")));
    }
    copy(stream, early, signal, input, output, say).await
}

async fn copy(
    stream: UnixStream,
    early: Vec<u8>,
    signal: impl Future<Output = ()>,
    mut input: Input,
    mut output: Target,
    say: &dyn Fn(&str),
) -> Exit {
    let (mut from_daemon, mut to_daemon) = stream.into_split();
    let up = async move {
        let copied =
            tokio::io::copy_buf(&mut tokio::io::BufReader::with_capacity(COPY_BUFFER, &mut input), &mut to_daemon)
                .await;
        // Half-closed: the daemon finishes what it was asked.
        let _ = to_daemon.shutdown().await;
        copied.is_ok()
    };
    let down = async move {
        output.write_all(&early).await?;
        let mut buffer = vec![0; COPY_BUFFER];
        loop {
            let count = from_daemon.read(&mut buffer).await?;
            let Some(bytes) = buffer.get(..count).filter(|it| !it.is_empty()) else { break };
            output.write_all(bytes).await?;
            output.flush().await?;
        }
        io::Result::Ok(())
    };
    tokio::pin!(up, down, signal);
    let drain = tokio::select! {
        // The daemon closed while the client still had something to say. No silent reconnect: a handshake would be lost.
        _ = &mut down => {
            say("conductor: the daemon closed the connection");
            return Exit::Lost;
        }
        _ = &mut up => DRAIN,
        () = &mut signal => DRAIN_AFTER_SIGNAL,
    };
    let _ = tokio::time::timeout(drain, down).await;
    Exit::Done
}

/// How a descriptor is driven. Node hands its children socket pairs, not FIFOs; without this the common fast path never engages there.
pub fn input(fd: BorrowedFd<'_>) -> Input {
    match kind(fd) {
        Some(FileType::Fifo) => match reopen(fd).and_then(pipe::Receiver::from_file) {
            Ok(pipe) => Box::new(pipe),
            Err(_) => Box::new(tokio::io::stdin()),
        },
        Some(FileType::Socket) => match socket(fd) {
            Ok(stream) => Box::new(stream),
            Err(_) => Box::new(tokio::io::stdin()),
        },
        Some(_) | None => Box::new(tokio::io::stdin()),
    }
}

pub fn output(fd: BorrowedFd<'_>) -> Target {
    match kind(fd) {
        Some(FileType::Fifo) => match reopen_write(fd).and_then(pipe::Sender::from_file) {
            Ok(pipe) => Box::new(pipe),
            Err(_) => Box::new(tokio::io::stdout()),
        },
        Some(FileType::Socket) => match socket(fd) {
            Ok(stream) => Box::new(stream),
            Err(_) => Box::new(tokio::io::stdout()),
        },
        Some(_) | None => Box::new(tokio::io::stdout()),
    }
}

fn kind(fd: BorrowedFd<'_>) -> Option<FileType> {
    rustix::fs::fstat(fd).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// A file description of our own: the non-blocking flag must not leak into whoever shares the pipe.
fn reopen(fd: BorrowedFd<'_>) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn reopen_write(fd: BorrowedFd<'_>) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn socket(fd: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let domain = rustix::net::sockopt::socket_domain(fd)?;
    if domain != rustix::net::AddressFamily::UNIX {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let own = fd.as_fd().try_clone_to_owned()?;
    let stream = std::os::unix::net::UnixStream::from(own);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
