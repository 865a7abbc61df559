//! Stores the last checkpoint in `state/` and in the second copy, outside the log's own files. A
//! rollback of the log can then be detected.
//!
//! Not here: the keychain (in the daemon), and the comparison of a stored checkpoint with the log
//! (`conductor_core::audit::memory`).

use std::io;
use std::path::Path;

use conductor_core::audit::Head;
use conductor_core::audit::memory::{Place, Remembered};

use super::files::{Files, WHOLE, replace};
use super::layout::Layout;
use super::walk::or_empty;

/// Name of the file in `state/` and in the folder of the second copy.
const NAME: &str = "audit.last";

fn read(files: &dyn Files, dir: &Path, place: Place) -> io::Result<Option<Remembered>> {
    let bytes = or_empty(files.read_at(&dir.join(NAME), 0, WHOLE))?;
    Ok(Remembered::new(place, &String::from_utf8_lossy(&bytes)))
}

/// Reads the checkpoints that are stored in files. A copy that cannot be read, such as on an
/// unmounted disk, is skipped.
pub fn recall(files: &dyn Files, layout: &Layout, copy_to: Option<&Path>) -> io::Result<Vec<Remembered>> {
    let state = read(files, &layout.state, Place::State)?;
    let copy = copy_to.and_then(|dir| read(files, dir, Place::Copy).ok().flatten());
    Ok(state.into_iter().chain(copy).collect())
}

/// Stores a checkpoint that is on the disk. A stored checkpoint is replaced only by a later
/// checkpoint of the same log. So a disk that is reconnected keeps the checkpoint of a different
/// log as evidence.
fn advance(files: &dyn Files, dir: &Path, place: Place, head: Head, line: &str) -> io::Result<()> {
    match read(files, dir, place)? {
        Some(known) if !known.is_before(head.log_id, head.seq) => {
            let why = format!("{place} has a later checkpoint or belongs to another log; run `conductor audit verify`");
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
        Some(_) | None => replace(files, dir, NAME, line.as_bytes()),
    }
}

pub fn advance_state(files: &dyn Files, layout: &Layout, head: Head, line: &str) -> io::Result<()> {
    advance(files, &layout.state, Place::State, head, line)
}

pub fn advance_copy(files: &dyn Files, dir: &Path, head: Head, line: &str) -> io::Result<()> {
    advance(files, dir, Place::Copy, head, line)
}

/// Replaces the stored checkpoint in all places, because a person accepted that the log continues
/// at this checkpoint.
pub fn overwrite(files: &dyn Files, layout: &Layout, copy_to: Option<&Path>, line: &str) -> io::Result<()> {
    replace(files, &layout.state, NAME, line.as_bytes())?;
    match copy_to {
        // A missing folder of the second copy is not an error here.
        Some(dir) if files.names(dir).is_ok() => replace(files, dir, NAME, line.as_bytes()),
        Some(_) | None => Ok(()),
    }
}
