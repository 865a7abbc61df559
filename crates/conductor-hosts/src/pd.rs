//! The host of a Pure Data (Pd) process that Conductor starts without a user interface. Pd sends
//! its drawing commands to Conductor instead.
//!
//! Changes to a document are sent to Pd as messages; a change is stored only after Pd has
//! acknowledged it. When Pd ends unexpectedly, it is restarted and loads every patch in its last
//! acknowledged state. Pd's own undo does not include messages, so undo uses the document's
//! journal. The editor messages are an internal interface of Pd, so untested versions are refused.
//! Pd executes every patch that is opened here. Not here: a Pd that the person started (`attach`).

pub mod attach;
pub mod examine;
pub mod fudi;
pub mod link;
pub mod mirror;
pub mod sandbox;
pub mod tcl;

use super::patch::console::{Level, Source, Voice};
use super::patch::{Ability, Capabilities, HostKind, PatchHost, Patches};
use crate::rooted::{self, RootedError, RootedFile, canonical, touches_home};
use crate::system::Clock;
use crate::system::files::{Opening as _, private_folders};
use conductor_core::config::{self, PdAudio};
use conductor_core::error::{Code, Effect, ToolError};
use conductor_core::event::Micros;
use conductor_patch::{Atom, BoxView, Document, Format, Limits, Value, View, Warning, WarningCode};
use link::{Link, Silence, TEMPORARY};
use mirror::{Follow, FollowError, Shown, Wire};
use parking_lot::{Mutex, MutexGuard};
use sandbox::{Kept, Walls};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tcl::Word;

/// Time limits of one call, and of reading a whole patch.
const CALL_US: u64 = 5_000_000;
const READ_US: u64 = 30_000_000;
/// A patch is read back when this time has passed since its last edit. This detects changes that
/// the patch made to itself.
const QUIET_US: u64 = 500_000;
/// The largest patch for a running Pd. A larger patch could exceed the time limit of a call: the
/// load time grows with the square of the number of boxes (0.7 s for 20 000, 5 s for 50 000).
const MOST_BYTES: usize = 8 << 20;
const MOST_BOXES: usize = 20_000;
/// The largest file that is read back from Pd, in bytes.
const MOST_READ: u64 = 64 << 20;
/// If Pd has ended unexpectedly this many times within this time, it is not restarted.
const DEATHS: usize = 3;
const DEATHS_WITHIN_US: u64 = 60_000_000;
/// The supported versions are `FROM` up to, but not including, `BEFORE`. The tests use `TESTED`.
const FROM: (u32, u32) = (0, 53);
const BEFORE: (u32, u32) = (0, 58);
pub const TESTED: &str = "0.53.1";

/// The `[patch.pd]` section, for a Pd that Conductor starts.
#[derive(Clone, Debug)]
pub struct Settings {
    pub command: PathBuf,
    pub sleepgrain_ms: f64,
    pub audio: PdAudio,
    pub walls: Walls,
}

impl Default for Settings {
    fn default() -> Self {
        Settings::from(&config::Pd::default())
    }
}

impl From<&config::Pd> for Settings {
    fn from(pd: &config::Pd) -> Self {
        let command = PathBuf::from(&pd.command);
        Settings { command, sleepgrain_ms: pd.sleepgrain_ms, audio: pd.audio, walls: Walls::default() }
    }
}

pub struct PdHost {
    shared: Arc<Shared>,
    notes: Sender<Note>,
}

struct Shared {
    settings: Settings,
    home: PathBuf,
    /// The folder for patches without a file and for temporary files of Pd.
    folder: PathBuf,
    voice: Voice,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    patches: OnceLock<Weak<Patches>>,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    roots: BTreeMap<String, Root>,
    deaths: VecDeque<Micros>,
    /// Counter for unique names of marker comments, files and acknowledgements.
    nonce: u64,
}

struct Root {
    /// The last state that Pd acknowledged.
    document: Document,
    file: Option<PathBuf>,
    shown: Shown,
    locked: bool,
    /// Whether the state of this patch in Pd is unknown. If so, the document is loaded again before
    /// the next call.
    lost: bool,
}

/// A message to the thread that restarts Pd and reads patches back ([`keep`]).
enum Note {
    Ended,
    Changed(String),
}

