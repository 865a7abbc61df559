//! The blocking client of `control.sock`, for the command line: one request, one answer, no async
//! runtime.

use super::MAX_LINE;
use super::methods::Request;
use conductor_hosts::system::listener::Blocking;
use serde_json::{Value, json};
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

pub struct Client {
    stream: Blocking,
    input: BufReader<Blocking>,
    /// Number of requests so far, which is also the id of the last request.
    asked: u64,
    patience: Cell<Option<Duration>>,
}

/// Time limit for requests that do not wait for a person or a program.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket is missing, or no process listens on it.
    #[error("no daemon is running here; start one with `conductor up`")]
    NoDaemon,
    #[error("the daemon closed the connection; it may be stopping, or belong to another user")]
    HungUp,
    #[error(
        "the daemon has not answered within {0} s; it hangs or is overloaded. Run `conductor doctor`, which works without the daemon"
    )]
    NoAnswer(u64),
    #[error("the daemon's answer cannot be read: {0}")]
    Unreadable(String),
    #[error("{0}")]
    Io(io::Error),
    /// The daemon answered with an error.
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
    /// `code, message, hint, subject` and other members, if the daemon sent them.
    pub data: Value,
}

impl Client {
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        let stream = Blocking::connect(socket, PATIENCE).map_err(|error| {
            let is_absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
            if is_absent { ClientError::NoDaemon } else { error.into() }
        })?;
        let input = BufReader::new(stream.try_clone()?);
        Ok(Client { stream, input, asked: 0, patience: Cell::new(None) })
    }

    /// Sets a timeout for every answer and item, including those of slow requests.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.patience.set(Some(patience));
        self.wait_at_most(Some(patience))
    }

    /// Ends the connection and waits until the daemon has closed its end.
    pub fn finish(mut self) {
        let _ = self.stream.end_of_requests();
        let _ = self.stream.set_read_timeout(Some(PATIENCE));
        while self.read().is_ok() {}
    }

    /// Returns a function that blocks until the daemon closes the connection. Call it on a separate
    /// thread.
    pub fn watch(&self) -> io::Result<impl FnOnce() + Send + 'static> {
        let mut stream = self.stream.try_clone()?;
        stream.set_read_timeout(None)?;
        Ok(move || {
            let _ = stream.read(&mut [0]);
        })
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let is_slow = Request::is_slow(method);
        if is_slow && self.asked == 0 && self.patience.get().is_none() {
            // Send a quick request first: it fails if the daemon hangs.
            self.ask("tools.list", json!({ "tool": "conductor_panic" }))?;
        }
        self.asked += 1;
        self.wait_at_most(self.patience.get().or((!is_slow).then_some(PATIENCE)))?;
        let request = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        let mut line = request.to_string();
        line.push('\n');
        self.stream.write_all(line.as_bytes())?;
        let mut answer = self.read()?;
        if let Some(error) = answer.get_mut("error") {
            let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
            let message = text(error.get("message")).unwrap_or_else(|| "the daemon gave no reason".to_owned());
            let data = error.get_mut("data").map(Value::take).unwrap_or_default();
            return Err(ClientError::Refused(Refused { message, hint: text(data.get("hint")), data }));
        }
        answer.get_mut("result").map(Value::take).ok_or_else(|| ClientError::Unreadable("no result".to_owned()))
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, ClientError> {
        self.ask("call", json!({ "tool": tool, "arguments": arguments }))
    }

    /// The next item of a stream that `ask` has started; `None` at the end of the stream.
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
        serde_json::from_slice(&line).map_err(|error| ClientError::Unreadable(error.to_string()))
    }
}
