//! Answers requests to the owner. A request that changes something is carried out before it is
//! answered.

use super::{Owner, Phase, ports, with_slots};
use crate::config_file::one_line;
use crate::owner::dispatch::DispatchError;
use conductor_core::config::Severity;
use conductor_core::engine::TraceRecord;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::midi::{Decoder, Heard};
use conductor_core::event::{Body, DeviceSlot, Event, Micros, Taint};
use conductor_core::feedback::Fact;
use conductor_core::learn::Started;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::owner_handle::{Outgoing, Reply, Request, SentBy, Standing, Traced, Wanted, unknown_mode};
use conductor_gateway::report::{
    BackendNow, BackendState, BindingNow, Bindings, ConfigNow, DeviceNow, DeviceSwitched, Devices, Injected,
    LearningNow, MetersNow, Panicked, Statistics, Status, Switched, input_mode,
};
use conductor_hosts::midi::{LEFT_OUT, check_message};

/// The maximum number of errors in the file that `status` lists; further errors are only counted.
const SHOWN_FAULTS: usize = 16;

/// The device of events that a person plays in the console when no controller is connected.
const CONSOLE: &str = "console";

/// Controllers and values that panic sends on every channel: sustain off, all notes off, all sound
/// off.
const SILENCE: [(u8, u8); 3] = [(64, 0), (123, 0), (120, 0)];

impl Owner {
    pub(super) fn answer(&mut self, request: Request) {
        match request {
            Request::Ready(reply) if self.phase == Phase::Starting => self.awaiting_ready.push(reply),
            Request::Ready(reply) => answer_with(reply, ()),
            Request::Status(reply) => answer_with(reply, self.status()),
            Request::Settled(reply) => answer_with(reply, ()),
            Request::SwitchMode { mode: Some(mode), by, reply } => answer_with(reply, self.switch_mode(&mode, by)),
            Request::SwitchMode { mode: None, by, reply } => answer_with(reply, self.follow_windows(by)),
            Request::Devices(reply) => answer_with(reply, self.devices()),
            Request::Bindings(reply) => answer_with(reply, self.bindings()),
            Request::SetDeviceEnabled { device_id, enabled, reply } => {
                self.set_device_enabled(device_id, enabled, reply)
            }
            Request::ScanPorts(reply) => self.order(ports::Order::Scan(reply)),
            Request::Send(outgoing) => self.send(outgoing),
            Request::ToolGone { connection } => {
                let now = self.parts.clock.now();
                self.desk.engine.tool_gone(connection, now, &mut self.effects);
                self.carry_out();
                self.learn.client_gone(connection);
                self.desk.engine.set_learning(self.learn.holds_back());
                self.state_changed = true;
            }
            Request::Listen { port, heard, reply } => {
                let listening = self.output(&port).map(|slot| self.parts.dispatch.listen(slot, heard));
                answer_with(reply, listening);
            }
            Request::Trace { wanted, reply } => answer_with(reply, self.traced(&wanted)),
            Request::Monitor { records, reply } => {
                self.monitors.push(records);
                // Counting starts with the oldest record that is still in the trace.
                self.uncounted.get_or_insert(0);
                answer_with(reply, ());
            }
            Request::Standing { device, reply } => answer_with(reply, self.standing(device)),
            Request::LearnStart { timeout_ms, let_through, client, reply } => {
                answer_with(reply, self.learn_start(timeout_ms, let_through, client))
            }
            Request::At(time, reply) => {
                // Remove the alarms of disconnected clients.
                self.alarms.retain(|it| !it.1.is_closed());
                self.alarms.push((time, reply));
            }
            Request::LearnStop(reply) => {
                self.state_changed = true;
                let learned = self.learn.stop(self.parts.clock.now());
                self.desk.engine.set_learning(false);
                let serving = self.parts.serving.load_full();
                let report = with_slots(&self.parts.slots, |slots| learned.report(slots, &serving.config.advanced));
                answer_with(reply, report);
            }
            Request::Panic(reply) => answer_with(reply, self.panic()),
            Request::SetPerformanceLock { on, reply } => {
                self.performance_lock = on;
                self.report(Fact::PerformanceLock(on), Taint::Clean);
                if on {
                    self.stop_learning();
                }
                if !on && let Some(serving) = self.waiting.take() {
                    self.put_in_force(serving);
                }
                self.state_changed = true;
                answer_with(reply, ());
            }
            Request::Inject { device, events, reply } => answer_with(reply, self.inject(device, events)),
            Request::Meters { since, reply } => answer_with(reply, self.meters(since)),
        }
    }

