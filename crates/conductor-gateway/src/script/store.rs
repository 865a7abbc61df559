//! Stores the journals of stopped scripts in `state/scripts`, one file per caller and code.
//!
//! A line that precedes an effect is on the disk before the effect. A script that only reads never
//! creates a file. The last seal of each journal is kept in memory, so that the running daemon
//! detects a journal that another program shortened or removed. Not here: the rules of a journal
//! (`conductor_core::script`).

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use conductor_core::digest::Digest;
use conductor_core::principal::Principal;
use conductor_core::script::{Begin, Journal, Line, MAX_JOURNAL_BYTES, Sealer, read};
use conductor_core::timestamp::Timestamp;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::audit_log::files::{Files, LogFile, WHOLE, append_whole};

/// A journal that could not be loaded. Its script is refused until the journal expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub name: String,
    pub why: String,
}

/// The state of one caller's script in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    Running { principal: Principal },
    Stopped { principal: Principal, seal: Digest, until: Timestamp, approval: Option<Uuid> },
    Damaged { until: Timestamp },
}

/// Why a script cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("this script is running already")]
    Running,
    #[error("{0} scripts are running, which is the limit")]
    Crowded(usize),
    #[error("{0} scripts of this caller wait for an approval or were stopped")]
    TooMany(usize),
    #[error("the journal of this script was changed by another program")]
    Damaged,
    /// The policy has changed since the first run. The journal is discarded, so that the next
    /// repetition starts from the beginning.
    #[error("the policy changed since the first run of this script")]
    PolicyChanged(Box<Journal>),
    #[error("the journal of the script cannot be read or written: {0}")]
    Disk(#[from] io::Error),
}

/// A request to run a script.
pub struct Wanted {
    pub principal: Principal,
    pub code: Digest,
    pub policy: Digest,
    pub now: Timestamp,
    /// Time from the start of a journal until it expires. A stop may extend it.
    pub life_ms: u64,
    /// Maximum number of stopped scripts of one caller.
    pub most: usize,
    /// The id and the seed of a new journal.
    pub execution: Uuid,
    pub seed: u64,
}

pub struct Store {
    dir: PathBuf,
    files: Arc<dyn Files>,
    key: [u8; 32],
    slots: Mutex<HashMap<String, Slot>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// Loads all journals. `key` is the MAC key of the seals. A damaged journal blocks its script
    /// for `life_ms`.
    pub fn open(
        home: &Path,
        files: Arc<dyn Files>,
        key: [u8; 32],
        now: Timestamp,
        life_ms: u64,
    ) -> io::Result<(Self, Vec<Skipped>)> {
        let dir = home.join("state").join("scripts");
        files.make_dir(&dir)?;
        let (mut slots, mut skipped) = (HashMap::new(), Vec::new());
        for file in files.names(&dir)? {
            let Some(name) = file.strip_suffix(ENDING) else { continue };
            let bytes = files.read_at(&dir.join(&file), 0, WHOLE)?;
            match read(&key, name, &bytes) {
                Ok(Some((journal, sealer, _))) => {
                    slots.insert(name.to_owned(), Slot::stopped(Life::of(&journal), &sealer));
                }
                Ok(None) => files.remove(&dir.join(&file))?,
                Err(why) => {
                    slots.insert(name.to_owned(), Slot::Damaged { until: now.plus_millis(life_ms) });
                    skipped.push(Skipped { name: file.clone(), why: why.to_string() });
                }
            }
        }
        Ok((Self { dir, files, key, slots: Mutex::new(slots) }, skipped))
    }

