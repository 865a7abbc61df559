//! Checks every order of questions, answers, failed writes, crashes and restarts with a model
//! checker. The model runs the real [`Pending`]; only the disk and the caller are modelled.
//!
//! A change follows the order of `pending_store`: it is made in memory, then written, and only then
//! is the answer used. Two seeded bugs break this order, and the checker finds both.

use conductor_core::digest::Digest;
use conductor_core::pending::{Ask, Asked, NewIds, Pending, Present, Record, State, Yes};
use conductor_core::policy::limits::Limits;
use conductor_core::policy::{ApprovalSettings, Channel, Floor, Tier};
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use stateright::{Checker, Model, Property};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The files of the store.
type Files = BTreeMap<u128, Vec<u8>>;

/// A time that is longer than the validity of any request or approval of the model.
const LONG_MS: u64 = 2 * 86_400_000;
const MOST_ASKS: u8 = 4;
const MOST_STEPS: u8 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// The call starts before the use of its approval is on the disk.
    RunsBeforeWrite,
    /// A change that could not be written stays in memory.
    NoRollBack,
}

/// The result of writing a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Write {
    Done,
    /// Nothing was written.
    Failed,
    /// The file was replaced, but an error was reported, and the old file could not be restored.
    FailedLate,
    /// The process ended before the file was replaced.
    CrashBefore,
    /// The process ended after the file was replaced, before anyone got an answer.
    CrashAfter,
}

impl Write {
    const ALL: [Write; 5] = [Write::Done, Write::Failed, Write::FailedLate, Write::CrashBefore, Write::CrashAfter];

