//! A measured server: sends calls, reads their replies, and reads the processor time and memory of
//! the server's processes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Microseconds per tick of the times in `/proc/PID/stat`, where Linux counts 100 ticks a second.
const TICK_US: u64 = 10_000;

/// `NAME=unix:PATH`, `NAME=stdio:PROGRAM,ARG...` or `NAME=http:HOST:PORT[/TOKEN]`, followed by
/// `@TOOL[,ARGUMENT]`, and by `+PID` for each process of the server that this program does not
/// start.
pub struct Target {
    pub name: String,
    address: String,
    tool: String,
    arguments: String,
    pids: Vec<u32>,
}

impl Target {
    pub fn parse(word: &str) -> Option<Self> {
        let (name, rest) = word.split_once('=')?;
        let mut parts = rest.split('+');
        let (address, call) = parts.next()?.rsplit_once('@')?;
        let (tool, arguments) = match call.split_once(',') {
            Some((tool, argument)) => (tool, format!("{{\"{argument}\":\"hello there\"}}")),
            None => (call, "{}".to_owned()),
        };
        let pids = parts.filter_map(|it| it.parse().ok()).collect();
        Some(Self { name: name.into(), address: address.into(), tool: tool.into(), arguments, pids })
    }

    fn call(&self, id: usize) -> String {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{}\",\"arguments\":{}}}}}",
            self.tool, self.arguments
        )
    }
}

const INITIALIZE: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"init\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}";
const INITIALIZED: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

pub struct Server<'a> {
    target: &'a Target,
    wire: Wire,
    child: Option<Child>,
    /// Time from the start of the process, or of the connection, to the first reply.
    pub first: Duration,
}

enum Wire {
    Lines(Lines),
    Http(Http),
}

struct Lines {
    write: Pipe,
    read: BufReader<Box<dyn Read>>,
    line: String,
}

enum Pipe {
    Socket(UnixStream),
    Child(ChildStdin),
}

impl Pipe {
    fn send(&mut self, text: &str) -> io::Result<()> {
        let line = format!("{text}\n");
        match self {
            Self::Socket(it) => it.write_all(line.as_bytes()),
            Self::Child(it) => it.write_all(line.as_bytes()),
        }
    }
}

impl Lines {
    /// Reads lines until one of them is a reply.
    fn reply(&mut self) -> io::Result<()> {
        loop {
            self.line.clear();
            if self.read.read_line(&mut self.line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if judge(&self.line)? {
                return Ok(());
            }
        }
    }
}

/// Whether the text is the result of a call. A protocol or tool error ends the measurement, because
/// refused calls must not be measured.
fn judge(text: &str) -> io::Result<bool> {
    if text.contains("\"error\"") || text.contains("\"isError\":true") {
        return Err(io::Error::other(text.to_owned()));
    }
    Ok(text.contains("\"result\""))
}

/// One HTTP session over persistent connections. Each connection has one request at a time.
struct Http {
    authority: String,
    token: Option<String>,
    session: Option<String>,
    connections: Vec<BufReader<TcpStream>>,
    /// The connection for the next write, and the connection for the next read.
    next: usize,
    waiting: usize,
}

impl Http {
    fn connect(&mut self, count: usize) -> io::Result<()> {
        while self.connections.len() < count {
            let stream = TcpStream::connect(&self.authority)?;
            stream.set_nodelay(true)?;
            self.connections.push(BufReader::new(stream));
        }
        Ok(())
    }

    fn send(&mut self, body: &str) -> io::Result<()> {
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\n",
            self.authority,
            body.len()
        );
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if let Some(session) = &self.session {
            head.push_str(&format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-06-18\r\n"));
        }
        head.push_str("\r\n");
        head.push_str(body);
        let at = self.next % self.connections.len();
        self.next += 1;
        let connection = self.connections.get_mut(at).ok_or(io::ErrorKind::NotConnected)?;
        connection.get_mut().write_all(head.as_bytes())
    }

