//! The folder of plugins: what lies in it, what a person enabled, and which of it runs.
//!
//! Files are found at start and whenever the folder or the configuration changes. Nothing that is
//! found runs by itself: a row of the configuration with the pin a person saw does. What is loaded
//! is compared with that pin every time.
//!
//! Not here: the processes (`hosts::plugin`), their tools (`tools::plugins`), and the writing of
//! rows (`tools::daemon::plugin_set`).

use crate::log::Log;
use arc_swap::ArcSwap;
use conductor_core::audit::record::EventName;
use conductor_core::config::{self, Plugin};
use conductor_core::digest::Digest;
use conductor_core::text::escape;
use conductor_gateway::studio::Studio;
use conductor_gateway::tools::catalog::Tool;
use conductor_gateway::tools::plugins::reach::{Means, Reach, Say};
use conductor_gateway::tools::plugins::{self as tools};
use conductor_gateway::tools::schema::Validator;
use conductor_hosts::atomic_file::{self, RealDisk};
use conductor_hosts::plugin::Limits;
use conductor_hosts::plugin::manifest::{self, Manifest};
use conductor_hosts::plugin::process::{Launch, LogLevel};
use conductor_hosts::plugin::runner::Runner;
use futures_util::future::join_all;
use notify::{RecursiveMode, Watcher};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A longer file is no plugin.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// How long a plugin may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Found, and not enabled by anybody.
    Disabled,
    Ready,
    /// Its configuration does not fit; the reason says what is missing.
    NotConfigured,
    InitFailed,
    /// Not what a person enabled.
    PinMismatch,
}

/// One plugin, as `plugins list` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub name: String,
    pub file: String,
    pub status: Status,
    pub reason: Option<String>,
    pub version: Option<String>,
    pub tools: Vec<String>,
    pub pid: Option<u32>,
    pub restarts: u64,
}

/// What is known of one plugin.
struct Known {
    file: String,
    status: Status,
    reason: Option<String>,
    /// Of what is enabled; of a changed file, what it was when it was enabled.
    manifest: Option<Arc<Manifest>>,
    runner: Option<Arc<Runner>>,
    /// What it was judged by. The same row and the same bytes are not judged again.
    row: Option<Plugin>,
    code: Option<Digest>,
}

/// A file of the folder.
#[derive(Clone)]
struct Found {
    source: Arc<[u8]>,
    code: Digest,
}

pub struct Plugins {
    folder: PathBuf,
    /// What was enabled, by name, so that a changed file can be refused tool by tool.
    kept: PathBuf,
    program: ArcSwap<PathBuf>,
    studio: Arc<Studio>,
    means: Means,
    log: Log,
    rows: ArcSwap<config::Plugins>,
    known: Mutex<BTreeMap<String, Known>>,
    /// One look at the folder at a time.
    looking: tokio::sync::Mutex<()>,
    touched: Arc<Notify>,
    /// The last file that a person was shown. A yes to it names its pin, and it may have changed by
    /// the time it is loaded.
    shown: Mutex<Option<Manifest>>,
}

impl Plugins {
    pub fn new(studio: &Arc<Studio>, program: PathBuf, means: Means, log: &Log) -> Arc<Self> {
        Arc::new(Plugins {
            folder: studio.home.join("plugins"),
            kept: studio.home.join("state/plugins"),
            program: ArcSwap::from_pointee(program),
            studio: Arc::clone(studio),
            means,
            log: log.clone(),
            rows: ArcSwap::default(),
            known: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            touched: Arc::default(),
            shown: Mutex::default(),
        })
    }

