//! Carries out effects. MIDI messages, and OSC messages to an address, are sent at once. OSC
//! messages to a host name, keys, text, clicks and volume are passed to worker threads, and calls
//! to the gateway. Nothing here blocks.
//!
//! Not here: deciding which effects to carry out (`conductor_core::engine`).

use super::wake::Waker;
use crate::log::Log;
use crate::owner::events::OwnerEvents;
use conductor_core::action::Volume;
use conductor_core::engine::Effect;
use conductor_core::event::{Body, DeviceSlot, OscMessage, Trail, midi};
use conductor_hosts::desktop::{Desktop, Job, Mixer};
use conductor_hosts::midi::{Output, SendError};
use conductor_hosts::osc;
use conductor_hosts::worker::{Fifo, NotTaken, Worker};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The reason why an effect was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DispatchError {
    /// The port is not open. The engine's ledger stores the note-offs for this port until it is
    /// open.
    NoOutput(DeviceSlot),
    /// The port was open but has been lost; the owner closes it.
    Died(DeviceSlot),
    Refused(String),
}

/// The desktop backends that the workers use.
pub(crate) struct Hosts {
    pub desktop: Box<dyn Desktop>,
    pub mixer: Box<dyn Mixer>,
    pub events: Arc<dyn OwnerEvents>,
}

/// An OSC message for a host whose name must be resolved.
type NamedOsc = (Arc<str>, u16, Arc<OscMessage>);

pub(crate) struct Dispatch {
    outputs: BTreeMap<DeviceSlot, Box<dyn Output>>,
    listeners: Vec<(DeviceSlot, mpsc::Sender<Vec<u8>>)>,
    osc: osc::Sender,
    named_osc: Worker<Fifo<NamedOsc>>,
    desktop: Worker<Fifo<Job>>,
    mixer: Worker<Fifo<Volume>>,
    events: Arc<dyn OwnerEvents>,
    /// A buffer that is reused for every message.
    bytes: Vec<u8>,
}

impl Dispatch {
    pub fn start(hosts: Hosts, owner: Waker, log: &Log) -> std::io::Result<Self> {
        let Hosts { mut desktop, mut mixer, events } = hosts;
        let (keys_log, volume_log, osc_log) = (log.clone(), log.clone(), log.clone());
        let (keys_owner, volume_owner, osc_owner) = (owner.clone(), owner.clone(), owner.clone());
        let mut resolved = osc::Sender::new();
        Ok(Dispatch {
            outputs: BTreeMap::new(),
            listeners: Vec::new(),
            osc: osc::Sender::new(),
            named_osc: Worker::start("osc names", move |(host, port, message): NamedOsc| {
                if let Err(error) = send_to_name(&mut resolved, &host, port, &message) {
                    osc_log.debug(format_args!("osc: {host}:{port}: {error}"));
                    osc_owner.worker_failed();
                }
            })?,
            desktop: Worker::start("desktop", move |job| {
                if let Err(why) = desktop.carry_out(&job) {
                    keys_log.debug(format_args!("desktop: {why}"));
                    keys_owner.worker_failed();
                }
            })?,
            mixer: Worker::start("volume", move |volume| {
                if let Err(why) = mixer.carry_out(volume) {
                    volume_log.debug(format_args!("volume: {why}"));
                    volume_owner.worker_failed();
                }
            })?,
            events,
            bytes: Vec::with_capacity(64),
        })
    }

    pub fn opened(&mut self, port: DeviceSlot, mut output: Box<dyn Output>) {
        output.assign(port);
        self.outputs.insert(port, output);
    }

    pub fn closed(&mut self, port: DeviceSlot) {
        self.outputs.remove(&port);
    }

    pub fn is_open(&self, port: DeviceSlot) -> bool {
        self.outputs.contains_key(&port)
    }

    pub fn open_outputs(&self) -> impl Iterator<Item = DeviceSlot> {
        self.outputs.keys().copied()
    }

    pub fn listen(&mut self, port: DeviceSlot, heard: mpsc::Sender<Vec<u8>>) {
        self.listeners.push((port, heard));
    }

