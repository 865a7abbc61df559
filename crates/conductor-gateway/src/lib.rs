//! The gateway: the pipeline that every call passes through, the tools, approvals and plans,
//! secrets and the audit log.
//!
//! Not here: receiving calls (`doors` in `conductor`), and access to devices and programs
//! (`conductor-hosts`).

pub mod apps;
pub mod audit_log;
pub mod config_in_force;
pub mod histogram;
pub mod owner_handle;
pub mod pending_store;
pub mod pipeline;
pub mod report;
pub mod script;
pub mod secrets;
pub mod studio;
pub mod tools;
