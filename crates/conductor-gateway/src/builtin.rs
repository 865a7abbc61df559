//! The built-in tools, as a value that the binary passes to the daemon.
//!
//! Not here: the tools. Their crate, `conductor-tools`, depends on this crate, and only the binary
//! and the tests depend on `conductor-tools`. A changed tool therefore recompiles neither this
//! crate nor the daemon.

use crate::catalog::{Catalog, CatalogError, Definition};
use crate::owner_handle::OwnerHandle;
use crate::script::run::Scripts;
use crate::secrets::Secrets;
use conductor_hosts::database::Databases;
use conductor_hosts::files::Files;
use conductor_hosts::live::Live;
use conductor_hosts::patch::Patches;
use conductor_hosts::shell::Shell;
use conductor_hosts::web::Web;
use std::sync::Arc;

/// For each set, the function that adds its tools, resources and prompts to a catalog.
#[derive(Clone, Copy)]
pub struct BuiltinTools {
    pub daemon: fn(&mut Catalog, &OwnerHandle) -> Result<(), CatalogError>,
    /// `conductor_run_script`, which is added when the other sets exist.
    pub scripts: fn(&mut Catalog, &Arc<Scripts>) -> Result<(), CatalogError>,
    pub patch: fn(&mut Catalog, &Arc<Patches>) -> Result<(), CatalogError>,
    pub live: fn(&mut Catalog, &Arc<Live>) -> Result<(), CatalogError>,
    pub filesystem: fn(&mut Catalog, &Arc<Files>) -> Result<(), CatalogError>,
    pub shell: fn(&mut Catalog, &Arc<Shell>) -> Result<(), CatalogError>,
    pub database: fn(&mut Catalog, &Arc<Databases>, &Arc<Secrets>) -> Result<(), CatalogError>,
    pub web: fn(&mut Catalog, &Arc<Web>) -> Result<(), CatalogError>,
    /// The tools of a dry run: they work on these copies of documents, and on the simulator.
    pub dry_run: fn(&Arc<Patches>, &Arc<Live>, &OwnerHandle) -> Vec<Definition>,
}
