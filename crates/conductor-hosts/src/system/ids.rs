//! Creates ids and random bytes: random ones for the daemon, and seeded or counted ones for tests.

#![expect(clippy::disallowed_methods, reason = "the only file that generates random numbers for the daemon")]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

pub trait Ids: Send + Sync + std::fmt::Debug {
    /// Fills `bytes` with cryptographically secure random bytes.
    fn fill(&self, bytes: &mut [u8]);

    fn v4(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// An id that sorts by `wall_ms`; the order within a millisecond is random.
    fn v7(&self, wall_ms: u64) -> Uuid {
        let mut tail = [0; TAIL];
        self.fill(&mut tail);
        uuid::Builder::from_unix_timestamp_millis(wall_ms, &tail).into_uuid()
    }

    fn bytes32(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.fill(&mut bytes);
        bytes
    }
}

#[derive(Debug)]
pub struct RandomIds;

/// Random bytes at the end of a v7 id.
const TAIL: usize = 10;

thread_local! {
    /// Random tails fetched in advance. Each tool call needs two, and a system call per tail would
    /// take longer than the rest of the id. Only ids use them; secrets are read from the system
    /// when they are needed.
    static PREFETCHED: RefCell<Vec<[u8; TAIL]>> = const { RefCell::new(Vec::new()) };
}

fn from_system(bytes: &mut [u8]) {
    #[expect(clippy::expect_used, reason = "without random numbers, keys and ids would be guessable")]
    getrandom::fill(bytes).expect("the system returns no random numbers");
}

impl Ids for RandomIds {
    fn v4(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn v7(&self, wall_ms: u64) -> Uuid {
        let tail = PREFETCHED.with_borrow_mut(|tails| {
            if tails.is_empty() {
                let mut bytes = [0; TAIL * 64];
                from_system(&mut bytes);
                tails.extend(bytes.as_chunks::<TAIL>().0);
            }
            tails.pop().unwrap_or_default()
        });
        uuid::Builder::from_unix_timestamp_millis(wall_ms, &tail).into_uuid()
    }

    fn fill(&self, bytes: &mut [u8]) {
        from_system(bytes);
    }
}

/// Generates the same random numbers in every run of a test (splitmix64).
#[derive(Debug)]
pub struct SeededIds(AtomicU64);

impl SeededIds {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(SeededIds(AtomicU64::new(seed)))
    }

    pub fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Ids for SeededIds {
    fn fill(&self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
    }
}

/// Creates ids in a fixed order, for tests.
#[derive(Debug)]
pub struct CountingIds(AtomicU64);

impl CountingIds {
    pub fn new() -> Arc<Self> {
        Arc::new(CountingIds(AtomicU64::new(1)))
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl Ids for CountingIds {
    fn v4(&self) -> Uuid {
        uuid::Builder::from_random_bytes(u128::from(self.next()).to_be_bytes()).into_uuid()
    }

    fn v7(&self, wall_ms: u64) -> Uuid {
        let mut tail = [0u8; TAIL];
        tail[2..].copy_from_slice(&self.next().to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis(wall_ms, &tail).into_uuid()
    }

    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let raw = self.next().to_be_bytes();
            chunk.copy_from_slice(&raw[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_repeat_and_sort_by_time() {
        let ids: Vec<Uuid> = (0..1000).map(|ms| RandomIds.v7(ms)).collect();
        assert!(ids.is_sorted());
        let tails: std::collections::BTreeSet<&[u8]> = ids.iter().map(|it| &it.as_bytes()[8..]).collect();
        assert_eq!(tails.len(), ids.len());
    }
}