impl PdHost {
    /// Creates the host. Pd is started when the first patch is opened. `home` contains the folder
    /// for patches without a file.
    pub fn new(home: &Path, settings: Settings, voice: Voice, clock: Arc<dyn Clock>) -> std::io::Result<Arc<Self>> {
        let folder = home.join("state").join("pd");
        private_folders().recursive(true).create(&folder)?;
        let shared = Arc::new(Shared {
            settings,
            home: home.to_owned(),
            folder,
            voice,
            clock,
            state: Mutex::default(),
            patches: OnceLock::new(),
        });
        let (notes, heard) = mpsc::channel();
        let (keeper, again) = (Arc::downgrade(&shared), notes.clone());
        std::thread::Builder::new().name("pd keeper".into()).spawn(move || keep(&keeper, &heard, &again))?;
        Ok(Arc::new(PdHost { shared, notes }))
    }

    /// Sets the registry that is notified when a patch changes itself.
    pub fn notify(&self, patches: &Arc<Patches>) {
        let _ = self.shared.patches.set(Arc::downgrade(patches));
    }

    /// The process id of a running Pd.
    pub fn pid(&self) -> Option<u32> {
        self.shared.state().link.as_ref().filter(|it| it.is_alive()).map(Link::pid)
    }

    /// Whether a call is waiting for Pd.
    pub fn is_busy(&self) -> bool {
        self.shared.state.is_locked()
    }

    /// The patch as Pd saves it.
    pub fn written(&self, root: &str) -> Result<Document, ToolError> {
        self.with_root(root, |shared, link, nonce, root| {
            let canvas = root.shown.root().map(str::to_owned).ok_or_else(|| offline("it does not show the patch"))?;
            shared.read(link, nonce, &canvas, root)
        })
    }

    fn with_root<T>(
        &self,
        root: &str,
        work: impl FnOnce(&Shared, &mut Link, &mut u64, &mut Root) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let mut state = self.shared.state();
        self.shared.ensure(&mut state, &self.notes)?;
        let State { link: Some(link), roots, nonce, .. } = &mut *state else {
            return Err(offline("it is not running"));
        };
        let root = roots.get_mut(root).ok_or_else(|| offline("it has not loaded this patch"))?;
        if root.lost {
            self.shared.reload(link, nonce, root)?;
        }
        work(&self.shared, link, nonce, root)
    }

