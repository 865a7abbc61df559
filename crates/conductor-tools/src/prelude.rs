//! Names that nearly every tool uses.

pub use conductor_core::error::{Code, Subject, ToolError};
pub use conductor_core::policy::Tier;
pub use conductor_gateway::catalog::typed::{Context, NoArgs, parse, tool, with_args};
pub use conductor_gateway::catalog::{AskFacts, Definition, Target};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Map, Value, json};
pub use std::sync::Arc;
