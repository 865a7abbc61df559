//! Stores secrets by name. A value is sealed in `secrets/vault.json`, decrypted only in memory, and
//! sent only to allowed hosts.
//!
//! Each value is sealed with AES-256-GCM under a random key. Name, version and allowed hosts are
//! authenticated together with the value, so that two ciphertexts cannot be swapped and no host can
//! be added. `[secrets] key` names the holder of the key and never changes by itself: while the
//! holder cannot be reached, secrets are locked and the daemon runs without them. Not here: who may
//! set or remove a secret.

mod keys;
mod scrub;
mod vault;

pub use keys::{KeyHolders, KeychainNote, Place, SystemKeys};
pub use scrub::{Scrubber, on_panic};

use conductor_core::config::KeyRung;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_hosts::atomic_file;
use conductor_hosts::system::Ids;
use keys::Key;
use parking_lot::{Mutex, MutexGuard};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use vault::{Vault, VaultError};

/// A value that is never printed: it has no `Debug`, no `Display` and no serialisation.
#[derive(Clone)]
pub struct Secret {
    value: SecretString,
    hosts: Vec<String>,
}

impl Secret {
    /// The value, for the code that sends it. The value must not be stored, logged or returned.
    pub fn expose(&self) -> &str {
        self.value.expose_secret()
    }

    /// The hosts that may receive the secret. If the list is empty, no host may receive it.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub version: u64,
    pub hosts: Vec<String>,
    /// Why the value cannot be opened.
    pub fault: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub rung: KeyRung,
    /// The holder of the key, or why it cannot be reached.
    pub sentence: String,
    pub open: bool,
    pub count: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("secrets are locked: {0}")]
    Locked(String),
    #[error("there is no secret \"{0}\"")]
    Unknown(String),
    #[error("the secret \"{name}\" cannot be opened: {why}")]
    Damaged { name: String, why: String },
    #[error(
        "\"{0}\" is not a valid secret name: use a-z, 0-9, `.`, `_` and `-`, at most 64 characters, and start with a-z or 0-9"
    )]
    BadName(String),
    #[error("a secret must have 1 to 65536 bytes")]
    BadValue,
    #[error("the service manager supplies the key: replace the key there, then set the secrets again")]
    NoRotation,
    #[error("the secrets cannot be written: {0}")]
    Io(io::Error),
}

impl From<SecretError> for ToolError {
    fn from(fault: SecretError) -> Self {
        let text = fault.to_string();
        match fault {
            SecretError::Locked(_) => ToolError::new(Code::HostOffline, text).hint(
                "A person can check with `conductor secrets status`. The call works when the key is available again.",
            ),
            SecretError::Unknown(name) => ToolError::new(Code::NotFound, text)
                .hint("A person can store it with `conductor secrets set NAME`.")
                .subject(Subject::Other(name)),
            SecretError::Damaged { name, .. } => ToolError::new(Code::HostOffline, text)
                .hint("A person can set it again with `conductor secrets set NAME`.")
                .subject(Subject::Other(name)),
            SecretError::BadName(_) | SecretError::BadValue => ToolError::new(Code::BadInput, text),
            SecretError::NoRotation => ToolError::new(Code::Unsupported, text),
            SecretError::Io(_) => ToolError::new(Code::SdkRejected, text),
        }
    }
}

/// A key derived from the key of the secrets.
pub enum MacKey {
    /// The vault is empty, so there is no key to derive from.
    NoSecrets,
    Key([u8; 32]),
    Locked(String),
}

/// A key of this home in the plain file `secrets/NAME`, which is created if absent. A file that
/// cannot be used is an error, because a new key would be another identity.
pub fn home_key(home: &Path, name: &str, ids: &dyn Ids) -> io::Result<[u8; 32]> {
    match read_home_key(home, name)? {
        Some(key) => Ok(key),
        None => new_home_key(home, name, ids),
    }
}

/// Like [`home_key`], but replaces a file that cannot be used and passes the reason to `warn`. Only
/// for a key whose loss grants nothing.
pub fn home_key_or_new(home: &Path, name: &str, ids: &dyn Ids, warn: impl FnOnce(&io::Error)) -> io::Result<[u8; 32]> {
    match read_home_key(home, name) {
        Ok(Some(key)) => return Ok(key),
        Ok(None) => {}
        Err(fault) => warn(&fault),
    }
    new_home_key(home, name, ids)
}

