//! The host of a Pd that the person started, with its own window. The helper patch
//! `bridges/pd/conductor.pd`, open in that Pd, connects to the daemon and forwards messages to
//! canvases by name.
//!
//! The daemon does not receive Pd's output, so every change is read back. Values, lock, console
//! and ports are not available. Canvases with the same name cannot be distinguished. Not here: the
//! messages (`mirror`), and a Pd that Conductor starts (`pd`).

use super::fudi::{Messages, check};
use super::link::{Silence, TEMPORARY};
use super::mirror::{Follow, FollowError, Shown, Wire};
use super::tcl::Word;
use super::{CALL_US, READ_US, Temporary, read_own};
use crate::bridges::{AddressFile, Bridge, BridgeState, Program, receive, same, secret, write_private};
use crate::patch::console::Voice;
use crate::patch::{Ability, Capabilities, HostKind, PatchHost};
use crate::system::{Clock, Ids};
use conductor_core::error::{Code, Effect, ToolError};
use conductor_patch::{BoxView, Document, Format, Limits, Value, Warning};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::Builder;

/// The helper patch. It contains no secret: it reads the address file in its own folder before each
/// connection.
pub const BRIDGE: &str = include_str!("../../../../bridges/pd/conductor.pd");
/// Longest line from the helper, in bytes.
const MOST_LINE: u64 = 64 * 1024;

/// The file with the port and the tokens for the helper. Its content is one Pd message.
pub fn address_file(home: &Path) -> PathBuf {
    home.join("state").join("pd-bridge.txt")
}

fn helper_file(home: &Path) -> PathBuf {
    home.join("state").join("conductor.pd")
}

/// Writes the helper into the home and returns its path.
pub fn install(home: &Path, ids: &dyn Ids) -> io::Result<PathBuf> {
    let file = helper_file(home);
    write_private(&file, BRIDGE.as_bytes(), ids)?;
    Ok(file)
}

pub struct AttachedPd {
    bridge: Bridge<Line, Root>,
}

struct Root {
    shown: Shown,
    file: PathBuf,
}

/// The connection to the helper.
struct Line {
    out: TcpStream,
    heard: Receiver<String>,
    clock: Arc<dyn Clock>,
    /// The number of the acknowledgement that was requested last.
    asked: u64,
}

impl Drop for Line {
    fn drop(&mut self) {
        // Close the connection explicitly: the reader thread has a clone of this socket.
        let _ = self.out.shutdown(Shutdown::Both);
    }
}

impl Wire for Line {
    fn send(&mut self, messages: Messages) {
        // An error is ignored: `settle` notices a broken connection.
        let _ = self.out.write_all(messages.text().as_bytes());
    }

    fn settle(&mut self, limit_us: u64) -> Result<Vec<Word>, Silence> {
        self.asked += 1;
        let wanted = format!("ack{}", self.asked);
        if self.out.write_all(format!("conductor-reply {wanted};\n").as_bytes()).is_err() {
            return Err(Silence::Gone);
        }
        let heard = receive(&self.heard, &*self.clock, limit_us, |line| (line == wanted).then(Vec::new));
        heard.map_err(|why| match why {
            RecvTimeoutError::Disconnected => Silence::Gone,
            RecvTimeoutError::Timeout => Silence::Late,
        })
    }
}

impl AttachedPd {
    /// Starts to listen for the helper.
    pub fn listen(home: &Path, ids: &dyn Ids, voice: Voice, clock: Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let ours = listener.local_addr()?;
        let tokens = [secret(), secret()];
        let text = format!("{} {} {};\n", ours.port(), tokens[0], tokens[1]);
        let address = AddressFile::write(address_file(home), text, ids)?;
        // Replace files of earlier versions. They contain a fixed port and a token, and their
        // helper trusts every program that listens on that port.
        let _ = fs::remove_file(home.join("state").join("pd-bridge.json"));
        if helper_file(home).exists() {
            install(home, ids)?;
        }
        let greet = move |socket| {
            let line = greet(socket, &tokens, &clock)?;
            Ok((line, "Pd's helper patch connected".to_owned()))
        };
        let bridge = Bridge::listen(
            listener,
            address,
            Program { name: "Pd", forgets_patches: false, proves_secret: false },
            voice,
            greet,
        )?;
        Ok(Arc::new(AttachedPd { bridge }))
    }

    /// Whether a helper is connected and responds.
    pub fn is_attached(&self) -> bool {
        self.bridge.state().line.as_mut().is_some_and(|it| it.settle(CALL_US).is_ok())
    }

