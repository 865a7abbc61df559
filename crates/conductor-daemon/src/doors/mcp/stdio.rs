//! `conductor mcp start`: a small process between the pipes of a client and the socket of the
//! daemon.
//!
//! The proxy passes its input and output to the daemon with its hello, and then only waits. If the
//! daemon cannot use these descriptors, the proxy copies bytes in both directions. stdout is used
//! for the protocol only; messages for a person are passed to `say`. Not here: the content of
//! messages.

use std::future::Future;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use conductor_hosts::system::handoff::{self, Ends, Input, Standard, Target};
use conductor_hosts::system::listener::{Stream, connect as connect_to};

/// The line that the daemon sends to the proxy after the client's last reply.
pub const BYE: &[u8] = b"conductor.bye\n";

/// How long a daemon may take to open its socket after it was started.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How long replies may take after the client has closed its input.
const DRAIN: Duration = Duration::from_secs(15);
const DRAIN_AFTER_SIGNAL: Duration = Duration::from_secs(1);
const COPY_BUFFER: usize = 64 * 1024;

/// How the proxy process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// The daemon did not start, or has closed the connection.
    Lost,
    /// The daemon refused the hello message, for example because it names an unknown toolset.
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

/// The hello message, which is the first line that the proxy sends to the daemon.
#[derive(Debug, Clone, Default)]
pub struct Hello {
    /// If absent, the configuration selects the tools.
    pub tools: Option<Vec<String>>,
    pub tool_names: Option<String>,
    /// Name of the view; if absent, the configuration selects it.
    pub view: Option<String>,
    pub exclude_tools: Option<Vec<String>>,
    pub read_only: bool,
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
        if let Some(view) = &self.view {
            params["view"] = json!(view);
        }
        if let Some(tools) = &self.exclude_tools {
            params["exclude_tools"] = json!(tools);
        }
        if self.read_only {
            params["read_only"] = json!(true);
        }
        let mut line = json!({ "jsonrpc": "2.0", "id": "hello", "method": "conductor.hello", "params": params })
            .to_string()
            .into_bytes();
        line.push(b'\n');
        line
    }
}

/// Connects to the socket, and starts a daemon if none listens. If two proxies start a daemon at
/// the same time, the second daemon refuses to run, and both proxies connect to the first.
async fn connect(socket: &Path, start_daemon: impl FnOnce() -> io::Result<()>) -> io::Result<Stream> {
    let absent = |fault: &io::Error| matches!(fault.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
    match connect_to(socket).await {
        Ok(stream) => return Ok(stream),
        Err(fault) if absent(&fault) => start_daemon()?,
        Err(fault) => return Err(fault),
    }
    let give_up = tokio::time::Instant::now() + START_PATIENCE;
    let mut wait = Duration::from_millis(10);
    loop {
        tokio::time::sleep(wait).await;
        match connect_to(socket).await {
            Ok(stream) => return Ok(stream),
            Err(fault) if absent(&fault) && tokio::time::Instant::now() < give_up => {
                wait = (wait * 2).min(Duration::from_millis(500))
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// Reads the first line, and returns it with the bytes that follow. Those bytes are for the client.
async fn read_line(stream: &mut Stream) -> io::Result<(Vec<u8>, Vec<u8>)> {
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

/// Runs the proxy to its end. `say` prints lines for a person; `signal` resolves when the process
/// should stop.
pub async fn run(
    socket: &Path,
    hello: &Hello,
    start_daemon: impl FnOnce() -> io::Result<()>,
    signal: impl Future<Output = ()>,
    stdin: &impl Standard,
    stdout: &impl Standard,
    say: &dyn Fn(&str),
) -> Exit {
    let mut stream = match connect(socket, start_daemon).await {
        Ok(stream) => stream,
        Err(fault) => {
            say(&format!("conductor: no daemon answers at {}: {fault}", socket.display()));
            return Exit::Lost;
        }
    };
    let greeted = async {
        match Ends::of(stdin, stdout) {
            Some(ends) => handoff::send_with(&stream, &hello.to_line(), ends).await?,
            None => stream.write_all(&hello.to_line()).await?,
        }
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
        say(&format!(
            "conductor: the daemon has version {daemon}, this command has version {}",
            env!("CARGO_PKG_VERSION")
        ));
    }
    if reply.pointer("/result/took") == Some(&Value::Bool(true)) {
        return wait(stream, early, signal, say).await;
    }
    copy(stream, early, signal, handoff::input(stdin), handoff::output(stdout), say).await
}

/// Waits while the daemon serves the client directly. The daemon sends a last line when it is done.
/// If the connection ends without this line, it has broken.
async fn wait(mut stream: Stream, mut heard: Vec<u8>, signal: impl Future<Output = ()>, say: &dyn Fn(&str)) -> Exit {
    // At most one line arrives here.
    const MOST: u64 = 64;
    let mut to_end = async |stream: &mut Stream| {
        let _ = stream.take(MOST).read_to_end(&mut heard).await;
        heard == BYE
    };
    tokio::select! {
        bye = to_end(&mut stream) => {
            if bye {
                return Exit::Done;
            }
            say("conductor: the daemon closed the connection");
            return Exit::Lost;
        }
        () = signal => {}
    }
    // Close only our direction: the daemon reads no more from the client and finishes running
    // requests.
    let _ = stream.shutdown().await;
    let _ = tokio::time::timeout(DRAIN_AFTER_SIGNAL, stream.read_to_end(&mut Vec::new())).await;
    Exit::Done
}

async fn copy(
    stream: Stream,
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
        // Close only our direction: the daemon finishes running requests.
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
        // The daemon closed while the client was still connected. Do not reconnect: the handshake
        // would be lost.
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
