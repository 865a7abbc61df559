//! The device backends of this build. The daemon tries each backend. If a backend is missing, the
//! daemon starts without it, and `status` lists it.

use crate::owner::ports::Source;
use conductor_core::config::Protocol;
use conductor_core::event::Micros;
use conductor_hosts::midi::period::no_desk;
use conductor_hosts::midi::{Announce, Desk, PortInfo, Stamp};
use std::sync::Arc;

/// The name that other programs display for our ports.
const CLIENT: &str = "conductor";

/// All backends except the loopback. A virtual port is created on the first available backend in
/// this order.
pub(crate) fn all(stamp: &Stamp, announce: &Announce, desk: &Desk) -> Vec<Source> {
    // These values are unused in a build without real backends.
    let _ = (CLIENT, stamp, announce, desk);
    vec![
        #[cfg(feature = "jack")]
        Source::midi(conductor_hosts::midi::jack::Jack::new(CLIENT, stamp.clone(), announce.clone(), desk.clone())),
        #[cfg(feature = "alsa")]
        Source::midi(conductor_hosts::midi::alsa::Alsa::new(CLIENT, stamp.clone(), announce.clone())),
        #[cfg(any(target_os = "macos", windows))]
        Source::midi(conductor_hosts::midi::midir_ports::MidirPorts::new(CLIENT, stamp.clone())),
        #[cfg(feature = "gamepad")]
        Source::gamepads(pads::Pads::new(stamp.clone(), announce.clone())),
    ]
}

/// The ports of all backends now. Connects to every backend that runs, and disconnects again.
pub(crate) fn inputs() -> Vec<(Protocol, PortInfo)> {
    let stamp: Stamp = Arc::new(|| Micros(0));
    let announce: Announce = Arc::new(|_| ());
    all(&stamp, &announce, &no_desk()).into_iter().flat_map(Source::list).collect()
}

#[cfg(feature = "gamepad")]
mod pads {
    use conductor_hosts::gamepad::Gamepads;
    use conductor_hosts::midi::ring::EventSender;
    use conductor_hosts::midi::{Announce, Backend, Input, Output, PortError, PortInfo, Stamp, Unavailable};

    const NAME: &str = "gamepad";

    /// The backend for gamepads. They are listed and opened like MIDI ports, but have no outputs.
    pub struct Pads {
        stamp: Stamp,
        announce: Announce,
        running: Option<Gamepads>,
    }

    impl Pads {
        pub fn new(stamp: Stamp, announce: Announce) -> Self {
            Pads { stamp, announce, running: None }
        }

        fn running(&mut self) -> Result<&Gamepads, Unavailable> {
            match &mut self.running {
                Some(running) => Ok(running),
                none => Ok(none.insert(Gamepads::start(self.stamp.clone(), self.announce.clone())?)),
            }
        }
    }

    fn refused(id: &str) -> PortError {
        PortError::Refused { id: id.to_owned(), detail: "a gamepad can only be opened as an input".to_owned() }
    }

    impl Backend for Pads {
        fn name(&self) -> &'static str {
            NAME
        }

        fn connect(&mut self) -> Result<(), Unavailable> {
            self.running().map(|_| ())
        }

        fn ports(&mut self) -> Result<Vec<PortInfo>, PortError> {
            Ok(self.running()?.ports())
        }

        fn open_input(&mut self, id: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
            self.running()?.open_input(id, lane)
        }

        fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError> {
            Err(refused(id))
        }

        fn create_input(&mut self, name: &str, _: EventSender) -> Result<Box<dyn Input>, PortError> {
            Err(refused(name))
        }

        fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError> {
            Err(refused(name))
        }
    }
}
