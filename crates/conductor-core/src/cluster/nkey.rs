//! Ed25519 keys in the text form of NATS: base 32 of a prefix, the key and a checksum.

use ed25519_dalek::{SigningKey, VerifyingKey};

/// Prefix of the public key of a user; its text starts with `U`.
const USER: u8 = 20 << 3;
/// Prefix of a seed; its text starts with `S`.
const SEED: u8 = 18 << 3;
const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Why a text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the variants")]
pub enum KeyError {
    #[error("a public key has 56 characters and starts with U")]
    Public,
    #[error("a seed has 58 characters and starts with SU")]
    Seed,
    #[error("the checksum of the key is wrong; a character was changed")]
    Checksum,
}

/// The text of a public key.
pub fn public_text(key: &VerifyingKey) -> String {
    let mut bytes = vec![USER];
    bytes.extend_from_slice(key.as_bytes());
    encode(bytes)
}

/// Reads a public key.
pub fn read_public(text: &str) -> Result<VerifyingKey, KeyError> {
    let bytes = decode(text).ok_or(KeyError::Public)?;
    let body = checked(&bytes)?;
    match body.split_first() {
        Some((&USER, key)) => {
            let key = key.try_into().map_err(|_| KeyError::Public)?;
            VerifyingKey::from_bytes(key).map_err(|_| KeyError::Public)
        }
        Some(_) | None => Err(KeyError::Public),
    }
}

/// The text of a seed, from which the private key and the public key of a user are derived. The
/// text is a secret.
pub fn seed_text(key: &SigningKey) -> String {
    let mut bytes = vec![SEED | (USER >> 5), (USER & 31) << 3];
    bytes.extend_from_slice(&key.to_bytes());
    encode(bytes)
}

/// Reads a seed of a user.
pub fn read_seed(text: &str) -> Result<SigningKey, KeyError> {
    let bytes = decode(text).ok_or(KeyError::Seed)?;
    let seed = checked(&bytes)?.strip_prefix(&[SEED | (USER >> 5), (USER & 31) << 3]).ok_or(KeyError::Seed)?;
    Ok(SigningKey::from_bytes(seed.try_into().map_err(|_| KeyError::Seed)?))
}

/// The seed and the JWT in a credentials file of NATS, or the seed in a file that has only a seed.
pub fn read_credentials(text: &str) -> Result<(SigningKey, Option<String>), KeyError> {
    let lines = || text.lines().map(str::trim).filter(|it| !it.is_empty());
    let after = |mark: &str| lines().skip_while(|it| !(it.starts_with("---") && it.contains(mark))).nth(1);
    match after("BEGIN USER NKEY SEED") {
        Some(seed) => Ok((read_seed(seed)?, after("BEGIN NATS USER JWT").map(str::to_owned))),
        None => Ok((read_seed(lines().next().unwrap_or_default())?, None)),
    }
}

fn encode(mut bytes: Vec<u8>) -> String {
    bytes.extend(checksum(&bytes).to_le_bytes());
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(char::from(DIGITS[(bits >> count & 31) as usize]));
        }
    }
    if count > 0 {
        text.push(char::from(DIGITS[(bits << (5 - count) & 31) as usize]));
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let digit = DIGITS.iter().position(|it| *it == byte)?;
        bits = bits << 5 | digit as u32;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    // The unused bits must be zero, so that each key has one text.
    (bits & ((1 << count) - 1) == 0).then_some(bytes)
}

fn checked(bytes: &[u8]) -> Result<&[u8], KeyError> {
    let (body, sum) = bytes.split_last_chunk::<2>().ok_or(KeyError::Checksum)?;
    if checksum(body).to_le_bytes() == *sum { Ok(body) } else { Err(KeyError::Checksum) }
}

/// CRC-16 with the polynomial of XMODEM.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A seed and its public key from the documentation of the NATS server.
    const KNOWN: (&str, &str) = (
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
        "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
    );

    #[test]
    fn the_known_key_is_read_and_written() {
        let key = read_seed(KNOWN.0).unwrap();
        assert_eq!(public_text(&key.verifying_key()), KNOWN.1);
        assert_eq!(seed_text(&key), KNOWN.0);
        assert_eq!(read_public(KNOWN.1), Ok(key.verifying_key()));
        assert_eq!(read_public(KNOWN.0), Err(KeyError::Public));
    }

    #[test]
    fn credentials_contain_a_seed_and_may_contain_a_jwt() {
        let both = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0.x.y\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            KNOWN.0
        );
        let (key, jwt) = read_credentials(&both).unwrap();
        assert_eq!((seed_text(&key).as_str(), jwt.as_deref()), (KNOWN.0, Some("eyJ0.x.y")));
        let (key, jwt) = read_credentials(&format!("{}\n", KNOWN.0)).unwrap();
        assert_eq!((seed_text(&key).as_str(), jwt), (KNOWN.0, None));
        assert!(read_credentials("").is_err());
    }

    proptest! {
        #[test]
        fn every_key_survives_its_text_and_no_changed_text_is_a_key(seed: [u8; 32], at in 0_usize..56, to in 0_usize..32) {
            let key = SigningKey::from_bytes(&seed);
            prop_assert_eq!(read_seed(&seed_text(&key)).unwrap().to_bytes(), seed);
            let text = public_text(&key.verifying_key());
            prop_assert_eq!(text.len(), 56);
            prop_assert_eq!(read_public(&text), Ok(key.verifying_key()));
            let mut changed = text.clone().into_bytes();
            changed[at] = DIGITS[to];
            let changed = String::from_utf8(changed).unwrap();
            prop_assert_eq!(changed == text, read_public(&changed).is_ok());
        }
    }
}
