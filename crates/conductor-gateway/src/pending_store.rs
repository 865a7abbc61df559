//! Stores plans and approvals as files in `state/plans`, one per record.
//!
//! Each change is made in memory under one lock and written before other callers see it. If the
//! write fails, the change is rolled back. The use of an approval is therefore on the disk before
//! its call runs, and the approval cannot be used again after a restart. Each written record needs
//! at least two syncs, so make a change on a thread that may block. Not here: the rules
//! (`conductor_core::pending`).
//!
//! After a restart, an approval is valid only with its seal, a MAC over the record. Otherwise an AI
//! client with its own file tools could create an approval.

use parking_lot::{Mutex, MutexGuard};
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use conductor_core::digest::Digest;
use conductor_core::pending::{Changes, Kind, Pending, Record, State};
use conductor_core::timestamp::Timestamp;
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use uuid::Uuid;

use crate::audit_log::files::{Files, WHOLE, replace};
use conductor_hosts::system::Clock;

/// Files that belong to a record: the bytes for applying and undoing it, the full facts, and its
/// seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    Before,
    After,
    /// The full facts of a question; removed when the question ends.
    Full,
    /// The MAC over an allowed record.
    Seal,
}

impl Attachment {
    fn name(self, id: Uuid) -> String {
        match self {
            Self::Before => format!("{id}.before"),
            Self::After => format!("{id}.after"),
            Self::Full => format!("{id}.full"),
            Self::Seal => format!("{id}.seal"),
        }
    }
}

/// A file that was not loaded. The file is not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub name: String,
    pub why: String,
}

/// The questions that wait for a person, for lights and pads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    pub count: usize,
    /// The waiting question, if there is exactly one.
    pub only: Option<Uuid>,
}

impl Waiting {
    fn of(pending: &Pending) -> Self {
        let count = pending.waiting().count();
        let only = pending.waiting().next().map(|record| record.id).filter(|_| count == 1);
        Self { count, only }
    }
}

pub struct PendingStore {
    pending: Mutex<Pending>,
    waiting: watch::Sender<Waiting>,
    dir: PathBuf,
    files: Arc<dyn Files>,
    clock: OnceLock<Arc<dyn Clock>>,
    key: [u8; 32],
}

impl std::fmt::Debug for PendingStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl PendingStore {
    /// Loads all records. `key` is the MAC key of the seals.
    pub fn open(home: &Path, files: Arc<dyn Files>, key: [u8; 32]) -> io::Result<(Self, Vec<Skipped>)> {
        let dir = home.join("state").join("plans");
        files.make_dir(&dir)?;
        let (mut records, mut skipped) = (Vec::new(), Vec::new());
        for name in files.names(&dir)? {
            let Some(stem) = name.strip_suffix(".json") else {
                continue;
            };
            let bytes = files.read_at(&dir.join(&name), 0, WHOLE)?;
            match Record::from_json(&bytes) {
                Ok(record) if record.state == State::Allowed && !is_sealed(&*files, &dir, &key, record.id, &bytes) => {
                    let why = "the file contains an approval without a valid seal; the approval is ignored".to_owned();
                    skipped.push(Skipped { name, why });
                }
                // A record whose file name is not its id would get a second file when it changes,
                // and one of the two files would become stale.
                Ok(record) if record.id.to_string() == stem => records.push(record),
                Ok(record) => skipped.push(Skipped {
                    name,
                    why: format!("the file contains the record {}, which does not match the file name", record.id),
                }),
                Err(why) => skipped.push(Skipped { name, why: why.to_string() }),
            }
        }
        let pending = Pending::load(records);
        let waiting = watch::Sender::new(Waiting::of(&pending));
        let store = Self { pending: Mutex::new(pending), waiting, dir, files, clock: OnceLock::new(), key };
        Ok((store, skipped))
    }

    /// Sets the clock. After that, questions and plans also expire by the clock's monotonic time,
    /// not only by wall time.
    pub fn run_on(&self, clock: &Arc<dyn Clock>) {
        let _ = self.clock.set(Arc::clone(clock));
    }