    fn with_root<T>(
        &self,
        root: &str,
        work: impl FnOnce(&mut Line, &mut u64, &mut Root) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let mut state = self.bridge.state();
        let BridgeState { line, roots, count: nonce } = &mut *state;
        let line = line.as_mut().ok_or_else(absent)?;
        let root = roots.get_mut(root).ok_or_else(absent)?;
        work(line, nonce, root)
    }

    /// Makes Pd save the patch to a temporary file in its folder, and reads that file. Returns
    /// `None` if no canvas has the name of `file`.
    fn read(line: &mut Line, nonce: &mut u64, file: &Path) -> Result<Option<Document>, ToolError> {
        let (name, folder) = split(file)?;
        *nonce += 1;
        let temporary = format!("{TEMPORARY}{}-{nonce}.pd", std::process::id());
        let path = Temporary(Path::new(&folder).join(&temporary));
        line.say(&format!("pd-{name}"), "savetofile", &[&temporary, &folder]);
        line.say(&format!("pd-{temporary}"), "rename", &[&name]);
        line.say(&format!("pd-{name}"), "dirty", &["1"]);
        line.settle(READ_US).map_err(silent)?;
        let Ok(bytes) = read_own(&path.0) else { return Ok(None) };
        let document = Document::open(bytes, Format::Pd, &Limits::default());
        document.map(Some).map_err(|fault| unsupported(&format!("Pd did not write a patch: {fault}")))
    }
}

impl PatchHost for AttachedPd {
    fn kind(&self) -> HostKind {
        HostKind::Pd
    }

