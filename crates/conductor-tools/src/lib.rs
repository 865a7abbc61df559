//! All tools, one file per tool, and the catalog that lists them.
//!
//! Not here: permissions and limits (`pipeline`), and how a call arrives (`doors`).

pub mod catalog;
pub mod daemon;
pub mod database;
pub mod docs;
pub mod examples;
pub mod filesystem;
pub mod lint;
pub mod live;
pub mod mcp_methods;
pub mod names;
pub mod patch;
pub mod plugins;
mod prelude;
pub mod prompt;
pub mod resource;
pub mod schema;
pub mod shell;
pub mod signature;
pub mod truncate;
pub mod typed;
pub mod views;
pub mod web;
