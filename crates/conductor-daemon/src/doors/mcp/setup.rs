//! `conductor mcp setup`: adds the server to an AI client's configuration file, and removes it
//! again, without changing anything else in the file.
//!
//! `clients` is the table of clients, `edit` changes the text of a file. Not here: printing and
//! exit codes (`cli`).

pub mod clients;
pub mod edit;
mod flow;
pub mod skill_folders;
mod toml;
mod tree;
mod yaml;

use std::io;
use std::path::{Path, PathBuf};

use conductor_hosts::atomic_file;

use self::clients::{Client, Launch, Places};
use self::edit::{Fault, Place};

const NAME: &str = "conductor";

#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    Written {
        file: PathBuf,
    },
    /// The file already has the required content.
    Unchanged {
        file: PathBuf,
    },
    /// The file existed only for our entry, and is removed.
    Deleted {
        file: PathBuf,
    },
    /// This client has no file; print the snippet.
    NoFile,
}

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("{folder} does not exist, so {client} is not installed here; nothing was written")]
    NotInstalled { client: &'static str, folder: PathBuf },
    #[error("{file}: {fault}; the file was not changed")]
    Refused { file: PathBuf, fault: Fault },
    #[error("{file} has changed in the meantime and was not overwritten; repeat the command")]
    Changed { file: PathBuf },
    #[error("{file}: {source}")]
    Io { file: PathBuf, source: io::Error },
}

const fn place(client: &Client) -> Place<'static> {
    Place { container: client.container, name: NAME }
}

/// The text that a person pastes into a file that we do not write.
pub fn snippet(client: &Client, launch: &Launch) -> String {
    client.format.set("", place(client), &client.fields(launch)).unwrap_or_default()
}

/// Adds our entry, or updates the command in it. No other byte of the file changes.
pub fn apply(client: &Client, places: &Places, launch: &Launch) -> Result<Done, SetupError> {
    let Some(file) = client.file(places) else { return Ok(Done::NoFile) };
    let folder = file.parent().unwrap_or(Path::new(".")).to_owned();
    if !folder.is_dir() {
        return Err(SetupError::NotInstalled { client: client.title, folder });
    }
    let before = read(&file)?;
    let text = before.as_deref().unwrap_or_default();
    let refused = |fault| SetupError::Refused { file: file.clone(), fault };
    let after = client.format.set(text, place(client), &client.fields(launch)).map_err(refused)?;
    if before.as_deref() == Some(after.as_str()) {
        return Ok(Done::Unchanged { file });
    }
    let is_new = client.format.find(text, place(client)).map_err(refused)?.is_none();
    if is_new && before.is_some() {
        // A file with our entry is not the original, so an update keeps the first backup.
        std::fs::copy(&file, backup_of(&file)).map_err(|source| SetupError::Io { file: file.clone(), source })?;
    }
    write(&file, before.as_deref(), &after)?;
    Ok(Done::Written { file })
}

/// Removes our entry. A file that was not changed since `apply` gets its original bytes back.
pub fn remove(client: &Client, places: &Places) -> Result<Done, SetupError> {
    let Some(file) = client.file(places) else { return Ok(Done::NoFile) };
    let Some(text) = read(&file)? else { return Ok(Done::Unchanged { file }) };
    let fault = |source| SetupError::Io { file: file.clone(), source };
    let refused = |fault| SetupError::Refused { file: file.clone(), fault };
    let Some(entry) = client.format.find(&text, place(client)).map_err(refused)? else {
        return Ok(Done::Unchanged { file });
    };
    let backup = backup_of(&file);
    let original = read(&backup).ok().flatten();
    let made_from = |original: &str| {
        client.launch_of(&entry).is_some_and(|launch| {
            has_no_entry(client, original)
                && client.format.set(original, place(client), &client.fields(&launch)).ok().as_deref()
                    == Some(text.as_str())
        })
    };
    if let Some(original) = original.as_deref().filter(|it| made_from(it)) {
        write(&file, Some(&text), original)?;
        std::fs::remove_file(&backup).map_err(fault)?;
        return Ok(Done::Written { file });
    }
    if made_from("") {
        std::fs::remove_file(&file).map_err(fault)?;
        return Ok(Done::Deleted { file });
    }
    // The container is ours too, unless the original file already had one.
    let had_container = |it: &str| client.format.value(it).is_ok_and(|it| it.get(client.container).is_some());
    let drop_container = !original.as_deref().is_some_and(had_container);
    let after = client.format.unset(&text, place(client), drop_container).map_err(refused)?;
    write(&file, Some(&text), &after)?;
    Ok(Done::Written { file })
}

fn has_no_entry(client: &Client, text: &str) -> bool {
    client.format.find(text, place(client)).is_ok_and(|it| it.is_none())
}

/// The state of Conductor's entry in a client's file.
#[derive(Debug, PartialEq, Eq)]
pub enum Status {
    /// The folder of the client does not exist.
    NotInstalled,
    NotSetUp,
    SetUp(Launch),
    /// An entry with our name exists, but it starts no program.
    OtherEntry,
    Unreadable(String),
}

/// The state of a client and its file. `None` for a client without a file.
pub fn status(client: &Client, places: &Places) -> Option<(PathBuf, Status)> {
    let file = client.file(places)?;
    if !file.parent().is_some_and(Path::is_dir) {
        return Some((file, Status::NotInstalled));
    }
    let found = read(&file).and_then(|text| {
        let refused = |fault| SetupError::Refused { file: file.clone(), fault };
        client.format.find(text.as_deref().unwrap_or_default(), place(client)).map_err(refused)
    });
    let status = match found {
        Ok(None) => Status::NotSetUp,
        Ok(Some(entry)) => client.launch_of(&entry).map_or(Status::OtherEntry, Status::SetUp),
        Err(SetupError::Refused { fault, .. }) => Status::Unreadable(fault.to_string()),
        Err(error) => Status::Unreadable(error.to_string()),
    };
    Some((file, status))
}

fn read(file: &Path) -> Result<Option<String>, SetupError> {
    let bytes = match atomic_file::read(file) {
        Ok(bytes) => bytes,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SetupError::Io { file: file.to_owned(), source }),
    };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid =
            String::from_utf8_lossy(error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default());
        let fault = Fault::at(&valid, valid.len(), "the text is not UTF-8");
        SetupError::Refused { file: file.to_owned(), fault }
    })
}

/// Replaces the file, unless it changed since it was read.
fn write(file: &Path, before: Option<&str>, after: &str) -> Result<(), SetupError> {
    let mut has_changed = false;
    let check = || {
        has_changed = read(file).ok().flatten().as_deref() != before;
        if has_changed { Err(io::Error::other("changed")) } else { Ok(()) }
    };
    // The configuration file may be a symbolic link, which must stay a link.
    let unique = std::process::id().to_string();
    match atomic_file::replace_if(file, after.as_bytes(), 0o644, &unique, check) {
        Ok(()) => Ok(()),
        Err(_) if has_changed => Err(SetupError::Changed { file: file.to_owned() }),
        Err(source) => Err(SetupError::Io { file: file.to_owned(), source }),
    }
}

fn backup_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".before-conductor");
    PathBuf::from(name)
}
