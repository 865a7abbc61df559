//! The plans and approvals of a home on disk: one file per record in `state/plans`, written before anybody hears of a transition.
//!
//! Not here: the transitions themselves (`conductor_core::pending`).

use crate::whole_file::{self, RealDisk};
use conductor_core::pending::{Pending, Record};
use conductor_core::timestamp::Timestamp;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;
use uuid::Uuid;

pub struct PendingStore {
    dir: PathBuf,
    /// Every transition happens under this lock, with its file: that is what makes a yes usable once.
    pending: Mutex<Pending>,
    revision: watch::Sender<u64>,
    /// One plan is applied at a time; a second apply sees what the first one made.
    pub applying: tokio::sync::Mutex<()>,
}

impl PendingStore {
    /// Reads what is there. A record that cannot be read is set aside and named, not lost and not fatal.
    pub fn open(dir: &Path, now: Timestamp) -> io::Result<(Self, Vec<String>)> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let mut records = Vec::new();
        let mut faults = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_none_or(|it| it != "json") {
                continue;
            }
            let read = std::fs::read(&path).map_err(|it| it.to_string());
            match read.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).map_err(|it| it.to_string())) {
                Ok(record) => records.push(record),
                Err(fault) => {
                    let aside = path.with_extension("unreadable");
                    std::fs::rename(&path, &aside)?;
                    faults.push(format!("{}: {fault}; set aside as {}", path.display(), aside.display()));
                }
            }
        }
        let store = PendingStore {
            dir: dir.to_owned(),
            pending: Mutex::new(Pending::load(records)),
            revision: watch::Sender::new(0),
            applying: tokio::sync::Mutex::default(),
        };
        store.tidy(now)?;
        Ok((store, faults))
    }

    /// Looks without changing anything.
    pub fn look<T>(&self, look: impl FnOnce(&Pending) -> T) -> T {
        look(&self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a transition and writes it down. If the disk refuses, nothing has happened.
    pub fn change<T>(&self, change: impl FnOnce(&mut Pending) -> T) -> io::Result<T> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = pending.clone();
        let result = change(&mut next);
        let changed = next.take_changed();
        for id in &changed {
            if let Some(record) = next.get(*id) {
                self.write(record)?;
            }
        }
        *pending = next;
        drop(pending);
        if !changed.is_empty() {
            self.revision.send_modify(|it| *it += 1);
        }
        Ok(result)
    }

    /// Tells of every transition.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    fn write(&self, record: &Record) -> io::Result<()> {
        let bytes = serde_json::to_vec(record).map_err(io::Error::other)?;
        let path = self.dir.join(format!("{}.json", record.id));
        whole_file::replace(&RealDisk, &path, &bytes, 0o600, "record")
    }

    /// The bytes a plan was made on and would write, beside its record.
    pub fn keep_bytes(&self, id: Uuid, before: &[u8], after: &[u8]) -> io::Result<()> {
        whole_file::replace(&RealDisk, &self.dir.join(format!("{id}.before")), before, 0o600, "bytes")?;
        whole_file::replace(&RealDisk, &self.dir.join(format!("{id}.after")), after, 0o600, "bytes")
    }

    pub fn bytes(&self, id: Uuid) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let read = |what: &str| std::fs::read(self.dir.join(format!("{id}.{what}")));
        Ok((read("before")?, read("after")?))
    }

    /// Writes down what ran out and removes what ended long ago.
    pub fn tidy(&self, now: Timestamp) -> io::Result<Vec<Uuid>> {
        let (expired, gone) = self.change(|pending| (pending.expire(now), pending.forget_old(now)))?;
        for id in gone {
            for what in ["json", "before", "after"] {
                match std::fs::remove_file(self.dir.join(format!("{id}.{what}"))) {
                    Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(expired)
    }
}
