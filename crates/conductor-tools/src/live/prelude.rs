//! Names that nearly every Live tool uses.

pub(super) use super::{Ask, Id, TOOLSET, editing, on_set, refused};
pub use crate::prelude::*;
pub use conductor_hosts::live::{Live, LiveSet, Op, blocking};
pub use conductor_set::{LiveEdit, PathId};