    /// Makes Pd draw the canvas of a box, and reads the drawing commands.
    fn draw<T>(
        &self,
        root: &str,
        object: &BoxView<'_>,
        read: impl FnOnce(&Shown, &[Word]) -> T,
    ) -> Result<T, ToolError> {
        self.with_root(root, |_, link, nonce, root| {
            let Some(canvas) = root.shown.address(object.canvas().id()).map(str::to_owned) else {
                return Ok(read(&root.shown, &[]));
            };
            link.say(&canvas, "map", &["1"]);
            link.say(&canvas, "map", &["0"]);
            acknowledge(link, &canvas, nonce);
            let words = link.settle(READ_US).map_err(|why| silent(why, root))?;
            Ok(read(&root.shown, &words))
        })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn say(&self, level: Level, text: String) {
        self.voice.say(Source::Conductor, level, None, None, text);
    }

    /// Starts Pd if it is not running, and loads all patches into it.
    fn ensure(&self, state: &mut State, notes: &Sender<Note>) -> Result<(), ToolError> {
        if state.link.as_ref().is_some_and(Link::is_alive) {
            return Ok(());
        }
        if state.link.take().is_some() {
            let now = self.clock.now();
            state.deaths.push_back(now);
            state.deaths.retain(|it| now.since(*it) < DEATHS_WITHIN_US);
            self.say(Level::Error, "Pd ended unexpectedly".to_owned());
        }
        if state.deaths.len() >= DEATHS {
            let now = self.clock.now();
            state.deaths.retain(|it| now.since(*it) < DEATHS_WITHIN_US);
            if state.deaths.len() >= DEATHS {
                return Err(ToolError::new(
                    Code::HostOffline,
                    format!("Pd ended unexpectedly {DEATHS} times within a minute and is not restarted"),
                )
                .hint(
                    "Read get_console_log and close the patch that makes Pd crash. Pd can be started again after a minute.",
                ));
            }
        }
        let ended = notes.clone();
        let folders = self.folders();
        let started = Link::start(&self.settings, (&self.folder, &folders), &self.voice, &self.clock, move || {
            let _ = ended.send(Note::Ended);
        });
        let mut link = started.map_err(|why| offline(&why))?;
        let (major, minor, bug) = link.version();
        if !(FROM..BEFORE).contains(&(major, minor)) {
            return Err(ToolError::new(Code::Unsupported, format!("Pd {major}.{minor}.{bug} is not supported")).hint(
                "Conductor supports Pd 0.53 to 0.57; open the file with host \"document\", or set `[patch.pd] command`.",
            ));
        }
        for (id, root) in &mut state.roots {
            match self.load(&mut link, &mut state.nonce, root) {
                Ok(()) => {
                    self.voice.say(Source::Conductor, Level::Info, Some(id), None, "loaded into Pd again".to_owned())
                }
                Err(fault) => {
                    root.lost = true;
                    self.voice.say(Source::Conductor, Level::Error, Some(id), None, fault.message);
                }
            }
        }
        state.link = Some(link);
        Ok(())
    }

    /// Loads the document of a root into Pd.
    fn load(&self, link: &mut Link, nonce: &mut u64, root: &mut Root) -> Result<(), ToolError> {
        let folder = self.folder_of(root.file.as_deref());
        *nonce += 1;
        let name = format!("{TEMPORARY}{}-{nonce}.pd", std::process::id());
        let path = folder.join(&name);
        let _cleanup = Temporary::write(&path, &root.document.pd_bytes_all_open())?;
        link.say("pd", "open", &[&name, &told_path(&folder)?]);
        let mut words = Vec::new();
        // Pd opens the window of the root last.
        let canvas = link
            .wait_for(CALL_US, |word| {
                words.push(word.clone());
                if let Word::Parents(canvas, around) = word { around.is_empty().then(|| canvas.clone()) } else { None }
            })
            .map_err(|why| silent(why, root))?;
        let written = self.read(link, nonce, &canvas, root)?;
        root.shown = Shown::after_load(&root.document, &written, &words).map_err(|why| {
            link.say(&canvas, "menuclose", &["1"]);
            ToolError::new(Code::SdkRejected, format!("Pd shows this patch differently: {why}"))
                .hint("Open it with host \"document\".")
        })?;
        root.lost = false;
        self.lock_canvas(link, root);
        Ok(())
    }

    fn reload(&self, link: &mut Link, nonce: &mut u64, root: &mut Root) -> Result<(), ToolError> {
        // Pd may still handle earlier requests that timed out here. It handles them before this
        // request.
        if let Some(canvas) = root.shown.root() {
            link.say(canvas, "menuclose", &["1"]);
        }
        self.load(link, nonce, root)
    }

    fn lock_canvas(&self, link: &mut Link, root: &Root) {
        if let Some(canvas) = root.shown.root() {
            link.say(canvas, "editmode", &[if root.locked { "0" } else { "1" }]);
        }
    }

    /// Makes Pd save the patch to a temporary file and reads that file. The file is in the folder
    /// of the patch, because Pd treats the folder of the last saved file as the folder of the
    /// patch.
    fn read(&self, link: &mut Link, nonce: &mut u64, canvas: &str, root: &mut Root) -> Result<Document, ToolError> {
        let folder = self.folder_of(root.file.as_deref());
        *nonce += 1;
        let name = format!("{TEMPORARY}{}-{nonce}.pd", std::process::id());
        let path = folder.join(&name);
        let _cleanup = Temporary(path.clone());
        link.say(canvas, "savetofile", &[&name, &told_path(&folder)?]);
        link.say(canvas, "rename", &[&root.name()]);
        acknowledge(link, canvas, nonce);
        link.settle(READ_US).map_err(|why| silent(why, root))?;
        let bytes = read_own(&path).map_err(|fault| offline(&format!("it did not write the patch: {fault}")))?;
        Document::open(bytes, Format::Pd, &Limits::default())
            .map_err(|fault| offline(&format!("it did not write a patch: {fault}")))
    }

    /// The folders that Pd may read and write. Configured folders that are in the Conductor home or
    /// contain it are left out, because they would expose the configuration and the tokens.
    fn folders(&self) -> Vec<PathBuf> {
        let own = self.home.join("patches");
        // The folder must exist, because only existing folders can be granted to Pd.
        let _ = private_folders().recursive(true).create(&own);
        let patches = self.patches.get().and_then(Weak::upgrade);
        let named = patches.iter().flat_map(|it| it.folders().roots()).cloned();
        let named = named.filter_map(|it| dunce::canonicalize(it).ok()).filter(|it| !touches_home(&self.home, it));
        let home = canonical(&self.home);
        let own = Some(own).filter(|it| dunce::canonicalize(it).is_ok_and(|it| !home.starts_with(it)));
        own.into_iter().chain([self.folder.clone()]).chain(named).collect()
    }

    fn folder_of(&self, file: Option<&Path>) -> PathBuf {
        file.and_then(Path::parent).filter(|it| it.is_dir()).map_or_else(|| self.folder.clone(), Path::to_owned)
    }
}

impl Root {
    fn name(&self) -> String {
        let name = self.file.as_deref().and_then(Path::file_name).and_then(|it| it.to_str());
        name.unwrap_or("untitled.pd").to_owned()
    }
}

impl PatchHost for PdHost {
    fn kind(&self) -> HostKind {
        HostKind::Pd
    }

