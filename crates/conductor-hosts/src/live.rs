//! Live Sets: the ones that are open, who looks at which, and the one lane that writes to each.
//!
//! Every kind of host stands behind [`LiveHost`]. Not here: tool names and wire shapes
//! (`tools/live`), what an edit does (`conductor-set`).

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

use crate::rooted::expand_home;
use conductor_core::config::LiveHostChoice;
use conductor_core::error::Code;
use conductor_set::{
    Applied, ClipDrawing, Clips, Devices, Guard, LiveEdit, LiveError, NoteQuery, Notes, Overview, Param, PathId,
    Scenes, Stepped, TrackDetail, TrackMatches,
};
use document::DocumentHost;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use roots::Roots;
use sessions::{SessionKey, Sessions};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use write_turn::{Lane, Turn};

/// The ids of the Sets of a running Live.
pub const OSC_SET: &str = "live_osc";
pub const SCRIPT_SET: &str = "live_script";

/// `[live]`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What calls mean that name no Set.
    pub host: LiveHostChoice,
    /// Opened at the first call that names no Set.
    pub default_set: Option<PathBuf>,
    /// What a new Set is a copy of; else the built-in skeleton.
    pub template_set: Option<PathBuf>,
    /// Beside `<home>/sets`.
    pub file_roots: Vec<PathBuf>,
    pub max_open: usize,
    pub max_xml_bytes: usize,
    pub undo_depth: usize,
    pub render_dir: PathBuf,
    pub osc: abletonosc::wire::Settings,
    pub script: script::Settings,
}

impl Settings {
    /// What holds where the file says nothing.
    pub fn of_home(home: &Path) -> Settings {
        Settings {
            host: LiveHostChoice::Document,
            default_set: None,
            template_set: None,
            file_roots: Vec::new(),
            max_open: 8,
            max_xml_bytes: conductor_set::DEFAULT_XML_LIMIT,
            undo_depth: conductor_set::DEFAULT_UNDO_DEPTH,
            render_dir: home.join("state").join("renders"),
            osc: abletonosc::wire::Settings::default(),
            script: script::Settings { home: home.to_owned(), timeout: Duration::from_secs(2) },
        }
    }

    /// As `[live]` says. Relative paths start at the home, those of Sets at its folder of Sets.
    pub fn of_config(home: &Path, user_home: Option<&Path>, live: &conductor_core::config::Live) -> Settings {
        let beneath = |folder: &Path, text: &str| {
            let path = expand_home(text, user_home).filter(|it| !it.as_os_str().is_empty())?;
            Some(folder.join(path))
        };
        let set = |text: &str| beneath(&home.join("sets"), text);
        let osc = &live.osc;
        Settings {
            host: live.host,
            default_set: set(&live.default_set),
            template_set: set(&live.template_set),
            file_roots: live.file_roots.iter().filter_map(|it| beneath(home, it)).collect(),
            max_open: live.max_open as usize,
            max_xml_bytes: (live.max_xml_mb as usize).saturating_mul(1 << 20),
            undo_depth: live.undo_depth as usize,
            render_dir: beneath(home, &live.render_dir).unwrap_or_else(|| home.join("state").join("renders")),
            osc: abletonosc::wire::Settings {
                // The file was checked to hold an address.
                peer: (osc.host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), osc.port).into(),
                reply_port: osc.reply_port,
                timeout: Duration::from_millis(osc.timeout_ms.into()),
            },
            script: script::Settings {
                home: home.to_owned(),
                timeout: Duration::from_millis(live.script_timeout_ms.into()),
            },
        }
    }
}

/// What only some hosts can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    Launch,
    Transport,
    Files,
    RenderTrack,
    /// `dryRun`.
    TryOut,
}

/// What a host cannot do, with the reason.
#[derive(Debug, Clone, Default)]
pub struct Caps {
    pub missing: BTreeMap<Op, &'static str>,
}

