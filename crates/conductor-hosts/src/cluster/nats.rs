//! Implements the link with `async-nats`. Only plain messages are used: a message is stored by a
//! request to its subject, and read by a request to `$JS.API.DIRECT.GET`. A rig therefore needs no
//! permission for the API of streams and consumers, except to create a stream. nats-server 2.9 and
//! later support all of these features.

use super::{Credentials, Draft, LinkError, Message, PATIENCE, Settings, StoreError, Stored};
use async_nats::client::{Request, RequestErrorKind};
use async_nats::{Auth, AuthError, Client, ConnectErrorKind, ConnectOptions, Event, HeaderMap, StatusCode};
use bytes::Bytes;
use conductor_core::cluster::nkey;
use ed25519_dalek::{Signer as _, SigningKey};
use futures_util::StreamExt as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
const ID: &str = "Nats-Msg-Id";
/// JetStream error codes for a message that came too late: the expected sequence number is wrong,
/// or the subject already has a message.
const NOT_FIRST: [u64; 2] = [10071, 10077];
/// Error code of JetStream for a stream that exists with another configuration.
const EXISTS: u64 = 10058;
/// Interval between pings. If two pings get no answer, the connection is lost.
const PING: Duration = Duration::from_secs(5);
/// Capacity of the client's queues. Callers wait while the send queue is full, so memory is
/// bounded.
const WAITING: usize = 256;

pub struct Link {
    client: Client,
    lost: CancellationToken,
}

pub struct Subscription(async_nats::Subscriber);

impl Subscription {
    /// The subject and body of the next message. `None` after the connection was lost.
    pub async fn next(&mut self) -> Option<(String, Bytes)> {
        self.0.next().await.map(|it| (it.subject.to_string(), it.payload))
    }
}

#[derive(Deserialize)]
struct Ack {
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

impl Link {
    /// Connects. Does not retry.
    pub async fn open(settings: &Settings) -> Result<Self, LinkError> {
        let lost = CancellationToken::new();
        let ended = lost.clone();
        let mut options = ConnectOptions::with_auth_callback({
            let credentials = settings.credentials.clone();
            move |nonce| {
                let auth = proof(&credentials, &nonce);
                async move { Ok::<_, AuthError>(auth) }
            }
        })
        .name(&settings.name)
        .custom_inbox_prefix(format!("_INBOX.{}", settings.name))
        .connection_timeout(PATIENCE)
        .request_timeout(Some(PATIENCE))
        .ping_interval(PING)
        .client_capacity(WAITING)
        .subscription_capacity(WAITING)
        .ignore_discovered_servers()
        .max_reconnects(1)
        .event_callback(move |event| {
            let is_over = matches!(event, Event::Disconnected | Event::Closed | Event::Draining | Event::LameDuckMode);
            if is_over {
                ended.cancel();
            }
            async {}
        });
        if settings.server.starts_with("tls://") {
            options = options.require_tls(true).tls_client_config(tls(settings.ca.as_deref())?);
        }
        let opened = tokio::time::timeout(PATIENCE * 2, options.connect(&settings.server)).await;
        let client = opened.map_err(|_| LinkError::Silent)?.map_err(|error| match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => LinkError::NotAccepted,
            ConnectErrorKind::TimedOut => LinkError::Silent,
            ConnectErrorKind::ServerParse
            | ConnectErrorKind::Dns
            | ConnectErrorKind::Tls
            | ConnectErrorKind::Io
            | ConnectErrorKind::MaxReconnects => LinkError::Unreachable(reason(&error)),
        })?;
        Ok(Self { client, lost })
    }

    /// Waits until the connection is lost.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Stores a message in the stream of its subject, and waits for the server's confirmation.
    pub async fn store(&self, draft: Draft) -> Result<Stored, StoreError> {
        let mut headers = HeaderMap::new();
        if let Some(expected) = draft.expected {
            headers.insert(EXPECTED, expected.to_string());
        }
        if let Some(id) = draft.id {
            headers.insert(ID, id);
        }
        let answer = self.request(draft.subject, headers, draft.body).await?;
        let ack: Ack = read(&answer.payload)?;
        match ack.error {
            None => Ok(Stored { seq: ack.seq, duplicate: ack.duplicate }),
            Some(error) if NOT_FIRST.contains(&error.err_code) => Err(StoreError::NotFirst),
            Some(error) => Err(StoreError::Refused(error.description)),
        }
    }

    /// The last message with this subject.
    pub async fn last(&self, stream: &str, subject: &str) -> Result<Option<Message>, LinkError> {
        self.get(format!("$JS.API.DIRECT.GET.{stream}.{subject}"), Bytes::new()).await
    }

    /// The message with this sequence number.
    pub async fn at(&self, stream: &str, seq: u64) -> Result<Option<Message>, LinkError> {
        self.get(format!("$JS.API.DIRECT.GET.{stream}"), json!({ "seq": seq }).to_string().into()).await
    }

