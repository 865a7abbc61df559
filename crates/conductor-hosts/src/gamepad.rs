//! Reads game controllers ("pads" here) through gilrs. One thread waits for the events of all pads,
//! and pushes the events of the opened pads.
//!
//! Values are not filtered here: dead zones are radial and per device (`gesture`), so the filters
//! of gilrs are off. The exception is the filter that converts a directional pad sent as axes into
//! four buttons. When a pad is unplugged, all its buttons and axes are released.
//!
//! Not here: the assignment of pads to devices (`midi::identity`, by the same rule as for ports).

use super::midi::ring::EventSender;
use super::midi::{Announce, Announcement, Cause, Input, PortError, PortInfo, Stamp, Unavailable, UsbId, Way};
use conductor_core::event::{Axis, Body, Button, Side, Taint};
use gilrs::ev::filter::{Filter, axis_dpad_to_button};
use gilrs::{EventType, GamepadId, Gilrs, GilrsBuilder};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const NAME: &str = "gamepad";
/// The interval at which the gamepad thread checks whether it should end.
const EVENT_TIMEOUT: Duration = Duration::from_secs(1);

/// The gamepad thread and the pads that are plugged in. Dropping this value ends the thread.
pub struct Gamepads {
    shared: Arc<Shared>,
}

struct Shared {
    /// Locked for one event at a time. No device callback locks it, only our own threads.
    pads: Mutex<BTreeMap<usize, Pad>>,
    closing: AtomicBool,
    alive: AtomicBool,
}

struct Pad {
    info: PortInfo,
    /// Set while the pad is open.
    events: Option<EventSender>,
    /// Incremented each time the pad is opened, so that dropping an old handle does not close a new
    /// one.
    generation: u64,
    /// The events that release every held button and reset every axis and trigger in use.
    releases: Vec<Body>,
}

impl Gamepads {
    /// Starts the gamepad thread. No pad needs to be plugged in yet.
    pub fn start(stamp: Stamp, announce: Announce) -> Result<Gamepads, Unavailable> {
        let refused = |detail: String| Unavailable::new(NAME, Cause::Refused, detail);
        let shared =
            Arc::new(Shared { pads: Mutex::default(), closing: AtomicBool::new(false), alive: AtomicBool::new(true) });
        // gilrs must stay in the thread that created it.
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let theirs = Arc::clone(&shared);
        let run = move || {
            let built = GilrsBuilder::new().with_default_filters(false).with_force_feedback(false).build();
            match built {
                Ok(gilrs) => {
                    for (id, pad) in gilrs.gamepads() {
                        theirs.plug(id, &pad);
                    }
                    let _ = ready.send(Ok(()));
                    listen(gilrs, &theirs, &stamp, &announce);
                }
                Err(error) => {
                    let _ = ready.send(Err(error.to_string()));
                }
            }
            theirs.alive.store(false, Ordering::Release);
        };
        thread::Builder::new().name(NAME.into()).spawn(run).map_err(|error| refused(error.to_string()))?;
        let answer = started.recv().map_err(|_| refused("the gamepad thread ended while it was starting".into()))?;
        answer.map_err(refused)?;
        Ok(Gamepads { shared })
    }

    /// The pads that are plugged in.
    pub fn ports(&self) -> Vec<PortInfo> {
        self.shared.pads.lock().values().map(|pad| pad.info.clone()).collect()
    }

    pub fn open_input(&self, id: &str, events: EventSender) -> Result<Box<dyn Input>, PortError> {
        let mut pads = self.shared.pads.lock();
        let found = pads.iter_mut().find(|(_, pad)| pad.info.id == id);
        let (number, pad) = found.ok_or_else(|| PortError::gone(id))?;
        pad.generation += 1;
        pad.events = Some(events);
        Ok(Box::new(OpenPad { shared: Arc::clone(&self.shared), number: *number, generation: pad.generation }))
    }
}

impl Drop for Gamepads {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
    }
}

struct OpenPad {
    shared: Arc<Shared>,
    number: usize,
    generation: u64,
}

impl Input for OpenPad {
    fn is_open(&self) -> bool {
        let plugged = self.shared.pads.lock().get(&self.number).is_some_and(|pad| pad.generation == self.generation);
        plugged && self.shared.alive.load(Ordering::Acquire)
    }
}

impl Drop for OpenPad {
    fn drop(&mut self) {
        if let Some(pad) = self.shared.pads.lock().get_mut(&self.number)
            && pad.generation == self.generation
        {
            pad.events = None;
        }
    }
}

