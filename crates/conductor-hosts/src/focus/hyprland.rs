//! The front window of Hyprland. One socket sends events as lines, the other answers requests.

use super::FrontWindow;
use crate::desktop::Unavailable;
use conductor_core::focus::Window;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The longest answer that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Events after which the front window or its title may have changed.
const EVENTS: [&str; 4] = ["activewindow", "windowtitle", "closewindow", "workspace"];

pub struct Watcher {
    requests: PathBuf,
    events: BufReader<UnixStream>,
}

impl Watcher {
    pub fn open(folder: &Path) -> Result<Self, Unavailable> {
        let events = UnixStream::connect(folder.join(".socket2.sock")).map_err(gone)?;
        Ok(Watcher { requests: folder.join(".socket.sock"), events: BufReader::new(events) })
    }
}

impl FrontWindow for Watcher {
    fn current(&mut self) -> Result<Option<Window>, Unavailable> {
        let mut socket = UnixStream::connect(&self.requests).map_err(gone)?;
        socket.write_all(b"j/activewindow").map_err(gone)?;
        let mut answer = Vec::new();
        socket.take(LONGEST).read_to_end(&mut answer).map_err(gone)?;
        Ok(window(&answer))
    }

    fn wait(&mut self) -> Result<(), Unavailable> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut self.events).take(LONGEST).read_until(b'\n', &mut line).map_err(gone)?;
            if read == 0 {
                return Err(gone("the stream of events ended"));
            }
            if EVENTS.iter().any(|it| line.starts_with(it.as_bytes())) {
                return Ok(());
            }
        }
    }
}

/// The window in an answer to `j/activewindow`. Without a window the answer is empty or `{}`.
fn window(answer: &[u8]) -> Option<Window> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let address = answer["address"].as_str()?;
    let id = u64::from_str_radix(address.trim_start_matches("0x"), 16).ok()?;
    let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    Some(Window { id, app: text("class"), title: text("title") })
}

fn gone(why: impl std::fmt::Display) -> Unavailable {
    Unavailable(format!("Hyprland does not report windows: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Written from the documentation of Hyprland. These exchanges never ran with a real Hyprland.
    #[test]
    fn an_event_leads_to_a_request_for_the_window() {
        let dir = tempfile::tempdir().unwrap();
        let events = UnixListener::bind(dir.path().join(".socket2.sock")).unwrap();
        let requests = UnixListener::bind(dir.path().join(".socket.sock")).unwrap();
        let mut watcher = Watcher::open(dir.path()).unwrap();
        let (mut stream, _) = events.accept().unwrap();
        stream.write_all(b"monitoradded>>HDMI-A-1\nactivewindow>>kitty,~\n").unwrap();
        watcher.wait().unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = requests.accept().unwrap();
            let mut asked = [0; 14];
            socket.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"j/activewindow");
            socket.write_all(br#"{"address": "0x5a12", "class": "kitty", "title": "~", "pid": 7}"#).unwrap();
        });
        let front = watcher.current().unwrap();
        server.join().unwrap();
        assert_eq!(front, Some(Window { id: 0x5a12, app: "kitty".into(), title: "~".into() }));
        drop(stream);
        assert!(watcher.wait().is_err());
    }

    #[test]
    fn no_window_is_not_an_error() {
        assert_eq!((window(b"{}"), window(b""), window(b"not json")), (None, None, None));
    }
}
