//! One-time links and sessions of the console. Both are in memory only and end with the daemon.
//!
//! Not here: who may have a link. The human door checks that before it calls [`Sessions::link`].

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use conductor_core::event::Micros;
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::pipeline::call::ConnId;
use conductor_hosts::system::{Clock, Ids};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Life of a link that was not used.
pub const LINK_MS: u64 = 60_000;
/// Life of a session.
pub const SESSION_MS: u64 = 12 * 3_600_000;
/// A session ends after this time without a request or an open event stream.
pub const IDLE_MS: u64 = 2 * 3_600_000;
/// Number of random bytes in a link.
const SECRET_BYTES: usize = 16;
/// Number of random bytes in a session key.
const KEY_BYTES: usize = 32;
/// Maximum number of unused links. A further link replaces the oldest.
const MOST_LINKS: usize = 8;
/// Maximum number of sessions. A further session ends the oldest.
const MOST_SESSIONS: usize = 16;
/// Connection numbers of sessions start here, so that they differ from those of the other doors.
const FIRST_CONNECTION: u64 = 1 << 62;

type Digest = [u8; 32];

/// Why a session ended. The page receives the name of the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Logout,
    Revoked,
    Expired,
    Idle,
    Stopping,
}

struct Link {
    digest: Digest,
    uid: u32,
    ends: Micros,
    /// The redirect file of `conductor console --open`. It is removed together with the link.
    file: Option<PathBuf>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // The file may have been removed by hand.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A person's session in the console.
pub struct Session {
    /// Public name, for lists.
    pub name: String,
    pub conn: ConnId,
    uid: u32,
    digest: Digest,
    opened: Micros,
    opened_at: Timestamp,
    last: AtomicU64,
    last_at: AtomicU64,
    /// Number of open event streams.
    streams: AtomicUsize,
    /// Whether the page is visible.
    in_front: AtomicBool,
    /// Cancelled when the session ends.
    pub over: CancellationToken,
    why: OnceLock<Ended>,
    /// Releases to send when the page is closed: the device and the release token of each pressed
    /// control.
    pub playing: Mutex<BTreeSet<(Option<String>, String)>>,
}

impl Session {
    pub fn person(&self) -> Principal {
        Principal::Person { uid: self.uid }
    }

    pub fn why(&self) -> Ended {
        self.why.get().copied().unwrap_or(Ended::Stopping)
    }

    /// When the session ends at the latest.
    pub fn ends(&self) -> Micros {
        self.opened.plus_us(SESSION_MS * 1000)
    }

    pub fn set_in_front(&self, visible: bool) {
        self.in_front.store(visible, Ordering::Release);
    }

    fn is_in_front(&self) -> bool {
        self.is_open() && self.in_front.load(Ordering::Acquire)
    }

    fn is_open(&self) -> bool {
        self.streams.load(Ordering::Acquire) > 0
    }

    /// Counts an event stream until the returned value is dropped.
    pub fn open_stream(self: &Arc<Self>) -> OpenStream {
        self.streams.fetch_add(1, Ordering::AcqRel);
        OpenStream(Arc::clone(self))
    }

    fn end(&self, why: Ended) {
        // A session that ended keeps its first reason.
        let _ = self.why.set(why);
        self.over.cancel();
    }

    pub fn to_json(&self) -> Value {
        json!({
            "session": self.name, "opened_at": self.opened_at,
            "last_seen": Timestamp::from_millis(self.last_at.load(Ordering::Acquire)),
            "expires_at": self.opened_at.plus_millis(SESSION_MS), "is_open": self.is_open(),
        })
    }
}

/// An open event stream of a session.
pub struct OpenStream(Arc<Session>);

impl OpenStream {
    pub fn session(&self) -> &Arc<Session> {
        &self.0
    }

