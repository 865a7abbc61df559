//! Virtual MIDI devices inside this process: for the demo, for tests, and for machines without
//! MIDI.
//!
//! A device NAME has two ends. The near end is the port `NAME`: we listen to it and send to it like
//! a hardware port. The far end is the side of the player. Messages that are sent to the port `NAME
//! hand` arrive as input from NAME. Messages that are sent to `NAME` are read with [`Hand::take`].
//! Input keeps the trail (the origin) of its sender, so a demo pad that a tool presses is not
//! treated as a person's input.
//!
//! Each device has a lock, which is held for one message at a time. No device callback uses this
//! lock.

use super::queue::MESSAGE_MAX;
use super::ring::EventSender;
use super::{
    Announce, Announcement, Backend, Input, Intake, Output, PortError, PortInfo, SendError, Stamp, Unavailable, Way,
    check_message,
};
use conductor_core::event::Trail;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const NAME: &str = "loopback";
const HAND: &str = " hand";

/// Maximum number of bytes of unread messages at the far end. Above it, the oldest messages are
/// dropped.
const FAR_END_BYTES: usize = 64 * 1024;

/// The loopback backend. Clones share the same devices.
#[derive(Clone)]
pub struct Loopback {
    devices: Arc<Mutex<BTreeMap<String, Arc<Device>>>>,
    stamp: Stamp,
    announce: Announce,
}

struct Device {
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Incremented each time the device is plugged in. Handles of an earlier generation are dead.
    generation: u64,
    plugged: bool,
    intake: Option<Intake>,
    far_end: VecDeque<Vec<u8>>,
    far_end_bytes: usize,
    lost: u64,
}

/// The far end of a device: plays input, and reads the messages that were sent to the device.
#[derive(Clone)]
pub struct Hand {
    device: Arc<Device>,
    stamp: Stamp,
}

impl Device {
    fn is_plugged(&self, generation: u64) -> bool {
        let state = self.state.lock();
        state.plugged && state.generation == generation
    }
}

impl Loopback {
    pub fn new(stamp: Stamp, announce: Announce) -> Self {
        Loopback { devices: Arc::default(), stamp, announce }
    }

    /// Creates the device, or plugs it in again.
    pub fn plug(&self, name: &str) -> Hand {
        let new = || Arc::new(Device { name: name.into(), state: Mutex::default() });
        let device = Arc::clone(self.devices.lock().entry(name.into()).or_insert_with(new));
        {
            let mut state = device.state.lock();
            if !state.plugged {
                state.plugged = true;
                state.generation += 1;
            }
        }
        (self.announce)(Announcement::PortsChanged { backend: NAME });
        Hand { device, stamp: Arc::clone(&self.stamp) }
    }

    /// Unplugs the device: its ports disappear and open handles are dead.
    pub fn unplug(&self, name: &str) {
        if let Some(device) = self.devices.lock().get(name) {
            let mut state = device.state.lock();
            state.plugged = false;
            state.intake = None;
        }
        (self.announce)(Announcement::PortsChanged { backend: NAME });
    }

    pub fn hand(&self, name: &str) -> Option<Hand> {
        let device = Arc::clone(self.devices.lock().get(name)?);
        Some(Hand { device, stamp: Arc::clone(&self.stamp) })
    }

    fn plugged(&self, name: &str) -> Result<(Arc<Device>, u64), PortError> {
        let gone = || PortError::gone(name);
        let device = Arc::clone(self.devices.lock().get(name).ok_or_else(gone)?);
        let generation = Some(device.state.lock()).filter(|it| it.plugged).map(|it| it.generation).ok_or_else(gone)?;
        Ok((device, generation))
    }
}

impl Hand {
    /// Plays bytes on the device; messages may be split at any byte. Returns false if nothing
    /// listens.
    pub fn play(&self, bytes: &[u8], trail: impl Into<Trail>) -> bool {
        let at = (self.stamp)();
        match &mut self.device.state.lock().intake {
            Some(intake) => {
                intake.hear(at, trail, bytes);
                true
            }
            None => false,
        }
    }

    /// The messages sent to the device since the last call, oldest first.
    pub fn take(&self) -> Vec<Vec<u8>> {
        let mut state = self.device.state.lock();
        state.far_end_bytes = 0;
        state.far_end.drain(..).collect()
    }

    /// Number of messages that were dropped at the far end because they were not read.
    pub fn lost(&self) -> u64 {
        self.device.state.lock().lost
    }
}

