//! Game controllers, through gilrs. One thread waits for all of them and feeds the lane of each
//! opened one.
//!
//! Values pass as the pad gives them: dead zones are ours, radial and per device (`gesture`), so
//! gilrs's own filters are off, but for the one that turns a directional pad sent as axes into its
//! four buttons. A pad that is unplugged releases everything it held.
//!
//! Not here: which pad is which device (`midi::identity`, by the same rule as ports).

use super::midi::ring::EventSender;
use super::midi::{Announce, Announcement, Cause, Input, PortError, PortInfo, Stamp, Unavailable, UsbId, Way};
use conductor_core::event::{Axis, Body, Button, Side, Taint};
use gilrs::ev::filter::{Filter, axis_dpad_to_button};
use gilrs::{EventType, GamepadId, Gilrs, GilrsBuilder};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const NAME: &str = "gamepad";
/// How long the thread waits before it looks whether it should end.
const LOOK_UP: Duration = Duration::from_secs(1);

/// The running thread and what it knows. Dropping it ends the thread.
pub struct Gamepads {
    shared: Arc<Shared>,
}

struct Shared {
    pads: Mutex<BTreeMap<usize, Pad>>,
    closing: AtomicBool,
    alive: AtomicBool,
}

struct Pad {
    info: PortInfo,
    /// The lock is held for one event, and contended only while a pad is opened or closed: this is
    /// a thread of ours, no device callback.
    lane: Option<EventSender>,
    /// Grows with each opening, so that an old handle does not close a new one.
    life: u64,
    held: BTreeSet<Button>,
    axes: BTreeSet<Axis>,
    triggers: BTreeSet<Side>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Gamepads {
    /// Starts listening. No pad at all is no error.
    pub fn start(stamp: Stamp, announce: Announce) -> Result<Gamepads, Unavailable> {
        let refused = |detail: String| Unavailable { backend: NAME, cause: Cause::Refused, detail };
        let shared =
            Arc::new(Shared { pads: Mutex::default(), closing: AtomicBool::new(false), alive: AtomicBool::new(true) });
        // gilrs stays in the thread that made it.
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
        let answer = started.recv().map_err(|_| refused("the listening thread ended".into()))?;
        answer.map_err(refused)?;
        Ok(Gamepads { shared })
    }

    /// The pads that are plugged in.
    pub fn ports(&self) -> Vec<PortInfo> {
        lock(&self.shared.pads).values().map(|pad| pad.info.clone()).collect()
    }

    pub fn open_input(&self, id: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
        let mut pads = lock(&self.shared.pads);
        let found = pads.iter_mut().find(|(_, pad)| pad.info.id == id);
        let (number, pad) = found.ok_or_else(|| PortError::Gone { id: id.into() })?;
        pad.life += 1;
        pad.lane = Some(lane);
        Ok(Box::new(OpenPad { shared: Arc::clone(&self.shared), number: *number, life: pad.life }))
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
    life: u64,
}

impl Input for OpenPad {
    fn is_open(&self) -> bool {
        let plugged = lock(&self.shared.pads).get(&self.number).is_some_and(|pad| pad.life == self.life);
        plugged && self.shared.alive.load(Ordering::Acquire)
    }
}

impl Drop for OpenPad {
    fn drop(&mut self) {
        if let Some(pad) = lock(&self.shared.pads).get_mut(&self.number)
            && pad.life == self.life
        {
            pad.lane = None;
        }
    }
}

fn listen(mut gilrs: Gilrs, shared: &Shared, stamp: &Stamp, announce: &Announce) {
    while !shared.closing.load(Ordering::Acquire) {
        let event = gilrs.next_event_blocking(Some(LOOK_UP)).filter_ev(&axis_dpad_to_button, &mut gilrs);
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
        lock(&self.pads).insert(number, Pad::new(info));
    }

    fn unplug(&self, id: GamepadId, stamp: &Stamp) {
        if let Some(mut pad) = lock(&self.pads).remove(&usize::from(id)) {
            pad.let_go(stamp);
        }
    }

    fn push(&self, id: GamepadId, stamp: &Stamp, body: Body) {
        if let Some(pad) = lock(&self.pads).get_mut(&usize::from(id)) {
            pad.push(stamp, body);
        }
    }
}

impl Pad {
    fn new(info: PortInfo) -> Self {
        Pad { info, lane: None, life: 0, held: BTreeSet::new(), axes: BTreeSet::new(), triggers: BTreeSet::new() }
    }

    fn push(&mut self, stamp: &Stamp, body: Body) {
        if let Body::ButtonDown(button) = body {
            self.held.insert(button);
        } else if let Body::ButtonUp(button) = body {
            self.held.remove(&button);
        } else if let Body::Axis { axis, .. } = body {
            self.axes.insert(axis);
        } else if let Body::Trigger { side, .. } = body {
            self.triggers.insert(side);
        }
        if let Some(lane) = &mut self.lane {
            lane.push(stamp(), Taint::Clean, body);
        }
    }

    /// Releases everything, for a pad that is gone.
    fn let_go(&mut self, stamp: &Stamp) {
        let ups = std::mem::take(&mut self.held).into_iter().map(Body::ButtonUp);
        let axes = std::mem::take(&mut self.axes).into_iter().map(|axis| Body::Axis { axis, value: 0.0 });
        let triggers = std::mem::take(&mut self.triggers).into_iter().map(|side| Body::Trigger { side, value: 0.0 });
        for body in ups.chain(axes).chain(triggers).collect::<Vec<_>>() {
            self.push(stamp, body);
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a foreign, growing enum; what we do not name is no input")]
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
        // What the makers call the shoulder is L1, and the trigger behind it L2.
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
    match button_of(button)? {
        Button::L2 => Some(Side::Left),
        Button::R2 => Some(Side::Right),
        Button::South
        | Button::East
        | Button::West
        | Button::North
        | Button::DpadUp
        | Button::DpadDown
        | Button::DpadLeft
        | Button::DpadRight
        | Button::L1
        | Button::R1
        | Button::L3
        | Button::R3
        | Button::Start
        | Button::Select
        | Button::Guide
        | Button::C
        | Button::Z => None,
    }
}

fn axis_body(axis: gilrs::Axis, value: f32) -> Option<Body> {
    use gilrs::Axis as Theirs;
    let stick = |axis| Some(Body::Axis { axis, value: value.clamp(-1.0, 1.0) });
    // A trigger that comes as an axis rests at one end.
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
    use super::super::midi::ring::{Bell, lane};
    use super::*;
    use conductor_core::event::{DeviceSlot, Micros};

    #[test]
    fn a_machine_without_pads_starts_and_lists_none_or_says_why() {
        match Gamepads::start(Arc::new(|| Micros(0)), Arc::new(|_| {})) {
            Ok(pads) => {
                let (sender, _receiver) = lane(DeviceSlot(0), 1000, Bell::silent());
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
        let ours: BTreeSet<Button> = theirs.into_iter().filter_map(button_of).collect();
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
        let (sender, mut receiver) = lane(DeviceSlot(0), 1000, Bell::silent());
        let mut pad = Pad::new(PortInfo::new(NAME, Way::Input, "gamepad:0", "Pad"));
        pad.lane = Some(sender);
        pad.push(&stamp, Body::ButtonDown(Button::South));
        pad.push(&stamp, Body::ButtonDown(Button::East));
        pad.push(&stamp, Body::ButtonUp(Button::East));
        pad.push(&stamp, Body::Axis { axis: Axis::LeftX, value: 0.7 });
        while receiver.pop().is_some() {}
        pad.let_go(&stamp);
        drop(pad);
        let left: Vec<Body> = std::iter::from_fn(|| receiver.pop()).map(|event| event.body).collect();
        assert_eq!(left, [Body::ButtonUp(Button::South), Body::Axis { axis: Axis::LeftX, value: 0.0 }]);
        assert!(receiver.is_abandoned());
    }
}
