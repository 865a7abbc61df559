//! Shows a desktop notification for each new approval request while no console page is visible.
//! Does nothing if the desktop has no notification service.

use super::Console;
use conductor_core::pending::{Record, State};
use conductor_core::text::escape;
use conductor_hosts::desktop::notification;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Runs until the daemon stops.
pub async fn run(console: Arc<Console>, stop: CancellationToken) {
    let store = Arc::clone(console.studio().approvals.store());
    let mut waiting = store.watch();
    let mut known: BTreeSet<Uuid> = store.read(|pending| pending.waiting().map(|it| it.id).collect());
    loop {
        tokio::select! {
            changed = waiting.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
        waiting.borrow_and_update();
        let now: Vec<Record> = store.read(|pending| pending.waiting().cloned().collect());
        let new: Vec<&Record> = now.iter().filter(|it| is_news(it, &known)).collect();
        if !console.control.gateway.consoles.is_in_front() {
            for record in &new {
                let (title, text) = announcement(record);
                let text = console.studio().scrubber.text(&text).into_owned();
                // An error is ignored: without a desktop, the question is still shown in the other
                // channels.
                let _ = tokio::task::spawn_blocking(move || notification::show(&title, &text)).await;
            }
        }
        known = now.iter().map(|it| it.id).collect();
    }
}

/// Whether to announce a request: it is new, open, and not made by a person.
fn is_news(record: &Record, known: &BTreeSet<Uuid>) -> bool {
    record.state == State::Pending && !record.principal.is_person() && !known.contains(&record.id)
}

fn announcement(record: &Record) -> (String, String) {
    let title = format!("{} asks for {}", escape(&record.principal.to_string()), escape(&record.tool));
    let text = format!(
        "{} ({}). Answer in the console, or with `conductor approvals list --watch`.",
        escape(&record.summary),
        record.short
    );
    (title, text)
}
