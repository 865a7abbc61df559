//! A client of `control.sock` with a time limit for every answer. The harness does not use the
//! product's client, so that a fault of that client cannot hide a fault of the daemon.

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

#[derive(Debug)]
pub enum ClientError {
    /// No answer within the time limit.
    NoAnswer,
    /// The daemon closed the connection, or there is no daemon.
    Closed(io::Error),
    /// The daemon answered with this error.
    Refused(Value),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::NoAnswer => f.write_str("no answer within the time limit"),
            ClientError::Closed(error) => write!(f, "{error}"),
            ClientError::Refused(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            ClientError::NoAnswer
        } else {
            ClientError::Closed(error)
        }
    }
}

pub struct Client {
    stream: BufReader<UnixStream>,
    asked: u64,
}

impl Client {
    pub fn connect(socket: &Path, patience: Duration) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(patience))?;
        let client = Client { stream: BufReader::new(stream), asked: 0 };
        client.set_patience(Some(patience))?;
        Ok(client)
    }

    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(patience)
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        self.asked += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        let mut answer = self.read()?;
        match answer.get_mut("error").map(Value::take) {
            Some(error) => Err(ClientError::Refused(error)),
            None => Ok(answer["result"].take()),
        }
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, ClientError> {
        self.ask("call", json!({ "tool": tool, "arguments": arguments }))
    }

    /// The next item of a stream that `ask` has started.
    pub fn next_item(&mut self) -> Result<Value, ClientError> {
        Ok(self.read()?["params"].take())
    }

    fn read(&mut self) -> Result<Value, ClientError> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ClientError::Closed(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_str(&line).map_err(|error| ClientError::Closed(error.into()))
    }
}
