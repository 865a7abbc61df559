//! The handle to the owner of the studio. Each request gets one reply. The handle is cheap to clone
//! and can be used from any thread or task.
//!
//! Reading the configuration in force and the mode needs no request; see [`OwnerHandle::serving`]
//! and [`OwnerHandle::modes`]. Not here: how the owner handles a request (`owner` in the daemon).

use crate::config_in_force::ConfigInForce;
use crate::report::{
    Bindings, DeviceSwitched, Devices, Injected, Mappings, MetersNow, Modes, Panicked, Reloaded, Scanned, Status,
    Switched,
};
use arc_swap::ArcSwap;
use conductor_core::digest::Digest;
use conductor_core::engine::explain::Asked;
use conductor_core::engine::{Explanation, TraceRecord, explain};
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::script::{self, Step};
use conductor_core::event::{Body, Micros, Taint};
use conductor_core::learn;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::{mpsc as async_mpsc, oneshot};

pub type Reply<T> = oneshot::Sender<T>;

/// A request to the owner, with the channel for its reply.
pub enum Request {
    /// Answered after the first scan of devices.
    Ready(Reply<()>),
    Status(Reply<Status>),
    /// Answered when all earlier requests have been handled.
    Settled(Reply<()>),
    SwitchMode {
        /// If absent, the window rules select the mode again.
        mode: Option<String>,
        /// The taint of the caller: whether a person caused the request.
        by: Taint,
        reply: Reply<Result<Switched, ToolError>>,
    },
    Devices(Reply<Devices>),
    Bindings(Reply<Bindings>),
    SetDeviceEnabled {
        device_id: String,
        enabled: bool,
        reply: Reply<Result<DeviceSwitched, ToolError>>,
    },
    ScanPorts(Reply<Scanned>),
    Send(Outgoing),
    /// A connection has ended: its notes are released and its MIDI learn ends.
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
    /// The current state of a device, for `explain`.
    Standing {
        device: Option<String>,
        reply: Reply<Result<Standing, ToolError>>,
    },
    LearnStart {
        timeout_ms: u32,
        let_through: bool,
        /// MIDI learn stops when this connection ends.
        client: Option<u64>,
        reply: Reply<Result<learn::Started, ToolError>>,
    },
    LearnStop(Reply<learn::Report>),
    /// Answered at this time, on the daemon's clock.
    At(Micros, Reply<()>),
    Panic(Reply<Panicked>),
    SetPerformanceLock {
        on: bool,
        reply: Reply<()>,
    },
    /// Feeds events to the engine as if the device had sent them over the network.
    Inject {
        /// If absent, the first connected device is used.
        device: Option<String>,
        events: Vec<Body>,
        reply: Reply<Result<Injected, ToolError>>,
    },
    /// Counters, held controls, and the mappings that have fired at or after `since`.
    Meters {
        since: Micros,
        reply: Reply<MetersNow>,
    },
}

/// Who sends bytes to a port. Bytes from a tool never count as played by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentBy {
    Person,
    /// A call made by a person. It counts as played by hand. Its notes are released when its
    /// connection ends.
    Hand {
        connection: u64,
    },
    /// A tool call. Notes that are still on are released when its connection ends; see
    /// [`OwnerHandle::tool_gone`].
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

/// Filter for trace records. A field that is `None` matches all records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub limit: Option<usize>,
    pub since_seq: Option<u64>,
    pub device: Option<String>,
    pub mapping_id: Option<String>,
    pub outcome: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Traced {
    /// The records, oldest first.
    pub records: Vec<TraceRecord>,
    /// Value for `since_seq` of the next call.
    pub next_seq: u64,
    /// Number of records after `since_seq` that were overwritten before this read.
    pub lost: u64,
}

/// The state that an explanation needs in addition to the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub mode: String,
    pub muted: bool,
    pub absent: bool,
    /// The taint of all events of the device: whether a person causes them.
    pub taint: Taint,
}

/// A request about the configuration file, for the thread that reads it.
pub enum ConfigRequest {
    Reload(ConfigReply),
    /// A person accepts the whole file, if the file still has this hash.
    Accept {
        hash: Option<Digest>,
        reply: ConfigReply,
    },
    /// A plan was written to the file.
    Applied {
        before: String,
        after: String,
        reply: ConfigReply,
    },
    /// The encryption key of the secrets was added, changed or removed.
    KeyChanged,
}

pub type ConfigReply = Reply<Result<Reloaded, ToolError>>;