    fn capabilities(&self, _: Format) -> Capabilities {
        const NONE: Ability = Ability::No("not available in Pure Data");
        vec![
            ("edit", Ability::Yes),
            ("attributes", Ability::Degraded("only position, width and user interface properties can be changed")),
            ("ports", Ability::Yes),
            ("hidden", NONE),
            ("midpoints", NONE),
            ("presentation", NONE),
            ("value", Ability::Degraded("only number, symbol and list boxes have a value")),
            ("lock", Ability::Yes),
            ("dirty", Ability::Yes),
            ("console", Ability::Yes),
            ("frontmost", Ability::Degraded("returns the patch that was used last; there is no window")),
            ("redraw", Ability::Yes),
        ]
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn accepts(&self, document: &Document) -> Result<(), ToolError> {
        if !document.format().is_pd() {
            return Err(ToolError::new(Code::BadInput, "Pure Data opens .pd files only")
                .hint("Use host \"document\" for a Max patch, or format \"pd\" for a new one."));
        }
        fits(document)
    }

    fn open(&self, root: &str, document: &Document, file: Option<&Path>) -> Result<(), ToolError> {
        let mut state = self.shared.state();
        self.shared.ensure(&mut state, &self.notes)?;
        let State { link: Some(link), roots, nonce, .. } = &mut *state else {
            return Err(offline("it is not running"));
        };
        let mut new = Root {
            document: document.clone(),
            file: file.map(Path::to_owned),
            shown: Shown::default(),
            locked: false,
            lost: false,
        };
        if let Err(fault) = self.shared.load(link, nonce, &mut new) {
            if fault.code == Code::Timeout {
                // Pd may hang because of this patch. The next call starts a new Pd and loads the
                // other patches.
                state.link = None;
            }
            return Err(fault);
        }
        roots.insert(root.to_owned(), new);
        Ok(())
    }

    fn close(&self, root: &str) {
        let mut state = self.shared.state();
        let State { link, roots, .. } = &mut *state;
        if let (Some(root), Some(link)) = (roots.remove(root), link.as_mut())
            && let Some(canvas) = root.shown.root()
        {
            link.say(canvas, "menuclose", &["1"]);
        }
        if roots.is_empty() {
            // Stop Pd when no patch is open, because an idle Pd uses processor time.
            *link = None;
        }
    }

    fn carry(&self, root: &str, before: &Document, after: &Document) -> Result<Vec<Warning>, ToolError> {
        if before.root().is_untouched(&after.root()) {
            return Ok(Vec::new());
        }
        let id = root.to_owned();
        let done = self.with_root(root, |shared, link, nonce, root| {
            let followed = Follow::new(link, &mut root.shown, nonce, CALL_US).go(after, Some(before));
            let warnings = match followed {
                Ok(()) => Vec::new(),
                Err(FollowError::Bad(fault)) => return Err(fault),
                Err(FollowError::Silent(why)) => return Err(silent(why, root)),
                Err(FollowError::Refused(why)) => {
                    // Roll back. If that fails too, the next call loads the patch again.
                    root.lost = Follow::new(link, &mut root.shown, nonce, CALL_US).go(before, None).is_err();
                    shared.lock_canvas(link, root);
                    return Err(ToolError::new(Code::SdkRejected, why)
                        .hint("Nothing was changed. Read get_console_log, and check the class and its ports."));
                }
                Err(FollowError::Reload(why)) => {
                    root.document = after.clone();
                    if let Err(fault) = shared.reload(link, nonce, root) {
                        root.document = before.clone();
                        root.lost = true;
                        return Err(fault);
                    }
                    vec![Warning {
                        code: WarningCode::HostDegraded,
                        message: format!("Pd loaded the patch again: {why}"),
                        subject: None,
                    }]
                }
            };
            root.document = after.clone();
            shared.lock_canvas(link, root);
            Ok(warnings)
        });
        let _ = self.notes.send(Note::Changed(id));
        done
    }

    fn value(&self, root: &str, object: &BoxView<'_>) -> Result<Option<Value>, ToolError> {
        let shows = matches!(object.native_class(), Some("floatatom" | "symbolatom" | "listbox" | "msg"));
        if !shows {
            return Ok(None);
        }
        let text = self.draw(root, object, |shown, words| shown.drawn(object, words).and_then(|it| it.text))?;
        let Some(text) = text else { return Ok(None) };
        if text.ends_with('>') && object.native_class() != Some("msg") {
            return Err(ToolError::new(
                Code::Unsupported,
                format!("{} is too narrow to show its value", object.label()),
            )
            .hint("Set its attribute width to more characters."));
        }
        let words: Vec<Atom> = text.split_whitespace().map(Atom::read).collect();
        Ok(Some(match (object.native_class(), words.as_slice()) {
            (Some("floatatom"), [one]) => Value::One(one.clone()),
            _ => Value::One(Atom::Word(text.split_whitespace().collect::<Vec<_>>().join(" "))),
        }))
    }

    fn set_locked(&self, root: &str, locked: bool) -> Result<(), ToolError> {
        self.with_root(root, |shared, link, nonce, root| {
            root.locked = locked;
            shared.lock_canvas(link, root);
            let Some(canvas) = root.shown.root() else { return Ok(()) };
            acknowledge(link, canvas, nonce);
            link.settle(CALL_US).map(|_| ()).map_err(|why| silent(why, root))
        })
    }

    fn redraw(&self, root: &str, object: &BoxView<'_>) -> Result<bool, ToolError> {
        self.draw(root, object, |_, _| true)
    }

    fn ports(&self, root: &str, object: &BoxView<'_>) -> Result<Option<(u32, u32)>, ToolError> {
        let drawn = self.draw(root, object, |shown, words| shown.drawn(object, words))?;
        Ok(drawn.map(|it| (it.inlets, it.outlets)))
    }

    fn read_back(&self, root: &str, document: &Document) -> Result<Option<Vec<u8>>, ToolError> {
        self.with_root(root, |shared, link, nonce, root| {
            let canvas = root.shown.root().map(str::to_owned).ok_or_else(|| offline("it does not show the patch"))?;
            let written = shared.read(link, nonce, &canvas, root)?;
            Ok((!root.shown.agrees(document, &written)).then(|| written.to_bytes()))
        })
    }

    fn adopt(&self, root: &str, document: &Document) -> Result<(), ToolError> {
        self.with_root(root, |_, _, _, root| {
            let before = std::mem::replace(&mut root.document, document.clone());
            root.lost = root.shown.adopt(&before, document).is_err();
            Ok(())
        })
    }

    fn confinement(&self) -> String {
        Kept::here(self.shared.settings.audio).sentence()
    }

    fn saved(&self, root: &str, file: &Path) {
        // If Pd does not answer, it gets the file's path when it loads the patch again.
        let _ = self.with_root(root, |shared, link, nonce, root| {
            let moved = root.file.as_deref() != Some(file);
            root.file = Some(file.to_owned());
            let Some(canvas) = root.shown.root().map(str::to_owned) else { return Ok(()) };
            if moved {
                // Pd searches for abstractions in the folder in which it last saved the patch.
                shared.read(link, nonce, &canvas, root)?;
            }
            link.say(&canvas, "dirty", &["0"]);
            Ok(())
        });
    }
}

/// A file that is removed when this value is dropped.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    fn write(path: &Path, bytes: &[u8]) -> Result<Self, ToolError> {
        let made = fs::OpenOptions::new().write(true).create_new(true).owner_only().open(path);
        let written = made.and_then(|mut file| file.write_all(bytes));
        written.map(|()| Temporary(path.to_owned())).map_err(|fault| {
            let _ = fs::remove_file(path);
            offline(&format!("the temporary file {} cannot be written: {fault}", path.display()))
        })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Reads a file that Pd has written. Links are refused, because code in Pd could create a link to a
/// file outside its folders.
pub(crate) fn read_own(path: &Path) -> Result<Vec<u8>, RootedError> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(RootedError::Missing) };
    let (bytes, _) = RootedFile::new(rooted::open_root(folder)?, name).read(MOST_READ)?;
    Ok(bytes)
}

