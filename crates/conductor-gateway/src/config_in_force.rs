//! The configuration in force: its values, the file it was read from, and the parts of the file
//! that wait for a person.
//!
//! Not here: reading the file and deciding which parts take effect (both in the daemon).

use conductor_core::config::held::Held;
use conductor_core::config::{Config, Device, Diagnostic};
use conductor_core::digest::Digest;
use conductor_core::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// The configuration in force and its source.
#[derive(Debug)]
pub struct ConfigInForce {
    pub config: Arc<Config>,
    /// The text of the file, including the held parts that are not in force. Absent for the
    /// built-in configuration.
    pub text: Option<Arc<str>>,
    /// Hash of the file's raw bytes. Without a file, the hash of zero bytes, because the first plan
    /// starts from an empty file.
    pub hash: Digest,
    /// Faults that disabled single items, and warnings.
    pub diagnostics: Vec<Diagnostic>,
    pub loaded_at: Timestamp,
    pub waiting: Waiting,
    /// Digest of each section in force, for the audit log.
    pub sections: Value,
    pub mark: Option<Mark>,
}

/// The parts of the file that are not in force until a person accepts them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub held: Held,
    pub since: Option<Timestamp>,
    /// Difference between the configuration in force and the file.
    pub difference: Arc<str>,
    /// Why the configuration that was accepted earlier is not in force.
    pub closed: Option<Arc<str>>,
    /// Mappings that type keys or text and took effect without a person's approval.
    pub typing: Vec<String>,
}

impl Waiting {
    pub fn needs_a_person(&self) -> bool {
        !self.held.is_empty() || self.closed.is_some()
    }
}

impl ConfigInForce {
    /// The configuration for a daemon that cannot read a file: one empty mode.
    pub fn built_in(extra: &[Device], loaded_at: Timestamp) -> Self {
        let mut config = Config::default();
        add_devices(&mut config, extra);
        ConfigInForce {
            config: Arc::new(config),
            text: None,
            hash: Digest::of(&[]),
            diagnostics: Vec::new(),
            loaded_at,
            waiting: Waiting::default(),
            sections: json!({}),
            mark: None,
        }
    }

    pub fn hash_text(&self) -> Option<String> {
        self.text.as_ref().map(|_| self.hash.to_string())
    }

    /// Number of mappings and bindings that an error in the file disabled.
    pub fn disabled_mappings(&self) -> usize {
        let modes = self.config.modes.iter().map(|mode| &mode.rows);
        modes
            .chain([&self.config.global])
            .map(|rows| {
                rows.mappings.iter().filter(|it| it.rule.is_none()).count()
                    + rows.continuous.iter().filter(|it| it.binding.is_none()).count()
            })
            .sum()
    }
}

/// The source of the key that signs the accepted configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holder {
    /// The file `secrets/config.key`.
    Home,
    /// A key derived from the key of the secrets.
    Vault,
}

/// The record of an accepted configuration in the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub id: Uuid,
    pub generation: u64,
    pub hash: Digest,
    pub key: Holder,
}

/// Adds devices of this run that are not in the file. An alias of the file has priority.
pub fn add_devices(config: &mut Config, extra: &[Device]) {
    for device in extra {
        if config.devices.iter().all(|it| it.alias != device.alias) {
            config.devices.push(device.clone());
        }
    }
}