    fn is_on_disk(self) -> bool {
        matches!(self, Write::Done | Write::FailedLate | Write::CrashAfter)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Ask(Write),
    Allow {
        uses: u32,
        write: Write,
    },
    Deny(Write),
    /// The tool changes, so that earlier approvals are no longer valid.
    Change,
    /// All open requests and approvals expire.
    Wait,
    Restart,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// The records of the running daemon; absent after a crash.
    memory: Option<Files>,
    disk: Files,
    now_ms: u64,
    pin: u8,
    asks: u8,
    steps: u8,
    /// For each approval, the number of calls that a person has allowed and that have not run. A
    /// denial, a changed tool or an expiry removes the approval.
    allowed: BTreeMap<u128, u32>,
    runs: u8,
    /// A call ran that no person had allowed.
    unallowed_run: bool,
}

struct Store {
    bug: Bug,
}

fn load(files: &Files) -> Pending {
    Pending::load(files.values().map(|bytes| Record::from_json(bytes).expect("a stored record")))
}

fn files(pending: &Pending) -> Files {
    pending.iter().map(|record| (record.id.as_u128(), record.to_json())).collect()
}

fn the_one(pending: &Pending, state: State) -> Option<Uuid> {
    pending.iter().find(|record| record.state == state).map(|record| record.id)
}

impl Store {
    /// Makes a change in the order of the real store. Returns the answer if the caller gets one.
    fn change<T>(&self, world: &mut World, write: Write, change: impl FnOnce(&mut Pending) -> T) -> Option<T> {
        let mut pending = load(world.memory.as_ref()?);
        let answer = change(&mut pending);
        let changes = pending.changes();
        if write.is_on_disk() {
            for record in &changes.written {
                world.disk.insert(record.id.as_u128(), record.to_json());
            }
            for id in &changes.removed {
                world.disk.remove(&id.as_u128());
            }
        }
        let early = self.bug == Bug::RunsBeforeWrite;
        match write {
            Write::Done => {
                pending.commit();
                world.memory = Some(files(&pending));
                Some(answer)
            }
            Write::Failed | Write::FailedLate => {
                if self.bug != Bug::NoRollBack {
                    pending.roll_back();
                }
                world.memory = Some(files(&pending));
                early.then_some(answer)
            }
            Write::CrashBefore | Write::CrashAfter => {
                world.memory = None;
                early.then_some(answer)
            }
        }
    }
}

impl Model for Store {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            memory: Some(Files::new()),
            disk: Files::new(),
            now_ms: 1_767_323_045_000,
            pin: 0,
            asks: 0,
            steps: 0,
            allowed: BTreeMap::new(),
            runs: 0,
            unallowed_run: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.steps == MOST_STEPS {
            return;
        }
        let Some(memory) = &world.memory else {
            return steps.push(Step::Restart);
        };
        let pending = load(memory);
        for write in Write::ALL {
            if world.asks < MOST_ASKS {
                steps.push(Step::Ask(write));
            }
            if the_one(&pending, State::Pending).is_some() {
                steps.extend([1, 2].map(|uses| Step::Allow { uses, write }));
            }
            if the_one(&pending, State::Allowed).or(the_one(&pending, State::Pending)).is_some() {
                steps.push(Step::Deny(write));
            }
        }
        if world.pin == 0 {
            steps.push(Step::Change);
        }
        steps.extend([Step::Wait, Step::Restart]);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = World { steps: world.steps + 1, ..world.clone() };
        let now = Timestamp::from_millis(next.now_ms);
        match step {
            Step::Ask(write) => {
                next.asks += 1;
                let ids = NewIds { id: Uuid::from_u128(u128::from(next.asks)), short: u64::from(next.asks) };
                let ask = Ask {
                    principal: Principal::socket(1000, "model"),
                    tool: "filesystem.write".into(),
                    tier: Tier::HardwareIo,
                    args_hash: Digest::of(b"arguments"),
                    present: Present {
                        pin: Digest::of(&[next.pin]),
                        policy_version: Digest::of(b"policy"),
                        state: None,
                    },
                    summary: String::new(),
                    facts: Vec::new(),
                    floor: Floor::Local,
                    from_plugin: false,
                    tainted: false,
                };
                let (settings, limits) = (ApprovalSettings::default(), Limits::default());
                let asked = self.change(&mut next, write, |it| it.ask(ask, ids, &settings, &limits, now));
                if let Some(Asked::Run { id, .. }) = asked {
                    next.runs += 1;
                    match next.allowed.get_mut(&id.as_u128()) {
                        Some(left) if *left > 0 => *left -= 1,
                        Some(_) | None => next.unallowed_run = true,
                    }
                }
            }
            Step::Allow { uses, write } => {
                let id = the_one(&load(world.memory.as_ref()?), State::Pending)?;
                let yes = Yes { uses, grantable: true, ..Yes::once("person:1000", Channel::Terminal) };
                self.change(&mut next, write, |it| it.allow(id, &yes, now));
                // An approval that reached the disk is valid, even if the person saw an error.
                if write.is_on_disk() {
                    next.allowed.insert(id.as_u128(), uses);
                }
            }
            Step::Deny(write) => {
                let pending = load(world.memory.as_ref()?);
                let id = the_one(&pending, State::Allowed).or(the_one(&pending, State::Pending))?;
                if let Some(Ok(())) =
                    self.change(&mut next, write, |it| it.deny(id, "person:1000", Channel::Terminal, now))
                {
                    next.allowed.remove(&id.as_u128());
                }
            }
            Step::Change => {
                next.pin += 1;
                next.allowed.clear();
            }
            Step::Wait => {
                next.now_ms += LONG_MS;
                next.allowed.clear();
            }
            Step::Restart => next.memory = Some(next.disk.clone()),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every run was allowed by a person", |_, world: &World| !world.unallowed_run),
            // Without the next two properties, a model in which nothing happens would pass.
            Property::sometimes("a call runs", |_, world: &World| world.runs > 0),
            Property::sometimes("an approval is used twice", |_, world: &World| world.runs > 1),
        ]
    }
}

#[test]
fn no_order_of_crashes_and_answers_runs_a_call_that_nobody_allowed() {
    let checker = Store { bug: Bug::None }.checker().spawn_bfs().join();
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1000, "only {} states", checker.unique_state_count());
}

#[test]
fn the_checker_finds_a_call_that_runs_before_its_use_is_written() {
    let checker = Store { bug: Bug::RunsBeforeWrite }.checker().spawn_bfs().join();
    let path = checker.assert_any_discovery("every run was allowed by a person").into_actions();
    assert!(path.iter().any(|step| matches!(step, Step::Ask(Write::CrashBefore | Write::Failed))), "{path:?}");
}

#[test]
fn the_checker_finds_a_change_that_is_not_rolled_back() {
    let checker = Store { bug: Bug::NoRollBack }.checker().spawn_bfs().join();
    checker.assert_any_discovery("every run was allowed by a person");
}
