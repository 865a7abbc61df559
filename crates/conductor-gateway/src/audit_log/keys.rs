//! Loads the signing key, its public key and the salt of input hashes. Each is created once.

use std::io;

use ed25519_dalek::{SigningKey, VerifyingKey};

use super::files::{Files, WHOLE, replace};
use super::layout::Layout;
use super::walk::or_empty;
use conductor_hosts::system::Ids;

pub struct Keys {
    pub signing: SigningKey,
    pub salt: [u8; 32],
    /// Whether the signing key is new and not on the disk yet.
    pub unsaved: bool,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{0}: {1}")]
    Io(&'static str, #[source] io::Error),
    #[error("{0} is damaged: expected {1}")]
    Damaged(&'static str, &'static str),
    #[error(
        "secrets/audit.key is missing, but checkpoints were signed with it; restore it, or accept the loss with `conductor audit accept-rollback`"
    )]
    Gone,
    #[error("state/audit.pub is not the public key of secrets/audit.key; one of them was replaced")]
    Mismatch,
}

/// Reads the keys. `fresh` allows new keys although the public key exists, because a person
/// accepted the loss. [`save`] stores a new signing key only after the first segment exists. So in
/// a home with a key but without a log, the log was lost.
pub fn load(files: &dyn Files, layout: &Layout, ids: &dyn Ids, fresh: bool) -> Result<Keys, KeyError> {
    let salt = match read32(files, &layout.salt(), "state/audit.salt")? {
        Some(salt) => salt,
        None => {
            let salt = ids.bytes32();
            replace(files, &layout.state, "audit.salt", &salt)
                .map_err(|error| KeyError::Io("state/audit.salt", error))?;
            salt
        }
    };
    let public = public_key(files, layout)?;
    let (signing, made) = match read32(files, &layout.signing_key(), "secrets/audit.key")? {
        Some(secret) => (SigningKey::from_bytes(&secret), false),
        None if public.is_some() && !fresh => return Err(KeyError::Gone),
        None => (SigningKey::from_bytes(&ids.bytes32()), true),
    };
    let fits = public == Some(signing.verifying_key());
    if public.is_some() && !fits && !fresh {
        return Err(KeyError::Mismatch);
    }
    Ok(Keys { signing, salt, unsaved: made || !fits })
}

/// Stores the signing key. This must be done before the first checkpoint is signed.
pub fn save(files: &dyn Files, layout: &Layout, signing: &SigningKey) -> io::Result<()> {
    replace(files, &layout.secrets, "audit.key", &signing.to_bytes())?;
    let text: String = signing.verifying_key().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    replace(files, &layout.state, "audit.pub", format!("{text}\n").as_bytes())
}

/// Whether the signing key or its public key exists.
pub fn exist(files: &dyn Files, layout: &Layout) -> bool {
    let there = |path: &std::path::Path| files.read_at(path, 0, 1).is_ok();
    there(&layout.signing_key()) || there(&layout.public_key())
}

/// The public key, for verification without access to the signing key.
pub fn public_key(files: &dyn Files, layout: &Layout) -> Result<Option<VerifyingKey>, KeyError> {
    const NAME: &str = "state/audit.pub";
    let text = or_empty(files.read_at(&layout.public_key(), 0, WHOLE)).map_err(|error| KeyError::Io(NAME, error))?;
    if text.is_empty() {
        return Ok(None);
    }
    let damaged = || KeyError::Damaged(NAME, "64 hex digits");
    let digits = text.trim_ascii();
    let mut bytes = [0; 32];
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(damaged());
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| damaged())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| damaged())?;
    }
    VerifyingKey::from_bytes(&bytes).map(Some).map_err(|_| damaged())
}

pub fn salt(files: &dyn Files, layout: &Layout) -> Result<Option<[u8; 32]>, KeyError> {
    read32(files, &layout.salt(), "state/audit.salt")
}

fn read32(files: &dyn Files, path: &std::path::Path, name: &'static str) -> Result<Option<[u8; 32]>, KeyError> {
    match files.read_at(path, 0, 33) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(KeyError::Io(name, error)),
        // A damaged salt is an error. With a new salt, the input hashes of older records would
        // match no arguments.
        Ok(bytes) => bytes.try_into().map(Some).map_err(|_| KeyError::Damaged(name, "32 bytes")),
    }
}