    /// A person sees what this file says about itself.
    pub fn show(&self, manifest: &Manifest) {
        *self.shown.lock() = Some(manifest.clone());
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The binary whose `plugin-host` is started. A daemon inside another program, such as a test,
    /// names it.
    pub fn use_program(&self, program: PathBuf) {
        self.program.store(Arc::new(program));
    }

    pub fn program(&self) -> PathBuf {
        self.program.load().to_path_buf()
    }

    /// New rows; they are acted upon soon. Does not wait.
    pub fn set_rows(&self, rows: &config::Plugins) {
        self.rows.store(Arc::new(rows.clone()));
        self.touched.notify_one();
    }

    /// Something a plugin may have waited for has changed, such as a secret.
    pub fn touch(&self) {
        self.touched.notify_one();
    }

    /// Lets every plugin say goodbye, and ends their processes.
    pub async fn stop(&self) {
        let runners: Vec<Arc<Runner>> = {
            let known = self.known.lock();
            known.values().filter_map(|it| it.runner.clone()).collect()
        };
        let _ = tokio::time::timeout(FAREWELL, join_all(runners.iter().map(|it| it.stop()))).await;
    }

    /// Watches the folder and acts on every change, until the future is dropped. The watcher ends
    /// with it.
    pub async fn watch(self: Arc<Self>, debounce_ms: u64) {
        let touched = Arc::clone(&self.touched);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is an access; it must not cause another reading.
            if event.map_or(true, |it| !it.kind.is_access()) {
                touched.notify_one();
            }
        });
        let watching = watcher.and_then(|mut it| it.watch(&self.folder, RecursiveMode::NonRecursive).map(|()| it));
        if let Err(fault) = &watching {
            self.log.warn(format_args!(
                "plugins: {fault}; a changed file is noticed only when the configuration is read again"
            ));
        }
        loop {
            self.touched.notified().await;
            // Editors write in several steps.
            self.studio.sleeper.until(self.studio.clock.now().plus_us(debounce_ms * 1000)).await;
            self.look().await;
        }
    }

    /// Brings what runs in line with the folder and the rows.
    pub async fn look(&self) {
        let _one = self.looking.lock().await;
        let (rows, found) = (self.rows.load_full(), self.scan());
        let mut keep = BTreeSet::new();
        let mut judged = Vec::new();
        {
            let known = self.known.lock();
            for (name, row) in rows.iter() {
                let code = found.get(&row.file).map(|it| it.code);
                match known.get(name) {
                    // What is not configured may lack a secret, which stands neither in the row nor
                    // in the file.
                    Some(known)
                        if known.row.as_ref() == Some(row)
                            && known.code == code
                            && code.is_some()
                            && known.status != Status::NotConfigured =>
                    {
                        keep.insert(name.clone());
                    }
                    Some(_) | None => judged.push((name.clone(), row.clone(), found.get(&row.file).cloned())),
                }
            }
        }
        let judged = join_all(judged.into_iter().map(|(name, row, found)| async move {
            let known = self.judge(&name, row, found).await;
            (name, known)
        }))
        .await;
        let mut fresh: BTreeMap<String, Known> = judged.into_iter().collect();
        let taken: BTreeSet<&str> = rows.values().map(|row| row.file.as_str()).collect();
        for (file, it) in found.iter().filter(|(file, _)| !taken.contains(file.as_str())) {
            let stem = file.rsplit_once('.').map_or(file.as_str(), |(stem, _)| stem);
            let name = if rows.contains_key(stem) || fresh.contains_key(stem) { file.as_str() } else { stem };
            let known = Known {
                code: Some(it.code),
                ..Known::of(file, Status::Disabled, Some("found; nobody has enabled it".into()))
            };
            fresh.insert(name.to_owned(), known);
        }
        self.put(&keep, fresh).await;
    }

    /// Puts what was found in the place of what was known: tools, pins, reports.
    async fn put(&self, keep: &BTreeSet<String>, fresh: BTreeMap<String, Known>) {
        let (gone, told) = {
            let mut known = self.known.lock();
            let mut old = std::mem::take(&mut *known);
            let mut told = Vec::new();
            for (name, it) in fresh {
                let same = old.get(&name).is_some_and(|old| old.status == it.status && old.reason == it.reason);
                if !same {
                    told.push((name.clone(), it.status, it.reason.clone()));
                }
                known.insert(name, it);
            }
            for name in keep {
                known.extend(old.remove_entry(name));
            }
            self.offer(&old, &mut known);
            (old.into_values().filter_map(|it| it.runner).collect::<Vec<_>>(), told)
        };
        for (name, status, reason) in told {
            self.tell(&name, status, reason.as_deref()).await;
        }
        for runner in gone {
            tokio::spawn(async move {
                // A call that still runs is given time to end; then its process goes with the last
                // owner.
                let _ = tokio::time::timeout(FAREWELL, runner.stop()).await;
            });
        }
    }

    /// Takes the tools of `old` out of the catalog and puts those of `known` in. A tool whose name
    /// is taken takes its plugin down.
    fn offer(&self, old: &BTreeMap<String, Known>, known: &mut BTreeMap<String, Known>) {
        let mut pins = BTreeMap::new();
        self.studio.edit_catalog(|catalog| {
            for tool in old.values().filter_map(|it| it.manifest.as_ref()).flat_map(|it| &it.tools) {
                catalog.remove(&tool.name);
            }
            for (name, it) in known.iter_mut() {
                let (Some(manifest), Some(row)) = (&it.manifest, &it.row) else { continue };
                if manifest.tools.iter().all(|tool| catalog.get(&tool.name).is_some_and(|there| is_of(there, manifest)))
                {
                    continue;
                }
                let made = tools::tools(manifest, row, it.runner.as_ref());
                let added = made.and_then(|made| made.into_iter().try_for_each(|tool| catalog.add(tool)));
                if let Err(fault) = added {
                    for tool in &manifest.tools {
                        if catalog.get(&tool.name).is_some_and(|there| is_of(there, manifest)) {
                            catalog.remove(&tool.name);
                        }
                    }
                    *it = Known {
                        row: it.row.take(),
                        code: it.code,
                        ..Known::of(&it.file, Status::InitFailed, Some(fault.to_string()))
                    };
                    self.log.error(format_args!("plugin {name}: {fault}"));
                }
            }
        });
        for (name, it) in known.iter().filter(|(_, it)| it.status == Status::PinMismatch) {
            pins.insert(name.clone(), it.reason.clone().unwrap_or_default());
        }
        self.studio.set_pin_faults(pins);
    }

    async fn tell(&self, name: &str, status: Status, reason: Option<&str>) {
        let reason = escape(reason.unwrap_or_default()).into_owned();
        self.studio.news.tell("plugin.changed", || json!({ "plugin": name, "status": status }));
        match status {
            Status::Disabled => self.log.debug(format_args!("plugin {name}: {reason}")),
            Status::Ready => self.log.info(format_args!("plugin {name} is ready")),
            Status::NotConfigured => self.log.warn(format_args!("plugin {name} is not configured: {reason}")),
            Status::InitFailed | Status::PinMismatch => {
                self.log.error(format_args!("plugin {name}: {reason}"));
                let detail = json!({ "plugin": name, "status": status });
                let _ = self.studio.audit.event(None, EventName::PluginFailed, detail).await;
            }
        }
    }

    /// Every file of the folder that may be a plugin. A link is followed: the pin is over what it
    /// leads to.
    fn scan(&self) -> BTreeMap<String, Found> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let Ok(file) = entry.file_name().into_string() else { continue };
            let is_code = [".js", ".mjs", ".cjs"].iter().any(|it| file.ends_with(it)) && !file.starts_with('.');
            let length = std::fs::metadata(entry.path()).ok().filter(std::fs::Metadata::is_file).map(|it| it.len());
            let (true, Some(length)) = (is_code, length) else { continue };
            if length > MAX_FILE_BYTES {
                self.log.warn(format_args!("plugins/{file} has {length} bytes, at most {MAX_FILE_BYTES} are read"));
                continue;
            }
            if let Ok(source) = std::fs::read(entry.path()) {
                found.insert(file, Found { code: Digest::of(&source), source: source.into() });
            }
        }
        found
    }

    async fn judge(&self, name: &str, row: Plugin, found: Option<Found>) -> Known {
        let code = found.as_ref().map(|it| it.code);
        let known = self.load(name, &row, found).await.unwrap_or_else(|known| *known);
        Known { row: Some(row), code, ..known }
    }

    /// Loads one enabled plugin and starts its process. The error is what it is known as instead.
    async fn load(&self, name: &str, row: &Plugin, found: Option<Found>) -> Result<Known, Box<Known>> {
        let known = |status, reason: String| Box::new(Known::of(&row.file, status, Some(reason)));
        if !row.enabled {
            return Err(known(Status::Disabled, "switched off in config.toml".into()));
        }
        let Some(pin) = row.pin else {
            return Err(known(
                Status::Disabled,
                format!("it has no pin: `conductor plugins enable {name}` shows it and asks"),
            ));
        };
        let Some(Found { source, code }) = found else {
            return Err(known(Status::InitFailed, format!("plugins/{} is not there", row.file)));
        };
        let limits = Limits { cpu_ms: row.cpu_ms, heap_mb: row.heap_mb, ..Limits::default() };
        let launch = Launch { program: self.program(), limits, file: row.file.clone(), source };
        let patience = Duration::from_millis(row.timeout_ms.into());
        let looked = tokio::time::timeout(patience, tools::look(&launch)).await;
        let looked = looked.unwrap_or_else(|_| Err(vec![format!("did not load within {} ms", row.timeout_ms)]));
        let changed = |why: String| {
            // The tools that were enabled stay in the list, and are refused: whoever calls them is
            // told why.
            let manifest = self.kept(name, pin).map(Arc::new);
            Box::new(Known { manifest, ..Known::of(&row.file, Status::PinMismatch, Some(why)) })
        };
        let enable = format!("`conductor plugins enable {name}` shows what it is now and asks");
        let manifest = match looked {
            Ok(manifest) if manifest.pin != pin => {
                return Err(changed(format!("plugins/{} is not what was enabled: {enable}", row.file)));
            }
            Ok(manifest) if manifest.name != name => {
                return Err(known(
                    Status::InitFailed,
                    format!("it calls itself \"{}\", the row is named \"{name}\"", manifest.name),
                ));
            }
            Ok(manifest) => manifest,
            // A file that was enabled could be loaded then; if other bytes lie there now, that is
            // what matters.
            Err(faults) => {
                return Err(match self.kept(name, pin) {
                    Some(kept) if kept.code != code => changed(format!(
                        "plugins/{} was changed since it was enabled, and does not load: {}",
                        row.file,
                        faults.join("; ")
                    )),
                    Some(_) | None => known(Status::InitFailed, faults.join("; ")),
                });
            }
        };
        let written = Value::Object(row.config.clone());
        if let Some(schema) = manifest.written_schema()
            && let Ok(validator) = Validator::compile(&schema.into())
            && let Some(first) = validator.violations(&written).first()
        {
            let place = first.path.trim_start_matches('/').replace('/', ".");
            let place = if place.is_empty() { "config".to_owned() } else { format!("config.{place}") };
            return Err(known(Status::NotConfigured, format!("[plugins.{name}] {place}: {}", first.message)));
        }
        let secrets: BTreeMap<String, String> =
            manifest.secret_fields().into_iter().map(|field| (field.clone(), format!("{name}.{field}"))).collect();
        let (means, names) = (self.means.clone(), secrets.clone());
        // The holder of the key may take its time.
        let missing = tokio::task::spawn_blocking(move || names.into_values().find(|it| !means.has_secret(it)));
        if let Ok(Some(missing)) = missing.await {
            return Err(known(Status::NotConfigured, format!("`conductor secrets set {missing}` is missing")));
        }
        let reach =
            Reach::new(&self.studio, name, row, secrets.values().cloned().collect(), self.means.clone(), self.say());
        let expected = Arc::new(move |declared: &Value| match manifest::pin(declared, code) {
            Some(now) if now == pin => Ok(()),
            Some(_) | None => Err("it declares something else each time it is loaded".to_owned()),
        });
        let runner = Runner::new(launch, &written, &json!(secrets), expected, reach);
        let warmed = tokio::time::timeout(patience, runner.warm()).await;
        match warmed {
            Ok(Ok(())) => {}
            Ok(Err(conductor_hosts::plugin::process::PluginError::Changed(why))) => return Err(changed(why)),
            Ok(Err(fault)) => return Err(known(Status::InitFailed, format!("onLoad: {fault}"))),
            Err(_) => {
                return Err(known(Status::InitFailed, format!("onLoad did not end within {} ms", row.timeout_ms)));
            }
        }
        self.keep(&manifest);
        Ok(Known {
            manifest: Some(Arc::new(manifest)),
            runner: Some(runner),
            ..Known::of(&row.file, Status::Ready, None)
        })
    }

    fn say(&self) -> Say {
        let log = self.log.clone();
        Arc::new(move |plugin, level, text| {
            let line = format!("plugin {plugin}: {}", escape(text));
            match level {
                LogLevel::Debug => log.debug(line),
                LogLevel::Info => log.info(line),
                LogLevel::Warning => log.warn(line),
                LogLevel::Error => log.error(line),
            }
        })
    }

    fn keep(&self, manifest: &Manifest) {
        let path = self.kept.join(format!("{}.json", manifest.name));
        let bytes = manifest.to_json().to_string();
        let unique = self.studio.ids.v4().to_string();
        let kept = std::fs::create_dir_all(&self.kept)
            .and_then(|()| atomic_file::replace(&RealDisk, &path, bytes.as_bytes(), 0o600, &unique));
        if let Err(fault) = kept {
            self.log.warn(format_args!("plugin {}: {} cannot be written: {fault}", manifest.name, path.display()));
        }
    }

    /// What was enabled under this pin. The pin is over all of it, so the file beside cannot say
    /// anything else.
    fn kept(&self, name: &str, pin: Digest) -> Option<Manifest> {
        let read = || {
            let bytes = std::fs::read(self.kept.join(format!("{name}.json"))).ok()?;
            Manifest::from_json(&serde_json::from_slice(&bytes).ok()?).filter(|it| it.pin == pin)
        };
        read().or_else(|| {
            let shown = self.shown.lock();
            let shown = shown.as_ref().filter(|it| it.name == name && it.pin == pin)?;
            self.keep(shown);
            Some(shown.clone())
        })
    }

    pub fn reports(&self) -> Vec<Report> {
        let known = self.known.lock();
        let report = |(name, it): (&String, &Known)| Report {
            name: name.clone(),
            file: it.file.clone(),
            status: it.status,
            reason: it.reason.clone(),
            version: it.manifest.as_ref().map(|it| it.version.clone()),
            tools: it.manifest.iter().flat_map(|it| &it.tools).map(|it| it.name.clone()).collect(),
            pid: it.runner.as_ref().and_then(|it| it.pid()),
            restarts: it.runner.as_ref().map_or(0, |it| it.restarts()),
        };
        known.iter().map(report).collect()
    }

    /// How often each plugin's process was started anew.
    pub fn restarts(&self) -> Vec<(String, u64)> {
        self.reports().into_iter().map(|it| (it.name, it.restarts)).collect()
    }
}

impl Known {
    fn of(file: &str, status: Status, reason: Option<String>) -> Self {
        Known { file: file.to_owned(), status, reason, manifest: None, runner: None, row: None, code: None }
    }
}

fn is_of(tool: &Tool, manifest: &Manifest) -> bool {
    tool.source
        == conductor_gateway::tools::catalog::Source::Plugin { name: manifest.name.clone(), code: manifest.code }
}
