//! Actions with several steps. A `Run` walks the tree of an action with a stack of frames. A delay,
//! a repetition or a pending call suspends the run. A timer or the call's result resumes it. The
//! thread never sleeps, so actions do not delay input.

use super::effect::{CallTicket, Effect};
use super::trace::Outcome;
use super::{Context, Engine, Firing, Timer};
use crate::event::{Body, Micros};
use crate::gesture::PressId;
use crate::mapping::table::{ActionId, CompiledCondition, Node, RowId};
use crate::timer::{TimerKey, Timers};
use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum number of presses that are queued while the action of a mapping is running.
const QUEUE: usize = 4;
/// The maximum number of steps of a run before it yields. Without this limit, nested repetitions
/// without a delay could block the engine.
const STEPS_PER_TURN: u32 = 1024;
const TURN_MS: u32 = 1;
/// The maximum number of frames of a run. The file limits the depth of an action to 8 levels, and
/// each level needs at most two frames.
const FRAMES: usize = 16;

#[derive(Clone, Copy, Debug)]
enum Frame {
    Do(ActionId),
    Sequence { node: ActionId, next: usize },
    Repeat { node: ActionId, left: u16, paused: bool },
}

#[derive(Debug)]
struct Run {
    serial: u64,
    row: RowId,
    context: Context,
    lists: Lists,
    timer: Option<TimerKey>,
    ticket: Option<CallTicket>,
    released: bool,
}

/// The lists of a run, reused for the next run.
#[derive(Debug)]
pub(super) struct Lists {
    stack: Vec<Frame>,
    queue: VecDeque<(ActionId, Context)>,
}

impl Default for Lists {
    fn default() -> Self {
        Lists { stack: Vec::with_capacity(FRAMES), queue: VecDeque::with_capacity(QUEUE) }
    }
}

#[derive(Debug, Default)]
pub(super) struct Runs {
    /// At most one run per mapping.
    runs: Vec<Run>,
    spare: Vec<Lists>,
    /// Contexts of finished runs that own memory, until the daemon's owner thread drops them.
    spent: Vec<Context>,
    serial: u64,
}

impl Runs {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Called when the key of a press is released. Repetitions with `while_held` stop before their
    /// next iteration.
    pub(super) fn released(&mut self, press: PressId) {
        for run in &mut self.runs {
            if run.context.press.is_some_and(|it| it.id == press) {
                run.released = true;
            }
        }
    }

    /// Queues a press behind the rule's running action. Returns `None` if no action is running, and
    /// `Some(true)` if the queue is full.
    pub(super) fn queue_behind(&mut self, row: RowId, action: ActionId, context: &Context) -> Option<bool> {
        let run = self.runs.iter_mut().find(|it| it.row == row)?;
        let full = run.lists.queue.len() >= QUEUE;
        if !full {
            run.lists.queue.push_back((action, context.clone()));
        }
        Some(full)
    }

    pub(super) fn next_ticket(&mut self) -> CallTicket {
        self.serial += 1;
        CallTicket(self.serial)
    }

    /// Allocates space for this many further runs, and frees the memory of finished runs.
    pub(super) fn make_room(&mut self, more: usize) {
        self.spent.clear();
        self.spent.reserve(more);
        self.runs.reserve(more);
        let missing = more.saturating_sub(self.spare.len());
        self.spare.reserve(self.runs.capacity().max(more));
        self.spare.extend(std::iter::repeat_with(Lists::default).take(missing));
    }

    /// The number of runs that can start and end without an allocation.
    pub(super) fn room(&self) -> usize {
        let runs = self.runs.capacity() - self.runs.len();
        self.spare.len().min(runs).min(self.spent.capacity() - self.spent.len())
    }

    fn finish(&mut self, context: Context, lists: Lists) {
        self.retire(context);
        self.spare.push(lists);
    }

    fn retire(&mut self, context: Context) {
        if context.body.as_ref().is_some_and(Body::owns_memory) {
            self.spent.push(context);
        }
    }

    pub(super) fn cancel_all(&mut self, timers: &mut Timers<Timer>) -> usize {
        let count = self.runs.len();
        for run in self.runs.drain(..) {
            if let Some(timer) = run.timer {
                timers.cancel(timer);
            }
        }
        count
    }
}

enum Step {
    Done,
    Wait(u32),
    Call(CallTicket),
}

impl Engine {
    pub(super) fn start(&mut self, row: RowId, action: ActionId, context: Context, out: &mut Vec<Effect>) {
        let lists = self.runs.spare.pop().unwrap_or_default();
        self.start_with(lists, row, action, context, out);
    }

    fn start_with(&mut self, mut lists: Lists, row: RowId, action: ActionId, context: Context, out: &mut Vec<Effect>) {
        self.runs.serial += 1;
        lists.stack.push(Frame::Do(action));
        let released = context.press.is_some_and(|it| !it.held || !self.gestures.is_held(it.id));
        let run = Run { serial: self.runs.serial, row, context, lists, timer: None, ticket: None, released };
        self.walk(run, out);
    }

    pub(super) fn resume(&mut self, serial: u64, out: &mut Vec<Effect>) {
        if let Some(at) = self.runs.runs.iter().position(|it| it.serial == serial) {
            let mut run = self.runs.runs.swap_remove(at);
            run.timer = None;
            self.walk(run, out);
        }
    }