    /// Plays events of a person in the console. The console is reached over the network, so the
    /// events are tainted, and the approval pad does not see them.
    fn inject(&mut self, device: Option<String>, events: Vec<Body>) -> Result<Injected, ToolError> {
        let slot = match device {
            Some(device) => self.device(&device)?,
            None => {
                let open = self.table.devices.iter().find(|it| self.desk.inputs.is_open(it.slot)).map(|it| it.slot);
                open.unwrap_or_else(|| with_slots(&self.parts.slots, |slots| slots.slot(CONSOLE)))
            }
        };
        let count = events.len();
        for body in events {
            let at = self.parts.clock.now();
            let event = Event { at, device: slot, taint: Taint::Network, hops: 0, body };
            self.desk.inputs.note_event(slot, at);
            self.desk.pressed.note(&event);
            self.listen(&event);
            self.desk.engine.feed(&event, &mut self.effects);
            self.carry_out();
        }
        Ok(Injected { device: self.name(slot), events: count })
    }

    fn meters(&self, since: Micros) -> MetersNow {
        MetersNow {
            statistics: self.statistics_now(),
            firings: self.firings.since(since),
            held: self.desk.pressed.by_device(|slot| self.name(slot)),
        }
    }

    fn statistics_now(&self) -> Statistics {
        let counters = self.desk.engine.counters();
        Statistics {
            events_processed: counters.events,
            actions_executed: counters.actions.saturating_sub(self.actions_undone),
            events_dropped: self.desk.inputs.dropped() + counters.over_hops,
            actions_failed: self.statistics.actions_failed + counters.actions_failed,
            reloads_failed: self.statistics.reloads_failed,
            events_in_period: self.desk.counts.decided,
            events_after_owner: self.desk.counts.busy,
            events_to_owner: self.desk.counts.deferred,
            events_inverted: self.desk.counts.inverted,
        }
    }

    fn status(&self) -> Status {
        let serving = self.parts.serving.load();
        let is_open = |it: &&ports::Bound| self.desk.inputs.is_open(it.slot);
        let device = self.table.devices.iter().find(is_open).map(|it| {
            let name = it.input.as_ref().unwrap_or(&it.device_id);
            let lists = [&self.table.inputs, &self.table.gamepads, &self.table.osc_listeners];
            DeviceNow {
                name: name.clone(),
                alias: it.is_configured.then(|| it.device_id.clone()),
                port: lists.into_iter().find_map(|list| list.iter().position(|it| it == name)).unwrap_or(0),
                last_event_at: self.desk.inputs.last_event(it.slot).map(|at| self.date(at).as_millis() / 1000),
            }
        });
        let is_connected = device.is_some();
        let remarks = self.parts.remarks.load();
        let faults = serving.diagnostics.iter().chain(remarks.iter()).filter(|it| it.severity >= Severity::Error);
        let faults: Vec<String> = faults.map(one_line).collect();
        Status {
            daemon_running: true,
            lifecycle_state: self.lifecycle(),
            connected: is_connected,
            device_connected: is_connected,
            device,
            uptime_secs: self.parts.clock.now().since(self.started) / 1_000_000,
            input_mode: input_mode(serving.config.advanced.input_mode),
            statistics: self.statistics_now(),
            running: true,
            current_mode: self.desk.engine.mode().1.to_string(),
            mode_index: self.desk.engine.mode().0.0.into(),
            last_event_at_iso: self.desk.inputs.newest_event().map(|at| self.date(at)),
            backends: self.backends(),
            config: ConfigNow {
                hash: serving.hash_text(),
                loaded_at: serving.loaded_at,
                error: self.parts.config_error.clone(),
                disabled_mappings: serving.disabled_mappings(),
                faults: faults.len(),
                fault_lines: faults.into_iter().take(SHOWN_FAULTS).collect(),
                held: serving.waiting.held.names(),
                held_since: serving.waiting.since,
                closed: serving.waiting.closed.as_deref().map(str::to_owned),
                unprotected: serving.waiting.typing.clone(),
            },
            performance_lock: self.performance_lock,
            learning: self.learn.running().map(|it| LearningNow {
                since: it.since,
                until: it.until,
                let_through: it.let_through,
            }),
            pid: std::process::id(),
        }
    }

    fn backends(&self) -> Vec<BackendNow> {
        let missing = |name: &str, reason: &Option<String>| {
            let state = BackendState::Missing;
            reason.clone().map(|reason| BackendNow { name: name.to_owned(), state, reason: Some(reason) })
        };
        let mut backends = self.table.backends.clone();
        backends.push(self.surface.backend());
        backends.extend(left_out(LEFT_OUT));
        backends.extend(missing("watch", &self.parts.watch_error));
        backends.extend(missing("http", &self.parts.events.http_fault()));
        backends
    }

