//! SHA-256 digests with their text form, and canonical JSON (RFC 8785) as the input of digests.
//!
//! Not here: keyed hashes of arguments (`audit::record`) and signatures (`audit::checkpoint`).

use std::fmt;
use std::str::FromStr;

use crate::named_enum::serde_as_text;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// 2^53 - 1. Canonical JSON converts numbers to doubles, and two larger integers can become the
/// same double. They would have the same hash, so an approval for the first would also allow the
/// second.
pub const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Deepest nesting of arguments that are hashed.
pub const MAX_DEPTH: usize = 64;

/// A SHA-256 digest; its text is `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, schemars::JsonSchema)]
#[schemars(with = "String", description = "SHA-256", extend("pattern" = "^sha256:[0-9a-f]{64}$"))]
pub struct Digest([u8; 32]);

impl Digest {
    /// Length of the text form in bytes.
    pub const TEXT_LEN: usize = 71;

    /// Wraps the 32 bytes of a digest.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// SHA-256 of the bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// HMAC-SHA256 of the bytes, which cannot be computed without the key.
    pub fn keyed(key: &[u8; 32], bytes: &[u8]) -> Self {
        let mut block = [0; 64];
        block[..32].copy_from_slice(key);
        let mac = Hmac::<Sha256>::new(&block.into()).chain_update(bytes);
        Self(mac.finalize().into_bytes().into())
    }

    /// HMAC-SHA256 of the joined parts, with a key of any length.
    pub fn hmac(key: &[u8], parts: &[&[u8]]) -> Self {
        let mut block = [0; 64];
        match block.get_mut(..key.len()) {
            Some(start) => start.copy_from_slice(key),
            // A key that is longer than a block is replaced by its digest (RFC 2104).
            None => block[..32].copy_from_slice(&Self::of(key).0),
        }
        let mac = parts.iter().fold(Hmac::<Sha256>::new(&block.into()), |mac, part| mac.chain_update(part));
        Self(mac.finalize().into_bytes().into())
    }

    /// The 64 hex digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The digest of a value's canonical form. Equal values have equal digests, regardless of the
    /// order of their keys.
    pub fn of_json(value: &Value) -> Result<Self, NotCanonical> {
        canonical(value).map(|bytes| Self::of(&bytes))
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The text form without an allocation.
    pub fn to_text(self) -> [u8; Self::TEXT_LEN] {
        let mut out = [0; Self::TEXT_LEN];
        out[..7].copy_from_slice(b"sha256:");
        write_hex(&self.0, &mut out[7..]);
        out
    }

    /// Parses the text form; `None` if it is not exactly that form.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        let hex = text.strip_prefix(b"sha256:")?;
        let mut bytes = [0; 32];
        if hex.len() != 64 {
            return None;
        }
        // Collect invalid digits and check them once, after the loop. This function must be fast:
        // the verifier calls it twice per line.
        let mut faults = 0;
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
            faults |= high | low;
            *byte = high << 4 | low & 15;
        }
        if faults > 15 {
            return None;
        }
        Some(Self(bytes))
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Writes `bytes` as hex digits to `out`. `out` must be twice as long as `bytes`; digits that do
/// not fit are left out.
pub(crate) fn write_hex(bytes: &[u8], out: &mut [u8]) {
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
}

/// The value of a hex digit; 255 for any other byte. Upper case is invalid, so that each digest has
/// only one text form.
const NIBBLES: [u8; 256] = {
    let mut table = [255; 256];
    let mut value = 0;
    while value < 16 {
        table[HEX[value] as usize] = value as u8;
        value += 1;
    }
    table
};

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected `sha256:` and 64 lower-case hex digits")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        Self::from_text(text.as_bytes()).ok_or(NotADigest)
    }
}

serde_as_text!(Digest);

