//! How the daemon and what runs inside another program recognise each other: a private file with a
//! port, a token and a secret.
//!
//! Who listens writes the file, new at every start, and removes it when it stops. It speaks first,
//! with the token; who dials says nothing before that. Then both prove that they know the secret.
//! So a program that took over a port that was left behind learns nothing. Not here: what is said
//! afterwards.

use crate::atomic_file;
use crate::system::{Ids, RandomIds};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq;

/// 256 random bits. Starts with a letter, because Pd takes some hexadecimal numbers for floats.
pub fn secret() -> String {
    let mut bytes = [0; 32];
    RandomIds.fill(&mut bytes);
    bytes.iter().fold(String::from("t"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What only a holder of the secret can say of two numbers that were drawn for one connection.
pub fn proof(secret: &str, role: &str, first: &str, second: &str) -> String {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
    let mut keyed = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    keyed.update(format!("{role} {first} {second}").as_bytes());
    keyed.finalize().into_bytes().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Compares in constant time.
pub fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// A file of the state folder, for its person alone.
pub fn write_private(file: &Path, bytes: &[u8], ids: &dyn Ids) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    atomic_file::replace(file, bytes, 0o600, &ids.v4().simple().to_string())
}

/// The file that says where the daemon listens. It is gone when this is.
pub struct AddressFile {
    path: PathBuf,
    text: String,
}

impl AddressFile {
    pub fn write(path: PathBuf, text: String, ids: &dyn Ids) -> io::Result<Self> {
        write_private(&path, text.as_bytes(), ids)?;
        Ok(AddressFile { path, text })
    }

    /// Leaves a file alone that is not the one written here.
    pub fn remove(&self) {
        if fs::read_to_string(&self.path).is_ok_and(|it| it == self.text) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Whether the other end of a loopback connection belongs to our user, by the kernel's own table.
/// Where there is no such table, everything on this machine counts.
pub fn is_mine(peer: SocketAddr, ours: SocketAddr) -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    let spelled = |it: SocketAddr| match it {
        SocketAddr::V4(it) => Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(it.ip().octets()), it.port())),
        SocketAddr::V6(_) => None,
    };
    let (Some(peer), Some(ours)) = (spelled(peer), spelled(ours)) else { return false };
    let uid = rustix::process::getuid().as_raw().to_string();
    fs::read_to_string("/proc/net/tcp").is_ok_and(|table| {
        table.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(1) == Some(&peer.as_str())
                && words.get(2) == Some(&ours.as_str())
                && words.get(7) == Some(&uid.as_str())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_secret_role_and_pair_of_numbers() {
        let (a, b) = (secret(), secret());
        assert_ne!(a, b);
        let right = proof(&a, "daemon", "1", "2");
        assert!(same(&right, &proof(&a, "daemon", "1", "2")));
        for other in [proof(&b, "daemon", "1", "2"), proof(&a, "bridge", "1", "2"), proof(&a, "daemon", "2", "1")] {
            assert!(!same(&right, &other));
        }
        // As Node and Python compute it.
        assert_eq!(
            proof("t00", "daemon", "a", "b"),
            "e1e0ae8603fc74239b874a093c7762473474f9e40c200ed5b45a4f84994f7129"
        );
    }
}
