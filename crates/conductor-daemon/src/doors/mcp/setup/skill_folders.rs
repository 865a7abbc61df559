//! Copies the skills to a client that reads them from a folder.
//!
//! Next to each copy is a file with its digest. A skill that a person has changed, or that is not
//! from Conductor, is neither replaced nor removed.

use std::io;
use std::path::{Path, PathBuf};

use conductor_hosts::atomic_file;

use super::clients::{Client, Places};
use crate::skills::{self, Skill};

/// The file with the digest of our copy.
const MARK: &str = ".conductor-digest";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Written,
    Unchanged,
    Removed,
    /// The skill is not an unchanged copy of ours, so it is kept.
    Foreign,
}

/// The folder of the skills of a client, if the client has one and is installed.
pub fn folder(client: &Client, places: &Places) -> Option<PathBuf> {
    let found = places.paths(client.skills).into_iter().next()?;
    found.parent().is_some_and(Path::is_dir).then_some(found)
}

/// Copies every skill.
pub fn copy(folder: &Path) -> io::Result<Vec<(&'static str, Outcome)>> {
    skills::ALL.iter().map(|it| Ok((it.name(), copy_one(folder, it)?))).collect()
}

fn copy_one(folder: &Path, skill: &Skill) -> io::Result<Outcome> {
    let place = folder.join(skill.name());
    match state(&place)? {
        State::Foreign => return Ok(Outcome::Foreign),
        State::Ours(digest) if digest == skill.digest() => return Ok(Outcome::Unchanged),
        State::Ours(_) | State::Absent => {}
    }
    std::fs::create_dir_all(&place)?;
    let unique = std::process::id().to_string();
    // The mark is written first: without a mark, the next run would not recognise the copy as ours.
    atomic_file::replace(&place.join(MARK), skill.digest().as_bytes(), 0o644, &unique)?;
    atomic_file::replace(&place.join("SKILL.md"), skill.text.as_bytes(), 0o644, &unique)?;
    Ok(Outcome::Written)
}

/// Removes every unchanged copy.
pub fn remove(folder: &Path) -> io::Result<Vec<(&'static str, Outcome)>> {
    let one = |skill: &Skill| -> io::Result<Outcome> {
        let place = folder.join(skill.name());
        match state(&place)? {
            State::Absent => Ok(Outcome::Unchanged),
            State::Foreign => Ok(Outcome::Foreign),
            State::Ours(_) => {
                std::fs::remove_file(place.join("SKILL.md"))?;
                std::fs::remove_file(place.join(MARK))?;
                // The folder stays if a person has added files.
                let _ = std::fs::remove_dir(&place);
                Ok(Outcome::Removed)
            }
        }
    };
    let done = skills::ALL.iter().map(|it| Ok((it.name(), one(it)?))).collect();
    let _ = std::fs::remove_dir(folder);
    done
}

enum State {
    Absent,
    Ours(String),
    Foreign,
}

fn state(place: &Path) -> io::Result<State> {
    let optional = |name: &str| match atomic_file::read(&place.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(other) => Err(other),
    };
    Ok(match (optional("SKILL.md")?, optional(MARK)?) {
        (None, _) => State::Absent,
        (Some(text), Some(mark)) if skills::digest(&text).as_bytes() == mark => State::Ours(skills::digest(&text)),
        (Some(_), _) => State::Foreign,
    })
}
