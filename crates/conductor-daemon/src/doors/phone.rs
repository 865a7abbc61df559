//! The page on a paired phone: shows the open approval requests, and sends the answers.
//!
//! A separate listener with TLS serves these routes and no others: no MCP, no tools, no console. A
//! phone is paired with a one-time secret that a person's terminal showed as a QR code. The secret
//! is in the fragment of the link, so the browser does not send it until the person presses a
//! button on the page. After that, each request needs the key of the phone in a header and
//! `Sec-Fetch-Site: same-origin`.
//!
//! Not here: the listener (`gateway::phone`), and the storage of phones ([`devices`]).

pub mod devices;
pub mod ntfy;

use self::devices::{Device, PairError, SECRET_MS};
use crate::doors::console::{Refusal, files, harden, needs_same_origin, only, plain, read};
use crate::doors::control::Control;
use crate::doors::control::decisions::{self, Grant};
use crate::doors::http::refuse_after;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use conductor_core::audit::record::EventName;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use conductor_core::pending::{Kind, Record};
use conductor_core::policy::{Channel, PhoneSettings};
use conductor_core::principal::Principal;
use conductor_gateway::pending_store::Attachment;
use conductor_gateway::studio::Studio;
use conductor_hosts::connection_limits::HttpConnection;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

pub const KEY_HEADER: &str = "x-conductor-phone";
/// A phone that waits for a change gets an answer after this time at the latest.
const LONGEST_WAIT: Duration = Duration::from_secs(25);
/// Time after an answer during which a phone still counts as present, until its next request.
const STILL_PRESENT: Duration = Duration::from_secs(3);
/// Maximum number of requests that wait for a change.
const MOST_WAITING: usize = 32;
/// Maximum number of questions in one answer.
const MOST_QUESTIONS: usize = 50;
/// Maximum number of characters in the reason of a denial.
const MOST_REASON: usize = 500;
/// The files of the page. The listener serves no other file of the console.
const FILES: [&str; 8] = [
    "phone.css",
    "phone.js",
    "console.css",
    "icon.svg",
    "lib/format.js",
    "lib/text.js",
    "parts/question.js",
    "vendor/lit.js",
];

#[derive(Clone, Copy)]
pub struct Certificate {
    pub fingerprint: Digest,
    pub is_self_signed: bool,
}

pub struct Phone {
    control: Arc<Control>,
    waiting: Semaphore,
    last_failure_s: AtomicU64,
}

impl Phone {
    pub fn new(control: &Arc<Control>) -> Arc<Self> {
        Arc::new(Phone {
            control: Arc::clone(control),
            waiting: Semaphore::new(MOST_WAITING),
            last_failure_s: AtomicU64::new(u64::MAX),
        })
    }

    fn studio(&self) -> &Arc<Studio> {
        &self.control.gateway.studio
    }

    /// Records at most one wrong secret or key per second.
    async fn note_failure(&self) {
        let now = self.studio().now_ms() / 1000;
        if self.last_failure_s.swap(now, Ordering::Relaxed) != now {
            let _ = self.studio().audit_event(None, EventName::AuthFailed, json!({ "door": "phone" })).await;
        }
    }

