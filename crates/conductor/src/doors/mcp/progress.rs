//! Sends progress and log messages of a call to the client. Log messages are deprecated in the SDK
//! but still used in the legacy era, and only this module may use them.

#![allow(deprecated)]

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CustomRequest, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
    ServerCapabilities, ServerRequest, SetLevelRequestParams,
};
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::McpDoor;
use super::era::Era;
use conductor_gateway::pipeline::call::{LogLevel, Progress};
use conductor_gateway::studio::Studio;

/// Reports that may wait for a slow peer; further ones are dropped, since the next one is newer.
const WAITING: usize = 32;
/// Limit of progress messages per second.
const PROGRESS_PER_SECOND: usize = 10;

pub fn with_logging(mut capabilities: ServerCapabilities) -> ServerCapabilities {
    capabilities.logging = Some(Default::default());
    capabilities
}

/// Handles the request that sets the log level of a session.
pub type SetLevel = SetLevelRequestParams;

pub fn level_asked(request: &SetLevel) -> LogLevel {
    level_in(request.level)
}

pub enum Report {
    Progress {
        token: ProgressToken,
        done: f64,
        total: Option<f64>,
        text: String,
    },
    Log {
        level: LogLevel,
        text: String,
    },
    /// A request to the client, answered through `reply`. It is sent from the task of the call, by
    /// which the SDK finds the right stream.
    Ask {
        method: String,
        params: Value,
        wait: Duration,
        reply: oneshot::Sender<Result<Value, String>>,
    },
}

/// Boxed, because the channel reserves its whole capacity and few calls report anything.
pub struct Reports(mpsc::Receiver<Box<Report>>);

impl Reports {
    pub async fn next(&mut self) -> Option<Report> {
        self.0.recv().await.map(|it| *it)
    }

    pub fn left(&mut self) -> Option<Report> {
        self.0.try_recv().ok().map(|it| *it)
    }
}

struct Back {
    token: Option<ProgressToken>,
    level: Option<LogLevel>,
    queue: mpsc::Sender<Box<Report>>,
    sent: Mutex<Sent>,
    studio: Arc<Studio>,
}

/// The last messages: progress must strictly increase, and their times limit the rate.
#[derive(Default)]
struct Sent {
    done: Option<f64>,
    times: VecDeque<u64>,
}

impl Back {
    fn clean(&self, text: &str) -> String {
        self.studio.scrubber.text(text).into_owned()
    }
}

impl Progress for Back {
    fn report(&self, done: f64, total: Option<f64>, text: &str) {
        let Some(token) = &self.token else { return };
        let now = self.studio.clock.now().0;
        let mut sent = self.sent.lock();
        while sent.times.front().is_some_and(|at| now.saturating_sub(*at) >= 1_000_000) {
            sent.times.pop_front();
        }
        if sent.done.is_some_and(|before| done <= before) || sent.times.len() >= PROGRESS_PER_SECOND {
            return;
        }
        sent.done = Some(done);
        sent.times.push_back(now);
        let report = Report::Progress { token: token.clone(), done, total, text: self.clean(text) };
        let _ = self.queue.try_send(Box::new(report));
    }

    fn log(&self, level: LogLevel, text: &str) {
        if self.level.is_some_and(|wanted| level >= wanted) {
            let _ = self.queue.try_send(Box::new(Report::Log { level, text: self.clean(text) }));
        }
    }
}

/// The channel from one call to its client.
#[derive(Default)]
pub struct BackChannel {
    pub progress: Option<Arc<dyn Progress>>,
    /// Absent when the call can neither report nor ask, as with most calls.
    pub open: Option<Open>,
}

pub struct Open {
    pub queue: mpsc::Sender<Box<Report>>,
    pub reports: Reports,
}

impl BackChannel {
    /// A sender that does not keep the channel open.
    #[cfg(feature = "conformance")]
    pub fn keep(&self) -> mpsc::WeakSender<Box<Report>> {
        self.open.as_ref().map(|open| open.queue.downgrade()).unwrap_or_else(|| mpsc::channel(1).0.downgrade())
    }
}

/// `asks`: the client may be asked something while the call is held.
pub fn back_channel(door: &McpDoor, context: &RequestContext<RoleServer>, era: Era, asks: bool) -> BackChannel {
    let token = context.meta.get_progress_token();
    let level = match era {
        Era::Legacy => door.session.log_level(),
        Era::Modern => context.meta.log_level().map(level_in),
    };
    // A conformance fixture may always ask.
    if token.is_none() && level.is_none() && !asks && cfg!(not(feature = "conformance")) {
        return BackChannel::default();
    }
    let (queue, waiting) = mpsc::channel(WAITING);
    let progress = (token.is_some() || level.is_some()).then(|| {
        let studio = Arc::clone(&door.session.studio);
        Arc::new(Back { token, level, queue: queue.clone(), sent: Mutex::default(), studio }) as Arc<dyn Progress>
    });
    BackChannel { progress, open: Some(Open { queue, reports: Reports(waiting) }) }
}

/// Asks the client and waits, concurrently with the reports of the same call.
pub async fn ask(
    context: &RequestContext<RoleServer>,
    method: String,
    params: Value,
    wait: Duration,
) -> Result<Value, String> {
    let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
    match tokio::time::timeout(wait, context.peer.send_request(request)).await {
        Ok(Ok(result)) => serde_json::to_value(result).map_err(|fault| fault.to_string()),
        Ok(Err(fault)) => Err(fault.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

pub async fn send(context: &RequestContext<RoleServer>, report: Report) {
    // The transport notices a peer that is gone.
    let _ = match report {
        Report::Progress { token, done, total, text } => {
            let mut progress = ProgressNotificationParam::new(token, done).with_message(text);
            progress.total = total;
            context.peer.notify_progress(progress).await
        }
        Report::Log { level, text } => {
            let message = LoggingMessageNotificationParam::new(level_out(level), text.into()).with_logger("conductor");
            context.peer.notify_logging_message(message).await
        }
        Report::Ask { .. } => Ok(()),
    };
}

/// Maps the eight levels of the protocol to our four.
pub fn level_in(level: LoggingLevel) -> LogLevel {
    match level {
        LoggingLevel::Debug => LogLevel::Debug,
        LoggingLevel::Info | LoggingLevel::Notice => LogLevel::Info,
        LoggingLevel::Warning => LogLevel::Warning,
        LoggingLevel::Error | LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => LogLevel::Error,
    }
}

fn level_out(level: LogLevel) -> LoggingLevel {
    match level {
        LogLevel::Debug => LoggingLevel::Debug,
        LogLevel::Info => LoggingLevel::Info,
        LogLevel::Warning => LoggingLevel::Warning,
        LogLevel::Error => LoggingLevel::Error,
    }
}
