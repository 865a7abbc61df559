//! Names that nearly every `conductor_*` tool uses.

pub(super) use super::{ConfigPlan, PlanId, TOOLSET, plans, unlocked};
pub use crate::owner_handle::OwnerHandle;
pub use crate::tools::catalog::Definition;
pub use crate::tools::typed::{Context, NoArgs, tool, with_args};
pub use conductor_core::error::{Code, Subject, ToolError};
pub use conductor_core::policy::Tier;
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Map, Value, json};
pub use std::sync::Arc;