    fn switch_mode(&mut self, mode: &str, by: Taint) -> Result<Switched, ToolError> {
        let now = self.parts.clock.now();
        let switched = self.desk.engine.switch_mode(mode, by, now, &mut self.effects);
        self.carry_out();
        switched.map_err(|_| unknown_mode(mode, &self.parts.serving.load()))?;
        // Suspend the window rules even if this is already the current mode, because the caller
        // wants to keep the mode.
        self.surface.focus.chosen_by_hand();
        Ok(self.switched())
    }

    /// Ends the effect of a manual mode change: the window rules select the mode again.
    fn follow_windows(&mut self, by: Taint) -> Result<Switched, ToolError> {
        if self.parts.serving.load().config.per_app_modes.is_none() {
            return Err(ToolError::new(
                Code::BadInput,
                "the mode cannot follow the front window, because the configuration has no [per_app_modes]",
            )
            .subject(Subject::Config("per_app_modes".into()))
            .hint("Write rules under [per_app_modes], such as rules = { Live = \"Session\" }."));
        }
        let wish = self.surface.focus.release();
        self.follow(wish, by);
        Ok(self.switched())
    }

    fn switched(&mut self) -> Switched {
        self.publish_modes();
        let (index, name) = self.desk.engine.mode();
        Switched {
            success: true,
            mode_name: name.to_string(),
            mode_index: index.0.into(),
            total_modes: self.parts.serving.load().config.modes.len(),
        }
    }

    fn devices(&self) -> Devices {
        Devices {
            midi_inputs: self.table.inputs.clone(),
            midi_outputs: self.table.outputs.clone(),
            gamepads: self.table.gamepads.clone(),
            osc_listeners: self.table.osc_listeners.clone(),
            backends: self.backends(),
        }
    }

    fn bindings(&self) -> Bindings {
        let serving = self.parts.serving.load();
        let described = |alias: &str| serving.config.devices.iter().find(|it| it.alias == alias)?.description.clone();
        let rows = self.table.devices.iter().map(|it| BindingNow {
            device_id: it.device_id.clone(),
            port_name: it.port_name().cloned(),
            output: it.output.clone(),
            connected: it.is_connected(),
            enabled: !self.desk.engine.is_muted(it.slot),
            is_configured: it.is_configured,
            description: described(&it.device_id),
            tainted: self.desk.inputs.taint(it.slot).is_some_and(|it| it != Taint::Clean),
        });
        Bindings::of(rows.collect())
    }

    fn device(&self, device_id: &str) -> Result<DeviceSlot, ToolError> {
        let slot = self.table.devices.iter().find(|it| it.device_id == device_id).map(|it| it.slot);
        slot.ok_or_else(|| {
            let known: Vec<&str> = self.table.devices.iter().map(|it| it.device_id.as_str()).collect();
            let message = format!("no device '{device_id}'; there are: {}", known.join(", "));
            ToolError::new(Code::NotFound, message).subject(Subject::Device(device_id.to_owned()))
        })
    }

    fn standing(&self, device: Option<String>) -> Result<Standing, ToolError> {
        let slot = device.map(|it| self.device(&it)).transpose()?;
        Ok(Standing {
            mode: self.desk.engine.mode().1.to_string(),
            muted: slot.is_some_and(|it| self.desk.engine.is_muted(it)),
            absent: slot.is_some_and(|it| !self.desk.inputs.is_open(it)),
            taint: slot.and_then(|it| self.desk.inputs.taint(it)).unwrap_or_default(),
        })
    }

    fn set_device_enabled(
        &mut self,
        device_id: String,
        enabled: bool,
        reply: Reply<Result<DeviceSwitched, ToolError>>,
    ) {
        let slot = match self.device(&device_id) {
            Ok(slot) => slot,
            Err(error) => return answer_with(reply, Err(error)),
        };
        let now = self.parts.clock.now();
        self.desk.engine.set_muted(slot, !enabled, now, &mut self.effects);
        self.carry_out();
        self.devices_changed();
        self.state_changed = true;
        let message = format!("Device '{device_id}' {}", if enabled { "enabled" } else { "muted" });
        let serving = self.parts.serving.load();
        let is_disabled = serving.config.devices.iter().any(|it| it.alias == device_id && !it.enabled);
        let switched = DeviceSwitched { device_id: device_id.clone(), enabled, message };
        if enabled && is_disabled {
            // The port is not open yet; the reply is sent after the next scan.
            self.order(ports::Order::Enable(device_id, Box::new(move || answer_with(reply, Ok(switched)))));
        } else {
            answer_with(reply, Ok(switched));
        }
    }

