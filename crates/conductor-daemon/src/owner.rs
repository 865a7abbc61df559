//! The owner: one thread that owns the engine, the open ports and the state of the studio. The
//! thread waits only for events, messages and its next deadline. It never blocks on anything else.
//!
//! Not here: gestures and actions (`conductor_core::engine`), sending effects (`dispatch`),
//! answering requests (`requests`), and changes to ports and configuration (`changes`).

mod activity;
pub mod backends;
mod changes;
pub mod desk;
pub mod desktop;
pub mod dispatch;
pub mod events;
mod feedback;
pub mod inputs;
pub mod ports;
mod requests;
pub mod wake;

use self::activity::Firings;
use self::wake::Wake;
use crate::config_file::Remarks;
use crate::log::Log;
use crate::owner::desk::Desk;
use crate::owner::desktop::AppsWanted;
use crate::owner::dispatch::{Dispatch, DispatchError};
use crate::owner::events::OwnerEvents;
use arc_swap::ArcSwap;
use conductor_core::engine::{Effect, TraceRecord};
use conductor_core::event::{Body, DeviceSlot, Event, Micros, Taint};
use conductor_core::feedback::Fact;
use conductor_core::learn::Learn;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::config_in_force::ConfigInForce;
use conductor_gateway::owner_handle::{Outgoing, Reply};
use conductor_gateway::report::{Modes, Statistics};
use conductor_hosts::midi::ring::Bell;
use conductor_hosts::midi::try_lock::Held;
use conductor_hosts::system::Clock;
use feedback::Surface;
use ports::{SharedSlots, Table, with_slots};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::mpsc as async_mpsc;

/// The maximum number of events that are processed before messages are read, so that a flooding
/// device cannot delay `panic`.
const EVENTS_PER_TURN: usize = 1024;
/// The name of the owner's thread.
pub const OWNER: &str = "owner";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first scan of ports is not complete.
    Starting,
    Serving,
    Stopping,
}

pub(crate) struct Parts {
    pub clock: Arc<dyn Clock>,
    pub log: Log,
    pub bell: Bell,
    pub wakes: mpsc::Receiver<Wake>,
    pub ports: mpsc::Sender<ports::Order>,
    pub scan_signal: Arc<ports::ScanSignal>,
    pub slots: SharedSlots,
    pub serving: Arc<ArcSwap<ConfigInForce>>,
    pub modes: Arc<ArcSwap<Modes>>,
    pub dispatch: Dispatch,
    /// The reason why the file was not put in force at the start.
    pub config_error: Option<String>,
    /// Warnings about names in the file that do not exist on this machine.
    pub remarks: Remarks,
    /// The reason why the file is not watched.
    pub watch_error: Option<String>,
    /// The reason why no display could be used at the start.
    pub display_fault: Option<String>,
    pub programs: AppsWanted,
    pub events: Arc<dyn OwnerEvents>,
}

/// The cause of a mode change. After `Hand` (a pad, a tool or the command line), window rules are
/// suspended. After `Rule`, they stay active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Hand,
    Rule,
}

pub(crate) struct Owner {
    parts: Parts,
    /// The engine and the data to decide an event. The owner holds the desk, except while it waits.
    desk: Held<Desk>,
    table: Arc<Table>,
    started: Micros,
    phase: Phase,
    /// A change to the file was noticed, but the file has not been checked yet.
    reloading: bool,
    /// Devices that were connected at some time since the start.
    seen: BTreeSet<DeviceSlot>,
    statistics: Statistics,
    /// Number of actions that failed, although the engine counts them as performed.
    actions_undone: u64,
    /// The engine's count of actions when effects were last carried out.
    counted: u64,
    performance_lock: bool,
    /// A configuration that waits for the end of the performance lock.
    waiting: Option<Arc<ConfigInForce>>,
    awaiting_ready: Vec<Reply<()>>,
    /// Replies that are sent at a given time.
    alarms: Vec<(Micros, Reply<()>)>,
    /// Messages that are sent when their port is open.
    outgoing: Vec<(DeviceSlot, Outgoing)>,
    monitors: Vec<async_mpsc::Sender<TraceRecord>>,
    /// Trace records before this number have been sent to the monitors.
    monitored: u64,
    /// A buffer that is reused in every turn of the loop, so that a press does not allocate.
    effects: Vec<Effect>,
    local_minute: u64,
    learn: Learn,
    surface: Surface,
    /// Whether the mode or the configuration has changed since the modes were last published.
    mode_changed: bool,
    /// How often each mapping fired, by mode and id.
    firings: Firings,
    /// The first trace record whose firing is not counted yet. Absent until a page or a monitor is
    /// opened, because before that the counts are not used.
    uncounted: Option<u64>,
    /// Whether to report that the state changed, at the end of this turn.
    state_changed: bool,
}