    /// Whether a client listens to an output.
    pub fn has_listeners(&mut self) -> bool {
        self.listeners.retain(|(_, heard)| !heard.is_closed());
        !self.listeners.is_empty()
    }

    pub fn carry_out(&mut self, effect: Effect) -> Result<(), DispatchError> {
        match effect {
            Effect::Midi { port, message, taint, hops } => self.send_body(port, &message, Trail { taint, hops }),
            Effect::Osc { host, port, message, taint: _ } => match literal(&host) {
                Some(ip) => self
                    .osc
                    .send(SocketAddr::new(ip, port), &message)
                    .map_err(|fault| DispatchError::Refused(format!("osc: {fault}"))),
                None => taken(self.named_osc.push((host, port, message)), "osc"),
            },
            Effect::OscValue { .. } => Err(DispatchError::Refused("osc: this value has no target".into())),
            Effect::Key { keys, stroke } => taken(self.desktop.push(Job::Key { keys, stroke }), "desktop"),
            Effect::Text(text) => taken(self.desktop.push(Job::Text(text)), "desktop"),
            Effect::Click { button, at } => taken(self.desktop.push(Job::Click { button, at }), "desktop"),
            Effect::Volume(volume) => taken(self.mixer.push(volume), "volume"),
            Effect::Parameter { target, value, ranged, taint } => {
                self.events.parameter_turned(&target, value, ranged, taint).map_err(DispatchError::Refused)
            }
            Effect::Call(call) => {
                self.events.call_fired(call);
                Ok(())
            }
        }
    }

    pub fn send_body(&mut self, port: DeviceSlot, body: &Body, trail: Trail) -> Result<(), DispatchError> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let sent = match midi::encode(body, &mut bytes) {
            Ok(()) => self.send(port, &bytes, trail),
            Err(_) => Err(DispatchError::Refused("this event has no MIDI bytes".into())),
        };
        self.bytes = bytes;
        sent
    }

    /// Sends one complete message. The caller has checked or created the message.
    pub fn send(&mut self, port: DeviceSlot, bytes: &[u8], trail: Trail) -> Result<(), DispatchError> {
        let output = self.outputs.get_mut(&port).ok_or(DispatchError::NoOutput(port))?;
        match output.send(bytes, trail) {
            Ok(()) => {}
            Err(SendError::Offline) => {
                self.outputs.remove(&port);
                return Err(DispatchError::Died(port));
            }
            Err(fault @ (SendError::Busy | SendError::TooLong { .. } | SendError::Malformed(_))) => {
                return Err(DispatchError::Refused(fault.to_string()));
            }
        }
        // A slow listener must not delay the port, so it loses messages. A closed listener is
        // removed.
        self.listeners.retain(|(at, heard)| {
            *at != port || !matches!(heard.try_send(bytes.to_vec()), Err(mpsc::error::TrySendError::Closed(_)))
        });
        Ok(())
    }
}

fn taken(pushed: Result<(), NotTaken>, lane: &str) -> Result<(), DispatchError> {
    pushed.map_err(|why| {
        DispatchError::Refused(match why {
            NotTaken::Full => format!("{lane}: the queue is full"),
            NotTaken::Gone => format!("{lane}: the worker thread has ended"),
        })
    })
}

/// Resolves the host name and sends the message. Runs on a worker, because the resolver may block.
fn send_to_name(out: &mut osc::Sender, host: &str, port: u16, message: &OscMessage) -> Result<(), String> {
    let to = (host, port).to_socket_addrs().map_err(|error| error.to_string())?.next();
    out.send(to.ok_or("the host name has no address")?, message).map_err(|fault| fault.to_string())
}

/// The address of `localhost`, or of a host that is given as an IP address. Other hosts need a
/// resolver, which may block for seconds.
fn literal(host: &str) -> Option<IpAddr> {
    if host.eq_ignore_ascii_case("localhost") {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    host.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_need_a_resolver() {
        assert_eq!(literal("127.0.0.1"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(literal("localhost"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(literal("::1"), Some(std::net::Ipv6Addr::LOCALHOST.into()));
        assert_eq!(literal("studio.local"), None);
    }
}
