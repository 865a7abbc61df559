//! How everyone else speaks to the owner: one message, one answer. Cheap to clone, safe from any
//! thread or task.
//!
//! Not here: what the owner does with a message (`run`). Reading the configuration in force and the
//! mode needs no message; see [`Handle::serving`] and [`Handle::modes`].

use crate::config_in_force::ConfigInForce;
use crate::report::{
    Bindings, DeviceSwitched, Devices, Mappings, Modes, Panicked, Reloaded, Scanned, Status, Switched,
};
use arc_swap::ArcSwap;
use conductor_core::digest::Digest;
use conductor_core::engine::explain::Asked;
use conductor_core::engine::{Explanation, TraceRecord, explain};
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::script::{self, Step};
use conductor_core::event::{Body, Micros, Taint};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::{mpsc as async_mpsc, oneshot};

pub type Reply<T> = oneshot::Sender<T>;

/// A question or an order. Each carries where its answer goes.
pub enum Request {
    /// Answered once the devices have been looked at.
    Ready(Reply<()>),
    Status(Reply<Status>),
    /// Answered once what was posted before it has been taken.
    Settled(Reply<()>),
    SwitchMode {
        mode: String,
        /// Of whoever asks.
        by: Taint,
        reply: Reply<Result<Switched, ToolError>>,
    },
    /// Let the rules for windows choose the mode again.
    AutoMode(Reply<Result<Switched, ToolError>>),
    Devices(Reply<Devices>),
    Bindings(Reply<Bindings>),
    SetDeviceEnabled {
        device_id: String,
        enabled: bool,
        reply: Reply<Result<DeviceSwitched, ToolError>>,
    },
    ScanPorts(Reply<Scanned>),
    Send(Outgoing),
    /// The connection is gone; the notes it left on are released and what it learns ends.
    ToolGone {
        connection: u64,
    },
    Listen {
        port: String,
        heard: async_mpsc::Sender<Vec<u8>>,
        reply: Reply<Result<(), ToolError>>,
    },
    Trace {
        wanted: Wanted,
        reply: Reply<Traced>,
    },
    Monitor {
        records: async_mpsc::Sender<TraceRecord>,
        reply: Reply<()>,
    },
    /// How a device stands now, for `explain`.
    Standing {
        device: Option<String>,
        reply: Reply<Result<Standing, ToolError>>,
    },
    LearnStart {
        timeout_ms: u32,
        let_through: bool,
        /// The connection with which it ends.
        client: Option<u64>,
        reply: Reply<Result<Value, ToolError>>,
    },
    LearnStop(Reply<Value>),
    /// Answered at that time.
    At(Micros, Reply<()>),
    Panic(Reply<Panicked>),
    SetPerformanceLock {
        on: bool,
        reply: Reply<()>,
    },
}

/// Who sends bytes to a port: what a tool sent never counts as a hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentBy {
    Person,
    /// A person's own call: it counts as played, and its notes are released like a tool's.
    Hand {
        connection: u64,
    },
    /// Notes it leaves on are released when its connection ends; see [`Handle::tool_gone`].
    Tool {
        connection: u64,
    },
}

pub struct Outgoing {
    pub port: String,
    pub messages: Vec<Vec<u8>>,
    pub by: SentBy,
    pub reply: Reply<Result<usize, ToolError>>,
}

/// Which trace records are wanted; absent fields let everything pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub limit: Option<usize>,
    pub since_seq: Option<u64>,
    pub device: Option<String>,
    pub mapping_id: Option<String>,
    pub outcome: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    pub records: Vec<TraceRecord>,
    pub next_seq: u64,
    /// Records between `since_seq` and the first given one that the ring had to forget.
    pub lost: u64,
}

/// What an explanation must know besides the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub mode: String,
    pub muted: bool,
    pub absent: bool,
    /// Of everything the device says.
    pub taint: Taint,
}

/// A request about the configuration file, for the thread that reads it.
pub enum ConfigRequest {
    Reload(ConfigReply),
    /// A person accepts the file as it is, if it still has this hash.
    Accept {
        hash: Option<Digest>,
        reply: ConfigReply,
    },
    /// A plan was written.
    Applied {
        before: String,
        after: String,
        reply: ConfigReply,
    },
    /// The key of the secrets came, changed or went.
    KeyChanged,
}

pub type ConfigReply = Reply<Result<Reloaded, ToolError>>;

