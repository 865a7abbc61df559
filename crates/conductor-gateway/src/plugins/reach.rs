//! Access of an enabled plugin to hosts, file roots and secrets that a person granted by name.
//!
//! Every request is checked here against the plugin's row of the configuration; the process itself
//! is not trusted. Not here: the checks that all tools share (`hosts::files`, `hosts::web`,
//! `secrets`).

use crate::secrets::Secrets;
use crate::studio::Studio;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conductor_core::config::Plugin;
use conductor_core::error::{Code, ToolError};
use conductor_hosts::files::{Files, Place};
use conductor_hosts::plugin::process::{Answers, LogLevel, Refusal};
use conductor_hosts::system::Ids;
use conductor_hosts::web::{self, Sealed, Wanted, Web};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Weak};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Maximum number of concurrent requests of one plugin, for each kind of request. Further requests
/// wait.
const FETCHES: usize = 4;
const FILES: usize = 4;
/// Largest file that fits into a message as base64.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Start and end of a secret's handle in a header. The process receives only names, never values.
const SECRET_HANDLE: (&str, &str) = ("{{secret:", "}}");

/// Receives console messages of plugins: plugin name, level and text.
pub type ConsoleSink = Arc<dyn Fn(&str, LogLevel, &str) + Send + Sync>;

/// Access to files, the web and secrets, shared by all plugins.
#[derive(Clone)]
pub struct PluginAccess {
    pub files: Arc<Files>,
    pub web: Arc<Web>,
    pub secrets: Arc<Secrets>,
    pub ids: Arc<dyn Ids>,
}

impl PluginAccess {
    /// May block; see [`Secrets::get`].
    pub fn has_secret(&self, name: &str) -> bool {
        self.secrets.get(name).is_ok()
    }
}

pub struct Reach {
    granted: Arc<Granted>,
    studio: Weak<Studio>,
    console: ConsoleSink,
}

struct Granted {
    plugin: String,
    row: Plugin,
    /// Names of secrets in the plugin's own configuration.
    own: Vec<String>,
    access: PluginAccess,
    fetches: Semaphore,
    files: Semaphore,
}

impl Reach {
    pub fn new(
        studio: &Arc<Studio>,
        plugin: &str,
        row: &Plugin,
        own: Vec<String>,
        access: PluginAccess,
        console: ConsoleSink,
    ) -> Arc<Self> {
        let (fetches, files) = (Semaphore::new(FETCHES), Semaphore::new(FILES));
        let granted = Granted { plugin: plugin.to_owned(), row: row.clone(), own, access, fetches, files };
        // A strong reference would form a cycle: studio, catalog, runner, reach.
        Arc::new(Reach { granted: Arc::new(granted), studio: Arc::downgrade(studio), console })
    }
}

impl Answers for Reach {
    fn answer(&self, what: String, with: Value) -> BoxFuture<'static, Result<Value, Refusal>> {
        let granted = Arc::clone(&self.granted);
        Box::pin(async move { granted.answer(&what, with).await.map_err(refusal) })
    }

    fn log(&self, level: LogLevel, text: &str) {
        (self.console)(&self.granted.plugin, level, text);
    }

    fn restarted(&self) {
        if let Some(studio) = self.studio.upgrade() {
            studio.meters.plugin_restarted(&self.granted.plugin);
        }
    }
}

fn refusal(error: ToolError) -> Refusal {
    Refusal { message: error.message, code: error.code.as_str() }
}

fn bad(text: impl Into<String>) -> ToolError {
    ToolError::new(Code::BadInput, text)
}

fn denied(text: impl Into<String>) -> ToolError {
    ToolError::new(Code::Denied, text)
}

