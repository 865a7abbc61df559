//! A Pd that the person started, with its own window. Our helper patch `bridges/pd/conductor.pd`,
//! open in it, dials us and passes messages on to canvases by their names.
//!
//! There is no stream of what Pd says, so every change is read back. There are no lock, console or
//! ports, and canvases that share a name cannot be told apart. Not here: the messages themselves
//! (`follow`), and a Pd of our own (`pd`).

use super::fudi::{Messages, check};
use super::link::{Silence, TEMPORARY};
use super::mirror::{Fault, Follow, Shown, Wire};
use super::tcl::Word;
use super::{CALL_US, READ_US, Temporary, read_own};
use crate::bridges::{AddressFile, is_mine, same, secret, write_private};
use crate::patch::console::{Level, Source, Voice};
use crate::patch::{Ability, Capabilities, HostKind, PatchHost};
use crate::system::{Clock, Ids};
use conductor_core::error::{Code, ToolError};
use conductor_patch::{BoxView, Document, Format, Limits, Value, Warning};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::Builder;
use std::time::Duration;

/// The helper patch. It holds no secret: it reads the address file in its own folder before each
/// time it dials.
pub const BRIDGE: &str = include_str!("../../../../bridges/pd/conductor.pd");
/// Who dials must answer within this.
const HELLO: Duration = Duration::from_secs(2);
/// Longest line from the helper; it says little.
const MOST_LINE: u64 = 64 * 1024;

/// Where the helper finds port and tokens, as one message of Pd.
pub fn address_file(home: &Path) -> PathBuf {
    home.join("state").join("pd-bridge.txt")
}

fn helper_file(home: &Path) -> PathBuf {
    home.join("state").join("conductor.pd")
}

/// Writes the helper into the home and gives its path.
pub fn install(home: &Path, ids: &dyn Ids) -> io::Result<PathBuf> {
    let file = helper_file(home);
    write_private(&file, BRIDGE.as_bytes(), ids)?;
    Ok(file)
}

pub struct AttachedPd {
    state: Arc<Mutex<State>>,
    address: AddressFile,
}

#[derive(Default)]
struct State {
    line: Option<Line>,
    roots: BTreeMap<String, Root>,
    nonce: u64,
}

struct Root {
    shown: Shown,
    file: PathBuf,
}

/// The connection of the helper.
struct Line {
    out: TcpStream,
    heard: Receiver<String>,
    clock: Arc<dyn Clock>,
    /// What was acknowledged last.
    asked: u64,
}

impl Drop for Line {
    fn drop(&mut self) {
        // The thread that reads has the same socket and would keep it open.
        let _ = self.out.shutdown(Shutdown::Both);
    }
}

impl Wire for Line {
    fn send(&mut self, messages: Messages) {
        // A line that is broken is told when nothing comes back.
        let _ = self.out.write_all(messages.text().as_bytes());
    }

    fn settle(&mut self, limit_us: u64) -> Result<Vec<Word>, Silence> {
        self.asked += 1;
        let wanted = format!("ack{}", self.asked);
        if self.out.write_all(format!("conductor-reply {wanted};\n").as_bytes()).is_err() {
            return Err(Silence::Gone);
        }
        let until = self.clock.now().plus_us(limit_us);
        loop {
            let left = until.0.saturating_sub(self.clock.now().0);
            match self.heard.recv_timeout(Duration::from_micros(left)) {
                Ok(line) if line == wanted => return Ok(Vec::new()),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Silence::Gone),
                Err(RecvTimeoutError::Timeout) => return Err(Silence::Late),
            }
        }
    }
}

