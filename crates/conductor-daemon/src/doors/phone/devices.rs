//! Paired phones and the one-time secrets that pair them.
//!
//! A secret is in memory only. A paired phone is stored in `state/phones.json` with the digest of
//! its key, so that it survives a restart. The file has a MAC with a key of this home, so another
//! program cannot add a phone by writing the file. Not here: who may pair a phone. The human door
//! checks that before it calls [`Devices::offer`].

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use conductor_core::digest::Digest;
use conductor_core::event::Micros;
use conductor_core::principal::{Principal, client_name};
use conductor_core::timestamp::Timestamp;
use conductor_hosts::atomic_file;
use conductor_hosts::system::{Clock, Ids};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

/// Life of a secret that was not used.
pub const SECRET_MS: u64 = 120_000;
const SECRET_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// Maximum number of unused secrets. A further secret replaces the oldest.
const MOST_SECRETS: usize = 4;
/// Maximum number of paired phones.
const MOST_DEVICES: usize = 16;

/// A stored phone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// Digest of the key that the phone sends.
    key: Digest,
    paired_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    phones: Vec<Row>,
    seal: Digest,
}

struct Offer {
    secret: Digest,
    name: String,
    ends: Micros,
}

/// A paired phone. `revoked` is cancelled when the phone is revoked.
pub struct Device {
    row: Row,
    last_seen: Mutex<Option<Timestamp>>,
    pub revoked: CancellationToken,
}

impl Device {
    fn new(row: Row) -> Arc<Self> {
        Arc::new(Device { row, last_seen: Mutex::default(), revoked: CancellationToken::new() })
    }

    pub fn name(&self) -> &str {
        &self.row.name
    }