impl Owner {
    pub fn new(parts: Parts, desk: Held<Desk>) -> Self {
        let now = parts.clock.now();
        let serving = parts.serving.load_full();
        let surface =
            with_slots(&parts.slots, |slots| Surface::new(&serving.config, slots, parts.display_fault.clone()));
        parts.log.set_level(serving.config.log_level);
        parts.programs.set(desk.engine.tables().asks_for_programs);
        let mut owner = Owner {
            table: Arc::default(),
            started: now,
            phase: Phase::Starting,
            reloading: false,
            seen: BTreeSet::new(),
            statistics: Statistics::default(),
            actions_undone: 0,
            counted: 0,
            performance_lock: serving.config.performance.lock,
            waiting: None,
            awaiting_ready: Vec::new(),
            alarms: Vec::new(),
            outgoing: Vec::new(),
            monitors: Vec::new(),
            monitored: 0,
            effects: Vec::with_capacity(64),
            local_minute: u64::MAX,
            learn: Learn::default(),
            surface,
            mode_changed: true,
            desk,
            firings: Firings::default(),
            uncounted: None,
            state_changed: false,
            parts,
        };
        owner.publish_modes();
        owner
    }

    /// Publishes the mode, so that other threads can read it without a request to the owner.
    fn publish_modes(&mut self) {
        if std::mem::take(&mut self.mode_changed) {
            let config = &self.parts.serving.load().config;
            self.parts.modes.store(Arc::new(Modes::of(config, self.desk.engine.mode().1)));
            self.state_changed = true;
        }
    }

    /// Runs until the owner is stopped. Then releases all held notes and keys and returns.
    pub fn run(mut self) {
        loop {
            // Reset the wake-up signal before reading events, so that an event that arrives after
            // this line sets it again.
            self.parts.bell.answer();
            self.read_local_time();
            self.finish_periods();
            let first = self.desk.engine.trace().next_seq();
            let fed = self.feed();
            let done = self.take_wakes();
            self.advance();
            self.publish_modes();
            self.show();
            self.desk.engine.trace_mut().stamp(first, self.parts.clock.now());
            self.notify_monitors();
            if std::mem::take(&mut self.state_changed) {
                self.parts.events.state_changed();
            }
            if done.is_break() {
                return;
            }
            if fed < EVENTS_PER_TURN {
                self.wait();
            }
        }
    }

    /// Carries out the effects that callbacks have left since the owner last held the desk.
    fn finish_periods(&mut self) {
        if let Some(at) = self.desk.sent.take() {
            self.surface.pad.sent(at);
        }
        self.effects.append(&mut self.desk.left);
        self.carry_out();
    }

    /// Prepares the desk for callbacks, and releases it until there is something to do.
    fn wait(&mut self) {
        let next_minute = self.desk.engine.tables().asks_for_time.then(|| self.next_minute());
        let deadlines = [
            self.desk.engine.next_deadline(),
            self.learn.next_deadline(),
            self.surface.next_deadline(),
            self.alarms.iter().map(|it| it.0).min(),
            next_minute,
        ];
        let deadline = deadlines.into_iter().flatten().min();
        let desk = &mut *self.desk;
        desk.owner_first = self.learn.session().is_some() || self.parts.dispatch.has_listeners();
        desk.owner_watches = self.surface.feedback.is_used() || !self.monitors.is_empty();
        desk.owner_wakes = deadline;
        desk.owner_read = self.uncounted;
        desk.inputs.watch(|device| self.surface.watches(device));
        desk.make_room();
        let clock = &self.parts.clock;
        self.desk.released(|| match deadline {
            None => std::thread::park(),
            Some(at) => std::thread::park_timeout(Duration::from_micros(at.since(clock.now()))),
        });
    }

