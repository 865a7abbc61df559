//! The grants of a person to tools that access resources outside the studio: folders, commands,
//! databases, web hosts and secrets.
//!
//! Not here: the configuration sections (`conductor_core::config`), and the tools.

use crate::log::Log;
use conductor_core::config::{Config, KeyRung};
use conductor_gateway::builtin::BuiltinTools;
use conductor_gateway::catalog::{Catalog, CatalogError};
use conductor_gateway::secrets::{Scrubber, Secrets, SystemKeys};
use conductor_hosts::database::Databases;
use conductor_hosts::files::Files;
use conductor_hosts::shell::Shell;
use conductor_hosts::system::{Environment, Ids};
use conductor_hosts::web::{Web, system_tls};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

pub struct Grants {
    pub files: Arc<Files>,
    pub shell: Arc<Shell>,
    pub databases: Arc<Databases>,
    pub web: Arc<Web>,
    pub secrets: Arc<Secrets>,
    /// The sections of the configuration in force.
    known: Mutex<Option<(conductor_core::config::Tools, conductor_core::config::KeyRung)>>,
}

/// The secrets with default settings. They are used at a start, before the configuration is read.
pub(crate) fn secrets_of(home: &Path, ids: &Arc<dyn Ids>) -> Arc<Secrets> {
    let keys = SystemKeys::new(Environment::read().credentials);
    Secrets::new(home, KeyRung::default(), Box::new(keys), Arc::clone(ids), Scrubber::new())
}

#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be used on this machine: {0}")]
pub struct NoTls(#[from] rustls::Error);

impl Grants {
    pub fn new(home: &Path, config: &Config, ids: &Arc<dyn Ids>, scrubber: &Arc<Scrubber>) -> Result<Self, NoTls> {
        let environment = Environment::read();
        let user_home = environment.user_home;
        let tls = system_tls()?;
        let files = Files::new(home, user_home.clone());
        let keys = SystemKeys::new(environment.credentials);
        Ok(Grants {
            shell: Shell::new(&files, user_home.clone()),
            databases: Databases::new(home, user_home, tls.clone()),
            web: Web::new(tls),
            secrets: Secrets::new(home, config.secrets, Box::new(keys), Arc::clone(ids), Arc::clone(scrubber)),
            files,
            known: Mutex::default(),
        })
    }

    pub fn add_tools(&self, tools: &BuiltinTools, catalog: &mut Catalog) -> Result<(), CatalogError> {
        (tools.filesystem)(catalog, &self.files)?;
        (tools.shell)(catalog, &self.shell)?;
        (tools.database)(catalog, &self.databases, &self.secrets)?;
        (tools.web)(catalog, &self.web)
    }

    /// Puts a configuration in force. Opening folders is fast, and nothing else in this function
    /// blocks.
    pub fn put_in_force(&self, config: &Config, log: &Log) {
        let now = Some((config.tools.clone(), config.secrets));
        let mut known = self.known.lock();
        if *known == now {
            return;
        }
        *known = now;
        for fault in self.files.configure(&config.tools.roots) {
            log.warn(fault);
        }
        self.shell.configure(&config.tools.commands);
        self.databases.configure(&config.tools.databases);
        self.web.configure(&config.tools.web);
        self.secrets.configure(config.secrets);
        self.open_secrets(log);
    }

    /// Opens the secrets on a separate thread, because the keychain may be slow.
    pub fn open_secrets(&self, log: &Log) {
        let (secrets, log) = (Arc::clone(&self.secrets), log.clone());
        let opening = std::thread::Builder::new().name("secrets".into()).spawn(move || {
            // A home without secrets needs no key, so do not warn about a missing key.
            if let Err(fault) = secrets.open_if_any() {
                log.warn(fault);
            }
        });
        // If the thread cannot be started, the first tool that needs a secret opens the secrets.
        drop(opening);
    }
}