impl Backend for Loopback {
    fn name(&self) -> &'static str {
        NAME
    }

    fn connect(&mut self) -> Result<(), Unavailable> {
        Ok(())
    }

    fn ports(&mut self) -> Result<Vec<PortInfo>, PortError> {
        let devices = self.devices.lock();
        let plugged = devices.values().filter(|device| device.state.lock().plugged);
        Ok(plugged
            .flat_map(|device| {
                let hand = format!("{}{HAND}", device.name);
                [
                    PortInfo::new(NAME, Way::Input, &device.name, &device.name),
                    PortInfo::new(NAME, Way::Output, &device.name, &device.name),
                    PortInfo::new(NAME, Way::Output, &hand, &hand),
                ]
            })
            .collect())
    }

    fn open_input(&mut self, id: &str, events: EventSender) -> Result<Box<dyn Input>, PortError> {
        let (device, generation) = self.plugged(id)?;
        let mut state = device.state.lock();
        if state.intake.is_some() {
            return Err(PortError::refused(id, "it is open already"));
        }
        state.intake = Some(Intake::new(events));
        drop(state);
        Ok(Box::new(OpenInput { device, generation }))
    }

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError> {
        // The name of a device may end in " hand", so the whole name is tried first.
        let (found, to_hand) = match self.plugged(id) {
            Ok(found) => (found, false),
            Err(error) => match id.strip_suffix(HAND) {
                Some(name) => (self.plugged(name).map_err(|_| error)?, true),
                None => return Err(error),
            },
        };
        let (device, generation) = found;
        let hand = to_hand.then(|| Hand { device: Arc::clone(&device), stamp: Arc::clone(&self.stamp) });
        Ok(Box::new(OpenOutput { device, generation, hand }))
    }

    fn create_input(&mut self, name: &str, events: EventSender) -> Result<Box<dyn Input>, PortError> {
        self.plug(name);
        self.open_input(name, events)
    }

    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError> {
        self.plug(name);
        self.open_output(name)
    }
}

struct OpenInput {
    device: Arc<Device>,
    generation: u64,
}

impl Input for OpenInput {
    fn is_open(&self) -> bool {
        self.device.is_plugged(self.generation)
    }
}

impl Drop for OpenInput {
    fn drop(&mut self) {
        let mut state = self.device.state.lock();
        if state.generation == self.generation {
            state.intake = None;
        }
    }
}

struct OpenOutput {
    device: Arc<Device>,
    generation: u64,
    hand: Option<Hand>,
}