impl AttachedPd {
    /// Waits for the helper from now on.
    pub fn listen(home: &Path, ids: &dyn Ids, voice: Voice, clock: Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let ours = listener.local_addr()?;
        let tokens = [secret(), secret()];
        let text = format!("{} {} {};\n", ours.port(), tokens[0], tokens[1]);
        let address = AddressFile::write(address_file(home), text, ids)?;
        // Earlier versions kept a fixed port and a token in these, and their helper trusted every
        // listener on that port.
        let _ = fs::remove_file(home.join("state").join("pd-bridge.json"));
        if helper_file(home).exists() {
            install(home, ids)?;
        }
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::downgrade(&state);
        Builder::new().name("pd bridge".into()).spawn(move || {
            for socket in listener.incoming().flatten() {
                let Some(state) = shared.upgrade() else { return };
                match greet(socket, ours, &tokens, &clock) {
                    // The newest helper counts: the person may have restarted Pd.
                    Ok(line) => {
                        lock(&state).line = Some(line);
                        voice.say(
                            Source::Conductor,
                            Level::Info,
                            None,
                            None,
                            "Pd's helper patch dialled in".to_owned(),
                        );
                    }
                    Err(why) => {
                        let text = format!("a program dialled the port of Pd's helper and was refused: {why}");
                        voice.say(Source::Conductor, Level::Warning, None, None, text);
                    }
                }
            }
        })?;
        Ok(Arc::new(AttachedPd { state, address }))
    }

    /// Whether a helper is there.
    pub fn is_attached(&self) -> bool {
        let mut state = lock(&self.state);
        state.line.as_mut().is_some_and(|it| it.settle(CALL_US).is_ok())
    }

    fn with_root<T>(
        &self,
        root: &str,
        work: impl FnOnce(&mut Line, &mut u64, &mut Root) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let mut state = lock(&self.state);
        let State { line, roots, nonce } = &mut *state;
        let line = line.as_mut().ok_or_else(absent)?;
        let root = roots.get_mut(root).ok_or_else(absent)?;
        work(line, nonce, root)
    }

    /// The patch as Pd writes it, beside its file; none when no canvas has that name.
    fn read(line: &mut Line, nonce: &mut u64, file: &Path) -> Result<Option<Document>, ToolError> {
        let (name, folder) = split(file)?;
        *nonce += 1;
        let temporary = format!("{TEMPORARY}{}-{nonce}.pd", std::process::id());
        let path = Temporary(Path::new(&folder).join(&temporary));
        let mut messages = Messages::default();
        messages.say(&format!("pd-{name}"), "savetofile", &[&temporary, &folder]);
        messages.say(&format!("pd-{temporary}"), "rename", &[&name]);
        messages.say(&format!("pd-{name}"), "dirty", &["1"]);
        line.send(messages);
        line.settle(READ_US).map_err(silent)?;
        let Ok(bytes) = read_own(&path.0) else { return Ok(None) };
        let document = Document::open(bytes, Format::Pd, &Limits::default());
        document.map(Some).map_err(|fault| unsupported(&format!("what Pd wrote is no patch: {fault}")))
    }
}

impl PatchHost for AttachedPd {
    fn kind(&self) -> HostKind {
        HostKind::Pd
    }

    fn capabilities(&self, _: Format) -> Capabilities {
        const NONE: Ability = Ability::No("Pure Data has no such thing");
        const SILENT: Ability = Ability::No("an attached Pd does not tell; set `[patch.pd] mode` to \"spawn\"");
        vec![
            ("edit", Ability::Degraded("canvases by their names; what only loading can bring is refused")),
            ("attributes", Ability::Degraded("place and width")),
            ("ports", Ability::Degraded("from a table of classes")),
            ("hidden", NONE),
            ("midpoints", NONE),
            ("presentation", NONE),
            ("value", SILENT),
            ("lock", SILENT),
            ("dirty", Ability::Degraded("of the document; Pd's own flag is not told")),
            ("console", SILENT),
            ("frontmost", Ability::Degraded("the patch used last")),
            ("redraw", SILENT),
        ]
    }

