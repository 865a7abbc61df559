//! The other end of `control.sock`, for the command line. Plain blocking reads: one question, one answer, no runtime.

use super::MAX_LINE;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub struct Client {
    stream: UnixStream,
    input: BufReader<UnixStream>,
    asked: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon: the socket is missing, or nobody listens on it.
    #[error("no daemon is running here; start one with `conductor up`")]
    NoDaemon,
    #[error("the daemon hung up; it may be stopping, or belong to another user")]
    HungUp,
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
        let gone = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        if gone { ClientError::HungUp } else { ClientError::Io(error) }
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
        let stream = UnixStream::connect(socket).map_err(|error| {
            let nobody = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
            if nobody { ClientError::NoDaemon } else { ClientError::Io(error) }
        })?;
        let input = BufReader::new(stream.try_clone()?);
        Ok(Client { stream, input, asked: 0 })
    }

    /// How long an answer or an item is waited for; for ever unless told.
    pub fn set_patience(&self, patience: std::time::Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        self.asked += 1;
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
        match self.read() {
            Ok(mut note) => Ok(Some(note.get_mut("params").map(Value::take).unwrap_or_default())),
            Err(ClientError::HungUp) => Ok(None),
            Err(error) => Err(error),
        }
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
