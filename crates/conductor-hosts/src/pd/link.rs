//! A Pd process for which the daemon replaces the user interface. Pd connects to the daemon. The
//! daemon sends messages to Pd, and Pd replies with Tcl commands.
//!
//! There are three threads. The writer sends all messages, so that a reply to Pd's ping is never
//! inserted into another message. The reader receives Pd's commands and waits for nothing else. The
//! third thread forwards Pd's stderr. Not here: the contents of messages (`mirror`).

use super::Settings;
use super::fudi::Messages;
use super::mirror::Wire;
use super::sandbox::{Network, Sandbox, Sound};
use super::tcl::{Reader, Word};
use crate::bridges::is_mine;
use crate::patch::console::{Level, Source, Voice};
use crate::system::wait::{Waited, for_connection};
use crate::system::{Clock, Environment, basic_variables, children, program_of, runtime_folders, variables};
use conductor_core::config::PdAudio;
use conductor_core::event::Micros;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::Builder;
use std::time::Duration;

/// Time limit for a new Pd to connect.
const CONTACT: Duration = Duration::from_secs(10);
/// Character sizes that Pd's user interface reports at the start, plain and zoomed: font size,
/// width, height.
const FONTS: [&str; 36] = [
    "8", "5", "11", "10", "6", "13", "12", "7", "16", "16", "10", "19", "24", "14", "29", "36", "22", "44", "16", "10",
    "23", "20", "12", "27", "24", "14", "32", "32", "20", "44", "48", "28", "58", "72", "44", "89",
];
/// Part of the name of every temporary file for Pd.
pub const TEMPORARY: &str = ".conductor-pd-";

/// Why Pd did not reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The process has ended.
    Gone,
    /// The process runs but did not reply in time.
    Late,
}

pub struct Link {
    child: Child,
    out: Sender<String>,
    heard: Receiver<Option<Word>>,
    /// Whether a call is waiting for words (parsed commands) from Pd.
    listening: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
    asked: u64,
    answered: u64,
    version: (u32, u32, u32),
}

