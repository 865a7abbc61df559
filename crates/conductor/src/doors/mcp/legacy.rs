//! What the SDK calls deprecated and the older era still scores: log messages to the client. The only place that may use it.

#![allow(deprecated)]

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ServerCapabilities,
    SetLevelRequestParams,
};
use rmcp::service::RequestContext;
use tokio::sync::mpsc;

use super::McpDoor;
use super::era::Era;
use crate::outside::Clock;
use crate::pipeline::call::{LogLevel, Progress};

/// Reports that wait while the peer is slow; further ones are dropped, the next one says as much.
const WAITING: usize = 32;
/// At most ten a second.
const PROGRESS_GAP_US: u64 = 100_000;

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
    Progress { token: ProgressToken, done: f64, total: Option<f64>, text: String },
    Log { level: LogLevel, text: String },
}

pub struct Reports(mpsc::Receiver<Report>);

impl Reports {
    pub async fn next(&mut self) -> Option<Report> {
        self.0.recv().await
    }

    pub fn left(&mut self) -> Option<Report> {
        self.0.try_recv().ok()
    }
}

struct Back {
    token: Option<ProgressToken>,
    level: Option<LogLevel>,
    queue: mpsc::Sender<Report>,
    last: Mutex<Option<(f64, u64)>>,
    clock: Arc<dyn Clock>,
}

impl Progress for Back {
    fn report(&self, done: f64, total: Option<f64>, text: &str) {
        let Some(token) = &self.token else { return };
        let now = self.clock.now().0;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, at)) = *last {
            let finished = total.is_some_and(|total| done >= total);
            let soon = now.saturating_sub(at) < PROGRESS_GAP_US && !finished;
            if done <= before || soon {
                return;
            }
        }
        *last = Some((done, now));
        let _ = self.queue.try_send(Report::Progress { token: token.clone(), done, total, text: text.to_owned() });
    }

    fn log(&self, level: LogLevel, text: &str) {
        if self.level.is_some_and(|wanted| level >= wanted) {
            let _ = self.queue.try_send(Report::Log { level, text: text.to_owned() });
        }
    }
}

/// The way back to the client for one call: absent when it asked for neither progress nor log messages.
pub fn back_channel(
    door: &McpDoor,
    context: &RequestContext<RoleServer>,
    era: Era,
) -> (Option<Arc<dyn Progress>>, Option<Reports>) {
    let token = context.meta.get_progress_token();
    let level = match era {
        Era::Legacy => door.session.log_level(),
        Era::Modern => context.meta.log_level().map(level_in),
    };
    if token.is_none() && level.is_none() {
        return (None, None);
    }
    let (queue, waiting) = mpsc::channel(WAITING);
    let back = Back { token, level, queue, last: Mutex::default(), clock: Arc::clone(&door.session.studio.clock) };
    (Some(Arc::new(back)), Some(Reports(waiting)))
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