fn listen(mut gilrs: Gilrs, shared: &Shared, stamp: &Stamp, announce: &Announce) {
    while !shared.closing.load(Ordering::Acquire) {
        let event = gilrs.next_event_blocking(Some(EVENT_TIMEOUT)).filter_ev(&axis_dpad_to_button, &mut gilrs);
        let Some(event) = event else { continue };
        gilrs.update(&event);
        if event.event == EventType::Connected {
            shared.plug(event.id, &gilrs.gamepad(event.id));
            announce(Announcement::PortsChanged { backend: NAME });
        } else if event.event == EventType::Disconnected {
            shared.unplug(event.id, stamp);
            announce(Announcement::PortsChanged { backend: NAME });
        } else if let Some(body) = body_of(event.event) {
            shared.push(event.id, stamp, body);
        }
    }
}

impl Shared {
    fn plug(&self, id: GamepadId, pad: &gilrs::Gamepad<'_>) {
        let number = usize::from(id);
        let guid: String = pad.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        let usb = pad.vendor_id().zip(pad.product_id()).map(|(vendor, product)| UsbId { vendor, product });
        let (name, os_name) = (pad.name().to_owned(), pad.os_name().to_owned());
        let other_names = if os_name == name { Vec::new() } else { vec![os_name] };
        let info = PortInfo {
            other_names,
            usb,
            guid: Some(guid),
            ..PortInfo::new(NAME, Way::Input, format!("gamepad:{number}"), name)
        };
        self.pads.lock().insert(number, Pad::new(info));
    }

    fn unplug(&self, id: GamepadId, stamp: &Stamp) {
        if let Some(mut pad) = self.pads.lock().remove(&usize::from(id)) {
            pad.release_all(stamp);
        }
    }

    fn push(&self, id: GamepadId, stamp: &Stamp, body: Body) {
        if let Some(pad) = self.pads.lock().get_mut(&usize::from(id)) {
            pad.push(stamp, body);
        }
    }
}

impl Pad {
    fn new(info: PortInfo) -> Self {
        Pad { info, events: None, generation: 0, releases: Vec::new() }
    }

    fn push(&mut self, stamp: &Stamp, body: Body) {
        let release = if let Body::ButtonDown(button) = body {
            Some(Body::ButtonUp(button))
        } else if let Body::Axis { axis, .. } = body {
            Some(Body::Axis { axis, value: 0.0 })
        } else if let Body::Trigger { side, .. } = body {
            Some(Body::Trigger { side, value: 0.0 })
        } else {
            self.releases.retain(|it| *it != body);
            None
        };
        if let Some(release) = release.filter(|it| !self.releases.contains(it)) {
            self.releases.push(release);
        }
        if let Some(events) = &mut self.events {
            events.push(stamp(), Taint::Clean, body);
        }
    }

