//! Sends events to the servers of `[[webhooks]]`.
//!
//! Each event is stored in `state/webhooks/NAME` before it is sent, and removed when the receiver
//! has accepted it. An event therefore survives a restart, and may arrive more than once. Each
//! webhook has its own queue, so a dead receiver delays only itself.
//!
//! Not here: webhooks of other programs (`doors::http::hooks`).

use crate::doors::http::hooks::{DELIVERY, EVENT, SIGNATURE, TIMESTAMP, sign};
use crate::log::Log;
use conductor_core::config::Webhook;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::report::WebhookNow;
use conductor_gateway::secrets::Secrets;
use conductor_gateway::studio::Studio;
use conductor_gateway::studio::events::Listener;
use conductor_hosts::atomic_file;
use conductor_hosts::web::system_tls;
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// Maximum number of stored events of one webhook. The oldest ones are dropped.
const STORED: usize = 1000;
/// An event that was not accepted for this time is dropped.
const MOST_AGE_MS: u64 = 24 * 60 * 60 * 1000;
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_PAUSE_MS: u64 = 1000;
const LONGEST_PAUSE_MS: u64 = 300_000;

pub struct Webhooks {
    studio: Arc<Studio>,
    secrets: Arc<Secrets>,
    runtime: tokio::runtime::Handle,
    log: Log,
    /// Created for the first webhook, because reading the certificate authorities takes time.
    client: OnceLock<Result<reqwest::Client, String>>,
    open: Mutex<BTreeMap<String, Open>>,
}

struct Open {
    row: Webhook,
    queue: Arc<Queue>,
    stop: CancellationToken,
}

impl Webhooks {
    pub fn new(studio: &Arc<Studio>, secrets: &Arc<Secrets>, runtime: tokio::runtime::Handle, log: &Log) -> Arc<Self> {
        Arc::new(Self {
            studio: Arc::clone(studio),
            secrets: Arc::clone(secrets),
            runtime,
            log: log.clone(),
            client: OnceLock::new(),
            open: Mutex::default(),
        })
    }

    /// Starts new webhooks and stops removed ones. The stored events of a removed webhook stay on
    /// disk. Does not wait for any receiver.
    pub fn configure(&self, rows: &[Webhook]) {
        let mut open = self.open.lock();
        open.retain(|name, it| {
            let is_kept = rows.iter().any(|row| row.name == *name && *row == it.row);
            if !is_kept {
                it.stop.cancel();
            }
            is_kept
        });
        for row in rows {
            if open.contains_key(&row.name) {
                continue;
            }
            match self.start(row) {
                Ok(started) => drop(open.insert(row.name.clone(), started)),
                Err(error) => self.log.error(format_args!("webhook {}: {error}", row.name)),
            }
        }
    }

    fn start(&self, row: &Webhook) -> io::Result<Open> {
        let queue = Arc::new(Queue::open(&self.studio.home.join("state/webhooks").join(&row.name))?);
        let stop = CancellationToken::new();
        let client = self.client.get_or_init(client).clone().map_err(io::Error::other)?;
        // Subscribe before the tasks start, so that no later event is missed.
        let events = self.studio.events.observe();
        let collector = collect(events, row.clone(), Arc::clone(&queue), Arc::clone(&self.studio), self.log.clone());
        let sender = Sender {
            row: row.clone(),
            queue: Arc::clone(&queue),
            studio: Arc::clone(&self.studio),
            secrets: Arc::clone(&self.secrets),
            client,
        };
        let ended = stop.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = async { tokio::join!(collector, sender.run()); } => {}
            }
        });
        Ok(Open { row: row.clone(), queue, stop })
    }

    pub fn now(&self) -> Vec<WebhookNow> {
        let open = self.open.lock();
        open.iter().map(|(name, it)| WebhookNow { name: name.clone(), ..it.queue.now() }).collect()
    }

    /// Ends all tasks. Stored events are sent after the next start.
    pub fn stop(&self) {
        self.open.lock().values().for_each(|it| it.stop.cancel());
    }
}

