//! The front window of niri, over its IPC socket: JSON, one value per line.

use super::FrontWindow;
use crate::desktop::Unavailable;
use conductor_core::focus::Window;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The longest line that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Events after which the front window or its title may have changed.
const EVENTS: [&str; 4] = ["WindowFocusChanged", "WindowOpenedOrChanged", "WindowClosed", "WindowsChanged"];

pub struct Watcher {
    socket: PathBuf,
    events: BufReader<UnixStream>,
}

impl Watcher {
    pub fn open(socket: &Path) -> Result<Self, Unavailable> {
        let mut events = request(socket, "EventStream")?;
        read_line(&mut events)?;
        Ok(Watcher { socket: socket.to_owned(), events })
    }
}

impl FrontWindow for Watcher {
    fn current(&mut self) -> Result<Option<Window>, Unavailable> {
        let answer = read_line(&mut request(&self.socket, "FocusedWindow")?)?;
        let front = &answer["Ok"]["FocusedWindow"];
        let text = |key: &str| front[key].as_str().unwrap_or_default().to_owned();
        Ok(front["id"].as_u64().map(|id| Window { id, app: text("app_id"), title: text("title") }))
    }

    fn wait(&mut self) -> Result<(), Unavailable> {
        loop {
            let event = read_line(&mut self.events)?;
            if EVENTS.iter().any(|it| event.get(it).is_some()) {
                return Ok(());
            }
        }
    }
}

fn request(socket: &Path, name: &str) -> Result<BufReader<UnixStream>, Unavailable> {
    let mut stream = UnixStream::connect(socket).map_err(gone)?;
    writeln!(stream, "\"{name}\"").map_err(gone)?;
    Ok(BufReader::new(stream))
}

fn read_line(stream: &mut BufReader<UnixStream>) -> Result<Value, Unavailable> {
    let mut line = Vec::new();
    match stream.take(LONGEST).read_until(b'\n', &mut line).map_err(gone)? {
        0 => Err(gone("the connection was closed")),
        _ => serde_json::from_slice(&line).map_err(gone),
    }
}

fn gone(why: impl std::fmt::Display) -> Unavailable {
    Unavailable(format!("niri does not report windows: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Written from the documentation of niri. These exchanges never ran with a real niri.
    #[test]
    fn an_event_leads_to_a_request_for_the_window() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("niri.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let answer = |expected: &str, lines: &str| {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = BufReader::new(stream);
                let mut asked = String::new();
                stream.read_line(&mut asked).unwrap();
                assert_eq!(asked.trim(), expected);
                stream.get_mut().write_all(lines.as_bytes()).unwrap();
                stream
            };
            let events = "{\"Ok\":\"Handled\"}\n{\"WorkspacesChanged\":{\"workspaces\":[]}}\n{\"WindowFocusChanged\":{\"id\":3}}\n";
            let stream = answer("\"EventStream\"", events);
            answer(
                "\"FocusedWindow\"",
                "{\"Ok\":{\"FocusedWindow\":{\"id\":3,\"title\":\"Set\",\"app_id\":\"foot\"}}}\n",
            );
            answer("\"FocusedWindow\"", "{\"Ok\":{\"FocusedWindow\":null}}\n");
            drop(stream);
        });
        let mut watcher = Watcher::open(&path).unwrap();
        watcher.wait().unwrap();
        let front = Window { id: 3, app: "foot".into(), title: "Set".into() };
        assert_eq!(watcher.current().unwrap(), Some(front));
        assert_eq!(watcher.current().unwrap(), None);
        server.join().unwrap();
        assert!(watcher.wait().is_err());
    }
}
