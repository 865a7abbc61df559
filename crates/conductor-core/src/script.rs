//! The journal of a script: the calls that the script made, and their answers.
//!
//! A script that was stopped is run again from its first line. Calls that are in the journal are
//! not made again: the script receives the recorded answers. This is safe for two reasons. A call
//! with an effect is in the journal before it is made, so a stop at any point never leads to a
//! second call. A recorded answer is used only if the script makes the same call at the same
//! position. An intent without an outcome means that the effect is unknown; the script then stops.
//!
//! Not here: files, the clock, random numbers, running the script and making the calls.

mod seal;
#[cfg(test)]
mod tests;

pub use seal::{Damaged, Sealer, read};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::digest::Digest;
use crate::principal::Principal;
use crate::timestamp::Timestamp;

/// Maximum number of calls of one script.
pub const MAX_CALLS: usize = 200;
/// Longest run of a script, in milliseconds of wall-clock time.
pub const MAX_RUN_MS: u64 = 30_000;
/// Maximum size of the result and the console output of a script together, in bytes.
pub const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Maximum size of a journal in bytes. An answer that does not fit ends the script.
pub const MAX_JOURNAL_BYTES: usize = 16 << 20;

/// The tools that make other calls. Scripts, mappings, plugins and webhooks cannot call them.
pub const NESTING_TOOLS: [&str; 2] = ["conductor_run_script", "conductor_call_tool"];

/// The first line of a journal: the caller of the script, and the values that a repeated run must
/// share with the first run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// Id that all records of this script have in the audit log.
    pub execution: Uuid,
    /// The caller.
    pub principal: Principal,
    /// Hash of the code.
    pub code: Digest,
    /// Version of the policy at the first run.
    pub policy: Digest,
    /// Seed of `Math.random`.
    pub seed: u64,
    /// The value that `Date.now()` returns in every run.
    pub started: Timestamp,
    /// The journal expires at this time, unless a later line sets a later time.
    pub until: Timestamp,
}

/// One call of a script, identified by its position, its tool and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Position of the call, from 0.
    pub index: usize,
    /// Name of the tool.
    pub tool: String,
    /// Hash of the canonical arguments.
    pub args: Digest,
}

/// The answer of a call, as the script receives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Answer {
    /// The result.
    Ok(Value),
    /// The error object that a direct call would have returned.
    Error(Value),
}

/// Whether a call has changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// The call changed nothing: it was a read, a planned change or a refused call.
    Nothing,
    /// The call changed something outside the script.
    Something,
    /// The call may have changed something: it ended before the host confirmed or refused the
    /// change.
    Unknown,
}

/// The recorded end of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    #[serde(flatten)]
    pub asked: Asked,
    pub answer: Answer,
    /// Whether the call has changed something.
    pub changed: Changed,
    /// The change to the configuration that the call contributes to the plan of the script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Value>,
}

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first line of the journal.
    Begin(Begin),
    /// A call with an effect is about to be made.
    Intent(Asked),
    /// A call has ended.
    Outcome(Outcome),
    /// The last call had no effect and is made again in the next run, for example because it waits
    /// for a person.
    Withdrawn {
        /// Position of the call.
        index: usize,
        /// The approval request that the call waits for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<Uuid>,
        /// New expiry time of the journal, if it is later.
        until: Timestamp,
    },
    /// The script has returned, and its plan is about to be stored with this id.
    Plan {
        /// Id of the plan.
        id: Uuid,
    },
}

/// The state of a call in a journal.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Intent(Asked),
    Ended(Outcome),
}

impl Entry {
    fn asked(&self) -> &Asked {
        match self {
            Self::Intent(asked) | Self::Ended(Outcome { asked, .. }) => asked,
        }
    }
}

/// The decision about the next call of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The call was made in an earlier run: return this answer.
    Replay(Outcome),
    /// The call is new: make it.
    Make(Asked),
}

/// Why a script cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The script makes a different call than in its first run.
    #[error("call {index} is {asked}, but in the first run of this script it was {recorded}")]
    Differs {
        /// Position of the call.
        index: usize,
        /// Tool that this run calls.
        asked: String,
        /// Tool that the first run called, or a note about its arguments.
        recorded: String,
    },
    /// The effect of an earlier call is unknown.
    #[error("call {index} ({tool}) was started in an earlier run, and its end was never recorded")]
    Unknown {
        /// Position of the call.
        index: usize,
        /// Tool of the call.
        tool: String,
    },
}

/// The line does not fit the lines before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the line is out of order")]
pub struct OutOfOrder;