/// The reason why a value has no safe canonical form. `pointer` is the JSON pointer of the faulty
/// value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the comment of each variant explains its fields")]
pub enum NotCanonical {
    /// The absolute value of the integer exceeds [`MAX_INTEGER`].
    #[error("{pointer}: integers must be within +-9007199254740991, got {given}; send larger ones as a string")]
    IntegerTooLarge { pointer: String, given: String },
    /// The nesting exceeds [`MAX_DEPTH`].
    #[error("{pointer}: nested deeper than {MAX_DEPTH} levels")]
    TooDeep { pointer: String },
}

/// The RFC 8785 bytes of a value, after [`check`] has passed.
pub fn canonical(value: &Value) -> Result<Vec<u8>, NotCanonical> {
    check(value)?;
    // The writer fails only on non-finite numbers, which a `Value` cannot contain.
    Ok(serde_json_canonicalizer::to_vec(value).unwrap_or_default())
}

/// Refuses a value that cannot be hashed safely: it contains an integer whose absolute value
/// exceeds [`MAX_INTEGER`], or is nested deeper than [`MAX_DEPTH`]. The pipeline also checks
/// arguments with this function.
pub fn check(value: &Value) -> Result<(), NotCanonical> {
    fn walk(value: &Value, depth: usize, path: &mut Vec<String>) -> Result<(), NotCanonical> {
        match value {
            Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
            Value::Number(number) => {
                let too_large = number.as_u64().is_some_and(|n| n > MAX_INTEGER)
                    || number.as_i64().is_some_and(|n| n.unsigned_abs() > MAX_INTEGER);
                if too_large {
                    return Err(NotCanonical::IntegerTooLarge { pointer: pointer(path), given: number.to_string() });
                }
                Ok(())
            }
            Value::Array(_) | Value::Object(_) if depth == MAX_DEPTH => {
                Err(NotCanonical::TooDeep { pointer: pointer(path) })
            }
            Value::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
                path.push(index.to_string());
                walk(item, depth + 1, path)?;
                path.pop();
                Ok(())
            }),
            Value::Object(members) => members.iter().try_for_each(|(key, item)| {
                path.push(key.replace('~', "~0").replace('/', "~1"));
                walk(item, depth + 1, path)?;
                path.pop();
                Ok(())
            }),
        }
    }
    fn pointer(path: &[String]) -> String {
        if path.is_empty() { "the arguments".to_owned() } else { path.iter().flat_map(|part| ["/", part]).collect() }
    }
    walk(value, 0, &mut Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_form_round_trips_and_is_strict() {
        let digest = Digest::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(digest.to_text(), text.as_bytes());
        assert_eq!(text.parse(), Ok(digest));
        for bad in
            ["", "sha256:", &text[..70], &text.to_uppercase(), &text.replace("sha256", "sha512"), &format!("{text}0")]
        {
            assert_eq!(bad.parse::<Digest>(), Err(NotADigest), "{bad}");
        }
    }

    #[test]
    fn key_order_and_number_spelling_do_not_matter() {
        let one = Digest::of_json(&json!({"a": 1, "b": [1.0, "x"]}));
        let two = Digest::of_json(&json!({"b": [1, "x"], "a": 1.0}));
        assert_eq!(one, two);
        assert_ne!(one, Digest::of_json(&json!({"a": 2, "b": [1, "x"]})));
    }

    #[test]
    fn integers_that_could_share_a_hash_are_refused_with_their_place() {
        assert!(Digest::of_json(&json!({"n": 9_007_199_254_740_991_u64, "m": -9_007_199_254_740_991_i64})).is_ok());
        for n in [
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
            json!(-9_007_199_254_740_992_i64),
            json!(u64::MAX),
        ] {
            let fault = Digest::of_json(&json!({"a/b": [n]}));
            assert!(
                matches!(&fault, Err(NotCanonical::IntegerTooLarge { pointer, .. }) if pointer == "/a~1b/0"),
                "{fault:?}"
            );
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(check(&deep(MAX_DEPTH)).is_ok());
        assert!(matches!(check(&deep(MAX_DEPTH + 1)), Err(NotCanonical::TooDeep { .. })));
    }
}