/// Returns `None` if there is no file.
fn read_home_key(home: &Path, name: &str) -> io::Result<Option<[u8; 32]>> {
    let path = home.join("secrets").join(name);
    let unusable = |kind: io::ErrorKind, why: String| {
        let path = path.display();
        let cure = "restore the file from a backup, or delete it to get a new key";
        io::Error::new(kind, format!("{path}: the key cannot be used: {why}; {cure}"))
    };
    match std::fs::read(&path) {
        Ok(bytes) => {
            let count = bytes.len();
            let wrong = |_| unusable(io::ErrorKind::InvalidData, format!("the file has {count} bytes instead of 32"));
            <[u8; 32]>::try_from(bytes).map(Some).map_err(wrong)
        }
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(fault) => Err(unusable(fault.kind(), fault.to_string())),
    }
}

fn new_home_key(home: &Path, name: &str, ids: &dyn Ids) -> io::Result<[u8; 32]> {
    let folder = home.join("secrets");
    make_private(&folder)?;
    let mut key = [0; 32];
    ids.fill(&mut key);
    atomic_file::replace(&folder.join(name), &key, 0o600, &ids.v4().to_string())?;
    Ok(key)
}

/// Creates a folder that only its owner can read; an existing folder is not changed.
pub fn make_private(folder: &Path) -> io::Result<()> {
    match conductor_hosts::system::files::private_folders().create(folder) {
        Err(fault) if fault.kind() != io::ErrorKind::AlreadyExists => Err(fault),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Every secret of a home.
pub struct Secrets {
    holders: Box<dyn KeyHolders>,
    ids: Arc<dyn Ids>,
    scrubber: Arc<Scrubber>,
    folder: std::path::PathBuf,
    // One lock: opening may take seconds, and concurrent callers wait for its result.
    state: Mutex<State>,
}

struct State {
    rung: KeyRung,
    open: Option<Open>,
    /// Why the vault is not open.
    reason: String,
}

struct Open {
    key: Key,
    vault: Vault,
    values: BTreeMap<String, Result<Secret, String>>,
}

impl Secrets {
    /// Creates the store, but does not open the vault; see [`Secrets::open_now`].
    pub fn new(
        home: &Path,
        rung: KeyRung,
        holders: Box<dyn KeyHolders>,
        ids: Arc<dyn Ids>,
        scrubber: Arc<Scrubber>,
    ) -> Arc<Self> {
        let state = State { rung, open: None, reason: "not opened yet".to_owned() };
        Arc::new(Secrets { holders, ids, scrubber, folder: home.join("secrets"), state: Mutex::new(state) })
    }

    pub fn scrubber(&self) -> &Arc<Scrubber> {
        &self.scrubber
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Sets the holder of the key. Changing the holder closes the vault.
    pub fn configure(&self, rung: KeyRung) {
        let mut state = self.state();
        if state.rung != rung {
            *state = State { rung, open: None, reason: "not opened yet".to_owned() };
        }
    }

    /// Opens the vault and registers all values with the scrubber. May block for seconds.
    pub fn open_now(&self) -> Result<(), SecretError> {
        self.opened(&mut self.state(), MissingKey::Fail).map(|_| ())
    }

    /// Opens the vault unless it is empty.
    pub fn open_if_any(&self) -> Result<(), SecretError> {
        if self.is_empty() { Ok(()) } else { self.open_now() }
    }

    /// Whether the vault contains no secrets; false when it cannot be read.
    fn is_empty(&self) -> bool {
        Vault::read(&self.folder).is_ok_and(|vault| vault.is_none_or(|vault| vault.listed().next().is_none()))
    }

    /// The key that signs accepted configurations. May block: a locked vault is opened first.
    pub fn mac_key(&self) -> MacKey {
        if self.is_empty() {
            return MacKey::NoSecrets;
        }
        match self.opened(&mut self.state(), MissingKey::Fail) {
            Ok(open) => {
                MacKey::Key(*Digest::keyed(open.key.expose(), b"conductor accepted configuration/1").as_bytes())
            }
            Err(fault) => MacKey::Locked(fault.to_string()),
        }
    }

    /// Records in the keychain that this home is not new, if the keychain stores the key. May
    /// block.
    pub fn remember_home(&self) {
        if self.state().rung == KeyRung::Keychain {
            self.holders.remember(&self.home_tag());
        }
    }

    /// Whether the keychain has a record of this home, even if the home's files were deleted. May
    /// block.
    pub fn knows_home(&self) -> bool {
        self.holders.remembers(&self.home_tag())
    }

    fn home_tag(&self) -> String {
        let home = self.folder.parent().unwrap_or(&self.folder);
        let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        format!("home {}", Digest::of(home.as_os_str().as_encoded_bytes()))
    }

    /// Uses the passphrase that a person typed when the daemon started.
    pub fn give_passphrase(&self, passphrase: SecretString) {
        self.holders.take_passphrase(passphrase);
        self.state().open = None;
    }

    fn opened<'s>(&self, state: &'s mut State, missing: MissingKey) -> Result<&'s mut Open, SecretError> {
        if state.open.is_none() {
            match self.unlock(state.rung, missing) {
                Ok(open) => {
                    self.scrubber
                        .learn(open.values.iter().filter_map(|(name, it)| Some((name, it.as_ref().ok()?.expose()))));
                    state.open = Some(open);
                }
                Err(reason) => {
                    state.reason.clone_from(&reason);
                    return Err(SecretError::Locked(reason));
                }
            }
        }
        state.open.as_mut().ok_or_else(|| SecretError::Locked(state.reason.clone()))
    }

    fn unlock(&self, rung: KeyRung, missing: MissingKey) -> Result<Open, String> {
        let vault = match Vault::read(&self.folder) {
            Ok(Some(vault)) => vault,
            Ok(None) => Vault::new(self.ids.v4(), &*self.ids),
            Err(fault) => return Err(fault.to_string()),
        };
        let place = Place { folder: &self.folder, salt: vault.salt() };
        let keys = self.holders.load(rung, &place)?;
        let found = match vault.key_id() {
            Some(id) => keys.iter().position(|it| it.id() == id).map(Some).ok_or_else(|| {
                format!(
                    "the secrets were encrypted with a different key than the one that {}",
                    keys::holder_phrase(rung)
                )
            })?,
            None => None,
        };
        let key = match found.and_then(|it| keys.get(it)) {
            Some(key) => key.clone(),
            // No value is sealed yet. Use an existing key, or else create one.
            None => match (keys.first(), missing) {
                (Some(key), _) => key.clone(),
                (None, MissingKey::Fail) => return Err(keys::absent_phrase(rung)),
                (None, MissingKey::Create { allow_file }) => {
                    if rung == KeyRung::File && !allow_file {
                        return Err(keys::absent_phrase(rung));
                    }
                    let key = Key::random(&*self.ids);
                    self.holders.add(rung, &place, &key)?;
                    key
                }
            },
        };
        let values = vault.open_all(&key);
        Ok(Open { key, vault, values })
    }

    /// Returns a secret. May block: a locked vault is opened first.
    pub fn get(&self, name: &str) -> Result<Secret, SecretError> {
        let mut state = self.state();
        let open = self.opened(&mut state, MissingKey::Fail)?;
        match open.values.get(name) {
            Some(Ok(secret)) => Ok(secret.clone()),
            Some(Err(why)) => Err(SecretError::Damaged { name: name.to_owned(), why: why.clone() }),
            None => Err(SecretError::Unknown(name.to_owned())),
        }
    }

    pub fn list(&self) -> Result<Vec<Listed>, SecretError> {
        let mut state = self.state();
        let _ = self.opened(&mut state, MissingKey::Fail);
        let vault = match &state.open {
            Some(open) => open.vault.clone(),
            // Names are not secret and are listed even while the vault is locked.
            None => Vault::read(&self.folder).ok().flatten().unwrap_or_else(|| Vault::new(self.ids.v4(), &*self.ids)),
        };
        let fault = |name: &str| match &state.open {
            Some(open) => open.values.get(name).and_then(|it| it.as_ref().err().cloned()),
            None => Some(format!("locked: {}", state.reason)),
        };
        Ok(vault
            .listed()
            .map(|(name, version, hosts)| Listed { fault: fault(name), name: name.to_owned(), version, hosts })
            .collect())
    }

    /// The state of the vault. Queries the holder of the key again, so that the report is current.
    pub fn status(&self) -> Status {
        let mut state = self.state();
        let rung = state.rung;
        let reason = match self.holders.probe(rung).map(|()| self.opened(&mut state, MissingKey::Fail)) {
            Ok(Ok(open)) => {
                let (sentence, count) = (keys::sentence(rung).to_owned(), open.vault.listed().count());
                return Status { rung, sentence, open: true, count };
            }
            Ok(Err(_)) => state.reason.clone(),
            Err(reason) => reason,
        };
        let count = Vault::read(&self.folder).ok().flatten().map_or(0, |vault| vault.listed().count());
        Status { rung, sentence: format!("locked: {reason}"), open: false, count }
    }

    pub fn set(&self, name: &str, value: &str, hosts: Vec<String>, allow_file: bool) -> Result<u64, SecretError> {
        if !is_name(name) {
            return Err(SecretError::BadName(name.to_owned()));
        }
        if value.is_empty() || value.len() > 65_536 {
            return Err(SecretError::BadValue);
        }
        let mut state = self.state();
        let open = self.opened(&mut state, MissingKey::Create { allow_file })?;
        // Register the value with the scrubber before writing it.
        self.scrubber.learn([(name, value)]);
        let mut vault = open.vault.clone();
        let version = vault.put(&open.key, name, value, hosts.clone(), &*self.ids).map_err(SecretError::from)?;
        vault.write(&self.folder, &self.ids.v4().to_string()).map_err(SecretError::Io)?;
        open.vault = vault;
        open.values.insert(name.to_owned(), Ok(Secret { value: SecretString::from(value), hosts }));
        Ok(version)
    }

    /// Removes a secret. The scrubber keeps its value, because a client may still have it in
    /// memory.
    pub fn remove(&self, name: &str) -> Result<(), SecretError> {
        let mut state = self.state();
        let open = self.opened(&mut state, MissingKey::Fail)?;
        let mut vault = open.vault.clone();
        if !vault.remove(name) {
            return Err(SecretError::Unknown(name.to_owned()));
        }
        vault.write(&self.folder, &self.ids.v4().to_string()).map_err(SecretError::Io)?;
        open.vault = vault;
        open.values.remove(name);
        Ok(())
    }

    /// Encrypts all secrets with a new key, or none of them. The key holder keeps the old and the
    /// new key until the vault is written, so that a crash loses no secret.
    pub fn rotate(&self) -> Result<usize, SecretError> {
        let mut state = self.state();
        let rung = state.rung;
        let open = self.opened(&mut state, MissingKey::Fail)?;
        if let Some((name, why)) = open.values.iter().find_map(|(name, it)| Some((name, it.as_ref().err()?))) {
            return Err(SecretError::Damaged { name: name.clone(), why: why.clone() });
        }
        let mut vault = open.vault.clone();
        let locked = SecretError::Locked;
        let key = match rung {
            KeyRung::Credential => return Err(SecretError::NoRotation),
            KeyRung::Passphrase => {
                vault.new_salt(&*self.ids);
                let place = Place { folder: &self.folder, salt: vault.salt() };
                let mut derived = self.holders.load(rung, &place).map_err(locked)?;
                derived.pop().ok_or_else(|| SecretError::Locked(keys::absent_phrase(rung)))?
            }
            KeyRung::Keychain | KeyRung::File => Key::random(&*self.ids),
        };
        let place = Place { folder: &self.folder, salt: vault.salt() };
        self.holders.add(rung, &place, &key).map_err(locked)?;
        let values: Vec<(&str, &Secret)> =
            open.values.iter().filter_map(|(name, it)| Some((name.as_str(), it.as_ref().ok()?))).collect();
        vault.reseal(&key, &values, &*self.ids).map_err(SecretError::from)?;
        let count = values.len();
        vault.write(&self.folder, &self.ids.v4().to_string()).map_err(SecretError::Io)?;
        let old = std::mem::replace(&mut open.key, key);
        open.vault = vault;
        // The vault no longer needs the old key, so a failure to remove it is harmless.
        let _ = self.holders.forget(rung, &place, &old.id());
        Ok(count)
    }
}

/// What to do when there is no key yet.
#[derive(Clone, Copy)]
enum MissingKey {
    Fail,
    Create { allow_file: bool },
}

impl From<VaultError> for SecretError {
    fn from(fault: VaultError) -> Self {
        SecretError::Locked(fault.to_string())
    }
}

fn is_name(name: &str) -> bool {
    let plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    name.len() <= 64
        && name.bytes().next().is_some_and(plain)
        && name.bytes().all(|it| plain(it) || matches!(it, b'.' | b'_' | b'-'))
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
