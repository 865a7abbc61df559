//! The signing key, its public half and the salt of input hashes: made once, then only read.

use std::io;

use ed25519_dalek::{SigningKey, VerifyingKey};

use super::files::{Files, WHOLE, replace};
use super::layout::Layout;
use super::outside::Ids;
use super::walk::or_empty;

pub struct Keys {
    pub signing: SigningKey,
    pub salt: [u8; 32],
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
        "secrets/audit.key is gone, but checkpoints were signed with it; put it back, or accept the loss with `audit verify --accept`"
    )]
    Gone,
    #[error("state/audit.pub is not the public half of secrets/audit.key; one of them was replaced")]
    Mismatch,
}

/// Reads the keys. `fresh` allows making new ones: only when nothing was ever signed, or a person accepted the loss.
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
    let signing = match read32(files, &layout.signing_key(), "secrets/audit.key")? {
        Some(secret) => SigningKey::from_bytes(&secret),
        None if public.is_some() && !fresh => return Err(KeyError::Gone),
        None => {
            let secret = ids.bytes32();
            replace(files, &layout.secrets, "audit.key", &secret)
                .map_err(|error| KeyError::Io("secrets/audit.key", error))?;
            SigningKey::from_bytes(&secret)
        }
    };
    if public != Some(signing.verifying_key()) {
        if public.is_some() && !fresh {
            return Err(KeyError::Mismatch);
        }
        let text: String = signing.verifying_key().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        replace(files, &layout.state, "audit.pub", format!("{text}\n").as_bytes())
            .map_err(|error| KeyError::Io("state/audit.pub", error))?;
    }
    Ok(Keys { signing, salt })
}

/// The key to verify with, by whoever may not read the secret one. It must fit the secret one where that can be read.
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
        // Never replaced silently: a new salt would cut every older input hash off from its arguments.
        Ok(bytes) => bytes.try_into().map(Some).map_err(|_| KeyError::Damaged(name, "32 bytes")),
    }
}
