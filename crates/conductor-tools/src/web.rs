//! `web.fetch`: guarded requests to the web.

mod fetch;

use conductor_gateway::catalog::{Catalog, CatalogError, Tool};
use conductor_hosts::web::Web;
use std::sync::Arc;

pub const TOOLSET: &str = "web";

pub fn add(catalog: &mut Catalog, web: &Arc<Web>) -> Result<(), CatalogError> {
    catalog.add(Tool::new(fetch::definition(web))?)
}
