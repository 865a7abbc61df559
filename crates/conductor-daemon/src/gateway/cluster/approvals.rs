//! Shares the open questions of this rig, and applies the decisions of people on other rigs.
//!
//! The first stored decision about a question is final: the server refuses a second one. This rig
//! trusts neither the server nor the sender. It checks the signature, the key, the question as it
//! is now, the policy, the time and the tier (`conductor_core::cluster::decision::judge`).

use super::{LinkError, Session};
use conductor_core::audit::record::EventName;
use conductor_core::cluster::decision::{Answer, Asked, Questions, judge};
use conductor_core::cluster::{DECISIONS, ask_subject, decide_subject};
use conductor_core::pending::{Record, Yes};
use conductor_core::policy::Channel;
use conductor_gateway::studio::events::Event;
use conductor_hosts::cluster::{Draft, Link, StoreError};
use serde_json::json;
use std::collections::BTreeSet;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

pub async fn run(session: &Session, link: &Link) -> LinkError {
    match share(session, link).await {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

async fn share(session: &Session, link: &Link) -> Result<std::convert::Infallible, LinkError> {
    let rig = &session.shared.rig;
    let mut events = session.studio.events.listen(Event::is_approval);
    let mut decisions = link.subscribe(format!("decide.{rig}.*")).await?;
    let mut shared = None;
    // Decisions that this rig has refused. The server still stores them, but they are not judged
    // again.
    let mut refused = BTreeSet::new();
    loop {
        let questions = open_questions(session);
        let bytes = serde_json::to_vec(&questions).unwrap_or_default();
        if shared.as_ref() != Some(&bytes) {
            let draft = Draft { subject: ask_subject(rig), expected: None, id: None, body: bytes.clone().into() };
            match link.store(draft).await {
                Ok(_) => shared = Some(bytes),
                Err(StoreError::Link(why)) => return Err(why),
                Err(why @ (StoreError::NotFirst | StoreError::Refused(_))) => {
                    return Err(LinkError::Answer(why.to_string()));
                }
            }
            // A decision may have been stored while this rig was not connected.
            for question in &questions.questions {
                look(session, link, question.id, &mut refused).await?;
            }
        }
        tokio::select! {
            event = events.recv() => match event {
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Err(LinkError::Lost),
            },
            message = decisions.next() => {
                let Some((subject, _)) = message else { return Err(LinkError::Lost) };
                // Do not trust the message: the server also forwards decisions that it did not
                // store. Read the stored decision.
                if let Some(id) = subject.rsplit('.').next().and_then(|it| Uuid::parse_str(it).ok()) {
                    look(session, link, id, &mut refused).await?;
                }
            }
        }
    }
}

fn open_questions(session: &Session) -> Questions {
    session.studio.approvals.store().read(|pending| Questions::of(&session.shared.rig, pending.waiting()))
}

/// Reads the stored decision about an open question and applies it.
async fn look(session: &Session, link: &Link, id: Uuid, refused: &mut BTreeSet<Uuid>) -> Result<(), LinkError> {
    let studio = &session.studio;
    let is_open = studio.approvals.store().read(|pending| pending.waiting().any(|it| it.id == id));
    if !is_open || refused.contains(&id) {
        return Ok(());
    }
    let Some(message) = link.last(DECISIONS, &decide_subject(&session.shared.rig, id)).await? else { return Ok(()) };
    let record: Option<Record> = studio.approvals.get(id);
    let asked = Asked {
        rig: &session.shared.rig,
        record: record.as_ref(),
        policy_version: studio.policy().version,
        deciders: &session.shared.section.deciders,
        now: studio.timestamp(),
    };
    let why = match judge(&message.body, id, &asked) {
        Ok((decision, name)) => {
            let by = format!("rig:{name}/{}", decision.by);
            match apply(session, id, &by, decision.answer).await {
                Ok(()) => return Ok(()),
                Err(why) => why,
            }
        }
        Err(why) => why.to_string(),
    };
    refused.insert(id);
    session.shared.note(|it| it.refused_decisions += 1);
    session.log.warn(format_args!("cluster: a decision about approval {id} has no effect: {why}"));
    let detail = json!({ "approval": id.to_string(), "channel": Channel::Rig.as_str(), "reason": why });
    let _ = studio.audit_event(None, EventName::AuthFailed, detail).await;
    Ok(())
}

async fn apply(session: &Session, id: Uuid, by: &str, answer: Answer) -> Result<(), String> {
    let studio = &session.studio;
    let done = match answer {
        Answer::Allow => studio.approvals.allow(studio, id, Yes::once(by, Channel::Rig)).await,
        Answer::Deny => studio.approvals.deny(studio, id, by, Channel::Rig).await,
    };
    done.map_err(|it| it.to_string())
}