    /// The start of the next minute. Conditions may depend on the local time.
    fn next_minute(&self) -> Micros {
        let clock = &self.parts.clock;
        clock.now().plus_us((60_000 - clock.wall_ms() % 60_000) * 1000)
    }

    fn feed(&mut self) -> usize {
        let mut fed = 0;
        while fed < EVENTS_PER_TURN
            && let Some(event) = self.desk.inputs.next_event()
        {
            fed += 1;
            self.desk.note_order(&event);
            self.desk.inputs.note_event(event.device, event.at);
            self.desk.pressed.note(&event);
            if self.surface.watches(event.device) && !self.is_input(&event) {
                continue;
            }
            self.listen(&event);
            self.desk.engine.feed(&event, &mut self.effects);
            self.carry_out();
        }
        fed
    }

    /// Converts a time of the daemon's clock to wall time.
    fn date(&self, at: Micros) -> Timestamp {
        let ago_ms = self.parts.clock.now().since(at) / 1000;
        Timestamp::from_millis(self.parts.clock.wall_ms().saturating_sub(ago_ms))
    }

    /// Passes the event to a running learn session, before the engine processes it.
    fn listen(&mut self, event: &Event) {
        if self.learn.session().is_some() {
            self.end_learning();
            self.learn.feed(event, Timestamp::from_millis(self.parts.clock.wall_ms()));
        }
    }

    fn end_learning(&mut self) {
        self.state_changed |= self.learn.advance(self.parts.clock.now());
        self.desk.engine.set_learning(self.learn.holds_back());
    }

    fn advance(&mut self) {
        let now = self.parts.clock.now();
        self.end_learning();
        self.desk.engine.advance(now, &mut self.effects);
        self.carry_out();
        for (_, reply) in self.alarms.extract_if(.., |it| it.0 <= now) {
            // Sending fails if the client has disconnected.
            let _ = reply.send(());
        }
    }