    fn open(&self, root: &str, document: &Document, file: Option<&Path>) -> Result<(), ToolError> {
        if !document.format().is_pd() {
            return Err(ToolError::new(Code::BadInput, "Pure Data opens .pd files only")
                .hint("Use host \"document\" for a Max patch."));
        }
        let file = file.filter(|it| it.is_file()).ok_or_else(|| {
            ToolError::new(Code::Unsupported, "an attached Pd shows saved files only")
                .hint("Make the patch with host \"document\", save it, close it, then open it with host \"pd\".")
        })?;
        let mut state = lock(&self.state);
        let State { line, roots, nonce } = &mut *state;
        let line = line.as_mut().ok_or_else(absent)?;
        let (name, folder) = split(file)?;
        let mut told = Self::read(line, nonce, file)?;
        if told.is_none() {
            let mut messages = Messages::default();
            messages.say("pd", "open", &[&name, &folder]);
            line.send(messages);
            line.settle(CALL_US).map_err(silent)?;
            told = Self::read(line, nonce, file)?;
        }
        let told = told.ok_or_else(|| unsupported("Pd does not open the file"))?;
        let shown = Shown::by_name(document, &told, &name).map_err(|why| {
            unsupported(&format!("the patch in Pd is not the one in the file: {why}"))
                .hint("Save it in Pd first, then open it here.")
        })?;
        if names_twice(document) {
            return Err(unsupported("two subpatches have the same name, and an attached Pd knows them by name alone"));
        }
        roots.insert(root.to_owned(), Root { shown, file: file.to_owned() });
        Ok(())
    }

    fn close(&self, root: &str) {
        // The person's own window stays open.
        lock(&self.state).roots.remove(root);
    }

    fn carry(&self, root: &str, before: &Document, after: &Document) -> Result<Vec<Warning>, ToolError> {
        if before.root().is_untouched(&after.root()) {
            return Ok(Vec::new());
        }
        if names_twice(after) {
            return Err(unsupported(
                "two subpatches would have the same name, and an attached Pd knows them by name alone",
            ));
        }
        self.with_root(root, |line, nonce, root| {
            let followed = Follow::new(line, &mut root.shown, nonce, CALL_US).go(after, Some(before));
            match followed {
                Ok(()) => {}
                Err(Fault::Bad(fault)) => return Err(fault),
                Err(Fault::Silent(why)) => return Err(silent(why)),
                Err(Fault::Refused(why)) => return Err(unsupported(&why)),
                Err(Fault::Reload(why)) => return Err(unsupported(&format!("{why}, which only loading can bring"))),
            }
            // Nothing told whether Pd took it, so it is looked at.
            let told = Self::read(line, nonce, &root.file)?
                .ok_or_else(|| unsupported("the patch is not open in Pd any more"))?;
            if root.shown.agrees(after, &told) {
                return Ok(Vec::new());
            }
            let back = Follow::new(line, &mut root.shown, nonce, CALL_US).go(before, None);
            let told = Self::read(line, nonce, &root.file)?;
            let whole = back.is_ok() && told.is_some_and(|it| root.shown.agrees(before, &it));
            let after = if whole { "it is as it was" } else { "look at it in Pd, save it there and open it anew" };
            Err(ToolError::new(Code::SdkRejected, format!("Pd did not take the change; {after}"))
                .hint("Pd's own window tells why."))
        })
    }

    fn value(&self, _: &str, _: &BoxView<'_>) -> Result<Option<Value>, ToolError> {
        Err(unsupported("an attached Pd does not tell what a box shows"))
    }

    fn set_locked(&self, _: &str, _: bool) -> Result<(), ToolError> {
        Err(unsupported("an attached Pd does not tell whether it is locked; the person locks it in its window"))
    }

    fn redraw(&self, _: &str, _: &BoxView<'_>) -> Result<bool, ToolError> {
        Err(unsupported("an attached Pd draws by itself"))
    }

    fn read_back(&self, root: &str, document: &Document) -> Result<Option<Vec<u8>>, ToolError> {
        self.with_root(root, |line, nonce, root| {
            let told = Self::read(line, nonce, &root.file)?
                .ok_or_else(|| unsupported("the patch is not open in Pd any more"))?;
            Ok((!root.shown.agrees(document, &told)).then(|| told.to_bytes()))
        })
    }

