//! Decides which client is notified of which change, and how often.
//!
//! Not here: what changed (`studio::hub`). List changes within a window give one message at its
//! end; a URI is announced at most four times a second, and its last change always.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use conductor_gateway::studio::Studio;
use conductor_gateway::studio::events::{Change, Event, Listener};

const LIST_WINDOW_US: u64 = 100_000;
const URI_WINDOW_US: u64 = 250_000;

/// When each announcement is due. Pure: time is a parameter, in microseconds.
#[derive(Debug, Default)]
pub struct Announcements {
    due: BTreeMap<Change, u64>,
    last: BTreeMap<Change, u64>,
}

impl Announcements {
    pub fn note(&mut self, change: Change, now: u64) {
        let at = match &change {
            Change::Tools | Change::Resources | Change::Prompts => now + LIST_WINDOW_US,
            Change::Uri(_) => self.last.get(&change).map_or(now, |last| (last + URI_WINDOW_US).max(now)),
        };
        self.due.entry(change).or_insert(at);
    }

    pub fn next(&self) -> Option<u64> {
        self.due.values().min().copied()
    }

    /// Everything due by now, in a fixed order.
    pub fn take(&mut self, now: u64) -> Vec<Change> {
        let due: Vec<Change> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(change, _)| change.clone()).collect();
        // An announcement older than its window does not delay the next one.
        self.last.retain(|_, last| *last + URI_WINDOW_US > now);
        for change in &due {
            self.due.remove(change);
            if matches!(change, Change::Uri(_)) {
                self.last.insert(change.clone(), now);
            }
        }
        due
    }
}

/// The stream of announcements of one listener.
pub struct Watch {
    studio: Arc<Studio>,
    events: Listener,
    announcements: Announcements,
}

/// An item of a [`Watch`].
pub enum News {
    Changes(Vec<Change>),
    /// Some changes were lost: everything watched may have changed.
    Lagged,
}

impl Watch {
    pub fn new(studio: &Arc<Studio>) -> Self {
        let events = studio.events.listen(Event::is_change);
        Self { studio: Arc::clone(studio), events, announcements: Announcements::default() }
    }

    /// Addresses contain names of documents, and such a name may be a secret.
    fn clean(&self, change: &mut Change) {
        if let Change::Uri(uri) = change
            && let std::borrow::Cow::Owned(clean) = self.studio.scrubber.text(uri)
        {
            *uri = clean.into();
        }
    }

