//! Scripts: code from a caller that makes several tool calls. Each call passes through the pipeline
//! like a direct call by the same caller, and has its own record in the audit log.
//!
//! [`run`] runs a script in a sandbox without grants and makes its calls one after another.
//! [`store`] keeps the journals of scripts that were stopped. Not here: the rules of a journal
//! (`conductor_core::script`), the sandbox (`conductor_hosts::plugin`), and the tool itself.

pub mod copies;
pub mod run;
pub mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use conductor_core::digest::Digest;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::catalog::{Catalog, Tool};

/// One script, from its first run to its end. All its calls share this value.
pub struct Execution {
    id: Uuid,
    /// The tools of a dry run, which work on copies.
    copies: Option<Arc<Catalog>>,
    /// Whether a call in a dry run would have needed an approval.
    asks: AtomicBool,
    joined: Mutex<Option<JoinedPlan>>,
}

impl Execution {
    pub fn new(id: Uuid, copies: Option<Arc<Catalog>>) -> Arc<Self> {
        Arc::new(Self { id, copies, asks: AtomicBool::new(false), joined: Mutex::default() })
    }

    /// The id of all records of this script in the audit log.
    pub fn id(&self) -> Uuid {
        self.id
    }

    pub fn is_dry_run(&self) -> bool {
        self.copies.is_some()
    }

    /// The tools of a dry run; `None` in a real run.
    pub fn copies(&self) -> Option<Arc<Catalog>> {
        self.copies.clone()
    }

    /// Notes that the current call of a dry run would have needed an approval.
    pub fn would_ask(&self) {
        self.asks.store(true, Ordering::Release);
    }

    /// Whether a call since the last query would have needed an approval.
    pub fn take_would_ask(&self) -> bool {
        self.asks.swap(false, Ordering::AcqRel)
    }

    /// The changes to the configuration that the script has planned so far.
    pub fn joined(&self) -> Option<JoinedPlan> {
        self.joined.lock().clone()
    }

    pub fn set_joined(&self, joined: Option<JoinedPlan>) {
        *self.joined.lock() = joined;
    }
}

/// The changes to the configuration that one script has planned, as one diff against the file. The
/// script's plan is stored when the script has returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinedPlan {
    /// Hash of the file from which the plan starts.
    pub base: Digest,
    /// The whole file after all changes so far.
    pub result: String,
    /// One object per change.
    pub rows: Vec<Value>,
    /// One line per change.
    pub summaries: Vec<String>,
    pub warnings: Vec<String>,
    /// Plans that this plan undoes.
    pub undoes: Vec<Uuid>,
}

/// The name of a tool in a script: its toolset, and its name without the prefix of the toolset.
pub fn function_of(tool: &Tool) -> (&str, String) {
    let set = tool.toolset.as_ref();
    let prefix = if set == "daemon" { "conductor" } else { set };
    let name = tool.safe_name();
    let verb = name.strip_prefix(prefix).and_then(|it| it.strip_prefix('_')).unwrap_or(name);
    (set, verb.replace('-', "_"))
}
