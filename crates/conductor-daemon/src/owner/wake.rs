//! The messages that wake the owner, and the handle that sends them.

use super::ports;
use crate::config_file;
use conductor_core::engine::{CallTicket, Reading};
use conductor_core::focus::Window;
use conductor_gateway::owner_handle::{ConfigRequest, Inbox, Request};
use conductor_gateway::pending_store::Waiting;
use conductor_hosts::midi::ring::Bell;
use std::collections::BTreeSet;
use std::sync::mpsc;

/// A message to the owner. Events of devices and the owner's deadlines wake it without a message.
#[cfg_attr(not(feature = "desktop"), allow(dead_code, reason = "this build does not report displays and windows"))]
pub enum Wake {
    Request(Request),
    /// The file has changed. Its content follows in a `Config` message.
    ConfigSeen,
    Config(config_file::Arrival),
    Ports(ports::News),
    CallDone {
        ticket: CallTicket,
        ok: bool,
    },
    /// A worker failed to carry out an effect.
    WorkerFailed,
    /// The pending approvals and plans have changed.
    Waiting(Waiting),
    /// Whether a display is available. If not, the reason.
    Display(Result<(), String>),
    /// Another window is now frontmost. `None` if the frontmost window is unknown.
    Front(Option<Window>),
    /// The names of the running programs.
    Programs(BTreeSet<String>),
    /// New values of parameters in the Live Set, with their paths.
    LiveParameters(Vec<(String, Reading)>),
    Stop,
}

/// Wakes the owner from any thread or task. Cheap to clone.
#[derive(Clone)]
pub struct Waker {
    pub wakes: mpsc::Sender<Wake>,
    pub bell: Bell,
    pub config: mpsc::Sender<config_file::Order>,
}

impl Waker {
    pub fn post(&self, wake: Wake) {
        // If the owner has ended, the message is dropped.
        if self.wakes.send(wake).is_ok() {
            self.bell.ring();
        }
    }

    /// Reports whether a call that a mapping fired has succeeded.
    pub fn call_done(&self, ticket: CallTicket, ok: bool) {
        self.post(Wake::CallDone { ticket, ok });
    }

    pub fn worker_failed(&self) {
        self.post(Wake::WorkerFailed);
    }
}

impl Inbox for Waker {
    fn request(&self, request: Request) {
        self.post(Wake::Request(request));
    }

    fn config_request(&self, request: ConfigRequest) {
        // If the thread has ended, the request is dropped, which closes the caller's reply channel.
        let _ = self.config.send(config_file::Order::Asked(request));
    }
}
