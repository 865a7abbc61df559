//! `vault.json`: names, versions and hosts in clear text, values sealed. Not here: the holder of
//! the key.

use super::Secret;
use super::keys::Key;
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conductor_hosts::atomic_file;
use conductor_hosts::system::Ids;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use uuid::Uuid;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vault {
    v: u32,
    install: Uuid,
    /// The salt for deriving a key from a passphrase.
    salt: String,
    secrets: BTreeMap<String, Sealed>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    version: u64,
    hosts: Vec<String>,
    nonce: String,
    ciphertext: String,
    key_id: String,
}

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("secrets/vault.json cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("secrets/vault.json is damaged: {0}")]
    Form(#[from] serde_json::Error),
    #[error("a value could not be sealed")]
    Seal,
}

const NONCE: usize = 12;

impl Vault {
    pub fn new(install: Uuid, ids: &dyn Ids) -> Self {
        let mut vault = Vault { v: 1, install, salt: String::new(), secrets: BTreeMap::new() };
        vault.new_salt(ids);
        vault
    }

    pub fn read(folder: &Path) -> Result<Option<Self>, VaultError> {
        match std::fs::read(folder.join("vault.json")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    pub fn write(&self, folder: &Path, unique: &str) -> io::Result<()> {
        super::make_private(folder)?;
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        atomic_file::replace(&folder.join("vault.json"), &bytes, 0o600, unique)
    }

    pub fn salt(&self) -> Vec<u8> {
        STANDARD.decode(&self.salt).unwrap_or_default()
    }

    pub fn new_salt(&mut self, ids: &dyn Ids) {
        let mut salt = [0; 16];
        ids.fill(&mut salt);
        self.salt = STANDARD.encode(salt);
    }

    /// The key that all values are sealed with; `None` for an empty vault.
    pub fn key_id(&self) -> Option<&str> {
        self.secrets.values().next().map(|it| it.key_id.as_str())
    }

    pub fn listed(&self) -> impl Iterator<Item = (&str, u64, Vec<String>)> {
        self.secrets.iter().map(|(name, it)| (name.as_str(), it.version, it.hosts.clone()))
    }

    pub fn open_all(&self, key: &Key) -> BTreeMap<String, Result<Secret, String>> {
        self.secrets.iter().map(|(name, it)| (name.clone(), self.open(key, name, it))).collect()
    }

    fn open(&self, key: &Key, name: &str, sealed: &Sealed) -> Result<Secret, String> {
        let changed = || "it was changed, or was sealed with another key".to_owned();
        let nonce = STANDARD.decode(&sealed.nonce).map_err(|_| changed())?;
        let nonce: [u8; NONCE] = nonce.try_into().map_err(|_| changed())?;
        let ciphertext = STANDARD.decode(&sealed.ciphertext).map_err(|_| changed())?;
        let aad = self.associated(name, sealed.version, &sealed.hosts);
        let opened = Aes256Gcm::new(&(*key.expose()).into())
            .decrypt(&nonce.into(), Payload { msg: &ciphertext, aad: &aad })
            .map_err(|_| changed())?;
        let value = String::from_utf8(opened).map_err(|_| changed())?;
        Ok(Secret { value: SecretString::from(value), hosts: sealed.hosts.clone() })
    }

    /// The associated data that a sealed value is bound to.
    fn associated(&self, name: &str, version: u64, hosts: &[String]) -> Vec<u8> {
        format!("conductor-secret/1\0{}\0{name}\0{version}\0{}", self.install, hosts.join(",")).into_bytes()
    }

    pub fn put(
        &mut self,
        key: &Key,
        name: &str,
        value: &str,
        hosts: Vec<String>,
        ids: &dyn Ids,
    ) -> Result<u64, VaultError> {
        let version = self.secrets.get(name).map_or(1, |it| it.version + 1);
        let mut nonce = [0; NONCE];
        ids.fill(&mut nonce);
        let aad = self.associated(name, version, &hosts);
        let ciphertext = Aes256Gcm::new(&(*key.expose()).into())
            .encrypt(&nonce.into(), Payload { msg: value.as_bytes(), aad: &aad })
            .map_err(|_| VaultError::Seal)?;
        let sealed = Sealed {
            version,
            hosts,
            nonce: STANDARD.encode(nonce),
            ciphertext: STANDARD.encode(ciphertext),
            key_id: key.id(),
        };
        self.secrets.insert(name.to_owned(), sealed);
        Ok(version)
    }

    pub fn remove(&mut self, name: &str) -> bool {
        self.secrets.remove(name).is_some()
    }

    pub fn reseal(&mut self, key: &Key, values: &[(&str, &Secret)], ids: &dyn Ids) -> Result<(), VaultError> {
        for (name, secret) in values {
            self.put(key, name, secret.value.expose_secret(), secret.hosts.clone(), ids)?;
        }
        Ok(())
    }
}
