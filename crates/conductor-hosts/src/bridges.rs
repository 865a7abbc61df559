//! Authenticates the daemon and its bridge (our script inside Max, Pd or Live) to each other. A
//! private file contains the port, a token and a secret.
//!
//! The listener writes the file at every start and removes it when it stops. The listener sends the
//! token first; the connecting side sends nothing before it received the token. Then each side
//! proves to the other that it has the secret; the Pd bridge sends a second token instead. A
//! program that listens on a port that we no longer use therefore receives no secret data. Not
//! here: the protocol after the authentication.

use crate::atomic_file;
use crate::patch::console::{Level, Source, Voice};
use crate::system::files::private_folders;
use crate::system::{Clock, Ids, RandomIds, processes};
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::{Mutex, MutexGuard};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::Builder;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Time limit for a connecting program to prove that it is our bridge.
const HELLO: Duration = Duration::from_secs(2);

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 256 random bits as text. The text starts with a letter, because Pd parses some hexadecimal
/// strings as floats.
pub fn secret() -> String {
    let mut bytes = [0; 32];
    RandomIds.fill(&mut bytes);
    format!("t{}", hex(&bytes))
}

/// A proof that we have the secret. `first` and `second` are the random numbers of this connection,
/// so the proof cannot be replayed on another connection.
pub fn proof(secret: &str, role: &str, first: &str, second: &str) -> String {
    #[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
    let mut keyed = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC refused the key");
    keyed.update(format!("{role} {first} {second}").as_bytes());
    hex(&keyed.finalize().into_bytes())
}

/// Compares two texts in constant time.
pub fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// Writes a file that only this user can read, and creates its folder if necessary.
pub fn write_private(file: &Path, bytes: &[u8], ids: &dyn Ids) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        private_folders().recursive(true).create(folder)?;
    }
    atomic_file::replace(file, bytes, 0o600, &ids.v4().simple().to_string())
}

/// The file with the daemon's address. Dropping this value removes the file.
pub struct AddressFile {
    path: PathBuf,
    text: String,
}

impl AddressFile {
    pub fn write(path: PathBuf, text: String, ids: &dyn Ids) -> io::Result<Self> {
        write_private(&path, text.as_bytes(), ids)?;
        Ok(AddressFile { path, text })
    }

    /// Removes the file unless another daemon has replaced it.
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

/// The program that a bridge runs in.
#[derive(Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    /// Whether a new connection removes the patches of the previous connection.
    pub forgets_patches: bool,
    /// Whether both sides prove that they have the secret and never send it. Only such a bridge is
    /// accepted on a system that does not report who owns a connection.
    pub proves_secret: bool,
}

/// The bridge in a running program: its newest connection, and the patches that the program shows.
pub struct Bridge<L, R> {
    state: Arc<Mutex<BridgeState<L, R>>>,
    address: AddressFile,
}

pub struct BridgeState<L, R> {
    pub line: Option<L>,
    pub roots: BTreeMap<String, R>,
    /// Counter that makes generated names unique.
    pub count: u64,
}

impl<L: Send + 'static, R: Send + 'static> Bridge<L, R> {
    /// Accepts connections on a new thread. `greet` authenticates a connection, and returns it with
    /// a message for the console.
    pub fn listen(
        listener: TcpListener,
        address: AddressFile,
        program: Program,
        voice: Voice,
        greet: impl Fn(TcpStream) -> Result<(L, String), String> + Send + 'static,
    ) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(BridgeState { line: None, roots: BTreeMap::new(), count: 0 }));
        let (shared, ours) = (Arc::downgrade(&state), listener.local_addr()?);
        Builder::new().name(format!("{} bridge", program.name)).spawn(move || {
            for socket in listener.incoming().flatten() {
                let Some(state) = shared.upgrade() else { return };
                let greeted = check_peer(&socket, ours, program).and_then(|()| greet(socket));
                let (level, text) = match greeted {
                    // The newest connection replaces the old one, because the person may have
                    // restarted the program.
                    Ok((line, text)) => {
                        let mut state = state.lock();
                        if program.forgets_patches {
                            state.roots.clear();
                        }
                        state.line = Some(line);
                        (Level::Info, text)
                    }
                    Err(why) => (
                        Level::Warning,
                        format!("a program that connected to the port of {}'s bridge was refused: {why}", program.name),
                    ),
                };
                voice.say(Source::Conductor, level, None, None, text);
            }
        })?;
        Ok(Bridge { state, address })
    }

    pub fn state(&self) -> MutexGuard<'_, BridgeState<L, R>> {
        self.state.lock()
    }

    /// Removes the address file and closes the connection to the bridge.
    pub fn stop(&self) {
        self.address.remove();
        self.state().line = None;
    }
}

/// Refuses connections from other users, so that they do not receive the token. With the token,
/// another user could listen on this port after we have closed it, and imitate the daemon.
///
/// Wine does not report who owns a connection. There, a bridge that proves the secret is accepted:
/// a program that has only the token can neither prove the secret nor get it from the other side.
fn check_peer(socket: &TcpStream, ours: SocketAddr, program: Program) -> Result<(), String> {
    let fail = |fault: io::Error| fault.to_string();
    let peer = socket.peer_addr().map_err(fail)?;
    if !is_mine(peer, ours) {
        if processes::reports_owner(ours, peer) {
            return Err("it belongs to another user".to_owned());
        }
        if !program.proves_secret {
            return Err("this system does not report which user it belongs to".to_owned());
        }
    }
    socket.set_read_timeout(Some(HELLO)).map_err(fail)?;
    socket.set_nodelay(true).map_err(fail)
}

/// Waits for the first message for which `pick` returns a value. Other messages are dropped.
pub fn receive<T, U>(
    heard: &Receiver<T>,
    clock: &dyn Clock,
    limit_us: u64,
    pick: impl Fn(T) -> Option<U>,
) -> Result<U, RecvTimeoutError> {
    let until = clock.now().plus_us(limit_us);
    loop {
        let left = until.0.saturating_sub(clock.now().0);
        if let Some(found) = pick(heard.recv_timeout(Duration::from_micros(left))?) {
            return Ok(found);
        }
    }
}

/// Whether the peer of a loopback connection belongs to our user.
pub fn is_mine(peer: SocketAddr, ours: SocketAddr) -> bool {
    processes::is_peer_ours(peer, ours)
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
        // The bridges compute the same value in Node and in Python.
        assert_eq!(
            proof("t00", "daemon", "a", "b"),
            "e1e0ae8603fc74239b874a093c7762473474f9e40c200ed5b45a4f84994f7129"
        );
    }
}
