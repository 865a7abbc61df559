//! `POST /hooks/NAME`: a signed webhook of another program makes one configured call.
//!
//! Each delivery makes its call at most once: it is recorded on disk before the call starts. Not
//! here: the checks of the Host header, and webhooks that Conductor sends (`gateway::webhooks`).

use super::{Tokens, read_body, refuse, refuse_after};
use crate::doors::mcp::Shared;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use conductor_core::config::{HookSignature, HttpHook};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Effect, ToolError};
use conductor_gateway::catalog::names::Toolset;
use conductor_gateway::pipeline::call::{Call, Outcome, Principal};
use conductor_gateway::pipeline::run;
use conductor_gateway::secrets::Secrets;
use conductor_hosts::atomic_file;
use conductor_hosts::system::Ids;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Headers of webhooks that Conductor sends, and of signed webhooks that it receives.
pub const SIGNATURE: &str = "x-conductor-signature";
pub const TIMESTAMP: &str = "x-conductor-timestamp";
pub const DELIVERY: &str = "x-conductor-delivery";
pub const EVENT: &str = "x-conductor-event";
const GITHUB_SIGNATURE: &str = "x-hub-signature-256";

/// Maximum difference between the time of a signature and the time of this machine, in seconds.
const WINDOW_S: u64 = 300;
/// Longest body in bytes. The largest webhooks of common services have a few hundred kilobytes.
const BODY: usize = 1 << 20;
/// Number of delivery keys that are remembered for one hook.
const REMEMBERED: usize = 50_000;

pub struct Hooks {
    rows: Vec<HttpHook>,
    shared: Arc<Shared>,
    secrets: Arc<Secrets>,
    tokens: Arc<Tokens>,
    deliveries: Arc<Deliveries>,
}

impl Hooks {
    pub fn new(
        rows: Vec<HttpHook>,
        shared: &Arc<Shared>,
        secrets: &Arc<Secrets>,
        tokens: &Arc<Tokens>,
        deliveries: &Arc<Deliveries>,
    ) -> Arc<Self> {
        Arc::new(Self {
            rows,
            shared: Arc::clone(shared),
            secrets: Arc::clone(secrets),
            tokens: Arc::clone(tokens),
            deliveries: Arc::clone(deliveries),
        })
    }

    pub fn routes(self: Arc<Self>) -> Router {
        let receive = move |Path(name): Path<String>, request: Request| {
            let hooks = Arc::clone(&self);
            async move { hooks.receive(&name, request).await }
        };
        Router::new().route("/hooks/{name}", post(receive))
    }

    async fn receive(&self, name: &str, request: Request) -> Response {
        let Some(hook) = self.rows.iter().find(|it| it.name == name) else {
            return refuse_after(request.into_body(), StatusCode::NOT_FOUND, "there is no webhook with this name")
                .await;
        };
        let (parts, body) = request.into_parts();
        match self.checked(hook, &parts.headers, body).await {
            Ok(keys) => self.call(hook, keys).await,
            Err(refused) => refused,
        }
    }

    /// Checks the signature. Returns the keys by which the delivery is remembered.
    async fn checked(&self, hook: &HttpHook, headers: &HeaderMap, body: Body) -> Result<Vec<Digest>, Response> {
        let body = read_body(body, BODY).await?;
        let (secrets, name) = (Arc::clone(&self.secrets), hook.secret.clone());
        // The keychain may be slow.
        let secret = tokio::task::spawn_blocking(move || secrets.get(&name)).await;
        let Ok(Ok(secret)) = secret else {
            let why = "the secret of this webhook cannot be read; a person can check with `conductor secrets status`";
            return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, why));
        };
        let now_s = self.shared.studio.timestamp().as_millis() / 1000;
        match judge(hook.signature, secret.expose().as_bytes(), headers, &body, now_s) {
            Ok(keys) => Ok(keys),
            Err(why) => {
                self.tokens.note_failure(&self.shared.studio).await;
                Err(refuse(StatusCode::UNAUTHORIZED, why))
            }
        }
    }

    async fn call(&self, hook: &HttpHook, keys: Vec<Digest>) -> Response {
        let (deliveries, name, new) = (Arc::clone(&self.deliveries), hook.name.clone(), keys.clone());
        match tokio::task::spawn_blocking(move || deliveries.claim(&name, &new)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return refuse(StatusCode::CONFLICT, "this delivery was already received"),
            Ok(Err(_)) | Err(_) => {
                return refuse(StatusCode::SERVICE_UNAVAILABLE, "the delivery cannot be recorded, so no call is made");
            }
        }
        let principal = Principal::Webhook { name: hook.name.clone() };
        let mut call = Call::new(principal, hook.tool.clone(), hook.arguments.clone().into());
        call.toolset = Arc::new(Toolset::Listed);
        let error = match run(&self.shared.studio, call).await.into_outcome() {
            // The sender of a webhook does not receive the output of the tool.
            Outcome::Done(Ok(output)) => return axum::Json(json!({ "done": !output.is_error })).into_response(),
            Outcome::Done(Err(error)) => error,
            Outcome::Cancelled => ToolError::new(Code::Internal, "the call was cancelled"),
            Outcome::Ask { .. } => ToolError::new(Code::ApprovalRequired, "a person must answer"),
        };
        if may_be_sent_again(&error) {
            let (deliveries, name) = (Arc::clone(&self.deliveries), hook.name.clone());
            // If this fails, the delivery stays recorded and is not repeated.
            let _ = tokio::task::spawn_blocking(move || deliveries.release(&name, &keys)).await;
        }
        let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = axum::Json(json!({ "code": error.code, "message": error.message })).into_response();
        *response.status_mut() = status;
        response
    }
}

