//! Sends progress and log messages of a running call to a client that requested them.
//!
//! The types for log messages are deprecated in the SDK, but the legacy era needs them. Only this
//! module uses them.

#![allow(deprecated)]

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

use rmcp::model::{
    LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam, ProgressNotification,
    ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerNotification, SetLevelRequestParams,
};

use tokio::sync::mpsc;

use super::McpDoor;
use super::era::Era;
use super::methods::{Cx, Outgoing};
use conductor_gateway::pipeline::call::{LogLevel, Progress};
use conductor_gateway::studio::Studio;

/// Maximum number of progress messages per second.
const PROGRESS_PER_SECOND: usize = 10;

pub fn with_logging(mut capabilities: ServerCapabilities) -> ServerCapabilities {
    capabilities.logging = Some(Default::default());
    capabilities
}

/// Converts the log level that a legacy client sets for its session.
pub fn level_asked(request: &SetLevelRequestParams) -> LogLevel {
    level_in(request.level)
}

/// The receiver of a call's reports. `None` if the client requested no reports.
pub fn channel(door: &McpDoor, cx: &Cx, era: Era) -> Option<Arc<dyn Progress>> {
    let token = cx.meta.get_progress_token();
    let level = match era {
        Era::Legacy => door.session.log_level(),
        Era::Modern => cx.meta.log_level().map(level_in),
    };
    if token.is_none() && level.is_none() {
        return None;
    }
    let studio = Arc::clone(door.studio());
    Some(Arc::new(Reports { token, level, out: cx.out.clone(), sent: Mutex::default(), studio }))
}

struct Reports {
    token: Option<ProgressToken>,
    level: Option<LogLevel>,
    out: mpsc::Sender<Outgoing>,
    sent: Mutex<Sent>,
    studio: Arc<Studio>,
}

/// The progress messages sent so far. Progress must increase, and the times limit the rate.
#[derive(Default)]
struct Sent {
    done: Option<f64>,
    times: VecDeque<u64>,
}

impl Reports {
    /// Sends a report. Drops it if the queue is full; a later report replaces it.
    fn send(&self, notification: ServerNotification) {
        let _ = self.out.try_send(Outgoing::Notification(Box::new(notification)));
    }

    fn clean(&self, text: &str) -> String {
        self.studio.scrubber.text(text).into_owned()
    }
}

impl Progress for Reports {
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
        let mut progress = ProgressNotificationParam::new(token.clone(), done).with_message(self.clean(text));
        progress.total = total;
        self.send(ServerNotification::ProgressNotification(ProgressNotification::new(progress)));
    }

    fn log(&self, level: LogLevel, text: &str) {
        if self.level.is_some_and(|wanted| level >= wanted) {
            let message = LoggingMessageNotificationParam::new(level_out(level), self.clean(text).into());
            let message = LoggingMessageNotification::new(message.with_logger("conductor"));
            self.send(ServerNotification::LoggingMessageNotification(message));
        }
    }
}

/// Maps the eight levels of the protocol to the four of Conductor.
fn level_in(level: LoggingLevel) -> LogLevel {
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