    pub fn principal(&self) -> Principal {
        Principal::Phone { device: self.row.name.clone() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PairError {
    #[error("this link was used or has expired; run `conductor pair` again")]
    NoSecret,
    #[error("{MOST_DEVICES} phones are paired, which is the maximum; revoke one with `conductor pair revoke NAME`")]
    Full,
    #[error("the name \"{0}\" is not valid; use lower-case letters, digits, '.', '_' and '-', at most 32 characters")]
    Name(String),
    #[error("a phone named \"{0}\" is paired; choose another name, or revoke it with `conductor pair revoke {0}`")]
    Taken(String),
    #[error("the paired phones cannot be stored: {0}")]
    Store(#[from] io::Error),
}

pub struct Devices {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    file: PathBuf,
    key: [u8; 32],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    offers: Vec<Offer>,
    devices: BTreeMap<String, Arc<Device>>,
}

impl Devices {
    /// Reads the paired phones. If the file is damaged or was changed, no phone is paired, and the
    /// second value is the reason.
    pub fn open(home: &Path, key: [u8; 32], clock: &Arc<dyn Clock>, ids: &Arc<dyn Ids>) -> (Arc<Self>, Option<String>) {
        let file = home.join("state/phones.json");
        let (rows, fault) = match read(&file, &key) {
            Ok(rows) => (rows, None),
            Err(why) => (Vec::new(), Some(format!("{}: {why}; no phone is paired", file.display()))),
        };
        let devices = rows.into_iter().map(|row| (row.name.clone(), Device::new(row))).collect();
        let state = Mutex::new(State { offers: Vec::new(), devices });
        (Arc::new(Devices { clock: Arc::clone(clock), ids: Arc::clone(ids), file, key, state }), fault)
    }

    fn random(&self, bytes: &mut [u8]) -> String {
        self.ids.fill(bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Creates a one-time secret for a new phone. Returns the name of the phone and the secret.
    pub fn offer(&self, name: Option<&str>) -> Result<(String, String), PairError> {
        let now = self.clock.now();
        let secret = self.random(&mut [0; SECRET_BYTES]);
        let mut state = self.state.lock();
        state.offers.retain(|it| it.ends > now);
        if state.devices.len() >= MOST_DEVICES {
            return Err(PairError::Full);
        }
        let taken = |state: &State, name: &str| {
            state.devices.contains_key(name) || state.offers.iter().any(|it| it.name == name)
        };
        let name = match name {
            Some(name) if client_name(name) != name || name == "unknown" => {
                return Err(PairError::Name(name.chars().take(64).collect()));
            }
            Some(name) if state.devices.contains_key(name) => return Err(PairError::Taken(name.to_owned())),
            Some(name) => name.to_owned(),
            None => {
                let numbered = (2..).map(|number| format!("phone-{number}"));
                let mut names = std::iter::once("phone".to_owned()).chain(numbered);
                names.find(|it| !taken(&state, it)).unwrap_or_default()
            }
        };
        // A new secret for the same name replaces the earlier one.
        state.offers.retain(|it| it.name != name);
        if state.offers.len() >= MOST_SECRETS {
            state.offers.remove(0);
        }
        let ends = now.plus_us(SECRET_MS * 1000);
        state.offers.push(Offer { secret: Digest::of(secret.as_bytes()), name: name.clone(), ends });
        Ok((name, secret))
    }

    /// Exchanges a secret for the key of a new phone, once.
    pub fn pair(&self, secret: &str) -> Result<(Arc<Device>, String), PairError> {
        let now = self.clock.now();
        let given = Digest::of(secret.as_bytes());
        let key = self.random(&mut [0; KEY_BYTES]);
        let mut state = self.state.lock();
        state.offers.retain(|it| it.ends > now);
        let at = state.offers.iter().position(|it| same(&it.secret, &given)).ok_or(PairError::NoSecret)?;
        let offer = state.offers.remove(at);
        if state.devices.len() >= MOST_DEVICES {
            return Err(PairError::Full);
        }
        let paired_at = Timestamp::from_millis(self.clock.wall_ms());
        let device = Device::new(Row { name: offer.name.clone(), key: Digest::of(key.as_bytes()), paired_at });
        let mut rows: Vec<Row> = state.devices.values().map(|it| it.row.clone()).collect();
        rows.push(device.row.clone());
        self.write(&rows)?;
        state.devices.insert(offer.name, Arc::clone(&device));
        Ok((device, key))
    }

    /// The phone with this key.
    pub fn find(&self, key: &str) -> Option<Arc<Device>> {
        let given = Digest::of(key.as_bytes());
        let state = self.state.lock();
        let mut found = None;
        for device in state.devices.values() {
            if same(&device.row.key, &given) {
                found = Some(Arc::clone(device));
            }
        }
        let found = found?;
        *found.last_seen.lock() = Some(Timestamp::from_millis(self.clock.wall_ms()));
        Some(found)
    }

    /// Revokes one phone, or all phones and unused secrets. Returns the revoked names.
    pub fn revoke(&self, name: Option<&str>) -> io::Result<Vec<String>> {
        let mut state = self.state.lock();
        let gone = |it: &Row| name.is_none_or(|name| it.name == name);
        let rows: Vec<Row> = state.devices.values().map(|it| it.row.clone()).filter(|it| !gone(it)).collect();
        if rows.len() != state.devices.len() {
            self.write(&rows)?;
        }
        let mut revoked = Vec::new();
        state.devices.retain(|name, device| {
            let stays = !gone(&device.row);
            if !stays {
                device.revoked.cancel();
                revoked.push(name.clone());
            }
            stays
        });
        state.offers.retain(|it| name.is_some_and(|name| it.name != name));
        Ok(revoked)
    }

    pub fn is_empty(&self) -> bool {
        self.state.lock().devices.is_empty()
    }

    pub fn list(&self) -> Vec<Value> {
        let state = self.state.lock();
        let row = |it: &Arc<Device>| json!({ "name": it.row.name, "paired_at": it.row.paired_at, "last_seen": *it.last_seen.lock() });
        state.devices.values().map(row).collect()
    }

    fn write(&self, rows: &[Row]) -> io::Result<()> {
        let stored = Stored { phones: rows.to_vec(), seal: seal(&self.key, rows) };
        let bytes = serde_json::to_vec_pretty(&stored)?;
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        atomic_file::replace(&self.file, &bytes, 0o600, &self.ids.v4().to_string())
    }
}

fn same(a: &Digest, b: &Digest) -> bool {
    bool::from(a.as_bytes().ct_eq(b.as_bytes()))
}

fn seal(key: &[u8; 32], rows: &[Row]) -> Digest {
    // Rows contain nothing that serde_json cannot serialise.
    Digest::keyed(key, &serde_json::to_vec(rows).unwrap_or_default())
}

fn read(file: &Path, key: &[u8; 32]) -> Result<Vec<Row>, String> {
    let bytes = match atomic_file::read(file) {
        Ok(bytes) => bytes,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(other) => return Err(other.to_string()),
    };
    let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if !same(&stored.seal, &seal(key, &stored.phones)) {
        return Err("another program has changed this file".to_owned());
    }
    Ok(stored.phones)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_hosts::system::RandomIds;
    use conductor_testkit::time::ManualTime;
    use std::time::Duration;

    fn open(home: &Path, clock: &Arc<ManualTime>) -> (Arc<Devices>, Option<String>) {
        let ids: Arc<dyn Ids> = Arc::new(RandomIds);
        Devices::open(home, [7; 32], &(Arc::clone(clock) as Arc<dyn Clock>), &ids)
    }

    #[test]
    fn a_secret_pairs_one_phone_within_two_minutes() {
        let (home, clock) = (tempfile::tempdir().unwrap(), ManualTime::new());
        let (devices, _) = open(home.path(), &clock);
        let (name, secret) = devices.offer(None).unwrap();
        assert_eq!(name, "phone");
        assert!(devices.pair("guess").is_err());
        let (device, key) = devices.pair(&secret).unwrap();
        assert!(devices.pair(&secret).is_err(), "a secret could be used twice");
        assert_eq!(devices.find(&key).unwrap().principal().to_string(), "phone:phone");
        assert!(devices.find(&secret).is_none());
        assert!(matches!(devices.offer(Some("phone")), Err(PairError::Taken(_))));
        assert!(matches!(devices.offer(Some("My phone")), Err(PairError::Name(_))));
        assert_eq!(devices.offer(None).unwrap().0, "phone-2");
        let late = devices.offer(Some("late")).unwrap().1;
        clock.advance(Duration::from_millis(SECRET_MS));
        assert!(devices.pair(&late).is_err(), "an expired secret was accepted");
        assert_eq!(device.name(), "phone");
    }

    #[test]
    fn a_phone_survives_a_restart_and_a_revoked_one_does_not() {
        let (home, clock) = (tempfile::tempdir().unwrap(), ManualTime::new());
        let (devices, _) = open(home.path(), &clock);
        let [a, b] = ["a", "b"].map(|name| devices.pair(&devices.offer(Some(name)).unwrap().1).unwrap());
        let file = home.path().join("state/phones.json");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&a.1) && !text.contains(&b.1), "{text}");
        assert_eq!(devices.revoke(Some("a")).unwrap(), ["a"]);
        assert!(a.0.revoked.is_cancelled() && !b.0.revoked.is_cancelled());
        let (again, fault) = open(home.path(), &clock);
        assert_eq!(fault, None);
        assert!(again.find(&a.1).is_none() && again.find(&b.1).is_some());
        assert_eq!(again.revoke(None).unwrap(), ["b"]);
        assert!(again.is_empty());
    }

    #[test]
    fn a_file_that_another_program_wrote_pairs_no_phone() {
        let (home, clock) = (tempfile::tempdir().unwrap(), ManualTime::new());
        let (devices, _) = open(home.path(), &clock);
        let (_, key) = devices.pair(&devices.offer(None).unwrap().1).unwrap();
        let file = home.path().join("state/phones.json");
        let mine = Digest::of(b"mine").to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        let changed = text.replace(&Digest::of(key.as_bytes()).to_string(), &mine);
        assert_ne!(text, changed);
        std::fs::write(&file, changed).unwrap();
        let (again, fault) = open(home.path(), &clock);
        assert!(fault.unwrap().contains("another program has changed this file"));
        assert!(again.find("mine").is_none() && again.is_empty());
    }
}
