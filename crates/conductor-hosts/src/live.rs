//! The registry of open Live Sets. It records which session uses which Set, and has one write queue
//! per Set.
//!
//! Every kind of host implements [`LiveHost`]. Not here: tool names and wire formats
//! (`live` in `conductor-tools`), and the effects of edits (`conductor-set`).

pub mod abletonosc;
mod contents;
pub mod diagnose;
pub mod document;
pub mod knobs;
pub mod param_watch;
pub mod roots;
pub mod script;
pub mod sessions;
pub mod shared;
pub mod wav;
pub mod write_turn;

use crate::bridges::hex;
use crate::picture::piano_roll::ClipDrawing;
use crate::rooted::expand_home;
use conductor_core::config::LiveHostChoice;
use conductor_core::error::Code;
use conductor_set::{
    Applied, Clips, Devices, Guard, LiveEdit, LiveError, NoteQuery, Notes, Overview, Param, PathId, Scenes, Stepped,
    TrackDetail, TrackMatches,
};
use document::DocumentHost;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use roots::Roots;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sessions::{SessionKey, Sessions};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use write_turn::{Lane, Turn};

/// Ids of the Sets that represent a running Live: one for AbletonOSC, one for Conductor's script.
pub const OSC_SET: &str = "live_osc";
pub const SCRIPT_SET: &str = "live_script";

/// The `[live]` section of the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The host for calls that do not name a Set.
    pub host: LiveHostChoice,
    /// The Set to open at the first call that does not name a Set.
    pub default_set: Option<PathBuf>,
    /// New Sets are copies of this file. Without it, they are copies of the built-in skeleton.
    pub template_set: Option<PathBuf>,
    /// Folders in addition to `<home>/sets`.
    pub file_roots: Vec<PathBuf>,
    pub max_open: usize,
    pub max_xml_bytes: usize,
    pub undo_depth: usize,
    pub render_dir: PathBuf,
    pub osc: abletonosc::wire::Settings,
    pub script: script::Settings,
}

impl Settings {
    /// The default settings: Sets are files.
    pub fn of_home(home: &Path) -> Settings {
        let live = conductor_core::config::Live { host: LiveHostChoice::Document, ..Default::default() };
        Settings::of_config(home, None, &live)
    }

    /// Converts the `[live]` section. Relative paths are relative to the home; paths of Sets are
    /// relative to the folder `sets` in the home.
    pub fn of_config(home: &Path, user_home: Option<&Path>, live: &conductor_core::config::Live) -> Settings {
        let beneath = |folder: &Path, text: &str| {
            let path = expand_home(text, user_home).filter(|it| !it.as_os_str().is_empty())?;
            Some(folder.join(path))
        };
        let set = |text: &str| beneath(&home.join("sets"), text);
        Settings {
            host: live.host,
            default_set: set(&live.default_set),
            template_set: set(&live.template_set),
            file_roots: live.file_roots.iter().filter_map(|it| beneath(home, it)).collect(),
            max_open: live.max_open as usize,
            max_xml_bytes: (live.max_xml_mb as usize).saturating_mul(1 << 20),
            undo_depth: live.undo_depth as usize,
            render_dir: beneath(home, &live.render_dir).unwrap_or_else(|| home.join("state").join("renders")),
            osc: abletonosc::wire::Settings::of_config(&live.osc),
            script: script::Settings {
                home: home.to_owned(),
                timeout: Duration::from_millis(live.script.timeout_ms.into()),
            },
        }
    }
}

/// An operation that only some hosts support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    Launch,
    Transport,
    Files,
    RenderTrack,
    /// A dry run (`dryRun`).
    TryOut,
}

/// The operations that a host does not support, with the reason.
#[derive(Debug, Clone, Default)]
pub struct Caps {
    pub missing: BTreeMap<Op, &'static str>,
}