    async fn pair(&self, body: Body) -> Result<Response, Refusal> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Pair {
            secret: String,
        }
        let Pair { secret } = read(body).await?;
        let devices = Arc::clone(&self.control.gateway.phones);
        let paired = tokio::task::spawn_blocking(move || devices.pair(&secret)).await;
        let paired = paired.map_err(|error| ToolError::new(Code::Internal, error.to_string()))?;
        let (device, key) = match paired {
            Ok(paired) => paired,
            Err(error) => {
                self.note_failure().await;
                return Err(Refusal::Response(refuse(StatusCode::UNAUTHORIZED, &error.to_string())));
            }
        };
        let detail = json!({ "phone": device.name() });
        let _ = self.studio().audit_event(Some(device.principal()), EventName::PhonePaired, detail).await;
        Ok(plain(&json!({ "key": key, "name": device.name() })))
    }

    /// The open questions. Waits while their tag equals `seen`, the tag of the state that the phone
    /// has.
    async fn state(&self, device: &Device, seen: &str) -> Response {
        let Ok(_permit) = self.waiting.try_acquire() else {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many phones wait at once");
        };
        let studio = self.studio();
        let present = studio.approvals.attend();
        let mut news = studio.approvals.store().watch();
        let end = tokio::time::sleep(LONGEST_WAIT);
        tokio::pin!(end);
        let state = loop {
            news.borrow_and_update();
            let state = self.snapshot(device).await;
            if state["tag"] != seen {
                break state;
            }
            tokio::select! {
                changed = news.changed() => if changed.is_err() { break state },
                () = device.revoked.cancelled() => return refuse(StatusCode::UNAUTHORIZED, REVOKED),
                () = &mut end => break state,
            }
        };
        // Keep the phone present for a short time, so that a call that starts now waits for its
        // answer.
        tokio::spawn(async move {
            tokio::time::sleep(STILL_PRESENT).await;
            drop(present);
        });
        plain(&state)
    }

    async fn snapshot(&self, device: &Device) -> Value {
        let studio = self.studio();
        let _ = studio.approvals.expire(studio).await;
        let policy = studio.policy();
        let settings = policy.policy.approval.phone.as_ref();
        let mut waiting: Vec<Record> = studio.approvals.store().read(|pending| pending.waiting().cloned().collect());
        waiting.sort_by_key(|it| it.created_at);
        let (shown, hidden): (Vec<&Record>, Vec<&Record>) = waiting.iter().partition(|it| may_see(settings, it));
        let questions: Vec<Value> = shown.into_iter().take(MOST_QUESTIONS).map(|it| self.question(it)).collect();
        let mut state = json!({ "device": device.name(), "questions": questions, "elsewhere": hidden.len() });
        studio.scrubber.value(&mut state);
        state["tag"] = Digest::of(state.to_string().as_bytes()).to_hex().into();
        state["now"] = json!(studio.timestamp());
        state
    }

    fn question(&self, record: &Record) -> Value {
        let store = self.studio().approvals.store();
        let mut value = decisions::shown(record);
        value["held"] = store.read(|pending| pending.is_waited_for(record.id)).into();
        value["shortened"] = store.has(record.id, Attachment::Full).into();
        value
    }

    /// A waiting call or plan that phones may answer.
    fn find(&self, id: &str) -> Result<Record, ToolError> {
        let record = decisions::find(&self.control, id, &[Kind::Call, Kind::Plan])?;
        let policy = self.studio().policy();
        if may_see(policy.policy.approval.phone.as_ref(), &record) {
            return Ok(record);
        }
        let why = match Channel::Phone.satisfies(record.channel_floor) {
            false => "only the approval pad can answer this request".to_owned(),
            true => format!("a phone cannot answer requests of the tier {}", record.tier),
        };
        Err(ToolError::new(Code::Denied, why)
            .subject(Subject::Approval(record.short.to_string()))
            .hint("Answer at the studio. [policy.approval.phone] tiers lists the tiers for phones.")
            .by(RefusedBy::Policy))
    }

    async fn full(&self, body: Body) -> Result<Response, Refusal> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Full {
            id: String,
            #[serde(default)]
            from: usize,
        }
        let Full { id, from } = read(body).await?;
        let record = self.find(&id)?;
        let facts = self.studio().approvals.full(&record).await;
        let unreadable = |error| ToolError::new(Code::Internal, format!("the full question cannot be read: {error}"));
        let mut page = decisions::page(&facts.map_err(unreadable)?, from);
        self.studio().scrubber.value(&mut page);
        Ok(plain(&page))
    }

    /// Applies the phone's answer to one question. An approval by a phone allows one call.
    async fn decide(&self, device: &Device, body: Body) -> Result<Response, Refusal> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Answer {
            Allow,
            Deny,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Decide {
            id: String,
            answer: Answer,
            reason: Option<String>,
        }
        let Decide { id, answer, reason } = read(body).await?;
        let record = self.find(&id)?;
        let (control, by, channel) = (&*self.control, device.principal(), Channel::Phone);
        let id = record.id.to_string();
        let reason = reason.map(|it| it.chars().take(MOST_REASON).collect::<String>());
        let once = Grant::Uses { uses: 1, for_ms: None, any_args: false };
        match (record.kind, answer) {
            (Kind::Plan, Answer::Allow) => drop(decisions::apply_plan(control, by, channel, &id).await?),
            (Kind::Plan, Answer::Deny) => drop(decisions::reject_plan(control, by, channel, &id, reason).await?),
            (Kind::Call | Kind::Edit | Kind::Standing, Answer::Allow) => {
                drop(decisions::allow(control, &by, channel, &id, once).await?);
            }
            (Kind::Call | Kind::Edit | Kind::Standing, Answer::Deny) => {
                drop(decisions::deny(control, &by, channel, &id, reason).await?);
            }
        }
        Ok(plain(&json!({ "ok": true })))
    }
}

