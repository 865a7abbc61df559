//! MIDI on macOS, through `midir` and CoreMIDI.
//!
//! **Checked by the compiler, never run**: nobody here has a Mac to run it on (`make check-macos`
//! is what was seen to pass). The contract that the other backends keep (`conductor-testkit`) has
//! not been held against it.
//!
//! CoreMIDI calls inputs back on a thread of its own. Every output is an [`outlet`](super::outlet).
//! The library passes no news of ports that come and go; the scan of the `ports` thread finds them.
//! It does not say what is hardware either, so nothing here counts as a controller that a hand can
//! be on.

use super::ring::EventSender;
use super::threaded_output::Outlet;
use super::{Backend, Cause, Input, Intake, Output, PortError, PortInfo, Stamp, Unavailable, Way};
use conductor_core::event::Taint;
use midir::os::unix::{VirtualInput, VirtualOutput};
use midir::{Ignore, InitError, MidiInput, MidiInputConnection, MidiOutput, MidiOutputConnection};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const NAME: &str = "coremidi";
/// A first client wakes the system's MIDI server, and may see no ports yet.
const WARM_UP: Duration = Duration::from_millis(100);

pub struct CoreMidi {
    client_name: String,
    stamp: Stamp,
    live: Option<Live>,
    /// Ports that we made: to everyone else they are devices, to us they are not.
    made: BTreeSet<(Way, String)>,
}

/// Two clients, for looking around.
struct Live {
    input: MidiInput,
    output: MidiOutput,
}

fn unavailable(error: InitError) -> Unavailable {
    Unavailable { backend: NAME, cause: Cause::Refused, detail: error.to_string() }
}

fn refused(id: &str, detail: impl ToString) -> PortError {
    PortError::Refused { id: id.into(), detail: detail.to_string() }
}

impl CoreMidi {
    /// Touches nothing yet.
    pub fn new(client_name: &str, stamp: Stamp) -> Self {
        CoreMidi { client_name: client_name.to_owned(), stamp, live: None, made: BTreeSet::new() }
    }

    fn live(&mut self) -> Result<&Live, Unavailable> {
        match &mut self.live {
            Some(live) => Ok(live),
            none => {
                MidiInput::new(&self.client_name).map(drop).map_err(unavailable)?;
                // Woken early it sees fewer ports, and the next scan sees them all.
                thread::park_timeout(WARM_UP);
                let input = MidiInput::new(&self.client_name).map_err(unavailable)?;
                let output = MidiOutput::new(&self.client_name).map_err(unavailable)?;
                Ok(none.insert(Live { input, output }))
            }
        }
    }

    fn client(&self) -> Result<MidiInput, Unavailable> {
        let mut client = MidiInput::new(&self.client_name).map_err(unavailable)?;
        // What is not wanted is for the decoder to say.
        client.ignore(Ignore::None);
        Ok(client)
    }

    fn hearing(&self, lane: EventSender) -> Hearing {
        Hearing { intake: Intake::new(lane), stamp: Arc::clone(&self.stamp) }
    }

    fn describe(&self, way: Way, id: String, name: String) -> Option<PortInfo> {
        // A virtual input of ours is a destination to all others, and the other way round.
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

impl Backend for CoreMidi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn connect(&mut self) -> Result<(), Unavailable> {
        self.live().map(|_| ())
    }

    fn ports(&mut self) -> Result<Vec<PortInfo>, PortError> {
        let live = self.live()?;
        // A port without a name is on its way out.
        let inputs = live.input.ports().into_iter();
        let inputs = inputs.filter_map(|it| Some((Way::Input, it.id(), live.input.port_name(&it).ok()?)));
        let outputs = live.output.ports().into_iter();
        let outputs = outputs.filter_map(|it| Some((Way::Output, it.id(), live.output.port_name(&it).ok()?)));
        let found: Vec<_> = inputs.chain(outputs).collect();
        Ok(found.into_iter().filter_map(|(way, id, name)| self.describe(way, id, name)).collect())
    }

    fn open_input(&mut self, id: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
        let gone = || PortError::Gone { id: id.into() };
        let port = self.live()?.input.find_port_by_id(id).ok_or_else(gone)?;
        let opened = self.client()?.connect(&port, "conductor in", Hearing::hear, self.hearing(lane));
        Ok(Box::new(OpenInput { _connection: opened.map_err(|error| refused(id, error))? }))
    }

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError> {
        let gone = || PortError::Gone { id: id.into() };
        let port = self.live()?.output.find_port_by_id(id).ok_or_else(gone)?;
        let client = MidiOutput::new(&self.client_name).map_err(unavailable)?;
        let opened = client.connect(&port, "conductor out").map_err(|error| refused(id, error))?;
        output(id, opened)
    }

    fn create_input(&mut self, name: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
        let opened = self.client()?.create_virtual(name, Hearing::hear, self.hearing(lane));
        let connection = opened.map_err(|error| refused(name, error))?;
        self.made.insert((Way::Input, name.to_owned()));
        Ok(Box::new(OpenInput { _connection: connection }))
    }

    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError> {
        let client = MidiOutput::new(&self.client_name).map_err(unavailable)?;
        let opened = client.create_virtual(name).map_err(|error| refused(name, error))?;
        self.made.insert((Way::Output, name.to_owned()));
        output(name, opened)
    }
}

/// What an input does with its bytes. The library's own time counts from the opening; ours is the
/// daemon's.
struct Hearing {
    intake: Intake,
    stamp: Stamp,
}

impl Hearing {
    fn hear(_: u64, bytes: &[u8], hearing: &mut Hearing) {
        let at = (hearing.stamp)();
        hearing.intake.hear(at, Taint::Clean, bytes);
    }
}

struct OpenInput {
    _connection: MidiInputConnection<Hearing>,
}

impl Input for OpenInput {
    /// The library does not tell; a device that is gone is missing from the ports.
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
    Outlet::start("coremidi-out", id, begin, || {})
}
