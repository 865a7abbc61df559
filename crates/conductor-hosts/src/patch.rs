//! The registry of open patches. Each open patch has a host: either the document alone, or a
//! running program that shows the document.
//!
//! Every open patch is a [`conductor_patch::Patch`] with its revisions, journal and bytes. A host
//! sends changes to the document to its program. If the program refuses a change, the document is
//! not changed either. Calls for one patch run in order; calls for different patches do not wait
//! for each other. This code is not async and may block, so async callers use a worker thread. Not
//! here: tool descriptions (`patch` in `conductor-tools`), file formats (`conductor-patch`).

pub mod console;
pub mod document;
pub mod folders;
pub mod knobs;
pub mod reach;

use crate::rooted::{RootedError, expand_home};
use crate::system::{Clock, Ids};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::Micros;
use conductor_patch::{
    Applied, Atom, BoxView, CanvasId, Diagnostic, Document, Edit, EditError, Fault, Format, JournalLimits, Limits,
    LookupError, Op, OpenError, Outcome, Patch, PatchError, Target, Value, View, Warning, WarningCode, base36, id_stem,
};
use console::{Entry, Level, Question, Source, Voice};
use folders::{Expected, FileError, Folders, Place};
use knobs::Knob;
use parking_lot::{Mutex, MutexGuard, RwLock};
use reach::{Consent, Running, rehearsed};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Prefix of the undo label when a knob has changed an attribute.
const KNOB: &str = "knob on ";
/// Knob values that follow each other within this time are one undo step.
const ONE_TURN_US: u64 = 1_000_000;

/// The `[patch]` section of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folders of patches, in addition to `<home>/patches`.
    pub roots: Vec<PathBuf>,
    pub max_open: usize,
    pub max_file_mb: usize,
    pub journal_steps: usize,
    pub journal_mb: usize,
    /// The user's home folder, which replaces `~`. Absent when it is unknown.
    pub user_home: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings::of_config(&Default::default(), None)
    }
}

impl Settings {
    pub fn of_config(patch: &conductor_core::config::Patch, user_home: Option<PathBuf>) -> Self {
        // A relative root is dropped: it would depend on the folder in which the daemon was
        // started.
        let root = |text: &String| expand_home(text, user_home.as_deref()).filter(|it| it.is_absolute());
        Settings {
            roots: patch.roots.iter().filter_map(root).collect(),
            max_open: patch.max_open as usize,
            max_file_mb: patch.max_file_mb as usize,
            journal_steps: patch.journal_steps as usize,
            journal_mb: patch.journal_mb as usize,
            user_home,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostKind {
    Document,
    Pd,
    Max,
}

impl HostKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            HostKind::Document => "document",
            HostKind::Pd => "pd",
            HostKind::Max => "max",
        }
    }
}

/// Whether a host supports an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    Yes,
    /// Supported with restrictions.
    Degraded(&'static str),
    No(&'static str),
}

/// The abilities of a host for one patch, by name.
pub type Capabilities = Vec<(&'static str, Ability)>;

/// The host of open patches.
pub trait PatchHost: Send + Sync {
    fn kind(&self) -> HostKind;
    fn capabilities(&self, format: Format) -> Capabilities;
    /// Fails if the program can never show this document. Called before the person is asked for
    /// approval.
    fn accepts(&self, _document: &Document) -> Result<(), ToolError> {
        Ok(())
    }
    /// Shows a document in the program.
    fn open(&self, root: &str, document: &Document, file: Option<&Path>) -> Result<(), ToolError>;
    fn close(&self, root: &str);
    /// Changes the program from the state `before` to the state `after`. If this fails, the program
    /// still shows `before`, or the error says that it may not.
    fn carry(&self, root: &str, before: &Document, after: &Document) -> Result<Vec<Warning>, ToolError>;
    /// The value that a box shows now; `None` if the box has no value.
    fn value(&self, root: &str, object: &BoxView<'_>) -> Result<Option<Value>, ToolError>;
    fn set_locked(&self, root: &str, locked: bool) -> Result<(), ToolError>;
    /// Redraws a box. Returns false if nothing can be drawn.
    fn redraw(&self, root: &str, object: &BoxView<'_>) -> Result<bool, ToolError>;
    /// The number of inlets and of outlets that a box has in the program; `None` if the program
    /// does not report them.
    fn ports(&self, _root: &str, _object: &BoxView<'_>) -> Result<Option<(u32, u32)>, ToolError> {
        Ok(None)
    }
    /// The content of the patch in the program, if the patch was changed there and differs from the
    /// document.
    fn read_back(&self, _root: &str, _document: &Document) -> Result<Option<Vec<u8>>, ToolError> {
        Ok(None)
    }
    /// Called when the result of `read_back` has become the new document.
    fn adopt(&self, _root: &str, _document: &Document) -> Result<(), ToolError> {
        Ok(())
    }
    /// Called when the document was saved to `file`.
    fn saved(&self, _root: &str, _file: &Path) {}
    /// Whether the program runs only patches that Conductor opened, so that all receiver names are
    /// known.
    fn is_ours(&self) -> bool {
        false
    }
    /// Whether the patch is locked in the program; `None` if the program does not report it.
    fn locked(&self, _root: &str) -> Result<Option<bool>, ToolError> {
        Ok(None)
    }
    /// The patch windows of the program, the front window first; `None` if the program does not
    /// report them.
    fn windows(&self) -> Result<Option<Vec<Window>>, ToolError> {
        Ok(None)
    }
    /// A sentence about the sandbox of this program, shown to the person who approves a patch.
    fn confinement(&self) -> String {
        "there is no sandbox: the patch can do everything that the person can do".to_owned()
    }
    /// Called when the daemon stops. After this call the program cannot connect.
    fn stop(&self) {}
}

/// A patch window in a running program, opened by us or by the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The id of the open patch in this window, if Conductor opened it.
    pub root: Option<String>,
    pub name: String,
    pub path: Option<PathBuf>,
}

/// All open patches of the studio.
pub struct Patches {
    settings: Settings,
    folders: Folders,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    document: Arc<dyn PatchHost>,
    /// Lock order: lock a patch before this registry.
    registry: Mutex<BTreeMap<String, Arc<Open>>>,
    /// Only one file is opened at a time, so that no file is open twice.
    opening: Mutex<()>,
    uses: AtomicU64,
    voice: Voice,
    /// The hosts of running programs.
    driven: Mutex<BTreeMap<HostKind, Arc<dyn PatchHost>>>,
    /// Approvals since the daemon started: the id or file of a patch, and the digest of its reach
    /// (see `reach`).
    approved: Mutex<HashSet<(String, Digest)>>,
    /// Locked for writing during a save, and for reading while a program receives a patch, so that
    /// the program loads the same files that were checked. Lock order: lock this before a patch.
    files: RwLock<()>,
}

/// One open patch.
pub struct Open {
    id: String,
    group: Option<String>,
    host: Arc<dyn PatchHost>,
    /// The value of the counter `uses` when the patch was opened or created.
    since: u64,
    /// The value of the counter `uses` when the patch was last opened, created or edited.
    used: AtomicU64,
    /// The file of the patch. While this is locked, no other lock is acquired.
    place: Mutex<Option<Place>>,
    /// The reach of the patch in its program (see `reach`). While this is locked, no other lock is
    /// acquired.
    running: Mutex<Arc<Running>>,
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    patch: Patch,
    /// The document at the time of opening.
    opened: Document,
    /// The name that is used while the patch has no file.
    name: String,
    /// The side file (names of Pd boxes) as it was last read or saved.
    names: Option<String>,
    /// The knob that made the newest undo step, and the time of its last value. A new value within
    /// [`ONE_TURN_US`] extends that step.
    turned: Option<(String, Micros)>,
    /// Whether the file existed when the patch was last opened or saved.
    on_disk: bool,
    closed: bool,
}

/// A canvas of an open patch, in its current state.
pub struct Scene<'a> {
    pub open: &'a Open,
    pub patch: &'a Patch,
    pub view: View<'a>,
    state: &'a State,
    place: Option<Place>,
}

/// The context of a requested change: the patch, the revision it was planned for, and the consent.
pub struct Ask<'a> {
    pub patch_id: &'a str,
    pub expected_revision: Option<u64>,
    /// The undo label.
    pub label: String,
    pub consent: Consent,
}

/// The result of a change.
pub struct Edited<T> {
    pub patch_id: String,
    pub revision: u64,
    pub warnings: Vec<Warning>,
    pub made: T,
}

/// The result of a save.
#[derive(Debug)]
pub struct Saved {
    pub revision: u64,
    pub path: PathBuf,
    pub bytes: usize,
    pub hash: Digest,
    pub backup: Option<PathBuf>,
    pub changed_lines: usize,
    pub warnings: Vec<Warning>,
}

/// Optional names for a patch that is being opened.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    pub group: Option<String>,
    pub alias: Option<String>,
}