/// A client for the servers that a person has configured.
pub(crate) fn client() -> Result<reqwest::Client, String> {
    let tls = system_tls().map_err(|it| it.to_string())?;
    let builder = reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().timeout(PATIENCE);
    builder.redirect(reqwest::redirect::Policy::none()).build().map_err(|it| reason(&it))
}

/// Stores each wanted event.
async fn collect(mut events: Listener, row: Webhook, queue: Arc<Queue>, studio: Arc<Studio>, log: Log) {
    loop {
        let (name, data) = match events.recv().await {
            Ok(event) => match event.observed() {
                Some((name, data)) if row.events.iter().any(|it| it.as_str() == name) => (name, data),
                Some(_) | None => continue,
            },
            Err(RecvError::Lagged(missed)) => ("lagged", json!({ "missed": missed })),
            Err(RecvError::Closed) => return,
        };
        let delivery = studio.ids.v4().to_string();
        let body = json!({ "delivery": delivery, "event": name, "at": studio.timestamp(), "data": data });
        let stored = Arc::clone(&queue);
        let put = tokio::task::spawn_blocking(move || stored.put(&body, &delivery)).await;
        if let Ok(Err(error)) = put {
            log.error(format_args!("webhook {}: an event cannot be stored: {error}", row.name));
        }
    }
}

struct Sender {
    row: Webhook,
    queue: Arc<Queue>,
    studio: Arc<Studio>,
    secrets: Arc<Secrets>,
    client: reqwest::Client,
}

impl Sender {
    async fn run(&self) {
        let mut failures: u32 = 0;
        loop {
            let Some((number, body)) = self.next().await else {
                self.queue.arrived.notified().await;
                continue;
            };
            let result = match serde_json::from_slice::<Value>(&body) {
                Ok(event) if self.age_ms(&event) < MOST_AGE_MS => self.send(&event, body).await,
                // Drop a file that another program damaged, and an event that is too old.
                Ok(_) | Err(_) => {
                    self.queue.drop_one(number);
                    continue;
                }
            };
            match result {
                Ok(()) => {
                    failures = 0;
                    self.queue.delivered(number);
                }
                Err(why) => {
                    failures = failures.saturating_add(1);
                    self.queue.failed(&why);
                    let pause = pause_ms(failures, self.studio.jitter());
                    self.studio.sleeper.until(self.studio.clock.now().plus_us(pause * 1000)).await;
                }
            }
        }
    }

    /// The oldest stored event.
    async fn next(&self) -> Option<(u64, Vec<u8>)> {
        let queue = Arc::clone(&self.queue);
        tokio::task::spawn_blocking(move || queue.oldest()).await.ok().flatten()
    }

    fn age_ms(&self, event: &Value) -> u64 {
        let at = event["at"].as_str().and_then(|it| it.parse().ok()).unwrap_or(Timestamp::from_millis(0));
        self.studio.timestamp().millis_since(at)
    }

    /// Sends one event. The signature has the time of this attempt, so that a late attempt is still
    /// within the receiver's limit.
    async fn send(&self, event: &Value, body: Vec<u8>) -> Result<(), String> {
        let (secrets, name) = (Arc::clone(&self.secrets), self.row.secret.clone());
        let secret = tokio::task::spawn_blocking(move || secrets.get(&name)).await.map_err(|it| it.to_string())?;
        let secret = secret.map_err(|it| it.to_string())?;
        let time = (self.studio.timestamp().as_millis() / 1000).to_string();
        let signature = sign(secret.expose().as_bytes(), &time, &body);
        let request = self
            .client
            .post(&self.row.url)
            .header("content-type", "application/json")
            .header(TIMESTAMP, time)
            .header(SIGNATURE, format!("sha256={signature}"))
            .header(EVENT, event["event"].as_str().unwrap_or_default())
            .header(DELIVERY, event["delivery"].as_str().unwrap_or_default())
            .body(body);
        // The address may contain a secret, so it is not part of the error.
        let answer = request.send().await.map_err(|it| reason(&it.without_url()))?;
        match answer.status() {
            // The receiver already has this delivery.
            StatusCode::CONFLICT => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(format!("the receiver answered with the status {}", status.as_u16())),
        }
    }
}

