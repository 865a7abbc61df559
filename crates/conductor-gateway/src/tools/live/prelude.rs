//! Names that nearly every Live tool uses.

pub use super::schema::{boolean, integer, list, nullable, number, object, text};
pub(super) use super::{editing, on_files, on_set, reading, refused, schema};
pub use crate::pipeline::call::Output;
pub use crate::tools::catalog::Definition;
pub(super) use crate::tools::daemon::to_output;
pub use conductor_core::error::{Code, ToolError};
pub use conductor_core::policy::Tier;
pub use conductor_hosts::live::{Live, Op, blocking};
pub use serde_json::{Value, json};
pub use std::sync::Arc;
