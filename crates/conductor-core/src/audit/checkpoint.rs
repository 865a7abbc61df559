//! Checkpoints: signed statements about the last record of the log. They are stored outside the
//! log's folder.
//!
//! Not here: where the key is stored and when a checkpoint is due.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::line::{Head, Seq};
use crate::digest::{Digest, write_hex};
use crate::timestamp::Timestamp;

/// First 16 hex digits of the SHA-256 of a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId([u8; 16]);

impl KeyId {
    /// The id of a public key.
    pub fn of(key: &VerifyingKey) -> Self {
        let mut text = [0; 16];
        write_hex(&Digest::of(key.as_bytes()).as_bytes()[..8], &mut text);
        Self(text)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| fmt::Write::write_char(f, char::from(*byte)))
    }
}

/// The content of one line of `checkpoints.jsonl`, without its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    pub log_id: Uuid,
    /// Number of the last record that this checkpoint covers.
    pub seq: Seq,
    /// Hash of the last record that this checkpoint covers.
    pub hash: Digest,
    /// Time of the signature.
    pub ts: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u64,
    log_id: String,
    seq: Seq,
    hash: Digest,
    ts: Timestamp,
    key_id: String,
    sig: String,
}

/// Why a line of `checkpoints.jsonl` is invalid. In messages, the text follows the word "which".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the variants")]
pub enum BadCheckpoint {
    #[error("is not a checkpoint: {0}")]
    Shape(String),
    #[error("was signed by key {found}, not by {expected}")]
    OtherKey { expected: String, found: String },
    #[error("has an invalid signature")]
    Signature,
}

impl Checkpoint {
    /// A checkpoint of the end of a log.
    pub const fn at(head: Head, ts: Timestamp) -> Self {
        Self { log_id: head.log_id, seq: head.seq, hash: head.hash, ts }
    }

    fn signed_bytes(&self) -> Vec<u8> {
        format!("conductor-audit-checkpoint/1\n{}\n{}\n{}\n{}\n", self.log_id, self.seq, self.hash, self.ts)
            .into_bytes()
    }

    /// The signed line, with its newline.
    pub fn sign(&self, key: &SigningKey) -> String {
        let signature = key.sign(&self.signed_bytes());
        self.line(KeyId::of(&key.verifying_key()), &STANDARD.encode(signature.to_bytes()))
    }

    fn line(&self, key_id: KeyId, sig: &str) -> String {
        format!(
            "{{\"v\":1,\"log_id\":\"{}\",\"seq\":{},\"hash\":\"{}\",\"ts\":\"{}\",\"key_id\":\"{key_id}\",\"sig\":\"{sig}\"}}\n",
            self.log_id, self.seq, self.hash, self.ts
        )
    }

    /// Reads the log id and the record number of a line, without checking its signature.
    pub(super) fn claim(line: &[u8]) -> Option<(Uuid, Seq)> {
        let wire: Wire = serde_json::from_slice(line).ok()?;
        Some((Uuid::parse_str(&wire.log_id).ok()?, wire.seq))
    }

    /// Reads a line without checking its signature. Used to compare the line with a log whose key
    /// may have been replaced.
    pub fn unverified(line: &[u8]) -> Option<Self> {
        let Wire { log_id, seq, hash, ts, .. } = serde_json::from_slice(line).ok()?;
        Some(Self { log_id: Uuid::parse_str(&log_id).ok()?, seq, hash, ts })
    }

    /// Whether a line names a record before `seq`. Does not check the signature.
    pub(super) fn claims_less_than(line: &[u8], seq: Seq) -> bool {
        seq > 0 && serde_json::from_slice::<Wire>(line).is_ok_and(|wire| wire.seq < seq)
    }

    /// Reads a line (without its newline) and checks its signature. The line must have exactly the
    /// form that [`Checkpoint::sign`] writes.
    pub fn read(line: &[u8], key: &VerifyingKey) -> Result<Self, BadCheckpoint> {
        let wire: Wire = serde_json::from_slice(line).map_err(|error| BadCheckpoint::Shape(error.to_string()))?;
        let log_id = Uuid::parse_str(&wire.log_id).map_err(|error| BadCheckpoint::Shape(error.to_string()))?;
        let checkpoint = Self { log_id, seq: wire.seq, hash: wire.hash, ts: wire.ts };
        let key_id = KeyId::of(key);
        if wire.key_id != key_id.to_string() {
            let found = wire.key_id.chars().take(16).filter(char::is_ascii_graphic).collect();
            return Err(BadCheckpoint::OtherKey { expected: key_id.to_string(), found });
        }
        if checkpoint.line(key_id, &wire.sig).trim_end().as_bytes() != line {
            return Err(BadCheckpoint::Shape("the format differs from the one that Conductor writes".to_owned()));
        }
        let bytes = STANDARD.decode(&wire.sig).map_err(|error| BadCheckpoint::Shape(error.to_string()))?;
        let signature = Signature::from_slice(&bytes).map_err(|_| BadCheckpoint::Signature)?;
        key.verify_strict(&checkpoint.signed_bytes(), &signature).map_err(|_| BadCheckpoint::Signature)?;
        Ok(checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> SigningKey {
        SigningKey::from_bytes(&[n; 32])
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            log_id: Uuid::from_u128(5),
            seq: 256,
            hash: Digest::of(b"x"),
            ts: Timestamp::from_millis(1_767_323_045_000),
        }
    }

    #[test]
    fn signed_and_read_back() {
        let line = checkpoint().sign(&key(1));
        assert!(line.starts_with(
            "{\"v\":1,\"log_id\":\"00000000-0000-0000-0000-000000000005\",\"seq\":256,\"hash\":\"sha256:"
        ));
        assert_eq!(Checkpoint::read(line.trim_end().as_bytes(), &key(1).verifying_key()), Ok(checkpoint()));
        let other = Checkpoint::read(line.trim_end().as_bytes(), &key(2).verifying_key());
        assert!(matches!(other, Err(BadCheckpoint::OtherKey { .. })));
    }

    #[test]
    fn every_flipped_byte_is_found() {
        let line = checkpoint().sign(&key(1));
        let line = line.trim_end().as_bytes();
        for at in 0..line.len() {
            for flip in [1, 0x20, 0x80] {
                let mut bad = line.to_vec();
                bad[at] ^= flip;
                assert!(Checkpoint::read(&bad, &key(1).verifying_key()).is_err(), "byte {at}");
            }
        }
    }

    #[test]
    fn a_changed_statement_does_not_fit_the_signature() {
        let line = checkpoint().sign(&key(1)).replace("\"seq\":256", "\"seq\":257");
        assert_eq!(
            Checkpoint::read(line.trim_end().as_bytes(), &key(1).verifying_key()),
            Err(BadCheckpoint::Signature)
        );
    }
}