impl Output for OpenOutput {
    fn send(&mut self, message: &[u8], trail: Trail) -> Result<(), SendError> {
        check_message(message)?;
        if !self.is_open() {
            return Err(SendError::Offline);
        }
        if let Some(hand) = &self.hand {
            return if hand.play(message, trail) { Ok(()) } else { Err(SendError::Offline) };
        }
        let mut state = self.device.state.lock();
        state.far_end_bytes += message.len();
        state.far_end.push_back(message.to_vec());
        while state.far_end_bytes > FAR_END_BYTES.max(MESSAGE_MAX) {
            let Some(oldest) = state.far_end.pop_front() else { break };
            state.far_end_bytes -= oldest.len();
            state.lost += 1;
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.device.is_plugged(self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::{Bell, EventReceiver, event_ring};
    use super::*;
    use conductor_core::event::{Body, DeviceSlot, Event, Micros, Taint};
    use std::sync::atomic::{AtomicU64, Ordering};

    fn studio() -> (Loopback, Arc<AtomicU64>) {
        let announced = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&announced);
        let announce = Arc::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        (Loopback::new(Arc::new(|| Micros(7)), announce), announced)
    }

    fn listen(loopback: &mut Loopback, name: &str) -> (Box<dyn Input>, EventReceiver) {
        let (sender, receiver) = event_ring(DeviceSlot(1), 10_000, Bell::silent());
        (loopback.open_input(name, sender).unwrap(), receiver)
    }

    #[test]
    fn what_is_sent_to_the_hand_arrives_with_its_taint() {
        let (mut loopback, _) = studio();
        loopback.plug("pads");
        let (_input, mut lane) = listen(&mut loopback, "pads");
        let mut hand = loopback.open_output("pads hand").unwrap();
        hand.send(&[0x90, 36, 100], Taint::Tool.into()).unwrap();
        loopback.hand("pads").unwrap().play(&[0x80, 36], Taint::Clean);
        loopback.hand("pads").unwrap().play(&[0], Taint::Clean);
        let event = |taint, body| Event { at: Micros(7), device: DeviceSlot(1), taint, hops: 0, body };
        assert_eq!(lane.pop(), Some(event(Taint::Tool, Body::NoteOn { channel: 0, note: 36, velocity: 100 })));
        assert_eq!(lane.pop(), Some(event(Taint::Clean, Body::NoteOff { channel: 0, note: 36, velocity: 0 })));
        assert_eq!(lane.pop(), None);
    }

    #[test]
    fn what_is_sent_to_the_device_is_read_at_the_far_end() {
        let (mut loopback, _) = studio();
        let hand = loopback.plug("pads");
        let mut output = loopback.open_output("pads").unwrap();
        output.send(&[0x90, 51, 21], Taint::Clean.into()).unwrap();
        output.send(&[0xF0, 1, 2, 0xF7], Taint::Clean.into()).unwrap();
        assert!(matches!(output.send(&[0x90, 51], Taint::Clean.into()), Err(SendError::Malformed(_))));
        assert_eq!(hand.take(), vec![vec![0x90, 51, 21], vec![0xF0, 1, 2, 0xF7]]);
        assert_eq!(hand.take(), Vec::<Vec<u8>>::new());
        for _ in 0..30_000 {
            output.send(&[0x90, 51, 21], Taint::Clean.into()).unwrap();
        }
        assert_eq!(hand.lost() as usize + hand.take().len(), 30_000);
    }

    #[test]
    fn ports_come_and_go_and_handles_know() {
        let (mut loopback, announced) = studio();
        let names = |loopback: &mut Loopback| {
            let ports = loopback.ports().unwrap();
            ports.into_iter().map(|port| format!("{:?} {}", port.way, port.name)).collect::<Vec<_>>()
        };
        assert_eq!(names(&mut loopback), Vec::<String>::new());
        loopback.plug("pads");
        assert_eq!(names(&mut loopback), vec!["Input pads", "Output pads", "Output pads hand"]);
        let (input, mut lane_before) = listen(&mut loopback, "pads");
        let mut output = loopback.open_output("pads").unwrap();
        loopback.unplug("pads");
        assert_eq!(announced.load(Ordering::Relaxed), 2);
        assert!(!input.is_open() && !output.is_open() && lane_before.is_abandoned());
        assert_eq!(output.send(&[0xF8], Taint::Clean.into()), Err(SendError::Offline));
        assert_eq!(names(&mut loopback), Vec::<String>::new());
        loopback.plug("pads");
        assert!(!input.is_open() && !output.is_open(), "an old handle is open after the device was plugged in again");
        let (_input, mut lane) = listen(&mut loopback, "pads");
        drop(input);
        assert!(
            loopback.hand("pads").unwrap().play(&[0xFA], Taint::Clean),
            "dropping an old handle closed the new one"
        );
        assert!(lane.pop().is_some() && lane_before.pop().is_none());
    }

    #[test]
    fn missing_and_taken_ports_are_refused_with_their_name() {
        let (mut loopback, _) = studio();
        let missing = loopback.open_output("nope hand").err();
        assert_eq!(missing, Some(PortError::Gone { id: "nope hand".into() }));
        loopback.plug("pads");
        let mut unheard = loopback.open_output("pads hand").unwrap();
        assert_eq!(unheard.send(&[0xF8], Taint::Clean.into()), Err(SendError::Offline), "the message was accepted");
        let _first = listen(&mut loopback, "pads");
        let (sender, _receiver) = event_ring(DeviceSlot(1), 10_000, Bell::silent());
        assert!(matches!(loopback.open_input("pads", sender), Err(PortError::Refused { .. })));
    }

    #[test]
    fn the_largest_sysex_passes_intact_and_one_byte_more_is_refused() {
        let (mut loopback, _) = studio();
        loopback.plug("synth");
        let (_input, mut lane) = listen(&mut loopback, "synth");
        let mut hand = loopback.open_output("synth hand").unwrap();
        let sysex = |len: usize| {
            let body: Vec<u8> = (0..len).map(|i| (i * 7 % 128) as u8).collect();
            [&[0xF0][..], &body, &[0xF7]].concat()
        };
        assert!(matches!(hand.send(&sysex(8193), Taint::Clean.into()), Err(SendError::Malformed(_))));
        hand.send(&sysex(8192), Taint::Clean.into()).unwrap();
        assert_eq!(lane.pop().map(|it| it.body), Some(Body::SysEx(sysex(8192)[1..8193].into())));
        assert_eq!(lane.pop(), None);
    }
}
