//! A client in a process of its own. A test that decides as a person must not be the client as
//! well: its own yes would be refused.

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

/// A connection to a socket that a process of its own has made. It ends with the stream.
pub fn connect(socket: &Path) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let end = Stdio::from(OwnedFd::from(theirs));
    let mut relay = Command::new("python3")
        .args(["-c", RELAY])
        .arg(socket)
        .stdin(end)
        .stdout(Stdio::null())
        .spawn()
        .expect("python3 starts");
    std::thread::spawn(move || relay.wait());
    ours
}