/// Whether the call has changed nothing and may succeed later, so that the same delivery may be
/// sent again. An error without an `effect` is from a tool that changes nothing.
fn may_be_sent_again(error: &ToolError) -> bool {
    if error.effect.unwrap_or(Effect::None) != Effect::None {
        return false;
    }
    match error.code {
        Code::RateLimited
        | Code::Busy
        | Code::CircuitOpen
        | Code::ApprovalRequired
        | Code::HostOffline
        | Code::AuditUnavailable => true,
        Code::BadInput
        | Code::NotFound
        | Code::StaleReference
        | Code::WrongType
        | Code::Unsupported
        | Code::SdkRejected
        | Code::Timeout
        | Code::Denied
        | Code::PlanExpired
        | Code::PlanStale
        | Code::PinMismatch
        | Code::Internal => false,
    }
}

/// The signature of a time and a body, as hex digits.
pub fn sign(secret: &[u8], timestamp: &str, body: &[u8]) -> String {
    Digest::hmac(secret, &[timestamp.as_bytes(), b".", body]).to_hex()
}

fn judge(
    kind: HookSignature,
    secret: &[u8],
    headers: &HeaderMap,
    body: &[u8],
    now_s: u64,
) -> Result<Vec<Digest>, &'static str> {
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let matches = |given: &str, expected: Digest| {
        let given = given.strip_prefix("sha256=").and_then(|it| Digest::from_text(format!("sha256:{it}").as_bytes()));
        given.is_some_and(|it| bool::from(it.as_bytes().ct_eq(expected.as_bytes())))
    };
    match kind {
        HookSignature::Github => {
            let given = text(GITHUB_SIGNATURE).ok_or("the header X-Hub-Signature-256 is missing")?;
            if !matches(given, Digest::hmac(secret, &[body])) {
                return Err("the signature is not valid");
            }
            Ok(vec![Digest::of(body)])
        }
        HookSignature::Conductor => {
            let given = text(SIGNATURE).ok_or("the header X-Conductor-Signature is missing")?;
            let time = text(TIMESTAMP).ok_or("the header X-Conductor-Timestamp is missing")?;
            let delivery = text(DELIVERY).filter(|it| (1..=128).contains(&it.len()));
            let delivery = delivery.ok_or("the header X-Conductor-Delivery is missing or too long")?;
            if !matches(given, Digest::hmac(secret, &[time.as_bytes(), b".", body])) {
                return Err("the signature is not valid");
            }
            let seconds: u64 = time.parse().map_err(|_| "X-Conductor-Timestamp must be seconds since 1970")?;
            if now_s.abs_diff(seconds) > WINDOW_S {
                return Err(
                    "the time of the signature differs from the time of this machine by more than five minutes",
                );
            }
            // The id of the delivery is not signed: without the first key, a captured request could
            // be repeated with another id.
            let signed = Digest::of(&[b"signed ", time.as_bytes(), b".", body].concat());
            Ok(vec![signed, Digest::of(format!("delivery {delivery}").as_bytes())])
        }
    }
}

/// The received deliveries of each hook, which are stored on disk.
pub struct Deliveries {
    folder: PathBuf,
    ids: Arc<dyn Ids>,
    hooks: Mutex<BTreeMap<String, Received>>,
}

struct Received {
    keys: Keys,
    file: File,
}

impl Deliveries {
    pub fn new(home: &FilePath, ids: &Arc<dyn Ids>) -> Arc<Self> {
        Arc::new(Self { folder: home.join("state/hooks"), ids: Arc::clone(ids), hooks: Mutex::default() })
    }

    /// Records a delivery. Returns false if one of its keys is known. Blocks until it is on disk.
    fn claim(&self, hook: &str, keys: &[Digest]) -> io::Result<bool> {
        let mut hooks = self.hooks.lock();
        let received = self.open(&mut hooks, hook)?;
        if keys.iter().any(|it| received.keys.known.contains(it)) {
            return Ok(false);
        }
        received.write('+', keys)?;
        keys.iter().for_each(|it| received.keys.insert(*it));
        Ok(true)
    }

    /// Forgets a delivery whose call has not started.
    fn release(&self, hook: &str, keys: &[Digest]) -> io::Result<()> {
        let mut hooks = self.hooks.lock();
        let received = self.open(&mut hooks, hook)?;
        received.write('-', keys)?;
        keys.iter().for_each(|it| received.keys.remove(it));
        Ok(())
    }

