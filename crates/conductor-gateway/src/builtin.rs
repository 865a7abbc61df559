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

type Added = Result<(), CatalogError>;

/// Adds the tools of a set to a catalog. The tools act on `T`.
pub type Add<T> = fn(&mut Catalog, &T) -> Added;

/// For each set, the function that adds its tools, resources and prompts to a catalog.
#[derive(Clone, Copy)]
pub struct BuiltinTools {
    pub daemon: Add<OwnerHandle>,
    /// `conductor_run_script`, which is added when the other sets exist.
    pub scripts: Add<Arc<Scripts>>,
    pub patch: Add<Arc<Patches>>,
    pub live: Add<Arc<Live>>,
    pub filesystem: Add<Arc<Files>>,
    pub shell: Add<Arc<Shell>>,
    pub database: fn(&mut Catalog, &Arc<Databases>, &Arc<Secrets>) -> Added,
    pub web: Add<Arc<Web>>,
    /// The tools of a dry run: they work on these copies of documents, and on the simulator.
    pub dry_run: fn(&Arc<Patches>, &Arc<Live>, &OwnerHandle) -> Vec<Definition>,
}
