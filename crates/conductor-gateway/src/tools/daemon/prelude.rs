//! Names that nearly every `conductor_*` tool uses.

pub(super) use super::{ConfigPlan, PlanId, TOOLSET, plans, unlocked};
pub use crate::owner_handle::OwnerHandle;
pub use crate::tools::prelude::*;
