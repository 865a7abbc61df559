//! What the log takes from outside: the time and random bytes.

use conductor_core::audit::Stamp;
use conductor_core::timestamp::Timestamp;
use uuid::Uuid;

pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Wall time, for records.
    fn now(&self) -> Timestamp;
    /// Milliseconds that never step, for intervals.
    fn monotonic_ms(&self) -> u64;
}

pub trait Ids: Send + Sync + std::fmt::Debug {
    /// Random bytes fit for keys.
    fn fill(&self, bytes: &mut [u8]);

    fn v4(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Sorts by time; within a millisecond the order is random, and `seq` tells.
    fn v7(&self, at: Timestamp) -> Uuid {
        let mut bytes = [0; 10];
        self.fill(&mut bytes);
        uuid::Builder::from_unix_timestamp_millis(at.as_millis(), &bytes).into_uuid()
    }

    fn bytes32(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.fill(&mut bytes);
        bytes
    }
}

/// Id and time of a record made now.
pub fn stamp(clock: &dyn Clock, ids: &dyn Ids) -> Stamp {
    let ts = clock.now();
    Stamp { id: ids.v7(ts), ts }
}
