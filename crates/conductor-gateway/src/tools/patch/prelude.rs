//! Names that nearly every patch tool uses.

pub use super::arguments::Arguments;
pub use super::schema::{body, cord, edit_body, edit_input, info, input, object, opened, plain};
pub(super) use super::{Asked, answer, bad, change, gated, read};
pub use crate::pipeline::call::Output;
pub use crate::tools::catalog::Definition;
pub use conductor_core::error::{Code, ToolError};
pub use conductor_hosts::patch::{Patches, Scene};
pub use conductor_patch::{Op, Outcome};
pub use serde_json::{Value, json};
pub use std::sync::Arc;
