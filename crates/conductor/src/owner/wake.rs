//! What wakes the owner, and how everything else in the daemon wakes it.

use super::ports;
use crate::config_file;
use conductor_core::engine::{CallTicket, Reading};
use conductor_core::focus::Window;
use conductor_gateway::owner_handle::{ConfigRequest, Inbox, Request};
use conductor_gateway::pending_store::Waiting;
use conductor_hosts::midi::ring::Bell;
use std::collections::BTreeSet;
use std::sync::mpsc;

/// Everything that ends the owner's waiting, apart from a full ring and its own deadlines. Closed:
/// the owner's loop matches every one.
#[cfg_attr(not(feature = "desktop"), allow(dead_code, reason = "nothing reports displays and windows"))]
pub enum Wake {
    Request(Request),
    /// The file changed; its content follows as `Config`.
    ConfigSeen,
    Config(config_file::Arrival),
    Ports(ports::News),
    CallDone {
        ticket: CallTicket,
        ok: bool,
    },
    /// A worker could not do what it was given.
    WorkerFailed,
    /// Approvals and plans that wait for a person.
    Waiting(Waiting),
    /// A display came, or why there is none.
    Display(Result<(), String>),
    /// Another window is in front; nothing when that is unknown.
    Front(Option<Window>),
    /// The programs that run.
    Programs(BTreeSet<String>),
    /// New values of parameters of the Set, by path.
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
        // An owner that has ended needs no waking.
        if self.wakes.send(wake).is_ok() {
            self.bell.ring();
        }
    }

    /// Reports how a call under a pad ended.
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
        // A thread that has ended drops the request, and the caller sees its reply closed.
        let _ = self.config.send(config_file::Order::Asked(request));
    }
}
