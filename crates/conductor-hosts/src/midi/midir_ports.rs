//! MIDI on macOS (CoreMIDI) and on Windows (WinMM), through `midir`.
//!
//! **This code compiles (`make check-macos`, `make check-windows`) but was never run with a
//! device.** The contract test that the other backends pass (`conductor-testkit`) has not been run
//! on it.
//!
//! The system calls the callbacks of inputs on its own thread. Every output has a thread
//! ([`threaded_output`](super::threaded_output)). The library `midir` does not announce ports that
//! appear and disappear; the scan of the `ports` thread finds them. `midir` also does not report
//! which ports are hardware, so no port here is treated as a controller that a person plays.

use super::ring::EventSender;
use super::threaded_output::Outlet;
use super::{Backend, Cause, Input, Intake, Output, PortError, PortInfo, Stamp, Unavailable, Way};
use conductor_core::event::Taint;
use midir::{Ignore, InitError, MidiInput, MidiInputConnection, MidiOutput, MidiOutputConnection};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The name of the backend, and ports that this process creates.
#[cfg_attr(target_os = "macos", path = "midir_ports/coremidi.rs")]
#[cfg_attr(windows, path = "midir_ports/winmm.rs")]
mod platform;

use platform::NAME;

/// Time to wait after the first client was created. Creating it starts the system's MIDI server,
/// whose list of ports may be empty at first.
const WARM_UP: Duration = Duration::from_millis(100);

pub struct MidirPorts {
    client_name: String,
    stamp: Stamp,
    live: Option<Live>,
    /// Ports that we created. They are not listed as devices.
    made: BTreeSet<(Way, String)>,
}

/// The clients that list ports: one for inputs, one for outputs.
struct Live {
    input: MidiInput,
    output: MidiOutput,
}

fn unavailable(error: InitError) -> Unavailable {
    Unavailable::new(NAME, Cause::Refused, error)
}

impl MidirPorts {
    /// Creates the backend, but no client yet.
    pub fn new(client_name: &str, stamp: Stamp) -> Self {
        MidirPorts { client_name: client_name.to_owned(), stamp, live: None, made: BTreeSet::new() }
    }

    fn live(&mut self) -> Result<&Live, Unavailable> {
        match &mut self.live {
            Some(live) => Ok(live),
            none => {
                MidiInput::new(&self.client_name).map(drop).map_err(unavailable)?;
                // If this wait ends early, some ports are missing until the next scan.
                thread::park_timeout(WARM_UP);
                let input = MidiInput::new(&self.client_name).map_err(unavailable)?;
                let output = MidiOutput::new(&self.client_name).map_err(unavailable)?;
                Ok(none.insert(Live { input, output }))
            }
        }
    }

    fn client(&self) -> Result<MidiInput, Unavailable> {
        let mut client = MidiInput::new(&self.client_name).map_err(unavailable)?;
        // Receive all kinds of messages, because our decoder filters them.
        client.ignore(Ignore::None);
        Ok(client)
    }

    fn receiver(&self, events: EventSender) -> Receiver {
        Receiver { intake: Intake::new(events), stamp: Arc::clone(&self.stamp) }
    }

    fn describe(&self, way: Way, id: String, name: String) -> Option<PortInfo> {
        // Our virtual inputs are destinations for others, and our virtual outputs are sources.
        let made_as = match way {
            Way::Input => Way::Output,
            Way::Output => Way::Input,
        };
        if self.made.contains(&(made_as, name.clone())) {
            return None;
        }
        let unique_id = id.parse().ok();
        Some(PortInfo { unique_id, ..PortInfo::new(NAME, way, id, name) })
    }
}

impl Backend for MidirPorts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn connect(&mut self) -> Result<(), Unavailable> {
        self.live().map(|_| ())
    }

    fn ports(&mut self) -> Result<Vec<PortInfo>, PortError> {
        let live = self.live()?;
        // A port whose name cannot be read is about to disappear, so it is left out.
        let inputs = live.input.ports().into_iter();
        let inputs = inputs.filter_map(|it| Some((Way::Input, it.id(), live.input.port_name(&it).ok()?)));
        let outputs = live.output.ports().into_iter();
        let outputs = outputs.filter_map(|it| Some((Way::Output, it.id(), live.output.port_name(&it).ok()?)));
        let found: Vec<_> = inputs.chain(outputs).collect();
        Ok(found.into_iter().filter_map(|(way, id, name)| self.describe(way, id, name)).collect())
    }

    fn open_input(&mut self, id: &str, events: EventSender) -> Result<Box<dyn Input>, PortError> {
        let port = self.live()?.input.find_port_by_id(id).ok_or_else(|| PortError::gone(id))?;
        let opened = self.client()?.connect(&port, "conductor in", Receiver::receive, self.receiver(events));
        Ok(Box::new(OpenInput { _connection: opened.map_err(|error| PortError::refused(id, error))? }))
    }

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError> {
        let port = self.live()?.output.find_port_by_id(id).ok_or_else(|| PortError::gone(id))?;
        let client = MidiOutput::new(&self.client_name).map_err(unavailable)?;
        let opened = client.connect(&port, "conductor out").map_err(|error| PortError::refused(id, error))?;
        output(id, opened)
    }

    fn create_input(&mut self, name: &str, events: EventSender) -> Result<Box<dyn Input>, PortError> {
        let opened = platform::create_input(self.client()?, name, self.receiver(events))?;
        self.made.insert((Way::Input, name.to_owned()));
        Ok(Box::new(OpenInput { _connection: opened }))
    }

    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError> {
        let client = MidiOutput::new(&self.client_name).map_err(unavailable)?;
        let opened = platform::create_output(client, name)?;
        self.made.insert((Way::Output, name.to_owned()));
        output(name, opened)
    }
}

/// The callback of an input. Event times are from the daemon's clock, not from the library's.
struct Receiver {
    intake: Intake,
    stamp: Stamp,
}

impl Receiver {
    fn receive(_: u64, bytes: &[u8], receiver: &mut Receiver) {
        let at = (receiver.stamp)();
        receiver.intake.hear(at, Taint::Clean, bytes);
    }
}

struct OpenInput {
    _connection: MidiInputConnection<Receiver>,
}

impl Input for OpenInput {
    /// The system does not report a closed connection, so this is always true. A disconnected
    /// device disappears from the port list.
    fn is_open(&self) -> bool {
        true
    }
}

fn output(id: &str, mut connection: MidiOutputConnection) -> Result<Box<dyn Output>, PortError> {
    let begin = move || {
        Some(move |message: &[u8]| match connection.send(message) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    };
    Outlet::start("midi-out", id, begin, || {})
}
