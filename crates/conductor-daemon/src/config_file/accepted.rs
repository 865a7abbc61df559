//! `state/accepted.jsonl` stores the configuration that a person accepted, with a MAC. After a
//! restart, the parts that need acceptance are taken from this file, not from `config.toml`.
//!
//! The key of the MAC is in `secrets/config.key`, which is created at the first start. If there are
//! secrets, the key of the MAC is derived from this key and the key of the secrets. Every change
//! has a number. The audit log records the last number and its hash, so that a restored older file
//! is detected. A home with an audit log, an audit key or an entry in the keychain is never new:
//! without a record with a valid MAC the daemon grants no rights.
//!
//! Not here: held changes (`conductor_core::config::held`), and reading the file (`config_file`).

use crate::log::Log;
use conductor_core::config::held::Accepted;
use conductor_core::digest::Digest;
use conductor_gateway::audit_log::files::{Disk, Files};
use conductor_gateway::audit_log::layout::{Layout, segment_name};
use conductor_gateway::config_in_force::{Holder, Mark};
use conductor_gateway::secrets::{self, MacKey, Secrets};
use conductor_hosts::atomic_file;
use conductor_hosts::system::Ids;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

const FILE: &str = "accepted.jsonl";
const KEY: &str = "config.key";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    v: u32,
    key: Holder,
    mac: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    id: Uuid,
    generation: u64,
    typing: std::collections::BTreeSet<String>,
    /// The text of `config.toml` when it was last loaded.
    text: Option<String>,
    tree: Value,
}

/// The accepted configuration found at a start.
pub enum Found {
    /// A new home: no configuration was ever accepted, and there is no audit log.
    New,
    Accepted {
        accepted: Accepted,
        text: Option<String>,
    },
    Closed {
        why: String,
        /// The `[secrets]` section, if the key is locked and may become available later.
        locked: Option<Value>,
    },
}

/// The stored record of one home. Only one thread writes it.
pub struct Store {
    home: PathBuf,
    ids: Arc<dyn Ids>,
    secrets: Arc<Secrets>,
    mark: Option<Mark>,
    log: Log,
}

impl Store {
    pub fn new(home: &Path, ids: Arc<dyn Ids>, secrets: Arc<Secrets>, log: &Log) -> Self {
        Store { home: home.to_owned(), ids, secrets, mark: None, log: log.clone() }
    }

    /// The record that was read or written last.
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    pub fn set_secrets(&mut self, secrets: Arc<Secrets>) {
        self.secrets = secrets;
    }

    fn path(&self) -> PathBuf {
        self.home.join("state").join(FILE)
    }