/// Why a host, or the registry before it, did not do what was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveHostError {
    Set(LiveError),
    /// As many writes wait as may.
    QueueFull {
        waiting: usize,
    },
    /// The host cannot do it at all.
    Missing {
        host: &'static str,
        op: Op,
        reason: &'static str,
    },
    NoSet {
        open: Vec<String>,
    },
    UnknownSet {
        id: String,
        open: Vec<String>,
    },
    NoSuchFile {
        path: PathBuf,
    },
    NotAFile {
        path: PathBuf,
    },
    NotALiveSetName {
        path: PathBuf,
    },
    TooLarge {
        path: PathBuf,
        limit: usize,
    },
    FileExists {
        path: PathBuf,
    },
    OutsideRoots {
        path: PathBuf,
        roots: Vec<PathBuf>,
    },
    /// Somebody else wrote the file since it was opened or saved.
    ChangedOnDisk {
        path: PathBuf,
    },
    AllDirty {
        open: Vec<String>,
    },
    Io {
        path: PathBuf,
        reason: String,
    },
    Offline {
        host: &'static str,
        reason: String,
    },
    /// The host took the question and said nothing in time.
    NoAnswer {
        host: &'static str,
    },
    /// The host said so itself.
    Said {
        host: &'static str,
        code: Code,
        message: String,
        subject: Option<String>,
    },
    /// Something was written, or may have been, before it failed.
    HalfDone {
        done: String,
        why: Box<LiveHostError>,
    },
    /// Our own fault.
    Broken {
        reason: String,
    },
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

/// What the registry tells of a Set beside its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub host: &'static str,
    pub path: Option<PathBuf>,
    pub dirty: bool,
    pub revision: String,
    /// Counts edits that shift indices.
    pub structure: u64,
}

/// How a write is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Worked out and checked; nothing is written.
    Preview,
    Apply,
}

/// Which way through the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Undo,
    Redo,
}

/// A step through the history with what it changed.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    pub stepped: Stepped,
    pub diff: conductor_set::Diff,
    pub tracks: u32,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transport {
    Play,
    Stop,
    Continue,
    StopClips,
    RecordOn,
    RecordOff,
}

impl Transport {
    pub const ALL: [Transport; 6] = [
        Transport::Play,
        Transport::Stop,
        Transport::Continue,
        Transport::StopClips,
        Transport::RecordOn,
        Transport::RecordOff,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Transport::Play => "play",
            Transport::Stop => "stop",
            Transport::Continue => "continue",
            Transport::StopClips => "stop_clips",
            Transport::RecordOn => "record_on",
            Transport::RecordOff => "record_off",
        }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Playing {
    pub is_playing: bool,
    pub beat: f64,
    pub tempo: f64,
}

/// A host of one Set. Reads see the state before or after a write, never in between, and never wait
/// for one; a write takes the turn of the Set's lane with it.
pub trait LiveHost: Send + Sync {
    fn caps(&self) -> &Caps;
    fn state(&self) -> State;
    /// Called before every read, and before the structure is counted that the reader is then held
    /// to have seen: a running Live is asked here what the person moved.
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
    /// What these parameters stand at, as cheaply as the host can tell; nothing for one that is not
    /// there.
    fn param_values(&self, ids: Vec<PathId>) -> Answer<'_, Vec<Option<f64>>>;
    /// A value from a knob: the next replaces it, so it is not read back and takes no turn. While
    /// it is still turning it is one undo entry where the history is ours.
    fn turn_knob(&self, id: PathId, value: f64, still: bool) -> Answer<'_, ()>;
    fn write(self: Arc<Self>, turn: Turn, edits: Vec<LiveEdit>, guard: Guard, mode: Mode) -> Answer<'static, Applied>;
    fn step(self: Arc<Self>, turn: Turn, way: Way, steps: u32, guard: Guard, mode: Mode) -> Answer<'static, History>;
    fn launch(&self, id: PathId) -> Answer<'_, &'static str>;
    fn transport(&self, action: Transport, beat: Option<f64>) -> Answer<'_, Playing>;
    /// From what is known already, for completion: starts nothing.
    fn known_ids(&self) -> KnownIds;
    /// The file behind the Set, when there is one.
    fn document(self: Arc<Self>) -> Option<Arc<DocumentHost>>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownIds {
    pub tracks: u32,
    pub midi_clips: Vec<PathId>,
    /// Of tracks and session clips of a running Live, for a person who is asked about one.
    pub names: BTreeMap<PathId, String>,
}

/// Whether an id names the Set of a running Live.
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
    /// Refuses what this host cannot do.
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
            reason: "it has no file of its own",
        })
    }
}