    /// Finds an output by its device alias, or else by the exact name of its port. Similar names do
    /// not match.
    fn output(&mut self, port: &str) -> Result<DeviceSlot, ToolError> {
        let serving = self.parts.serving.load();
        let is_alias = serving.config.devices.iter().any(|it| it.alias == port && it.direction.has_output());
        if is_alias || self.table.outputs.iter().any(|it| it == port) {
            return Ok(with_slots(&self.parts.slots, |slots| slots.slot(port)));
        }
        let aliases = serving.config.devices.iter().filter(|it| it.direction.has_output()).map(|it| &it.alias);
        let mut known: Vec<&str> = aliases.chain(&self.table.outputs).map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(ToolError::new(Code::NotFound, format!("no output '{port}'; there are: {there}"))
            .subject(Subject::Port(port.to_owned()))
            .hint("Use a device alias or the exact name of a port from the message."))
    }

    fn send(&mut self, outgoing: Outgoing) {
        let checked = self.output(&outgoing.port).and_then(|slot| check(&outgoing.messages).map(|()| slot));
        match checked {
            Err(error) => answer_with(outgoing.reply, Err(error)),
            Ok(slot) if self.parts.dispatch.is_open(slot) => self.send_now(slot, outgoing),
            Ok(slot) => {
                self.order(ports::Order::OpenOutput(outgoing.port.clone()));
                self.outgoing.push((slot, outgoing));
            }
        }
    }

    fn learn_start(&mut self, timeout_ms: u32, let_through: bool, client: Option<u64>) -> Result<Started, ToolError> {
        let can_be_heard = |it: &ports::Bound| self.desk.inputs.is_open(it.slot) && !self.desk.engine.is_muted(it.slot);
        if !self.table.devices.iter().any(can_be_heard) {
            return Err(ToolError::new(Code::HostOffline, "no input is connected, so nothing can be learned")
                .subject(Subject::Device("any".into()))
                .hint("Connect a controller, or check with conductor_list_device_bindings whether it is muted."));
        }
        let wall = Timestamp::from_millis(self.parts.clock.wall_ms());
        self.state_changed = true;
        let started = self.learn.start(timeout_ms, let_through, client, self.parts.clock.now(), wall);
        self.desk.engine.set_learning(self.learn.holds_back());
        Ok(started)
    }

    pub(crate) fn stop_learning(&mut self) {
        self.state_changed |= self.learn.running().is_some();
        self.learn.end();
        self.desk.engine.set_learning(false);
    }

    pub(crate) fn send_waiting(&mut self, port: DeviceSlot) {
        let (ready, waiting) = std::mem::take(&mut self.outgoing).into_iter().partition(|(it, _)| *it == port);
        self.outgoing = waiting;
        let ready: Vec<(DeviceSlot, Outgoing)> = ready;
        for (_, outgoing) in ready {
            self.send_now(port, outgoing);
        }
    }

    pub(crate) fn refuse_waiting(&mut self, port: DeviceSlot, why: &str) {
        let (refused, waiting) = std::mem::take(&mut self.outgoing).into_iter().partition(|(it, _)| *it == port);
        self.outgoing = waiting;
        let refused: Vec<(DeviceSlot, Outgoing)> = refused;
        for (_, outgoing) in refused {
            answer_with(outgoing.reply, Err(offline(&outgoing.port, why)));
        }
    }

    fn send_now(&mut self, slot: DeviceSlot, outgoing: Outgoing) {
        let Outgoing { port, messages, by, reply } = outgoing;
        let now = self.parts.clock.now();
        let taint = match by {
            SentBy::Person | SentBy::Hand { .. } => Taint::Clean,
            SentBy::Tool { .. } => Taint::Tool,
        };
        self.surface.pad.sent(now);
        let mut decoder = Decoder::default();
        for (index, message) in messages.iter().enumerate() {
            if let Err(failed) = self.parts.dispatch.send(slot, message, taint.into()) {
                let error = match &failed {
                    DispatchError::NoOutput(_) | DispatchError::Died(_) => offline(&port, "the port was disconnected"),
                    DispatchError::Refused(why) => ToolError::new(Code::Busy, format!("message {index}: {why}")),
                };
                self.not_done(failed);
                self.carry_out();
                return answer_with(reply, Err(error.more("messages_sent", index.into())));
            }
            if let SentBy::Tool { connection } = by {
                decoder.decode(message, |heard| {
                    let body = match heard {
                        Heard::Message(body) => body,
                        Heard::SysEx(data) => Body::SysEx(data.into()),
                    };
                    self.desk.engine.tool_sent(connection, slot, &body, now);
                });
            } else if let SentBy::Hand { connection } = by {
                decoder.decode(message, |heard| {
                    if let Heard::Message(body) = heard {
                        self.desk.engine.hold_for(connection, slot, &body, now);
                    }
                });
            }
        }
        answer_with(reply, Ok(messages.len()));
    }

