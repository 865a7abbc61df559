//! The gateway: the pipeline that every call passes through, the catalog of tools, approvals and
//! plans, secrets and the audit log.
//!
//! Not here: the tools (`conductor-tools`), receiving calls (`doors` in `conductor-daemon`), and
//! access to devices and programs (`conductor-hosts`).

pub mod apps;
pub mod audit_log;
pub mod builtin;
pub mod catalog;
pub mod config_in_force;
pub mod histogram;
pub mod live;
pub mod mapping_call;
pub mod owner_handle;
pub mod pending_store;
pub mod performance_lock;
pub mod pipeline;
pub mod plans;
pub mod plugins;
pub mod report;
pub mod script;
pub mod secrets;
pub mod simulation;
pub mod studio;
pub mod surroundings;