/// The journal of one script.
#[derive(Clone, Debug, PartialEq)]
pub struct Journal {
    begin: Begin,
    entries: Vec<Entry>,
    approval: Option<Uuid>,
    plan: Option<Uuid>,
    until: Timestamp,
    /// Position of the next call of the present run.
    next: usize,
}

impl Journal {
    /// A journal with only its first line.
    pub fn new(begin: Begin) -> Self {
        let until = begin.until;
        Self { begin, entries: Vec::new(), approval: None, plan: None, until, next: 0 }
    }

    /// Adds a line. The caller must write an intent to the disk before it calls this function. Any
    /// other line must be on the disk before its answer is used.
    pub fn add(&mut self, line: Line) -> Result<(), OutOfOrder> {
        let open = self.is_open();
        let count = self.entries.len();
        match line {
            Line::Intent(asked) if asked.index == count && !open => self.entries.push(Entry::Intent(asked)),
            Line::Outcome(outcome) if open && outcome.asked.index + 1 == count => {
                if self.entries.last().is_some_and(|it| *it.asked() != outcome.asked) {
                    return Err(OutOfOrder);
                }
                self.entries.pop();
                self.entries.push(Entry::Ended(outcome));
            }
            Line::Outcome(outcome) if !open && outcome.asked.index == count => self.entries.push(Entry::Ended(outcome)),
            Line::Withdrawn { index, approval, until } if index + 1 == count || (index == count && !open) => {
                self.entries.truncate(index);
                self.next = self.next.min(index);
                self.approval = approval;
                self.until = self.until.max(until);
            }
            Line::Plan { id } if !open => self.plan = Some(id),
            Line::Begin(_) | Line::Intent(_) | Line::Outcome(_) | Line::Withdrawn { .. } | Line::Plan { .. } => {
                return Err(OutOfOrder);
            }
        }
        Ok(())
    }

    /// The first line of the journal.
    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// The id under which the plan of the script is stored, if the script has returned and has a
    /// plan.
    pub fn plan(&self) -> Option<Uuid> {
        self.plan
    }

    /// The approval request that the script waits for.
    pub fn approval(&self) -> Option<Uuid> {
        self.approval
    }

    /// The time at which the journal expires, unless it waits for an approval.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Whether the journal has expired. A journal does not expire while the approval request that
    /// it waits for is open.
    pub fn is_over(&self, now: Timestamp, approval_is_open: impl FnOnce(Uuid) -> bool) -> bool {
        now >= self.until && !self.approval.is_some_and(approval_is_open)
    }

    /// Starts a run: the next call is the first one.
    pub fn rewind(&mut self) {
        self.next = 0;
    }

    /// Decides about the next call of the script.
    pub fn next(&mut self, tool: &str, args: Digest) -> Result<Next, Stop> {
        let index = self.next;
        let Some(entry) = self.entries.get(index) else {
            self.next += 1;
            return Ok(Next::Make(Asked { index, tool: tool.to_owned(), args }));
        };
        let recorded = entry.asked();
        if recorded.tool != tool {
            return Err(Stop::Differs { index, asked: tool.to_owned(), recorded: recorded.tool.clone() });
        }
        if recorded.args != args {
            let recorded = format!("{tool} with other arguments");
            return Err(Stop::Differs { index, asked: tool.to_owned(), recorded });
        }
        match entry {
            Entry::Intent(_) => Err(Stop::Unknown { index, tool: tool.to_owned() }),
            Entry::Ended(outcome) => {
                self.next += 1;
                Ok(Next::Replay(outcome.clone()))
            }
        }
    }

    /// Whether the last call has started and not ended.
    pub fn is_open(&self) -> bool {
        matches!(self.entries.last(), Some(Entry::Intent(_)))
    }

    /// The calls that have ended, in order.
    pub fn ended(&self) -> impl Iterator<Item = &Outcome> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Ended(outcome) => Some(outcome),
            Entry::Intent(_) => None,
        })
    }

    /// Number of calls in the journal.
    pub fn calls(&self) -> usize {
        self.entries.len()
    }

    /// Whether the script has changed something so far. A script that has changed nothing can start
    /// from the beginning.
    pub fn changed(&self) -> Changed {
        self.changed_before(self.entries.len())
    }

    /// Whether the calls before this position have changed something.
    pub fn changed_before(&self, index: usize) -> Changed {
        let mut changed = Changed::Nothing;
        for entry in self.entries.iter().take(index) {
            match entry {
                Entry::Intent(_) | Entry::Ended(Outcome { changed: Changed::Unknown, .. }) => return Changed::Unknown,
                Entry::Ended(Outcome { changed: Changed::Something, .. }) => changed = Changed::Something,
                Entry::Ended(Outcome { changed: Changed::Nothing, .. }) => {}
            }
        }
        changed
    }
}