impl Link {
    /// Starts Pd in `folder` and waits until it has reported its version. Pd may read and write
    /// `folders`. `ended` is called once, when the process has ended.
    pub fn start(
        settings: &Settings,
        (folder, folders): (&Path, &[PathBuf]),
        voice: &Voice,
        clock: &Arc<dyn Clock>,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Link, String> {
        let environment = Environment::read();
        let program = program_of(&settings.command, &environment.search_path)
            .and_then(|it| dunce::canonicalize(it).ok())
            .ok_or_else(|| format!("{:?} was not found", settings.command))?;
        let sandbox = Sandbox {
            program: &program,
            folders,
            audio: settings.audio,
            walls: settings.walls,
            user_home: environment.user_home.as_deref(),
            runtime: &runtime_folders(),
        };
        let grain = settings.sleepgrain_ms.to_string();
        let made = |port: u16| {
            let mut command = Command::new(&program);
            // Pd finds its own files through the name that it was started with.
            children::set_own_name(&mut command, &settings.command);
            command
                .args(["-guiport", &port.to_string(), "-noprefs", "-nomidi", "-nrt", "-sleepgrain", &grain])
                .args(match settings.audio {
                    PdAudio::Off => &["-noaudio"][..],
                    PdAudio::Default => &[],
                    PdAudio::Jack => &["-jack", "-jackname", "conductor-pd"],
                })
                .env_clear()
                .envs(basic_variables())
                .envs(variables(Sound::of(settings.audio).variables))
                .current_dir(folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            command
        };
        let spawned = sandbox.spawn(made);
        let (mut child, listener, kept) =
            spawned.map_err(|fault| format!("{} does not start: {fault}", program.display()))?;
        let port = listener.local_addr().map_or(0, |it| it.port());
        let text = format!("starting {:?}; {}", made(port), kept.sentence());
        voice.say(Source::Conductor, Level::Info, None, None, text);
        let socket = match accept(&listener, &child, kept.network) {
            Ok(socket) => socket,
            Err(why) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(why);
            }
        };
        let started = Self::speak(child, socket, voice, clock, ended);
        let mut link = started.map_err(|fault| format!("its threads cannot be started: {fault}"))?;
        let mut arguments = vec![folder.to_str().unwrap_or("/"), "0"];
        arguments.extend(FONTS);
        link.say("pd", "init", &arguments);
        if settings.audio != PdAudio::Off {
            link.say("pd", "dsp", &["1"]);
        }
        link.wait_for(5_000_000, |word| {
            if let Word::Startup { major, minor, bug } = word { Some((*major, *minor, *bug)) } else { None }
        })
        .map_err(|why| format!("it did not report its version: {why:?}"))
        .map(|version| {
            link.version = version;
            link
        })
    }

    fn speak(
        mut child: Child,
        socket: TcpStream,
        voice: &Voice,
        clock: &Arc<dyn Clock>,
        ended: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Link> {
        socket.set_nodelay(true)?;
        let (out, queue) = mpsc::channel::<String>();
        let (words_out, heard) = mpsc::channel();
        let (listening, gone) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let mut writer = socket.try_clone()?;
        Builder::new().name("pd writer".into()).spawn(move || {
            for text in queue {
                // If the connection is broken, the reader reports it.
                if writer.write_all(text.as_bytes()).is_err() {
                    return;
                }
            }
        })?;
        let errors = child.stderr.take();
        let murmur = voice.clone();
        Builder::new().name("pd stderr".into()).spawn(move || {
            for line in errors.into_iter().flat_map(|it| BufReader::new(it).lines().map_while(Result::ok)) {
                murmur.say(Source::Pd, Level::Debug, None, None, line);
            }
        })?;
        let (pong, wanted, over, voice) = (out.clone(), Arc::clone(&listening), Arc::clone(&gone), voice.clone());
        Builder::new().name("pd reader".into()).spawn(move || {
            listen(socket, &pong, &wanted, &words_out, &voice);
            over.store(true, Ordering::Release);
            let _ = words_out.send(None);
            ended();
        })?;
        Ok(Link {
            child,
            out,
            heard,
            listening,
            gone,
            clock: Arc::clone(clock),
            asked: 0,
            answered: 0,
            version: (0, 0, 0),
        })
    }

    pub fn is_alive(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
    }

    pub fn version(&self) -> (u32, u32, u32) {
        self.version
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the first word for which `wanted` returns a value. Other words are dropped.
    pub fn wait_for<T>(&mut self, limit_us: u64, mut wanted: impl FnMut(&Word) -> Option<T>) -> Result<T, Silence> {
        let until = self.clock.now().plus_us(limit_us);
        loop {
            let word = self.next(until)?;
            if word == Word::Found {
                self.answered += 1;
            }
            if let Some(found) = wanted(&word) {
                return Ok(found);
            }
        }
    }

    fn next(&mut self, until: Micros) -> Result<Word, Silence> {
        let left = until.0.saturating_sub(self.clock.now().0);
        match self.heard.recv_timeout(Duration::from_micros(left)) {
            Ok(Some(word)) => Ok(word),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => Err(Silence::Gone),
            Err(RecvTimeoutError::Timeout) => Err(Silence::Late),
        }
    }
}

impl Wire for Link {
    fn send(&mut self, messages: Messages) {
        self.listening.store(true, Ordering::Release);
        self.asked += messages.finds;
        // Sending fails if the writer has stopped because Pd ended; the next wait reports that.
        let _ = self.out.send(messages.text().to_owned());
    }

    /// Waits until Pd has replied to every `find`, and returns the words received until then. Pd
    /// handles messages in order, so all earlier messages have been handled too.
    fn settle(&mut self, limit_us: u64) -> Result<Vec<Word>, Silence> {
        let until = self.clock.now().plus_us(limit_us);
        let mut words = Vec::new();
        while self.answered < self.asked {
            let word = self.next(until)?;
            if word == Word::Found {
                self.answered += 1;
            } else {
                words.push(word);
            }
        }
        self.listening.store(false, Ordering::Release);
        while let Ok(Some(word)) = self.heard.try_recv() {
            words.push(word);
        }
        Ok(words)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Accepts the connection of the child. Connections of other users are closed.
fn accept(listener: &TcpListener, child: &Child, network: Network) -> Result<TcpStream, String> {
    let ours = listener.local_addr().map_err(|fault| fault.to_string())?;
    loop {
        match for_connection(listener, child, CONTACT).map_err(|fault| fault.to_string())? {
            Waited::Connected => {}
            Waited::Ended => return Err("it ended before it connected".to_owned()),
            Waited::Late => return Err("it did not connect in time".to_owned()),
        }
        let (socket, peer) = listener.accept().map_err(|fault| fault.to_string())?;
        // Pd's own network namespace contains no other program, and `is_mine` cannot check
        // connections in it.
        if network == Network::Namespace || is_mine(peer, ours) {
            return Ok(socket);
        }
    }
}

fn listen(
    mut socket: TcpStream,
    pong: &Sender<String>,
    wanted: &AtomicBool,
    words_out: &Sender<Option<Word>>,
    voice: &Voice,
) {
    let mut reader = Reader::default();
    let mut bytes = vec![0; 1 << 16];
    // The current line of the log: Pd writes a line in pieces.
    let mut line = String::new();
    loop {
        let arrived = match socket.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.get(..count).unwrap_or_default(),
        };
        reader.feed(arrived, |word| {
            if word == Word::Ping {
                // Pd stops sending if its ping gets no reply.
                let _ = pong.send("pd ping;\n".to_owned());
                return;
            }
            if let Word::Log { level, text } = &word {
                say(voice, *level, text, &mut line);
            }
            if word == Word::Found || wanted.load(Ordering::Acquire) {
                let _ = words_out.send(Some(word));
            }
        });
    }
}

/// Longest line of the console, in characters.
const MOST_LINE: usize = 2000;

fn say(voice: &Voice, level: u8, text: &str, line: &mut String) {
    line.push_str(text);
    if !line.ends_with('\n') && line.len() < MOST_LINE {
        return;
    }
    let whole = std::mem::take(line);
    let level = match level {
        0 | 1 => Level::Error,
        2 => Level::Info,
        _ => Level::Debug,
    };
    for line in whole.lines().filter(|it| !it.is_empty() && !it.contains(TEMPORARY)) {
        voice.say(Source::Pd, level, None, None, line.chars().take(MOST_LINE).collect());
    }
}