fn read<T: serde::de::DeserializeOwned>(with: Value) -> Result<T, ToolError> {
    serde_json::from_value(with).map_err(|fault| bad(fault.to_string()))
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct OfPath {
    path: String,
    root: Option<String>,
    /// Encoded in base64.
    content: Option<String>,
}

#[derive(Deserialize)]
struct Fetch {
    url: String,
    method: String,
    headers: Vec<(String, String)>,
    /// Encoded in base64.
    body: Option<String>,
}

impl Granted {
    async fn answer(self: &Arc<Self>, what: &str, with: Value) -> Result<Value, ToolError> {
        match what {
            "secret" => {
                let Named { name } = read(with)?;
                self.secret(&name).map(|()| Value::Null)
            }
            "fetch" => self.fetch(read(with)?).await,
            "files.read" | "files.write" | "files.list" | "files.stat" => {
                let (granted, what, of) = (Arc::clone(self), what.to_owned(), read(with)?);
                // The semaphore is never closed, so `acquire` does not fail.
                let _turn = self.files.acquire().await;
                let done = tokio::task::spawn_blocking(move || granted.files(&what, &of)).await;
                done.unwrap_or_else(|fault| Err(ToolError::new(Code::Internal, fault.to_string())))
            }
            other => Err(bad(format!("there is no host function {other:?}"))),
        }
    }

    fn secret(&self, name: &str) -> Result<(), ToolError> {
        if self.row.secrets.iter().chain(&self.own).any(|it| it == name) {
            return Ok(());
        }
        let plugin = &self.plugin;
        Err(denied(format!(
            "the secret \"{name}\" is not granted: a person can add it to `secrets` of [plugins.{plugin}]"
        )))
    }

    fn refuse_secrets(&self, texts: &[&[u8]], never: &str) -> Result<(), ToolError> {
        let scrubber = self.access.secrets.scrubber();
        if texts.iter().any(|it| scrubber.finds(it)) {
            return Err(denied(format!("the request contains a stored secret; secrets are not {never}")));
        }
        Ok(())
    }

    /// Replaces secrets in data for the plugin's process, such as file contents and responses.
    fn clean<'b>(&self, bytes: &'b [u8], most: usize) -> std::borrow::Cow<'b, [u8]> {
        self.access.secrets.scrubber().piece(bytes, 0..most)
    }

    fn files(&self, what: &str, of: &OfPath) -> Result<Value, ToolError> {
        let (roots, key) = match what {
            "files.write" => (&self.row.files_write, "files_write"),
            _ => (&self.row.files_read, "files_read"),
        };
        let place = self.place(roots, key, of)?;
        match what {
            "files.read" => {
                let slice = place.read(0, MAX_FILE_BYTES)?;
                if slice.size > MAX_FILE_BYTES {
                    let text = format!("{} has {} bytes; the limit is {MAX_FILE_BYTES}", of.path, slice.size);
                    return Err(ToolError::new(Code::Unsupported, text));
                }
                let bytes = self.clean(&slice.bytes, slice.bytes.len());
                Ok(json!({ "content": STANDARD.encode(&bytes), "size": slice.size, "mtime_ms": slice.modified_ms }))
            }
            "files.write" => {
                let content = of.content.as_deref().ok_or_else(|| bad("content is missing"))?;
                let bytes = STANDARD.decode(content).map_err(|fault| bad(fault.to_string()))?;
                self.refuse_secrets(&[of.path.as_bytes(), &bytes], "written to files")?;
                let before = place.present()?;
                place.replace(&bytes, before.as_ref(), true, &self.access.ids.v4().to_string())?;
                Ok(json!({ "path": place.inside(), "size": bytes.len() }))
            }
            "files.list" => {
                let listing = place.list(1, None, &CancellationToken::new())?;
                let entries: Vec<Value> = listing
                    .entries
                    .iter()
                    .map(|it| json!({ "name": it.name, "kind": it.kind.name(), "size": it.size, "mtime_ms": it.modified_ms }))
                    .collect();
                Ok(json!({ "entries": entries }))
            }
            _ => {
                let (kind, size, modified) = place.kind()?;
                Ok(json!({ "name": place.inside(), "kind": kind.name(), "size": size, "mtime_ms": modified }))
            }
        }
    }

    /// The place of a path, if it is in a root that this plugin was granted.
    fn place(&self, roots: &[String], key: &str, of: &OfPath) -> Result<Place, ToolError> {
        let plugin = &self.plugin;
        let Some(first) = roots.first() else {
            return Err(denied(format!(
                "no folder is granted: a person can add a root to `{key}` of [plugins.{plugin}]"
            )));
        };
        let asked = match &of.root {
            Some(root) => Some(root.as_str()),
            // An absolute path already determines its root.
            None if Path::new(&of.path).is_absolute() => None,
            None => Some(first.as_str()),
        };
        let place = self.access.files.place(asked, &of.path)?;
        let root = &place.root().name;
        if !roots.contains(root) {
            return Err(denied(format!("the root \"{root}\" is not listed in `{key}` of [plugins.{plugin}]")));
        }
        Ok(place)
    }

    async fn fetch(self: &Arc<Self>, fetch: Fetch) -> Result<Value, ToolError> {
        let (begin, _) = SECRET_HANDLE;
        let url = Url::parse(&fetch.url).map_err(|fault| bad(format!("{:?}: {fault}", fetch.url)))?;
        // Check the text as given, because the URL parser percent-encodes the handle.
        if fetch.url.contains(begin) {
            return Err(denied("a secret is allowed only in a header, not in a URL"));
        }
        let method = match fetch.method.as_str() {
            "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" => Method::from_bytes(fetch.method.as_bytes()),
            other => return Err(bad(format!("the method {other:?} is not supported"))),
        };
        let method = method.map_err(|fault| bad(fault.to_string()))?;
        let body = fetch.body.map(|it| STANDARD.decode(it)).transpose().map_err(|fault| bad(fault.to_string()))?;
        if body.as_ref().is_some_and(|it| it.windows(begin.len()).any(|it| it == begin.as_bytes())) {
            return Err(denied("a secret is allowed only in a header, not in a body"));
        }
        // Refuse secret values that the plugin obtained elsewhere. Handles of secrets are replaced
        // by their values below.
        let mut sent = vec![fetch.url.as_bytes(), body.as_deref().unwrap_or_default()];
        sent.extend(fetch.headers.iter().map(|(_, value)| value.as_bytes()));
        self.refuse_secrets(&sent, "sent, except through their handles")?;
        // Opening the vault may block.
        let (granted, target, given) = (Arc::clone(self), url.clone(), fetch.headers);
        let filled = tokio::task::spawn_blocking(move || granted.headers(&target, &given)).await;
        let (headers, sealed) =
            filled.unwrap_or_else(|fault| Err(ToolError::new(Code::Internal, fault.to_string())))?;
        let max_bytes = web::MOST_BYTES + self.access.secrets.scrubber().longest();
        let wanted = Wanted { method, url, headers, body, max_bytes, sealed };
        let reach = web::Reach { only: Some(self.row.net.clone()), ..self.access.web.reach() };
        // The semaphore is never closed, so `acquire` does not fail.
        let _turn = self.fetches.acquire().await;
        let fetched = self.access.web.fetch(wanted, &reach).await?;
        // The host may return parts of the request in its response. Remove the values of secrets,
        // so that the plugin does not receive them.
        let scrubber = self.access.secrets.scrubber();
        let headers: Vec<(&str, String)> = fetched
            .headers
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes());
                (name.as_str(), scrubber.text(&value).into_owned())
            })
            .collect();
        let truncated = fetched.truncated || fetched.body.len() > web::MOST_BYTES;
        let body = self.clean(&fetched.body, fetched.body.len().min(web::MOST_BYTES));
        Ok(json!({
            "url": scrubber.text(fetched.url.as_str()), "status": fetched.status, "headers": headers,
            "body": STANDARD.encode(&body), "truncated": truncated,
        }))
    }

    /// Plain headers, and headers with a secret, which are sent only to that secret's hosts.
    fn headers(&self, url: &Url, given: &[(String, String)]) -> Result<(HeaderMap, Vec<Sealed>), ToolError> {
        const RESERVED: [&str; 6] =
            ["host", "content-length", "connection", "transfer-encoding", "upgrade", "proxy-authorization"];
        let (mut headers, mut sealed) = (HeaderMap::new(), Vec::new());
        for (name, value) in given {
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|fault| bad(format!("header {name:?}: {fault}")))?;
            if RESERVED.contains(&name.as_str()) {
                return Err(bad(format!("only Conductor can set the header {name}")));
            }
            let unfit = |_| bad(format!("header {name}: the value has characters that are not allowed in a header"));
            match self.filled(url, value)? {
                None => {
                    headers.append(name.clone(), HeaderValue::from_str(value).map_err(unfit)?);
                }
                Some((filled, hosts)) => {
                    let mut value = HeaderValue::from_str(&filled).map_err(unfit)?;
                    value.set_sensitive(true);
                    sealed.push(Sealed { name: name.clone(), value, hosts });
                }
            }
        }
        Ok((headers, sealed))
    }

    /// A header's value with its secrets filled in, and the hosts that may receive all of these
    /// secrets. `None` for a value without secrets.
    fn filled(&self, url: &Url, value: &str) -> Result<Option<(String, Vec<String>)>, ToolError> {
        let (begin, end) = SECRET_HANDLE;
        let mut filled = String::new();
        let mut hosts: Option<Vec<String>> = None;
        let mut rest = value;
        while let Some((before, after)) = rest.split_once(begin) {
            let (name, after) =
                after.split_once(end).ok_or_else(|| bad("the handle of a secret does not end with }}"))?;
            self.secret(name)?;
            let secret = self.access.secrets.get(name)?;
            if !web::is_named(url, secret.hosts()) {
                let host = url.host_str().unwrap_or_default();
                return Err(denied(format!(
                    "the secret \"{name}\" may not be sent to {host}: `conductor secrets set {name} --host {host}` allows it"
                )));
            }
            filled.push_str(before);
            filled.push_str(secret.expose());
            let both = |known: Vec<String>| known.into_iter().filter(|it| secret.hosts().contains(it)).collect();
            hosts = Some(hosts.map_or_else(|| secret.hosts().to_vec(), both));
            rest = after;
        }
        filled.push_str(rest);
        Ok(hosts.map(|hosts| (filled, hosts)))
    }
}
