//! Names that nearly every `conductor_*` tool uses.

pub(super) use super::{ConfigPlan, PlanId, TOOLSET, plans, unlocked};
pub use conductor_gateway::owner_handle::OwnerHandle;
pub use crate::prelude::*;
