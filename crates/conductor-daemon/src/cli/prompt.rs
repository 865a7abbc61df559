//! Asks questions on the terminal of `conductor up`. A question is shown on stderr; the person
//! types `y` or `n` and Enter.
//!
//! Input that was typed before the question is discarded. A `y` is refused if it was typed faster
//! than a person can read.

use super::question::{self, Answer};
use crate::gateway::Gateway;
use conductor_core::digest::Digest;
use conductor_core::pending::{Record, State, Yes};
use conductor_core::policy::Channel;
use conductor_core::principal::Principal;
use conductor_gateway::config_in_force::ConfigInForce;
use conductor_gateway::owner_handle::OwnerHandle;
use conductor_gateway::studio::Studio;
use conductor_gateway::studio::events::Event;
use serde_json::json;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc};

/// Asks questions until the daemon stops. While this runs, the daemon treats a person as present to
/// answer.
pub async fn run(gateway: Arc<Gateway>, owner: OwnerHandle) {
    let studio = &gateway.studio;
    let _present = studio.approvals.attend();
    let mut events = studio.events.listen(Event::is_approval);
    let mut waiting = gateway.waiting();
    waiting.mark_changed();
    let mut lines = read_lines();
    loop {
        // Questions about calls have priority over the question about the file.
        let asked = tokio::select! {
            biased;
            asked = events.recv() => asked,
            changed = waiting.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = waiting.borrow_and_update().clone();
                if !now.needs_a_person() {
                    continue;
                }
                let serving = owner.serving();
                let asked = tokio::select! {
                    biased;
                    asked = events.recv() => asked,
                    // The file has changed again, so show the new difference.
                    changed = waiting.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        waiting.mark_changed();
                        continue;
                    }
                    answered = ask_config(&gateway, &serving, &mut lines) => match answered {
                        Some(yes) => {
                            accept_config(&gateway, &owner, serving.hash, yes).await;
                            continue;
                        }
                        None => return,
                    },
                };
                waiting.mark_changed();
                asked
            }
        };
        let record = match asked {
            Ok(Event::ApprovalAsked(record)) => record,
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => continue,
            Err(broadcast::error::RecvError::Closed) => return,
        };
        if answer(studio, &record, &mut lines).await.is_none() {
            return;
        }
    }
}

/// Asks whether to accept the parts of `config.toml` that are not in force. Returns `None` when the
/// terminal is closed.
async fn ask_config(gateway: &Gateway, serving: &ConfigInForce, lines: &mut mpsc::Receiver<String>) -> Option<bool> {
    question::discard_input();
    while lines.try_recv().is_ok() {}
    let shown = json!({
        "held": serving.waiting.held.names(), "closed": serving.waiting.closed.as_deref(),
        "difference": &*serving.waiting.difference, "unprotected": serving.waiting.typing,
    });
    let shown = super::config::difference(&shown);
    say(&format!("\nSome parts of config.toml are not in force.\n{shown}Accept this config.toml? y or n: "));
    let drawn = gateway.studio.clock.now();
    loop {
        let line = lines.recv().await?;
        if let Some(yes) = judge(&line, gateway.studio.clock.now().since(drawn)) {
            return Some(yes);
        }
    }
}

/// Reads the answer from a typed line. Asks again if the line is not a valid answer.
fn judge(line: &str, after_us: u64) -> Option<bool> {
    match question::judge(line, after_us) {
        Answer::Yes => return Some(true),
        Answer::No => return Some(false),
        Answer::TooQuick => say(question::TOO_QUICK),
        Answer::Neither => say("type y or n: "),
    }
    None
}

async fn accept_config(gateway: &Gateway, owner: &OwnerHandle, hash: Digest, yes: bool) {
    if !yes {
        return say("nothing was changed; run `conductor config accept` to be asked again\n");
    }
    let by = Principal::Person { uid: conductor_hosts::system::processes::current_user() };
    match gateway.accept_config(owner, by, hash).await {
        Ok(_) => say("accepted\n"),
        Err(error) => say(&format!("not accepted: {}\n", error.message)),
    }
}

/// Asks about one call. Returns `None` when the terminal is closed.
async fn answer(studio: &Arc<Studio>, record: &Record, lines: &mut mpsc::Receiver<String>) -> Option<()> {
    question::discard_input();
    while lines.try_recv().is_ok() {}
    say(&format!("\n{}Allow this once? y or n: ", question::text(record, question::columns(io::stderr()))));
    let shown = studio.clock.now();
    let yes = loop {
        let line = tokio::select! {
            line = lines.recv() => line?,
            // The request was answered elsewhere, or has expired.
            () = decided(studio, record) => {
                say(&format!("{} was answered elsewhere or has expired\n", record.short));
                return Some(());
            }
        };
        if let Some(yes) = judge(&line, studio.clock.now().since(shown)) {
            break yes;
        }
    };
    let by = Principal::Person { uid: conductor_hosts::system::processes::current_user() }.to_string();
    let done = if yes {
        let tool = studio.catalog().get(&record.tool).cloned();
        let grant_ms = tool.and_then(|it| it.grant_ms);
        studio.approvals.allow(studio, record.id, Yes { grant_ms, ..Yes::once(by, Channel::Terminal) }).await
    } else {
        studio.approvals.deny(studio, record.id, &by, Channel::Terminal).await
    };
    match done {
        Ok(()) => say(if yes { "allowed\n" } else { "denied\n" }),
        Err(error) => say(&format!("not accepted: {error}\n")),
    }
    Some(())
}

async fn decided(studio: &Arc<Studio>, record: &Record) {
    let mut events = studio.events.listen(Event::is_approval);
    loop {
        if studio.approvals.get(record.id).is_none_or(|it| it.state != State::Pending) {
            return;
        }
        match events.recv().await {
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

fn say(text: &str) {
    // Errors are ignored: if the terminal is closed, the question can be answered elsewhere.
    let _ = io::stderr().write_all(text.as_bytes());
    let _ = io::stderr().flush();
}

fn read_lines() -> mpsc::Receiver<String> {
    let (lines, receiver) = mpsc::channel(16);
    // Reading a terminal blocks, so a separate thread reads it. The thread ends with the process.
    let _ = std::thread::Builder::new().name("terminal".into()).spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