impl Patches {
    pub fn new(home: &Path, settings: Settings, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Arc<Self> {
        let folders = Folders::new(
            home,
            &settings.roots,
            settings.user_home.clone(),
            settings.max_file_mb.saturating_mul(1 << 20),
        );
        let voice = Voice::new(Arc::clone(&clock));
        for root in folders.refused() {
            let text =
                format!("the root {} is in Conductor's home folder or contains it, so it is ignored", root.display());
            voice.say(Source::Conductor, Level::Warning, None, None, text);
        }
        Arc::new(Patches {
            settings,
            folders,
            clock,
            ids,
            document: Arc::new(document::DocumentHost),
            registry: Mutex::default(),
            opening: Mutex::default(),
            uses: AtomicU64::new(0),
            voice,
            driven: Mutex::default(),
            approved: Mutex::default(),
            files: RwLock::default(),
        })
    }

    /// Copies of the open documents, for a dry run. A patch that runs in a program is left out. A
    /// change to a copy does not affect the original.
    pub fn copies(&self) -> Arc<Self> {
        let mut registry = BTreeMap::new();
        for open in self.list().into_iter().filter(|it| it.host.kind() == HostKind::Document) {
            let state = lock(&open.state).clone();
            let copy = Open {
                id: open.id.clone(),
                group: open.group.clone(),
                host: Arc::clone(&self.document),
                since: open.since,
                used: AtomicU64::new(open.used.load(Ordering::Relaxed)),
                place: Mutex::new(open.place()),
                running: Mutex::default(),
                state: Mutex::new(state),
            };
            registry.insert(open.id.clone(), Arc::new(copy));
        }
        Arc::new(Patches {
            settings: self.settings.clone(),
            folders: self.folders.clone(),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            document: Arc::clone(&self.document),
            registry: Mutex::new(registry),
            opening: Mutex::default(),
            uses: AtomicU64::new(self.uses.load(Ordering::Relaxed)),
            voice: Voice::new(Arc::clone(&self.clock)),
            driven: Mutex::default(),
            approved: Mutex::default(),
            files: RwLock::default(),
        })
    }

    /// The console for the messages of hosts and their programs.
    pub fn voice(&self) -> &Voice {
        &self.voice
    }

    /// Registers the host of a running program.
    pub fn drive(&self, host: Arc<dyn PatchHost>) {
        lock(&self.driven).insert(host.kind(), host);
    }

    /// The windows of every running program that reports them.
    pub fn windows(&self) -> Vec<(HostKind, Vec<Window>)> {
        let hosts: Vec<_> = lock(&self.driven).values().cloned().collect();
        hosts.iter().filter_map(|it| Some((it.kind(), it.windows().ok()??))).collect()
    }

    pub fn stop(&self) {
        lock(&self.driven).values().for_each(|it| it.stop());
    }

    pub fn folders(&self) -> &Folders {
        &self.folders
    }

    /// Opens a file. If the file is already open, returns that patch. Fails if it is open with
    /// another host or alias.
    pub fn open(&self, path: &str, host: HostKind, naming: Naming, consent: &Consent) -> Result<Arc<Open>, ToolError> {
        let host = self.host(host)?;
        let place = self.folders.place(path)?;
        let _one = (!consent.is_rehearsal()).then(|| lock(&self.opening));
        if let Some(open) = self.holder(&place) {
            if open.host.kind() != host.kind() {
                return Err(bad(format!(
                    "the file is open as {:?} with host {:?}",
                    open.id,
                    open.host.kind().as_str()
                ))
                .hint("Close it with close_patch, then open it with the other host."));
            }
            return match &naming.alias {
                Some(alias) if *alias != open.id => Err(bad(format!("the file is open as {:?}", open.id))
                    .hint(format!("Use {:?}, or close the patch first to open it with another alias.", open.id))),
                Some(_) | None => {
                    self.touch(&open);
                    Ok(open)
                }
            };
        }
        let _files = self.while_given(host.kind(), consent);
        let bytes = self.folders.read(&place)?;
        let mut document = Document::open(bytes, place.format(), &self.limits())
            .map_err(|fault| unreadable(&place.file_name(), &fault))?;
        let names = place.format().is_pd().then(|| self.folders.read_names(&place)).flatten();
        let mut notes = Vec::new();
        if let Some(text) = &names {
            match document.take_names(text) {
                Ok(unmatched) => notes.extend(unmatched.into_iter().map(|it| {
                    format!("no box has the text {:?} any more, so the name {:?} was removed", it.text, it.name)
                })),
                Err(fault) => notes.push(format!("the side file with names was not read: {fault}")),
            }
        }
        let name = place.file_name();
        let given =
            (!host.is_ours() && host.kind() != HostKind::Document).then(|| (place.clone(), document.to_bytes()));
        let open = self.register(document, Some(place), name, names, host, naming, consent)?;
        // The program reads the file itself. Another program may have changed the file since the
        // check, so compare it again.
        if let Some((place, bytes)) = given
            && self.folders.read(&place).ok().as_deref() != Some(bytes.as_slice())
        {
            let _ = self.close(&open.id, true);
            return Err(FileError { path: place.path(), error: RootedError::Changed }.into());
        }
        lock(&open.state).on_disk = true;
        for note in notes {
            self.say(Level::Warning, Some(&open.id), None, note);
        }
        Ok(open)
    }

    /// Creates an empty patch. It will be saved to `path`; no file is written now.
    pub fn create(
        &self,
        format: Format,
        path: Option<&str>,
        name: Option<&str>,
        host: HostKind,
        naming: Naming,
    ) -> Result<Arc<Open>, ToolError> {
        let host = self.host(host)?;
        let _one = lock(&self.opening);
        let place = match path {
            None => None,
            Some(path) => {
                let place = self.folders.place(path)?;
                if place.format() != format {
                    return Err(bad(format!("{path} is not a .{} file", format.extension()))
                        .hint("Use a file extension that matches the format.")
                        .subject(Subject::Argument("path".into())));
                }
                if self.holder(&place).is_some() || self.folders.exists(&place) {
                    return Err(
                        bad(format!("{path} already exists")).hint("Open it with open_patch, or choose another path.")
                    );
                }
                Some(place)
            }
        };
        let name = match (&place, name) {
            (Some(place), _) => place.file_name(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "untitled".to_owned(),
        };
        self.register(Document::create(format), place, name, None, host, naming, &Consent::Call(None))
    }

    /// Prevents saves while a running program receives a patch.
    fn while_given(&self, host: HostKind, consent: &Consent) -> Option<parking_lot::RwLockReadGuard<'_, ()>> {
        let runs = host != HostKind::Document && !consent.is_rehearsal();
        runs.then(|| self.files.read())
    }

    #[expect(clippy::too_many_arguments, reason = "each argument is a separate fact about the new patch")]
    fn register(
        &self,
        mut document: Document,
        place: Option<Place>,
        name: String,
        names: Option<String>,
        host: Arc<dyn PatchHost>,
        naming: Naming,
        consent: &Consent,
    ) -> Result<Arc<Open>, ToolError> {
        self.learn_all(&mut document, place.as_ref());
        if !consent.is_rehearsal() {
            self.make_room()?;
        }
        // Only one patch is opened at a time, so no other patch can get this id while a slow
        // program opens the patch.
        let id = {
            let registry = lock(&self.registry);
            match naming.alias {
                Some(alias) => free_alias(&registry, alias)?,
                None => self.new_id(&registry, place.as_ref()),
            }
        };
        host.accepts(&document)?;
        let running = match host.kind() {
            HostKind::Document => Running::default(),
            HostKind::Pd | HostKind::Max => {
                self.may_run(&id, &*host, None, &document, place.as_ref(), &Running::default(), consent)?
            }
        };
        if consent.is_rehearsal() {
            return Err(rehearsed());
        }
        host.open(&id, &document, place.as_ref().map(Place::path).as_deref())?;
        for diagnostic in document.diagnostics() {
            let Diagnostic { severity, message, subject, .. } = diagnostic;
            let level = match severity {
                conductor_patch::Severity::Info => Level::Info,
                conductor_patch::Severity::Warning => Level::Warning,
            };
            self.say(level, Some(&id), subject.clone(), message.clone());
        }
        let limits = JournalLimits {
            steps: self.settings.journal_steps,
            bytes: self.settings.journal_mb.saturating_mul(1 << 20),
        };
        let state = State {
            opened: document.clone(),
            patch: Patch::new(document, limits),
            name,
            names,
            turned: None,
            on_disk: false,
            closed: false,
        };
        let since = self.next_use();
        let open = Arc::new(Open {
            id: id.clone(),
            group: naming.group,
            host,
            since,
            used: AtomicU64::new(since),
            place: Mutex::new(place),
            running: Mutex::new(Arc::new(running)),
            state: Mutex::new(state),
        });
        lock(&self.registry).insert(id, Arc::clone(&open));
        Ok(open)
    }

    fn host(&self, kind: HostKind) -> Result<Arc<dyn PatchHost>, ToolError> {
        if let Some(host) = lock(&self.driven).get(&kind) {
            return Ok(Arc::clone(host));
        }
        let off = |text: &str, hint: &str| Err(ToolError::new(Code::Unsupported, text).hint(hint));
        match kind {
            HostKind::Document => Ok(Arc::clone(&self.document)),
            HostKind::Pd => off(
                "Conductor does not control a running Pure Data: `[patch.pd] mode` is \"off\".",
                "Open the file with host \"document\". All edits work there, and Pure Data shows them when it loads the saved file.",
            ),
            HostKind::Max => off(
                "Conductor does not control a running Max: `[patch.max] enabled` is false.",
                "Open the file with host \"document\". All edits work there, and Max shows them when it loads the saved file.",
            ),
        }
    }

    fn limits(&self) -> Limits {
        Limits { max_bytes: self.settings.max_file_mb.saturating_mul(1 << 20), ..Limits::default() }
    }

    fn holder(&self, place: &Place) -> Option<Arc<Open>> {
        self.list().into_iter().find(|it| it.place().as_ref() == Some(place))
    }

    fn new_id(&self, registry: &BTreeMap<String, Arc<Open>>, place: Option<&Place>) -> String {
        let (stem, digest) = match place {
            Some(place) => {
                (id_stem(&place.file_name()), Sha256::digest(place.path().as_os_str().as_encoded_bytes()).to_vec())
            }
            None => ("patch".to_owned(), Sha256::digest(self.ids.v4().as_bytes()).to_vec()),
        };
        let hash = base36(&digest);
        (4..=hash.len())
            .filter_map(|length| Some(format!("{stem}_{}", hash.get(..length)?)))
            .find(|id| !registry.contains_key(id))
            .unwrap_or(hash)
    }

    /// If the maximum number of patches is open, closes the least recently used patch that has no
    /// unsaved edits.
    fn make_room(&self) -> Result<(), ToolError> {
        let open = self.list();
        if open.len() < self.settings.max_open {
            return Ok(());
        }
        let idle = open
            .iter()
            .filter(|it| !lock(&it.state).dirty())
            .min_by_key(|it| it.used.load(Ordering::Relaxed))
            .ok_or_else(|| {
            ToolError::new(Code::Busy, format!("{} patches are open and all have unsaved edits", open.len()))
                .hint("Save a patch with save_patch or close it with close_patch; `[patch] max_open` limits the number of open patches.")
        })?;
        self.close(&idle.id, false).map(|_| ())
    }

    /// All open patches, oldest first.
    pub fn list(&self) -> Vec<Arc<Open>> {
        let mut open: Vec<Arc<Open>> = lock(&self.registry).values().cloned().collect();
        open.sort_by_key(|it| it.since);
        open
    }

    pub fn ids(&self) -> Vec<String> {
        lock(&self.registry).keys().cloned().collect()
    }

    /// The patch that was opened, created or edited last.
    pub fn last_used(&self) -> Option<Arc<Open>> {
        lock(&self.registry).values().max_by_key(|it| it.used.load(Ordering::Relaxed)).cloned()
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn touch(&self, open: &Open) {
        open.used.store(self.next_use(), Ordering::Relaxed);
    }

    fn root(&self, patch_id: &str) -> Result<Arc<Open>, ToolError> {
        let root = patch_id.split('/').next().unwrap_or_default();
        let registry = lock(&self.registry);
        registry.get(root).cloned().ok_or_else(|| {
            let names: Vec<&str> = registry.keys().map(String::as_str).take(5).collect();
            let hint = match names.as_slice() {
                [] => "No patch is open: call open_patch or create_patch.".to_owned(),
                names => format!("Open patches are {}; list_active_patches lists all.", names.join(", ")),
            };
            ToolError::new(Code::NotFound, format!("Patch not found: {}", short(patch_id)))
                .hint(hint)
                .subject(Subject::Other(short(patch_id)))
        })
    }

    /// Reads a canvas at its last complete revision.
    pub fn look<T>(
        &self,
        patch_id: &str,
        read: impl FnOnce(&Scene<'_>) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let open = self.root(patch_id)?;
        let state = open.state(patch_id)?;
        let canvas = canvas(&state.patch, patch_id)?;
        read(&scene(&open, &state, &canvas)?)
    }

    /// Applies a list of edits as one undo step, all or none. `plan` creates the list from the
    /// current state. `report` reads the result before another call can change it.
    pub fn edit<T>(
        &self,
        ask: &Ask<'_>,
        plan: impl FnOnce(&Scene<'_>) -> Result<Vec<Op>, ToolError>,
        report: impl FnOnce(&Scene<'_>, &Applied) -> Result<T, ToolError>,
    ) -> Result<Edited<T>, ToolError> {
        self.change(ask, plan, |patch, edits, label| Ok(patch.apply(edits, label, None)?.applied), report)
    }

    /// Computes the result of a list of edits without applying them. `report` reads the resulting
    /// document.
    pub fn preview<T>(
        &self,
        ask: &Ask<'_>,
        plan: impl FnOnce(&Scene<'_>) -> Result<Vec<Op>, ToolError>,
        report: impl FnOnce(&Scene<'_>, &Document, &Applied) -> Result<T, ToolError>,
    ) -> Result<Edited<T>, ToolError> {
        let open = self.root(ask.patch_id)?;
        let mut state = open.state(ask.patch_id)?;
        expect_revision(&state.patch, ask)?;
        let canvas = canvas(&state.patch, ask.patch_id)?;
        let ops = plan(&scene(&open, &state, &canvas)?)?;
        self.learn_new(open.place().as_ref(), &mut state, &ops);
        let edits: Vec<Edit> = ops.into_iter().map(|op| Edit { canvas: canvas.clone(), op }).collect();
        let (document, applied) = state.patch.preview(&edits).map_err(refused)?;
        let scene = scene(&open, &state, &canvas)?;
        let made = report(&scene, &document, &applied)?;
        Ok(Edited { patch_id: scene.id(), revision: state.patch.revision(), warnings: applied.warnings, made })
    }

    fn change<T>(
        &self,
        ask: &Ask<'_>,
        plan: impl FnOnce(&Scene<'_>) -> Result<Vec<Op>, ToolError>,
        apply: impl FnOnce(&mut Patch, &[Edit], &str) -> Result<Applied, PatchError>,
        report: impl FnOnce(&Scene<'_>, &Applied) -> Result<T, ToolError>,
    ) -> Result<Edited<T>, ToolError> {
        let open = self.root(ask.patch_id)?;
        let _files = self.while_given(open.host.kind(), &ask.consent);
        let mut state = open.state(ask.patch_id)?;
        expect_revision(&state.patch, ask)?;
        let canvas = canvas(&state.patch, ask.patch_id)?;
        let ops = plan(&scene(&open, &state, &canvas)?)?;
        self.learn_new(open.place().as_ref(), &mut state, &ops);
        let edits: Vec<Edit> = ops.into_iter().map(|op| Edit { canvas: canvas.clone(), op }).collect();
        let (applied, host_warnings) =
            self.carry(&open, &mut state, &ask.consent, |patch| apply(patch, &edits, &ask.label))?;
        self.touch(&open);
        let scene = scene(&open, &state, &canvas)?;
        let done = sentences(&edits, &applied, &ask.label);
        let made = report(&scene, &applied)?;
        let (patch_id, revision) = (scene.id(), state.patch.revision());
        let mut warnings = applied.warnings;
        warnings.extend(host_warnings);
        // Changes by a knob are not shown, because they would flood the console.
        if applied.changed && !ask.label.starts_with(KNOB) {
            for line in done {
                self.say(Level::Info, Some(&patch_id), None, line);
            }
        }
        for warning in &warnings {
            self.say(Level::Warning, Some(&patch_id), warning.subject.clone(), warning.message.clone());
        }
        Ok(Edited { patch_id, revision, warnings, made })
    }

    /// Sets an attribute to a knob's value. Values in quick succession are one undo step.
    pub fn turn(&self, knob: &Knob, value: f64) -> Result<(), ToolError> {
        let patch_id = self.named(&knob.patch);
        let open = self.root(&patch_id)?;
        let now = self.clock.now();
        let label = format!("{KNOB}{} of {}", knob.attribute, knob.object);
        let follows =
            open.state(&patch_id)?.turned.as_ref().is_some_and(|(of, at)| *of == label && now.since(*at) < ONE_TURN_US);
        let set = Op::SetAttribute {
            target: knob.object.as_str().into(),
            name: knob.attribute.clone(),
            value: Value::One(Atom::Float(value)),
            allow_unknown: false,
        };
        let consent = if knob.by_hand { Consent::Hand } else { Consent::Call(None) };
        let ask = Ask { patch_id: &patch_id, expected_revision: None, label: label.clone(), consent };
        let apply = |patch: &mut Patch, edits: &[Edit], label: &str| {
            let made = if follows { patch.extend(edits, label) } else { patch.apply(edits, label, None) };
            Ok(made?.applied)
        };
        self.change(&ask, |_| Ok(vec![set]), apply, |_, _| Ok(()))?;
        open.state(&patch_id)?.turned = Some((label, now));
        Ok(())
    }

    /// Returns the id of a patch that the configuration names by id or by file name.
    fn named(&self, name: &str) -> String {
        let (root, inside) = name.split_once('/').map_or((name, None), |(root, inside)| (root, Some(inside)));
        if lock(&self.registry).contains_key(root) {
            return name.to_owned();
        }
        let held: Vec<Arc<Open>> =
            self.list().into_iter().filter(|it| it.place().is_some_and(|it| it.file_name() == root)).collect();
        match (held.as_slice(), inside) {
            ([only], Some(inside)) => format!("{}/{inside}", only.id),
            ([only], None) => only.id.clone(),
            _ => name.to_owned(),
        }
    }

    /// Undoes or redoes steps. Returns their labels and how many undo and redo steps are left.
    pub fn travel(
        &self,
        ask: &Ask<'_>,
        steps: usize,
        back: bool,
    ) -> Result<Edited<(Vec<String>, usize, usize)>, ToolError> {
        let open = self.root(ask.patch_id)?;
        let _files = self.while_given(open.host.kind(), &ask.consent);
        let mut state = open.state(ask.patch_id)?;
        expect_revision(&state.patch, ask)?;
        let travel = |patch: &mut Patch| if back { patch.undo(steps) } else { patch.redo(steps) };
        let (labels, warnings) = self.carry(&open, &mut state, &ask.consent, travel)?;
        self.touch(&open);
        let (undo, redo) = state.patch.depths();
        let revision = state.patch.revision();
        self.say(Level::Info, Some(&open.id), None, format!("{}, revision {revision}", ask.label));
        Ok(Edited { patch_id: open.id.clone(), revision, warnings, made: (labels, undo, redo) })
    }

    /// Writes the patch to `path`, or to its own file if `path` is absent. Its own file is never
    /// overwritten if another program has changed it.
    pub fn save(
        &self,
        patch_id: &str,
        path: Option<&str>,
        overwrite: bool,
        expected_revision: Option<u64>,
        consent: &Consent,
    ) -> Result<Saved, ToolError> {
        let open = self.root(patch_id)?;
        // The lock is needed only if a program runs patches. Otherwise saves do not wait for each
        // other.
        let runs = !lock(&self.driven).is_empty() && !consent.is_rehearsal();
        let _files = runs.then(|| self.files.write());
        let mut state = open.state(patch_id)?;
        let ask = Ask { patch_id, expected_revision, label: String::new(), consent: consent.clone() };
        expect_revision(&state.patch, &ask)?;
        let taken = if consent.is_rehearsal() { None } else { self.take_over(&open, &mut state)? };
        let warnings: Vec<Warning> = taken.into_iter().collect();
        let format = state.patch.document().format();
        let mine = open.place();
        let place = match (path, &mine) {
            (Some(path), _) => self.folders.place(path)?,
            (None, Some(place)) => place.clone(),
            (None, None) => {
                return Err(bad("this patch has no file yet")
                    .hint("Set `path`, such as \"my patch.maxpat\"; a relative path starts in the patches folder.")
                    .subject(Subject::Argument("path".into())));
            }
        };
        // A .maxpat may be saved as .maxhelp and the reverse; other formats cannot be changed.
        let plain = |it: Format| matches!(it, Format::Maxpat | Format::Maxhelp);
        if place.format() != format && !(plain(place.format()) && plain(format)) {
            return Err(bad(format!(
                "a .{} patch cannot be saved as .{}",
                format.extension(),
                place.format().extension()
            ))
            .hint(format!("Use a path that ends in .{}.", format.extension()))
            .subject(Subject::Argument("path".into())));
        }
        let own = mine.as_ref() == Some(&place);
        if !own && let Some(holder) = self.holder(&place) {
            return Err(bad(format!("{} is open as {:?}", place.path().display(), holder.id))
                .hint("Close that patch first, or save to another path."));
        }
        let bytes = state.patch.document().to_bytes();
        self.may_save(&place, &bytes, consent)?;
        if consent.is_rehearsal() {
            return Err(rehearsed());
        }
        let was = state.patch.saved_bytes().to_vec();
        // If the patch was never saved, an existing file at its path was written by another
        // program.
        let expected = match (own && state.on_disk, overwrite) {
            (true, _) => Expected::Bytes(&was),
            (false, true) => Expected::Any,
            (false, false) => Expected::Absent,
        };
        let unique = self.ids.v4().simple().to_string();
        let backup = self.folders.replace(&place, &bytes, expected, &unique, &|_| Ok(()))?;
        let names = state.patch.document().names_file();
        if names.is_some() || state.names.is_some() {
            self.folders.write_names(&place, names.as_deref(), &unique)?;
        }
        let changed = conductor_patch::diff_bytes(&was, &bytes, 0);
        let saved = Saved {
            revision: state.patch.revision(),
            path: place.path(),
            bytes: bytes.len(),
            hash: Digest::of(&bytes),
            backup,
            changed_lines: changed.lines_added + changed.lines_removed,
            warnings,
        };
        open.host.saved(&open.id, &saved.path);
        state.patch.mark_saved(bytes);
        state.names = names;
        state.on_disk = true;
        *lock(&open.place) = Some(place);
        self.say(Level::Info, Some(&open.id), None, format!("saved {}", saved.path.display()));
        Ok(saved)
    }

    /// Makes a change and sends it to the host. The new document is stored only after the host has
    /// accepted the change.
    fn carry<T>(
        &self,
        open: &Open,
        state: &mut State,
        consent: &Consent,
        make: impl FnOnce(&mut Patch) -> Result<T, PatchError>,
    ) -> Result<(T, Vec<Warning>), ToolError> {
        match open.host.kind() {
            HostKind::Document if consent.is_rehearsal() => Err(rehearsed()),
            HostKind::Document => Ok((make(&mut state.patch).map_err(refused)?, Vec::new())),
            HostKind::Pd | HostKind::Max => {
                let mut next = state.patch.clone();
                let made = make(&mut next).map_err(refused)?;
                let now = Arc::clone(&lock(&open.running));
                let (before, after, place) = (state.patch.document(), next.document(), open.place());
                let running =
                    self.may_run(&open.id, &*open.host, Some(before), after, place.as_ref(), &now, consent)?;
                if consent.is_rehearsal() {
                    return Err(rehearsed());
                }
                let warnings = open.host.carry(&open.id, state.patch.document(), next.document())?;
                state.patch = next;
                *lock(&open.running) = Arc::new(running);
                Ok((made, warnings))
            }
        }
    }

    /// Whether a patch runs in a program. Never blocks.
    pub fn runs(&self, patch_id: &str) -> bool {
        self.root(patch_id).is_ok_and(|it| it.host.kind() != HostKind::Document)
    }

    /// Whether any patch runs in a program. Never blocks.
    pub fn any_runs(&self) -> bool {
        lock(&self.registry).values().any(|it| it.host.kind() != HostKind::Document)
    }

    /// Whether another call is using a patch.
    pub fn is_busy(&self, patch_id: &str) -> bool {
        self.root(patch_id).is_ok_and(|it| it.state.is_locked())
    }

    /// The number of undo steps that closing a patch would lose; `None` without unsaved edits.
    pub fn unsaved(&self, patch_id: &str) -> Option<usize> {
        let open = self.root(patch_id).ok()?;
        let state = lock(&open.state);
        state.dirty().then(|| state.patch.depths().0)
    }

    /// Reads the patch from its program if it was changed there, and replaces the document.
    pub fn reconcile(&self, root: &str) -> Result<(), ToolError> {
        let open = self.root(root)?;
        let mut state = open.state(root)?;
        self.take_over(&open, &mut state).map(|_| ())
    }

    fn take_over(&self, open: &Open, state: &mut State) -> Result<Option<Warning>, ToolError> {
        let Some(bytes) = open.host.read_back(&open.id, state.patch.document())? else { return Ok(None) };
        let names = state.patch.document().names_file();
        let format = state.patch.document().format();
        let mut document =
            Document::open(bytes, format, &self.limits()).map_err(|fault| unreadable(&state.name, &fault))?;
        self.learn_all(&mut document, open.place().as_ref());
        if let Some(names) = &names {
            // Names of deleted boxes are dropped.
            let _ = document.take_names(names);
        }
        open.host.adopt(&open.id, &document)?;
        *lock(&open.running) = Arc::new(self.running(open, &document));
        state.patch.take(document);
        let warning = Warning {
            code: WarningCode::RewrittenByHost,
            message: format!(
                "{} was changed in its program and was read from there: all keys are new, and the undo history was deleted",
                open.id
            ),
            subject: None,
        };
        self.say(Level::Warning, Some(&open.id), None, warning.message.clone());
        Ok(Some(warning))
    }

    /// Closes a patch. Fails if it has unsaved edits, unless `discard` is set. Returns the id of
    /// the patch and the number of lost undo steps.
    pub fn close(&self, patch_id: &str, discard: bool) -> Result<(String, usize), ToolError> {
        let open = self.root(patch_id)?;
        if patch_id.contains('/') {
            return Err(bad(format!("{} is a subpatcher", short(patch_id)))
                .hint(format!("Only a whole patch can be closed: {:?}.", open.id)));
        }
        let mut state = open.state(patch_id)?;
        let dirty = state.dirty();
        if dirty && !discard {
            return Err(bad(format!("{} has unsaved edits", open.id))
                .hint("Save them with save_patch, or set `discard` to drop them.")
                .subject(Subject::Argument("discard".into())));
        }
        let lost = if dirty { state.patch.depths().0 } else { 0 };
        state.closed = true;
        drop(state);
        open.host.close(&open.id);
        lock(&self.registry).remove(&open.id);
        Ok((open.id.clone(), lost))
    }

    /// Locks or unlocks a patch. The revision does not change.
    pub fn set_locked(
        &self,
        patch_id: &str,
        locked: bool,
        expected_revision: Option<u64>,
    ) -> Result<Edited<()>, ToolError> {
        let open = self.root(patch_id)?;
        let mut state = open.state(patch_id)?;
        let consent = Consent::Call(None);
        expect_revision(&state.patch, &Ask { patch_id, expected_revision, label: String::new(), consent })?;
        let canvas = canvas(&state.patch, patch_id)?;
        open.host.set_locked(&open.id, locked)?;
        state.patch.set_locked(locked);
        let scene = scene(&open, &state, &canvas)?;
        Ok(Edited { patch_id: scene.id(), revision: state.patch.revision(), warnings: Vec::new(), made: () })
    }

    /// Hash of the current bytes. An approval is valid only for this state.
    pub fn state_hash(&self, patch_id: &str) -> Option<Digest> {
        let open = self.root(patch_id).ok()?;
        let state = lock(&open.state);
        Some(Digest::of(&state.patch.document().to_bytes()))
    }

    pub fn say(&self, level: Level, patch_id: Option<&str>, object: Option<String>, text: String) {
        self.voice.say(Source::Conductor, level, patch_id, object, text);
    }

    /// Reads the console. If `clear` is set, the lines are then hidden from this principal.
    pub fn console(&self, question: &Question<'_>, clear: bool) -> (Vec<Entry>, u64) {
        let mut console = self.voice.console();
        let read = console.read(question);
        if clear {
            console.clear(question.principal);
        }
        read
    }

    /// Reads the inlets and outlets of the abstractions that the document uses.
    fn learn_all(&self, document: &mut Document, place: Option<&Place>) {
        for class in document.unknown_classes() {
            self.learn(document.format(), place, &class, |ports| document.learn_abstraction(&class, ports));
        }
    }

    /// Reads the inlets and outlets of the abstractions that edits add.
    fn learn_new(&self, place: Option<&Place>, state: &mut State, ops: &[Op]) {
        let format = state.patch.document().format();
        let table = conductor_patch::objects::table(format);
        for op in ops {
            let text = match op {
                Op::Add(new) => &new.class,
                Op::SetText { text, .. } => text,
                Op::Remove(_)
                | Op::SetAttribute { .. }
                | Op::SetVarname { .. }
                | Op::AssignVarnames(_)
                | Op::SetHidden { .. }
                | Op::SetRect { .. }
                | Op::Connect { .. }
                | Op::Disconnect(_)
                | Op::SetMidpoints { .. }
                | Op::Encapsulate { .. }
                | Op::Restore(_) => continue,
            };
            let class = text.split_whitespace().next().unwrap_or_default().to_owned();
            if class.is_empty() || table.class_of(&class).is_some() {
                continue;
            }
            self.learn(format, place, &class, |ports| state.patch.learn_abstraction(&class, ports));
        }
    }

    fn learn(&self, format: Format, place: Option<&Place>, class: &str, learn: impl FnOnce(conductor_patch::Ports)) {
        let files = match Format::of_name(class) {
            Some(of) if of.is_pd() == format.is_pd() => vec![class.to_owned()],
            Some(_) | None if format.is_pd() => vec![format!("{class}.pd")],
            Some(_) | None => vec![format!("{class}.maxpat")],
        };
        let found = files.iter().find_map(|file| self.folders.find_near(place, file));
        if let Some((place, bytes)) = found
            && let Ok(document) = Document::open(bytes, place.format(), &self.limits())
        {
            learn(document.ports_as_abstraction());
        }
    }
}

impl Open {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    pub fn host(&self) -> &dyn PatchHost {
        &*self.host
    }

    fn place(&self) -> Option<Place> {
        lock(&self.place).clone()
    }

    fn state(&self, patch_id: &str) -> Result<MutexGuard<'_, State>, ToolError> {
        let state = lock(&self.state);
        if state.closed {
            return Err(ToolError::new(Code::StaleReference, format!("{} was closed", short(patch_id)))
                .hint("Open it again with open_patch."));
        }
        Ok(state)
    }
}

impl State {
    fn dirty(&self) -> bool {
        // Changed names of Pd boxes are unsaved work too; they are stored in the side file.
        self.patch.dirty() || self.patch.document().names_file() != self.names
    }
}

impl Scene<'_> {
    /// The id of this canvas, as used in results of tools.
    pub fn id(&self) -> String {
        let mut id = self.open.id.clone();
        for key in self.view.key_path() {
            id.push('/');
            id.push_str(&key);
        }
        id
    }

    pub fn id_of(&self, canvas: &CanvasId) -> Option<String> {
        let view = self.patch.document().view(canvas)?;
        let path: Vec<String> = std::iter::once(self.open.id.clone()).chain(view.key_path()).collect();
        Some(path.join("/"))
    }

    pub fn is_root(&self) -> bool {
        self.view.id().depth() == 0
    }

    pub fn revision(&self) -> u64 {
        self.patch.revision()
    }

    pub fn dirty(&self) -> bool {
        self.state.dirty()
    }

    pub fn opened(&self) -> &Document {
        &self.state.opened
    }

    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// File name of the patch, or the name it was created with.
    pub fn root_name(&self) -> String {
        self.place.as_ref().map_or_else(|| self.state.name.clone(), Place::file_name)
    }

    /// File name of the patch, or the name of the subpatcher.
    pub fn patcher_name(&self) -> String {
        if self.is_root() {
            return self.root_name();
        }
        self.view.name().or_else(|| self.view.key_path().pop()).unwrap_or_default()
    }

    /// Resolves a reference to a box.
    pub fn object(&self, reference: &str) -> Result<BoxView<'_>, ToolError> {
        let id = self.patch.object(self.view.id(), reference).map_err(|fault| lookup(fault, reference))?;
        self.view.get(id).ok_or_else(|| gone(reference))
    }
}

/// The console lines for a change: one line per edit up to a limit, or the label if no edit has a
/// line.
fn sentences(edits: &[Edit], applied: &Applied, label: &str) -> Vec<String> {
    const MOST: usize = 20;
    let mut lines: Vec<String> =
        edits.iter().zip(&applied.outcomes).filter_map(|(edit, it)| sentence_of(&edit.op, it)).collect();
    if lines.is_empty() {
        lines.push(label.to_owned());
    }
    if lines.len() > MOST {
        let rest = lines.len() - MOST;
        lines.truncate(MOST);
        lines.push(format!("and {rest} more"));
    }
    lines
}

fn sentence_of(op: &Op, outcome: &Outcome) -> Option<String> {
    let named = |target: &Target| match target {
        Target::Named(name) => short(name),
        Target::Box(_) => "an object".to_owned(),
    };
    let line = match (op, outcome) {
        (Op::Add(new), Outcome::Added { rect, .. }) => {
            let class = new.class.split_whitespace().next().unwrap_or_default();
            format!("Created {} at [{}, {}]", short(class), rect.x, rect.y)
        }
        (Op::Remove(target), _) => format!("Removed {}", named(target)),
        (Op::SetText { target, text, .. }, _) => format!("Replaced {} with {:?}", named(target), short(text)),
        (Op::Connect { ends, .. }, Outcome::Connected { .. }) => {
            format!("Connected {} {} to {} {}", named(&ends.from), ends.outlet, named(&ends.to), ends.inlet)
        }
        (Op::Disconnect(ends), _) => {
            format!("Disconnected {} {} from {} {}", named(&ends.from), ends.outlet, named(&ends.to), ends.inlet)
        }
        (Op::SetAttribute { target, name, .. }, _) => format!("Set {} of {}", short(name), named(target)),
        (Op::SetRect { target, position, .. }, _) => {
            format!("Moved {} to [{}, {}]", named(target), position.x, position.y)
        }
        (Op::Encapsulate { targets, name, .. }, _) => {
            format!("Encapsulated {} objects in {:?}", targets.len(), short(name))
        }
        (
            Op::Add(_)
            | Op::Connect { .. }
            | Op::SetVarname { .. }
            | Op::AssignVarnames(_)
            | Op::SetHidden { .. }
            | Op::SetMidpoints { .. }
            | Op::Restore(_),
            _,
        ) => return None,
    };
    Some(line)
}

fn scene<'a>(open: &'a Open, state: &'a State, canvas: &CanvasId) -> Result<Scene<'a>, ToolError> {
    let view = state.patch.document().view(canvas).ok_or_else(|| gone("the subpatcher"))?;
    Ok(Scene { open, patch: &state.patch, view, state, place: open.place() })
}

fn canvas(patch: &Patch, patch_id: &str) -> Result<CanvasId, ToolError> {
    let segments: Vec<&str> = patch_id.split('/').skip(1).collect();
    patch.canvas(&segments).map_err(|fault| lookup(fault, patch_id))
}

fn expect_revision(patch: &Patch, ask: &Ask<'_>) -> Result<(), ToolError> {
    match ask.expected_revision {
        Some(expected) if expected != patch.revision() => {
            Err(refused(PatchError::WrongRevision { expected, now: patch.revision() }))
        }
        Some(_) | None => Ok(()),
    }
}

fn free_alias(registry: &BTreeMap<String, Arc<Open>>, alias: String) -> Result<String, ToolError> {
    let fits = (1..=64).contains(&alias.len())
        && alias.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'_' | b'-'));
    let wrong = |text: String, hint: &str| Err(bad(text).hint(hint).subject(Subject::Argument("alias".into())));
    if !fits {
        return wrong(
            format!("{:?} is not a valid alias", short(&alias)),
            "Use 1 to 64 of the characters A-Z a-z 0-9 . _ -",
        );
    }
    if alias == "console" {
        return wrong("the alias \"console\" is reserved for patch://console".to_owned(), "Choose another alias.");
    }
    if registry.contains_key(&alias) {
        return wrong(format!("another patch is called {alias:?}"), "Choose another alias, or close that patch.");
    }
    Ok(alias)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn bad(text: impl Into<String>) -> ToolError {
    ToolError::new(Code::BadInput, text)
}

fn cut(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Truncates a name from outside for display.
fn short(text: &str) -> String {
    cut(text, 120)
}

fn gone(what: &str) -> ToolError {
    ToolError::new(Code::StaleReference, format!("{} no longer exists", short(what)))
        .hint("List the objects again and use the new keys.")
}

fn code(fault: Fault) -> Code {
    match fault {
        Fault::BadInput => Code::BadInput,
        Fault::NotFound => Code::NotFound,
        Fault::StaleReference => Code::StaleReference,
        Fault::Unsupported => Code::Unsupported,
    }
}

/// The error for a reference that cannot be resolved.
pub fn lookup(fault: LookupError, reference: &str) -> ToolError {
    let fault = EditError::Lookup(fault);
    ToolError::new(code(fault.fault()), short(&fault.to_string()))
        .hint(sentence(&fault.hint()))
        .subject(Subject::Other(short(reference)))
}

pub fn edit_refused(fault: &EditError) -> ToolError {
    ToolError::new(code(fault.fault()), cut(&fault.to_string(), 400)).hint(sentence(&fault.hint()))
}

fn refused(fault: PatchError) -> ToolError {
    match fault {
        PatchError::WrongRevision { .. } => ToolError::new(Code::StaleReference, fault.to_string())
            .hint("Nothing was done. Read the patch again and base the change on its current state."),
        PatchError::Refused(refused) => {
            edit_refused(&refused.error).subject(Subject::Other(format!("edits[{}]", refused.index)))
        }
        PatchError::Nothing(what) => ToolError::new(Code::NotFound, format!("Nothing to {what}"))
            .hint("undo_patch and redo_patch report how many steps are left."),
    }
}

fn unreadable(name: &str, fault: &OpenError) -> ToolError {
    bad(format!("{name} cannot be opened: {fault}"))
        .hint("Nothing was changed. Ask the person whether the file is complete or damaged.")
}

/// Converts a lower-case clause to a sentence.
fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first: String = letters.next().map(|it| it.to_uppercase().collect()).unwrap_or_default();
    let end = if clause.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}
