//! Names that nearly every `conductor_*` tool uses.

pub(super) use super::{ConfigPlan, PlanId, TOOLSET};
pub use crate::prelude::*;
pub use conductor_gateway::owner_handle::OwnerHandle;
pub use conductor_gateway::performance_lock::{locked, unlocked};
pub use conductor_gateway::plans;
