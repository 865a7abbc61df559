//! Manages plugins: the files in the plugin folder, the enabled plugins, and their processes.
//!
//! Files are found at start and whenever the folder or the configuration changes. A file runs only
//! if a row of the configuration contains its pin: a hash of the code and manifest that a person
//! was shown. Every load is compared with the pin.
//!
//! Not here: the processes (`hosts::plugin`), their tools (`plugins` of the gateway), and the
//! writing of rows (the tool `plugin.set`).

use crate::log::Log;
use arc_swap::ArcSwap;
use conductor_core::audit::record::EventName;
use conductor_core::config::{self, Plugin};
use conductor_core::digest::Digest;
use conductor_core::text::escape;
use conductor_gateway::catalog::Tool;
use conductor_gateway::catalog::schema::Validator;
use conductor_gateway::plugins::reach::{ConsoleSink, PluginAccess, Reach};
use conductor_gateway::plugins::{self as tools};
use conductor_gateway::studio::Studio;
use conductor_gateway::studio::events::Event;
use conductor_hosts::atomic_file;
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

/// The maximum size of a plugin file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The longest time for a plugin to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The file was found, but the plugin is not enabled.
    Disabled,
    Ready,
    /// The configuration does not match the plugin's schema, or a secret is missing.
    NotConfigured,
    InitFailed,
    /// The file is not the one that a person enabled.
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

/// The state of one plugin.
struct Known {
    file: String,
    status: Status,
    reason: Option<String>,
    /// The manifest in use. For a file that has changed, this is the manifest of the enabled
    /// version.
    manifest: Option<Arc<Manifest>>,
    runner: Option<Arc<Runner>>,
    /// The row that was loaded. The plugin is loaded again only if its row or code changes.
    row: Option<Plugin>,
    code: Option<Digest>,
}

/// A plugin file found in the plugin folder.
#[derive(Clone)]
struct Found {
    source: Arc<[u8]>,
    code: Digest,
}

pub struct Plugins {
    folder: PathBuf,
    /// The folder that stores the manifests of enabled plugins. They are needed when a plugin file
    /// changes: its tools stay listed, but calls to these tools are refused.
    kept: PathBuf,
    program: ArcSwap<PathBuf>,
    studio: Arc<Studio>,
    means: PluginAccess,
    log: Log,
    rows: ArcSwap<config::Plugins>,
    known: Mutex<BTreeMap<String, Known>>,
    /// Allows only one scan at a time.
    looking: tokio::sync::Mutex<()>,
    touched: Arc<Notify>,
    /// The manifest that was last shown to a person. The file may change before it is loaded.
    shown: Mutex<Option<Manifest>>,
}

impl Plugins {
    pub fn new(studio: &Arc<Studio>, program: PathBuf, means: PluginAccess, log: &Log) -> Arc<Self> {
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

    /// Stores the manifest that is now shown to a person.
    pub fn show(&self, manifest: &Manifest) {
        *self.shown.lock() = Some(manifest.clone());
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Sets the program that is started as the plugin host. Needed when the daemon runs inside
    /// another program, such as a test.
    pub fn use_program(&self, program: PathBuf) {
        self.program.store(Arc::new(program));
    }

    pub fn program(&self) -> PathBuf {
        self.program.load().to_path_buf()
    }

    /// Sets new rows and requests a reload of the plugins. Does not wait for the reload.
    pub fn set_rows(&self, rows: &config::Plugins) {
        self.rows.store(Arc::new(rows.clone()));
        self.touched.notify_one();
    }

    /// Requests a reload of the plugins, because something that they need, such as a secret, has
    /// changed.
    pub fn touch(&self) {
        self.touched.notify_one();
    }

    /// Stops every plugin and its process.
    pub async fn stop(&self) {
        let runners: Vec<Arc<Runner>> = {
            let known = self.known.lock();
            known.values().filter_map(|it| it.runner.clone()).collect()
        };
        let _ = tokio::time::timeout(STOP_TIMEOUT, join_all(runners.iter().map(|it| it.stop()))).await;
    }

    /// Watches the folder and applies every change, until the future is dropped.
    pub async fn watch(self: Arc<Self>, debounce_ms: u64) {
        let touched = Arc::clone(&self.touched);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Ignore access events: our own reads must not cause another scan.
            if event.map_or(true, |it| !it.kind.is_access()) {
                touched.notify_one();
            }
        });
        let watching = watcher.and_then(|mut it| it.watch(&self.folder, RecursiveMode::NonRecursive).map(|()| it));
        if let Err(fault) = &watching {
            self.log.warn(format_args!(
                "plugins: {fault}; a changed file is detected only when the configuration is read again"
            ));
        }
        loop {
            self.touched.notified().await;
            // Wait for the end of the changes, because editors write a file in several steps.
            self.studio.sleeper.until(self.studio.clock.now().plus_us(debounce_ms * 1000)).await;
            self.look().await;
        }
    }

