//! Records the current Set of each caller, and which state of the Set the caller has read. Ids are
//! positions, so a caller must read again after another caller has shifted ids.

use conductor_core::principal::Principal;
use conductor_set::{Author, PathId};
use std::collections::{BTreeMap, HashMap};

/// Identifies a caller that has a current Set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionKey {
    Connection(u64),
    /// Callers without a permanent connection, including HTTP tokens.
    Principal(String),
    /// People, the command line and mappings. They use the default Set, and their ids always refer
    /// to the current positions.
    Engine,
}

impl SessionKey {
    /// The key of a caller. A modern HTTP client opens a new connection for each request, so its
    /// token identifies the session.
    pub fn of(principal: &Principal, conn: u64) -> SessionKey {
        match principal {
            Principal::Person { .. } | Principal::Phone { .. } | Principal::Cli { .. } | Principal::Mapping { .. } => {
                SessionKey::Engine
            }
            Principal::Socket { .. } if conn != 0 => SessionKey::Connection(conn),
            Principal::Socket { .. }
            | Principal::Http { .. }
            | Principal::Oauth { .. }
            | Principal::Plugin { .. }
            | Principal::Webhook { .. } => SessionKey::Principal(principal.to_string()),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Session {
    author: u64,
    current: Option<String>,
    /// Per Set, the value of `State::structure` at the last reply.
    seen: BTreeMap<String, u64>,
    /// Per Set and clip, how many notes the session has read, counted from the first note.
    read: BTreeMap<(String, PathId), usize>,
}

#[derive(Clone, Debug, Default)]
pub struct Sessions {
    all: HashMap<SessionKey, Session>,
    authors: u64,
}

/// Maximum number of sessions. Sessions of principals without a connection never end, so above this
/// limit the oldest session is dropped.
const MAX_SESSIONS: usize = 4096;

impl Sessions {
    fn session(&mut self, key: &SessionKey) -> &mut Session {
        if !self.all.contains_key(key) && self.all.len() >= MAX_SESSIONS {
            let oldest = self.all.iter().min_by_key(|(_, it)| it.author).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.all.remove(&oldest);
            }
        }
        let authors = &mut self.authors;
        self.all.entry(key.clone()).or_insert_with(|| {
            *authors += 1;
            Session { author: *authors, ..Session::default() }
        })
    }

    pub fn current(&self, key: &SessionKey) -> Option<&str> {
        self.all.get(key)?.current.as_deref()
    }

    pub fn is_any_on(&self, set: impl Fn(&str) -> bool) -> bool {
        self.all.values().any(|it| it.current.as_deref().is_some_and(&set))
    }

    /// Sets the current Set of a session. The engine always uses the default Set.
    pub fn set_current(&mut self, key: &SessionKey, set: &str) {
        if *key != SessionKey::Engine {
            self.session(key).current = Some(set.to_owned());
        }
    }

    pub fn seen(&mut self, key: &SessionKey, set: &str) -> Option<(Author, u64)> {
        if *key == SessionKey::Engine {
            return None;
        }
        let session = self.session(key);
        Some((Author(session.author), session.seen.get(set).copied().unwrap_or(0)))
    }

    pub fn saw(&mut self, key: &SessionKey, set: &str, structure: u64) {
        if *key != SessionKey::Engine {
            let seen = self.session(key).seen.entry(set.to_owned()).or_default();
            *seen = structure.max(*seen);
        }
    }

    /// Records that the session has read `count` notes of a clip. `offset` is the index of the
    /// first of these notes; `None` for a window of time or pitch.
    pub fn read_notes(&mut self, key: &SessionKey, set: &str, clip: PathId, offset: Option<usize>, count: usize) {
        let read = self.session(key).read.entry((set.to_owned(), clip)).or_default();
        // A page that continues the notes read so far extends the count. For any other page or
        // window, the larger count is kept.
        *read = match offset {
            Some(offset) if offset <= *read => offset.saturating_add(count).max(*read),
            Some(_) | None => count.max(*read),
        };
    }

    /// Records that the session wrote all notes of a clip. These notes count as read.
    pub fn wrote_notes(&mut self, key: &SessionKey, set: &str, clip: PathId, count: usize) {
        self.session(key).read.insert((set.to_owned(), clip), count);
    }

    pub fn notes_read(&mut self, key: &SessionKey, set: &str, clip: PathId) -> usize {
        self.session(key).read.get(&(set.to_owned(), clip)).copied().unwrap_or(0)
    }

    /// Forgets which notes were read, because the ids of the clips shifted.
    pub fn shifted(&mut self, set: &str) {
        for session in self.all.values_mut() {
            session.read.retain(|(of, _), _| of != set);
        }
    }

    pub fn renamed(&mut self, old: &str, new: &str) {
        for session in self.all.values_mut() {
            if session.current.as_deref() == Some(old) {
                session.current = Some(new.to_owned());
            }
            if let Some(seen) = session.seen.remove(old) {
                session.seen.insert(new.to_owned(), seen);
            }
            let read = std::mem::take(&mut session.read);
            session.read = read
                .into_iter()
                .map(|((set, clip), n)| ((if set == old { new.to_owned() } else { set }, clip), n))
                .collect();
        }
    }

    pub fn closed(&mut self, set: &str) {
        for session in self.all.values_mut() {
            session.seen.remove(set);
            session.read.retain(|(of, _), _| of != set);
        }
    }

    pub fn forget(&mut self, key: &SessionKey) {
        self.all.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_add_up_and_a_window_proves_only_itself() {
        let mut sessions = Sessions::default();
        let (key, clip) = (SessionKey::Connection(1), PathId::Track(0));
        sessions.read_notes(&key, "s", clip, None, 7);
        assert_eq!(sessions.notes_read(&key, "s", clip), 7);
        sessions.read_notes(&key, "s", clip, Some(0), 400);
        sessions.read_notes(&key, "s", clip, Some(400), 1);
        assert_eq!(sessions.notes_read(&key, "s", clip), 401);
        sessions.read_notes(&key, "s", clip, Some(9000), 5);
        assert_eq!(sessions.notes_read(&key, "s", clip), 401);
        assert_eq!(sessions.notes_read(&SessionKey::Connection(2), "s", clip), 0);
        sessions.shifted("s");
        assert_eq!(sessions.notes_read(&key, "s", clip), 0);
    }
}
