//! What the SDK calls deprecated and the older era still scores: log messages to the client. The
//! only place that may use it.

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

/// Reports that wait while the peer is slow; further ones are dropped, the next one says as much.
const WAITING: usize = 32;
/// At most this many progress messages in any second.
const PROGRESS_PER_SECOND: usize = 10;

pub fn with_logging(mut capabilities: ServerCapabilities) -> ServerCapabilities {
    capabilities.logging = Some(Default::default());
    capabilities
}

/// The request that sets the level of a whole session.
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
    /// A request to the client, answered through `reply`. It goes out from the call's own task: the
    /// SDK finds the right stream by that.
    Ask {
        method: String,
        params: Value,
        wait: Duration,
        reply: oneshot::Sender<Result<Value, String>>,
    },
}

/// Boxed: the channel has room for all that may wait, and hardly a call has anything to report.
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

/// What went out last: progress strictly increases, and the times of the last ones bound its rate.
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

/// The way back to the client for one call.
#[derive(Default)]
pub struct BackChannel {
    pub progress: Option<Arc<dyn Progress>>,
    /// Absent when the call can neither report nor ask: most calls.
    pub open: Option<Open>,
}

pub struct Open {
    pub queue: mpsc::Sender<Box<Report>>,
    pub reports: Reports,
}

impl BackChannel {
    /// A sender that does not keep the channel open by itself.
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
    // A fixture may ask whatever its client said.
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

/// Asks the client and waits; runs beside the reports of the same call.
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
    // A peer that is gone is noticed by its transport.
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

/// Eight words on the wire, four in the studio.
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
