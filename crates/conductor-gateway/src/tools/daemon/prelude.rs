//! Names that nearly every `conductor_*` tool uses.

pub(super) use super::{TOOLSET, config_plan, owner_tool, parse_arguments, plan_id, plans, to_output, unlocked};
pub use crate::owner_handle::OwnerHandle;
pub use crate::pipeline::call::Output;
pub use crate::tools::catalog::Definition;
pub use crate::tools::schema_builder::{boolean, integer, list, nullable, object, said, text};
pub use crate::tools::typed::{Context, NoArgs, tool, with_args};
pub use conductor_core::error::{Code, Subject, ToolError};
pub use conductor_core::policy::Tier;
pub use schemars::JsonSchema;
pub use serde::Deserialize;
pub use serde_json::{Value, json};
pub use std::sync::Arc;