/// Where requests go. A thread that has ended drops them, and with them their replies.
pub trait Inbox: Send + Sync {
    fn request(&self, request: Request);
    fn config_request(&self, request: ConfigRequest);
}

#[derive(Clone)]
pub struct OwnerHandle {
    inbox: Arc<dyn Inbox>,
    in_force: Arc<ArcSwap<ConfigInForce>>,
    modes: Arc<ArcSwap<Modes>>,
}

impl OwnerHandle {
    pub fn new(inbox: Arc<dyn Inbox>, in_force: Arc<ArcSwap<ConfigInForce>>, modes: Arc<ArcSwap<Modes>>) -> Self {
        OwnerHandle { inbox, in_force, modes }
    }

    /// The configuration in force, without asking anyone.
    pub fn serving(&self) -> Arc<ConfigInForce> {
        self.in_force.load_full()
    }

    pub fn mappings(&self, mode: &str) -> Result<Mappings, ToolError> {
        let serving = self.serving();
        Mappings::of(&serving.config, mode).ok_or_else(|| unknown_mode(mode, &serving))
    }

    /// Returns when the first scan of devices is done.
    pub async fn ready(&self) -> Result<(), ToolError> {
        self.ask(Request::Ready).await
    }

    pub async fn status(&self) -> Result<Status, ToolError> {
        self.ask(Request::Status).await
    }

    /// The modes and which one is active, without asking anyone. Whoever switched or reloaded
    /// through this handle finds it done here.
    pub fn modes(&self) -> Arc<Modes> {
        self.modes.load_full()
    }

    pub async fn switch_mode(&self, mode: String) -> Result<Switched, ToolError> {
        self.switch_mode_by(mode, Taint::Clean).await
    }

    /// `by` is the taint of whoever asks: lights that change with the mode have it too.
    pub async fn switch_mode_by(&self, mode: String, by: Taint) -> Result<Switched, ToolError> {
        self.ask(|reply| Request::SwitchMode { mode, by, reply }).await?
    }

    /// Ends the hold of a mode that was chosen by hand.
    pub async fn auto_mode(&self) -> Result<Switched, ToolError> {
        self.ask(Request::AutoMode).await?
    }

    pub async fn devices(&self) -> Result<Devices, ToolError> {
        self.ask(Request::Devices).await
    }

    pub async fn bindings(&self) -> Result<Bindings, ToolError> {
        self.ask(Request::Bindings).await
    }

    pub async fn set_device_enabled(&self, device_id: String, enabled: bool) -> Result<DeviceSwitched, ToolError> {
        self.ask(|reply| Request::SetDeviceEnabled { device_id, enabled, reply }).await?
    }

    pub async fn scan_ports(&self) -> Result<Scanned, ToolError> {
        self.ask(Request::ScanPorts).await
    }

    /// Sends whole MIDI messages to a device alias or an exact port name, all or none. Gives how
    /// many were sent.
    pub async fn send(&self, port: String, messages: Vec<Vec<u8>>, by: SentBy) -> Result<usize, ToolError> {
        self.ask(|reply| Request::Send(Outgoing { port, messages, by, reply })).await?
    }

    pub fn tool_gone(&self, connection: u64) {
        self.inbox.request(Request::ToolGone { connection });
    }

    /// Every message that leaves at `port` from now on, until the receiver is dropped. A listener
    /// that falls behind loses messages; the studio does not wait for it.
    pub async fn listen(&self, port: String) -> Result<async_mpsc::Receiver<Vec<u8>>, ToolError> {
        let (heard, receiver) = async_mpsc::channel(LISTENER_BACKLOG);
        self.ask(|reply| Request::Listen { port, heard, reply }).await??;
        Ok(receiver)
    }

    pub async fn trace(&self, wanted: Wanted) -> Result<Traced, ToolError> {
        self.ask(|reply| Request::Trace { wanted, reply }).await
    }

    /// Trace records as they are made, with the same rule for slow receivers as [`Handle::listen`].
    pub async fn monitor(&self) -> Result<async_mpsc::Receiver<TraceRecord>, ToolError> {
        let (records, receiver) = async_mpsc::channel(LISTENER_BACKLOG);
        self.ask(|reply| Request::Monitor { records, reply }).await?;
        Ok(receiver)
    }