    /// Reserves the script of this caller, and loads its journal or starts a new one. Reads the
    /// disk, so call it on a thread that may block.
    pub fn begin(
        self: &Arc<Self>,
        wanted: Wanted,
        approval_is_open: impl Fn(Uuid) -> bool,
    ) -> Result<(Journal, JournalFile), Refused> {
        let name = name_of(&wanted.principal, wanted.code);
        let known = {
            let mut slots = self.slots.lock();
            if let Some(Slot::Running { .. }) = slots.get(&name) {
                return Err(Refused::Running);
            }
            let runs = |slot: &&Slot| matches!(slot, Slot::Running { .. });
            let own = |slot: &&Slot| matches!(slot, Slot::Running { principal } if *principal == wanted.principal);
            for (running, most) in [
                (slots.values().filter(own).count(), MOST_OF_CALLER),
                (slots.values().filter(runs).count(), MOST_RUNNING),
            ] {
                if running >= most {
                    return Err(Refused::Crowded(running));
                }
            }
            let mine = |slot: &&Slot| matches!(slot, Slot::Stopped { principal, until, .. } if *principal == wanted.principal && *until > wanted.now);
            let waiting = slots.values().filter(mine).count();
            if !slots.contains_key(&name) && waiting >= wanted.most {
                return Err(Refused::TooMany(waiting));
            }
            slots.insert(name.clone(), Slot::Running { principal: wanted.principal.clone() })
        };
        let mut file = JournalFile {
            store: Arc::clone(self),
            name: name.clone(),
            file: None,
            sealer: Sealer::new(&self.key, &name),
            unwritten: Vec::new(),
            bytes: 0,
            life: Life {
                principal: wanted.principal.clone(),
                until: wanted.now.plus_millis(wanted.life_ms),
                approval: None,
            },
            slot: known.clone(),
        };
        let path = file.path();
        let bytes = match self.files.read_at(&path, 0, WHOLE) {
            Ok(bytes) => Some(bytes),
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => None,
            Err(fault) => return Err(fault.into()),
        };
        let (found, seal, until) = match &known {
            None => (None, None, None),
            Some(Slot::Stopped { seal, until, approval, .. }) => {
                let lives = approval.is_some_and(&approval_is_open) || *until > wanted.now;
                let read = bytes.as_deref().map(|bytes| read(&self.key, &name, bytes));
                (read, Some(*seal), lives.then_some(*until))
            }
            Some(Slot::Damaged { until }) if *until > wanted.now => return Err(Refused::Damaged),
            Some(Slot::Damaged { .. } | Slot::Running { .. }) => (None, None, None),
        };
        if let (Some(seal), Some(_)) = (seal, until) {
            // The script was stopped and its journal has not expired, so the file must be the one
            // that the daemon wrote last.
            let Some(Ok(Some((mut journal, sealer, valid)))) = found else { return Err(Refused::Damaged) };
            if sealer.last() != seal || journal.begin().principal != wanted.principal {
                return Err(Refused::Damaged);
            }
            if journal.begin().policy != wanted.policy {
                file.remove()?;
                return Err(Refused::PolicyChanged(Box::new(journal)));
            }
            let log = self.files.open(&path)?;
            log.truncate(valid as u64)?;
            (file.file, file.sealer, file.bytes) = (Some(log), sealer, valid);
            file.life = Life::of(&journal);
            journal.rewind();
            return Ok((journal, file));
        }
        if bytes.is_some() {
            self.files.remove(&path)?;
        }
        file.slot = None;
        let begin = Begin {
            execution: wanted.execution,
            principal: wanted.principal,
            code: wanted.code,
            policy: wanted.policy,
            seed: wanted.seed,
            started: wanted.now,
            until: wanted.now.plus_millis(wanted.life_ms),
        };
        file.write(&Line::Begin(begin.clone()), Durable::Later)?;
        Ok((Journal::new(begin), file))
    }