    /// Releases all buttons and axes of an unplugged pad.
    fn release_all(&mut self, stamp: &Stamp) {
        for body in std::mem::take(&mut self.releases) {
            self.push(stamp, body);
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a foreign, growing enum; other events are not input")]
fn body_of(event: EventType) -> Option<Body> {
    match event {
        EventType::ButtonPressed(button, _) => Some(Body::ButtonDown(button_of(button)?)),
        EventType::ButtonReleased(button, _) => Some(Body::ButtonUp(button_of(button)?)),
        EventType::ButtonChanged(button, value, _) => {
            Some(Body::Trigger { side: side_of(button)?, value: value.clamp(0.0, 1.0) })
        }
        EventType::AxisChanged(axis, value, _) => axis_body(axis, value),
        _ => None,
    }
}

fn button_of(button: gilrs::Button) -> Option<Button> {
    use gilrs::Button as Theirs;
    Some(match button {
        Theirs::South => Button::South,
        Theirs::East => Button::East,
        Theirs::West => Button::West,
        Theirs::North => Button::North,
        Theirs::DPadUp => Button::DpadUp,
        Theirs::DPadDown => Button::DpadDown,
        Theirs::DPadLeft => Button::DpadLeft,
        Theirs::DPadRight => Button::DpadRight,
        // gilrs calls the shoulder button a trigger, and the trigger behind it trigger 2.
        Theirs::LeftTrigger => Button::L1,
        Theirs::RightTrigger => Button::R1,
        Theirs::LeftTrigger2 => Button::L2,
        Theirs::RightTrigger2 => Button::R2,
        Theirs::LeftThumb => Button::L3,
        Theirs::RightThumb => Button::R3,
        Theirs::Start => Button::Start,
        Theirs::Select => Button::Select,
        Theirs::Mode => Button::Guide,
        Theirs::C => Button::C,
        Theirs::Z => Button::Z,
        Theirs::Unknown => return None,
    })
}

fn side_of(button: gilrs::Button) -> Option<Side> {
    let sides = [(gilrs::Button::LeftTrigger2, Side::Left), (gilrs::Button::RightTrigger2, Side::Right)];
    sides.into_iter().find(|(it, _)| *it == button).map(|(_, side)| side)
}

fn axis_body(axis: gilrs::Axis, value: f32) -> Option<Body> {
    use gilrs::Axis as Theirs;
    let stick = |axis| Some(Body::Axis { axis, value: value.clamp(-1.0, 1.0) });
    // A released trigger has the value -1 if the pad sends it as an axis.
    let trigger = |side| Some(Body::Trigger { side, value: ((value + 1.0) / 2.0).clamp(0.0, 1.0) });
    match axis {
        Theirs::LeftStickX => stick(Axis::LeftX),
        Theirs::LeftStickY => stick(Axis::LeftY),
        Theirs::RightStickX => stick(Axis::RightX),
        Theirs::RightStickY => stick(Axis::RightY),
        Theirs::LeftZ => trigger(Side::Left),
        Theirs::RightZ => trigger(Side::Right),
        Theirs::DPadX | Theirs::DPadY | Theirs::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::midi::ring::{Bell, event_ring};
    use super::*;
    use conductor_core::event::{DeviceSlot, Micros};

    #[test]
    fn a_machine_without_pads_starts_and_lists_none_or_says_why() {
        match Gamepads::start(Arc::new(|| Micros(0)), Arc::new(|_| {})) {
            Ok(pads) => {
                let (sender, _receiver) = event_ring(DeviceSlot(0), 1000, Bell::silent());
                assert!(matches!(pads.open_input("gamepad:77", sender), Err(PortError::Gone { .. })));
            }
            Err(why) => assert!(why.to_string().starts_with("gamepad: "), "{why}"),
        }
    }

    #[test]
    fn every_button_of_ours_has_one_of_theirs() {
        use gilrs::Button as Theirs;
        let theirs = [
            Theirs::South,
            Theirs::East,
            Theirs::North,
            Theirs::West,
            Theirs::C,
            Theirs::Z,
            Theirs::LeftTrigger,
            Theirs::LeftTrigger2,
            Theirs::RightTrigger,
            Theirs::RightTrigger2,
            Theirs::Select,
            Theirs::Start,
            Theirs::Mode,
            Theirs::LeftThumb,
            Theirs::RightThumb,
            Theirs::DPadUp,
            Theirs::DPadDown,
            Theirs::DPadLeft,
            Theirs::DPadRight,
        ];
        let ours: std::collections::BTreeSet<Button> = theirs.into_iter().filter_map(button_of).collect();
        assert_eq!(ours, Button::ALL.iter().copied().collect());
        assert_eq!(button_of(Theirs::Unknown), None);
        assert_eq!((side_of(Theirs::LeftTrigger2), side_of(Theirs::LeftTrigger)), (Some(Side::Left), None));
    }

    #[test]
    fn values_are_in_range_and_triggers_as_axes_are_rescaled() {
        assert_eq!(axis_body(gilrs::Axis::LeftStickY, 1.5), Some(Body::Axis { axis: Axis::LeftY, value: 1.0 }));
        assert_eq!(axis_body(gilrs::Axis::RightZ, -1.0), Some(Body::Trigger { side: Side::Right, value: 0.0 }));
        assert_eq!(axis_body(gilrs::Axis::DPadX, 1.0), None);
    }

    #[test]
    fn a_pad_that_is_unplugged_lets_everything_go() {
        let stamp: Stamp = Arc::new(|| Micros(1));
        let (sender, mut receiver) = event_ring(DeviceSlot(0), 1000, Bell::silent());
        let mut pad = Pad::new(PortInfo::new(NAME, Way::Input, "gamepad:0", "Pad"));
        pad.events = Some(sender);
        pad.push(&stamp, Body::ButtonDown(Button::South));
        pad.push(&stamp, Body::ButtonDown(Button::East));
        pad.push(&stamp, Body::ButtonUp(Button::East));
        pad.push(&stamp, Body::Axis { axis: Axis::LeftX, value: 0.7 });
        while receiver.pop().is_some() {}
        pad.release_all(&stamp);
        drop(pad);
        let left: Vec<Body> = std::iter::from_fn(|| receiver.pop()).map(|event| event.body).collect();
        assert_eq!(left, [Body::ButtonUp(Button::South), Body::Axis { axis: Axis::LeftX, value: 0.0 }]);
        assert!(receiver.is_abandoned());
    }
}