/// Makes Pd search for a text that does not exist. The reply of Pd proves that it has handled all
/// earlier messages.
fn acknowledge(link: &mut Link, canvas: &str, nonce: &mut u64) {
    *nonce += 1;
    link.say(canvas, "find", &[&format!("+done{nonce}"), "1"]);
}

fn told_path(path: &Path) -> Result<String, ToolError> {
    let text = path.to_str().filter(|it| !it.chars().any(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        ToolError::new(Code::Unsupported, "Pd cannot use the name of this folder")
            .hint("Use a folder whose name is UTF-8 without control characters.")
    })
}

fn offline(why: &str) -> ToolError {
    ToolError::new(Code::HostOffline, format!("Pure Data cannot be used: {why}"))
        .hint("Check `[patch.pd] command` and get_console_log. With host \"document\" the file can still be edited.")
}

/// Checks that a document is small enough for a running Pd.
fn fits(document: &Document) -> Result<(), ToolError> {
    let bytes = document.to_bytes().len();
    let boxes = boxes_of(&document.root());
    if bytes <= MOST_BYTES && boxes <= MOST_BOXES {
        return Ok(());
    }
    let text = format!(
        "this patch has {boxes} boxes and {bytes} bytes; the limits for a running Pd are {MOST_BOXES} boxes and {MOST_BYTES} bytes"
    );
    Err(ToolError::new(Code::Unsupported, text)
        .hint("Open the patch with host \"document\"; every edit works there too."))
}