/// The innermost cause of an error. The outer errors only report that sending failed.
fn reason(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The pause after this number of failures: it doubles up to five minutes, and is then lengthened
/// by up to a quarter.
fn pause_ms(failures: u32, jitter: u32) -> u64 {
    let doubled = FIRST_PAUSE_MS.saturating_mul(1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX));
    let pause = doubled.min(LONGEST_PAUSE_MS);
    pause + ((u128::from(pause / 4) * u128::from(jitter)) >> 32) as u64
}

/// The stored events of one webhook: one file each, named by its number.
struct Queue {
    folder: PathBuf,
    arrived: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The numbers of the stored events.
    stored: std::collections::BTreeSet<u64>,
    next: u64,
    delivered: u64,
    dropped: u64,
    error: Option<String>,
}

impl Queue {
    fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut state = State::default();
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|it| it.strip_suffix(".json")).and_then(|it| it.parse::<u64>().ok());
            state.stored.extend(number);
        }
        state.next = state.stored.last().map_or(0, |it| it + 1);
        Ok(Self { folder: folder.to_owned(), arrived: Notify::new(), state: Mutex::new(state) })
    }

    fn file(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:020}.json"))
    }

    /// Stores an event. Blocks until it is on disk.
    fn put(&self, body: &Value, unique: &str) -> io::Result<()> {
        let number = {
            let mut state = self.state.lock();
            let number = state.next;
            state.next += 1;
            number
        };
        atomic_file::replace(&self.file(number), body.to_string().as_bytes(), 0o600, unique)?;
        let oldest = {
            let mut state = self.state.lock();
            state.stored.insert(number);
            (state.stored.len() > STORED).then(|| state.stored.first().copied()).flatten()
        };
        if let Some(oldest) = oldest {
            self.drop_one(oldest);
        }
        self.arrived.notify_one();
        Ok(())
    }

    fn oldest(&self) -> Option<(u64, Vec<u8>)> {
        loop {
            let number = self.state.lock().stored.first().copied()?;
            match std::fs::read(self.file(number)) {
                Ok(body) => return Some((number, body)),
                Err(_) => self.drop_one(number),
            }
        }
    }

    fn delivered(&self, number: u64) {
        self.remove(number);
        let mut state = self.state.lock();
        state.delivered += 1;
        state.error = None;
    }

    fn drop_one(&self, number: u64) {
        self.remove(number);
        self.state.lock().dropped += 1;
    }

    fn remove(&self, number: u64) {
        self.state.lock().stored.remove(&number);
        // If the file cannot be removed, the event is sent again after the next start.
        let _ = std::fs::remove_file(self.file(number));
    }

    fn failed(&self, why: &str) {
        self.state.lock().error = Some(why.to_owned());
    }

    fn now(&self) -> WebhookNow {
        let state = self.state.lock();
        WebhookNow {
            name: String::new(),
            waiting: state.stored.len(),
            delivered: state.delivered,
            dropped: state.dropped,
            error: state.error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_five_minutes() {
        let pauses: Vec<u64> = [1, 2, 3, 9, 10, u32::MAX].map(|it| pause_ms(it, 0)).into();
        assert_eq!(pauses, [1000, 2000, 4000, 256_000, 300_000, 300_000]);
        assert!(pause_ms(10, u32::MAX) < 375_000);
    }

    #[test]
    fn a_full_queue_drops_the_oldest_event_and_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::open(folder.path()).unwrap();
        for number in 0..=STORED {
            queue.put(&json!({ "n": number }), "x").unwrap();
        }
        assert_eq!((queue.now().waiting, queue.now().dropped), (STORED, 1));
        let again = Queue::open(folder.path()).unwrap();
        let (number, body) = again.oldest().unwrap();
        assert_eq!((number, body), (1, b"{\"n\":1}".to_vec()));
        again.delivered(number);
        assert_eq!((again.now().waiting, again.now().delivered), (STORED - 1, 1));
    }
}