    fn capabilities(&self, _: Format) -> Capabilities {
        const NONE: Ability = Ability::No("not available in Pure Data");
        const SILENT: Ability = Ability::No("an attached Pd does not report it; set `[patch.pd] mode` to \"spawn\"");
        vec![
            ("edit", Ability::Degraded("canvases are identified by name; changes that need a reload are refused")),
            ("attributes", Ability::Degraded("only position and width can be changed")),
            ("ports", Ability::Degraded("Pd does not report ports; they are looked up by class")),
            ("hidden", NONE),
            ("midpoints", NONE),
            ("presentation", NONE),
            ("value", SILENT),
            ("lock", SILENT),
            ("dirty", Ability::Degraded("only edits made through Conductor count as unsaved")),
            ("console", SILENT),
            ("frontmost", Ability::Degraded("returns the patch that was used last")),
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
        let mut state = self.bridge.state();
        let BridgeState { line, roots, count: nonce } = &mut *state;
        let line = line.as_mut().ok_or_else(absent)?;
        let (name, folder) = split(file)?;
        let mut written = Self::read(line, nonce, file)?;
        if written.is_none() {
            line.say("pd", "open", &[&name, &folder]);
            line.settle(CALL_US).map_err(silent)?;
            written = Self::read(line, nonce, file)?;
        }
        let written = written.ok_or_else(|| unsupported("Pd did not open the file"))?;
        let shown = Shown::by_name(document, &written, &name).map_err(|why| {
            unsupported(&format!("the patch in Pd differs from the file: {why}"))
                .hint("Save it in Pd first, then open it here.")
        })?;
        if names_twice(document) {
            return Err(unsupported(
                "two subpatches have the same name, and an attached Pd identifies them only by name",
            ));
        }
        roots.insert(root.to_owned(), Root { shown, file: file.to_owned() });
        Ok(())
    }

    fn close(&self, root: &str) {
        // The window stays open in Pd, because it belongs to the person.
        self.bridge.state().roots.remove(root);
    }

    fn carry(&self, root: &str, before: &Document, after: &Document) -> Result<Vec<Warning>, ToolError> {
        if before.root().is_untouched(&after.root()) {
            return Ok(Vec::new());
        }
        if names_twice(after) {
            return Err(unsupported(
                "two subpatches would have the same name, and an attached Pd identifies them only by name",
            ));
        }
        self.with_root(root, |line, nonce, root| {
            let followed = Follow::new(line, &mut root.shown, nonce, CALL_US).go(after, Some(before));
            match followed {
                Ok(()) => {}
                Err(FollowError::Bad(fault)) => return Err(fault),
                Err(FollowError::Silent(why)) => return Err(silent(why)),
                Err(FollowError::Refused(why)) => return Err(unsupported(&why)),
                Err(FollowError::Reload(why)) => {
                    return Err(unsupported(&format!(
                        "{why}; this needs a reload, which is not possible in an attached Pd"
                    )));
                }
            }
            // Pd does not report whether it accepted the change, so the patch is read back.
            let written = Self::read(line, nonce, &root.file)?
                .ok_or_else(|| unsupported("the patch is not open in Pd any more"))?;
            if root.shown.agrees(after, &written) {
                return Ok(Vec::new());
            }
            let back = Follow::new(line, &mut root.shown, nonce, CALL_US).go(before, None);
            let written = Self::read(line, nonce, &root.file)?;
            let whole = back.is_ok() && written.is_some_and(|it| root.shown.agrees(before, &it));
            let after =
                if whole { "the patch is unchanged" } else { "check the patch in Pd, save it there and open it again" };
            Err(ToolError::new(Code::SdkRejected, format!("Pd did not accept the change; {after}"))
                .hint("The console in Pd's window shows the reason."))
        })
    }

    fn value(&self, _: &str, _: &BoxView<'_>) -> Result<Option<Value>, ToolError> {
        Err(unsupported("an attached Pd does not report what a box shows"))
    }

    fn set_locked(&self, _: &str, _: bool) -> Result<(), ToolError> {
        Err(unsupported(
            "an attached Pd does not report whether a patch is locked; the person can lock it in Pd's window",
        ))
    }

    fn redraw(&self, _: &str, _: &BoxView<'_>) -> Result<bool, ToolError> {
        Err(unsupported("an attached Pd redraws its windows itself"))
    }

    fn read_back(&self, root: &str, document: &Document) -> Result<Option<Vec<u8>>, ToolError> {
        self.with_root(root, |line, nonce, root| {
            let written = Self::read(line, nonce, &root.file)?
                .ok_or_else(|| unsupported("the patch is not open in Pd any more"))?;
            Ok((!root.shown.agrees(document, &written)).then(|| written.to_bytes()))
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
        self.bridge.stop();
    }

    fn saved(&self, root: &str, file: &Path) {
        let _ = self.with_root(root, |line, _, root| {
            if root.file != file {
                return Ok(());
            }
            line.say(root.shown.root().unwrap_or("pd"), "dirty", &["0"]);
            Ok(())
        });
    }
}

/// Authenticates a new connection: sends the first token, and requires the second token in the
/// first line of the reply. Then starts the reader thread.
fn greet(mut socket: TcpStream, [first, second]: &[String; 2], clock: &Arc<dyn Clock>) -> Result<Line, String> {
    let fail = |fault: io::Error| fault.to_string();
    socket.write_all(format!("conductor-daemon {first};\n").as_bytes()).map_err(fail)?;
    let mut reader = BufReader::new(socket.try_clone().map_err(fail)?);
    let mut line = String::new();
    io::Read::take(&mut reader, 512).read_line(&mut line).map_err(fail)?;
    let said = line.trim_end().trim_end_matches(';').strip_prefix("conductor-hello ").unwrap_or_default();
    if !same(said, second) {
        return Err("it did not send the right token".to_owned());
    }
    socket.set_read_timeout(None).map_err(fail)?;
    let (lines, heard) = mpsc::channel();
    Builder::new()
        .name("pd helper".into())
        .spawn(move || {
            loop {
                let mut line = String::new();
                match io::Read::take(&mut reader, MOST_LINE).read_line(&mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                if lines.send(line.trim_end().trim_end_matches(';').to_owned()).is_err() {
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
    let (Some(name), Some(folder)) = (name, folder) else { return Err(unsupported("Pd cannot use this name")) };
    check(&[name.to_owned(), folder.to_owned()])?;
    Ok((name.to_owned(), folder.to_owned()))
}

fn absent() -> ToolError {
    ToolError::new(Code::HostOffline, "no Pd is connected")
        .hint("Run `conductor bridge install pd`, and keep the installed patch open in Pd.")
}

fn unsupported(why: &str) -> ToolError {
    ToolError::new(Code::Unsupported, why)
        .hint("Open the file with host \"document\", or set `[patch.pd] mode` to \"spawn\".")
}

fn silent(why: Silence) -> ToolError {
    match why {
        Silence::Gone => ToolError::new(Code::HostOffline, "Pd is no longer connected")
            .hint("Open the helper patch in Pd; it connects again. Read the patch before you repeat the call.")
            .effect(Effect::Unknown),
        Silence::Late => {
            ToolError::new(Code::Timeout, "Pd does not answer").hint("Repeat the call when Pd is no longer busy.")
        }
    }
}