/// Receives requests. When the receiving thread has ended, each request is dropped with its reply
/// channel.
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

    /// The configuration in force, without a request.
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

    /// All modes and the active one, without a request. A switch or reload through this handle is
    /// visible here when it has returned.
    pub fn modes(&self) -> Arc<Modes> {
        self.modes.load_full()
    }

    /// Without a mode, the window rules select the mode again. `by` is the taint of the caller:
    /// whether a person caused the request. Lights that change with the mode get the same taint.
    pub async fn switch_mode(&self, mode: Option<String>, by: Taint) -> Result<Switched, ToolError> {
        self.ask(|reply| Request::SwitchMode { mode, by, reply }).await?
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

    /// Sends whole MIDI messages to a device alias or an exact port name, all or none. Returns how
    /// many were sent.
    pub async fn send(&self, port: String, messages: Vec<Vec<u8>>, by: SentBy) -> Result<usize, ToolError> {
        self.ask(|reply| Request::Send(Outgoing { port, messages, by, reply })).await?
    }

    pub fn tool_gone(&self, connection: u64) {
        self.inbox.request(Request::ToolGone { connection });
    }

    /// Receives every message that is sent to `port` from now on. A receiver that falls behind
    /// loses messages; the studio does not wait for it.
    pub async fn listen(&self, port: String) -> Result<async_mpsc::Receiver<Vec<u8>>, ToolError> {
        let (heard, receiver) = async_mpsc::channel(LISTENER_BACKLOG);
        self.ask(|reply| Request::Listen { port, heard, reply }).await??;
        Ok(receiver)
    }

    pub async fn trace(&self, wanted: Wanted) -> Result<Traced, ToolError> {
        self.ask(|reply| Request::Trace { wanted, reply }).await
    }

    /// Receives new trace records. A slow receiver loses some records, as in
    /// [`OwnerHandle::listen`].
    pub async fn monitor(&self) -> Result<async_mpsc::Receiver<TraceRecord>, ToolError> {
        let (records, receiver) = async_mpsc::channel(LISTENER_BACKLOG);
        self.ask(|reply| Request::Monitor { records, reply }).await?;
        Ok(receiver)
    }

    /// Explains which mapping an event (one script token) would fire now, and why not another. The
    /// default mode is the current mode. Without a device, the event is explained as coming from a
    /// device that no rule names.
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

    /// Returns at the given time of the daemon's clock.
    pub async fn at(&self, time: Micros) -> Result<(), ToolError> {
        self.ask(|reply| Request::At(time, reply)).await
    }

    /// Starts MIDI learn for a limited time: played events are collected instead of mapped. The
    /// session also ends with the connection of `client`, if there is one.
    pub async fn learn_start(
        &self,
        timeout_ms: u32,
        let_through: bool,
        client: Option<u64>,
    ) -> Result<learn::Started, ToolError> {
        self.ask(|reply| Request::LearnStart { timeout_ms, let_through, client, reply }).await?
    }

    /// Stops MIDI learn. Returns the events that were played, and triggers that these events would
    /// fire.
    pub async fn learn_stop(&self) -> Result<learn::Report, ToolError> {
        self.ask(Request::LearnStop).await
    }

    pub async fn panic(&self) -> Result<Panicked, ToolError> {
        self.ask(Request::Panic).await
    }

    pub async fn set_performance_lock(&self, on: bool) -> Result<(), ToolError> {
        self.ask(|reply| Request::SetPerformanceLock { on, reply }).await
    }

    /// Feeds events to the engine as if the device had sent them over the network.
    pub async fn inject(&self, device: Option<String>, events: Vec<Body>) -> Result<Injected, ToolError> {
        self.ask(|reply| Request::Inject { device, events, reply }).await?
    }

    pub async fn meters(&self, since: Micros) -> Result<MetersNow, ToolError> {
        self.ask(|reply| Request::Meters { since, reply }).await
    }

    /// Reads the file now, even if no change was detected. The new configuration is in force when
    /// this returns.
    pub async fn reload(&self) -> Result<Reloaded, ToolError> {
        self.request_file(ConfigRequest::Reload).await
    }

    /// Puts the whole file into force, if its hash is still `hash`. The caller has checked that the
    /// request is from a person.
    pub async fn accept_config(&self, hash: Option<Digest>) -> Result<Reloaded, ToolError> {
        self.request_file(|reply| ConfigRequest::Accept { hash, reply }).await
    }

    /// Puts an applied plan into force. The plan changed the file from `before` to `after`.
    pub async fn plan_applied(&self, before: String, after: String) -> Result<Reloaded, ToolError> {
        self.request_file(|reply| ConfigRequest::Applied { before, after, reply }).await
    }

    /// Signs the accepted configuration again, because the encryption key of the secrets was added,
    /// changed or removed.
    pub fn key_changed(&self) {
        self.inbox.config_request(ConfigRequest::KeyChanged);
    }

    async fn request_file(&self, order: impl FnOnce(ConfigReply) -> ConfigRequest) -> Result<Reloaded, ToolError> {
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
        Step::Device(_) | Step::Mode(_) | Step::Advance(_) => Err(bad(format!(
            "'{token}' is not an event; pass one event such as on:36@100, and pass device and mode as separate arguments"
        ))),
    }
}

/// Maximum number of messages queued for a slow listener.
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