    /// Reads the complete answer to the oldest open request.
    fn reply(&mut self) -> io::Result<String> {
        let at = self.waiting % self.connections.len();
        self.waiting += 1;
        let connection = self.connections.get_mut(at).ok_or(io::ErrorKind::NotConnected)?;
        let (mut length, mut chunked) = (0, false);
        let mut line = String::new();
        connection.read_line(&mut line)?;
        if !line.contains(" 20") {
            return Err(io::Error::other(line));
        }
        loop {
            line.clear();
            connection.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(io::Error::other)?,
                "transfer-encoding" => chunked = value.contains("chunked"),
                "mcp-session-id" => self.session = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut body = Vec::new();
        if !chunked {
            body.resize(length, 0);
            connection.read_exact(&mut body)?;
        }
        while chunked {
            line.clear();
            connection.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            let start = body.len();
            body.resize(start + size + 2, 0);
            connection.read_exact(body.get_mut(start..).unwrap_or_default())?;
            body.truncate(start + size);
            chunked = size > 0;
        }
        String::from_utf8(body).map_err(io::Error::other)
    }
}

impl<'a> Server<'a> {
    pub fn open(target: &'a Target) -> io::Result<Self> {
        let started = Instant::now();
        let mut child = None;
        let wire = match target.address.split_once(':') {
            Some(("unix", path)) => {
                let stream = UnixStream::connect(path)?;
                let write = Pipe::Socket(stream.try_clone()?);
                Wire::Lines(Lines { write, read: BufReader::new(Box::new(stream)), line: String::new() })
            }
            Some(("stdio", command)) => {
                let mut words = command.split(',');
                let program = words.next().unwrap_or_default();
                let mut command = Command::new(program);
                command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
                let mut started = command.spawn()?;
                let gone = || io::Error::other("no pipe");
                let (stdin, stdout) = (started.stdin.take().ok_or_else(gone)?, started.stdout.take().ok_or_else(gone)?);
                child = Some(started);
                let write = Pipe::Child(stdin);
                Wire::Lines(Lines { write, read: BufReader::new(Box::new(stdout)), line: String::new() })
            }
            Some(("http", place)) => {
                let (authority, token) = match place.split_once('/') {
                    Some((authority, token)) => (authority, Some(token.to_owned())),
                    None => (place, None),
                };
                let mut http = Http {
                    authority: authority.into(),
                    token,
                    session: None,
                    connections: Vec::new(),
                    next: 0,
                    waiting: 0,
                };
                http.connect(1)?;
                Wire::Http(http)
            }
            _ => return Err(io::Error::other("the address must be unix:PATH, stdio:PROGRAM or http:HOST:PORT")),
        };
        let mut server = Self { target, wire, child, first: Duration::ZERO };
        server.send(INITIALIZE)?;
        server.reply()?;
        server.first = started.elapsed();
        server.send(INITIALIZED)?;
        if let Wire::Http(http) = &mut server.wire {
            // Over HTTP, even a notification has an answer, which is empty.
            http.reply()?;
        }
        Ok(server)
    }

    /// Opens more connections: over HTTP, each call in flight needs a separate connection.
    pub fn widen(&mut self, in_flight: usize) -> io::Result<()> {
        match &mut self.wire {
            Wire::Lines(_) => Ok(()),
            Wire::Http(http) => {
                (http.next, http.waiting) = (0, 0);
                http.connect(in_flight)
            }
        }
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        match &mut self.wire {
            Wire::Lines(lines) => lines.write.send(text),
            Wire::Http(http) => http.send(text),
        }
    }

    pub fn call(&mut self, id: usize) -> io::Result<()> {
        self.send(&self.target.call(id))
    }

    pub fn reply(&mut self) -> io::Result<()> {
        match &mut self.wire {
            Wire::Lines(lines) => lines.reply(),
            Wire::Http(http) => {
                let text = http.reply()?;
                if judge(&text)? { Ok(()) } else { Err(io::Error::other(text)) }
            }
        }
    }

    fn processes(&self) -> impl Iterator<Item = u32> {
        self.target.pids.iter().copied().chain(self.child.as_ref().map(Child::id))
    }

    /// Processor time of all processes of the server, in microseconds.
    pub fn worked_us(&self) -> u64 {
        self.processes().filter_map(worked_us).sum()
    }

    pub fn resident_kib(&self) -> u64 {
        self.processes().filter_map(resident_kib).sum()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn worked_us(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * TICK_US)
}

pub fn resident_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|it| it.starts_with("VmRSS"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