    /// Whether this is the only open stream of the session.
    pub fn is_last(&self) -> bool {
        self.0.streams.load(Ordering::Acquire) == 1
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

pub struct LoggedIn {
    pub key: String,
    pub session: Arc<Session>,
}

pub struct Sessions {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    state: Mutex<State>,
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    links: Vec<Link>,
    sessions: Vec<Arc<Session>>,
    opened: u64,
}

impl Sessions {
    pub fn new(clock: &Arc<dyn Clock>, ids: &Arc<dyn Ids>) -> Arc<Self> {
        Arc::new(Self {
            clock: Arc::clone(clock),
            ids: Arc::clone(ids),
            state: Mutex::default(),
            count: watch::Sender::new(0),
        })
    }

    fn random(&self, bytes: &mut [u8]) -> String {
        self.ids.fill(bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Creates a link and returns its secret. `file` is called with the secret and returns the path
    /// of the redirect file, if it wrote one.
    pub fn link<E>(
        &self,
        uid: u32,
        file: impl FnOnce(&str) -> Result<Option<PathBuf>, E>,
    ) -> Result<(String, Option<PathBuf>), E> {
        let secret = self.random(&mut [0; SECRET_BYTES]);
        let file = file(&secret)?;
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.links.retain(|it| it.ends > now);
        if state.links.len() >= MOST_LINKS {
            state.links.remove(0);
        }
        let digest = Sha256::digest(secret.as_bytes()).into();
        state.links.push(Link { digest, uid, ends: now.plus_us(LINK_MS * 1000), file: file.clone() });
        Ok((secret, file))
    }

    /// Exchanges the secret of a link for a session, once.
    pub fn log_in(&self, secret: &str) -> Option<LoggedIn> {
        let now = self.clock.now();
        let digest: Digest = Sha256::digest(secret.as_bytes()).into();
        let key = self.random(&mut [0; KEY_BYTES]);
        let name = self.ids.v4().simple().to_string().chars().take(8).collect();
        let mut state = self.state.lock();
        state.links.retain(|it| it.ends > now);
        let at = state.links.iter().position(|it| bool::from(it.digest.ct_eq(&digest)))?;
        let link = state.links.remove(at);
        if state.sessions.len() >= MOST_SESSIONS {
            state.sessions.remove(0).end(Ended::Revoked);
        }
        state.opened += 1;
        let wall = self.clock.wall_ms();
        let session = Arc::new(Session {
            name,
            conn: ConnId(FIRST_CONNECTION + state.opened),
            uid: link.uid,
            digest: Sha256::digest(key.as_bytes()).into(),
            opened: now,
            opened_at: Timestamp::from_millis(wall),
            last: AtomicU64::new(now.0),
            last_at: AtomicU64::new(wall),
            streams: AtomicUsize::new(0),
            in_front: AtomicBool::new(false),
            over: CancellationToken::new(),
            why: OnceLock::new(),
            playing: Mutex::default(),
        });
        state.sessions.push(Arc::clone(&session));
        self.publish(&state);
        Some(LoggedIn { key, session })
    }

    /// Returns the session with this key. The lookup counts as activity of the session.
    pub fn find(&self, key: &str) -> Option<Arc<Session>> {
        self.reap();
        let digest: Digest = Sha256::digest(key.as_bytes()).into();
        let state = self.state.lock();
        let found = state.sessions.iter().find(|it| bool::from(it.digest.ct_eq(&digest))).cloned()?;
        found.last.store(self.clock.now().0, Ordering::Release);
        found.last_at.store(self.clock.wall_ms(), Ordering::Release);
        Some(found)
    }

    /// Ends the sessions that have expired or are idle.
    pub fn reap(&self) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let before = state.sessions.len();
        state.sessions.retain(|it| {
            if it.is_open() {
                it.last.store(now.0, Ordering::Release);
            }
            let idle = now.since(Micros(it.last.load(Ordering::Acquire))) >= IDLE_MS * 1000;
            let why = if now >= it.ends() { Some(Ended::Expired) } else { idle.then_some(Ended::Idle) };
            if let Some(why) = why {
                it.end(why);
            }
            why.is_none()
        });
        if state.sessions.len() != before {
            self.publish(&state);
        }
    }

    /// Ends one session by its name, or all sessions and unused links. Returns the number of ended
    /// sessions.
    pub fn end(&self, name: Option<&str>, why: Ended) -> usize {
        let mut state = self.state.lock();
        let before = state.sessions.len();
        state.sessions.retain(|it| {
            let stays = name.is_some_and(|name| it.name != name);
            if !stays {
                it.end(why);
            }
            stays
        });
        if name.is_none() {
            state.links.clear();
        }
        self.publish(&state);
        before - state.sessions.len()
    }

    fn publish(&self, state: &State) {
        let count = state.sessions.len();
        self.count.send_if_modified(|it| std::mem::replace(it, count) != count);
    }

    pub fn watch(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    pub fn list(&self) -> Vec<Value> {
        self.reap();
        self.state.lock().sessions.iter().map(|it| it.to_json()).collect()
    }

    /// Whether a console page is visible now.
    pub fn is_in_front(&self) -> bool {
        self.state.lock().sessions.iter().any(|it| it.is_in_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_hosts::system::RandomIds;
    use conductor_testkit::time::ManualTime;
    use std::convert::Infallible;
    use std::time::Duration;

    fn sessions() -> (Arc<ManualTime>, Arc<Sessions>) {
        let clock = ManualTime::new();
        let ids: Arc<dyn Ids> = Arc::new(RandomIds);
        (Arc::clone(&clock), Sessions::new(&(clock as Arc<dyn Clock>), &ids))
    }

    fn link(sessions: &Sessions) -> String {
        sessions.link(7, |_| Ok::<_, Infallible>(None)).unwrap().0
    }

    #[test]
    fn a_link_opens_one_session_within_a_minute() {
        let (clock, sessions) = sessions();
        let secret = link(&sessions);
        assert!(sessions.log_in("guess").is_none());
        let opened = sessions.log_in(&secret).unwrap();
        assert!(sessions.log_in(&secret).is_none(), "a link could be used twice");
        assert_eq!(sessions.find(&opened.key).unwrap().person(), Principal::Person { uid: 7 });
        assert!(sessions.find(&secret).is_none());
        let late = link(&sessions);
        clock.advance(Duration::from_millis(LINK_MS));
        assert!(sessions.log_in(&late).is_none(), "a link was valid for more than a minute");
    }

    #[test]
    fn a_session_ends_when_idle_old_or_revoked() {
        let (clock, sessions) = sessions();
        let open = || sessions.log_in(&link(&sessions)).unwrap();
        let idle = open();
        clock.advance(Duration::from_millis(IDLE_MS - 1));
        assert!(sessions.find(&idle.key).is_some());
        clock.advance(Duration::from_millis(IDLE_MS));
        assert!(sessions.find(&idle.key).is_none());
        assert!(idle.session.over.is_cancelled());
        assert_eq!(idle.session.why(), Ended::Idle);

        let old = open();
        let stream = old.session.open_stream();
        clock.advance(Duration::from_millis(SESSION_MS - 1));
        assert!(sessions.find(&old.key).is_some(), "the session ended although its page was open");
        clock.advance(Duration::from_millis(1));
        assert!(sessions.find(&old.key).is_none());
        assert_eq!(old.session.why(), Ended::Expired);
        drop(stream);

        let (one, two) = (open(), open());
        assert_eq!(sessions.end(Some(&one.session.name), Ended::Revoked), 1);
        assert!(sessions.find(&one.key).is_none() && sessions.find(&two.key).is_some());
        let unused = link(&sessions);
        assert_eq!(sessions.end(None, Ended::Revoked), 1);
        assert!(sessions.log_in(&unused).is_none(), "an unused link was still valid after everything was revoked");
    }
}