    fn take_wakes(&mut self) -> ControlFlow<()> {
        while let Ok(wake) = self.parts.wakes.try_recv() {
            match wake {
                Wake::Stop => {
                    self.stop();
                    return ControlFlow::Break(());
                }
                Wake::Request(request) => self.answer(request),
                Wake::ConfigSeen => self.reloading = true,
                Wake::Config(arrival) => self.config_arrived(arrival),
                Wake::Ports(news) => self.ports_changed(news),
                Wake::CallDone { ticket, ok } => {
                    let now = self.parts.clock.now();
                    self.desk.engine.call_done(ticket, ok, now, &mut self.effects);
                    self.carry_out();
                }
                Wake::WorkerFailed => {
                    self.statistics.actions_failed += 1;
                    self.actions_undone += 1;
                }
                Wake::Waiting(waiting) => self.waiting_changed(waiting),
                Wake::Display(found) => self.surface.display_fault = found.err(),
                Wake::Front(window) => self.front_changed(window),
                Wake::Programs(running) => self.desk.engine.facts_mut().running_apps = running,
                Wake::LiveParameters(values) => {
                    for (path, reading) in &values {
                        self.report(Fact::LiveParameter { path, value: reading.share }, Taint::Tool);
                        self.desk.engine.live_parameter_read(path, *reading);
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn carry_out(&mut self) {
        self.carry_out_by(By::Hand);
    }

    /// Carries out all effects. If an output fails, the engine adds further effects, so the loop
    /// continues until no effects are left.
    fn carry_out_by(&mut self, by: By) {
        let mut failed = 0;
        while !self.effects.is_empty() {
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..).map(Effect::rendered) {
                self.note_sent(&effect);
                if let Err(error) = self.parts.dispatch.carry_out(effect) {
                    failed += 1;
                    self.not_done(error);
                }
            }
            if self.effects.is_empty() {
                // Keep the emptied buffer for the next turn, because it has more capacity.
                self.effects = effects;
            }
        }
        // One action may have several effects, and a release is not an action. So there may be more
        // failures than actions, and the count is limited.
        self.actions_undone += failed.min(self.desk.engine.counters().actions.saturating_sub(self.counted));
        self.counted = self.desk.engine.counters().actions;
        self.mode_may_have_changed(by);
    }

    /// Records a message that is about to be sent. An echo of the message must not press the
    /// approval pad. If no person's input caused the message, a copy that comes back over a cable
    /// is tainted.
    fn note_sent(&mut self, effect: &Effect) {
        let now = self.parts.clock.now();
        if let Effect::Midi { message, taint, .. } = effect {
            self.surface.pad.sent(now);
            if *taint != Taint::Clean {
                self.desk.engine.sent_without_hand(message, now);
            }
        } else if let Effect::Osc { message, taint, .. } = effect
            && *taint != Taint::Clean
        {
            self.desk.engine.sent_without_hand(&Body::Osc(Arc::clone(message)), now);
        }
    }

    /// Reacts to a mode change, if there was one. `By::Hand` suspends the window rules.
    fn mode_may_have_changed(&mut self, by: By) {
        let changes = self.desk.engine.counters().mode_changes;
        if std::mem::replace(&mut self.desk.mode_changes, changes) == changes {
            return;
        }
        self.mode_changed = true;
        self.stop_learning();
        self.parts.log.info(format_args!("mode {}", self.desk.engine.mode().1));
        match by {
            By::Hand => self.surface.focus.chosen_by_hand(),
            By::Rule => {}
        }
    }

    fn not_done(&mut self, error: DispatchError) {
        self.statistics.actions_failed += 1;
        match error {
            DispatchError::NoOutput(_) => {}
            DispatchError::Died(port) => {
                self.output_lost(port);
                self.order(ports::Order::OutputDied(port));
            }
            DispatchError::Refused(why) => self.parts.log.debug(why),
        }
    }

    fn order(&self, order: ports::Order) {
        // Sending fails only if the port thread has ended, and that thread outlives the owner.
        if self.parts.ports.send(order).is_ok() {
            self.parts.scan_signal.wake();
        }
    }

    fn stop(&mut self) {
        self.phase = Phase::Stopping;
        // Decide all events here from now on: a callback could start a note that the owner would
        // not end.
        self.desk.owner_first = true;
        self.alarms.clear();
        // Process the events that arrived before the stop. A release among them ends its note
        // normally.
        self.feed();
        let now = self.parts.clock.now();
        self.desk.engine.panic(now, &mut self.effects);
        self.carry_out();
        self.parts.log.info("stopped; all notes and keys are released");
    }

    fn notify_monitors(&mut self) {
        let next = self.desk.engine.trace().next_seq();
        if let Some(first) = self.uncounted {
            for (mode, mapping, at) in self.desk.engine.fired(first) {
                self.firings.count(mode, mapping, at);
            }
            self.uncounted = Some(next);
        }
        self.monitors.retain(|it| !it.is_closed());
        if !self.monitors.is_empty() && next > self.monitored {
            let records: Vec<TraceRecord> =
                with_slots(&self.parts.slots, |slots| self.desk.engine.traced(self.monitored, slots).collect());
            for record in records {
                for monitor in &self.monitors {
                    // If the monitor is slow, it loses the record, because the owner must not wait.
                    let _ = monitor.try_send(record.clone());
                }
            }
        }
        self.monitored = next;
    }

    /// Updates the local time for conditions. The time is read at most once a minute, and only when
    /// the loop runs.
    fn read_local_time(&mut self) {
        let minute = self.parts.clock.wall_ms() / 60_000;
        if minute != self.local_minute {
            self.local_minute = minute;
            let local = self.parts.clock.local();
            let facts = self.desk.engine.facts_mut();
            facts.minute_of_day = local.minute_of_day;
            facts.weekday = local.weekday;
        }
    }

    fn name(&self, slot: DeviceSlot) -> String {
        with_slots(&self.parts.slots, |slots| slots.name(slot).to_owned())
    }
}
