//! Encryption of a key file by the system: the data protection of Windows (DPAPI), whose key
//! belongs to the user's account. A copy of the file is useless on another machine and for another
//! user. Other programs of the same user can decrypt it.

use std::io;
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Cryptography::{
    CRYPT_INTEGER_BLOB, CRYPTPROTECT_UI_FORBIDDEN, CryptProtectData, CryptUnprotectData,
};

/// The protection of the key file, as `conductor secrets status` describes it.
pub const SENTENCE: &str =
    "key file encrypted by Windows for your account: any program that you run can read your secrets";

/// The first bytes of an encrypted file.
const MARK: &[u8] = b"dpapi\n";

fn input(bytes: &[u8]) -> io::Result<CRYPT_INTEGER_BLOB> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(CRYPT_INTEGER_BLOB { cbData: length, pbData: bytes.as_ptr().cast_mut() })
}

/// Copies a buffer that the system has allocated, then overwrites and frees the buffer.
fn taken(output: &CRYPT_INTEGER_BLOB) -> Vec<u8> {
    // SAFETY: the system has allocated the output with LocalAlloc, with this length.
    unsafe {
        let bytes = std::slice::from_raw_parts(output.pbData, output.cbData as usize).to_vec();
        for at in 0..output.cbData as usize {
            output.pbData.add(at).write_volatile(0);
        }
        LocalFree(output.pbData.cast());
        bytes
    }
}

pub fn protect(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let (plain, mut sealed) = (input(bytes)?, CRYPT_INTEGER_BLOB::default());
    let flags = CRYPTPROTECT_UI_FORBIDDEN;
    // SAFETY: the input lives until the call returns, and the output is written on success.
    let done = unsafe { CryptProtectData(&raw const plain, null(), null(), null(), null(), flags, &raw mut sealed) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok([MARK, &taken(&sealed)].concat())
}

/// Decrypts the output of [`protect`]. Bytes that do not start with `MARK` are not encrypted and
/// are returned unchanged.
pub fn unprotect(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let Some(bytes) = bytes.strip_prefix(MARK) else { return Ok(bytes.to_vec()) };
    let (sealed, mut plain) = (input(bytes)?, CRYPT_INTEGER_BLOB::default());
    let flags = CRYPTPROTECT_UI_FORBIDDEN;
    // SAFETY: the input lives until the call returns, and the output is written on success.
    let done =
        unsafe { CryptUnprotectData(&raw const sealed, null_mut(), null(), null(), null(), flags, &raw mut plain) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(taken(&plain)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_and_is_not_in_the_file() {
        let sealed = protect(b"a key of 32 bytes").unwrap();
        assert!(!sealed.windows(5).any(|it| it == b"a key"));
        assert_eq!(unprotect(&sealed).unwrap(), b"a key of 32 bytes");
        assert_eq!(unprotect(b"plain").unwrap(), b"plain");
        let mut damaged = sealed;
        damaged.truncate(MARK.len() + 20);
        assert!(unprotect(&damaged).is_err());
    }
}
