//! Names that nearly every Live tool uses.

pub(super) use super::{Ask, Id, editing, on_set, refused};
pub use crate::tools::catalog::Definition;
pub use crate::tools::typed::NoArgs;
pub use conductor_core::error::{Code, ToolError};
pub use conductor_core::policy::Tier;
pub use conductor_hosts::live::{Live, LiveSet, Op, blocking};
pub use conductor_set::{LiveEdit, PathId};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use std::sync::Arc;
