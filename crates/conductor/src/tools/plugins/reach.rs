//! What an enabled plugin may reach outside its process: hosts, file roots and secrets that a person granted by name.
//!
//! Every request is judged here, by what stands in the plugin's row and never by what the process says about itself.
//! Not here: the guards themselves (`hosts::files`, `hosts::web`, `secrets`), which stand before every other tool too.

use crate::hosts::plugin::process::{Answers, LogLevel, Refusal};
use conductor_core::config::Plugin;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;

/// Where a plugin's console goes: its name, how loud, and what.
pub type Say = Arc<dyn Fn(&str, LogLevel, &str) + Send + Sync>;

/// The ways out there are, shared by all plugins.
#[derive(Clone, Default)]
pub struct Means {}

impl Means {
    pub fn has_secret(&self, _name: &str) -> bool {
        false
    }
}

pub struct Reach {
    plugin: String,
    row: Plugin,
    say: Say,
}

impl Reach {
    pub fn new(plugin: &str, row: &Plugin, _own: Vec<String>, _means: Means, say: Say) -> Arc<Self> {
        Arc::new(Reach { plugin: plugin.to_owned(), row: row.clone(), say })
    }
}

impl Answers for Reach {
    fn answer(&self, what: String, _with: Value) -> BoxFuture<'static, Result<Value, Refusal>> {
        let _ = &self.row;
        Box::pin(async move { Err(Refusal { message: format!("{what} is not granted"), code: "DENIED" }) })
    }

    fn log(&self, level: LogLevel, text: &str) {
        (self.say)(&self.plugin, level, text);
    }
}
