//! The owner's side of lights, faders, windows and the approval pad.
//!
//! Not here: LED pictures (`conductor_core::feedback`), the rules for windows
//! (`conductor_core::focus`), and the rules for a held pad (`conductor_core::approval_pad`).

use super::{By, Owner, ports};
use conductor_core::approval_pad::ApprovalPad;
use conductor_core::config::Config;
use conductor_core::event::{DeviceSlot, Event, Micros, Taint};
use conductor_core::feedback::{Fact, Feedback, Light};
use conductor_core::focus::{Focus, Window, Wish};
use conductor_core::mapping::table::Slots;
use conductor_core::policy::PadSettings;
use conductor_gateway::pending_store::Waiting;
use conductor_gateway::pipeline::approval::ApproverPresent;
use conductor_gateway::report::{BackendNow, BackendState};

/// The owner's side of controllers and desktop.
pub(crate) struct Surface {
    pub feedback: Feedback,
    /// Kept between turns, so that a light does not allocate.
    lights: Vec<Light>,
    pub focus: Focus,
    pub pad: ApprovalPad,
    /// While the pad can be held, a person is present to answer.
    armed: Option<ApproverPresent>,
    waiting: Waiting,
    /// Why no display can be used.
    pub display_fault: Option<String>,
}

impl Surface {
    pub fn new(config: &Config, slots: &mut Slots, display_fault: Option<String>) -> Self {
        Surface {
            feedback: Feedback::new(config, slots),
            lights: Vec::with_capacity(64),
            focus: Focus::new(config.per_app_modes.clone()),
            pad: ApprovalPad::new(pad_of(config), slots),
            armed: None,
            waiting: Waiting::default(),
            display_fault,
        }
    }

    pub fn reload(&mut self, config: &Config, slots: &mut Slots) {
        self.feedback.reload(config, slots);
        self.pad.reload(pad_of(config), slots);
    }

    pub fn next_deadline(&self) -> Option<Micros> {
        [self.feedback.next_deadline(), self.pad.next_deadline()].into_iter().flatten().min()
    }

    /// Whether events of a device also concern its lights, its motor faders or the approval pad.
    pub fn watches(&self, device: DeviceSlot) -> bool {
        self.feedback.uses(device) || self.pad.device() == Some(device)
    }

    pub fn backend(&self) -> BackendNow {
        let state = if self.display_fault.is_none() { BackendState::Ready } else { BackendState::Missing };
        BackendNow { name: "desktop".to_owned(), state, reason: self.display_fault.clone() }
    }
}

/// A policy with an error keeps the old one in force, but arms no pad.
fn pad_of(config: &Config) -> Option<&PadSettings> {
    config.policy.as_ref().and_then(|it| it.approval.pad.as_ref())
}

impl Owner {
    /// Takes an event before the engine does. False: it comes from the motor of a fader that we
    /// moved.
    pub(crate) fn is_input(&mut self, event: &Event) -> bool {
        if !self.surface.feedback.hear(event) {
            self.engine.passed_over(event, "the motor of a fader that was just moved");
            return false;
        }
        if self.surface.pad.device() == Some(event.device) {
            let counts = !self.engine.is_muted(event.device) && self.is_hardware(event.device);
            let heard = self.surface.pad.hear(event, counts, self.surface.waiting.only);
            if let Err(why) = heard
                && self.surface.waiting.count > 0
            {
                self.parts.log.info(format_args!("the approval pad was pressed, but {why}"));
            }
        }
        true
    }

    fn is_hardware(&self, device: DeviceSlot) -> bool {
        self.table.devices.iter().any(|it| it.slot == device && it.is_hardware)
    }

    /// Sends due lights to controllers, and the answer of a pad that was held long enough.
    pub(crate) fn show(&mut self) {
        let now = self.parts.clock.now();
        self.answer_by_pad(now);
        self.surface.feedback.read_engine(&mut self.engine, now);
        let mut lights = std::mem::take(&mut self.surface.lights);
        self.surface.feedback.advance(now, &mut lights);
        for light in lights.drain(..) {
            self.surface.pad.lit(light.port, &light.message, now);
            self.engine.shown(light.port, &light.message, light.by, now);
            // Not caused by a hand: where the port leads back to us, it must not press anything.
            if let Err(error) = self.parts.dispatch.send_body(light.port, &light.message, Taint::Tool.into()) {
                self.surface.feedback.not_sent(&light);
                self.not_done(error);
            }
        }
        self.surface.lights = lights;
        self.carry_out();
    }

    fn answer_by_pad(&mut self, now: Micros) {
        let Some(id) = self.surface.pad.advance(now, self.surface.waiting.only) else { return };
        let Some(settings) = self.surface.pad.settings().cloned() else { return };
        self.parts.events.pad_held(settings, id);
    }

    pub(crate) fn waiting_changed(&mut self, waiting: Waiting) {
        self.surface.waiting = waiting;
        self.report(Fact::PendingApprovals(waiting.count), Taint::Tool);
    }

    /// Reports a fact to feedback. `by` is the taint of the change.
    pub(crate) fn report(&mut self, fact: Fact<'_>, by: Taint) {
        let now = self.parts.clock.now();
        self.surface.feedback.changed(fact, by, now);
    }

    /// Updates feedback and the approval pad after a change of ports, mutes or configuration.
    pub(crate) fn devices_changed(&mut self) {
        let now = self.parts.clock.now();
        for device in &self.table.devices {
            let fact = Fact::Connected { device: &device.device_id, connected: device.is_connected() };
            self.surface.feedback.changed(fact, Taint::Clean, now);
        }
        let is_armed = |it: &ports::Bound| Some(it.slot) == self.surface.pad.device() && it.is_hardware;
        let armed = self.table.devices.iter().any(|it| is_armed(it) && !self.engine.is_muted(it.slot));
        if !armed {
            self.surface.armed = None;
        } else if self.surface.armed.is_none() {
            self.surface.armed = Some(self.parts.events.pad_armed());
        }
    }

    pub(crate) fn front_changed(&mut self, window: Option<Window>) {
        self.engine.facts_mut().frontmost_app = window.as_ref().map(|it| it.app.clone());
        let wish = self.surface.focus.focused(window);
        self.follow(wish);
    }

    /// Switches to the mode that the rules for windows choose.
    pub(crate) fn follow(&mut self, wish: Option<Wish>) {
        let Some(wish) = wish else { return };
        if *wish.mode == **self.engine.mode().1 {
            return;
        }
        let now = self.parts.clock.now();
        // A rule can only name a mode of its own configuration; a mode that is gone since changes
        // nothing.
        let _ = self.engine.switch_mode(&wish.mode, Taint::Clean, now, &mut self.effects);
        self.carry_out_by(By::Rule);
    }
}