/// Why a host, or the registry, refused a request.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveHostError {
    /// The Set refused the request.
    Set(LiveError),
    /// The queue of writes is full.
    QueueFull { waiting: usize },
    /// The host does not support the operation.
    Missing { host: &'static str, op: Op, reason: &'static str },
    /// The session has no current Set, and there is no default Set. `open` are the open Sets.
    NoSet { open: Vec<String> },
    /// No open Set has this id.
    UnknownSet { id: String, open: Vec<String> },
    /// No file exists at the path.
    NoSuchFile { path: PathBuf },
    /// A folder, a link or a device is at the path.
    NotAFile { path: PathBuf },
    /// The name does not end in `.als`.
    NotALiveSetName { path: PathBuf },
    /// The file has more bytes than the limit.
    TooLarge { path: PathBuf, limit: usize },
    /// The new file already exists.
    FileExists { path: PathBuf },
    /// The path is not in an allowed folder.
    OutsideRoots { path: PathBuf, roots: Vec<PathBuf> },
    /// Another program changed the file after it was opened or saved.
    ChangedOnDisk { path: PathBuf },
    /// The maximum number of files is open, and each has unsaved changes or a running write.
    AllDirty { open: Vec<String> },
    /// The file system reported an error.
    Io { path: PathBuf, reason: String },
    /// The host cannot be reached.
    Offline { host: &'static str, reason: String },
    /// The host accepted the request but did not reply in time.
    NoAnswer { host: &'static str },
    /// The host reported this error.
    Said { host: &'static str, code: Code, message: String, subject: Option<String> },
    /// Changes were made, or may have been made, before the failure.
    HalfDone { done: String, why: Box<LiveHostError> },
    /// An internal error.
    Broken { reason: String },
}

impl LiveHostError {
    fn io(path: &Path, fault: io::Error) -> LiveHostError {
        LiveHostError::Io { path: path.to_owned(), reason: fault.to_string() }
    }
}

impl From<LiveError> for LiveHostError {
    fn from(error: LiveError) -> Self {
        LiveHostError::Set(error)
    }
}

pub type Answer<'a, T> = BoxFuture<'a, Result<T, LiveHostError>>;

/// The state of a Set without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub host: &'static str,
    pub path: Option<PathBuf>,
    pub dirty: bool,
    pub revision: String,
    /// Number of changes so far that shifted indices.
    pub structure: u64,
}

/// Whether a write is applied or only checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The write is computed and checked, but not applied.
    Preview,
    Apply,
}

/// A direction in the undo history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Undo,
    Redo,
}

/// One or more steps in the undo history, and their changes.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    pub stepped: Stepped,
    pub diff: conductor_set::Diff,
    pub tracks: u32,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    Play,
    Stop,
    Continue,
    StopClips,
    RecordOn,
    RecordOff,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Playing {
    /// Whether Live plays.
    pub is_playing: bool,
    /// Position in beats.
    #[serde(serialize_with = "conductor_set::wire::number")]
    pub beat: f64,
    /// Beats per minute.
    #[serde(serialize_with = "conductor_set::wire::number")]
    pub tempo: f64,
}