    /// The first message whose subject matches, starting at sequence number `from`.
    pub async fn next(&self, stream: &str, subjects: &str, from: u64) -> Result<Option<Message>, LinkError> {
        let wanted = json!({ "seq": from, "next_by_subj": subjects }).to_string();
        self.get(format!("$JS.API.DIRECT.GET.{stream}"), wanted.into()).await
    }

    async fn get(&self, subject: String, body: Bytes) -> Result<Option<Message>, LinkError> {
        let answer = self.request(subject, HeaderMap::new(), body).await?;
        match answer.status {
            None => {}
            Some(StatusCode::NOT_FOUND) => return Ok(None),
            Some(other) => {
                return Err(LinkError::Answer(format!("{other} {}", answer.description.unwrap_or_default())));
            }
        }
        let headers = answer.headers.unwrap_or_default();
        let text = |key: &str| headers.get(key).map(|it| it.as_str().to_owned()).unwrap_or_default();
        let seq = text("Nats-Sequence")
            .parse()
            .map_err(|_| LinkError::Answer("a message without a sequence number".into()))?;
        let (subject, time) = (text("Nats-Subject"), text("Nats-Time-Stamp"));
        Ok(Some(Message { subject, seq, time, body: answer.payload }))
    }

    pub async fn subscribe(&self, subject: String) -> Result<Subscription, LinkError> {
        let subscribed = self.bounded(self.client.subscribe(subject)).await?;
        let subscription = subscribed.map_err(|error| LinkError::Answer(reason(&error)))?;
        // The answer to the flush proves that the server has registered the subscription.
        self.bounded(self.client.flush()).await?.map_err(|_| LinkError::Lost)?;
        Ok(Subscription(subscription))
    }

    /// Sends a message that the server does not store.
    pub async fn send(&self, subject: String, body: Bytes) -> Result<(), LinkError> {
        self.bounded(self.client.publish(subject, body)).await?.map_err(|_| LinkError::Lost)
    }

    /// Creates a stream. Succeeds if the stream already exists with the same configuration.
    pub async fn create_stream(&self, name: &str, config: &Value) -> Result<(), LinkError> {
        let subject = format!("$JS.API.STREAM.CREATE.{name}");
        let answer = self.request(subject, HeaderMap::new(), config.to_string().into()).await?;
        let ack: Ack = read(&answer.payload)?;
        match ack.error {
            None => Ok(()),
            Some(error) if error.err_code == EXISTS => {
                Err(LinkError::Answer(format!("the stream {name} exists with another configuration")))
            }
            Some(error) => Err(LinkError::Answer(error.description)),
        }
    }

    async fn request(
        &self,
        subject: String,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<async_nats::Message, LinkError> {
        let request = Request::new().headers(headers).payload(body).timeout(Some(PATIENCE));
        let answer = self.bounded(self.client.send_request(subject, request)).await?;
        answer.map_err(|error| match error.kind() {
            RequestErrorKind::TimedOut => LinkError::Silent,
            RequestErrorKind::NoResponders => LinkError::NoStream,
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::Other => {
                LinkError::Answer(reason(&error))
            }
        })
    }

    /// Ends an operation when the connection is lost, or when its time limit has passed.
    async fn bounded<T>(&self, work: impl Future<Output = T>) -> Result<T, LinkError> {
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Err(LinkError::Lost),
            done = tokio::time::timeout(PATIENCE * 2, work) => done.map_err(|_| LinkError::Silent),
        }
    }
}

/// Signs the nonce of the server.
fn proof(credentials: &Credentials, nonce: &[u8]) -> Auth {
    let key = SigningKey::from_bytes(&credentials.seed);
    let mut auth = Auth::new();
    auth.signature = Some(key.sign(nonce).to_bytes().to_vec());
    auth.jwt = credentials.jwt.clone();
    if auth.jwt.is_none() {
        auth.nkey = Some(nkey::public_text(&key.verifying_key()));
    }
    auth
}

fn tls(ca: Option<&Path>) -> Result<rustls::ClientConfig, LinkError> {
    let unreachable = |why: String| LinkError::Unreachable(why);
    let Some(ca) = ca else { return crate::web::system_tls().map_err(|it| unreachable(it.to_string())) };
    let named = |why: &dyn std::fmt::Display| unreachable(format!("{}: {why}", ca.display()));
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(|it| named(&it))? {
        roots.add(certificate.map_err(|it| named(&it))?).map_err(|it| named(&it))?;
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|it| named(&it))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, LinkError> {
    serde_json::from_slice(bytes).map_err(|error| LinkError::Answer(error.to_string()))
}

/// The innermost cause of an error. The outer errors only name the operation that failed.
fn reason(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
