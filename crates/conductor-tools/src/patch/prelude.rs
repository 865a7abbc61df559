//! Names that nearly every patch tool uses.

pub use super::answer::{EditAnswer, PatchAnswer};
pub use super::argument::{EditedPatch, Name, ObjectRef, OneEdit, PatchId};
pub(super) use super::{Asked, answer, argument, bad, change, gated, read};
pub use crate::prelude::*;
pub use conductor_hosts::patch::{Patches, Scene};
pub use conductor_patch::{Op, Outcome};
