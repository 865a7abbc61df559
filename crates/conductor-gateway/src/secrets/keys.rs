//! Holders of the secrets' key: the system keychain, the service manager, a passphrase, or a file.
//!
//! Only the holder that the configuration names is used. There is no fallback: if a keychain does
//! not answer, the secrets stay locked, and no key file replaces the keychain. A key is never
//! derived from the name of a machine.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conductor_core::config::KeyRung;
use conductor_hosts::atomic_file;
use conductor_hosts::system::{Ids, files, protect};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest as _, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zeroize::Zeroizing;

/// A key of 32 bytes, which are overwritten when the key is dropped.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; 32]>);

impl Key {
    pub fn random(ids: &dyn Ids) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        ids.fill(&mut *bytes);
        Key(bytes)
    }

    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Identifies the key without revealing it.
    pub fn id(&self) -> String {
        Sha256::digest(*self.0).iter().take(8).map(|it| format!("{it:02x}")).collect()
    }

    fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(*self.0))
    }

    fn from_text(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).ok()?);
        let bytes: [u8; 32] = bytes.as_slice().try_into().ok()?;
        Some(Key(Zeroizing::new(bytes)))
    }
}

/// Reads keys, one per line. There may be several keys: homes of one person share a keychain, and
/// during a rotation there are two.
fn keys_of(text: &str) -> Vec<Key> {
    text.lines().filter_map(Key::from_text).collect()
}

fn text_of(keys: &[Key]) -> Zeroizing<String> {
    Zeroizing::new(keys.iter().map(|it| it.to_text().to_string()).collect::<Vec<_>>().join("\n"))
}

/// Facts about the vault that a key holder needs.
pub struct Place<'a> {
    pub folder: &'a Path,
    pub salt: Vec<u8>,
}

/// Access to all key holders. It is a trait so that tests can simulate a keychain that hangs.
pub trait KeyHolders: Send + Sync {
    /// Whether this key holder can be used now. Stores nothing permanently.
    fn probe(&self, rung: KeyRung) -> Result<(), String>;
    fn load(&self, rung: KeyRung, place: &Place<'_>) -> Result<Vec<Key>, String>;
    /// Adds a key to the stored keys.
    fn add(&self, rung: KeyRung, place: &Place<'_>, key: &Key) -> Result<(), String>;
    fn forget(&self, rung: KeyRung, place: &Place<'_>, id: &str) -> Result<(), String>;
    /// Receives the passphrase that a person typed when the daemon started.
    fn take_passphrase(&self, passphrase: SecretString);
    /// Stores the tag of a home in the keychain, as evidence that the home is not new. A failure is
    /// ignored, because the home has other evidence.
    fn remember(&self, _tag: &str) {}
    fn remembers(&self, _tag: &str) -> bool {
        false
    }
}

/// How the key is protected, as a phrase for the status.
pub const fn sentence(rung: KeyRung) -> &'static str {
    match rung {
        KeyRung::Keychain => "key held by the OS keychain",
        KeyRung::Credential => "key supplied by the service manager",
        KeyRung::Passphrase => "key derived from the passphrase typed at start",
        KeyRung::File => protect::SENTENCE,
    }
}

pub const fn holder_phrase(rung: KeyRung) -> &'static str {
    match rung {
        KeyRung::Keychain => "the OS keychain holds",
        KeyRung::Credential => "the service manager supplies",
        KeyRung::Passphrase => "is derived from this passphrase",
        KeyRung::File => "secrets/key holds",
    }
}

/// The reason why there is no key yet.
pub fn absent_phrase(rung: KeyRung) -> String {
    match rung {
        KeyRung::Keychain => "the OS keychain has no key yet; the first `conductor secrets set` creates one".to_owned(),
        KeyRung::Credential => "the service manager supplied no credential named conductor-key".to_owned(),
        KeyRung::Passphrase => "no passphrase was given at start".to_owned(),
        KeyRung::File => format!(
            "there is no key file; `conductor secrets set NAME --allow-key-file` creates one ({})",
            sentence(KeyRung::File)
        ),
    }
}

/// The real key holders.
pub struct SystemKeys {
    /// The folder that `$CREDENTIALS_DIRECTORY` names.
    credentials: Option<PathBuf>,
    /// The passphrase that a person typed when the daemon started. It is kept only in memory.
    passphrase: Mutex<Option<SecretString>>,
}

/// How long to wait for a keychain, which may show a dialog to a person.
const KEYCHAIN_TIMEOUT: Duration = Duration::from_secs(2);
const SERVICE: &str = "conductor";
const MASTER: &str = "master";

impl KeyHolders for SystemKeys {
    fn probe(&self, rung: KeyRung) -> Result<(), String> {
        match rung {
            KeyRung::Keychain => within(keychain::probe),
            KeyRung::Credential => self.credential().map(|_| ()),
            KeyRung::Passphrase => self.passphrase().map(|_| ()),
            KeyRung::File => Ok(()),
        }
    }

