//! Notifies a person through an ntfy topic that a request waits.
//!
//! The message is the same for every request. It contains no name, no content and no link, because
//! a topic is not protected.

use super::Phone;
use super::devices::Devices;
use crate::gateway::webhooks;
use conductor_core::event::Micros;
use conductor_core::pending::{Record, State};
use conductor_core::policy::PhoneSettings;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const TITLE: &str = "Conductor";
const MESSAGE: &str = "A request waits for your answer.";
/// Time after a message during which further requests cause no message.
const QUIET_US: u64 = 15_000_000;

/// Runs until the daemon stops.
pub async fn run(phone: Arc<Phone>, stop: CancellationToken) {
    let studio = Arc::clone(phone.studio());
    let store = Arc::clone(studio.approvals.store());
    let mut waiting = store.watch();
    let mut known: BTreeSet<Uuid> = store.read(|pending| pending.waiting().map(|it| it.id).collect());
    let mut client: Option<reqwest::Client> = None;
    let mut quiet_until = Micros(0);
    loop {
        tokio::select! {
            changed = waiting.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
        waiting.borrow_and_update();
        let now: Vec<Record> = store.read(|pending| pending.waiting().cloned().collect());
        let settings = studio.policy().policy.approval.phone.clone();
        let is_news = now.iter().any(|it| is_news(settings.as_ref(), it, &known));
        known = now.iter().map(|it| it.id).collect();
        let Some(topic) = settings.and_then(|it| it.ntfy).filter(|_| is_news) else { continue };
        let devices: &Devices = &phone.control.gateway.phones;
        if devices.is_empty() || studio.clock.now() < quiet_until {
            continue;
        }
        quiet_until = studio.clock.now().plus_us(QUIET_US);
        // Created for the first message, because reading the certificate authorities takes time.
        let ready = match client.take() {
            Some(ready) => Ok(ready),
            None => webhooks::client(),
        };
        let sent = match ready {
            Ok(ready) => {
                let sent = ready.post(&topic).header("Title", TITLE).body(MESSAGE).send().await;
                client = Some(ready);
                // The address is not logged, because anyone who knows the topic can read it.
                let sent = sent.and_then(reqwest::Response::error_for_status);
                sent.map(drop).map_err(|error| error.without_url().to_string())
            }
            Err(error) => Err(error),
        };
        if let Err(why) = sent {
            phone.control.gateway.log.warn(format_args!("[policy.approval.phone] ntfy: no message was sent: {why}"));
        }
    }
}

fn is_news(settings: Option<&PhoneSettings>, record: &Record, known: &BTreeSet<Uuid>) -> bool {
    record.state == State::Pending
        && !record.principal.is_person()
        && !known.contains(&record.id)
        && super::may_see(settings, record)
}