    /// Removes expired journals.
    pub fn clean_up(&self, now: Timestamp, approval_is_open: impl Fn(Uuid) -> bool) -> io::Result<()> {
        let mut slots = self.slots.lock();
        let over: Vec<String> = slots
            .iter()
            .filter(|(_, slot)| match slot {
                Slot::Running { .. } => false,
                Slot::Stopped { until, approval, .. } => *until <= now && !approval.is_some_and(&approval_is_open),
                Slot::Damaged { until } => *until <= now,
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in over {
            match self.files.remove(&self.dir.join(format!("{name}{ENDING}"))) {
                Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
                Ok(()) | Err(_) => drop(slots.remove(&name)),
            }
        }
        Ok(())
    }
}

/// Maximum number of scripts that run at once, of one caller and of all callers. Each needs a
/// process and, for a dry run, copies of the documents.
const MOST_OF_CALLER: usize = 4;
const MOST_RUNNING: usize = 8;

const ENDING: &str = ".jsonl";

/// The name of a journal's file. It does not reveal the code.
fn name_of(principal: &Principal, code: Digest) -> String {
    let digest = Digest::of(format!("{principal}\n{code}").as_bytes()).to_string();
    digest.trim_start_matches("sha256:").to_owned()
}

/// The caller of a journal, and when the journal expires.
#[derive(Debug, Clone)]
struct Life {
    principal: Principal,
    until: Timestamp,
    approval: Option<Uuid>,
}

impl Life {
    fn of(journal: &Journal) -> Self {
        Self { principal: journal.begin().principal.clone(), until: journal.until(), approval: journal.approval() }
    }
}

impl Slot {
    fn stopped(life: Life, sealer: &Sealer) -> Self {
        let Life { principal, until, approval } = life;
        Self::Stopped { principal, seal: sealer.last(), until, approval }
    }
}

/// Whether a line must be on the disk before the script continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// The line may be written later, together with the next `Now` line. No effect depends on it.
    Later,
    Now,
}

/// The journal file of a running script. Dropping it ends the reservation of the script.
#[derive(Debug)]
pub struct JournalFile {
    store: Arc<Store>,
    name: String,
    file: Option<Arc<dyn LogFile>>,
    sealer: Sealer,
    unwritten: Vec<u8>,
    bytes: usize,
    life: Life,
    /// The state that the store keeps when this value is dropped. It always describes the bytes on
    /// the disk, even if the run ends unexpectedly.
    slot: Option<Slot>,
}

impl JournalFile {
    fn path(&self) -> PathBuf {
        self.store.dir.join(format!("{}{ENDING}", self.name))
    }

    /// Whether a line with this many bytes fits.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) < MAX_JOURNAL_BYTES
    }

    /// Adds one line to the journal. `Durable::Now` writes the line, and all lines before it, to
    /// the disk. After a failure, the script must end.
    pub fn write(&mut self, line: &Line, durable: Durable) -> io::Result<()> {
        let bytes = self.sealer.write(line).map_err(io::Error::other)?;
        self.bytes += bytes.len();
        self.unwritten.extend(bytes);
        match durable {
            Durable::Later => Ok(()),
            Durable::Now => self.flush(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = self.store.files.create(&self.path())?;
                self.store.files.sync_dir(&self.store.dir)?;
                Arc::clone(self.file.insert(file))
            }
        };
        let before = file.size()?;
        let written = append_whole(&*file, &self.unwritten).and_then(|()| file.sync());
        if let Err(fault) = written {
            // A part of a line would make the next line unreadable.
            let _ = file.truncate(before);
            return Err(fault);
        }
        self.unwritten.clear();
        self.slot = Some(Slot::stopped(self.life.clone(), &self.sealer));
        Ok(())
    }

    /// Ends the run, but keeps the journal for the next one.
    pub fn stop(&mut self, journal: &Journal) -> io::Result<()> {
        self.life = Life::of(journal);
        self.flush()
    }

