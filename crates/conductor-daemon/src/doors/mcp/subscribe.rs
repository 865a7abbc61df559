//! Subscriptions: which client is notified of which change, and how often.
//!
//! Changes to a list within a window cause one message at the end of the window. Changes to a URI
//! are announced at most four times a second, and the last change is always announced. Not here:
//! the source of changes (`studio::events`).

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{
    ErrorData, GetMeta, NotificationMetaObject, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
    ServerNotification, ServerResult, SubscriptionFilter, SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams, SubscriptionsListenResult,
};
use tokio::sync::broadcast::error::RecvError;

use super::McpDoor;
use super::methods::{self, Answer, Cx, Outgoing};

use conductor_gateway::studio::Studio;
use conductor_gateway::studio::events::{Change, Event, Listener};

const LIST_WINDOW_US: u64 = 100_000;
const URI_WINDOW_US: u64 = 250_000;
const MAX_LISTENS: usize = 16;
const MAX_SUBSCRIPTIONS: usize = 256;
const MAX_URI: usize = 2048;

/// When each announcement is due. This type reads no clock: time is a parameter, in microseconds.
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

    /// Removes and returns all announcements that are due, in a fixed order.
    pub fn take(&mut self, now: u64) -> Vec<Change> {
        let due: Vec<Change> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(change, _)| change.clone()).collect();
        // Forget announcements that are older than their window: they do not delay the next one.
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

/// The change announcements for one client.
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

    /// Scrubs an address: it may contain the name of a document, and such a name may be a secret.
    fn clean(&self, change: &mut Change) {
        if let Change::Uri(uri) = change
            && let std::borrow::Cow::Owned(clean) = self.studio.scrubber.text(uri)
        {
            *uri = clean.into();
        }
    }

    /// Waits for the next announcements that `wanted` selects. `None` when the studio has ended.
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

/// Answers `resources/subscribe` of the legacy era.
pub fn subscribe(door: &McpDoor, uri: &str) -> Answer {
    let mut subscriptions = door.subscriptions.lock();
    let is_full = subscriptions.len() >= MAX_SUBSCRIPTIONS && !subscriptions.contains(uri);
    if uri.len() > MAX_URI || is_full {
        return Err(too_many_uris());
    }
    // The URI is copied, because the received string may have a much larger capacity than its
    // length.
    subscriptions.insert(uri.to_owned());
    Ok(ServerResult::empty(()))
}

/// The next changes for a legacy client. Never returns before the handshake has ended.
pub async fn legacy_news(watch: &mut Option<Watch>, uris: &Mutex<BTreeSet<String>>) -> Vec<ServerNotification> {
    let wanted = |change: &Change| match change {
        Change::Tools | Change::Resources | Change::Prompts => true,
        Change::Uri(uri) => uris.lock().contains(&**uri),
    };
    let news = match watch {
        Some(watch) => watch.next(wanted).await,
        None => None,
    };
    let changes = match news {
        Some(News::Changes(changes)) => changes,
        Some(News::Lagged) => everything(uris.lock().iter().map(String::as_str)).collect(),
        // The studio has ended, or the handshake is not complete.
        None => std::future::pending().await,
    };
    changes.into_iter().map(notification).collect()
}

fn everything<'a>(uris: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Change> {
    let uris = uris.map(|uri| Change::Uri(uri.into()));
    [Change::Tools, Change::Resources, Change::Prompts].into_iter().chain(uris)
}

fn notification(change: Change) -> ServerNotification {
    match change {
        Change::Tools => ServerNotification::ToolListChangedNotification(Default::default()),
        Change::Resources => ServerNotification::ResourceListChangedNotification(Default::default()),
        Change::Prompts => ServerNotification::PromptListChangedNotification(Default::default()),
        Change::Uri(uri) => {
            let params = ResourceUpdatedNotificationParam::new(uri.to_string());
            ServerNotification::ResourceUpdatedNotification(ResourceUpdatedNotification::new(params))
        }
    }
}

/// Answers `subscriptions/listen` of the modern era: acknowledges it, then sends changes until it
/// is cancelled.
pub async fn listen(door: &McpDoor, requested: SubscriptionFilter, cx: &Cx) -> Answer {
    let uris = requested.resource_subscriptions.as_deref().unwrap_or_default();
    if uris.len() > MAX_SUBSCRIPTIONS || uris.iter().any(|it| it.len() > MAX_URI) {
        return Err(too_many_uris());
    }
    let filter = requested.supported_by(&methods::info().capabilities);
    let accepted = SubscriptionsAcknowledgedNotificationParams::new(filter.clone());
    let accepted = SubscriptionsAcknowledgedNotification::new(accepted);
    let accepted = ServerNotification::SubscriptionsAcknowledgedNotification(accepted);
    let mut is_open = send(accepted, cx).await;
    let _open = Open::count(&door.listens)?;
    let wants = |change: &Change| match change {
        Change::Tools => filter.tools_list_changed == Some(true),
        Change::Resources => filter.resources_list_changed == Some(true),
        Change::Prompts => filter.prompts_list_changed == Some(true),
        Change::Uri(uri) => {
            filter.resource_subscriptions.as_ref().is_some_and(|uris| uris.iter().any(|it| **it == **uri))
        }
    };
    let mut watch = Watch::new(door.studio());
    while is_open {
        let news = tokio::select! {
            () = cx.cancel.cancelled() => None,
            () = door.shared.stop.cancelled() => None,
            news = watch.next(wants) => news,
        };
        let changes = match news {
            None => break,
            Some(News::Changes(changes)) => changes,
            Some(News::Lagged) => {
                let uris = filter.resource_subscriptions.iter().flatten().map(String::as_str);
                everything(uris).filter(wants).collect()
            }
        };
        for change in changes {
            is_open = is_open && send(notification(change), cx).await;
        }
    }
    let mut result = SubscriptionsListenResult::complete(cx.id.clone());
    result.meta.set_server_info(McpDoor::identity());
    Ok(ServerResult::SubscriptionsListenResult(result))
}

/// Sends a notification of the subscription `cx`. Returns false if the client has disconnected.
async fn send(mut notification: ServerNotification, cx: &Cx) -> bool {
    let mut meta = NotificationMetaObject::new();
    meta.set_subscription_id(cx.id.clone());
    *notification.get_meta_mut() = meta;
    cx.out.send(Outgoing::Notification(Box::new(notification))).await.is_ok()
}

/// Counts the open subscriptions of a connection.
struct Open<'a>(&'a AtomicUsize);

impl<'a> Open<'a> {
    fn count(open: &'a AtomicUsize) -> Result<Self, ErrorData> {
        let before = open.fetch_add(1, Ordering::AcqRel);
        let counted = Open(open);
        if before < MAX_LISTENS {
            return Ok(counted);
        }
        Err(ErrorData::invalid_params(format!("Too many subscriptions: at most {MAX_LISTENS} per connection"), None))
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn too_many_uris() -> ErrorData {
    let text =
        format!("At most {MAX_SUBSCRIPTIONS} subscriptions per connection, each with a URI of at most {MAX_URI} bytes");
    ErrorData::invalid_params(text, None)
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
        /// No change is lost: an announcement follows at or after the last change.
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