    pub fn find(&mut self) -> Found {
        let closed = |why: &str| Found::Closed { why: why.to_owned(), locked: None };
        let bytes = match std::fs::read(self.path()) {
            Ok(bytes) => bytes,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound && self.is_new() => return Found::New,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                return closed("no configuration was accepted in this home, or state/accepted.jsonl was removed");
            }
            Err(fault) => return closed(&format!("state/accepted.jsonl cannot be read: {fault}")),
        };
        let damaged = || closed("state/accepted.jsonl is damaged or was changed by another program");
        let mut lines = bytes.splitn(2, |it| *it == b'\n');
        let (Some(first), Some(body)) = (lines.next(), lines.next()) else { return damaged() };
        let (Ok(seal), Ok(record)) = (serde_json::from_slice::<Seal>(first), serde_json::from_slice::<Record>(body))
        else {
            return damaged();
        };
        // This setting is not verified yet. It only selects where the key is read, and a wrong key
        // does not match the MAC.
        let rung = record.tree.pointer("/secrets/key").and_then(Value::as_str);
        self.secrets.configure(rung.and_then(|it| it.parse().ok()).unwrap_or_default());
        let key = match self.key(seal.key) {
            Ok(Some(key)) => key,
            Ok(None) => return closed("the key of state/accepted.jsonl is missing"),
            Err(why) => {
                let secrets = record.tree.get("secrets").cloned().unwrap_or_else(|| json!({}));
                return Found::Closed { why, locked: Some(secrets) };
            }
        };
        if Digest::keyed(&key, body) != seal.mac {
            return damaged();
        }
        let mark = Mark { id: record.id, generation: record.generation, hash: Digest::of(body), key: seal.key };
        if let Some(logged) = last_mark(&self.home)
            && let Some(why) = behind(&mark, &logged)
        {
            return closed(why);
        }
        self.mark = Some(mark);
        let accepted = Accepted { tree: record.tree, typing: record.typing, closed: false };
        Found::Accepted { accepted, text: record.text }
    }

    /// Stores the configuration for the next start. On an error the old record is unchanged.
    pub fn save(&mut self, accepted: &Accepted, text: Option<&str>) -> io::Result<()> {
        // The new number must be higher than every logged number, even if the record was lost.
        let (id, generation) = match (&self.mark, last_mark(&self.home)) {
            (Some(mark), _) => (mark.id, mark.generation + 1),
            (None, Some(logged)) => (logged.id, logged.generation + 1),
            (None, None) => (self.ids.v4(), 1),
        };
        let holder = match self.secrets.mac_key() {
            MacKey::NoSecrets => Holder::Home,
            MacKey::Key(_) => Holder::Vault,
            MacKey::Locked(why) => return Err(io::Error::other(format!("secrets are locked: {why}"))),
        };
        let key = match self.key(holder).map_err(io::Error::other)? {
            Some(key) => key,
            None => self.make_key()?,
        };
        let tree = accepted.tree.clone();
        let record = Record { id, generation, typing: accepted.typing.clone(), text: text.map(str::to_owned), tree };
        let body = serde_json::to_vec(&record)?;
        let seal = Seal { v: 1, key: holder, mac: Digest::keyed(&key, &body) };
        let mut bytes = serde_json::to_vec(&seal)?;
        bytes.push(b'\n');
        bytes.extend_from_slice(&body);
        atomic_file::replace(&self.path(), &bytes, 0o600, &self.ids.v4().to_string())?;
        self.mark = Some(Mark { id, generation, hash: Digest::of(&body), key: holder });
        match holder {
            Holder::Vault => self.secrets.remember_home(),
            Holder::Home => {}
        }
        Ok(())
    }

    /// The key of the MAC. Returns `Err` if the key is locked and may become available later.
    fn key(&self, holder: Holder) -> Result<Option<[u8; 32]>, String> {
        let own = match std::fs::read(self.home.join("secrets").join(KEY)) {
            Ok(bytes) => <[u8; 32]>::try_from(bytes).ok(),
            Err(_) => None,
        };
        let Some(own) = own else { return Ok(None) };
        Ok(match holder {
            Holder::Home => Some(own),
            Holder::Vault => match self.secrets.mac_key() {
                MacKey::NoSecrets => None,
                MacKey::Key(vault) => Some(*Digest::keyed(&vault, &own).as_bytes()),
                MacKey::Locked(why) => return Err(format!("the key of the accepted configuration is locked: {why}")),
            },
        })
    }

    fn make_key(&self) -> io::Result<[u8; 32]> {
        // With a new key, no earlier record is valid, so a new key grants no rights.
        let replaced = |fault: &io::Error| self.log.warn(format_args!("config: {fault}; a new key was created"));
        let own = secrets::home_key_or_new(&self.home, KEY, self.ids.as_ref(), replaced)?;
        let holder = self.secrets.mac_key();
        Ok(match holder {
            MacKey::Key(vault) => *Digest::keyed(&vault, &own).as_bytes(),
            MacKey::NoSecrets | MacKey::Locked(_) => own,
        })
    }

    fn is_new(&self) -> bool {
        let layout = Layout::of(&self.home);
        let there = |path: &Path| std::fs::symlink_metadata(path).is_ok();
        let signs = [
            layout.signing_key(),
            layout.public_key(),
            layout.checkpoints(),
            layout.link(),
            layout.secrets.join("vault.json"),
        ];
        let logged = std::fs::read_dir(&layout.audit).is_ok_and(|mut it| it.next().is_some());
        !logged && !signs.iter().any(|it| there(it)) && !self.secrets.knows_home()
    }
}

/// The reason why a record with a valid MAC is not the last record.
fn behind(record: &Mark, logged: &Mark) -> Option<&'static str> {
    const OLD: &str = "state/accepted.jsonl is older than the last entry in the audit log, or from another home";
    if record.id != logged.id || record.generation < logged.generation {
        return Some(OLD);
    }
    if record.generation == logged.generation && record.hash != logged.hash {
        return Some(OLD);
    }
    match (record.key, logged.key) {
        (Holder::Home, Holder::Vault) if record.generation == logged.generation => Some(OLD),
        (Holder::Home | Holder::Vault, Holder::Home | Holder::Vault) => None,
    }
}

/// Size of the pieces in which the log is read, from its end.
const PIECE: u64 = 256 * 1024;

/// The last entry of the audit log about the accepted configuration.
fn last_mark(home: &Path) -> Option<Mark> {
    let layout = Layout::of(home);
    let segments = layout.segments(&Disk).ok()?;
    segments.iter().rev().find_map(|number| last_mark_in(&layout.audit.join(segment_name(*number))))
}

fn last_mark_in(path: &Path) -> Option<Mark> {
    let mut end = std::fs::metadata(path).ok()?.len();
    let mut tail: Vec<u8> = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        let mut bytes = Disk.read_at(path, start, usize::try_from(end - start).ok()?).ok()?;
        bytes.extend_from_slice(&tail);
        // The first line of a piece may be incomplete; it is read together with the previous piece
        // of the file.
        let whole =
            if start == 0 { 0 } else { bytes.iter().position(|it| *it == b'\n').map_or(bytes.len(), |at| at + 1) };
        let found = bytes.get(whole..).unwrap_or_default().rsplit(|it| *it == b'\n').find_map(mark_of);
        if found.is_some() {
            return found;
        }
        bytes.truncate(whole);
        tail = bytes;
        end = start;
    }
    None
}

fn mark_of(line: &[u8]) -> Option<Mark> {
    let start = br#""event":"config."#;
    line.windows(start.len()).any(|it| it == start).then_some(())?;
    let record: Value = serde_json::from_slice(line).ok()?;
    record.get("event")?.as_str()?.starts_with("config.").then_some(())?;
    serde_json::from_value(record.get("detail")?.get("accepted")?.clone()).ok()
}
