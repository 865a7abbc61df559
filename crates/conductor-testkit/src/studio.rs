//! A studio in a temporary home, with a clock that the test moves.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conductor_core::audit::record::{CallFacts, EventName, InputHash, InputHasher, OutcomeFacts};
use conductor_core::digest::Digest;
use conductor_core::policy::Policy;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::pending_store::PendingStore;
use conductor_gateway::pipeline::record::AuditSink;
use conductor_gateway::pipeline::{self, Call, Principal, Reply};
use conductor_gateway::secrets::Scrubber;
use conductor_gateway::studio::{Parts, PolicyInForce, Settings, Studio};
use conductor_hosts::system::{Clock, CountingIds};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tempfile::TempDir;

use crate::time::ManualTime;
use crate::tools::{self, Runs};

/// A record that was written to the journal.
#[derive(Debug, Clone)]
pub enum Written {
    Intent(CallFacts),
    Outcome(CallFacts, OutcomeFacts),
}

/// A recorded event that is not a call.
pub type Event = (Option<Principal>, EventName, Value);

/// An audit journal in memory. A test can make its writes fail.
pub struct MemoryJournal {
    hasher: InputHasher,
    written: Mutex<Vec<Written>>,
    down: Mutex<Option<String>>,
    outcome_down: Mutex<Option<String>>,
    events: Mutex<Vec<Event>>,
    kept: Mutex<Vec<(CallFacts, OutcomeFacts)>>,
    /// Number of outcomes that had to be on disk before the reply was sent.
    waited_for_disk: AtomicUsize,
}

impl MemoryJournal {
    pub fn waited_for_disk(&self) -> usize {
        self.waited_for_disk.load(Ordering::Relaxed)
    }

    fn new() -> Arc<Self> {
        Arc::new(Self {
            hasher: InputHasher::new(&[7; 32]),
            written: Mutex::default(),
            down: Mutex::default(),
            outcome_down: Mutex::default(),
            events: Mutex::default(),
            kept: Mutex::default(),
            waited_for_disk: AtomicUsize::default(),
        })
    }

    pub fn written(&self) -> Vec<Written> {
        self.written.lock().clone()
    }

    pub fn events(&self) -> Vec<Event> {
        self.events.lock().clone()
    }

    /// Outcomes that could not be written and are kept in memory.
    pub fn kept(&self) -> Vec<(CallFacts, OutcomeFacts)> {
        self.kept.lock().clone()
    }

    pub fn set_down(&self, reason: Option<&str>) {
        *self.down.lock() = reason.map(str::to_owned);
    }

    /// Makes only the outcome record fail, which is written after the handler has run.
    pub fn set_outcome_down(&self, reason: Option<&str>) {
        *self.outcome_down.lock() = reason.map(str::to_owned);
    }

    fn push(&self, written: Written) -> Result<u64, String> {
        self.up()?;
        let mut all = self.written.lock();
        all.push(written);
        Ok(all.len() as u64)
    }
}

impl AuditSink for MemoryJournal {
    fn up(&self) -> Result<(), String> {
        self.down.lock().clone().map_or(Ok(()), Err)
    }

    fn hash_input(&self, arguments: &Value) -> InputHash {
        self.hasher.hash(arguments)
    }

    fn intent(&self, facts: CallFacts) -> BoxFuture<'static, Result<u64, String>> {
        Box::pin(std::future::ready(self.push(Written::Intent(facts))))
    }

    fn outcome(
        &self,
        facts: CallFacts,
        outcome: OutcomeFacts,
        durable: bool,
    ) -> BoxFuture<'static, Result<(), String>> {
        self.waited_for_disk.fetch_add(usize::from(durable), Ordering::Relaxed);
        let down = self.outcome_down.lock().clone();
        let result = down.map_or_else(|| self.push(Written::Outcome(facts, outcome)).map(|_| ()), Err);
        Box::pin(std::future::ready(result))
    }

    fn keep(&self, facts: CallFacts, outcome: OutcomeFacts) -> bool {
        self.kept.lock().push((facts, outcome));
        true
    }

    fn event(
        &self,
        principal: Option<Principal>,
        event: EventName,
        detail: Value,
    ) -> BoxFuture<'static, Result<(), String>> {
        self.events.lock().push((principal, event, detail));
        Box::pin(std::future::ready(self.up()))
    }
}

pub struct TestStudio {
    pub studio: Arc<Studio>,
    pub time: Arc<ManualTime>,
    pub runs: Arc<Runs>,
    pub journal: Arc<MemoryJournal>,
    pub home: TempDir,
}

impl TestStudio {
    pub fn new() -> Self {
        Self::with(Policy::default(), Settings::default())
    }

    pub fn with(policy: Policy, settings: Settings) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let time = ManualTime::new();
        let runs = Arc::new(Runs::default());
        let journal = MemoryJournal::new();
        let studio = Studio::new(Parts {
            clock: Arc::clone(&time) as Arc<dyn Clock>,
            sleeper: Arc::clone(&time) as Arc<_>,
            ids: CountingIds::new(),
            home: home.path().to_owned(),
            audit: Arc::clone(&journal) as Arc<_>,
            pending: PendingStore::open(home.path(), Arc::new(Disk), [7; 32]).expect("a store").0,
            catalog: tools::catalog(&runs),
            policy: PolicyInForce { policy, version: Digest::of(b"policy") },
            settings,
            scrubber: Scrubber::new(),
        });
        Self { studio, time, runs, journal, home }
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Reply {
        pipeline::run(&self.studio, Call::new(principal("demo"), tool, arguments)).await
    }
}

impl Default for TestStudio {
    fn default() -> Self {
        Self::new()
    }
}

pub fn principal(client: &str) -> Principal {
    Principal::socket(1000, client)
}