/// Whether phones may see and answer this request.
fn may_see(settings: Option<&PhoneSettings>, record: &Record) -> bool {
    let is_tier = settings.is_some_and(|it| it.tiers.contains(&record.tier));
    is_tier && Channel::Phone.satisfies(record.channel_floor) && matches!(record.kind, Kind::Call | Kind::Plan)
}

const NOT_PAIRED: &str = "this phone is not paired";
const REVOKED: &str = "this phone was revoked";

/// A refusal without `WWW-Authenticate`: a browser would show its own dialog.
fn refuse(status: StatusCode, reason: &str) -> Response {
    let (code, hint) = match status {
        StatusCode::UNAUTHORIZED => (Code::Denied, "Pair the phone with `conductor pair`."),
        _ => (Code::Busy, "Try again in a minute, or close the page on another phone."),
    };
    let body = json!({ "error": reason, "code": code, "message": reason, "hint": hint, "subject": null });
    (status, axum::Json(body)).into_response()
}

/// The phone of the request, which [`needs_phone`] has found.
type Mine = Extension<Arc<Device>>;

/// All routes of the listener for phones.
pub fn routes(phone: &Arc<Phone>) -> Router {
    type Here = State<Arc<Phone>>;
    let guarded = Router::new()
        .route(
            "/phone/state",
            get(async |State(phone): Here, Extension(device): Mine, request: Request| {
                let query = request.uri().query().unwrap_or_default();
                let seen = query.split('&').find_map(|it| it.strip_prefix("seen=")).unwrap_or_default().to_owned();
                phone.state(&device, &seen).await
            }),
        )
        .route("/phone/full", post(async |State(phone): Here, body: Body| phone.full(body).await))
        .route(
            "/phone/decide",
            post(async |State(phone): Here, Extension(device): Mine, body: Body| phone.decide(&device, body).await),
        )
        .layer(middleware::from_fn_with_state(Arc::clone(phone), needs_phone))
        .route("/phone/pair", post(async |State(phone): Here, body: Body| phone.pair(body).await))
        .route("/phone/about", get(about))
        .layer(middleware::from_fn(needs_same_origin))
        .with_state(Arc::clone(phone));
    Router::new()
        .route("/", get(async || files::asset("phone.html")))
        .route("/assets/{*path}", get(async |Path(path): Path<String>| file(&path)))
        .merge(guarded)
        .fallback(async |request: Request| {
            let why = "this address serves only the page for approvals";
            refuse_after(request.into_body(), StatusCode::NOT_FOUND, why).await
        })
        .layer(middleware::map_response(harden))
}

fn file(path: &str) -> Response {
    if FILES.contains(&path) {
        return files::asset(path);
    }
    crate::doors::http::refuse(StatusCode::NOT_FOUND, "this page has no such file")
}