    fn load(&self, rung: KeyRung, place: &Place<'_>) -> Result<Vec<Key>, String> {
        match rung {
            KeyRung::Keychain => {
                within(|| keychain::probe().and_then(|()| keychain::read(MASTER))).map(|it| keys_of(&it))
            }
            KeyRung::Credential => self.credential().map(|key| vec![key]),
            KeyRung::Passphrase => derive(&self.passphrase()?, &place.salt).map(|key| vec![key]),
            KeyRung::File => key_file(place.folder),
        }
    }

    fn add(&self, rung: KeyRung, place: &Place<'_>, key: &Key) -> Result<(), String> {
        self.change(rung, place, |keys| keys.push(key.clone()))
    }

    fn forget(&self, rung: KeyRung, place: &Place<'_>, id: &str) -> Result<(), String> {
        self.change(rung, place, |keys| keys.retain(|it| it.id() != id))
    }

    fn take_passphrase(&self, passphrase: SecretString) {
        *self.passphrase.lock() = Some(passphrase);
    }

    fn remember(&self, tag: &str) {
        let tag = tag.to_owned();
        let _ = within(move || keychain::write(&tag, "known"));
    }

    fn remembers(&self, tag: &str) -> bool {
        let tag = tag.to_owned();
        within(move || keychain::read(&tag)).is_ok_and(|it| !it.is_empty())
    }
}

impl SystemKeys {
    pub fn new(credentials: Option<PathBuf>) -> Self {
        SystemKeys { credentials, passphrase: Mutex::default() }
    }

    fn passphrase(&self) -> Result<SecretString, String> {
        let known = self.passphrase.lock();
        known.clone().ok_or_else(|| absent_phrase(KeyRung::Passphrase))
    }

    fn change(&self, rung: KeyRung, place: &Place<'_>, change: impl FnOnce(&mut Vec<Key>)) -> Result<(), String> {
        match rung {
            // Conductor does not store keys with these holders.
            KeyRung::Credential | KeyRung::Passphrase => return Ok(()),
            KeyRung::Keychain | KeyRung::File => {}
        }
        let mut keys = self.load(rung, place)?;
        change(&mut keys);
        if rung == KeyRung::File {
            return save_file(place.folder, &keys).map_err(|fault| format!("secrets/key: {fault}"));
        }
        let text = text_of(&keys);
        within(move || keychain::write(MASTER, &text))
    }

    fn credential(&self) -> Result<Key, String> {
        let folder = self.credentials.as_ref();
        let file = folder.ok_or("no service manager supplied credentials (CREDENTIALS_DIRECTORY is not set)")?;
        let bytes = std::fs::read(file.join("conductor-key")).map_err(|fault| {
            if fault.kind() == io::ErrorKind::NotFound {
                absent_phrase(KeyRung::Credential)
            } else {
                format!("the credential conductor-key cannot be read: {fault}")
            }
        })?;
        let bytes = Zeroizing::new(bytes);
        let raw = <[u8; 32]>::try_from(bytes.as_slice()).ok().map(|it| Key(Zeroizing::new(it)));
        let text = || std::str::from_utf8(&bytes).ok().and_then(Key::from_text);
        raw.or_else(text).ok_or_else(|| "the credential conductor-key must be 32 bytes, plain or in base64".to_owned())
    }
}

/// Derives a key with Argon2id: 64 MiB and three passes, as RFC 9106 recommends, but with one lane.
fn derive(phrase: &SecretString, salt: &[u8]) -> Result<Key, String> {
    let failed = |fault: argon2::Error| format!("the passphrase cannot be used: {fault}");
    let params = Params::new(64 * 1024, 3, 1, Some(32)).map_err(failed)?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(phrase.expose_secret().as_bytes(), salt, &mut *key)
        .map_err(failed)?;
    Ok(Key(key))
}

fn key_file(folder: &Path) -> Result<Vec<Key>, String> {
    let path = folder.join("key");
    let metadata = match std::fs::symlink_metadata(&path) {
        Ok(it) => it,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(fault) => return Err(format!("secrets/key: {fault}")),
    };
    if !metadata.is_file() || files::is_open_to_others(&path, &metadata) {
        let fix = files::how_to_close(&path);
        return Err(format!("secrets/key must be a plain file that only its owner can read; run `{fix}`"));
    }
    let failed = |fault: io::Error| format!("secrets/key: {fault}");
    let sealed = Zeroizing::new(std::fs::read(&path).map_err(failed)?);
    let bytes = Zeroizing::new(protect::unprotect(&sealed).map_err(failed)?);
    let text = std::str::from_utf8(&bytes).map_err(|_| "secrets/key is not text".to_owned())?;
    Ok(keys_of(text))
}

fn save_file(folder: &Path, keys: &[Key]) -> io::Result<()> {
    super::make_private(folder)?;
    let unique = keys.last().map(Key::id).unwrap_or_default();
    let sealed = Zeroizing::new(protect::protect(text_of(keys).as_bytes())?);
    atomic_file::replace(&folder.join("key"), &sealed, 0o600, &unique)
}

/// A text in the OS keychain. The text is not secret. It is stored in the keychain because
/// restoring a folder does not restore the keychain.
#[derive(Debug, Clone)]
pub struct KeychainNote {
    user: String,
}

impl KeychainNote {
    /// The text of one home. Each home has its own text, because two homes of one person share a
    /// keychain.
    pub fn of_home(name: &str, home: &Path) -> Self {
        let home = std::fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
        let digest = Sha256::digest(home.as_os_str().as_encoded_bytes());
        let id: String = digest.iter().take(8).map(|it| format!("{it:02x}")).collect();
        Self { user: format!("{name}-{id}") }
    }