/// A host of one Set. A read does not wait for a write; it returns the state before or after the
/// write, not a state in between. A write waits for its turn in the Set's queue.
pub trait LiveHost: Send + Sync {
    fn caps(&self) -> &Caps;
    fn state(&self) -> State;
    /// Called before every read, so that the session records the current value of
    /// `State::structure`. A host of a running Live checks here which objects the person moved.
    fn refresh(&self) -> Answer<'_, ()>;
    fn overview(&self) -> Answer<'_, Overview>;
    fn find_track(&self, query: String) -> Answer<'_, TrackMatches>;
    fn clips(&self, track: PathId, offset: usize) -> Answer<'_, Clips>;
    fn notes(&self, clip: PathId, query: NoteQuery) -> Answer<'_, Notes>;
    fn devices(&self, chain: PathId) -> Answer<'_, Devices>;
    fn scenes(&self) -> Answer<'_, Scenes>;
    fn track_detail(&self, track: PathId) -> Answer<'_, TrackDetail>;
    fn draw_clip(&self, clip: PathId, width: u32) -> Answer<'_, ClipDrawing>;
    fn param(&self, id: PathId) -> Answer<'_, Param>;
    /// The values of these parameters, read with as few requests as possible; `None` for a
    /// parameter that does not exist.
    fn param_values(&self, ids: Vec<PathId>) -> Answer<'_, Vec<Option<f64>>>;
    /// Sets a value from a knob. The value is not read back and does not wait in the write queue,
    /// because the next value will replace it. If `still` is true, the previous value belongs to
    /// the same turn of the knob. In a file, both values then become one undo entry.
    fn turn_knob(&self, id: PathId, value: f64, still: bool) -> Answer<'_, ()>;
    fn write(self: Arc<Self>, turn: Turn, edits: Vec<LiveEdit>, guard: Guard, mode: Mode) -> Answer<'static, Applied>;
    fn step(self: Arc<Self>, turn: Turn, way: Way, steps: u32, guard: Guard, mode: Mode) -> Answer<'static, History>;
    fn launch(&self, id: PathId) -> Answer<'_, &'static str>;
    fn transport(&self, action: Transport, beat: Option<f64>) -> Answer<'_, Playing>;
    /// Known ids for completion; sends no request to the host.
    fn known_ids(&self) -> KnownIds;
    /// The document host if the Set is a file.
    fn document(self: Arc<Self>) -> Option<Arc<DocumentHost>>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownIds {
    pub tracks: u32,
    pub midi_clips: Vec<PathId>,
    /// Names of tracks and session clips of a running Live, for approval requests.
    pub names: BTreeMap<PathId, String>,
}

/// Whether an id refers to the Set of a running Live.
pub fn is_running(set: &str) -> bool {
    set == OSC_SET || set == SCRIPT_SET
}

/// An open Set.
pub struct LiveSet {
    pub id: String,
    pub host: Arc<dyn LiveHost>,
    pub lane: Lane,
    used: AtomicU64,
}

impl LiveSet {
    /// Fails if the host does not support the operation.
    pub fn needs(&self, op: Op) -> Result<(), LiveHostError> {
        match self.host.caps().missing.get(&op) {
            Some(reason) => Err(LiveHostError::Missing { host: self.host.state().host, op, reason }),
            None => Ok(()),
        }
    }

    pub fn file(&self) -> Result<Arc<DocumentHost>, LiveHostError> {
        self.needs(Op::Files)?;
        Arc::clone(&self.host).document().ok_or(LiveHostError::Missing {
            host: self.host.state().host,
            op: Op::Files,
            reason: "it is not a file",
        })
    }
}

#[derive(Default)]
struct Registry {
    sets: BTreeMap<String, Arc<LiveSet>>,
    sessions: Sessions,
}

/// Called when a Set changes, but not because of a tool call. Arguments: the Set, the changed
/// objects, and whether ids shifted.
type Listener = Box<dyn Fn(&LiveSet, &[PathId], bool) + Send + Sync>;

/// All open Sets, and for each session the state that it last read.
pub struct Live {
    settings: Settings,
    roots: Roots,
    registry: Mutex<Registry>,
    uses: AtomicU64,
    listener: OnceLock<Listener>,
    /// Locked only briefly, never during a request to a host.
    turning: Mutex<knobs::Turning>,
    me: Weak<Live>,
    /// Locked while a Set is opened: two callers that open the same file must get the same Set.
    opening: tokio::sync::Mutex<()>,
}

impl Live {
    pub fn new(home: &Path, settings: Settings) -> Arc<Live> {
        Arc::new_cyclic(|me| Live {
            roots: Roots::new(home, &settings.file_roots),
            settings,
            registry: Mutex::default(),
            uses: AtomicU64::new(1),
            listener: OnceLock::new(),
            turning: Mutex::default(),
            me: Weak::clone(me),
            opening: tokio::sync::Mutex::default(),
        })
    }

    /// Copies of the open files, for a dry run. The Set of a running Live is left out. A change to
    /// a copy does not affect the original.
    pub fn copies(&self) -> Arc<Live> {
        let registry = {
            let registry = self.lock();
            let mut sets = BTreeMap::new();
            for (id, set) in &registry.sets {
                let Some(file) = Arc::clone(&set.host).document() else { continue };
                let used = AtomicU64::new(set.used.load(Ordering::Relaxed));
                let copy = LiveSet { id: id.clone(), host: Arc::new(file.copy()), lane: Lane::default(), used };
                sets.insert(id.clone(), Arc::new(copy));
            }
            Registry { sets, sessions: registry.sessions.clone() }
        };
        let settings = Settings { host: LiveHostChoice::Document, ..self.settings.clone() };
        Arc::new_cyclic(|me| Live {
            roots: self.roots.clone(),
            settings,
            registry: Mutex::new(registry),
            uses: AtomicU64::new(self.uses.load(Ordering::Relaxed)),
            listener: OnceLock::new(),
            turning: Mutex::default(),
            me: Weak::clone(me),
            opening: tokio::sync::Mutex::default(),
        })
    }