    /// Deletes the journal, so that the next run of the script starts from the beginning.
    pub fn remove(&mut self) -> io::Result<()> {
        if self.file.take().is_some() || self.slot.is_some() {
            match self.store.files.remove(&self.path()) {
                Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
                Ok(()) | Err(_) => self.store.files.sync_dir(&self.store.dir)?,
            }
        }
        self.slot = None;
        Ok(())
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        let mut slots = self.store.slots.lock();
        match self.slot.take() {
            Some(slot) => drop(slots.insert(std::mem::take(&mut self.name), slot)),
            None => drop(slots.remove(&self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit_log::tests::memory::{Memory, Trouble};
    use conductor_core::script::{Answer, Asked, Changed, Next, Outcome};
    use serde_json::json;

    const LIFE: u64 = 300_000;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_767_323_045_000 + ms)
    }

    fn open(files: &Memory) -> Arc<Store> {
        let (store, skipped) =
            Store::open(Path::new("home"), Arc::new(files.clone()), [7; 32], at(0), LIFE).expect("not open");
        assert_eq!(skipped, []);
        Arc::new(store)
    }

    fn wanted(client: &str, ms: u64) -> Wanted {
        Wanted {
            principal: Principal::socket(1000, client),
            code: Digest::of(b"code"),
            policy: Digest::of(b"policy"),
            now: at(ms),
            life_ms: LIFE,
            most: 2,
            execution: Uuid::from_u128(1),
            seed: 3,
        }
    }

    fn asked(index: usize) -> Asked {
        Asked { index, tool: "t".into(), args: Digest::of(b"args") }
    }

    fn outcome(index: usize) -> Line {
        let changed = Changed::Something;
        Line::Outcome(Outcome { asked: asked(index), answer: Answer::Ok(json!(1)), changed, planned: None })
    }

    /// Runs one call with an effect and stops.
    fn one_effect(store: &Arc<Store>, client: &str) {
        let (mut journal, mut file) = store.begin(wanted(client, 0), |_| false).expect("refused");
        for line in [Line::Intent(asked(0)), outcome(0)] {
            file.write(&line, Durable::Now).expect("not written");
            journal.add(line).expect("out of order");
        }
        file.stop(&journal).expect("not written");
    }

    fn only_file(files: &Memory) -> PathBuf {
        let dir = Path::new("home/state/scripts");
        let names = files.names(dir).expect("not readable");
        assert_eq!(names.len(), 1, "{names:?}");
        dir.join(&names[0])
    }

    #[test]
    fn a_stopped_script_continues_after_a_power_cut_and_only_for_its_caller() {
        let files = Memory::default();
        let store = open(&files);
        one_effect(&store, "demo");
        files.power_cut(|| 0);
        let store = open(&files);
        let (mut journal, file) = store.begin(wanted("demo", 1), |_| false).expect("does not continue");
        assert!(matches!(journal.next("t", Digest::of(b"args")), Ok(Next::Replay(_))));
        assert!(matches!(store.begin(wanted("demo", 1), |_| false), Err(Refused::Running)));
        drop(file);
        let (journal, _file) = store.begin(wanted("other", 1), |_| false).expect("another caller was refused");
        assert_eq!(journal.calls(), 0);
    }

    #[test]
    fn a_script_that_only_reads_writes_no_file() {
        let files = Memory::default();
        let store = open(&files);
        let (_, mut file) = store.begin(wanted("demo", 0), |_| false).expect("refused");
        file.write(&outcome(0), Durable::Later).expect("not kept");
        file.remove().expect("not removed");
        drop(file);
        assert_eq!(files.names(Path::new("home/state/scripts")).expect("not readable"), Vec::<String>::new());
    }

    #[test]
    fn an_expired_journal_is_removed_unless_its_approval_is_open() {
        let files = Memory::default();
        let store = open(&files);
        one_effect(&store, "demo");
        let (journal, file) = store.begin(wanted("demo", LIFE), |_| false).expect("refused");
        assert_eq!(journal.calls(), 0, "the expired journal was continued");
        drop(file);
        let (mut journal, mut file) = store.begin(wanted("demo", 0), |_| false).expect("refused");
        let wait = Line::Withdrawn { index: 1, approval: Some(Uuid::from_u128(5)), until: at(LIFE) };
        for line in [Line::Intent(asked(0)), outcome(0), wait] {
            file.write(&line, Durable::Now).expect("not written");
            journal.add(line).expect("out of order");
        }
        file.stop(&journal).expect("not written");
        drop(file);
        store.clean_up(at(LIFE * 9), |id| id == Uuid::from_u128(5)).expect("not cleaned");
        let (journal, file) = store.begin(wanted("demo", LIFE * 9), |_| true).expect("refused");
        assert_eq!(journal.calls(), 1);
        drop(file);
        store.clean_up(at(LIFE * 9), |_| false).expect("not cleaned");
        assert_eq!(files.names(Path::new("home/state/scripts")).expect("not readable"), Vec::<String>::new());
    }

    #[test]
    fn an_edited_shortened_or_removed_journal_stops_the_script() {
        for edit in ["edit", "shorten", "remove"] {
            for restart in [false, true] {
                let files = Memory::default();
                let mut store = open(&files);
                one_effect(&store, "demo");
                let path = only_file(&files);
                let bytes = files.read_at(&path, 0, WHOLE).expect("missing");
                files.remove(&path).expect("not removed");
                let cut = bytes.len() - 20;
                let put = |bytes: &[u8]| files.create(&path).expect("not created").append(bytes).expect("not written");
                match edit {
                    "edit" => drop(put(&[&bytes[..cut], b"x", &bytes[cut + 1..]].concat())),
                    "shorten" => drop(put(bytes.split_inclusive(|it| *it == b'\n').next().expect("no line"))),
                    _ => {}
                }
                if restart {
                    let (opened, _) = Store::open(Path::new("home"), Arc::new(files.clone()), [7; 32], at(0), LIFE)
                        .expect("not open");
                    store = Arc::new(opened);
                }
                let begun = store.begin(wanted("demo", 1), |_| false);
                // After a restart, only an edited journal is detected. A shortened or removed
                // journal looks like an earlier state of the store.
                let noticed = !restart || edit == "edit";
                assert_eq!(matches!(begun, Err(Refused::Damaged)), noticed, "{edit}, restart {restart}");
            }
        }
    }

    #[test]
    fn a_changed_policy_gives_the_journal_up_once() {
        let files = Memory::default();
        let store = open(&files);
        one_effect(&store, "demo");
        let other = || Wanted { policy: Digest::of(b"other"), ..wanted("demo", 1) };
        assert!(
            matches!(store.begin(other(), |_| false), Err(Refused::PolicyChanged(journal)) if journal.calls() == 1)
        );
        let (journal, _file) = store.begin(other(), |_| false).expect("does not start again");
        assert_eq!(journal.calls(), 0);
    }

    #[test]
    fn a_caller_has_few_stopped_scripts() {
        let store = open(&Memory::default());
        let with = |code: &[u8]| Wanted { code: Digest::of(code), ..wanted("demo", 1) };
        for code in [b"a", b"b"] {
            let (journal, mut file) = store.begin(with(code), |_| false).expect("refused");
            file.stop(&journal).expect("not written");
        }
        assert!(matches!(store.begin(with(b"c"), |_| false), Err(Refused::TooMany(2))));
        assert!(store.begin(with(b"a"), |_| false).is_ok(), "a script with a journal was refused");
    }

    #[test]
    fn few_scripts_run_at_once() {
        let store = open(&Memory::default());
        let with = |client: &str, code: u8| Wanted { code: Digest::of(&[code]), ..wanted(client, 1) };
        let mut running = Vec::new();
        for code in 0..4 {
            running.push(store.begin(with("a", code), |_| false).expect("refused"));
        }
        assert!(matches!(store.begin(with("a", 9), |_| false), Err(Refused::Crowded(4))));
        for code in 0..4 {
            running.push(store.begin(with("b", code), |_| false).expect("refused"));
        }
        assert!(matches!(store.begin(with("c", 0), |_| false), Err(Refused::Crowded(8))));
        running.pop();
        assert!(store.begin(with("c", 0), |_| false).is_ok());
    }

    #[test]
    fn trouble_at_every_operation_never_loses_an_intent_that_was_acknowledged() {
        for trouble in [Trouble::Once, Trouble::FromNow, Trouble::Short] {
            for n in 1..12 {
                let files = Memory::default();
                let store = open(&files);
                let (_, mut file) = store.begin(wanted("demo", 0), |_| false).expect("refused");
                files.trouble_in(n, trouble);
                let acknowledged = file.write(&Line::Intent(asked(0)), Durable::Now).is_ok();
                drop(file);
                files.heal();
                files.power_cut(|| 0);
                let store = open(&files);
                let begun = store.begin(wanted("demo", 1), |_| false);
                let kept = begun.is_ok_and(|(journal, _)| journal.calls() == 1);
                assert!(kept || !acknowledged, "{trouble:?} at {n}");
            }
        }
    }
}