    /// Returns the text, or an empty string if none is stored yet.
    pub fn read(&self) -> Result<String, String> {
        let user = self.user.clone();
        within(move || keychain::read(&user).map(|it| it.to_string()))
    }

    pub fn write(&self, text: &str) -> Result<(), String> {
        let (user, text) = (self.user.clone(), text.to_owned());
        within(move || keychain::write(&user, &text))
    }
}

/// Runs keychain work with a timeout. A thread that never returns is abandoned, because it cannot
/// be stopped. It owns none of our resources.
fn within<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("keychain".into()).spawn(move || drop(sender.send(work())));
    thread.map_err(|fault| format!("cannot start a thread for the keychain: {fault}"))?;
    receiver
        .recv_timeout(KEYCHAIN_TIMEOUT)
        .unwrap_or_else(|_| Err("the OS keychain did not answer within 2 s; it may be waiting for a person".to_owned()))
}

/// The Secret Service on Linux, tested against a real service; Credential Manager on Windows
/// and the login keychain on macOS, which are not tested.
#[cfg_attr(target_os = "macos", path = "keys/macos.rs")]
#[cfg_attr(windows, path = "keys/windows.rs")]
#[cfg_attr(not(any(target_os = "macos", windows)), path = "keys/secret_service.rs")]
mod store;

mod keychain {
    use super::SERVICE;
    use super::store::{ASKED_OVER, Store};
    use keyring_core::api::CredentialStoreApi as _;
    use keyring_core::{Entry, Error};
    use zeroize::Zeroizing;

    fn entry(user: &str) -> Result<Entry, String> {
        let store = Store::new().map_err(|fault| describe(&fault))?;
        store.build(SERVICE, user, None).map_err(|fault| describe(&fault))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign error that may gain variants")]
    fn describe(fault: &Error) -> String {
        match fault {
            Error::NoStorageAccess(_) => "the OS keychain is locked, or refuses to store anything".to_owned(),
            Error::PlatformFailure(why) => {
                let why = why.to_string();
                // Without a session bus, libdbus only reports that it was built without autolaunch.
                let no_bus = "there is no session bus (DBUS_SESSION_BUS_ADDRESS is not set)";
                let why = if why.contains("autolaunch") { no_bus } else { &why };
                format!("no OS keychain answers{ASKED_OVER}: {why}")
            }
            other => format!("the OS keychain cannot be used: {other}"),
        }
    }

    /// Writes, reads and deletes an entry, because a keychain that can be opened may still refuse
    /// to store entries.
    pub fn probe() -> Result<(), String> {
        let entry = entry("probe")?;
        entry.set_password("probe").map_err(|fault| describe(&fault))?;
        let read = entry.get_password().map_err(|fault| describe(&fault))?;
        entry.delete_credential().map_err(|fault| describe(&fault))?;
        if read == "probe" {
            Ok(())
        } else {
            Err("the OS keychain returned a different value than was stored".to_owned())
        }
    }

    pub fn read(user: &str) -> Result<Zeroizing<String>, String> {
        match entry(user)?.get_password() {
            Ok(text) => Ok(Zeroizing::new(text)),
            Err(Error::NoEntry) => Ok(Zeroizing::default()),
            Err(fault) => Err(describe(&fault)),
        }
    }

    pub fn write(user: &str, text: &str) -> Result<(), String> {
        entry(user)?.set_password(text).map_err(|fault| describe(&fault))
    }
}