    /// Registers the listener for changes that no tool call made; later registrations are ignored.
    pub fn on_change(&self, listener: impl Fn(&LiveSet, &[PathId], bool) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    fn change_callback(&self, id: &'static str) -> shared::OnChange {
        let me = Weak::clone(&self.me);
        Arc::new(move |changed, shifted| {
            let Some(live) = me.upgrade() else { return };
            let set = live.lock().sets.get(id).cloned();
            if let Some(set) = set {
                if shifted {
                    live.sessions(|sessions| sessions.shifted(id));
                }
                live.notify(&set, changed, shifted);
            }
        })
    }

    fn notify(&self, set: &LiveSet, changed: &[PathId], shifted: bool) {
        if let Some(listener) = self.listener.get() {
            listener(set, changed, shifted);
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }

    pub fn sets(&self) -> Vec<Arc<LiveSet>> {
        self.lock().sets.values().cloned().collect()
    }

    /// The default Set of a session: the configured Set if it is open, else the only open Set. Does
    /// not open a Set.
    fn fallback(&self) -> Option<Arc<LiveSet>> {
        let registry = self.lock();
        let of_path =
            |path: &PathBuf| registry.sets.values().find(|it| it.host.state().path.as_ref() == Some(path)).cloned();
        let configured = self.settings.default_set.as_ref().and_then(of_path);
        configured.or_else(|| registry.sets.values().next().filter(|_| registry.sets.len() == 1).cloned())
    }

    /// The Set for a call: the named Set, else the current Set of the session, else the default
    /// Set.
    pub async fn set(&self, key: &SessionKey, named: Option<&str>) -> Result<Arc<LiveSet>, LiveHostError> {
        let known = {
            let registry = self.lock();
            let open = || registry.sets.keys().cloned().collect::<Vec<_>>();
            // A current Set that was closed is an error. With another Set as the fallback, the
            // caller would edit the wrong Set.
            match named.or_else(|| registry.sessions.current(key)) {
                Some(id) => Some(
                    registry
                        .sets
                        .get(id)
                        .cloned()
                        .ok_or_else(|| LiveHostError::UnknownSet { id: id.into(), open: open() })?,
                ),
                None => None,
            }
        };
        let found = match known {
            Some(set) => set,
            None => self.default_set(key).await?,
        };
        found.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Ok(found)
    }

    /// Whether a call that names this Set, or no Set, can affect a running Live. The current Set of
    /// the session is not known here.
    pub fn may_be_running(&self, named: Option<&str>) -> bool {
        if let Some(id) = named {
            return is_running(id);
        }
        let registry = self.lock();
        let attached = registry.sets.keys().any(|it| is_running(it));
        let by_default = match self.settings.host {
            LiveHostChoice::Script | LiveHostChoice::AbletonOsc => true,
            LiveHostChoice::Auto => attached,
            // If only one Set is open, it is the default.
            LiveHostChoice::Document => attached && registry.sets.len() == 1,
        };
        by_default || registry.sessions.is_any_on(is_running)
    }

    /// Whether a call can affect a running Live only through AbletonOSC, not through the script.
    pub fn reaches_session_clips_only(&self, named: Option<&str>) -> bool {
        match named {
            Some(id) => id == OSC_SET,
            None => {
                let by_default = matches!(self.settings.host, LiveHostChoice::Document | LiveHostChoice::AbletonOsc);
                by_default && !self.lock().sets.contains_key(SCRIPT_SET)
            }
        }
    }

    /// The open Set that [`Live::set`] would return. Does not open a Set.
    pub fn meant(&self, key: &SessionKey, named: Option<&str>) -> Option<Arc<LiveSet>> {
        let known = {
            let registry = self.lock();
            named.or_else(|| registry.sessions.current(key)).map(|id| registry.sets.get(id).cloned())
        };
        known.unwrap_or_else(|| self.fallback())
    }

    /// The first Set of a session, according to `[live] host`.
    async fn default_set(&self, key: &SessionKey) -> Result<Arc<LiveSet>, LiveHostError> {
        match self.settings.host {
            LiveHostChoice::Document => {}
            LiveHostChoice::Script => return self.attach_script(key).await,
            LiveHostChoice::AbletonOsc => return self.attach_osc(key).await,
            // A session keeps its first host, because its ids must not refer to a Live that starts
            // later.
            LiveHostChoice::Auto => {
                if let Ok(set) = self.attach_script(key).await {
                    return Ok(set);
                }
                if let Ok(set) = self.attach_osc(key).await {
                    return Ok(set);
                }
            }
        }
        let set = match (self.fallback(), self.settings.default_set.clone()) {
            (Some(set), _) => set,
            (None, Some(path)) => self.open_file(&path).await?,
            (None, None) => return Err(LiveHostError::NoSet { open: self.lock().sets.keys().cloned().collect() }),
        };
        if self.settings.host == LiveHostChoice::Auto {
            self.lock().sessions.set_current(key, &set.id);
        }
        Ok(set)
    }

    /// The most recently used Set, for completion requests, which have no session.
    pub fn recent(&self) -> Option<Arc<LiveSet>> {
        self.lock().sets.values().max_by_key(|it| it.used.load(Ordering::Relaxed)).cloned()
    }

    /// Opens a file if it is not open yet, and makes it the session's current Set.
    pub async fn open(&self, key: &SessionKey, path: &Path) -> Result<Arc<LiveSet>, LiveHostError> {
        let set = self.open_file(path).await?;
        self.lock().sessions.set_current(key, &set.id);
        Ok(set)
    }

    async fn open_file(&self, path: &Path) -> Result<Arc<LiveSet>, LiveHostError> {
        let _one = self.opening.lock().await;
        let (roots, asked) = (self.roots.clone(), path.to_owned());
        let (limit, depth) = (self.settings.max_xml_bytes, self.settings.undo_depth);
        let place = blocking(move || roots.find(&asked)).await?;
        let whole = place.path().to_owned();
        if let Some(open) = self.of_path(&whole) {
            return Ok(open);
        }
        let host = blocking(move || DocumentHost::open(place, limit, depth)).await?;
        self.adopt(&whole, Arc::new(host))
    }

    /// Attaches a running Live through AbletonOSC if it is not attached yet, and makes it the
    /// session's current Set.
    pub async fn attach_osc(&self, key: &SessionKey) -> Result<Arc<LiveSet>, LiveHostError> {
        let attach = || async {
            let on_change = self.change_callback(OSC_SET);
            Ok(abletonosc::AbletonOscHost::attach(self.settings.osc, on_change).await? as Arc<dyn LiveHost>)
        };
        self.attach(key, OSC_SET, attach).await
    }

    /// Like [`Live::attach_osc`], but through Conductor's own script.
    pub async fn attach_script(&self, key: &SessionKey) -> Result<Arc<LiveSet>, LiveHostError> {
        let attach = || async {
            let on_change = self.change_callback(SCRIPT_SET);
            Ok(script::ScriptHost::attach(self.settings.script.clone(), on_change).await? as Arc<dyn LiveHost>)
        };
        self.attach(key, SCRIPT_SET, attach).await
    }

    async fn attach<F: Future<Output = Result<Arc<dyn LiveHost>, LiveHostError>>>(
        &self,
        key: &SessionKey,
        id: &'static str,
        attach: impl FnOnce() -> F,
    ) -> Result<Arc<LiveSet>, LiveHostError> {
        let _one = self.opening.lock().await;
        let known = self.lock().sets.get(id).cloned();
        let set = match known {
            Some(set) => set,
            None => {
                let host = attach().await?;
                let used = AtomicU64::new(self.uses.fetch_add(1, Ordering::Relaxed));
                let set = Arc::new(LiveSet { id: id.into(), host, lane: Lane::default(), used });
                self.lock().sets.insert(id.into(), Arc::clone(&set));
                set
            }
        };
        self.lock().sessions.set_current(key, id);
        Ok(set)
    }

    /// Creates a file and opens it as the session's current Set.
    pub async fn create(
        &self,
        key: &SessionKey,
        path: &Path,
        template: Option<&Path>,
    ) -> Result<Arc<LiveSet>, LiveHostError> {
        let _one = self.opening.lock().await;
        let (roots, asked) = (self.roots.clone(), path.to_owned());
        let template = template.map(Path::to_owned).or_else(|| self.settings.template_set.clone());
        let (limit, depth) = (self.settings.max_xml_bytes, self.settings.undo_depth);
        self.make_room()?;
        let host = blocking(move || {
            let place = named_als(roots.find(&asked)?)?;
            let als = match template {
                Some(template) => {
                    let (als, _) = roots.find(&template)?.read(limit)?;
                    conductor_set::Document::open(&als, limit)?;
                    als
                }
                None => conductor_set::Document::new_set()?.to_als(),
            };
            place.create(&als)?;
            DocumentHost::open(place, limit, depth)
        })
        .await?;
        let whole = host.path();
        let set = self.adopt(&whole, Arc::new(host))?;
        self.lock().sessions.set_current(key, &set.id);
        Ok(set)
    }

    /// Registers a Set that was saved to another path. The Set keeps its history and gets the id of
    /// the new path.
    pub fn moved(&self, key: &SessionKey, set: &Arc<LiveSet>, path: &Path) -> Arc<LiveSet> {
        let mut registry = self.lock();
        registry.sets.remove(&set.id);
        let id = free_id(&registry, path);
        let moved = Arc::new(LiveSet {
            id: id.clone(),
            host: Arc::clone(&set.host),
            lane: set.lane.clone(),
            used: AtomicU64::new(self.uses.fetch_add(1, Ordering::Relaxed)),
        });
        registry.sets.insert(id.clone(), Arc::clone(&moved));
        registry.sessions.renamed(&set.id, &id);
        registry.sessions.set_current(key, &id);
        moved
    }

    pub fn of_path(&self, path: &Path) -> Option<Arc<LiveSet>> {
        self.lock().sets.values().find(|it| it.host.state().path.as_deref() == Some(path)).cloned()
    }

    fn adopt(&self, path: &Path, host: Arc<dyn LiveHost>) -> Result<Arc<LiveSet>, LiveHostError> {
        self.make_room()?;
        let mut registry = self.lock();
        let id = free_id(&registry, path);
        let used = AtomicU64::new(self.uses.fetch_add(1, Ordering::Relaxed));
        let set = Arc::new(LiveSet { id: id.clone(), host, lane: Lane::default(), used });
        registry.sets.insert(id, Arc::clone(&set));
        Ok(set)
    }

    /// All hosts with name and state, and the reason if a host cannot be reached.
    pub async fn hosts(&self) -> Vec<(&'static str, &'static str, Option<String>)> {
        let attached = |id: &str| self.lock().sets.contains_key(id);
        let (has_script, has_osc) = (attached(SCRIPT_SET), attached(OSC_SET));
        let home = self.settings.script.home.clone();
        let script = match blocking(move || script::rendezvous::read(&home).map_err(LiveHostError::from)).await {
            _ if has_script => (script::NAME, "attached", None),
            Ok(_) => (script::NAME, "ready", None),
            Err(LiveHostError::Offline { reason, .. }) => (script::NAME, "absent", Some(reason)),
            Err(_) => (script::NAME, "absent", None),
        };
        let peer = self.settings.osc.peer;
        let osc = if has_osc {
            (abletonosc::wire::NAME, "attached", None)
        } else if abletonosc::wire::nobody_listens(peer).await {
            (abletonosc::wire::NAME, "absent", Some(format!("nothing listens on UDP {peer}")))
        } else {
            (abletonosc::wire::NAME, "ready", None)
        };
        vec![(document::NAME, "ready", None), script, osc]
    }

    /// If the maximum number of files is open, closes the least recently used one without unsaved
    /// changes and without a running write.
    fn make_room(&self) -> Result<(), LiveHostError> {
        let mut registry = self.lock();
        let is_file = |set: &&Arc<LiveSet>| set.host.state().path.is_some();
        while registry.sets.values().filter(is_file).count() >= self.settings.max_open.max(1) {
            let clean = registry.sets.values().filter(is_file).filter(|it| !it.host.state().dirty && it.lane.is_idle());
            let oldest = clean.min_by_key(|it| it.used.load(Ordering::Relaxed)).map(|it| it.id.clone());
            let Some(oldest) = oldest else {
                return Err(LiveHostError::AllDirty { open: registry.sets.keys().cloned().collect() });
            };
            registry.sets.remove(&oldest);
            registry.sessions.closed(&oldest);
        }
        Ok(())
    }

    /// The preconditions of a write by this session: the Set has the expected revision, and no
    /// other caller has shifted ids since the session read the Set. The second condition does not
    /// apply to the engine, because its ids always refer to the current positions.
    pub fn guard(&self, key: &SessionKey, set: &LiveSet, expect_revision: Option<String>) -> Guard {
        Guard { expect_revision, seen: self.lock().sessions.seen(key, &set.id) }
    }

    /// Records the value of `State::structure` at which the session has read the Set.
    pub fn saw(&self, key: &SessionKey, set: &LiveSet, structure: u64) {
        self.lock().sessions.saw(key, &set.id, structure);
    }

    pub fn sessions<T>(&self, look: impl FnOnce(&mut Sessions) -> T) -> T {
        look(&mut self.lock().sessions)
    }

    pub fn connection_ended(&self, conn: u64) {
        self.lock().sessions.forget(&SessionKey::Connection(conn));
    }
}

/// Checks the extension. Only `.als` files are written, because Live opens no others.
pub fn named_als(place: roots::Place) -> Result<roots::Place, LiveHostError> {
    match place.path().extension() {
        Some(end) if end.eq_ignore_ascii_case("als") => Ok(place),
        Some(_) | None => Err(LiveHostError::NotALiveSetName { path: place.path().to_owned() }),
    }
}

/// An id like `demo_a7f2`: the file stem, and digits of the path's hash that distinguish Sets of
/// the same name.
fn free_id(registry: &Registry, path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let mut slug = String::new();
    for letter in stem.chars().take(40) {
        let plain = letter.is_ascii_alphanumeric();
        if plain {
            slug.push(letter);
        } else if !slug.ends_with('_') && !slug.is_empty() {
            slug.push('_');
        }
    }
    let slug = slug.trim_end_matches('_');
    let slug = if slug.is_empty() { "set" } else { slug };
    let hex = hex(&Sha256::digest(path.as_os_str().as_encoded_bytes()));
    let long = (4..=hex.len()).filter_map(|end| hex.get(..end)).map(|end| format!("{slug}_{end}"));
    long.into_iter().find(|id| !registry.sets.contains_key(id)).unwrap_or_else(|| format!("{slug}_{hex}"))
}

/// Runs work that reads files or parses a whole Set on a blocking thread.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LiveHostError> + Send + 'static,
) -> Result<T, LiveHostError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(LiveHostError::Broken { reason: "a task for a Set was aborted".into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `~/` is the person's home folder, independent of the Conductor home.
    #[test]
    fn a_root_in_the_persons_folder_works_with_any_conductor_home() {
        let config = conductor_core::config::Live { file_roots: vec!["~/Music".into()], ..Default::default() };
        // `absolute` adds a drive on Windows, where a path without a drive is not absolute.
        let ada = std::path::absolute("/home/ada").unwrap();
        for home in [std::path::absolute("/srv/studio").unwrap(), ada.join(".conductor")] {
            let settings = Settings::of_config(&home, Some(&ada), &config);
            assert_eq!(settings.file_roots, [ada.join("Music")], "{home:?}");
            assert_eq!(Roots::new(&home, &settings.file_roots).list().len(), 2, "{home:?}");
        }
        let patch = conductor_core::config::Patch { roots: vec!["~/Music".into()], ..Default::default() };
        let patch = crate::patch::Settings::of_config(&patch, Some(ada.clone()));
        assert_eq!(patch.roots, [ada.join("Music")]);
    }
}