    fn traced(&self, wanted: &Wanted) -> Traced {
        let trace = self.desk.engine.trace();
        let since = wanted.since_seq.unwrap_or(0);
        let matches = |record: &TraceRecord| {
            let is = |asked: &Option<String>, got: Option<&str>| asked.as_deref().is_none_or(|it| Some(it) == got);
            is(&wanted.device, Some(&record.device))
                && is(&wanted.mapping_id, record.mapping_id.as_deref())
                && is(&wanted.outcome, Some(record.outcome.name()))
        };
        let mut records: Vec<TraceRecord> =
            with_slots(&self.parts.slots, |slots| self.desk.engine.traced(since, slots).filter(matches).collect());
        let limit = wanted.limit.unwrap_or(50);
        // Without `since_seq`, return the newest records. With `since_seq`, return the oldest
        // records from that number on.
        let next_seq = match wanted.since_seq {
            Some(_) if records.len() > limit => {
                records.truncate(limit);
                records.last().map_or(since, |it| it.seq + 1)
            }
            Some(_) | None => {
                records.drain(..records.len().saturating_sub(limit));
                trace.next_seq()
            }
        };
        Traced {
            records,
            next_seq,
            lost: trace.first_seq().saturating_sub(since) * u64::from(wanted.since_seq.is_some()),
        }
    }

    fn panic(&mut self) -> Panicked {
        let now = self.parts.clock.now();
        self.stop_learning();
        let report = self.desk.engine.panic(now, &mut self.effects);
        self.carry_out();
        let open: Vec<DeviceSlot> = self.parts.dispatch.open_outputs().collect();
        for port in &open {
            let silence = (0..16u8).flat_map(|channel| SILENCE.map(|(cc, value)| [0xB0 | channel, cc, value]));
            for message in silence {
                // The messages are tainted, because a tool may request a panic. If the port leads
                // back to an input, the messages must not fire sensitive actions.
                if let Err(failed) = self.parts.dispatch.send(*port, &message, Taint::Tool.into()) {
                    self.not_done(failed);
                }
            }
        }
        for (controller, value) in SILENCE {
            self.desk.engine.sent_without_hand(&Body::Cc { channel: 0, controller, value }, now);
        }
        self.carry_out();
        Panicked {
            ports: open.into_iter().map(|it| self.name(it)).collect(),
            notes_released: report.notes_released,
            keys_released: report.keys_released,
            actions_cancelled: report.actions_cancelled,
        }
    }
}

/// Backends that this build does not include, for `status`.
fn left_out(names: &[&str]) -> impl Iterator<Item = BackendNow> {
    names.iter().map(|name| BackendNow {
        name: (*name).to_owned(),
        state: BackendState::Missing,
        reason: Some("not part of this build; build with --features studio".to_owned()),
    })
}

/// Sends a reply. If the caller has disconnected, the reply is dropped, but its request was carried
/// out.
fn answer_with<T>(reply: Reply<T>, answer: T) {
    let _ = reply.send(answer);
}

fn check(messages: &[Vec<u8>]) -> Result<(), ToolError> {
    for (index, message) in messages.iter().enumerate() {
        check_message(message).map_err(|why| {
            ToolError::new(Code::BadInput, format!("message {index}: {why}; nothing was sent"))
                .subject(Subject::Argument(format!("/messages/{index}")))
        })?;
    }
    Ok(())
}

fn offline(port: &str, why: &str) -> ToolError {
    ToolError::new(Code::HostOffline, format!("port '{port}': {why}")).subject(Subject::Port(port.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_a_backend_says_so() {
        let backends: Vec<BackendNow> = left_out(&["jack", "gamepad"]).collect();
        assert_eq!(backends.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["jack", "gamepad"]);
        for backend in backends {
            assert_eq!(backend.state, BackendState::Missing);
            assert!(backend.reason.is_some_and(|it| it.contains("not part of this build") && it.contains("studio")));
        }
    }
}