#[derive(Default)]
struct Registry {
    sets: BTreeMap<String, Arc<LiveSet>>,
    sessions: Sessions,
}

/// Told of a change that nobody asked for: the Set, the objects that changed, and whether ids
/// moved.
type Listener = Box<dyn Fn(&LiveSet, &[PathId], bool) + Send + Sync>;

/// All open Sets of the studio, and what each session last saw of them.
pub struct Live {
    settings: Settings,
    roots: Roots,
    registry: Mutex<Registry>,
    uses: AtomicU64,
    listener: OnceLock<Listener>,
    /// Held for one look, never while a host is asked.
    turning: Mutex<knobs::Turning>,
    me: Weak<Live>,
    /// One opening at a time: two that open the same file must get the same Set.
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

    /// Who is told when somebody changes a Set without a call: the first to ask.
    pub fn on_change(&self, listener: impl Fn(&LiveSet, &[PathId], bool) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    fn told(&self, id: &'static str) -> shared::Told {
        let me = Weak::clone(&self.me);
        Arc::new(move |changed, shifted| {
            let Some(live) = me.upgrade() else { return };
            let set = live.lock().sets.get(id).cloned();
            if let Some(set) = set {
                if shifted {
                    live.sessions(|sessions| sessions.shifted(id));
                }
                live.tell_of(&set, changed, shifted);
            }
        })
    }

    fn tell_of(&self, set: &LiveSet, changed: &[PathId], shifted: bool) {
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

    /// What sessions start on: the configured Set, else the only open one. Opens nothing.
    fn fallback(&self) -> Option<Arc<LiveSet>> {
        let registry = self.lock();
        let of_path =
            |path: &PathBuf| registry.sets.values().find(|it| it.host.state().path.as_ref() == Some(path)).cloned();
        let configured = self.settings.default_set.as_ref().and_then(of_path);
        configured.or_else(|| registry.sets.values().next().filter(|_| registry.sets.len() == 1).cloned())
    }

    /// The Set a call is about: the named one, else the session's, else the default.
    pub async fn set(&self, key: &SessionKey, named: Option<&str>) -> Result<Arc<LiveSet>, LiveHostError> {
        let known = {
            let registry = self.lock();
            let open = || registry.sets.keys().cloned().collect::<Vec<_>>();
            // A current Set that was closed meanwhile is an error, never another Set: the caller
            // would edit what it does not mean.
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

    /// Whether a call that names this Set, or none, may be about a running Live. Which Set a
    /// session is on is known to the call itself only.
    pub fn may_be_running(&self, named: Option<&str>) -> bool {
        if let Some(id) = named {
            return is_running(id);
        }
        let registry = self.lock();
        let attached = registry.sets.keys().any(|it| is_running(it));
        let by_default = match self.settings.host {
            LiveHostChoice::Script | LiveHostChoice::AbletonOsc => true,
            LiveHostChoice::Auto => attached,
            // The only open Set is the default.
            LiveHostChoice::Document => attached && registry.sets.len() == 1,
        };
        by_default || registry.sessions.is_any_on(is_running)
    }

    /// Whether a running Live that a call may be about is one behind AbletonOSC, and no other.
    pub fn reaches_session_clips_only(&self, named: Option<&str>) -> bool {
        match named {
            Some(id) => id == OSC_SET,
            None => {
                let by_default = matches!(self.settings.host, LiveHostChoice::Document | LiveHostChoice::AbletonOsc);
                by_default && !self.lock().sets.contains_key(SCRIPT_SET)
            }
        }
    }

    /// The open Set that [`Live::set`] would give. Opens nothing.
    pub fn meant(&self, key: &SessionKey, named: Option<&str>) -> Option<Arc<LiveSet>> {
        let known = {
            let registry = self.lock();
            named.or_else(|| registry.sessions.current(key)).map(|id| registry.sets.get(id).cloned())
        };
        known.unwrap_or_else(|| self.fallback())
    }

    /// What a session starts on, as `[live] host` says.
    async fn default_set(&self, key: &SessionKey) -> Result<Arc<LiveSet>, LiveHostError> {
        match self.settings.host {
            LiveHostChoice::Document => {}
            LiveHostChoice::Script => return self.attach_script(key).await,
            LiveHostChoice::AbletonOsc => return self.attach_osc(key).await,
            // A session stays with what it started on: a Live that starts later must not take over
            // its ids.
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

    /// For completion, which knows no session.
    pub fn recent(&self) -> Option<Arc<LiveSet>> {
        self.lock().sets.values().max_by_key(|it| it.used.load(Ordering::Relaxed)).cloned()
    }

    /// Opens a file, or finds it open, and makes it the session's current Set.
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

    /// Attaches a running Live through AbletonOSC, or finds it attached, and makes it the session's
    /// current Set.
    pub async fn attach_osc(&self, key: &SessionKey) -> Result<Arc<LiveSet>, LiveHostError> {
        let attach = || async {
            let told = self.told(OSC_SET);
            Ok(abletonosc::AbletonOscHost::attach(self.settings.osc, told).await? as Arc<dyn LiveHost>)
        };
        self.attach(key, OSC_SET, attach).await
    }

    /// The same through our own script.
    pub async fn attach_script(&self, key: &SessionKey) -> Result<Arc<LiveSet>, LiveHostError> {
        let attach = || async {
            let told = self.told(SCRIPT_SET);
            Ok(script::ScriptHost::attach(self.settings.script.clone(), told).await? as Arc<dyn LiveHost>)
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

    /// Makes a file that did not exist and opens it as the session's current Set.
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

    /// Saves a copy elsewhere and goes on with it: the Set keeps its history and gets the id of its
    /// new path.
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

    /// Which hosts can be reached: name, state and, for one that cannot, why.
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

    /// Closes the clean Set that was used longest ago, when as many are open as may be.
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

    /// What must hold for a write of this session. Engine have none: their ids mean the position at
    /// the moment of the press.
    pub fn guard(&self, key: &SessionKey, set: &LiveSet, expect_revision: Option<String>) -> Guard {
        Guard { expect_revision, seen: self.lock().sessions.seen(key, &set.id) }
    }

    /// The session has seen the Set as it was when this count was read.
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

/// Only names that Live opens are written.
pub fn named_als(place: roots::Place) -> Result<roots::Place, LiveHostError> {
    match place.path().extension() {
        Some(end) if end.eq_ignore_ascii_case("als") => Ok(place),
        Some(_) | None => Err(LiveHostError::NotALiveSetName { path: place.path().to_owned() }),
    }
}

/// `demo_a7f2`: the stem as people write it, and digits of the path that tell two Sets of one name
/// apart.
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
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    let hex = digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let long = (4..=hex.len()).filter_map(|end| hex.get(..end)).map(|end| format!("{slug}_{end}"));
    long.into_iter().find(|id| !registry.sets.contains_key(id)).unwrap_or_else(|| format!("{slug}_{hex}"))
}

/// Work that reads files or takes apart a whole Set, away from the threads that serve clients.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LiveHostError> + Send + 'static,
) -> Result<T, LiveHostError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(LiveHostError::Broken { reason: "work on a Set was cut off".into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `~/` is the person's own folder, wherever the Conductor home is.
    #[test]
    fn a_root_in_the_persons_folder_works_with_any_conductor_home() {
        let config = conductor_core::config::Live { file_roots: vec!["~/Music".into()], ..Default::default() };
        for home in ["/srv/studio", "/home/ada/.conductor"] {
            let settings = Settings::of_config(Path::new(home), Some(Path::new("/home/ada")), &config);
            assert_eq!(settings.file_roots, [PathBuf::from("/home/ada/Music")], "{home}");
            assert_eq!(Roots::new(Path::new(home), &settings.file_roots).list().len(), 2, "{home}");
        }
        let patch = conductor_core::config::Patch { roots: vec!["~/Music".into()], ..Default::default() };
        let patch = crate::patch::Settings::of_config(&patch, Some("/home/ada".into()));
        assert_eq!(patch.roots, [PathBuf::from("/home/ada/Music")]);
    }
}