    fn open<'a>(&self, hooks: &'a mut BTreeMap<String, Received>, hook: &str) -> io::Result<&'a mut Received> {
        if !hooks.contains_key(hook) {
            let received = self.read(hook)?;
            hooks.insert(hook.to_owned(), received);
        }
        hooks.get_mut(hook).ok_or_else(|| io::Error::other("the hook was not opened"))
    }

    /// Reads the file of a hook, and shortens it to the keys that are remembered.
    fn read(&self, hook: &str) -> io::Result<Received> {
        std::fs::create_dir_all(&self.folder)?;
        let path = self.folder.join(hook);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(text) => text,
            Err(_) => String::new(),
        };
        let mut keys = Keys::default();
        text.lines().for_each(|line| keys.apply(line));
        let short: String = keys.order.iter().map(|it| format!("+{it}\n")).collect();
        if short.len() < text.len() {
            atomic_file::replace(&path, short.as_bytes(), 0o600, &self.ids.v4().to_string())?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(Received { keys, file })
    }
}

/// The newest keys of a hook, oldest first.
#[derive(Default)]
struct Keys {
    order: VecDeque<Digest>,
    known: HashSet<Digest>,
}

impl Keys {
    /// Applies a line of the file. A line that was not written completely is left out.
    fn apply(&mut self, line: &str) {
        let Some(key) = line.get(1..).and_then(|it| Digest::from_text(it.as_bytes())) else { return };
        if line.starts_with('+') {
            self.insert(key);
        } else {
            self.remove(&key);
        }
    }

    fn insert(&mut self, key: Digest) {
        if self.known.insert(key) {
            self.order.push_back(key);
        }
        while self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &Digest) {
        if self.known.remove(key) {
            self.order.retain(|it| it != key);
        }
    }
}

impl Received {
    fn write(&mut self, sign: char, keys: &[Digest]) -> io::Result<()> {
        let lines: String = keys.iter().map(|it| format!("{sign}{it}\n")).collect();
        self.file.write_all(lines.as_bytes())?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_hosts::system::RandomIds;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn githubs_own_example_is_accepted() {
        // The example of GitHub's documentation.
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let judged = |body: &[u8]| {
            let headers = headers(&[(GITHUB_SIGNATURE, signature)]);
            judge(HookSignature::Github, b"It's a Secret to Everybody", &headers, body, 0)
        };
        assert_eq!(judged(b"Hello, World!").unwrap().len(), 1);
        assert_eq!(judged(b"Hello, World?"), Err("the signature is not valid"));
    }

    #[test]
    fn a_signature_holds_for_five_minutes() {
        let signature = format!("sha256={}", sign(b"key", "1000", b"{}"));
        let judged = |now: u64| {
            let list = [(SIGNATURE, signature.as_str()), (TIMESTAMP, "1000"), (DELIVERY, "d")];
            judge(HookSignature::Conductor, b"key", &headers(&list), b"{}", now)
        };
        assert!(judged(700).is_ok() && judged(1300).is_ok());
        assert!(judged(699).is_err() && judged(1301).is_err());
    }

    #[test]
    fn only_a_call_without_an_effect_may_be_sent_again() {
        for code in [Code::HostOffline, Code::AuditUnavailable, Code::Busy] {
            let error = || ToolError::new(code, "");
            assert!(may_be_sent_again(&error()), "{code}");
            assert!(may_be_sent_again(&error().effect(Effect::None)), "{code}");
            assert!(!may_be_sent_again(&error().effect(Effect::Done)), "{code}");
            assert!(!may_be_sent_again(&error().effect(Effect::Unknown)), "{code}");
        }
        assert!(!may_be_sent_again(&ToolError::new(Code::Timeout, "").effect(Effect::Unknown)));
        assert!(!may_be_sent_again(&ToolError::new(Code::BadInput, "").effect(Effect::None)));
    }

    #[test]
    fn deliveries_are_remembered_on_disk() {
        let home = tempfile::tempdir().unwrap();
        let ids: Arc<dyn Ids> = Arc::new(RandomIds);
        let deliveries = || Deliveries::new(home.path(), &ids);
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        let first = deliveries();
        assert!(first.claim("h", &[one, two]).unwrap());
        assert!(!first.claim("h", &[two]).unwrap());
        assert!(first.claim("other", &[one]).unwrap());
        // Windows does not replace a file that another daemon has open.
        drop(first);
        let again = deliveries();
        assert!(!again.claim("h", &[one]).unwrap());
        again.release("h", &[one]).unwrap();
        let text = std::fs::read_to_string(home.path().join("state/hooks/h")).unwrap();
        std::fs::write(home.path().join("state/hooks/h"), format!("{text}+sha256:12")).unwrap();
        drop(again);
        let last = deliveries();
        assert!(last.claim("h", &[one]).unwrap(), "a released delivery was refused");
        assert!(!last.claim("h", &[two]).unwrap());
    }
}