/// Number of boxes, including the boxes in subpatches.
fn boxes_of(view: &View<'_>) -> usize {
    view.box_count() + view.boxes().filter_map(|it| it.inside()).map(|it| boxes_of(&it)).sum::<usize>()
}

fn silent(why: Silence, root: &mut Root) -> ToolError {
    root.lost = true;
    match why {
        Silence::Gone => {
            ToolError::new(Code::HostOffline, "Pd ended during the call; the patch is as it was before the call")
                .hint("Repeat the call: Pd is started again and loads the patch as it was.")
                .effect(Effect::None)
        }
        Silence::Late => ToolError::new(Code::Timeout, "Pd does not answer; the patch is as it was before the call")
            .hint("Repeat the call: the patch is loaded into Pd again first.")
            .effect(Effect::None),
    }
}

/// The keeper thread restarts Pd when it ends, and reads a patch back some time after its last
/// edit. The thread ends when the host is dropped.
fn keep(shared: &Weak<Shared>, notes: &Receiver<Note>, again: &Sender<Note>) {
    let mut quiet: BTreeMap<String, Micros> = BTreeMap::new();
    let mut revive: Option<Micros> = None;
    loop {
        let Some(now) = shared.upgrade().map(|it| it.clock.now()) else { return };
        let next = quiet.values().copied().chain(revive).min().map_or(1_000_000, |it| it.0.saturating_sub(now.0));
        let note = notes.recv_timeout(Duration::from_micros(next.max(1000)));
        let Some(shared) = shared.upgrade() else { return };
        let now = shared.clock.now();
        match note {
            Ok(Note::Changed(root)) => {
                quiet.insert(root, now.plus_us(QUIET_US));
            }
            Ok(Note::Ended) => {
                let state = shared.state();
                let ended = state.link.as_ref().is_some_and(|it| !it.is_alive()) && !state.roots.is_empty();
                if ended {
                    // The delay doubles each time, so that Pd is not restarted in a fast loop when
                    // a patch makes it crash.
                    revive = Some(now.plus_us(200_000 << state.deaths.len().min(4)));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if revive.is_some_and(|it| it <= now) {
            revive = None;
            let mut state = shared.state();
            if !state.roots.is_empty()
                && let Err(fault) = shared.ensure(&mut state, again)
            {
                shared.say(Level::Error, fault.message);
            }
        }
        let due: Vec<String> = quiet.iter().filter(|(_, at)| **at <= now).map(|(root, _)| root.clone()).collect();
        for root in due {
            quiet.remove(&root);
            if let Some(patches) = shared.patches.get().and_then(Weak::upgrade) {
                // If this fails, the next call reports the error.
                let _ = patches.reconcile(&root);
            }
        }
    }
}