    // Locks the records. Rolls back a change that panicked before its commit.
    fn lock(&self) -> MutexGuard<'_, Pending> {
        let mut pending = self.pending.lock();
        pending.roll_back();
        pending
    }

    /// Watches the waiting questions.
    pub fn watch(&self) -> watch::Receiver<Waiting> {
        self.waiting.subscribe()
    }

    pub fn read<T>(&self, look: impl FnOnce(&Pending) -> T) -> T {
        look(&self.lock())
    }

    /// Makes a change and returns when it is on the disk. On an error nothing has changed.
    pub fn change<T>(&self, change: impl FnOnce(&mut Pending) -> T) -> io::Result<T> {
        let done = self.change_with(&[], |pending| Ok::<_, Infallible>((Uuid::nil(), change(pending))))?;
        Ok(match done {
            Ok(result) => result,
        })
    }

    /// Like [`PendingStore::change`], for a record with attachments. The attachments are written
    /// before the record, so that every stored plan can be applied. A refused change writes no
    /// attachments.
    pub fn change_with<T, E>(
        &self,
        bytes: &[(Attachment, &[u8])],
        change: impl FnOnce(&mut Pending) -> Result<(Uuid, T), E>,
    ) -> io::Result<Result<T, E>> {
        let mut pending = self.lock();
        if let Some(clock) = self.clock.get() {
            pending.set_steady(clock.now().0 / 1000);
        }
        let result = change(&mut pending);
        let changes = pending.changes();
        let put = || match &result {
            Ok((id, _)) => {
                bytes.iter().try_for_each(|(attachment, bytes)| self.write_attachment(*id, *attachment, bytes))
            }
            Err(_) => Ok(()),
        };
        match put().and_then(|()| self.write(&changes)) {
            Ok(()) => {
                pending.commit();
                let now = Waiting::of(&pending);
                self.waiting.send_if_modified(|it| std::mem::replace(it, now) != now);
                self.drop_attachments(&changes);
                Ok(result.map(|(_, value)| value))
            }
            Err(error) => {
                pending.roll_back();
                // Some files may have been replaced already. If restoring a file fails too, the
                // file keeps the newer record, which takes effect after a restart. The newer record
                // has fewer uses, less time, or a person's answer that was reported as not stored.
                let ids = changes.written.iter().map(|record| record.id).chain(changes.removed.iter().copied());
                for id in ids {
                    match pending.get(id) {
                        Some(record) => drop(self.write_one(record)),
                        None => drop(self.files.remove(&self.dir.join(format!("{id}.json")))),
                    }
                }
                if let (Ok((id, _)), false) = (&result, bytes.is_empty()) {
                    self.remove_attachments(*id);
                }
                Err(error)
            }
        }
    }

    /// Removes attachments that are no longer needed, so that many ended records cannot fill the
    /// disk. Open records, which can be applied or shown, and applied plans, which can be undone,
    /// keep their attachments.
    fn drop_attachments(&self, changes: &Changes) {
        let useless = |it: &&Record| it.state.has_ended() && (it.kind == Kind::Call || it.state != State::Used);
        let ended = changes.written.iter().filter(useless).map(|it| it.id);
        ended.chain(changes.removed.iter().copied()).for_each(|id| self.remove_attachments(id));
    }

    /// Removes the attachments of a record. A failure is ignored: leftovers are removed with the
    /// record, or at the next start.
    fn remove_attachments(&self, id: Uuid) {
        for attachment in [Attachment::Before, Attachment::After, Attachment::Full, Attachment::Seal] {
            let _ = self.remove(&attachment.name(id));
        }
    }

    fn write(&self, changes: &Changes) -> io::Result<()> {
        changes.written.iter().try_for_each(|record| self.write_one(record))?;
        if changes.removed.is_empty() {
            return Ok(());
        }
        for id in &changes.removed {
            self.remove(&format!("{id}.json"))?;
        }
        self.files.sync_dir(&self.dir)
    }

    fn write_one(&self, record: &Record) -> io::Result<()> {
        let bytes = record.to_json();
        if record.state == State::Allowed {
            // Write the seal before the record: a crash in between loses at most the approval.
            self.write_attachment(record.id, Attachment::Seal, seal(&self.key, &bytes).as_bytes())?;
        }
        replace(&*self.files, &self.dir, &format!("{}.json", record.id), &bytes)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.files.remove(&self.dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn write_attachment(&self, id: Uuid, attachment: Attachment, bytes: &[u8]) -> io::Result<()> {
        replace(&*self.files, &self.dir, &attachment.name(id), bytes)
    }

    /// Whether the record has this attachment.
    pub fn has(&self, id: Uuid, attachment: Attachment) -> bool {
        self.files.open(&self.dir.join(attachment.name(id))).is_ok()
    }

    pub fn bytes(&self, id: Uuid, attachment: Attachment) -> io::Result<Vec<u8>> {
        self.files.read_at(&self.dir.join(attachment.name(id)), 0, WHOLE)
    }

    /// Removes records that ended more than a week ago, attachments without a record, and temporary
    /// files of crashes.
    pub fn clean_up(&self, now: Timestamp) -> io::Result<Vec<Uuid>> {
        let gone = self.change(|pending| pending.clean_up(now))?;
        // Files are written under this lock. So a temporary or unknown file was left by an earlier
        // run.
        let pending = self.lock();
        let known = |name: &str| {
            let stem = [".before", ".after", ".full", ".seal"].iter().find_map(|ending| name.strip_suffix(ending));
            stem.is_none_or(|stem| Uuid::parse_str(stem).is_ok_and(|id| pending.get(id).is_some()))
        };
        for name in self.files.names(&self.dir)? {
            if (name.starts_with('.') && name.ends_with(".new")) || !known(&name) {
                self.remove(&name)?;
            }
        }
        Ok(gone)
    }
}

fn seal(key: &[u8; 32], record: &[u8]) -> String {
    Digest::keyed(key, record).to_string()
}

fn is_sealed(files: &dyn Files, dir: &Path, key: &[u8; 32], id: Uuid, record: &[u8]) -> bool {
    let found = files.read_at(&dir.join(Attachment::Seal.name(id)), 0, WHOLE);
    found.is_ok_and(|it| it.ct_eq(seal(key, record).as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit_log::tests::memory::{Memory, Trouble};
    use conductor_core::pending::{Ask, Asked, NewIds, Present, State, Yes};
    use conductor_core::policy::limits::Limits;
    use conductor_core::policy::{ApprovalSettings, Channel, Floor, Tier};
    use conductor_core::principal::Principal;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_767_323_045_000 + ms)
    }

    fn ask() -> Ask {
        Ask {
            principal: Principal::socket(1000, "demo"),
            tool: "filesystem.write".into(),
            tier: Tier::HardwareIo,
            args_hash: Digest::of(b"args"),
            present: Present { pin: Digest::of(b"pin"), policy_version: Digest::of(b"policy"), state: None },
            summary: "writes".into(),
            facts: Vec::new(),
            floor: Floor::Local,
            from_plugin: false,
            tainted: false,
        }
    }

    fn put(store: &PendingStore, n: u128, ms: u64) -> io::Result<Asked> {
        let ids = NewIds { id: Uuid::from_u128(n), short: n as u64 };
        store.change(|pending| pending.ask(ask(), ids, &ApprovalSettings::default(), &Limits::default(), at(ms)))
    }

    fn open(files: &Memory) -> PendingStore {
        let (store, skipped) =
            PendingStore::open(Path::new("home"), Arc::new(files.clone()), [7; 32]).expect("not open");
        assert_eq!(skipped, []);
        store
    }

    fn states(store: &PendingStore) -> Vec<State> {
        store.read(|pending| pending.iter().map(|record| record.state).collect())
    }

    #[test]
    fn a_yes_that_was_written_by_another_program_does_not_count() {
        let files = Memory::default();
        let store = open(&files);
        put(&store, 1, 0).expect("not written");
        let path = Path::new("home/state/plans").join(format!("{}.json", Uuid::from_u128(1)));
        let waits = files.read_at(&path, 0, WHOLE).expect("not written");
        let mut forged = Record::from_json(&waits).expect("no record");
        forged.state = State::Allowed;
        let dir = Path::new("home/state/plans");
        replace(&files, dir, &format!("{}.json", forged.id), &forged.to_json()).expect("not written");
        let reopened = |key| PendingStore::open(Path::new("home"), Arc::new(files.clone()), key).expect("not open");
        let (store, skipped) = reopened([7; 32]);
        assert_eq!((states(&store), skipped.len()), (vec![], 1));
        // A guessed seal, or the seal of another record or another home, is not accepted.
        for guess in ["", "sha256:", &seal(&[8; 32], &forged.to_json()), &seal(&[7; 32], &waits)] {
            replace(&files, dir, &Attachment::Seal.name(forged.id), guess.as_bytes()).expect("not written");
            assert_eq!(states(&reopened([7; 32]).0), [], "{guess}");
        }
        // Control: the right seal is accepted.
        let right = seal(&[7; 32], &forged.to_json());
        replace(&files, dir, &Attachment::Seal.name(forged.id), right.as_bytes()).expect("not written");
        assert_eq!(states(&reopened([7; 32]).0), [State::Allowed]);
    }

    #[test]
    fn a_use_survives_a_power_cut() {
        let files = Memory::default();
        let store = open(&files);
        let id = Uuid::from_u128(1);
        assert_eq!(put(&store, 1, 0).expect("not written"), Asked::Created { id });
        store
            .change(|pending| pending.allow(id, &Yes::once("p", Channel::Cli), at(1)))
            .expect("not written")
            .expect("not allowed");
        files.power_cut(|| 0);
        let store = open(&files);
        assert_eq!(states(&store), [State::Allowed]);
        assert!(matches!(put(&store, 2, 2).expect("not written"), Asked::Run { .. }));
        files.power_cut(|| 0);
        let store = open(&files);
        assert_eq!(states(&store), [State::Used]);
        assert!(matches!(put(&store, 3, 3).expect("not written"), Asked::Created { .. }));
    }

    #[test]
    fn trouble_at_every_operation_leaves_the_old_or_the_new() {
        let operations = {
            let files = Memory::default();
            let store = open(&files);
            put(&store, 1, 0).expect("not written");
            files.operations()
        };
        for trouble in [Trouble::Once, Trouble::FromNow, Trouble::Short] {
            for n in 1..=operations {
                let files = Memory::default();
                let store = open(&files);
                put(&store, 1, 0).expect("not written");
                let id = Uuid::from_u128(1);
                files.trouble_in(n, trouble);
                let yes = store.change(|pending| pending.allow(id, &Yes::once("p", Channel::Cli), at(1)));
                let wanted = if yes.is_ok() { State::Allowed } else { State::Pending };
                assert_eq!(states(&store), [wanted], "{trouble:?} at {n}");
                files.heal();
                let reopened = states(&open(&files));
                assert!(
                    reopened == [State::Allowed] || reopened == [State::Pending],
                    "{trouble:?} at {n}: {reopened:?}"
                );
                if yes.is_ok() || trouble == Trouble::Once {
                    assert_eq!(reopened, [wanted], "{trouble:?} at {n}");
                }
            }
        }
    }

    #[test]
    fn clean_up_and_strange_files() {
        let files = Memory::default();
        let store = open(&files);
        put(&store, 1, 0).expect("not written");
        let id = Uuid::from_u128(1);
        store.write_attachment(id, Attachment::Before, b"old").expect("not written");
        store.write_attachment(Uuid::from_u128(7), Attachment::After, b"unowned").expect("not written");
        assert_eq!(store.bytes(id, Attachment::Before).expect("missing"), b"old");
        let plans = Path::new("home/state/plans");
        let temp = files.create(&plans.join(".x.json.new")).expect("not created");
        temp.append(b"half").expect("not written");
        assert_eq!(store.clean_up(at(1)).expect("not cleaned"), Vec::<Uuid>::new());
        assert_eq!(files.names(plans).expect("not readable"), [format!("{id}.before"), format!("{id}.json")]);
        let week = 8 * 86_400_000;
        assert_eq!(store.clean_up(at(week)).expect("not cleaned"), [id]);
        assert_eq!(files.names(plans).expect("not readable"), Vec::<String>::new());

        let bad = files.create(&plans.join("junk.json")).expect("not created");
        bad.append(b"{}").expect("not written");
        let (_, skipped) = PendingStore::open(Path::new("home"), Arc::new(files.clone()), [7; 32]).expect("not open");
        assert_eq!(skipped.len(), 1);
        assert_eq!(files.names(plans).expect("not readable"), ["junk.json"], "an unknown file was removed");
    }
}
