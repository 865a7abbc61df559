//! A client in a separate process. A test that decides as a person cannot be the client too: the
//! daemon refuses decisions from an AI client.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};

#[cfg(unix)]
pub use relay::connect;

/// A connection in both directions.
pub trait Connection: Read + Write + Send {}

impl<T: Read + Write + Send> Connection for T {}

/// A client of `mcp.sock` that calls tools directly: one JSON-RPC request per line, with the tool
/// as its method.
pub struct DirectClient {
    stream: BufReader<Box<dyn Connection>>,
    last_id: u64,
}

impl DirectClient {
    /// Connects through a separate process.
    #[cfg(unix)]
    pub fn connect(home: &std::path::Path) -> Self {
        Self::over(connect(&home.join("mcp.sock")))
    }

    pub fn over(stream: impl Connection + 'static) -> Self {
        DirectClient { stream: BufReader::new(Box::new(stream)), last_id: 0 }
    }

    /// Sends a line and reads the answer.
    pub fn say(&mut self, line: &str) -> Value {
        writeln!(self.stream.get_mut(), "{line}").unwrap();
        self.answer()
    }

    pub fn ask(&mut self, tool: &str, arguments: &Value) {
        self.last_id += 1;
        let line = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": tool, "params": arguments });
        writeln!(self.stream.get_mut(), "{line}").unwrap();
    }

    pub fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line:?}"))
    }

    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask(tool, arguments);
        self.answer()
    }

    /// The result of a call that must succeed.
    pub fn result(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.call(tool, arguments);
        assert!(answer["error"].is_null(), "{tool}: {answer}");
        answer["result"].clone()
    }
}

#[cfg(unix)]
mod relay {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::process::{Command, Stdio};

    const RELAY: &str = "import os, socket, sys, threading
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
ours = socket.socket(fileno=os.dup(0))
def copy(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass
    os._exit(0)
threading.Thread(target=copy, args=(peer, ours), daemon=True).start()
copy(ours, peer)";

    /// Connects to a socket through a separate process, which ends when the stream is closed.
    pub fn connect(socket: &Path) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let end = Stdio::from(OwnedFd::from(theirs));
        let mut relay = Command::new("python3")
            .args(["-c", RELAY])
            .arg(socket)
            .stdin(end)
            .stdout(Stdio::null())
            .spawn()
            .expect("python3 did not start");
        std::thread::spawn(move || relay.wait());
        ours
    }
}