    /// Called when the pipeline has answered a call. The action that made the call continues, even
    /// if the call failed (`ok` is false).
    pub fn call_done(&mut self, ticket: CallTicket, ok: bool, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        if ok {
            self.counters.actions += 1;
        } else {
            self.counters.actions_failed += 1;
        }
        let Some(at) = self.runs.runs.iter().position(|it| it.ticket == Some(ticket)) else { return };
        let mut run = self.runs.runs.swap_remove(at);
        run.ticket = None;
        if !ok {
            let context = run.context.clone();
            self.note(run.row, &context, Outcome::Failed, None, "the call failed");
        }
        self.walk(run, out);
    }

    fn walk(&mut self, mut run: Run, out: &mut Vec<Effect>) {
        match self.steps(&mut run, out) {
            Step::Wait(ms) => {
                let due = self.now.plus_ms(ms);
                run.timer = Some(self.timers.set(due, Timer::Run { run: run.serial }));
                self.runs.runs.push(run);
            }
            Step::Call(ticket) => {
                run.ticket = Some(ticket);
                self.runs.runs.push(run);
            }
            Step::Done => match run.lists.queue.pop_front() {
                Some((action, context)) => {
                    self.runs.retire(run.context);
                    self.start_with(run.lists, run.row, action, context, out);
                }
                None => self.runs.finish(run.context, run.lists),
            },
        }
    }

    fn steps(&mut self, run: &mut Run, out: &mut Vec<Effect>) -> Step {
        let tables = Arc::clone(&self.tables);
        let mut steps = 0;
        while let Some(frame) = run.lists.stack.pop() {
            steps += 1;
            if steps > STEPS_PER_TURN {
                run.lists.stack.push(frame);
                return Step::Wait(TURN_MS);
            }
            match frame {
                Frame::Do(node) => match tables.nodes.get(node.0 as usize) {
                    None => {}
                    Some(Node::Sequence(_)) => run.lists.stack.push(Frame::Sequence { node, next: 0 }),
                    Some(Node::Delay(0)) => {}
                    Some(Node::Delay(ms)) => return Step::Wait(*ms),
                    Some(Node::Repeat { action, count, .. }) => {
                        if *count > 1 {
                            run.lists.stack.push(Frame::Repeat { node, left: count - 1, paused: false });
                        }
                        run.lists.stack.push(Frame::Do(*action));
                    }
                    Some(Node::Conditional { condition, then_action, else_action }) => {
                        if self.holds(condition) {
                            run.lists.stack.push(Frame::Do(*then_action));
                        } else if let Some(other) = else_action {
                            run.lists.stack.push(Frame::Do(*other));
                        } else {
                            let context = run.context.clone();
                            self.note(run.row, &context, Outcome::ConditionFalse, None, "");
                        }
                    }
                    Some(Node::Leaf(leaf)) => {
                        let context = run.context.clone();
                        let firing = Firing { row: run.row, action: node, context: &context, released: run.released };
                        if let Some(ticket) = self.perform(leaf, firing, out) {
                            return Step::Call(ticket);
                        }
                    }
                },
                Frame::Sequence { node, next } => {
                    if let Some(Node::Sequence(actions)) = tables.nodes.get(node.0 as usize)
                        && let Some(action) = actions.get(next)
                    {
                        if next + 1 < actions.len() {
                            run.lists.stack.push(Frame::Sequence { node, next: next + 1 });
                        }
                        run.lists.stack.push(Frame::Do(*action));
                    }
                }
                Frame::Repeat { node, left, paused } => {
                    let Some(Node::Repeat { action, delay_ms, while_held, .. }) = tables.nodes.get(node.0 as usize)
                    else {
                        continue;
                    };
                    if *delay_ms > 0 && !paused {
                        // `while_held` is checked after the pause: if the key was released during
                        // the pause, the repetition ends.
                        run.lists.stack.push(Frame::Repeat { node, left, paused: true });
                        return Step::Wait(*delay_ms);
                    }
                    if *while_held && run.released {
                        continue;
                    }
                    if left > 1 {
                        run.lists.stack.push(Frame::Repeat { node, left: left - 1, paused: false });
                    }
                    run.lists.stack.push(Frame::Do(*action));
                }
            }
        }
        Step::Done
    }

    fn holds(&self, condition: &CompiledCondition) -> bool {
        let facts = &self.facts;
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        match condition {
            CompiledCondition::Always => true,
            CompiledCondition::Never => false,
            CompiledCondition::TimeRange { start, end } => {
                let now = facts.minute_of_day;
                if start < end { (*start..*end).contains(&now) } else { now >= *start || now < *end }
            }
            CompiledCondition::DayOfWeek { days } => facts.weekday >= 1 && days & (1 << ((facts.weekday - 1) % 7)) != 0,
            CompiledCondition::AppRunning(app) => facts.running_apps.iter().any(|it| same(it, app)),
            CompiledCondition::AppFrontmost(app) => facts.frontmost_app.as_ref().is_some_and(|it| same(it, app)),
            CompiledCondition::ModeIs(mode) => *mode == Some(self.mode),
            CompiledCondition::DeviceConnected(device) => facts.connected.contains(&device.0),
            CompiledCondition::And(all) => all.iter().all(|it| self.holds(it)),
            CompiledCondition::Or(any) => any.iter().any(|it| self.holds(it)),
            CompiledCondition::Not(inner) => !self.holds(inner),
        }
    }
}
