//! Files in memory. Any operation can fail, and a power cut loses data that was not synced.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::audit_log::files::{Files, LogFile};

#[derive(Debug, Clone, Default)]
struct Inode {
    data: Vec<u8>,
    durable: Vec<u8>,
}

/// How the chosen operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Only this operation fails.
    Once,
    /// This operation and all later ones fail, until [`Memory::heal`].
    FromNow,
    /// A write stores half of its bytes; other operations fail. All later operations fail too.
    Short,
    /// Only syncs fail, from this operation on.
    Syncs,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    links: BTreeMap<PathBuf, String>,
    operations: u64,
    trouble: Option<(u64, Trouble)>,
    refused: Option<PathBuf>,
}

impl State {
    fn operation(&mut self, sync: bool) -> io::Result<bool> {
        self.operations += 1;
        let failed = || Err(io::Error::other("injected"));
        match self.trouble {
            Some((at, Trouble::Once)) if self.operations == at => failed(),
            Some((at, Trouble::FromNow)) if self.operations >= at => failed(),
            Some((at, Trouble::Short)) if self.operations == at => Ok(true),
            Some((at, Trouble::Short)) if self.operations > at => failed(),
            Some((at, Trouble::Syncs)) if self.operations >= at && sync => failed(),
            Some(_) | None => Ok(false),
        }
    }

    fn plain(&mut self, sync: bool) -> io::Result<()> {
        if self.operation(sync)? { Err(io::Error::other("injected")) } else { Ok(()) }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<State>>);

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes the `n`th operation from now fail.
    pub fn trouble_in(&self, n: u64, trouble: Trouble) {
        let mut state = self.state();
        state.trouble = Some((state.operations + n, trouble));
    }

    pub fn heal(&self) {
        self.state().trouble = None;
    }

    /// Simulates a power cut. Synced data is kept. Of the unsynced end of each file, only a part is
    /// kept: its first bytes, or zeros of the same length.
    pub fn power_cut(&self, mut random: impl FnMut() -> u64) {
        let mut state = self.state();
        state.names = state.durable_names.clone();
        for inode in &mut state.inodes {
            let kept = inode.data.strip_prefix(inode.durable.as_slice()).map(<[u8]>::to_vec);
            let mut data = inode.durable.clone();
            if let Some(rest) = kept {
                let part = &rest[..(random() as usize) % (rest.len() + 1)];
                if random().is_multiple_of(4) {
                    data.extend(part.iter().map(|_| 0))
                } else {
                    data.extend_from_slice(part)
                }
            }
            inode.durable.clone_from(&data);
            inode.data = data;
        }
    }

    /// Makes writes to one file fail. `None` makes them succeed again.
    pub fn refuse(&self, path: Option<PathBuf>) {
        self.state().refused = path;
    }

    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let state = self.state();
        state.names.get(path).map(|inode| state.inodes[*inode].data.clone()).unwrap_or_default()
    }

    pub fn set_bytes(&self, path: &Path, bytes: Vec<u8>) {
        if !self.state().names.contains_key(path) {
            self.create(path).expect("not created");
        }
        let mut state = self.state();
        let inode = state.names[path];
        state.inodes[inode].data = bytes;
    }

    pub fn delete(&self, path: &Path) {
        self.state().names.remove(path);
    }
}

#[derive(Debug)]
struct MemoryFile {
    memory: Memory,
    inode: usize,
}

impl LogFile for MemoryFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.memory.state();
        let short = state.operation(false)?;
        let refused = state.refused.as_ref().and_then(|path| state.names.get(path));
        if refused == Some(&self.inode) {
            return Err(io::Error::other("refused"));
        }
        let taken = if short { bytes.len() / 2 } else { bytes.len() };
        state.inodes[self.inode].data.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.memory.state();
        state.plain(true)?;
        let inode = &mut state.inodes[self.inode];
        inode.durable.clone_from(&inode.data);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.memory.state();
        state.plain(false)?;
        state.inodes[self.inode].data.truncate(len as usize);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.memory.state().inodes[self.inode].data.len() as u64)
    }
}

impl Files for Memory {
    fn make_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn read_at(&self, path: &Path, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let state = self.state();
        let inode = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let data = &state.inodes[*inode].data;
        let from = (offset as usize).min(data.len());
        Ok(data[from..data.len().min(from.saturating_add(max))].to_vec())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut state = self.state();
        state.plain(false)?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.names.insert(path.to_owned(), inode);
        Ok(Arc::new(MemoryFile { memory: self.clone(), inode }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let inode = *self.state().names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemoryFile { memory: self.clone(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.plain(false)?;
        if let Some(target) = state.links.remove(from) {
            state.links.insert(to.to_owned(), target);
            return Ok(());
        }
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.plain(false)?;
        let link = state.links.remove(path).is_some();
        let file = state.names.remove(path).is_some();
        if link || file { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn link(&self, target: &str, at: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.plain(false)?;
        state.links.insert(at.to_owned(), target.to_owned());
        Ok(())
    }

    fn read_link(&self, at: &Path) -> io::Result<String> {
        self.state().links.get(at).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.plain(true)?;
        state.durable_names.retain(|path, _| path.parent() != Some(dir));
        let inside: Vec<_> = state
            .names
            .iter()
            .filter(|(path, _)| path.parent() == Some(dir))
            .map(|(path, inode)| (path.clone(), *inode))
            .collect();
        state.durable_names.extend(inside);
        Ok(())
    }
}
