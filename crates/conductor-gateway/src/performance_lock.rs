//! The performance lock: while it is on, only a person changes what plays.

use crate::owner_handle::OwnerHandle;
use crate::pipeline::gate::Clearance;
use conductor_core::error::{Code, RefusedBy, ToolError};

/// Refuses the call while the performance lock is on, unless a person makes it.
pub async fn unlocked(owner: &OwnerHandle, clearance: &Clearance, what: &str) -> Result<(), ToolError> {
    if clearance.by_person() || !owner.status().await?.performance_lock {
        return Ok(());
    }
    Err(locked(what))
}

/// The error of a call that the performance lock refuses.
pub fn locked(what: &str) -> ToolError {
    ToolError::new(Code::Denied, format!("the performance lock is on: {what}")).by(RefusedBy::Policy).hint(
        "Reads and plans still work. A person switches the lock off with `conductor performance off` after the show.",
    )
}