    fn adopt(&self, root: &str, document: &Document) -> Result<(), ToolError> {
        self.with_root(root, |_, _, root| {
            let (name, _) = split(&root.file)?;
            root.shown = Shown::by_name(document, document, &name).map_err(|why| unsupported(&why))?;
            Ok(())
        })
    }

    fn stop(&self) {
        self.address.remove();
        lock(&self.state).line = None;
    }

    fn saved(&self, root: &str, file: &Path) {
        let _ = self.with_root(root, |line, _, root| {
            if root.file != file {
                return Ok(());
            }
            let mut messages = Messages::default();
            messages.say(root.shown.root().unwrap_or("pd"), "dirty", &["0"]);
            line.send(messages);
            Ok(())
        });
    }
}

/// We say the first token; the first line of the answer must be the second. Then lines are passed
/// on.
fn greet(
    mut socket: TcpStream,
    ours: SocketAddr,
    [first, second]: &[String; 2],
    clock: &Arc<dyn Clock>,
) -> Result<Line, String> {
    let fail = |fault: io::Error| fault.to_string();
    // Another user who dialled could show the token to the helper later, on a port that we left
    // behind.
    if !is_mine(socket.peer_addr().map_err(fail)?, ours) {
        return Err("it belongs to another user".to_owned());
    }
    socket.set_read_timeout(Some(HELLO)).map_err(fail)?;
    socket.set_nodelay(true).map_err(fail)?;
    socket.write_all(format!("conductor-daemon {first};\n").as_bytes()).map_err(fail)?;
    let mut reader = BufReader::new(socket.try_clone().map_err(fail)?);
    let mut line = String::new();
    io::Read::take(&mut reader, 512).read_line(&mut line).map_err(fail)?;
    let said = line.trim_end().trim_end_matches(';').strip_prefix("conductor-hello ").unwrap_or_default();
    if !same(said, second) {
        return Err("it does not know the token".to_owned());
    }
    socket.set_read_timeout(None).map_err(fail)?;
    let (tell, heard) = mpsc::channel();
    Builder::new()
        .name("pd helper".into())
        .spawn(move || {
            loop {
                let mut line = String::new();
                match io::Read::take(&mut reader, MOST_LINE).read_line(&mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                if tell.send(line.trim_end().trim_end_matches(';').to_owned()).is_err() {
                    return;
                }
            }
        })
        .map_err(fail)?;
    Ok(Line { out: socket, heard, clock: Arc::clone(clock), asked: 0 })
}

fn names_twice(document: &Document) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    let mut twice = false;
    document.walk(&mut |view| twice |= view.name().is_some_and(|it| !seen.insert(it)));
    twice
}

fn split(file: &Path) -> Result<(String, String), ToolError> {
    let name = file.file_name().and_then(|it| it.to_str());
    let folder = file.parent().and_then(Path::to_str);
    let (Some(name), Some(folder)) = (name, folder) else { return Err(unsupported("Pd cannot be told this name")) };
    check(&[name.to_owned(), folder.to_owned()])?;
    Ok((name.to_owned(), folder.to_owned()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn absent() -> ToolError {
    ToolError::new(Code::HostOffline, "no Pd has dialled in")
        .hint("Run `conductor bridge install pd` and keep the patch it writes open in Pd.")
}

fn unsupported(why: &str) -> ToolError {
    ToolError::new(Code::Unsupported, why)
        .hint("Open the file with host \"document\", or set `[patch.pd] mode` to \"spawn\".")
}

fn silent(why: Silence) -> ToolError {
    match why {
        Silence::Gone => {
            ToolError::new(Code::HostOffline, "Pd is gone").hint("Start it with the helper patch; it dials in again.")
        }
        Silence::Late => {
            ToolError::new(Code::Timeout, "Pd does not answer").hint("Repeat the call when Pd is no longer busy.")
        }
    }
}
