//! `shell.exec` and `desktop.launch`: run commands that a person allowed individually.

mod exec;
mod launch;

use conductor_gateway::catalog::{Catalog, CatalogError, Tool};
use conductor_hosts::shell::Shell;
use std::sync::Arc;

pub const TOOLSET: &str = "shell";

pub fn add(catalog: &mut Catalog, shell: &Arc<Shell>) -> Result<(), CatalogError> {
    catalog.add(Tool::new(exec::definition(shell))?)?;
    catalog.add(Tool::new(launch::definition(shell))?)
}
