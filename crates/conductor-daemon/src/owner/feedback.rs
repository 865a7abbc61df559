//! The owner's part of lights, faders, window rules and the approval pad.
//!
//! Not here: LED schemes (`conductor_core::feedback`), window rules (`conductor_core::focus`), and
//! the rules for holding the approval pad (`conductor_core::approval_pad`).

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

/// The owner's state for lights, window rules and the approval pad.
pub(crate) struct Surface {
    pub feedback: Feedback,
    /// A buffer that is reused in every turn of the loop, so that a light does not allocate.
    lights: Vec<Light>,
    pub focus: Focus,
    pub pad: ApprovalPad,
    /// Present while the pad can be held, so that a person can answer approval requests with it.
    armed: Option<ApproverPresent>,
    waiting: Waiting,
    /// The reason why no display can be used.
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

    /// Whether events of this device must be passed to [`Owner::is_input`], because the device has
    /// lights, motor faders or the approval pad.
    pub fn watches(&self, device: DeviceSlot) -> bool {
        self.feedback.uses(device) || self.pad.device() == Some(device)
    }

    pub fn backend(&self) -> BackendNow {
        let state = if self.display_fault.is_none() { BackendState::Ready } else { BackendState::Missing };
        BackendNow { name: "desktop".to_owned(), state, reason: self.display_fault.clone() }
    }
}

/// The settings of the approval pad. Also `None` if the new policy has an error: the old policy
/// stays in force, but the pad is disabled.
fn pad_of(config: &Config) -> Option<&PadSettings> {
    config.policy.as_ref().and_then(|it| it.approval.pad.as_ref())
}

impl Owner {
    /// Processes an event before the engine does. Returns `false` if the event was caused by the
    /// motor of a fader that we moved.
    pub(crate) fn is_input(&mut self, event: &Event) -> bool {
        if !self.surface.feedback.hear(event) {
            self.desk.engine.passed_over(event, "the event was caused by the motor of a fader that was just moved");
            return false;
        }
        if self.surface.pad.device() == Some(event.device) {
            let counts = !self.desk.engine.is_muted(event.device) && self.is_hardware(event.device);
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

    /// Sends due lights to controllers, and reports an approval pad that was held long enough.
    pub(crate) fn show(&mut self) {
        let now = self.parts.clock.now();
        self.answer_by_pad(now);
        self.surface.feedback.read_engine(&mut self.desk.engine, now);
        let mut lights = std::mem::take(&mut self.surface.lights);
        self.surface.feedback.advance(now, &mut lights);
        for light in lights.drain(..) {
            self.surface.pad.lit(light.port, &light.message, now);
            self.desk.engine.shown(light.port, &light.message, light.by, now);
            // The message is tainted: if the port leads back to an input, the message must not fire
            // sensitive actions.
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

    /// Passes a changed state to feedback. `by` is the taint of the change.
    pub(crate) fn report(&mut self, fact: Fact<'_>, by: Taint) {
        let now = self.parts.clock.now();
        self.surface.feedback.changed(fact, by, now);
    }

    /// Updates feedback and the approval pad after ports, mutes or the configuration have changed.
    pub(crate) fn devices_changed(&mut self) {
        let now = self.parts.clock.now();
        for device in &self.table.devices {
            let fact = Fact::Connected { device: &device.device_id, connected: device.is_connected() };
            self.surface.feedback.changed(fact, Taint::Clean, now);
        }
        let is_armed = |it: &ports::Bound| Some(it.slot) == self.surface.pad.device() && it.is_hardware;
        let armed = self.table.devices.iter().any(|it| is_armed(it) && !self.desk.engine.is_muted(it.slot));
        if !armed {
            self.surface.armed = None;
        } else if self.surface.armed.is_none() {
            self.surface.armed = Some(self.parts.events.pad_armed());
        }
    }

    pub(crate) fn front_changed(&mut self, window: Option<Window>) {
        self.desk.engine.facts_mut().frontmost_app = window.as_ref().map(|it| it.app.clone());
        let wish = self.surface.focus.focused(window);
        self.follow(wish, Taint::Clean);
    }

    /// Switches to the mode that the window rules select. `by` is the taint of the cause.
    pub(crate) fn follow(&mut self, wish: Option<Wish>, by: Taint) {
        let Some(wish) = wish else { return };
        if *wish.mode == **self.desk.engine.mode().1 {
            return;
        }
        let now = self.parts.clock.now();
        // The mode exists in the configuration of the rule. If it was removed since, nothing
        // changes.
        let _ = self.desk.engine.switch_mode(&wish.mode, by, now, &mut self.effects);
        self.carry_out_by(By::Rule);
    }
}