    /// Waits for the next announcements among those `wanted`. `None` when the studio is gone.
    pub async fn next(&mut self, wanted: impl Fn(&Change) -> bool) -> Option<News> {
        loop {
            let now = self.studio.clock.now().0;
            let mut due = self.announcements.take(now);
            if !due.is_empty() {
                due.iter_mut().for_each(|change| self.clean(change));
                return Some(News::Changes(due));
            }
            let wake = self.announcements.next();
            tokio::select! {
                event = self.events.recv() => match event {
                    Ok(Event::Changed(change)) if wanted(&change) => self.announcements.note(change, self.studio.clock.now().0),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Some(News::Lagged),
                    Err(RecvError::Closed) => return None,
                },
                () = async {
                    match wake {
                        Some(at) => self.studio.sleeper.until(conductor_core::event::Micros(at)).await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
        }
    }
}

/// Legacy: runs from the end of the handshake until the peer is gone. It holds nothing that would
/// keep the session alive.
pub async fn notify_legacy_peer(
    mut watch: Watch,
    subscriptions: Arc<Mutex<BTreeSet<String>>>,
    gone: CancellationToken,
    peer: Peer<RoleServer>,
) {
    let subscribed = || subscriptions.lock();
    loop {
        let news = tokio::select! {
            () = gone.cancelled() => return,
            news = watch.next(|change| match change {
                Change::Tools | Change::Resources | Change::Prompts => true,
                Change::Uri(uri) => subscribed().contains(&**uri),
            }) => news,
        };
        let changes = match news {
            None => return,
            Some(News::Changes(changes)) => changes,
            Some(News::Lagged) => {
                let uris: Vec<Change> = subscribed().iter().map(|uri| Change::Uri(uri.as_str().into())).collect();
                [Change::Tools, Change::Resources, Change::Prompts].into_iter().chain(uris).collect()
            }
        };
        for change in changes {
            let sent = match change {
                Change::Tools => peer.notify_tool_list_changed().await,
                Change::Resources => peer.notify_resource_list_changed().await,
                Change::Prompts => peer.notify_prompt_list_changed().await,
                Change::Uri(uri) => {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri.to_string())).await
                }
            };
            if sent.is_err() {
                return;
            }
        }
    }
}

/// Modern: runs one `subscriptions/listen` until it is cancelled or the daemon stops.
pub async fn listen(studio: &Arc<Studio>, context: &SubscriptionContext, stop: &CancellationToken) {
    let filter: SubscriptionFilter = context.accepted().clone();
    let wants = |change: &Change| match change {
        Change::Tools => filter.tools_list_changed == Some(true),
        Change::Resources => filter.resources_list_changed == Some(true),
        Change::Prompts => filter.prompts_list_changed == Some(true),
        Change::Uri(uri) => {
            filter.resource_subscriptions.as_ref().is_some_and(|uris| uris.iter().any(|it| **it == **uri))
        }
    };
    let mut watch = Watch::new(studio);
    loop {
        let news = tokio::select! {
            () = context.cancelled() => return,
            () = stop.cancelled() => return,
            news = watch.next(wants) => news,
        };
        let changes = match news {
            None => return,
            Some(News::Changes(changes)) => changes,
            Some(News::Lagged) => {
                let uris = filter.resource_subscriptions.iter().flatten().map(|uri| Change::Uri(uri.as_str().into()));
                [Change::Tools, Change::Resources, Change::Prompts].into_iter().filter(wants).chain(uris).collect()
            }
        };
        for change in changes {
            let sink = context.sink();
            let sent = match change {
                Change::Tools => sink.notify_tool_list_changed().await,
                Change::Resources => sink.notify_resource_list_changed().await,
                Change::Prompts => sink.notify_prompt_list_changed().await,
                Change::Uri(uri) => sink.notify_resource_updated(uri.to_string()).await,
            };
            if sent.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uri(name: &str) -> Change {
        Change::Uri(name.into())
    }

    #[test]
    fn a_burst_of_list_changes_is_one_message_at_the_end_of_its_window() {
        let mut it = Announcements::default();
        for n in 0..50 {
            it.note(Change::Tools, n);
        }
        assert_eq!(it.take(99_999), []);
        assert_eq!(it.take(100_000), [Change::Tools]);
        assert_eq!(it.next(), None);
    }

    #[test]
    fn a_uri_is_told_at_once_then_four_times_a_second_and_its_last_change_always() {
        let mut it = Announcements::default();
        it.note(uri("a"), 0);
        assert_eq!(it.take(0), [uri("a")]);
        it.note(uri("a"), 10);
        it.note(uri("b"), 10);
        assert_eq!(it.take(10), [uri("b")]);
        assert_eq!(it.take(249_999), []);
        assert_eq!(it.take(250_000), [uri("a")]);
    }

    proptest! {
        /// No change is lost: an announcement follows at or after the last one.
        #[test]
        fn the_last_change_is_always_announced(times in prop::collection::vec(0u64..2_000_000, 1..60)) {
            let mut times = times;
            times.sort();
            let mut it = Announcements::default();
            let mut told: Vec<u64> = Vec::new();
            let mut now = 0;
            for at in &times {
                while let Some(wake) = it.next().filter(|wake| wake <= at) {
                    now = wake.max(now);
                    told.extend(it.take(now).iter().map(|_| now));
                }
                now = *at;
                it.note(uri("x"), now);
                told.extend(it.take(now).iter().map(|_| now));
            }
            while let Some(wake) = it.next() {
                told.extend(it.take(wake).iter().map(|_| wake));
            }
            prop_assert!(told.last() >= times.last());
            prop_assert!(told.windows(2).all(|pair| pair[1] - pair[0] >= URI_WINDOW_US), "{told:?}");
        }
    }
}
