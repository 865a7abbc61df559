//! Watches `config.toml` and the symbolic links to it for changes.
//!
//! Not here: reading the file (`config_file`).

use crate::config_file::Order;
use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, mpsc};

/// A folder, and the name of a file or link in it that is part of the path.
type Place = (PathBuf, OsString);

/// Sends an order for every change to the file or to a link to it. Watches the folders, because
/// editors replace the file by renaming. The watch ends when this value is dropped.
pub struct Watch {
    orders: mpsc::Sender<Order>,
    /// Shared with the thread of the watcher.
    places: Arc<Mutex<BTreeSet<Place>>>,
    folders: BTreeSet<PathBuf>,
    watcher: Option<RecommendedWatcher>,
}

impl Watch {
    /// Starts the watch. On an error nothing is watched until [`Watch::follow`] succeeds.
    pub fn start(path: &Path, orders: mpsc::Sender<Order>) -> (Self, Option<String>) {
        let mut watch = Watch { orders, places: Arc::default(), folders: BTreeSet::new(), watcher: None };
        let error = watch.arm(path).err().map(|it| it.to_string());
        (watch, error)
    }

    /// Watches the current target of the path. Returns `true` if the target changed.
    pub fn follow(&mut self, path: &Path) -> bool {
        let known = self.places.lock().clone();
        if self.watcher.is_some() && known == places(path) {
            return false;
        }
        // A path that cannot be watched is read again only on request. Each request also retries
        // the watch.
        self.arm(path).is_ok()
    }

    fn arm(&mut self, path: &Path) -> notify::Result<()> {
        let places_now = places(path);
        let folders: BTreeSet<PathBuf> = places_now.iter().map(|(folder, _)| folder.clone()).collect();
        *self.places.lock() = places_now;
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            none => none.insert(watcher(Arc::clone(&self.places), self.orders.clone())?),
        };
        for gone in self.folders.difference(&folders) {
            // A folder that was deleted is no longer watched anyway.
            let _ = watcher.unwatch(gone);
        }
        let mut failed = None;
        for folder in &folders {
            // Watch known folders again too: a folder may have been replaced by another with the
            // same name.
            failed = watcher.watch(folder, RecursiveMode::NonRecursive).err().or(failed);
        }
        self.folders = folders;
        match failed {
            Some(fault) => {
                self.watcher = None;
                Err(fault)
            }
            None => Ok(()),
        }
    }
}

fn watcher(places: Arc<Mutex<BTreeSet<Place>>>, orders: mpsc::Sender<Order>) -> notify::Result<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let touched = match event {
            // Ignore access events: reading the file must not cause another read.
            Ok(event) => {
                let places = places.lock();
                // If a folder is removed or renamed, the file is lost. Other changes to the folder
                // are ignored.
                let goes = event.kind.is_remove() || matches!(event.kind, EventKind::Modify(ModifyKind::Name(_)));
                let concerns = |path: &PathBuf| {
                    places.iter().any(|(folder, name)| path.file_name() == Some(name) || goes && path == folder)
                };
                !event.kind.is_access() && event.paths.iter().any(concerns)
            }
            // Events were lost, so report a change. An unnecessary read is cheap.
            Err(_) => true,
        };
        if touched {
            // The channel is closed only during shutdown.
            let _ = orders.send(Order::Touched);
        }
    })
}

/// The maximum number of symbolic links that are followed.
const MOST_LINKS: usize = 40;

/// Every symbolic link in the path, and the file itself.
fn places(path: &Path) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    let mut here = PathBuf::new();
    let mut left: VecDeque<OsString> = components(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == "/" {
            here = PathBuf::from("/");
            continue;
        }
        if name == ".." {
            here.pop();
            continue;
        }
        let there = here.join(&name);
        let is_last = left.is_empty();
        match std::fs::symlink_metadata(&there) {
            Ok(found) if found.is_symlink() && links < MOST_LINKS => {
                links += 1;
                places.insert((here.clone(), name));
                let target = std::fs::read_link(&there).unwrap_or_default();
                components(&target).into_iter().rev().for_each(|it| left.push_front(it));
            }
            Ok(_) if !is_last => here = there,
            Ok(_) | Err(_) => {
                places.insert((here, name));
                break;
            }
        }
    }
    places
}

fn components(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter(|it| !matches!(it, Component::CurDir));
    parts.map(|it| it.as_os_str().to_owned()).collect()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_watched() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        for folder in ["a", "b", "c"] {
            std::fs::create_dir(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("c/real.toml"), "").unwrap();
        symlink("../b/middle", root.join("a/config.toml")).unwrap();
        symlink(root.join("d/real.toml"), root.join("b/middle")).unwrap();
        symlink("c", root.join("d")).unwrap();
        let found = places(&root.join("a/config.toml"));
        for (folder, name) in [("a", "config.toml"), ("b", "middle"), ("", "d"), ("c", "real.toml")] {
            let folder = if folder.is_empty() { root.clone() } else { root.join(folder) };
            assert!(found.contains(&(folder.clone(), OsString::from(name))), "{folder:?} {name}: {found:?}");
        }
    }

    #[test]
    fn links_in_a_ring_end() {
        let home = tempfile::tempdir().unwrap();
        symlink("b", home.path().join("a")).unwrap();
        symlink("a", home.path().join("b")).unwrap();
        assert!(!places(&home.path().join("a")).is_empty());
    }
}
