//! Limits on calls: the rate of each principal, then the daemon's concurrency slots.
//!
//! Not here: the limit of each connection, which `doors` counts.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conductor_core::error::{Code, RefusedBy, ToolError};
use conductor_core::policy::Tier;
use conductor_core::policy::limits::{Bucket, Class, Limits, Rate, Rates};

use super::call::{Call, Principal};
use crate::catalog::Tool;
use crate::studio::Studio;

#[derive(Default)]
pub struct Traffic {
    rates: Mutex<Rates>,
    /// The rate-limit bucket of each HTTP token that has its own rate, by token name.
    tokens: Mutex<HashMap<String, Bucket>>,
    running: Arc<AtomicUsize>,
}

/// One of the daemon's concurrency slots. Dropping this value releases the slot.
#[derive(Debug)]
pub struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Traffic {
    pub fn take(&self, limits: &Limits, principal: &Principal, class: Class, now_ms: u64) -> Result<(), u64> {
        self.rates.lock().take(limits, principal, class, now_ms)
    }

    fn take_token(&self, token: &str, per_minute: u32, now_ms: u64) -> Result<(), u64> {
        let rate = Rate { per_minute, burst: (per_minute / 6).max(1) };
        let mut tokens = self.tokens.lock();
        tokens.entry(token.to_owned()).or_insert_with(|| Bucket::full(rate, now_ms)).take(rate, now_ms)
    }

    pub fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    fn try_slot(&self, most: usize) -> Option<Slot> {
        let taken =
            self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (now < most).then_some(now + 1));
        taken.ok().map(|_| Slot(Arc::clone(&self.running)))
    }

    /// Acquires a slot for a call that released its slot while it waited for a person. Ignores the
    /// limit, because a refusal would waste the approval.
    pub fn slot_after_wait(&self) -> Slot {
        self.running.fetch_add(1, Ordering::AcqRel);
        Slot(Arc::clone(&self.running))
    }
}

/// Step 6: checks the limits.
pub fn admit(studio: &Studio, tool: &Tool, call: &Call) -> Result<Option<Slot>, super::Stop> {
    if tool.is_exempt(&call.principal) {
        return Ok(None);
    }
    let settings = studio.settings();
    let class = match tool.tier {
        Tier::ReadOnly => Class::Read,
        Tier::Stateful | Tier::ConfigChange | Tier::HardwareIo => Class::Effect,
    };
    let too_fast = |per_minute: u32, wait_ms: u64| {
        let text = format!("this caller may make {per_minute} such calls per minute. Try again in {wait_ms} ms.");
        ToolError::new(Code::RateLimited, text).retry_after_ms(wait_ms).by(RefusedBy::Limit)
    };
    if let Principal::Http { token } = &call.principal
        && let Some(per_minute) = settings.token_rates.get(token).copied()
    {
        let taken = studio.traffic.take_token(token, per_minute, studio.now_ms());
        taken.map_err(|wait_ms| too_fast(per_minute, wait_ms))?;
    }
    let taken = studio.traffic.take(&settings.limits, &call.principal, class, studio.now_ms());
    taken.map_err(|wait_ms| too_fast(settings.limits.rate(class).per_minute, wait_ms))?;
    if call.crowded {
        let text = "this connection has reached its maximum number of running calls";
        return Err(ToolError::new(Code::Busy, text).retry_after_ms(100).by(RefusedBy::Limit).into());
    }
    // AI clients that use all slots must not lock out a person.
    if call.principal.is_person() {
        return Ok(None);
    }
    match studio.traffic.try_slot(settings.limits.in_flight) {
        Some(slot) => Ok(Some(slot)),
        None => Err(ToolError::new(
            Code::Busy,
            format!("{} calls are running, which is the limit", settings.limits.in_flight),
        )
        .retry_after_ms(100)
        .into()),
    }
}
