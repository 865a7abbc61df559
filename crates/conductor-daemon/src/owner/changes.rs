//! The owner's reactions to changes: devices and ports that were connected or lost, and a new
//! configuration.

use super::ports::{self, News, Table, with_slots};
use super::{By, Owner, Phase};
use crate::config_file::Arrival;
use conductor_core::event::{DeviceSlot, Taint};
use conductor_gateway::config_in_force::ConfigInForce;
use conductor_gateway::report::Lifecycle;
use std::sync::Arc;

impl Owner {
    pub(super) fn ports_changed(&mut self, news: News) {
        let now = self.parts.clock.now();
        match news {
            News::Input { device, lane, taint } => {
                self.desk.inputs.add(lane, taint);
                self.desk.inputs.configure(&self.parts.serving.load().config, &self.parts.slots);
                self.seen.insert(device);
                self.desk.engine.device_back(device, now, &mut self.effects);
                self.parts.log.info(format_args!("{} connected", self.name(device)));
            }
            News::InputLost { device } => {
                for event in self.desk.inputs.remove(device) {
                    self.desk.engine.feed(&event, &mut self.effects);
                }
                self.surface.pad.device_lost(device);
                self.desk.pressed.device_lost(device);
                self.desk.engine.device_lost(device, now, &mut self.effects);
                self.parts.log.warn(format_args!("{} lost", self.name(device)));
            }
            News::Output { port, output } => {
                self.parts.dispatch.opened(port, output);
                self.surface.feedback.port_open(port, true);
                self.desk.engine.output_back(port, now, &mut self.effects);
                self.carry_out();
                self.send_waiting(port);
            }
            News::OutputLost { port } => self.output_lost(port),
            News::NotOpened { port, why } => self.refuse_waiting(port, &why),
            News::Table(table) => {
                self.note_lost(&table);
                self.table = table;
                self.devices_changed();
                if self.phase == Phase::Starting {
                    self.phase = Phase::Serving;
                    for reply in self.awaiting_ready.drain(..) {
                        // Sending fails if the client has disconnected.
                        let _ = reply.send(());
                    }
                }
            }
        }
        self.carry_out();
        self.state_changed = true;
    }

    /// Reports the configured devices that have been lost since the last scan.
    fn note_lost(&self, now: &Table) {
        for before in self.table.devices.iter().filter(|it| it.is_configured && it.is_connected()) {
            let is_lost = |it: &&ports::Bound| it.device_id == before.device_id && !it.is_connected();
            if now.devices.iter().any(|it| is_lost(&it)) {
                self.parts.events.device_lost(&before.device_id, before.port_name().map(String::as_str));
            }
        }
    }

    pub(super) fn output_lost(&mut self, port: DeviceSlot) {
        let now = self.parts.clock.now();
        self.parts.dispatch.closed(port);
        self.surface.feedback.port_open(port, false);
        self.desk.engine.output_lost(port, now, &mut self.effects);
    }

    pub(super) fn config_arrived(&mut self, arrival: Arrival) {
        self.reloading = false;
        self.state_changed = true;
        match arrival {
            Arrival::Same => self.parts.config_error = None,
            Arrival::Accepted(serving) if self.performance_lock => {
                self.parts.config_error =
                    Some("the new configuration waits until the performance lock ends".to_owned());
                self.waiting = Some(serving);
            }
            Arrival::Accepted(serving) => self.put_in_force(serving),
            Arrival::Refused(refusal) => {
                self.statistics.reloads_failed += 1;
                self.parts.log.error(format_args!("the old configuration stays in force: {}", refusal.reason));
                self.parts.events.config_rejected(&refusal.reason);
                self.parts.config_error = Some(refusal.reason);
            }
        }
    }

    pub(super) fn put_in_force(&mut self, serving: Arc<ConfigInForce>) {
        let now = self.parts.clock.now();
        with_slots(&self.parts.slots, |slots| {
            self.desk.engine.reload(&serving.config, slots, now, &mut self.effects);
            self.surface.reload(&serving.config, slots);
        });
        self.carry_out_by(By::Rule);
        self.parts.programs.set(self.desk.engine.tables().asks_for_programs);
        let wish = self.surface.focus.reload(serving.config.per_app_modes.clone());
        self.follow(wish, Taint::Clean);
        self.devices_changed();
        self.parts.log.set_level(serving.config.log_level);
        self.parts.log.info(format_args!(
            "configuration in force: {} modes, {} rows disabled",
            serving.config.modes.len(),
            serving.disabled_mappings()
        ));
        self.desk.inputs.configure(&serving.config, &self.parts.slots);
        self.order(ports::Order::Config(serving.config.clone()));
        self.parts.config_error = None;
        // Store the configuration before sending the event, because receivers of the event read it
        // from here.
        self.parts.serving.store(Arc::clone(&serving));
        self.parts.events.config_in_force(&serving);
        self.mode_changed = true;
        self.publish_modes();
    }

    /// The lifecycle state that `status` reports.
    pub(super) fn lifecycle(&self) -> Lifecycle {
        let lost = |device: &ports::Bound| {
            device.wants_input && self.seen.contains(&device.slot) && !self.desk.inputs.is_open(device.slot)
        };
        match self.phase {
            Phase::Starting => Lifecycle::Starting,
            Phase::Stopping => Lifecycle::Stopping,
            Phase::Serving if self.reloading => Lifecycle::Reloading,
            Phase::Serving if self.parts.config_error.is_some() && self.parts.serving.load().text.is_none() => {
                Lifecycle::Degraded
            }
            Phase::Serving if self.table.devices.iter().any(lost) => Lifecycle::Reconnecting,
            Phase::Serving => Lifecycle::Running,
        }
    }
}
