//! Publishes the audit log to its witness.
//!
//! The log serves as the queue, and the last message of the witness is the position in it. After an
//! outage of any length, publishing continues after the last record that the server has. Each
//! message names the number of the message before it, so the server stores no record twice and
//! leaves out none.

use super::{LinkError, Session};
use conductor_core::cluster::witness::{LastRecord, checkpoint_id, record_id};
use conductor_core::cluster::{checkpoint_subject, record_subject, witness_stream};
use conductor_gateway::audit_log::follow::{Follower, Published, checkpoints_after};
use conductor_hosts::cluster::{Draft, Link, StoreError};
use futures_util::StreamExt as _;
use futures_util::stream;
use std::path::PathBuf;

/// Number of records per batch, and maximum number of messages without a confirmation.
const BATCH: usize = 256;
const AT_ONCE: usize = 64;
/// The time after which the log is read again even without an event.
const LOOK_US: u64 = 500_000;
/// Number of failures in a row to publish after which the connection is opened again.
const MAX_FAILURES: u32 = 3;

/// Publishes until the connection is lost, or until the log is not a continuation of the witness.
pub async fn run(session: &Session, link: &Link) -> String {
    // Subscribe before the log is read for the first time, so that no later record is missed.
    let mut events = session.studio.events.observe();
    let mut failures = 0;
    loop {
        match publish_all(session, link, &mut events, &mut failures).await {
            Err(Stop::Again) if failures < MAX_FAILURES => failures += 1,
            Err(Stop::Again) => return "another program writes to the witness of this rig".to_owned(),
            Err(Stop::Link(why)) => return why.to_string(),
            Err(Stop::OtherLog(why)) => {
                session.log.error(format_args!("cluster: {why}"));
                session.shared.note(|it| it.error = Some(why));
                // Publish nothing more, but keep the connection for everything else. A person must
                // check the log.
                return std::future::pending().await;
            }
            Err(Stop::Disk(why)) => {
                session.shared.note(|it| it.error = Some(why));
                session.pause(10 * LOOK_US).await;
            }
        }
    }
}

enum Stop {
    /// The last message of the witness is not the expected one.
    Again,
    Link(LinkError),
    OtherLog(String),
    Disk(String),
}

impl From<LinkError> for Stop {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(format!("the audit log cannot be read: {error}"))
    }
}

/// The numbers of the last messages in the stream.
struct Ends {
    record: u64,
    checkpoint: u64,
    checkpoint_line: Option<Vec<u8>>,
}

impl Ends {
    fn of_stream(&self) -> u64 {
        self.record.max(self.checkpoint)
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T, Stop> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)??)
}

async fn publish_all(
    session: &Session,
    link: &Link,
    events: &mut conductor_gateway::studio::events::Listener,
    failures: &mut u32,
) -> Result<std::convert::Infallible, Stop> {
    let rig = &session.shared.rig;
    let stream = witness_stream(rig);
    let home: PathBuf = session.audit.home().to_owned();
    let record = link.last(&stream, &record_subject(rig)).await?;
    let checkpoint = link.last(&stream, &checkpoint_subject(rig)).await?;
    let last = record.as_ref().and_then(|it| LastRecord::read(&it.body));
    if record.is_some() && last.is_none() {
        return Err(Stop::OtherLog("the witness contains a message that is not a record".to_owned()));
    }
    let mut ends = Ends {
        record: record.as_ref().map_or(0, |it| it.seq),
        checkpoint: checkpoint.as_ref().map_or(0, |it| it.seq),
        checkpoint_line: checkpoint.map(|it| it.body.trim_ascii_end().to_vec()),
    };
    session.shared.note(|it| it.witnessed_through = last.map(|it| it.seq));
    let place = home.clone();
    let mut follower =
        blocking(move || Follower::after(&place, last)).await?.map_err(|it| Stop::OtherLog(it.to_string()))?;
    loop {
        if let Some(durable) = session.audit.durable() {
            let (moved, (records, through)) = blocking(move || {
                let read = follower.read(durable.seq, BATCH)?;
                Ok((follower, read))
            })
            .await?;
            follower = moved;
            let (is_full, has_new) = (records.len() == BATCH, !records.is_empty());
            publish_records(link, rig, &mut ends, records).await?;
            if has_new {
                *failures = 0;
            }
            if let Some(through) = through {
                session.shared.note(|it| it.witnessed_through = it.witnessed_through.max(Some(through)));
            }
            if is_full {
                continue;
            }
            publish_checkpoints(link, rig, &mut ends, home.clone()).await?;
        }
        // Wait for the next call, checkpoint or approval. Reading the log once serves all events
        // that have arrived.
        tokio::select! {
            _ = events.recv() => while events.try_recv().is_ok() {},
            () = session.pause(LOOK_US) => {}
        }
    }
}

/// Stores records in order. The number of each message is known in advance, because this rig is the
/// only writer, so many messages are sent without waiting for each one.
async fn publish_records(link: &Link, rig: &str, ends: &mut Ends, records: Vec<Published>) -> Result<(), Stop> {
    let subject = record_subject(rig);
    let first = ends.of_stream() + 1;
    let start = ends.record;
    let sent = records.into_iter().zip(first..).map(|(record, number)| {
        let expected = if number == first { start } else { number - 1 };
        let id = Some(record_id(record.seq, record.hash));
        let draft = Draft { subject: subject.clone(), expected: Some(expected), id, body: record.line.into() };
        async move { (number, link.store(draft).await) }
    });
    let mut sent = stream::iter(sent).buffered(AT_ONCE);
    while let Some((number, stored)) = sent.next().await {
        ends.record = confirmed(number, stored)?;
    }
    Ok(())
}

async fn publish_checkpoints(link: &Link, rig: &str, ends: &mut Ends, home: PathBuf) -> Result<(), Stop> {
    let known = ends.checkpoint_line.clone();
    for line in blocking(move || checkpoints_after(&home, known.as_deref())).await? {
        let number = ends.of_stream() + 1;
        let draft = Draft {
            subject: checkpoint_subject(rig),
            expected: Some(ends.checkpoint),
            id: Some(checkpoint_id(&line)),
            body: line.clone().into(),
        };
        ends.checkpoint = confirmed(number, link.store(draft).await)?;
        ends.checkpoint_line = Some(line);
    }
    Ok(())
}

/// The number of the stored message, if it is the expected one.
fn confirmed(number: u64, stored: Result<conductor_hosts::cluster::Stored, StoreError>) -> Result<u64, Stop> {
    match stored {
        Ok(stored) if stored.seq == number && !stored.duplicate => Ok(number),
        Ok(_) | Err(StoreError::NotFirst) => Err(Stop::Again),
        Err(StoreError::Refused(why)) => Err(Stop::Link(LinkError::Answer(why))),
        Err(StoreError::Link(why)) => Err(Stop::Link(why)),
    }
}