    /// Loads, keeps and stops plugins, according to the folder and the rows.
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
                    // A plugin that is not configured is always loaded again: it may lack a secret,
                    // and a new secret changes neither the row nor the file.
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
                ..Known::of(file, Status::Disabled, Some("found, but not enabled".into()))
            };
            fresh.insert(name.to_owned(), known);
        }
        self.put(&keep, fresh).await;
    }

    /// Replaces the known plugins, and with them their tools, pins and reports.
    async fn put(&self, keep: &BTreeSet<String>, fresh: BTreeMap<String, Known>) {
        let (gone, changed) = {
            let mut known = self.known.lock();
            let mut old = std::mem::take(&mut *known);
            let mut changed = Vec::new();
            for (name, it) in fresh {
                let same = old.get(&name).is_some_and(|old| old.status == it.status && old.reason == it.reason);
                if !same {
                    changed.push((name.clone(), it.status, it.reason.clone()));
                }
                known.insert(name, it);
            }
            for name in keep {
                known.extend(old.remove_entry(name));
            }
            self.offer(&old, &mut known);
            (old.into_values().filter_map(|it| it.runner).collect::<Vec<_>>(), changed)
        };
        for (name, status, reason) in changed {
            self.report_change(&name, status, reason.as_deref()).await;
        }
        for runner in gone {
            tokio::spawn(async move {
                // Wait for a running call to end. After the timeout, the process ends when its last
                // handle is dropped.
                let _ = tokio::time::timeout(STOP_TIMEOUT, runner.stop()).await;
            });
        }
    }

    /// Removes the tools of `old` from the catalog and adds those of `known`. If a tool name is
    /// already in use, the plugin fails to load.
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

    async fn report_change(&self, name: &str, status: Status, reason: Option<&str>) {
        let reason = escape(reason.unwrap_or_default()).into_owned();
        self.studio.events.send(Event::PluginChanged { plugin: name.to_owned(), status: json!(status) });
        match status {
            Status::Disabled => self.log.debug(format_args!("plugin {name}: {reason}")),
            Status::Ready => self.log.info(format_args!("plugin {name} is ready")),
            Status::NotConfigured => self.log.warn(format_args!("plugin {name} is not configured: {reason}")),
            Status::InitFailed | Status::PinMismatch => {
                self.log.error(format_args!("plugin {name}: {reason}"));
                let detail = json!({ "plugin": name, "status": status });
                let _ = self.studio.audit_event(None, EventName::PluginFailed, detail).await;
            }
        }
    }

    /// Every file of the folder that may be a plugin. Symbolic links are followed, because the pin
    /// covers the content of the target.
    fn scan(&self) -> BTreeMap<String, Found> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let Ok(file) = entry.file_name().into_string() else { continue };
            let is_code = [".js", ".mjs", ".cjs"].iter().any(|it| file.ends_with(it)) && !file.starts_with('.');
            let length = std::fs::metadata(entry.path()).ok().filter(std::fs::Metadata::is_file).map(|it| it.len());
            let (true, Some(length)) = (is_code, length) else { continue };
            if length > MAX_FILE_BYTES {
                self.log.warn(format_args!(
                    "plugins/{file} has {length} bytes and is ignored; the limit is {MAX_FILE_BYTES}"
                ));
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

    /// Loads one enabled plugin and starts its process. On failure, the error contains the plugin's
    /// state.
    async fn load(&self, name: &str, row: &Plugin, found: Option<Found>) -> Result<Known, Box<Known>> {
        let known = |status, reason: String| Box::new(Known::of(&row.file, status, Some(reason)));
        if !row.enabled {
            return Err(known(Status::Disabled, "disabled in config.toml".into()));
        }
        let Some(pin) = row.pin else {
            return Err(known(
                Status::Disabled,
                format!("its row has no `pin`; run `conductor plugins enable {name}` to review and enable it"),
            ));
        };
        let Some(Found { source, code }) = found else {
            return Err(known(Status::InitFailed, format!("plugins/{} does not exist", row.file)));
        };
        let limits = Limits { cpu_ms: row.cpu_ms, heap_mb: row.heap_mb, ..Limits::default() };
        let launch = Launch { program: self.program(), limits, file: row.file.clone(), source };
        let patience = Duration::from_millis(row.timeout_ms.into());
        let looked = tokio::time::timeout(patience, tools::look(&launch)).await;
        let looked = looked.unwrap_or_else(|_| Err(vec![format!("it did not load within {} ms", row.timeout_ms)]));
        let changed = |why: String| {
            // The enabled tools stay listed and calls to them are refused, so that callers get the
            // reason.
            let manifest = self.kept(name, pin).map(Arc::new);
            Box::new(Known { manifest, ..Known::of(&row.file, Status::PinMismatch, Some(why)) })
        };
        let enable = format!("run `conductor plugins enable {name}` to review and enable the new version");
        let manifest = match looked {
            Ok(manifest) if manifest.pin != pin => {
                return Err(changed(format!("plugins/{} is not the version that was enabled; {enable}", row.file)));
            }
            Ok(manifest) if manifest.name != name => {
                return Err(known(
                    Status::InitFailed,
                    format!("its manifest has the name \"{}\", but the row is named \"{name}\"", manifest.name),
                ));
            }
            Ok(manifest) => manifest,
            // The file could be loaded when it was enabled. If its bytes have changed since, report
            // the change instead.
            Err(faults) => {
                return Err(match self.kept(name, pin) {
                    Some(kept) if kept.code != code => changed(format!(
                        "plugins/{} has changed since it was enabled, and cannot be loaded: {}",
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
        // Use a blocking thread, because the keychain may be slow.
        let missing = tokio::task::spawn_blocking(move || names.into_values().find(|it| !means.has_secret(it)));
        if let Ok(Some(missing)) = missing.await {
            return Err(known(
                Status::NotConfigured,
                format!("a secret is missing; run `conductor secrets set {missing}`"),
            ));
        }
        let reach =
            Reach::new(&self.studio, name, row, secrets.values().cloned().collect(), self.means.clone(), self.say());
        let expected = Arc::new(move |declared: &Value| match manifest::pin(declared, code) {
            Some(now) if now == pin => Ok(()),
            Some(_) | None => Err("its manifest is different each time it is loaded".to_owned()),
        });
        let runner = Runner::new(launch, &written, &json!(secrets), expected, reach);
        let warmed = tokio::time::timeout(patience, runner.warm()).await;
        match warmed {
            Ok(Ok(())) => {}
            Ok(Err(conductor_hosts::plugin::process::PluginError::Changed(why))) => return Err(changed(why)),
            Ok(Err(fault)) => return Err(known(Status::InitFailed, format!("onLoad: {fault}"))),
            Err(_) => {
                return Err(known(Status::InitFailed, format!("onLoad did not return within {} ms", row.timeout_ms)));
            }
        }
        self.keep(&manifest);
        Ok(Known {
            manifest: Some(Arc::new(manifest)),
            runner: Some(runner),
            ..Known::of(&row.file, Status::Ready, None)
        })
    }

    fn say(&self) -> ConsoleSink {
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
            .and_then(|()| atomic_file::replace(&path, bytes.as_bytes(), 0o600, &unique));
        if let Err(fault) = kept {
            self.log.warn(format_args!("plugin {}: {} cannot be written: {fault}", manifest.name, path.display()));
        }
    }

    /// The manifest that was enabled with this pin. The pin covers the whole manifest, so a stored
    /// manifest that was changed is not used.
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

    /// The number of restarts of each plugin's process.
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
    tool.source == conductor_gateway::catalog::Source::Plugin { name: manifest.name.clone(), code: manifest.code }
}