/// The certificate, so that the page can show its fingerprint before the phone is paired.
async fn about(Extension(certificate): Extension<Certificate>) -> Response {
    plain(&json!({ "fingerprint": certificate.fingerprint, "self_signed": certificate.is_self_signed }))
}

async fn needs_phone(State(phone): State<Arc<Phone>>, mut request: Request, next: Next) -> Response {
    let key = only(request.headers(), KEY_HEADER);
    let Some(device) = key.and_then(|key| phone.control.gateway.phones.find(key)) else {
        if key.is_some() {
            phone.note_failure().await;
        }
        // Read the rest of the request first, so that the page receives the refusal.
        let _ = refuse_after(request.into_body(), StatusCode::UNAUTHORIZED, NOT_PAIRED).await;
        return refuse(StatusCode::UNAUTHORIZED, NOT_PAIRED);
    };
    if let Some(connection) = request.extensions().get::<HttpConnection>() {
        connection.mark_known();
    }
    request.extensions_mut().insert(device);
    next.run(request).await
}

/// A one-time link that pairs a phone. The caller has checked that a person asks.
pub fn link(control: &Control, name: Option<&str>) -> Result<Value, ToolError> {
    let offline = |why: String| {
        ToolError::new(Code::HostOffline, why).subject(Subject::Host("phone".into())).hint(
            "Add two tables to config.toml: [policy.approval.phone] with bind = \"0.0.0.0:3444\", and [http.tls].",
        )
    };
    let served = control.gateway.phone.served().map_err(offline)?;
    let [url, others @ ..] = served.urls.as_slice() else {
        return Err(offline("no host name or address of the listener for phones is known".to_owned())
            .hint("Add the name or address of this machine to [http] hosts; `conductor http pair` proposes names."));
    };
    let (name, secret) = control.gateway.phones.offer(name).map_err(|error| not_paired(&error))?;
    Ok(json!({
        "name": name, "link": format!("{url}/#pair={secret}"), "url": url, "other_urls": others,
        "fingerprint": served.certificate.fingerprint, "self_signed": served.certificate.is_self_signed,
        "loopback": served.is_loopback, "seconds": SECRET_MS / 1000,
    }))
}

fn not_paired(error: &PairError) -> ToolError {
    let code = match error {
        PairError::NoSecret | PairError::Name(_) | PairError::Taken(_) => Code::BadInput,
        PairError::Full => Code::Busy,
        PairError::Store(_) => Code::Internal,
    };
    ToolError::new(code, error.to_string())
}

/// The paired phones, and the address of their listener.
pub fn list(control: &Control) -> Value {
    let (url, fault) = match control.gateway.phone.served() {
        Ok(served) => (served.urls.into_iter().next(), None),
        Err(fault) => (None, Some(fault)),
    };
    json!({ "phones": control.gateway.phones.list(), "url": url, "fault": fault })
}

/// Revokes one phone, or all phones and unused links.
pub async fn revoke(control: &Control, person: Principal, name: Option<String>) -> Result<Value, ToolError> {
    let (devices, wanted) = (Arc::clone(&control.gateway.phones), name.clone());
    let revoked = tokio::task::spawn_blocking(move || devices.revoke(wanted.as_deref())).await;
    let revoked = revoked.map_err(|error| ToolError::new(Code::Internal, error.to_string()))?;
    let revoked = revoked.map_err(|error| not_paired(&error.into()))?;
    if let Some(name) = name.filter(|_| revoked.is_empty()) {
        return Err(ToolError::new(Code::NotFound, format!("there is no phone {name:?}"))
            .hint("`conductor pair list` lists the phones."));
    }
    let detail = json!({ "phones": revoked });
    let _ = control.gateway.studio.audit_event(Some(person), EventName::PhoneRevoked, detail).await;
    Ok(json!({ "revoked": revoked }))
}
