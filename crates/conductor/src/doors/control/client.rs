//! The other end of `control.sock`, for the command line. Plain blocking reads: one question, one
//! answer, no runtime.

use super::MAX_LINE;
use serde_json::{Value, json};
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub struct Client {
    stream: UnixStream,
    input: BufReader<UnixStream>,
    asked: u64,
    patience: Cell<Option<Duration>>,
}

/// Time that the daemon may take for what it does at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// What these methods wait for takes its own time: a person, a program, a whole piece of music.
const LONG: [&str; 14] = [
    "call",
    "play",
    "learn.start",
    "plans.apply",
    "plans.undo",
    "llm_apply_plan",
    "reload",
    "secrets.set",
    "secrets.remove",
    "secrets.rotate",
    "plugins.check",
    "plugins.enable",
    "config.accept",
    "live.examine",
];

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon: the socket is missing, or nobody listens on it.
    #[error("no daemon is running here; start one with `conductor up`")]
    NoDaemon,
    #[error("the daemon hung up; it may be stopping, or belong to another user")]
    HungUp,
    #[error(
        "the daemon has not answered within {0} s; it hangs or has too much to do. `conductor doctor` looks without it"
    )]
    NoAnswer(u64),
    #[error("the daemon's answer makes no sense: {0}")]
    Nonsense(String),
    #[error("{0}")]
    Io(io::Error),
    /// The daemon's own refusal.
    #[error("{}", .0.message)]
    Refused(Refused),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        let is = |kinds: [io::ErrorKind; 2]| kinds.contains(&error.kind());
        if is([io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset]) {
            ClientError::HungUp
        } else if is([io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut]) {
            ClientError::NoAnswer(PATIENCE.as_secs())
        } else {
            ClientError::Io(error)
        }
    }
}

/// The error object of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub message: String,
    pub hint: Option<String>,
    /// `code, message, hint, subject` and more, where the daemon gave them.
    pub data: Value,
}

impl Client {
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        let stream = connect(socket).map_err(|error| {
            let nobody = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
            if nobody { ClientError::NoDaemon } else { error.into() }
        })?;
        let input = BufReader::new(stream.try_clone()?);
        Ok(Client { stream, input, asked: 0, patience: Cell::new(None) })
    }

    /// How long every answer and every item is waited for, whatever was asked.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.patience.set(Some(patience));
        self.wait_at_most(Some(patience))
    }

    /// Nothing more is asked; waits until the daemon has noticed.
    pub fn finish(mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        let _ = self.stream.set_read_timeout(Some(PATIENCE));
        while self.read().is_ok() {}
    }

    /// Answers when the daemon has hung up, from a thread of its own.
    pub fn watch(&self) -> io::Result<impl FnOnce() + Send + 'static> {
        let mut stream = self.stream.try_clone()?;
        stream.set_read_timeout(None)?;
        Ok(move || {
            let _ = stream.read(&mut [0]);
        })
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let is_long = LONG.contains(&method);
        if is_long && self.asked == 0 && self.patience.get().is_none() {
            // A daemon that hangs is noticed by what it should answer at once.
            self.ask("modes", json!({}))?;
        }
        self.asked += 1;
        self.wait_at_most(self.patience.get().or((!is_long).then_some(PATIENCE)))?;
        let request = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        let mut line = request.to_string();
        line.push('\n');
        self.stream.write_all(line.as_bytes())?;
        let mut answer = self.read()?;
        if let Some(error) = answer.get_mut("error") {
            let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
            let message = text(error.get("message")).unwrap_or_else(|| "refused without a reason".to_owned());
            let data = error.get_mut("data").map(Value::take).unwrap_or_default();
            return Err(ClientError::Refused(Refused { message, hint: text(data.get("hint")), data }));
        }
        answer.get_mut("result").map(Value::take).ok_or_else(|| ClientError::Nonsense("no result".to_owned()))
    }

    /// The next item of a stream that `ask` has started; `None` at its end.
    pub fn next_item(&mut self) -> Result<Option<Value>, ClientError> {
        self.wait_at_most(self.patience.get())?;
        match self.read() {
            Ok(mut note) => Ok(Some(note.get_mut("params").map(Value::take).unwrap_or_default())),
            Err(ClientError::HungUp) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(time)
    }

    fn read(&mut self) -> Result<Value, ClientError> {
        let mut line = Vec::new();
        (&mut self.input).take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(ClientError::HungUp);
        }
        serde_json::from_slice(&line).map_err(|error| ClientError::Nonsense(error.to_string()))
    }
}

/// As `UnixStream::connect`, which waits for ever when the daemon accepts nobody.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, socket as new_socket};
    let made = new_socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&made, rustix::io::FdFlags::CLOEXEC)?;
    set_socket_timeout(&made, Timeout::Send, Some(PATIENCE))?;
    rustix::net::connect(&made, &SocketAddrUnix::new(socket)?)?;
    Ok(UnixStream::from(made))
}
