//! Runs a program on a new terminal, and reads and types there as a person would.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::real::Killed;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::LocalModes;

/// Maximum wait for output from the program, in real time. No test asserts on it.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Terminal {
    child: Killed,
    terminal: File,
    /// Typed keys. A thread writes them, because a write can block while the program ends.
    keys: Sender<Vec<u8>>,
    shown: Receiver<Vec<u8>>,
    /// All output so far.
    text: String,
    /// Length of the output that earlier calls have already returned.
    seen: usize,
}

impl Terminal {
    /// Starts the program in a new session, with the terminal as its controlling terminal.
    pub fn start(command: Command) -> Self {
        Self::sized(command, 24, 80)
    }

    /// As [`Terminal::start`], with a screen of this size.
    pub fn sized(mut command: Command, rows: u16, columns: u16) -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&person).expect("a terminal");
        unlockpt(&person).expect("a terminal");
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&person, size).expect("a terminal");
        let name = ptsname(&person, Vec::new()).expect("the terminal has no name");
        let program: OwnedFd =
            rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("a terminal");
        let end = || Stdio::from(program.try_clone().expect("a descriptor"));
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls are safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().expect("the program did not start");
        // Close our copies of the program's descriptors: otherwise its end is never noticed.
        drop(command);
        drop(program);
        let terminal = File::from(person);
        let mut screen = terminal.try_clone().expect("a descriptor");
        let mut keyboard = terminal.try_clone().expect("a descriptor");
        let (keys, typed) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            while let Ok(bytes) = typed.recv() {
                if keyboard.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // When the last process on the terminal has ended, a read returns an error.
            while let Ok(count) = screen.read(&mut buffer) {
                let Some(bytes) = buffer.get(..count).filter(|it| !it.is_empty()) else { return };
                if sender.send(bytes.to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child: Killed(child), terminal, keys, shown, text: String::new(), seen: 0 }
    }

    /// Waits for one of the words. Returns the new output up to and including this word; the next
    /// call continues after it.
    pub fn until_any(&mut self, words: &[&str]) -> String {
        loop {
            let fresh = self.text.get(self.seen..).unwrap_or_default();
            if let Some(end) = words.iter().filter_map(|word| fresh.find(word).map(|at| at + word.len())).min() {
                let found = fresh.get(..end).unwrap_or_default().to_owned();
                self.seen += end;
                return found;
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(bytes) => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("none of {words:?} was printed; the output is:\n{}", self.text)
                }
            }
        }
    }

    pub fn until(&mut self, word: &str) -> String {
        self.until_any(&[word])
    }

    /// Types these keys. Keys after the end of the program are lost.
    pub fn type_in(&mut self, keys: &str) {
        let _ = self.keys.send(keys.as_bytes().to_vec());
    }

    /// Whether the terminal shows typed keys (echo).
    pub fn shows_keys(&self) -> bool {
        rustix::termios::tcgetattr(&self.terminal).expect("a terminal").local_modes.contains(LocalModes::ECHO)
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Whether the program has ended. Waits up to 50 ms for output first.
    pub fn ended(&mut self) -> bool {
        if let Ok(bytes) = self.shown.recv_timeout(Duration::from_millis(50)) {
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        matches!(self.child.0.try_wait(), Ok(Some(_)))
    }

    /// Waits until the program ends by itself. Returns its status and all its output.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.0.wait().expect("cannot wait for the program");
        while let Ok(bytes) = self.shown.recv() {
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        (status, std::mem::take(&mut self.text))
    }
}

/// Runs a command on a terminal until it ends. Returns its exit code and its output.
pub fn at_a_terminal(command: Command) -> (Option<i32>, String) {
    let (status, text) = Terminal::start(command).end();
    (status.code(), text)
}

/// The text without the sequences that only set a colour or a weight. Every other sequence stays.
pub fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('m') {
            Some((code, rest)) if code.chars().all(|it| it.is_ascii_digit() || it == ';') => plain += rest,
            Some(_) | None => {
                plain += "\u{1b}[";
                plain += part;
            }
        }
    }
    plain
}