    /// Which mapping an event (one script token) would fire now, and why not another. `mode` and
    /// `device` are the current mode and any device when absent.
    pub async fn explain(
        &self,
        event: &str,
        mode: Option<&str>,
        device: Option<&str>,
    ) -> Result<Explanation, ToolError> {
        let body = one_event(event)?;
        let asked_device = device.map(str::to_owned);
        let standing = self.ask(|reply| Request::Standing { device: asked_device, reply }).await??;
        let serving = self.serving();
        if let Some(mode) = mode {
            Mappings::of(&serving.config, mode).ok_or_else(|| unknown_mode(mode, &serving))?;
        }
        let Standing { mode: current, muted, absent, taint } = standing;
        let mode = mode.unwrap_or(&current);
        Ok(explain(&serving.config, &body, &Asked { mode, device, muted, absent, taint }))
    }

    /// Returns at a time of the daemon's clock.
    pub async fn at(&self, time: Micros) -> Result<(), ToolError> {
        self.ask(|reply| Request::At(time, reply)).await
    }

    /// Listens to the hands instead of acting on them, for a time. It ends with the connection of
    /// `client`, if it has one.
    pub async fn learn_start(
        &self,
        timeout_ms: u32,
        let_through: bool,
        client: Option<u64>,
    ) -> Result<Value, ToolError> {
        self.ask(|reply| Request::LearnStart { timeout_ms, let_through, client, reply }).await?
    }

    /// What was played since, and which triggers would fire on it.
    pub async fn learn_stop(&self) -> Result<Value, ToolError> {
        self.ask(Request::LearnStop).await
    }

    pub async fn panic(&self) -> Result<Panicked, ToolError> {
        self.ask(Request::Panic).await
    }

    pub async fn set_performance_lock(&self, on: bool) -> Result<(), ToolError> {
        self.ask(|reply| Request::SetPerformanceLock { on, reply }).await
    }

    /// Reads the file now, whether or not a change was seen. What it brought is in force when this
    /// returns.
    pub async fn reload(&self) -> Result<Reloaded, ToolError> {
        self.order_file(ConfigRequest::Reload).await
    }

    /// A person's word: the whole file comes into force, if its hash still is `hash`. Callers have
    /// recognised the person.
    pub async fn accept_config(&self, hash: Option<Digest>) -> Result<Reloaded, ToolError> {
        self.order_file(|reply| ConfigRequest::Accept { hash, reply }).await
    }

    /// A person applied a plan that turned the file from the first text into the second: that
    /// change comes into force.
    pub async fn plan_applied(&self, before: String, after: String) -> Result<Reloaded, ToolError> {
        self.order_file(|reply| ConfigRequest::Applied { before, after, reply }).await
    }

    /// The key of the secrets came, changed or went: what is accepted is signed again.
    pub fn key_changed(&self) {
        self.inbox.config_request(ConfigRequest::KeyChanged);
    }

    async fn order_file(&self, order: impl FnOnce(ConfigReply) -> ConfigRequest) -> Result<Reloaded, ToolError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.config_request(order(reply));
        let reloaded = answer.await.map_err(|_| stopping())??;
        self.ask(Request::Settled).await?;
        Ok(reloaded)
    }

    async fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Request) -> Result<T, ToolError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.request(question(reply));
        answer.await.map_err(|_| stopping())
    }
}

/// The event of one script token such as `on:36@100`.
pub fn one_event(token: &str) -> Result<Body, ToolError> {
    let bad = |why: String| ToolError::new(Code::BadInput, why).subject(Subject::Argument("event".into()));
    match script::parse_token(token).map_err(|fault| bad(fault.to_string()))? {
        Step::Event(body) => Ok(body),
        Step::Device(_) | Step::Mode(_) | Step::Advance(_) => {
            Err(bad(format!("'{token}' is no event; give one such as on:36@100, and the device and mode beside it")))
        }
    }
}

/// Messages a listener may be behind before it loses some.
const LISTENER_BACKLOG: usize = 1024;

fn stopping() -> ToolError {
    ToolError::new(Code::HostOffline, "the daemon is stopping")
        .subject(Subject::Host("conductor".into()))
        .hint("Start it again with `conductor up`, then repeat the call.")
}

pub fn unknown_mode(asked: &str, serving: &ConfigInForce) -> ToolError {
    no_mode(asked, serving.config.modes.iter().map(|it| it.name.as_str()))
}

pub fn no_mode<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> ToolError {
    let known: Vec<&str> = known.collect();
    ToolError::new(Code::NotFound, format!("no mode '{asked}'; there are: {}", known.join(", ")))
        .subject(Subject::Mode(asked.to_owned()))
        .hint("Use one of the names in the message; modes are case-sensitive.")
}
