//! Names that nearly every patch tool uses.

pub use super::answer::{EditAnswer, PatchAnswer};
pub use super::argument::{EditedPatch, Name, ObjectRef, OneEdit, PatchId};
pub(super) use super::{Asked, answer, argument, bad, change, gated, read};
pub use crate::tools::catalog::Definition;
pub use crate::tools::typed::with_args;
pub use conductor_core::error::{Code, ToolError};
pub use conductor_hosts::patch::{Patches, Scene};
pub use conductor_patch::{Op, Outcome};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use std::sync::Arc;
